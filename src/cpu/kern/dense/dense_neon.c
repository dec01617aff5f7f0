/* NEON, as every AArch64 has it. A dot product is one register of 4 sums, l mod 4 naming the lane;
 * blocks of rows and columns only share loads. */
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/neon.h"

#define ROWS 4 /* of x at once: 4 x 4 sums and 8 operands fit 32 registers */
#define COLS 4
#define COLS_ALONE 8 /* of one row of x: enough sums to hide the latency of one */
#define COLS_OF(rows) ((rows) == 1 ? COLS_ALONE : COLS)

/* 4 weights from element `at`; the first n where there are fewer. */
MK_INLINE float32x4_t load_w(mk_type type, const void *w, int64_t at, int64_t n) {
    if (type == MK_F32) return mk_load_first((const float *)w + at, n);
    return mk_wide(mk_load_first16((const uint16_t *)w + at, n), type);
}

/* y [rows, cols] = x [rows, k] w [cols, k]^T; cols is 1 or a multiple of 4. */
MK_INLINE void nt_tile(mk_type type, int rows, int cols, bool fetch, int64_t k, const float *x,
                       int64_t x_stride, const void *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    (void)fetch; /* not tried */
    float32x4_t sum[ROWS][COLS_ALONE];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < COLS_ALONE; j++)
            sum[i][j] = vdupq_n_f32(0);
    int64_t l = 0;
    for (; l + 4 <= k; l += 4) {
        float32x4_t a[ROWS];
        for (int i = 0; i < rows; i++)
            a[i] = vld1q_f32(x + i * x_stride + l);
        for (int j = 0; j < cols; j++) {
            float32x4_t b = load_w(type, w, j * w_stride + l, 4);
            for (int i = 0; i < rows; i++)
                sum[i][j] = vfmaq_f32(sum[i][j], a[i], b);
        }
    }
    if (l < k) {
        for (int i = 0; i < rows; i++) {
            float32x4_t a = mk_load_first(x + i * x_stride + l, k - l);
            for (int j = 0; j < cols; j++) {
                float32x4_t b = load_w(type, w, j * w_stride + l, k - l);
                sum[i][j] = vfmaq_f32(sum[i][j], a, b);
            }
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j += 4)
            mk_store_first(y + i * y_stride + j, cols, mk_sum4(sum[i] + j));
}

/* y [rows, 4 * vectors] += x [rows, k] w [k, 4 * vectors]; of each vector `lanes` lanes are
 * there. */
MK_INLINE void nn_tile(mk_type type, int rows, int vectors, int64_t lanes, int64_t k,
                       const float *x, int64_t x_stride, const char *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    float32x4_t sum[ROWS][COLS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] = mk_load_first(y + i * y_stride + 4 * j, lanes);
    for (int64_t l = 0; l < k; l++) {
        float a[ROWS];
        for (int i = 0; i < rows; i++)
            a[i] = x[i * x_stride + l];
        for (int j = 0; j < vectors; j++) {
            float32x4_t b = load_w(type, w, l * w_stride + 4 * j, lanes);
            for (int i = 0; i < rows; i++)
                sum[i][j] = vfmaq_n_f32(sum[i][j], b, a[i]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            mk_store_first(y + i * y_stride + 4 * j, lanes, sum[i][j]);
}

MK_INLINE void nn_rows(mk_type type, int rows, bool fetch, int64_t n, int64_t k, const float *x,
                       int64_t x_stride, const void *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    (void)fetch;
    const int64_t bytes = mk_type_bytes(type);
    const char *from = w;
    int64_t j = 0;
    for (; j + 4 * COLS <= n; j += 4 * COLS)
        nn_tile(type, rows, COLS, 4, k, x, x_stride, from + j * bytes, w_stride, y + j, y_stride);
    for (; j < n; j += 4)
        nn_tile(type, rows, 1, n - j, k, x, x_stride, from + j * bytes, w_stride, y + j, y_stride);
}

#include "cpu/kern/dense/dense_tmpl.h"

MK_INLINE void widen(int64_t n, const uint16_t *x, float *y, mk_type type) {
    for (int64_t i = 0; i < n; i += 4)
        mk_store_first(y + i, n - i, mk_wide(mk_load_first16(x + i, n - i), type));
}

static void widen_f16(int64_t n, const uint16_t *x, float *y) {
    widen(n, x, y, MK_F16);
}

static void widen_bf16(int64_t n, const uint16_t *x, float *y) {
    widen(n, x, y, MK_BF16);
}

MK_INLINE uint16x4_t narrow_half(float32x4_t v, mk_type type) {
    if (type == MK_F16) return vreinterpret_u16_f16(vcvt_f16_f32(v));
    uint32x4_t u = vreinterpretq_u32_f32(v);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    uint32x4_t up = vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7fff)), odd);
    uint32x4_t quiet = vorrq_u32(u, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(v, v), up, quiet), 16);
}

MK_INLINE void narrow(int64_t n, const float *x, uint16_t *y, mk_type type) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1_u16(y + i, narrow_half(vld1q_f32(x + i), type));
    if (i == n) return;
    uint16_t part[4];
    vst1_u16(part, narrow_half(mk_load_first(x + i, n - i), type));
    memcpy(y + i, part, (size_t)(n - i) * sizeof *part);
}

static void narrow_f16(int64_t n, const float *x, uint16_t *y) {
    narrow(n, x, y, MK_F16);
}

static void narrow_bf16(int64_t n, const float *x, uint16_t *y) {
    narrow(n, x, y, MK_BF16);
}

void mk_dense_neon(mk_kernels *kernels) {
    set_matmuls(kernels);
    kernels->widen_f16 = widen_f16;
    kernels->widen_bf16 = widen_bf16;
    kernels->narrow_f16 = narrow_f16;
    kernels->narrow_bf16 = narrow_bf16;
}
