/* AMX: products of rows in bf16 on both sides, and of mxfp8 by way of these.
 *
 * tdpbf16ps adds to each of 16 x 16 sums 32 products, the even and the odd ones apart, in their order. One side
 * is read as it lies, of the other a register has pairs of elements of 16 rows side by side: rows are turned over
 * for that. Many rows of x are read as they lie, and all meet what has been turned of the weights. Up to 16 of
 * them are turned themselves, and weights read as they lie. A sum's bits are the same both ways, wherever in a
 * register it is and however many there are beside it. */
#include "cpu/kern/amx.h"
#include "cpu/kern/dense.h"
#include "cpu/kern/pages.h"
#include "cpu/kern/quant.h"

#define STEP 32            /* elements of a register's line */
#define ROWS 32            /* of x in flight, two registers */
#define COLS 32            /* rows of weights, the same */
#define FEW 16             /* rows of x that are turned over */
#define DEPTH 512          /* elements of weights that are turned over, or made of mxfp8, at once */
#define FEW_DEPTH 2048     /* elements of x that are turned over at once */
#define FETCHED_AHEAD 8192 /* bytes past the next rows of weights */

/* gcc does not know that tiles read memory. */
MK_INLINE void written(void) {
    __asm__ volatile("" ::: "memory");
}

/* ---- weights ---- */

/* Rows of weights: in bf16, or else in mxfp8. */
typedef struct source {
    const uint16_t *halves;
    int64_t stride;
    const mk_qrows *codes;
} source;

/* Where elements l .. l + depth - 1 of n <= COLS rows from row j on are, COLS * DEPTH of them made of mxfp8 in
 * `made`, and how far its rows are apart. */
typedef struct piece {
    const uint16_t *at;
    int64_t stride;
    intptr_t next; /* what is fetched meanwhile, in the order it lies in: lines a step */
    int lines;
} piece;

static piece piece_of(const source *s, int64_t j, int64_t n, int64_t l, int64_t depth,
                      uint16_t *made) {
    if (s->codes == NULL) {
        const uint16_t *at = s->halves + j * s->stride;
        return (piece){at + l, s->stride, (intptr_t)(at + n * s->stride + l * COLS) + FETCHED_AHEAD,
                       COLS};
    }
    mk_qrows w = mk_qrows_at(s->codes, j);
    intptr_t next = (intptr_t)mk_qrows_at(&w, n).codes + l * COLS + FETCHED_AHEAD;
    w = mk_qrows_further(w, l / 4, l / w.group);
    w.k = depth;
    mk_unpack_mxfp8_avx512bf16(&w, n, made);
    return (piece){made, depth, next, COLS / 2};
}

MK_INLINE void fetch_step(const piece *w, int64_t step) {
    for (int i = 0; i < w->lines; i++)
        mk_fetch_line(w->next + (step * w->lines + i) * 64);
}

/* ---- rows that are turned over ---- */

/* 32 elements of a row, of which n > 0 are there; zeros for the others. */
MK_INLINE __m512i load_part(const uint16_t *from, int64_t n) {
    if (n >= STEP) return _mm512_loadu_si512(from);
    return _mm512_maskz_loadu_epi16((1u << n) - 1u, from);
}

/* 32 elements of 16 rows, of which n and m are there, as 16 lines of a pair of each row. */
MK_INLINE void turn_pairs(int64_t m, int64_t n, const uint16_t *from, int64_t stride,
                          uint32_t to[16][16]) {
    __m512i r[16];
    for (int i = 0; i < 16; i++)
        r[i] = i < m ? load_part(from + i * stride, n) : _mm512_setzero_si512();
    mk_turn(r);
    for (int i = 0; i < 16; i++)
        _mm512_store_si512(to[i], r[i]);
}

/* ---- many rows of x ---- */

/* Registers of weights, by steps. */
typedef struct panel {
    _Alignas(64) uint32_t pairs[DEPTH / STEP][COLS / 16][16][16];
} panel;

static void fill_panel(int64_t n, int64_t depth, const piece *w, panel *to) {
    for (int64_t l = 0; l < depth; l += STEP) {
        fetch_step(w, l / STEP);
        for (int64_t j = 0; j < COLS; j += 16)
            turn_pairs(n - j, depth - l, w->at + (j < n ? j * w->stride : 0) + l, w->stride,
                       to->pairs[l / STEP][j / 16]);
    }
    written();
}

/* y [16 * high, COLS], or its sums so far, += x [16 * high, depth] times a panel. */
MK_INLINE void add_block(int high, bool first, int64_t depth, const uint16_t *x, int64_t x_stride,
                         const panel *w, float *y, int64_t y_stride) {
    const int64_t line = 2 * x_stride, row = 4 * y_stride;
    float *below = y + 16 * y_stride;
    if (first) {
        _tile_zero(0);
        _tile_zero(1);
        if (high > 1) _tile_zero(2);
        if (high > 1) _tile_zero(3);
    } else {
        _tile_loadd(0, y, row);
        _tile_loadd(1, y + 16, row);
        if (high > 1) _tile_loadd(2, below, row);
        if (high > 1) _tile_loadd(3, below + 16, row);
    }
    for (int64_t l = 0; l < depth; l += STEP) {
        _tile_loadd(4, x + l, line);
        _tile_loadd(6, w->pairs[l / STEP][0], 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, w->pairs[l / STEP][1], 64);
        _tile_dpbf16ps(1, 4, 7);
        if (high == 1) continue;
        _tile_loadd(5, x + 16 * x_stride + l, line);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, y, row);
    _tile_stored(1, y + 16, row);
    if (high > 1) _tile_stored(2, below, row);
    if (high > 1) _tile_stored(3, below + 16, row);
}

/* The same where fewer are there: m rows, n columns, `depth` that ends within a step. */
static void add_edge(int64_t m, int64_t n, bool first, int64_t depth, const uint16_t *x,
                     int64_t x_stride, const panel *w, float *y, int64_t y_stride) {
    _Alignas(64) uint16_t rows[ROWS][DEPTH];
    _Alignas(64) float sums[ROWS][COLS];
    int64_t high = m > 16 ? 32 : 16;
    for (int64_t i = 0; i < high; i++) {
        for (int64_t l = 0; l < depth; l += STEP)
            _mm512_store_si512(rows[i] + l, i < m ? load_part(x + i * x_stride + l, depth - l)
                                                  : _mm512_setzero_si512());
        for (int64_t j = 0; j < COLS; j += 16)
            _mm512_store_ps(sums[i] + j,
                            first || i >= m
                                ? _mm512_setzero_ps()
                                : _mm512_maskz_loadu_ps(mk_first(n - j), y + i * y_stride + j));
    }
    written();
    if (high == 32)
        add_block(2, false, depth, rows[0], DEPTH, w, sums[0], COLS);
    else
        add_block(1, false, depth, rows[0], DEPTH, w, sums[0], COLS);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < COLS; j += 16)
            _mm512_mask_storeu_ps(y + i * y_stride + j, mk_first(n - j),
                                  _mm512_load_ps(sums[i] + j));
}

/* All rows of x times the first `depth` elements of n <= COLS rows of weights. */
static void add_columns(int64_t m, int64_t n, bool first, int64_t depth, const uint16_t *x,
                        int64_t x_stride, const panel *w, float *y, int64_t y_stride) {
    for (int64_t i = 0; i < m; i += ROWS, x += ROWS * x_stride, y += ROWS * y_stride) {
        int64_t rows = m - i < ROWS ? m - i : ROWS;
        if (rows % 16 != 0 || n < COLS || depth % STEP != 0)
            add_edge(rows, n, first, depth, x, x_stride, w, y, y_stride);
        else if (rows > 16)
            add_block(2, first, depth, x, x_stride, w, y, y_stride);
        else
            add_block(1, first, depth, x, x_stride, w, y, y_stride);
    }
}

static void many_product(int64_t m, int64_t n, int64_t k, const uint16_t *x, int64_t x_stride,
                         const source *s, int64_t first, float *y, int64_t y_stride) {
    panel turned;
    uint16_t made[COLS * DEPTH];
    mk_amx_configure(64);
    for (int64_t l = 0; l < k; l += DEPTH) {
        int64_t depth = k - l < DEPTH ? k - l : DEPTH;
        for (int64_t j = first; j < n; j += COLS) {
            int64_t cols = n - j < COLS ? n - j : COLS;
            piece w = piece_of(s, j, cols, l, depth, made);
            fill_panel(cols, depth, &w, &turned);
            add_columns(m, cols, l == 0, depth, x + l, x_stride, &turned, y + j, y_stride);
        }
    }
    _tile_release();
}

/* ---- a few rows of x ---- */

/* FEW_DEPTH elements of x, turned over. One row is pairs as it lies. */
typedef struct few {
    _Alignas(64) uint32_t pairs[FEW_DEPTH / 2][16];
} few;

/* y [m, 16], or zeros, as a register of sums has it. */
MK_INLINE void load_sums(int64_t m, bool first, const float *y, int64_t y_stride,
                         float to[16][16]) {
    __m512i r[16];
    for (int i = 0; i < 16; i++)
        r[i] = first || i >= m ? _mm512_setzero_si512() : _mm512_loadu_si512(y + i * y_stride);
    mk_turn(r);
    for (int i = 0; i < 16; i++)
        _mm512_store_si512(to[i], r[i]);
}

MK_INLINE void store_sums(int64_t m, float from[16][16], float *y, int64_t y_stride) {
    __m512i r[16];
    for (int i = 0; i < 16; i++)
        r[i] = _mm512_load_si512(from[i]);
    mk_turn(r);
    for (int i = 0; i < m; i++)
        _mm512_storeu_si512(y + i * y_stride, r[i]);
}

/* y [m, COLS], or its sums so far, += x [m, depth] in pairs, `line` bytes apart, times COLS rows of weights. */
static void add_few(int64_t m, bool first, int64_t at, int64_t depth, const void *pairs,
                    int64_t line, const source *s, int64_t j, float *y, int64_t y_stride) {
    _Alignas(64) float sums[2][16][16];
    uint16_t made[COLS * DEPTH];
    for (int h = 0; h < 2; h++)
        load_sums(m, first, y + 16 * h, y_stride, sums[h]);
    written();
    _tile_loadd(0, sums[0], 64);
    _tile_loadd(1, sums[1], 64);
    for (int64_t l = 0; l < depth; l += DEPTH) {
        int64_t part = depth - l < DEPTH ? depth - l : DEPTH;
        piece w = piece_of(s, j, COLS, at + l, part, made);
        written();
        for (int64_t i = 0; i < part; i += STEP) {
            fetch_step(&w, i / STEP);
            _tile_loadd(6, (const char *)pairs + (l + i) / 2 * line, line);
            _tile_loadd(4, w.at + i, 2 * w.stride);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(5, w.at + 16 * w.stride + i, 2 * w.stride);
            _tile_dpbf16ps(1, 5, 6);
        }
    }
    _tile_stored(0, sums[0], 64);
    _tile_stored(1, sums[1], 64);
    for (int h = 0; h < 2; h++)
        store_sums(m, sums[h], y + 16 * h, y_stride);
}

/* m <= FEW, n a multiple of COLS, k of STEP. */
static void few_product(int64_t m, int64_t n, int64_t k, const uint16_t *x, int64_t x_stride,
                        const source *s, float *y, int64_t y_stride) {
    few turned;
    mk_amx_configure((int)(4 * m));
    for (int64_t l = 0; l < k; l += FEW_DEPTH) {
        int64_t depth = k - l < FEW_DEPTH ? k - l : FEW_DEPTH;
        const void *pairs = m == 1 ? (const void *)(x + l) : turned.pairs;
        for (int64_t i = 0; m > 1 && i < depth; i += STEP)
            turn_pairs(m, STEP, x + l + i, x_stride, turned.pairs + i / 2);
        for (int64_t j = 0; j < n; j += COLS)
            add_few(m, l == 0, l, depth, pairs, m == 1 ? 4 : 64, s, j, y + j, y_stride);
    }
    _tile_release();
}

static void product(int64_t m, int64_t n, int64_t k, const uint16_t *x, int64_t x_stride,
                    const source *s, float *y, int64_t y_stride) {
    int64_t done = m <= FEW && k % STEP == 0 ? n / COLS * COLS : 0;
    if (done > 0) few_product(m, done, k, x, x_stride, s, y, y_stride);
    if (done < n) many_product(m, n, k, x, x_stride, s, done, y, y_stride);
}

static void matmul_bf16(int64_t m, int64_t n, int64_t k, const uint16_t *x, int64_t x_stride,
                        const uint16_t *w, int64_t w_stride, float *y, int64_t y_stride) {
    product(m, n, k, x, x_stride, &(source){.halves = w, .stride = w_stride}, y, y_stride);
}

static void matmul_mxfp8(const mk_qrows *w, int64_t n, int64_t m, const uint16_t *x,
                         int64_t x_stride, float *y, int64_t y_stride) {
    product(m, n, w->k, x, x_stride, &(source){.codes = w}, y, y_stride);
}

void mk_dense_amx(mk_kernels *kernels) {
    kernels->matmul_bf16 = matmul_bf16;
    kernels->matmul_mxfp8 = matmul_mxfp8;
    kernels->bf16_columns = 2 * COLS;
    kernels->bf16_products = true;
}
