/* Conversions of small floats for kernels: bf16, f16, E4M3, E8M0, E2M1 to f32. */
#ifndef CPU_KERN_NUM_H
#define CPU_KERN_NUM_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The element types of dense rows and of affine scales. */
typedef enum mk_type { MK_F32, MK_F16, MK_BF16 } mk_type;

static inline float mk_from_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float mk_from_bf16(uint16_t h) {
    return mk_from_bits((uint32_t)h << 16);
}

/* It has no branches, so that loops over it are vectorised. */
static inline float mk_from_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t rest = (uint32_t)(h & 0x7fffu);
    uint32_t special = rest >= 0x7c00u ? 0x7f800000u : 0; /* infinity, NaN */
    /* An exact multiplication adjusts the exponent, also of subnormals. */
    float magnitude = mk_from_bits(rest << 13) * 0x1p112f;
    uint32_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    return mk_from_bits(bits | special | sign);
}

static inline uint32_t mk_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline uint16_t mk_to_bf16(float x) {
    uint32_t u = mk_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

static inline uint16_t mk_to_f16(float x) {
    uint32_t u = mk_bits(x);
    uint32_t sign = (u >> 16) & 0x8000u;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (u >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above: infinity */
    if (u < 0x38800000u) /* subnormal: adding 0.5 rounds at the right bit */
        return (uint16_t)(sign | (mk_bits(mk_from_bits(u) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | ((u - 0x38000000u + 0xfffu + ((u >> 13) & 1u)) >> 13));
}

/* Element i of a row of floats. */
static inline float mk_load(const void *row, mk_type type, int64_t i) {
    if (type == MK_F32) return ((const float *)row)[i];
    uint16_t h = ((const uint16_t *)row)[i];
    return type == MK_BF16 ? mk_from_bf16(h) : mk_from_f16(h);
}

static inline int64_t mk_type_bytes(mk_type type) {
    return type == MK_F32 ? 4 : 2;
}

/* E8M0: a power of two, 255 is NaN. */
static inline float mk_from_e8m0(uint8_t e) {
    if (e == 0xffu) return NAN;
    return e == 0 ? 0x1p-127f : mk_from_bits((uint32_t)e << 23);
}

/* E4M3: no infinity, 0x7f is NaN. */
static inline float mk_from_e4m3(uint8_t b) {
    uint32_t rest = b & 0x7fu;
    if (rest == 0x7fu) return NAN;
    /* An exact multiplication changes the exponent bias from 7 to 127, also of subnormals. */
    float magnitude = mk_from_bits(rest << 20) * 0x1p120f;
    return (b & 0x80u) != 0 ? -magnitude : magnitude;
}

/* E2M1: 0 .5 1 1.5 2 3 4 6 and their negatives. */
static inline float mk_from_e2m1(uint32_t c) {
    static const float values[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    return (c & 8u) != 0 ? -values[c & 7u] : values[c & 7u];
}

#endif
