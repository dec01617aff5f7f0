/* Plain C. A sum has eight lanes, which a compiler may put in one register: l mod 8 names the lane.
 * The lanes are added up in one fixed order. */
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/ref.h"

static void widen_f16(int64_t n, const uint16_t *x, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = mk_from_f16(x[i]);
}

static void widen_bf16(int64_t n, const uint16_t *x, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = mk_from_bf16(x[i]);
}

/* One row of 16-bit weights, widened a block at a time. */
static float dot_half(int64_t k, const float *x, const uint16_t *w,
                      void (*widen)(int64_t n, const uint16_t *x, float *y)) {
    mk_ref_sum sum = {{0}};
    for (int64_t l = 0; l < k; l += MK_REF_BLOCK) {
        float block[MK_REF_BLOCK];
        int64_t count = k - l < MK_REF_BLOCK ? k - l : MK_REF_BLOCK;
        widen(count, w + l, block);
        mk_ref_add(&sum, count, x + l, block);
    }
    return mk_ref_total(&sum);
}

static inline void nt_any(mk_type type, int64_t m, int64_t n, int64_t k, const float *x,
                          int64_t x_stride, const void *w, int64_t w_stride, float *y,
                          int64_t y_stride) {
    for (int64_t j = 0; j < n; j++) {
        const char *row = (const char *)w + j * w_stride * mk_type_bytes(type);
        for (int64_t i = 0; i < m; i++) {
            const float *a = x + i * x_stride;
            const void *b = row;
            y[i * y_stride + j] = type == MK_F32
                                      ? mk_ref_dot(k, a, b)
                                      : dot_half(k, a, b, type == MK_F16 ? widen_f16 : widen_bf16);
        }
    }
}

/* The product of two bf16 is exact in f32. */
static void matmul_bf16(int64_t m, int64_t n, int64_t k, const uint16_t *x, int64_t x_stride,
                        const uint16_t *w, int64_t w_stride, float *y, int64_t y_stride) {
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            mk_ref_sum sum = {{0}};
            for (int64_t l = 0; l < k; l += MK_REF_BLOCK) {
                float block[2][MK_REF_BLOCK];
                int64_t count = k - l < MK_REF_BLOCK ? k - l : MK_REF_BLOCK;
                widen_bf16(count, x + i * x_stride + l, block[0]);
                widen_bf16(count, w + j * w_stride + l, block[1]);
                mk_ref_add(&sum, count, block[0], block[1]);
            }
            y[i * y_stride + j] = mk_ref_total(&sum);
        }
    }
}

static inline void nn_any(mk_type type, int64_t m, int64_t n, int64_t k, const float *x,
                          int64_t x_stride, const void *w, int64_t w_stride, float *y,
                          int64_t y_stride) {
    for (int64_t i = 0; i < m; i++) {
        float *out = y + i * y_stride;
        for (int64_t l = 0; l < k; l++) {
            float factor = x[i * x_stride + l];
            for (int64_t j = 0; j < n; j++)
                out[j] += factor * mk_load(w, type, l * w_stride + j);
        }
    }
}

#include "cpu/kern/dense/dense_types.h"

static void narrow_f16(int64_t n, const float *x, uint16_t *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = mk_to_f16(x[i]);
}

static void narrow_bf16(int64_t n, const float *x, uint16_t *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = mk_to_bf16(x[i]);
}

void mk_dense_ref(mk_kernels *kernels) {
    set_matmuls(kernels);
    kernels->matmul_bf16 = matmul_bf16;
    kernels->widen_f16 = widen_f16;
    kernels->widen_bf16 = widen_bf16;
    kernels->narrow_f16 = narrow_f16;
    kernels->narrow_bf16 = narrow_bf16;
    kernels->bf16_columns = 1;
    kernels->bf16_matmul = false;
}
