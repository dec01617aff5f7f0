/* Functions of f32 in plain arithmetic, without branches or calls, so that compilers turn loops over
 * them into vector code on every machine, and all machines get the same numbers. */
#ifndef CPU_VMATH_H
#define CPU_VMATH_H

#include <stdint.h>

#include "base/half.h"

/* e^x to about 1 unit in the last place (measured: 1.01); 0 below -104, infinity
 * above 88.8; NaN stays.
 *
 * x = n log 2 + r, |r| <= log(2) / 2: e^r by its Taylor polynomial, times 2^n in two factors, so
 * that results that are subnormal come out right. */
static inline float mc_expf(float x) {
    x = x < -105.0f ? -105.0f : x;
    x = x > 89.0f ? 89.0f : x;
    const float magic = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    float shifted = x * 0x1.715476p0f + magic;
    float n = shifted - magic;
    /* log 2 in two parts, the first short enough that n times it is exact */
    float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = 1.0f + (r + r * r * p);
    uint32_t e = mc_f32_bits(shifted) - mc_f32_bits(magic) + 256u; /* n + 256, positive */
    uint32_t half = e >> 1;
    float a = mc_f32_from_bits((half - 1u) << 23);     /* 2^(half - 128) */
    float b = mc_f32_from_bits((e - half - 1u) << 23); /* 2^(e - half - 128) */
    return p * a * b;
}

#endif
