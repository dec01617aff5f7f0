/* AMX: matmuls in bf16 on both sides, and mxfp8 weights converted to bf16.
 *
 * One side is transposed: a tile register then has pairs of elements of 16 rows side by side. With
 * many rows of activations the weights are transposed, and the activations are read in place. With
 * up to 16 rows the activations are transposed, and the weights are read in place. Two cases
 * transpose weights all the same: the last rows of weights, fewer than 32, and rows that end within
 * a register. A sum has the same bits both ways. */
#include "cpu/kern/amx_bf16.h"
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/pages.h"
#include "cpu/kern/quant/quant.h"

#define FEW LINES              /* rows of activations that are transposed */
#define DEPTH 512              /* elements of weights that are transposed at once */
#define MADE 256               /* elements converted from mxfp8 at once */
#define FEW_DEPTH 1024         /* elements of activations that are transposed at once */
#define PREFETCH_DISTANCE 8192 /* bytes past the next rows of weights */

/* ---- weights ---- */

/* Rows of weights: bf16, or mxfp8 where codes is set. */
typedef struct source {
    const uint16_t *halves;
    int64_t stride;
    const mk_qrows *codes;
} source;

/* Elements l .. l + depth - 1 of n <= WIDE rows from row j on. */
typedef struct piece {
    const uint16_t *at;
    int64_t stride;
    intptr_t next; /* what is prefetched meanwhile, in the order in memory */
    int64_t lines; /* prefetched a step */
} piece;

/* Elements of a row in one piece. */
static int64_t max_of(const source *s) {
    return !s->codes ? DEPTH : MADE;
}

/* made: room for WIDE * MADE elements, for mxfp8 converted to bf16. */
static piece piece_of(const source *s, int64_t j, int64_t n, int64_t l, int64_t depth,
                      uint16_t *made) {
    if (!s->codes) {
        const uint16_t *at = s->halves + j * s->stride;
        intptr_t next = (intptr_t)at + 2 * n * (s->stride + l) + mk_ahead(PREFETCH_DISTANCE);
        return (piece){at + l, s->stride, next, n};
    }
    mk_qrows w = mk_qrows_at(s->codes, j);
    intptr_t next = (intptr_t)w.codes + n * (4 * w.codes_stride + l) + mk_ahead(PREFETCH_DISTANCE);
    w = mk_qrows_further(w, l / 4, l / w.group);
    w.k = depth;
    mk_unpack_mxfp8_avx512bf16(&w, n, made);
    return (piece){made, depth, next, n / 2};
}

MK_INLINE void prefetch_step(const piece *w, int64_t step) {
    for (int64_t i = 0; i < w->lines; i++)
        mk_prefetch_line(w->next + (step * w->lines + i) * 64);
}

/* ---- rows that are transposed ---- */

/* 32 elements of 16 rows as 16 lines, each with a pair of every row. n elements and m rows are
 * there, the others are zero. */
MK_INLINE void transpose_pairs(int64_t m, int64_t n, const uint16_t *from, int64_t stride,
                               uint32_t to[LINES][LINES]) {
    __m512i r[LINES];
    for (int i = 0; i < LINES; i++)
        r[i] = i < m ? mk_load_halves(from + i * stride, n) : _mm512_setzero_si512();
    mk_transpose(r);
    for (int i = 0; i < LINES; i++)
        _mm512_store_si512(to[i], r[i]);
}

/* ---- many rows of activations ---- */

static void fill_panel(int64_t n, int64_t depth, const piece *w, paired *to) {
    for (int64_t l = 0; l < depth; l += STEP) {
        prefetch_step(w, l / STEP);
        for (int64_t j = 0; j < WIDE; j += LINES)
            transpose_pairs(n - j, depth - l, w->at + (j < n ? j * w->stride : 0) + l, w->stride,
                            to[l / STEP].pairs[j / LINES]);
    }
    mk_amx_written();
}

/* All rows of weights from j on. With k = 0 the loop still runs once, which stores zeros. */
static void many_matmul(int64_t m, int64_t j, int64_t n, int64_t k, const uint16_t *x,
                        int64_t x_stride, const source *s, float *y, int64_t y_stride) {
    paired panel[DEPTH / STEP];
    uint16_t made[WIDE * MADE];
    mk_amx_configure(64);
    for (; j < n; j += WIDE) {
        int64_t cols = n - j < WIDE ? n - j : WIDE, max = max_of(s);
        for (int64_t l = 0; l == 0 || l < k; l += max) {
            int64_t depth = k - l < max ? k - l : max;
            piece w = piece_of(s, j, cols, l, depth, made);
            fill_panel(cols, depth, &w, panel);
            add_columns(m, cols, l == 0, depth, x + l, x_stride, panel, y + j, y_stride);
        }
    }
    _tile_release();
}

/* ---- a few rows of activations ---- */

/* y [m, LINES] transposed, as a tile register holds sums. Zeros for the first part. */
MK_INLINE void load_sums(int64_t m, bool first, const float *y, int64_t y_stride,
                         float to[LINES][LINES]) {
    __m512i r[LINES];
    for (int i = 0; i < LINES; i++)
        r[i] = first || i >= m ? _mm512_setzero_si512() : _mm512_loadu_si512(y + i * y_stride);
    mk_transpose(r);
    for (int i = 0; i < LINES; i++)
        _mm512_store_si512(to[i], r[i]);
}

MK_INLINE void store_sums(int64_t m, float from[LINES][LINES], float *y, int64_t y_stride) {
    __m512i r[LINES];
    for (int i = 0; i < LINES; i++)
        r[i] = _mm512_load_si512(from[i]);
    mk_transpose(r);
    for (int i = 0; i < m; i++)
        _mm512_storeu_si512(y + i * y_stride, r[i]);
}

/* y [m, WIDE] = x [m, depth] times WIDE rows of weights from row j and element `at` on; += where
 * not first. Lines of pairs of x are `line` bytes apart. */
static void add_few(int64_t m, bool first, int64_t at, int64_t depth, const void *pairs,
                    int64_t line, const source *s, int64_t j, float *y, int64_t y_stride) {
    _Alignas(64) float sums[2][LINES][LINES];
    uint16_t made[WIDE * MADE];
    const int64_t max = max_of(s);
    for (int h = 0; h < 2; h++)
        load_sums(m, first, y + h * LINES, y_stride, sums[h]);
    mk_amx_written();
    _tile_loadd(0, sums[0], 64);
    _tile_loadd(1, sums[1], 64);
    for (int64_t l = 0; l < depth; l += max) {
        int64_t part = depth - l < max ? depth - l : max;
        piece w = piece_of(s, j, WIDE, at + l, part, made);
        mk_amx_written();
        for (int64_t i = 0; i < part; i += STEP) {
            prefetch_step(&w, i / STEP);
            _tile_loadd(6, (const char *)pairs + (l + i) / 2 * line, line);
            _tile_loadd(4, w.at + i, 2 * w.stride);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(5, w.at + LINES * w.stride + i, 2 * w.stride);
            _tile_dpbf16ps(1, 5, 6);
        }
    }
    _tile_stored(0, sums[0], 64);
    _tile_stored(1, sums[1], 64);
    for (int h = 0; h < 2; h++)
        store_sums(m, sums[h], y + h * LINES, y_stride);
}

/* m <= FEW, n a multiple of WIDE, k of STEP. One row of activations has its pairs in place. */
static void few_matmul(int64_t m, int64_t n, int64_t k, const uint16_t *x, int64_t x_stride,
                       const source *s, float *y, int64_t y_stride) {
    _Alignas(64) uint32_t own[FEW_DEPTH / 2][LINES];
    mk_amx_configure((int)(4 * m));
    for (int64_t l = 0; l == 0 || l < k; l += FEW_DEPTH) {
        int64_t depth = k - l < FEW_DEPTH ? k - l : FEW_DEPTH;
        const void *pairs = m == 1 ? (const void *)(x + l) : own;
        for (int64_t i = 0; m > 1 && i < depth; i += STEP)
            transpose_pairs(m, STEP, x + l + i, x_stride, own + i / 2);
        for (int64_t j = 0; j < n; j += WIDE)
            add_few(m, l == 0, l, depth, pairs, m == 1 ? 4 : 64, s, j, y + j, y_stride);
    }
    _tile_release();
}

static void matmul(int64_t m, int64_t n, int64_t k, const uint16_t *x, int64_t x_stride,
                   const source *s, float *y, int64_t y_stride) {
    int64_t done = m <= FEW && k % STEP == 0 ? n / WIDE * WIDE : 0;
    if (done > 0) few_matmul(m, done, k, x, x_stride, s, y, y_stride);
    if (done < n) many_matmul(m, done, n, k, x, x_stride, s, y, y_stride);
}

void mk_matmul_bf16_amx(int64_t m, int64_t n, int64_t k, const uint16_t *x, int64_t x_stride,
                        const uint16_t *w, int64_t w_stride, float *y, int64_t y_stride) {
    matmul(m, n, k, x, x_stride, &(source){.halves = w, .stride = w_stride}, y, y_stride);
}

static void matmul_mxfp8(const mk_qrows *w, int64_t n, int64_t m, const uint16_t *x,
                         int64_t x_stride, float *y, int64_t y_stride) {
    matmul(m, n, w->k, x, x_stride, &(source){.codes = w}, y, y_stride);
}

void mk_dense_amx(mk_kernels *kernels) {
    kernels->matmul_bf16 = mk_matmul_bf16_amx;
    kernels->bf16_matmul = true;
    kernels->bf16_columns = 2 * WIDE;
}

void mk_quant_amx(mk_kernels *kernels) {
    kernels->matmul_mxfp8 = matmul_mxfp8;
}
