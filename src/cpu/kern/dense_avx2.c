/* AVX2 with FMA and F16C. A dot product is one register of 8 sums, l mod 8 naming the lane; blocks
 * of rows and columns only share loads. */
#include "cpu/kern/avx2.h"
#include "cpu/kern/dense.h"

#define ROWS 3 /* of x at once: 3 x 4 sums and 4 operands fit 16 registers */
#define COLS 4

/* y [rows, 4] = x [rows, k] w [4, k]^T, of which `cols` columns are there. */
MK_INLINE void nt_tile(int rows, int cols, int64_t k, const float *x, int64_t x_stride,
                       const float *w, int64_t w_stride, float *y, int64_t y_stride) {
    __m256 sum[ROWS][COLS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < COLS; j++)
            sum[i][j] = _mm256_setzero_ps();
    int64_t l = 0;
    for (; l + 8 <= k; l += 8) {
        __m256 a[ROWS];
        for (int i = 0; i < rows; i++)
            a[i] = _mm256_loadu_ps(x + i * x_stride + l);
        for (int j = 0; j < cols; j++) {
            __m256 b = _mm256_loadu_ps(w + j * w_stride + l);
            for (int i = 0; i < rows; i++)
                sum[i][j] = _mm256_fmadd_ps(a[i], b, sum[i][j]);
        }
    }
    if (l < k) {
        __m256i rest = mk_first(k - l);
        for (int i = 0; i < rows; i++) {
            __m256 a = _mm256_maskload_ps(x + i * x_stride + l, rest);
            for (int j = 0; j < cols; j++) {
                __m256 b = _mm256_maskload_ps(w + j * w_stride + l, rest);
                sum[i][j] = _mm256_fmadd_ps(a, b, sum[i][j]);
            }
        }
    }
    for (int i = 0; i < rows; i++)
        mk_store4(y + i * y_stride, cols, mk_sum4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]));
}

MK_INLINE void nt_rows(int rows, int64_t n, int64_t k, const float *x, int64_t x_stride,
                       const float *w, int64_t w_stride, float *y, int64_t y_stride) {
    int64_t j = 0;
    for (; j + COLS <= n; j += COLS)
        nt_tile(rows, COLS, k, x, x_stride, w + j * w_stride, w_stride, y + j, y_stride);
    for (; j < n; j++)
        nt_tile(rows, 1, k, x, x_stride, w + j * w_stride, w_stride, y + j, y_stride);
}

/* Rows of x a block, so that m rows are split into few, equal blocks. */
static int64_t block_rows(int64_t m) {
    int64_t blocks = (m + ROWS - 1) / ROWS;
    return (m + blocks - 1) / blocks;
}

static void matmul_nt(int64_t m, int64_t n, int64_t k, const float *x, int64_t x_stride,
                      const float *w, int64_t w_stride, float *y, int64_t y_stride) {
    int64_t rows = block_rows(m);
    for (int64_t i = 0; i < m; i += rows, x += rows * x_stride, y += rows * y_stride) {
        switch (m - i < rows ? m - i : rows) {
        case 1:
            nt_rows(1, n, k, x, x_stride, w, w_stride, y, y_stride);
            break;
        case 2:
            nt_rows(2, n, k, x, x_stride, w, w_stride, y, y_stride);
            break;
        default:
            nt_rows(ROWS, n, k, x, x_stride, w, w_stride, y, y_stride);
            break;
        }
    }
}

/* y [cols] = x [k] times w [cols, k] in 16 bits. */
MK_INLINE void half_tile(mk_type type, int cols, int64_t k, const float *x, const uint16_t *w,
                         int64_t w_stride, float *y) {
    __m256 sum[COLS];
    for (int j = 0; j < COLS; j++)
        sum[j] = _mm256_setzero_ps();
    int64_t l = 0;
    for (; l + 8 <= k; l += 8) {
        __m256 a = _mm256_loadu_ps(x + l);
        for (int j = 0; j < cols; j++) {
            __m128i h = _mm_loadu_si128((const void *)(w + j * w_stride + l));
            sum[j] = _mm256_fmadd_ps(a, mk_wide(h, type), sum[j]);
        }
    }
    if (l < k) {
        __m256 a = _mm256_maskload_ps(x + l, mk_first(k - l));
        for (int j = 0; j < cols; j++)
            sum[j] = _mm256_fmadd_ps(a, mk_load_half(w + j * w_stride + l, k - l, type), sum[j]);
    }
    mk_store4(y, cols, mk_sum4(sum[0], sum[1], sum[2], sum[3]));
}

MK_INLINE void matvec_half(mk_type type, int64_t n, int64_t k, const float *x, const uint16_t *w,
                           int64_t w_stride, float *y) {
    int64_t j = 0;
    for (; j + COLS <= n; j += COLS)
        half_tile(type, COLS, k, x, w + j * w_stride, w_stride, y + j);
    for (; j < n; j++)
        half_tile(type, 1, k, x, w + j * w_stride, w_stride, y + j);
}

static void matvec_f16(int64_t n, int64_t k, const float *x, const uint16_t *w, int64_t w_stride,
                       float *y) {
    matvec_half(MK_F16, n, k, x, w, w_stride, y);
}

static void matvec_bf16(int64_t n, int64_t k, const float *x, const uint16_t *w, int64_t w_stride,
                        float *y) {
    matvec_half(MK_BF16, n, k, x, w, w_stride, y);
}

MK_INLINE __m256 load_part(const float *x, __m256i mask, bool whole) {
    return whole ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, mask);
}

/* y [rows, 8 * vectors] += x [rows, k] w [k, 8 * vectors]; each vector has `mask` lanes, which are
 * all where `whole`. */
MK_INLINE void nn_tile(int rows, int vectors, __m256i mask, bool whole, int64_t k, const float *x,
                       int64_t x_stride, const float *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    __m256 sum[ROWS][COLS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] = _mm256_maskload_ps(y + i * y_stride + 8 * j, mask);
    for (int64_t l = 0; l < k; l++) {
        __m256 a[ROWS];
        for (int i = 0; i < rows; i++)
            a[i] = _mm256_set1_ps(x[i * x_stride + l]);
        for (int j = 0; j < vectors; j++) {
            __m256 b = load_part(w + l * w_stride + 8 * j, mask, whole);
            for (int i = 0; i < rows; i++)
                sum[i][j] = _mm256_fmadd_ps(a[i], b, sum[i][j]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            _mm256_maskstore_ps(y + i * y_stride + 8 * j, mask, sum[i][j]);
}

MK_INLINE void nn_rows(int rows, int64_t n, int64_t k, const float *x, int64_t x_stride,
                       const float *w, int64_t w_stride, float *y, int64_t y_stride) {
    int64_t j = 0;
    for (; j + 8 * COLS <= n; j += 8 * COLS)
        nn_tile(rows, COLS, mk_first(8), true, k, x, x_stride, w + j, w_stride, y + j, y_stride);
    for (; j < n; j += 8)
        nn_tile(rows, 1, mk_first(n - j), false, k, x, x_stride, w + j, w_stride, y + j, y_stride);
}

static void matmul_nn(int64_t m, int64_t n, int64_t k, const float *x, int64_t x_stride,
                      const float *w, int64_t w_stride, float *y, int64_t y_stride) {
    int64_t rows = block_rows(m);
    for (int64_t i = 0; i < m; i += rows, x += rows * x_stride, y += rows * y_stride) {
        switch (m - i < rows ? m - i : rows) {
        case 1:
            nn_rows(1, n, k, x, x_stride, w, w_stride, y, y_stride);
            break;
        case 2:
            nn_rows(2, n, k, x, x_stride, w, w_stride, y, y_stride);
            break;
        default:
            nn_rows(ROWS, n, k, x, x_stride, w, w_stride, y, y_stride);
            break;
        }
    }
}

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
    kernels->matmul_nt = matmul_nt;
    kernels->matvec_f16 = matvec_f16;
    kernels->matvec_bf16 = matvec_bf16;
    kernels->matmul_nn = matmul_nn;
    kernels->widen_f16 = widen_f16;
    kernels->widen_bf16 = widen_bf16;
}
