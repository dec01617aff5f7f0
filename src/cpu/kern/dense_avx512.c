/* AVX-512. A dot product is one register of 16 sums, l mod 16 naming the lane; blocks of rows and
 * columns only share loads. */
#include "cpu/kern/avx512.h"
#include "cpu/kern/dense.h"

#define ROWS 6 /* of x at once: 6 x 4 sums and 10 operands fit 32 registers */
#define COLS 4

/* y [rows, 4] = x [rows, k] w [4, k]^T, of which `cols` columns are there. */
MK_INLINE void nt_tile(int rows, int cols, int64_t k, const float *x, int64_t x_stride,
                       const float *w, int64_t w_stride, float *y, int64_t y_stride) {
    __m512 sum[ROWS][COLS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < COLS; j++)
            sum[i][j] = _mm512_setzero_ps();
    int64_t l = 0;
    for (; l + 16 <= k; l += 16) {
        __m512 b[COLS];
        for (int j = 0; j < cols; j++)
            b[j] = _mm512_loadu_ps(w + j * w_stride + l);
        for (int i = 0; i < rows; i++) {
            __m512 a = _mm512_loadu_ps(x + i * x_stride + l);
            for (int j = 0; j < cols; j++)
                sum[i][j] = _mm512_fmadd_ps(a, b[j], sum[i][j]);
        }
    }
    if (l < k) {
        __mmask16 rest = mk_first(k - l);
        for (int i = 0; i < rows; i++) {
            __m512 a = _mm512_maskz_loadu_ps(rest, x + i * x_stride + l);
            for (int j = 0; j < cols; j++) {
                __m512 b = _mm512_maskz_loadu_ps(rest, w + j * w_stride + l);
                sum[i][j] = _mm512_fmadd_ps(a, b, sum[i][j]);
            }
        }
    }
    for (int i = 0; i < rows; i++)
        _mm_mask_storeu_ps(y + i * y_stride, (__mmask8)((1u << cols) - 1u),
                           mk_sum4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]));
}

/* All columns for `rows` rows of x. */
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
        case 3:
            nt_rows(3, n, k, x, x_stride, w, w_stride, y, y_stride);
            break;
        case 4:
            nt_rows(4, n, k, x, x_stride, w, w_stride, y, y_stride);
            break;
        case 5:
            nt_rows(5, n, k, x, x_stride, w, w_stride, y, y_stride);
            break;
        default:
            nt_rows(ROWS, n, k, x, x_stride, w, w_stride, y, y_stride);
            break;
        }
    }
}

MK_INLINE __m512 load_half(const uint16_t *w, mk_type type, __mmask16 mask) {
    __m256i h = _mm256_maskz_loadu_epi16(mask, w);
    return type == MK_BF16 ? mk_wide_bf16(h) : _mm512_cvtph_ps(h);
}

/* y [cols] = x [k] times w [cols, k] in 16 bits. */
MK_INLINE void half_tile(mk_type type, int cols, int64_t k, const float *x, const uint16_t *w,
                         int64_t w_stride, float *y) {
    __m512 sum[COLS];
    for (int j = 0; j < COLS; j++)
        sum[j] = _mm512_setzero_ps();
    int64_t l = 0;
    for (; l + 16 <= k; l += 16) {
        __m512 a = _mm512_loadu_ps(x + l);
        for (int j = 0; j < cols; j++) {
            __m512 b = load_half(w + j * w_stride + l, type, 0xffffu);
            sum[j] = _mm512_fmadd_ps(a, b, sum[j]);
        }
    }
    if (l < k) {
        __mmask16 rest = mk_first(k - l);
        __m512 a = _mm512_maskz_loadu_ps(rest, x + l);
        for (int j = 0; j < cols; j++) {
            __m512 b = load_half(w + j * w_stride + l, type, rest);
            sum[j] = _mm512_fmadd_ps(a, b, sum[j]);
        }
    }
    _mm_mask_storeu_ps(y, (__mmask8)((1u << cols) - 1u), mk_sum4(sum[0], sum[1], sum[2], sum[3]));
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

/* y [rows, 16 * vectors] += x [rows, k] w [k, 16 * vectors]; the last vector has `mask` lanes. */
MK_INLINE void nn_tile(int rows, int vectors, __mmask16 mask, int64_t k, const float *x,
                       int64_t x_stride, const float *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    __m512 sum[ROWS][COLS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] = _mm512_maskz_loadu_ps(mask, y + i * y_stride + 16 * j);
    for (int64_t l = 0; l < k; l++) {
        __m512 b[COLS];
        for (int j = 0; j < vectors; j++)
            b[j] = _mm512_maskz_loadu_ps(mask, w + l * w_stride + 16 * j);
        for (int i = 0; i < rows; i++) {
            __m512 a = _mm512_set1_ps(x[i * x_stride + l]);
            for (int j = 0; j < vectors; j++)
                sum[i][j] = _mm512_fmadd_ps(a, b[j], sum[i][j]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            _mm512_mask_storeu_ps(y + i * y_stride + 16 * j, mask, sum[i][j]);
}

MK_INLINE void nn_rows(int rows, int64_t n, int64_t k, const float *x, int64_t x_stride,
                       const float *w, int64_t w_stride, float *y, int64_t y_stride) {
    int64_t j = 0;
    for (; j + 16 * COLS <= n; j += 16 * COLS)
        nn_tile(rows, COLS, 0xffffu, k, x, x_stride, w + j, w_stride, y + j, y_stride);
    for (; j < n; j += 16)
        nn_tile(rows, 1, mk_first(n - j), k, x, x_stride, w + j, w_stride, y + j, y_stride);
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
        case 3:
            nn_rows(3, n, k, x, x_stride, w, w_stride, y, y_stride);
            break;
        case 4:
            nn_rows(4, n, k, x, x_stride, w, w_stride, y, y_stride);
            break;
        case 5:
            nn_rows(5, n, k, x, x_stride, w, w_stride, y, y_stride);
            break;
        default:
            nn_rows(ROWS, n, k, x, x_stride, w, w_stride, y, y_stride);
            break;
        }
    }
}

static void widen_f16(int64_t n, const uint16_t *x, float *y) {
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 mask = mk_first(n - i);
        _mm512_mask_storeu_ps(y + i, mask, load_half(x + i, MK_F16, mask));
    }
}

static void widen_bf16(int64_t n, const uint16_t *x, float *y) {
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 mask = mk_first(n - i);
        _mm512_mask_storeu_ps(y + i, mask, load_half(x + i, MK_BF16, mask));
    }
}

static void narrow_f16(int64_t n, const float *x, uint16_t *y) {
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 mask = mk_first(n - i);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        __m256i h = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm256_mask_storeu_epi16(y + i, mask, h);
    }
}

static void narrow_bf16(int64_t n, const float *x, uint16_t *y) {
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 mask = mk_first(n - i);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        __m512i u = _mm512_castps_si512(v);
        __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
        __m512i up = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
        __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
        up = _mm512_mask_or_epi32(up, nan, u, _mm512_set1_epi32(0x400000));
        _mm256_mask_storeu_epi16(y + i, mask, _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
    }
}

void mk_dense_avx512(mk_kernels *kernels) {
    kernels->matmul_nt = matmul_nt;
    kernels->matvec_f16 = matvec_f16;
    kernels->matvec_bf16 = matvec_bf16;
    kernels->matmul_nn = matmul_nn;
    kernels->widen_f16 = widen_f16;
    kernels->widen_bf16 = widen_bf16;
    kernels->narrow_f16 = narrow_f16;
    kernels->narrow_bf16 = narrow_bf16;
}
