/* AVX-512 with VNNI and VBMI: a filter for each channel, by words of four lines of a window.
 *
 * Bytes of one place in four lines become a word of each channel, once for all windows that have
 * the place: those that follow each other along the last axis with a stride of 1. */
#include "cpu/kern/avx512.h"
#include "cpu/kern/integer/integer.h"

#define LANES 16 /* channels of a register */
#define REGS 4
#define LINES 4 /* of a word */
#define MAX_WIDTH 5

static int64_t groups_of(int64_t lines) {
    return (lines + LINES - 1) / LINES;
}

static int64_t padded(int64_t n) {
    return (n + LANES - 1) / LANES * LANES;
}

/* [width, groups, padded n, LINES] */
static void int_pack_taps(int64_t n, int64_t lines, int64_t width, const int8_t *w, int8_t *to) {
    for (int64_t j = 0; j < width; j++)
        for (int64_t g = 0; g < groups_of(lines); g++)
            for (int64_t c = 0; c < padded(n); c++)
                for (int64_t k = g * LINES; k < (g + 1) * LINES; k++)
                    *to++ = (int8_t)(c < n && k < lines ? w[(c * lines + k) * width + j] : 0);
}

/* Where the bytes of two lines go: pairs of channels 4 q to 4 q + 3 to quarter q, in front, and of
 * the next 16 channels behind. */
#define PAIR(c) (c), 64 + (c)
#define FOUR(c) PAIR(c), PAIR((c) + 1), PAIR((c) + 2), PAIR((c) + 3)
#define QUARTERS(c)                                                                            \
    {                                                                                          \
        FOUR(c), FOUR(16 + (c)), FOUR(4 + (c)), FOUR(20 + (c)), FOUR(8 + (c)), FOUR(24 + (c)), \
            FOUR(12 + (c)), FOUR(28 + (c))                                                     \
    }
static const uint8_t pairs_of[2][64] = {QUARTERS(0), QUARTERS(32)};

/* Words of `regs` times 16 channels from `at` on; lines are `step` rows apart. */
MK_INLINE void weave(int regs, int64_t lines, const uint8_t *const *rows, int64_t step, int64_t at,
                     __mmask64 some, __m512i x[REGS]) {
    __m512i line[LINES];
    if (lines == 1) {
#pragma GCC unroll 4
        for (int k = 0; k < regs; k++)
            x[k] = _mm512_cvtepu8_epi32(
                _mm_maskz_loadu_epi8((__mmask16)(some >> k * LANES), rows[0] + at + k * LANES));
        return;
    }
#pragma GCC unroll 4
    for (int k = 0; k < LINES; k++)
        line[k] =
            k < lines ? _mm512_maskz_loadu_epi8(some, rows[k * step] + at) : _mm512_setzero_si512();
#pragma GCC unroll 2
    for (int k = 0; k < regs; k += 2) {
        const __m512i order = _mm512_loadu_si512(pairs_of[k / 2]);
        __m512i a = _mm512_permutex2var_epi8(line[0], order, line[1]);
        __m512i b = _mm512_permutex2var_epi8(line[2], order, line[3]);
        x[k] = _mm512_unpacklo_epi16(a, b);
        if (k + 1 < regs) x[k + 1] = _mm512_unpackhi_epi16(a, b);
    }
}

/* Channels of a call, from `at` on. */
typedef struct some_channels {
    const mk_taps *filters;
    int64_t at, step; /* step: bytes of a group's filters */
    __mmask64 bytes;  /* that are there */
    int32_t *y;
    int64_t y_stride;
} some_channels;

MK_INLINE __m512i start_of(const some_channels *c, int k) {
    const int32_t *start = c->filters->start;
    return start ? _mm512_loadu_si512(start + c->at + k * LANES) : _mm512_setzero_si512();
}

MK_INLINE void add_words(int regs, const some_channels *c, int64_t group, const __m512i x[REGS],
                         __m512i sum[REGS]) {
    const int8_t *w = c->filters->w + group * c->step + c->at * LINES;
#pragma GCC unroll 4
    for (int k = 0; k < regs; k++)
        sum[k] = _mm512_dpbusd_epi32(sum[k], x[k], _mm512_loadu_si512(w + k * LANES * LINES));
}

MK_INLINE void store_sums(int regs, const some_channels *c, int64_t window,
                          const __m512i sum[REGS]) {
#pragma GCC unroll 4
    for (int k = 0; k < regs; k++)
        _mm512_storeu_si512(c->y + window * c->y_stride + k * LANES, sum[k]);
}

/* The size of a window may be constant. */
MK_INLINE void run_window(int regs, int64_t lines, int64_t width, const some_channels *c,
                          int64_t window, const uint8_t *const *rows) {
    const int64_t groups = groups_of(lines);
    __m512i sum[REGS], x[REGS];
#pragma GCC unroll 4
    for (int k = 0; k < regs; k++)
        sum[k] = start_of(c, k);
    for (int64_t j = 0; j < width; j++)
        for (int64_t g = 0; g < groups; g++) {
            weave(regs, lines - g * LINES, rows + g * LINES * width + j, width, c->at, c->bytes, x);
            add_words(regs, c, j * groups + g, x, sum);
        }
    store_sums(regs, c, window, sum);
}

/* Windows [0, count), each a place further than the one before. A place is added to all windows
 * that have it; those that are none are not stored. */
MK_INLINE void run_shared(int regs, int lines, int width, const some_channels *c, int64_t count,
                          const uint8_t *const *rows) {
    const int64_t taps = lines * width, groups = groups_of(lines), places = count + width - 1;
    __m512i sum[MAX_WIDTH][REGS], x[REGS];
#pragma GCC unroll 5
    for (int i = 0; i < width; i++)
#pragma GCC unroll 4
        for (int k = 0; k < regs; k++)
            sum[i][k] = _mm512_setzero_si512();
    for (int64_t first = 0; first < places; first += width)
#pragma GCC unroll 5
        for (int phase = 0; phase < width; phase++) {
            const int64_t place = first + phase, further = place < count ? 0 : place - count + 1;
            if (place == places) return;
            const uint8_t *const *from = rows + (place - further) * taps + further;
#pragma GCC unroll 4
            for (int k = 0; k < regs; k++)
                sum[phase][k] = start_of(c, k);
#pragma GCC unroll 2
            for (int g = 0; g < groups; g++) {
                weave(regs, lines - g * LINES, from + g * LINES * width, width, c->at, c->bytes, x);
#pragma GCC unroll 5
                for (int j = 0; j < width; j++)
                    add_words(regs, c, j * groups + g, x, sum[(phase - j + width) % width]);
            }
            if (place >= width - 1)
                store_sums(regs, c, place - width + 1, sum[(phase + 1) % width]);
        }
}

/* Whether a window is a place further than the one before it. */
static bool is_next(const mk_taps *f, const uint8_t *const *rows) {
    const int64_t taps = f->lines * f->width;
    for (int64_t line = 0; line < taps; line += f->width)
        for (int64_t j = line; j < line + f->width - 1; j++)
            if (rows[j + 1] != rows[taps + j]) return false;
    return true;
}

static int64_t count_shared(int64_t m, const mk_taps *f, const uint8_t *const *rows) {
    int64_t count = 1;
    while (count < m && is_next(f, rows + (count - 1) * f->lines * f->width))
        count++;
    return count;
}

/* Windows [0, count), each a place further than the one before it, of `regs` times 16 channels. */
MK_INLINE void run_channels(int regs, const some_channels *c, int64_t count,
                            const uint8_t *const *rows) {
    const mk_taps *f = c->filters;
    if (count > 1 && f->width == 3 && f->lines == 3)
        run_shared(regs, 3, 3, c, count, rows);
    else if (f->width == 3 && f->lines == 3)
        run_window(regs, 3, 3, c, 0, rows);
    else
        for (int64_t i = 0; i < count; i++)
            run_window(regs, f->lines, f->width, c, i, rows + i * f->lines * f->width);
}

/* The sums of five windows leave registers for half of the channels. */
MK_INLINE void run_channels_5(int regs, const some_channels *c, int64_t count,
                              const uint8_t *const *rows) {
    run_shared(regs, 5, 5, c, count, rows);
}

static void int_taps(int64_t m, const uint8_t *const *rows, const mk_taps *filters, int64_t begin,
                     int64_t end, int32_t *y, int64_t y_stride) {
    const mk_taps f = *filters;
    some_channels c = {&f, .step = padded(f.n) * LINES, .y_stride = y_stride};
    for (int64_t i = 0, count; i < m; i += count, rows += count * f.lines * f.width) {
        count = count_shared(m - i, &f, rows);
        const bool five = count > 1 && f.width == 5 && f.lines == 5;
        const int64_t wide = five ? 2 * LANES : REGS * LANES;
        for (c.at = begin; c.at < end; c.at += wide) {
            const int64_t left = end - c.at < wide ? end - c.at : wide, regs = padded(left) / LANES;
            c.bytes = left < 64 ? ((__mmask64)1 << left) - 1 : ~(__mmask64)0;
            c.y = y + i * y_stride + c.at - begin;
            if (five)
                MK_WITH_ROWS(regs, 2, run_channels_5(MK_R, &c, count, rows));
            else
                MK_WITH_ROWS(regs, REGS, run_channels(MK_R, &c, count, rows));
        }
    }
}

void mk_integer_avx512vnni(mk_kernels *kernels) {
    kernels->int_pack_taps = int_pack_taps;
    kernels->int_taps = int_taps;
    kernels->int_lines = LINES;
}
