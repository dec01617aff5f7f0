/* AMX: scores are products of tiles in bf16. For values, pairs of keys are packed, 64 columns of up
 * to DEPTH keys at once, and multiplied by all rows of weights. Values of 32 keys are summed
 * together; keys past the last count as zeros.
 *
 * A few rows of weights are multiplied in f32, for packing pairs would take longer than the matmul.
 * To have the same bits, the sums do what tdpbf16ps does: even and odd keys have separate sums,
 * each product is added with one rounding, and subnormal numbers are zeros. */
#include "cpu/kern/amx_bf16.h"
#include "cpu/kern/attn/attn_pairs.h"
#include "cpu/kern/dense/dense.h"

#define DEPTH 256                 /* keys packed in pairs at once */
#define PANELS (COLS * 16 / WIDE) /* panels of WIDE columns packed together */
/* max rows of weights in registers: 6 x 4 sums and 4 operands fit 32 */
#define FEW 6
/* MXCSR: subnormals are zeros, round to nearest even, no exceptions */
#define NO_SUBNORMALS 0x9fc0u

/* ---- many rows ---- */

/* Packs n keys in pairs, `cols` of 16 * COLS columns, and zeros up to a multiple of STEP keys. */
MK_INLINE void pair_keys(bool codes, int64_t n, int64_t cols, const values *v,
                         paired to[PANELS][DEPTH / STEP]) {
    for (int64_t j = 0; j < n; j += STEP)
        for (int64_t line = 0; line < LINES; line++) {
            int64_t key = j + 2 * line;
            __m512i pairs[COLS] = {{0}};
            fetch_key(codes, v, key + PREFETCH);
            fetch_key(codes, v, key + PREFETCH + 1);
            if (codes && key < n) pair_codes(v, key, cols, key + 1 < n, pairs);
            if (!codes && key < n) pair_halves(v, key, cols, key + 1 < n, pairs);
#pragma GCC unroll 4
            for (int c = 0; c < COLS; c++)
                _mm512_store_si512(to[c / 2][j / STEP].pairs[c % 2][line], pairs[c]);
        }
    mk_amx_written();
}

/* y [m, dv] += w [m, n] v [n, dv] */
MK_INLINE void add_many(bool codes, int64_t m, int64_t n, int64_t dv, const uint16_t *w,
                        int64_t w_stride, const values *v, float *y, int64_t y_stride) {
    paired panels[PANELS][DEPTH / STEP];
    mk_amx_configure(64);
    for (int64_t j = 0; j < n; j += DEPTH)
        for (int64_t c = 0; c < dv; c += 16 * COLS) {
            int64_t keys = min(DEPTH, n - j), cols = min(16 * COLS, dv - c);
            values part = values_at(codes, v, j, c);
            pair_keys(codes, keys, cols, &part, panels);
            for (int p = 0; p < PANELS && p * WIDE < cols; p++)
                add_columns(m, min(WIDE, cols - p * WIDE), false, keys, w + j, w_stride, panels[p],
                            y + c + p * WIDE, y_stride);
        }
    _tile_release();
}

/* ---- a few rows ---- */

/* Widens weights of n <= STEP keys to f32. */
static void widen_weights(int64_t m, int64_t n, const uint16_t *w, int64_t w_stride,
                          float to[FEW][STEP]) {
    for (int64_t i = 0; i < m; i++) {
        __m512i row = mk_load_halves(w + i * w_stride, n);
        _mm512_storeu_ps(to[i], mk_wide_bf16(_mm512_castsi512_si256(row)));
        _mm512_storeu_ps(to[i] + 16, mk_wide_bf16(_mm512_extracti64x4_epi64(row, 1)));
    }
}

/* sum [rows, cols] = w [rows, n] v [n, cols], over every second key from `first` on; rows <= FEW,
 * cols <= 16 * COLS */
MK_INLINE void sum_keys(bool codes, int rows, int64_t first, int64_t n, int64_t cols,
                        float w[FEW][STEP], const values *v, __m512 sum[FEW][COLS]) {
    __mmask16 mask[COLS];
    first_lanes(cols, mask);
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++)
            sum[i][c] = _mm512_setzero_ps();
    for (int64_t j = first; j < n; j += 2) {
        const char *key = v->first + j * v->stride;
        __m512 columns[COLS], scale[2];
        fetch_key(codes, v, j + PREFETCH);
        if (codes) load_scales(v->scales + j * v->stride, cols, scale);
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++) {
            if (codes) {
                __m512 x = scaled(key + 16 * c, mask[c], scale[c / 2]);
                columns[c] = mk_wide_bf16((__m256i)_mm512_cvtneps_pbh(x));
            } else {
                columns[c] = mk_wide_bf16(_mm256_maskz_loadu_epi16(mask[c], key + 32 * c));
            }
        }
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            __m512 a = _mm512_set1_ps(w[i][j]);
#pragma GCC unroll 4
            for (int c = 0; c < COLS; c++)
                sum[i][c] = _mm512_fmadd_ps(a, columns[c], sum[i][c]);
        }
    }
}

/* y [rows, cols] += w [rows, n] v [n, cols], n <= STEP */
MK_INLINE void few_columns(bool codes, int rows, int64_t n, int64_t cols, float w[FEW][STEP],
                           const values *v, float *y, int64_t y_stride) {
    __m512 even[FEW][COLS], odd[FEW][COLS], sum[FEW][COLS];
    __mmask16 mask[COLS];
    first_lanes(cols, mask);
    sum_keys(codes, rows, 0, n, cols, w, v, even);
    sum_keys(codes, rows, 1, n, cols, w, v, odd);
    load_sums(rows, mask, y, y_stride, sum);
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++)
            sum[i][c] = _mm512_add_ps(sum[i][c], _mm512_add_ps(even[i][c], odd[i][c]));
    store_sums(rows, mask, sum, y, y_stride);
}

/* y [m, dv] += w [m, n] v [n, dv], m <= FEW */
MK_INLINE void add_few(bool codes, int64_t m, int64_t n, int64_t dv, const uint16_t *w,
                       int64_t w_stride, const values *v, float *y, int64_t y_stride) {
    float wide[FEW][STEP];
    for (int64_t j = 0; j < n; j += STEP) {
        int64_t keys = min(STEP, n - j);
        widen_weights(m, keys, w + j, w_stride, wide);
        for (int64_t c = 0; c < dv; c += 16 * COLS) {
            values part = values_at(codes, v, j, c);
            MK_WITH_ROWS(m, FEW,
                         few_columns(codes, MK_R, keys, min(16 * COLS, dv - c), wide, &part, y + c,
                                     y_stride));
        }
    }
}

/* Not inline: the compiler may not move sums across the changes of MXCSR. */
static __attribute__((noinline)) void few_values(bool codes, int64_t m, int64_t n, int64_t dv,
                                                 const uint16_t *w, int64_t w_stride,
                                                 const values *v, float *y, int64_t y_stride) {
    if (codes)
        add_few(true, m, n, dv, w, w_stride, v, y, y_stride);
    else
        add_few(false, m, n, dv, w, w_stride, v, y, y_stride);
}

/* ---- choosing by the number of rows ---- */

MK_INLINE void add_values(bool codes, int64_t m, int64_t n, int64_t dv, const uint16_t *w,
                          int64_t w_stride, const values *v, float *y, int64_t y_stride) {
    if (m > FEW) {
        add_many(codes, m, n, dv, w, w_stride, v, y, y_stride);
        return;
    }
    const unsigned before = _mm_getcsr();
    _mm_setcsr(NO_SUBNORMALS);
    few_values(codes, m, n, dv, w, w_stride, v, y, y_stride);
    _mm_setcsr(before);
}

static void attn_values(int64_t m, int64_t n, int64_t dv, const uint16_t *w, int64_t w_stride,
                        const uint16_t *v, int64_t v_stride, float *y, int64_t y_stride) {
    const values all = {(const char *)v, NULL, 2 * v_stride, n};
    add_values(false, m, n, dv, w, w_stride, &all, y, y_stride);
}

static void attn_values_q8_bf16(int64_t m, int64_t n, int64_t dv, const uint16_t *w,
                                int64_t w_stride, const uint8_t *codes, const uint8_t *scales,
                                int64_t v_stride, float *y, int64_t y_stride) {
    const values all = {(const char *)codes, (const char *)scales, v_stride, n};
    add_values(true, m, n, dv, w, w_stride, &all, y, y_stride);
}

void mk_attn_amx(mk_kernels *kernels) {
    kernels->attn_scores = mk_matmul_bf16_amx;
    kernels->attn_values = attn_values;
    kernels->attn_values_q8_bf16 = attn_values_q8_bf16;
    kernels->bf16_pairs = kernels->q8_pairs = true;
    kernels->int16 = false;
    kernels->values_together = STEP;
}
