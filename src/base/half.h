/* Conversion of f16 and bf16 to and from f32, rounded to nearest even. NaN stays NaN. */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t mc_f32_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float mc_f32_from_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float mc_bf16_to_f32(uint16_t h) {
    return mc_f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t mc_f32_to_bf16(float x) {
    uint32_t u = mc_f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

static inline float mc_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t rest = (uint32_t)(h & 0x7fffu);
    if (rest >= 0x7c00u) return mc_f32_from_bits(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
    /* The bits are read with f32's exponent bias and scaled by an exact power of two. This holds
     * for subnormals, too. */
    float magnitude = mc_f32_from_bits(rest << 13) * 0x1p112f;
    return mc_f32_from_bits(mc_f32_bits(magnitude) | sign);
}

static inline uint16_t mc_f32_to_f16(float x) {
    uint32_t u = mc_f32_bits(x);
    uint16_t sign = (uint16_t)((u >> 16) & 0x8000u);
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (u >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
    if (u < 0x38800000u) { /* below 2^-14: subnormal; adding 0.5 rounds at the right bit */
        float shifted = mc_f32_from_bits(u) + 0.5f;
        return (uint16_t)(sign | (mc_f32_bits(shifted) - 0x3f000000u));
    }
    uint32_t round = 0xfffu + ((u >> 13) & 1u);
    return (uint16_t)(sign | ((u - 0x38000000u + round) >> 13));
}

#endif
