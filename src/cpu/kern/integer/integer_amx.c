/* AMX: 32 rows, or 16, times two panels, or one, whose words are what a register's lines hold.
 *
 * The words of a row over all taps are one sequence. Rows that lie at equal distances, each in one
 * piece, are read in place; of others STEPS steps are copied at a time, and sums go by way of y
 * from one copy to the next. */
#include "cpu/kern/amx.h"
#include "cpu/kern/integer/integer.h"

#include <string.h>

#define LINES MK_AMX_LINES
#define HIGH 2       /* times 16 rows in flight */
#define WIDE 2       /* panels */
#define STEP 16      /* words of a line */
#define STEPS 16     /* copied at once */
#define MIN_WORDS 24 /* of fewer, registers are mostly empty */

typedef int32_t line[STEP];

/* Words [begin, begin + count) of the sequences of high * LINES rows, zeros behind them. */
typedef struct part {
    const char *x; /* of row i and step l at i x_line + l x_step */
    int64_t x_line, x_step;
    int64_t begin, count;
} part;

static int64_t min_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The words of a row: to[l] has line l of it. */
static void copy_row(int64_t words, const void *const *taps, int64_t begin, int64_t count,
                     line (*to)[HIGH * LINES]) {
    const char *const *tap = (const char *const *)taps + begin / words;
    int64_t l = begin % words, at = 0, n;
    if (count % STEP != 0) _mm512_storeu_si512(to[count / STEP], _mm512_setzero_si512());
    for (; at < count; at += n, l += n) {
        if (l == words) tap++, l = 0;
        n = min_of(min_of(words - l, count - at), STEP - at % STEP);
        __m512i v = _mm512_maskz_loadu_epi32(mk_first(n), *tap + l * 4);
        _mm512_mask_storeu_epi32(&to[at / STEP][0][at % STEP], mk_first(n), v);
    }
}

static void copy_part(int high, int64_t taps, int64_t words, const void *const *rows, part *p,
                      line (*to)[HIGH * LINES]) {
    for (int i = 0; i < high * LINES; i++)
        copy_row(words, rows + i * taps, p->begin, p->count, (line(*)[HIGH * LINES])(to[0] + i));
    p->x = (const char *)to;
    p->x_line = sizeof(line);
    p->x_step = sizeof *to;
    mk_amx_written();
}

/* The distance of rows of one tap; 0: there is no one. */
static int64_t distance_of(int64_t n, const void *const *rows) {
    const int64_t step = (const char *)rows[1] - (const char *)rows[0];
    for (int64_t i = 2; i < n; i++)
        if ((const char *)rows[i] - (const char *)rows[i - 1] != step) return 0;
    return step;
}

/* Adds the part's products with panels of w, which are w_panel words apart, to y. What the first
 * part is added to: the same words in each line of `start`, or 0. */
MK_INLINE void add_panels(int high, int wide, const part *p, const int32_t *w, int64_t w_panel,
                          const int32_t *start, int32_t *y, int64_t y_stride) {
    const char *x = p->x, *x2 = x + LINES * p->x_line;
    int32_t *y2 = y + LINES * y_stride;
    if (p->begin == 0 && start) {
        _tile_loadd(0, start, 0);
        if (wide > 1) _tile_loadd(1, start + MK_PANEL, 0);
        if (high > 1) _tile_loadd(2, start, 0);
        if (high > 1 && wide > 1) _tile_loadd(3, start + MK_PANEL, 0);
    } else if (p->begin == 0) {
        _tile_zero(0);
        if (wide > 1) _tile_zero(1);
        if (high > 1) _tile_zero(2);
        if (high > 1 && wide > 1) _tile_zero(3);
    } else {
        _tile_loadd(0, y, y_stride * 4);
        if (wide > 1) _tile_loadd(1, y + MK_PANEL, y_stride * 4);
        if (high > 1) _tile_loadd(2, y2, y_stride * 4);
        if (high > 1 && wide > 1) _tile_loadd(3, y2 + MK_PANEL, y_stride * 4);
    }
    for (int64_t l = 0; l < p->count; l += STEP, x += p->x_step, x2 += p->x_step) {
        _tile_loadd(4, x, p->x_line);
        _tile_loadd(6, w + l * MK_PANEL, 64);
        _tile_dpbusd(0, 4, 6);
        if (wide > 1) {
            _tile_loadd(7, w + w_panel + l * MK_PANEL, 64);
            _tile_dpbusd(1, 4, 7);
        }
        if (high > 1) {
            _tile_loadd(5, x2, p->x_line);
            _tile_dpbusd(2, 5, 6);
        }
        if (high > 1 && wide > 1) _tile_dpbusd(3, 5, 7);
    }
    _tile_stored(0, y, y_stride * 4);
    if (wide > 1) _tile_stored(1, y + MK_PANEL, y_stride * 4);
    if (high > 1) _tile_stored(2, y2, y_stride * 4);
    if (high > 1 && wide > 1) _tile_stored(3, y2 + MK_PANEL, y_stride * 4);
}

static void add_any(int high, int wide, const part *p, const int32_t *w, int64_t w_panel,
                    const int32_t *start, int32_t *y, int64_t y_stride) {
    if (high > 1 && wide > 1)
        add_panels(2, 2, p, w, w_panel, start, y, y_stride);
    else if (high > 1)
        add_panels(2, 1, p, w, w_panel, start, y, y_stride);
    else if (wide > 1)
        add_panels(1, 2, p, w, w_panel, start, y, y_stride);
    else
        add_panels(1, 1, p, w, w_panel, start, y, y_stride);
}

/* All panels. The last step of the last ones reads a copy: it ends behind their memory. */
static void add_part(int high, const part *p, int64_t n, const int32_t *panels, int64_t w_panel,
                     const int32_t *start, int32_t *y, int64_t y_stride) {
    const int64_t whole = p->count / STEP * STEP;
    for (int64_t j = 0; j < n; j += WIDE * MK_PANEL) {
        const int wide = n - j > MK_PANEL ? 2 : 1;
        const int32_t *w = panels + j / MK_PANEL * w_panel + p->begin * MK_PANEL;
        const int32_t *from = start ? start + j : NULL;
        if (whole == p->count || j + WIDE * MK_PANEL < n) {
            add_any(high, wide, p, w, w_panel, from, y + j, y_stride);
            continue;
        }
        _Alignas(64) int32_t last[WIDE][STEP * MK_PANEL] = {{0}};
        part before = *p, rest = *p;
        for (int k = 0; k < wide; k++)
            memcpy(last[k], w + k * w_panel + whole * MK_PANEL,
                   (size_t)((p->count - whole) * MK_PANEL) * sizeof *w);
        mk_amx_written();
        before.count = whole;
        if (whole > 0) add_any(high, wide, &before, w, w_panel, from, y + j, y_stride);
        rest.x += whole / STEP * p->x_step;
        rest.begin += whole;
        rest.count -= whole;
        add_any(high, wide, &rest, last[0], STEP * MK_PANEL, from, y + j, y_stride);
    }
}

static void add_rows(int high, int64_t n, int64_t taps, int64_t words, const void *const *rows,
                     const int32_t *panels, const int32_t *start, int32_t *y, int64_t y_stride) {
    line copy[STEPS][HIGH * LINES];
    const int64_t all = taps * words;
    const int64_t distance = taps == 1 && words % STEP == 0 ? distance_of(high * LINES, rows) : 0;
    if (distance != 0) {
        part p = {rows[0], distance, sizeof(line), 0, all};
        add_part(high, &p, n, panels, all * MK_PANEL, start, y, y_stride);
        return;
    }
    for (int64_t begin = 0; begin < all; begin += STEPS * STEP) {
        part p = {.begin = begin, .count = min_of(STEPS * STEP, all - begin)};
        copy_part(high, taps, words, rows, &p, copy);
        add_part(high, &p, n, panels, all * MK_PANEL, start, y, y_stride);
    }
}

static void int_panels(int64_t m, int64_t n, int64_t taps, int64_t words, const void *const *rows,
                       const int32_t *panels, const int32_t *start, int32_t *y, int64_t y_stride) {
    const int64_t whole = taps * words < MIN_WORDS ? 0 : m / LINES * LINES;
    if (whole > 0) mk_amx_configure(64);
    for (int64_t i = 0, high; i < whole; i += high * LINES) {
        high = whole - i > LINES ? 2 : 1;
        add_rows((int)high, n, taps, words, rows + i * taps, panels, start, y + i * y_stride,
                 y_stride);
    }
    if (whole > 0) _tile_release();
    if (whole < m)
        mk_int_panels_vnni256(m - whole, n, taps, words, rows + whole * taps, panels, start,
                              y + whole * y_stride, y_stride);
}

void mk_integer_amx(mk_kernels *kernels) {
    kernels->int_panels = int_panels;
}
