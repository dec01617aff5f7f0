/* NEON: the softmax. bf16 keys and values are widened and multiplied by dense_neon.c. */
#include "cpu/kern/attn/attn.h"
#include "cpu/kern/neon.h"

static float scale_max(int64_t n, float *x, float scale) {
    float32x4_t max = vdupq_n_f32(-INFINITY);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t v = vmulq_n_f32(vld1q_f32(x + i), scale);
        vst1q_f32(x + i, v);
        max = vmaxnmq_f32(max, v); /* the other operand, if one is NaN */
    }
    float largest = vmaxnmvq_f32(max);
    for (; i < n; i++) {
        x[i] *= scale;
        largest = x[i] > largest ? x[i] : largest;
    }
    return largest;
}

/* exp(t), t <= 0, as 2^n e^r with |r| <= ln(2) / 2, e^r by its series to r^7 / 5040. */
MK_INLINE float32x4_t exp_negative(float32x4_t t) {
    float32x4_t n = vrndnq_f32(vmulq_n_f32(t, 0x1.715476p+0f));
    float32x4_t r = vfmaq_n_f32(t, n, -0x1.62e400p-1f);
    r = vfmaq_n_f32(r, n, -0x1.7f7d1cp-20f);
    float32x4_t p = vdupq_n_f32(1.0f / 5040.0f);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 720.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 120.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 24.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 6.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0.5f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    int32x4_t power = vshlq_n_s32(vcvtq_s32_f32(n), 23);
    uint32x4_t y = vreinterpretq_u32_s32(vaddq_s32(vreinterpretq_s32_f32(p), power));
    y = vandq_u32(y, vcgeq_f32(t, vdupq_n_f32(-87.0f)));
    return vbslq_f32(vceqq_f32(t, t), vreinterpretq_f32_u32(y), t);
}

static float exp_total(int64_t n, float *x, float shift) {
    int64_t total = 0;
    for (int64_t i = 0; i < n;) {
        int64_t end = n - i < 4 * MK_ATTN_TERMS ? n : i + 4 * MK_ATTN_TERMS;
        int32x4_t sum = vdupq_n_s32(0);
        for (; i < end; i += 4) {
            float32x4_t t = vsubq_f32(mk_load_first(x + i, n - i), vdupq_n_f32(shift));
            mk_store_first(x + i, n - i, exp_negative(t));
            float32x4_t y = mk_load_first(x + i, n - i); /* lanes past the end add 0 */
            sum = vaddq_s32(sum, vcvtnq_s32_f32(vmulq_n_f32(y, 0x1p24f)));
        }
        total += vaddlvq_s32(sum);
    }
    return (float)total * 0x1p-24f;
}

void mk_attn_neon(mk_kernels *kernels) {
    kernels->scale_max = scale_max;
    kernels->exp_total = exp_total;
}
