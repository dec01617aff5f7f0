/* Shared by NEON kernels: the order in which the lanes of sums are added, and loads and stores of
 * parts of registers. */
#ifndef CPU_KERN_NEON_H
#define CPU_KERN_NEON_H

#include <arm_neon.h>
#include <stdint.h>

#include "cpu/kern/num.h"

#define MK_INLINE static inline __attribute__((always_inline))

/* Adds the lanes of sums: first neighbours, then pairs. */
MK_INLINE float32x4_t mk_sum4(const float32x4_t sum[4]) {
    return vpaddq_f32(vpaddq_f32(sum[0], sum[1]), vpaddq_f32(sum[2], sum[3]));
}

/* Loads the first n of 4 lanes, and zeros for the others; all if n >= 4. */
MK_INLINE float32x4_t mk_load_first(const float *x, int64_t n) {
    if (n >= 4) return vld1q_f32(x);
    float part[4] = {0};
    memcpy(part, x, (size_t)n * sizeof *part);
    return vld1q_f32(part);
}

MK_INLINE uint16x4_t mk_load_first16(const uint16_t *x, int64_t n) {
    if (n >= 4) return vld1_u16(x);
    uint16_t part[4] = {0};
    memcpy(part, x, (size_t)n * sizeof *part);
    return vld1_u16(part);
}

MK_INLINE void mk_store_first(float *y, int64_t n, float32x4_t v) {
    if (n >= 4) {
        vst1q_f32(y, v);
        return;
    }
    float part[4];
    vst1q_f32(part, v);
    memcpy(y, part, (size_t)n * sizeof *part);
}

MK_INLINE float32x4_t mk_wide(uint16x4_t h, mk_type type) {
    if (type == MK_F16) return vcvt_f32_f16(vreinterpret_f16_u16(h));
    return vreinterpretq_f32_u32(vshll_n_u16(h, 16));
}

#endif
