/* AVX-512. A dot product is one register of 16 sums, l mod 16 naming the lane; blocks of rows and
 * columns only share loads. */
#include "cpu/kern/avx512.h"
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/pages.h"

#define ROWS 6 /* of x at once: 6 x 4 sums and 10 operands fit 32 registers */
#define COLS 4
#define COLS_OF(rows) COLS
#define PREFETCH_DISTANCE 8192 /* bytes past the next columns */
#define PREFETCH 64            /* rows of w that are asked for before they are read */

/* 16 weights from element `at`; those of the mask where not `whole`, the others zero. */
MK_INLINE __m512 load_w(mk_type type, const void *w, int64_t at, __mmask16 mask, bool whole) {
    if (type == MK_F32) {
        const float *f = (const float *)w + at;
        return whole ? _mm512_loadu_ps(f) : _mm512_maskz_loadu_ps(mask, f);
    }
    const uint16_t *h = (const uint16_t *)w + at;
    __m256i v = whole ? _mm256_loadu_si256((const void *)h) : _mm256_maskz_loadu_epi16(mask, h);
    return type == MK_BF16 ? mk_wide_bf16(v) : _mm512_cvtph_ps(v);
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
    __m512 sum[ROWS][COLS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < COLS; j++)
            sum[i][j] = _mm512_setzero_ps();
    int64_t l = 0;
    for (; l + 16 <= k; l += 16) {
        for (int64_t at = 0; fetch && at < 16 * cols * bytes; at += 64)
            mk_fetch_line(next + l * cols * bytes + at);
        __m512 b[COLS];
        for (int j = 0; j < cols; j++)
            b[j] = load_w(type, w, j * w_stride + l, 0xffffu, true);
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
                __m512 b = load_w(type, w, j * w_stride + l, rest, false);
                sum[i][j] = _mm512_fmadd_ps(a, b, sum[i][j]);
            }
        }
    }
    mk_store_dots(rows, cols, sum, y, y_stride);
}

/* y [rows, 16 * vectors] += x [rows, k] w [k, 16 * vectors]; the last vector has `mask` lanes,
 * which are all where `whole`. fetch: the rows of w after these, past the last one as well. */
MK_INLINE void nn_tile(mk_type type, int rows, int vectors, __mmask16 mask, bool whole, bool fetch,
                       int64_t k, const float *x, int64_t x_stride, const char *w, int64_t w_stride,
                       float *y, int64_t y_stride) {
    const int64_t bytes = mk_type_bytes(type);
    __m512 sum[ROWS][COLS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] = _mm512_maskz_loadu_ps(mask, y + i * y_stride + 16 * j);
    for (int64_t l = 0; l < k; l++) {
        const char *row = w + l * w_stride * bytes;
        for (int64_t at = 0; fetch && at < 16 * vectors * bytes; at += 64)
            mk_fetch((intptr_t)row + PREFETCH * w_stride * bytes + at);
        __m512 b[COLS];
        for (int j = 0; j < vectors; j++)
            b[j] = load_w(type, row, 16 * j, mask, whole);
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

MK_INLINE void nn_rows(mk_type type, int rows, bool fetch, int64_t n, int64_t k, const float *x,
                       int64_t x_stride, const void *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    const int64_t bytes = mk_type_bytes(type);
    const char *from = w;
    int64_t j = 0;
    for (; j + 16 * COLS <= n; j += 16 * COLS)
        nn_tile(type, rows, COLS, 0xffffu, true, fetch, k, x, x_stride, from + j * bytes, w_stride,
                y + j, y_stride);
    for (; j < n; j += 16)
        nn_tile(type, rows, 1, mk_first(n - j), false, fetch, k, x, x_stride, from + j * bytes,
                w_stride, y + j, y_stride);
}

#include "cpu/kern/dense/dense_tmpl.h"

static void widen_f16(int64_t n, const uint16_t *x, float *y) {
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 mask = mk_first(n - i);
        _mm512_mask_storeu_ps(y + i, mask, load_w(MK_F16, x, i, mask, false));
    }
}

static void widen_bf16(int64_t n, const uint16_t *x, float *y) {
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 mask = mk_first(n - i);
        _mm512_mask_storeu_ps(y + i, mask, load_w(MK_BF16, x, i, mask, false));
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
    set_matmuls(kernels);
    kernels->widen_f16 = widen_f16;
    kernels->widen_bf16 = widen_bf16;
    kernels->narrow_f16 = narrow_f16;
    kernels->narrow_bf16 = narrow_bf16;
}
