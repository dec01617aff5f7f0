/* The reference in plain C. A weight adds an integer multiple of 2^-24 to the total. */
#include "cpu/kern/attn/attn.h"

static void attn_scores(int64_t m, int64_t n, int64_t d, const uint16_t *q, int64_t q_stride,
                        const uint16_t *k, int64_t k_stride, float *y, int64_t y_stride) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            const uint16_t *a = q + i * q_stride, *b = k + j * k_stride;
            float sum = 0;
            for (int64_t l = 0; l < d; l++)
                sum += mk_from_bf16(a[l]) * mk_from_bf16(b[l]);
            y[i * y_stride + j] = sum;
        }
}

static void attn_values(int64_t m, int64_t n, int64_t dv, const uint16_t *w, int64_t w_stride,
                        const uint16_t *v, int64_t v_stride, float *y, int64_t y_stride) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float weight = mk_from_bf16(w[i * w_stride + j]);
            for (int64_t c = 0; c < dv; c++)
                y[i * y_stride + c] += weight * mk_from_bf16(v[j * v_stride + c]);
        }
}

static float scale_at(const uint8_t *scales, int64_t l) {
    uint16_t half;
    memcpy(&half, scales + 2 * (l / MK_Q8_GROUP), sizeof half);
    return mk_from_bf16(half);
}

/* The dot product of codes [l, l + MK_Q8_GROUP) of two rows, without those behind d. */
static float group_matmul(int64_t l, int64_t d, const uint8_t *a, const uint8_t *b) {
    int64_t scales = mk_q8_scales(d), end = l + MK_Q8_GROUP < d ? l + MK_Q8_GROUP : d;
    float scale = scale_at(a + scales, l) * scale_at(b + scales, l);
    int32_t sum = 0;
    for (; l < end; l++)
        sum += (int8_t)a[l] * (int8_t)b[l];
    return (float)sum * scale;
}

static void attn_scores_q8(int64_t m, int64_t n, int64_t d, const uint8_t *q, int64_t q_stride,
                           const uint8_t *k, int64_t k_stride, float *y, int64_t y_stride) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = 0;
            for (int64_t l = 0; l < d; l += MK_Q8_GROUP)
                sum += group_matmul(l, d, q + i * q_stride, k + j * k_stride);
            y[i * y_stride + j] = sum;
        }
}

static void attn_values_q8(int64_t m, int64_t n, int64_t dv, const float *w, int64_t w_stride,
                           const uint8_t *codes, const uint8_t *scales, int64_t v_stride, float *y,
                           int64_t y_stride) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t c = 0; c < dv; c++)
                y[i * y_stride + c] +=
                    w[i * w_stride + j] *
                    ((float)(int8_t)codes[j * v_stride + c] * scale_at(scales + j * v_stride, c));
}

static void attn_values_q8_bf16(int64_t m, int64_t n, int64_t dv, const uint16_t *w,
                                int64_t w_stride, const uint8_t *codes, const uint8_t *scales,
                                int64_t v_stride, float *y, int64_t y_stride) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float weight = mk_from_bf16(w[i * w_stride + j]);
            for (int64_t c = 0; c < dv; c++) {
                float value =
                    (float)(int8_t)codes[j * v_stride + c] * scale_at(scales + j * v_stride, c);
                y[i * y_stride + c] += weight * mk_from_bf16(mk_to_bf16(value));
            }
        }
}

static float scale_max(int64_t n, float *x, float scale) {
    float max = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        x[i] *= scale;
        max = x[i] > max ? x[i] : max;
    }
    return max;
}

static float exp_below(float x, float shift) {
    float t = x - shift;
    return t < -87.0f ? 0.0f : expf(t);
}

static float exp_total(int64_t n, float *x, float shift) {
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        x[i] = exp_below(x[i], shift);
        total += nearbyint((double)x[i] * 0x1p24);
    }
    return (float)(total * 0x1p-24);
}

static float exp_total_bf16(int64_t n, const float *x, float shift, uint16_t *w) {
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        w[i] = mk_to_bf16(exp_below(x[i], shift));
        total += nearbyint((double)mk_from_bf16(w[i]) * 0x1p24);
    }
    return (float)(total * 0x1p-24);
}

void mk_attn_ref(mk_kernels *kernels) {
    kernels->attn_scores = attn_scores;
    kernels->attn_values = attn_values;
    kernels->attn_scores_q8 = attn_scores_q8;
    kernels->attn_values_q8 = attn_values_q8;
    kernels->attn_values_q8_bf16 = attn_values_q8_bf16;
    kernels->scale_max = scale_max;
    kernels->exp_total = exp_total;
    kernels->exp_total_bf16 = exp_total_bf16;
    kernels->bf16_pairs = kernels->q8_pairs = kernels->int16 = false;
    kernels->values_together = 2;
    kernels->q8_direct = false;
}
