/* AVX2 with FMA and F16C. A dot product is one register of 8 sums, l mod 8 naming the lane; blocks
 * of rows and columns only share loads. */
#include "cpu/kern/avx2.h"
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/pages.h"

#define ROWS 3 /* of x at once: 3 x 4 sums and 4 operands fit 16 registers */
#define COLS 4
#define COLS_OF(rows) COLS
#define PREFETCH_DISTANCE 8192 /* bytes past the next columns */
#define PREFETCH 64            /* rows of w that are asked for before they are read */

/* 8 weights from element `at`; the first n where there are fewer. */
MK_INLINE __m256 load_w(mk_type type, const void *w, int64_t at, int64_t n) {
    if (type != MK_F32) return mk_load_half((const uint16_t *)w + at, n, type);
    const float *f = (const float *)w + at;
    return n >= 8 ? _mm256_loadu_ps(f) : _mm256_maskload_ps(f, mk_first(n));
}

/* y [rows, 4] = x [rows, k] w [4, k]^T, of which `cols` columns are there. fetch: what follows the
 * columns after these, in the order it lies in; past the last ones too, for most often more follow
 * and a fetch cannot fail. */
MK_INLINE void nt_tile(mk_type type, int rows, int cols, bool fetch, int64_t k, const float *x,
                       int64_t x_stride, const void *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    const int64_t bytes = mk_type_bytes(type);
    const intptr_t next = (intptr_t)w + cols * w_stride * bytes + PREFETCH_DISTANCE;
    if (fetch) mk_find_next_pages(next, cols * w_stride * bytes);
    __m256 sum[ROWS][COLS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < COLS; j++)
            sum[i][j] = _mm256_setzero_ps();
    int64_t l = 0;
    for (; l + 8 <= k; l += 8) {
        for (int64_t at = 0; fetch && at < 8 * cols * bytes; at += 64)
            mk_fetch_line(next + l * cols * bytes + at);
        __m256 a[ROWS];
        for (int i = 0; i < rows; i++)
            a[i] = _mm256_loadu_ps(x + i * x_stride + l);
        for (int j = 0; j < cols; j++) {
            __m256 b = load_w(type, w, j * w_stride + l, 8);
            for (int i = 0; i < rows; i++)
                sum[i][j] = _mm256_fmadd_ps(a[i], b, sum[i][j]);
        }
    }
    if (l < k) {
        __m256i rest = mk_first(k - l);
        for (int i = 0; i < rows; i++) {
            __m256 a = _mm256_maskload_ps(x + i * x_stride + l, rest);
            for (int j = 0; j < cols; j++) {
                __m256 b = load_w(type, w, j * w_stride + l, k - l);
                sum[i][j] = _mm256_fmadd_ps(a, b, sum[i][j]);
            }
        }
    }
    for (int i = 0; i < rows; i++)
        mk_store4(y + i * y_stride, cols, mk_sum4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]));
}

/* y [rows, 8 * vectors] += x [rows, k] w [k, 8 * vectors]; of the last vector `lanes` lanes are
 * there. fetch: the rows of w after these, past the last one as well. */
MK_INLINE void nn_tile(mk_type type, int rows, int vectors, int64_t lanes, bool fetch, int64_t k,
                       const float *x, int64_t x_stride, const char *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    const int64_t bytes = mk_type_bytes(type);
    const __m256i mask = mk_first(lanes);
    __m256 sum[ROWS][COLS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] = _mm256_maskload_ps(y + i * y_stride + 8 * j, mask);
    for (int64_t l = 0; l < k; l++) {
        const char *row = w + l * w_stride * bytes;
        for (int64_t at = 0; fetch && at < 8 * vectors * bytes; at += 64)
            mk_fetch((intptr_t)row + PREFETCH * w_stride * bytes + at);
        __m256 a[ROWS];
        for (int i = 0; i < rows; i++)
            a[i] = _mm256_set1_ps(x[i * x_stride + l]);
        for (int j = 0; j < vectors; j++) {
            __m256 b = load_w(type, row, 8 * j, lanes);
            for (int i = 0; i < rows; i++)
                sum[i][j] = _mm256_fmadd_ps(a[i], b, sum[i][j]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            _mm256_maskstore_ps(y + i * y_stride + 8 * j, mask, sum[i][j]);
}

MK_INLINE void nn_rows(mk_type type, int rows, bool fetch, int64_t n, int64_t k, const float *x,
                       int64_t x_stride, const void *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    const int64_t bytes = mk_type_bytes(type);
    const char *from = w;
    int64_t j = 0;
    for (; j + 8 * COLS <= n; j += 8 * COLS)
        nn_tile(type, rows, COLS, 8, fetch, k, x, x_stride, from + j * bytes, w_stride, y + j,
                y_stride);
    for (; j < n; j += 8)
        nn_tile(type, rows, 1, n - j, fetch, k, x, x_stride, from + j * bytes, w_stride, y + j,
                y_stride);
}

#include "cpu/kern/dense/dense_tmpl.h"

MK_INLINE void widen(int64_t n, const uint16_t *x, float *y, mk_type type) {
    for (int64_t i = 0; i < n; i += 8)
        _mm256_maskstore_ps(y + i, mk_first(n - i), mk_load_half(x + i, n - i, type));
}

static void widen_f16(int64_t n, const uint16_t *x, float *y) {
    widen(n, x, y, MK_F16);
}

static void widen_bf16(int64_t n, const uint16_t *x, float *y) {
    widen(n, x, y, MK_BF16);
}

void mk_dense_avx2(mk_kernels *kernels) {
    set_matmuls(kernels);
    kernels->widen_f16 = widen_f16;
    kernels->widen_bf16 = widen_bf16;
}
