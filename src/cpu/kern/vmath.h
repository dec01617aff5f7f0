/* Functions of f32 in plain arithmetic, without branches and calls. So compilers vectorise loops
 * over them on every machine, and all machines compute the same numbers. */
#ifndef CPU_KERN_VMATH_H
#define CPU_KERN_VMATH_H

#include <math.h>
#include <stdint.h>

#include "cpu/kern/num.h"

/* The end of an exponential: 2^n times the Taylor polynomial of e^r, |r| < 0.44, where `shifted` is
 * n with MK_EXP_MAGIC added. 2^n is two factors, so that subnormal results are right. */
#define MK_EXP_MAGIC 0x1.8p23f /* adding it leaves the nearest integer in the low bits */
static inline float mk_exp_fraction(float r) {
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    return 1.0f + (r + r * r * p);
}

static inline float mk_exp_end(float r, float shifted) {
    float p = mk_exp_fraction(r);
    uint32_t e = mk_bits(shifted) - mk_bits(MK_EXP_MAGIC) + 256u; /* n + 256, positive */
    uint32_t half = e >> 1;
    float a = mk_from_bits((half - 1u) << 23);     /* 2^(half - 128) */
    float b = mk_from_bits((e - half - 1u) << 23); /* 2^(e - half - 128) */
    return p * a * b;
}

/* x - n log 2, log 2 in two parts, the first short enough that n times it is exact */
static inline float mk_exp_rest(float x, float n) {
    return (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
}

/* e^x to about 1 unit in the last place (measured: 1.01). The result is 0 below -104 and infinity
 * above 88.8; NaN stays NaN.
 *
 * x = n log 2 + r, |r| <= log(2) / 2. */
static inline float mk_expf(float x) {
    x = x < -105.0f ? -105.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float shifted = x * 0x1.715476p0f + MK_EXP_MAGIC;
    return mk_exp_end(mk_exp_rest(x, shifted - MK_EXP_MAGIC), shifted);
}

/* 1 + e^x; infinity above 88.4. The power of two is one factor: where it would be subnormal, the
 * sum is 1. */
static inline float mk_one_plus_exp(float x) {
    x = x < -88.0f ? -88.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float shifted = x * 0x1.715476p0f + MK_EXP_MAGIC;
    float p = mk_exp_fraction(mk_exp_rest(x, shifted - MK_EXP_MAGIC));
    uint32_t e = mk_bits(shifted) - mk_bits(MK_EXP_MAGIC) + 127u; /* 0 to 255 */
    return 1.0f + p * mk_from_bits(e << 23);
}

static inline float mk_sigmoid(float x) {
    return 1.0f / mk_one_plus_exp(-x);
}

/* log x to about 1 unit in the last place; -infinity at 0, NaN below.
 *
 * x = 2^e (1 + f), 1 + f in [0.70, 1.41]. With s = f / (2 + f), log(1 + f) = 2 atanh s =
 * 2 s + s (2/3 s^2 + 2/5 s^4 ...), and 2 s = f - s f, in which f is exact. */
static inline float mk_logf(float x) {
    float small = x < 0x1p-126f ? 1.0f : 0.0f; /* subnormal: make it normal first */
    float v = x * (1.0f + small * (0x1p23f - 1.0f));
    uint32_t u = mk_bits(v) - 0x3f3504f3u; /* sqrt(1/2) */
    float e = (float)((int32_t)u >> 23) - small * 23.0f;
    float f = mk_from_bits((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    float s = f / (2.0f + f);
    float z = s * s;
    float p = 2.0f / 9.0f;
    p = p * z + 2.0f / 7.0f;
    p = p * z + 2.0f / 5.0f;
    p = p * z + 2.0f / 3.0f;
    float low = e * 0x1.7f7d1cp-20f - s * (f - p * z); /* the same two parts of log 2 as above */
    float y = e * 0x1.62e4p-1f + (f + low);
    y = x == 0.0f ? -INFINITY : y;
    y = x < 0.0f ? NAN : y;
    return x < INFINITY ? y : x; /* infinity and NaN are unchanged */
}

/* tanh x to within 2 units in the last place. Near 0 it is Lambert's continued fraction up to its
 * ninth part, written as x minus a small term. Elsewhere it is 1 - 2 / (e^(2 |x|) + 1), which is
 * accurate there. */
static inline float mk_tanhf(float x) {
    float z = x * x;
    float near = x - x * (z * (315.0f + 14.0f * z) / (945.0f + z * (420.0f + 15.0f * z)));
    float far = 1.0f - 2.0f / (mk_expf(2.0f * fabsf(x)) + 1.0f);
    far = x < 0.0f ? -far : far;
    return z < 0.3f ? near : far;
}

/* e^(-scale a^2), 0 <= a, scale 0.5 or 1, without the error of a rounded square: a = h + l, where h
 * has 12 bits and an exact square, and a^2 - h^2 = l (a + h) is added to the rest. 0 where the
 * square times scale is above 105; NaN stays NaN. The bound is one of a alone: where compilers
 * compute what is beyond it for all lanes, that is a constant, not a slow subnormal product. */
static inline float mk_exp_square(float a, float scale) {
    const float max = scale == 1.0f ? 10.25f : 14.5f; /* both give 0 */
    a = a > max ? max : a;
    float h = mk_from_bits(mk_bits(a) & 0xfffff000u);
    float x = -scale * (h * h), rest = -scale * ((a - h) * (a + h));
    float shifted = x * 0x1.715476p0f + MK_EXP_MAGIC;
    return mk_exp_end(mk_exp_rest(x, shifted - MK_EXP_MAGIC) + rest, shifted);
}

/* e^(a^2) erfc a, a >= 0, to 4.5 units in the last place up to 10.6, where erfc a is 0: a rational
 * function fitted to it there, whose relative error is 6.3e-9 at most. All its terms are positive,
 * so none is lost. */
static inline float mk_erfcx(float a) {
    a = a > 10.6f ? 10.6f : a;
    float p = 0.0332222106696f;
    float q = 0.0588842030564f;
    p = p * a + 0.231243428148f;
    q = q * a + 0.409892784079f;
    p = p * a + 0.735846454276f;
    q = q * a + 1.33328843782f;
    p = p * a + 1.24245395982f;
    q = q * a + 2.41103580594f;
    p = p * a + 1.0f;
    q = q * a + 2.37083375265f;
    q = q * a + 1.0f;
    return p / q;
}

/* erf x to within 2 units in the last place: near 0 an odd polynomial fitted to it, elsewhere
 * 1 - erfc |x|. */
static inline float mk_erff(float x) {
    float a = fabsf(x), z = x * x;
    float p = 8.83618802382e-5f;
    p = p * z - 0.000824426937271f;
    p = p * z + 0.00520929588326f;
    p = p * z - 0.0268624799241f;
    p = p * z + 0.112837470632f;
    p = p * z - 0.376126368603f;
    p = p * z + 0.12837916709551257f; /* 2 / sqrt pi - 1 */
    float far = copysignf(1.0f - mk_exp_square(a, 1.0f) * mk_erfcx(a), x);
    return z < 0.7225f ? x + x * p : far; /* 0.85^2 */
}

/* x (1 + erf(x / sqrt 2)) / 2 = x erfc(-x / sqrt 2) / 2 */
static inline float mk_gelu(float x) {
    float a = fabsf(x);
    float tail = 0.5f * mk_exp_square(a, 0.5f) * mk_erfcx(a * 0.70710678118654752f);
    return x * (x < 0.0f ? tail : 1.0f - tail);
}

/* x sigmoid x */
static inline float mk_silu(float x) {
    return x / mk_one_plus_exp(-x);
}

/* x (1 + tanh u) / 2 = x sigmoid 2 u */
static inline float mk_gelu_approx(float x) {
    float u = 0.79788456080286536f * (x + 0.044715f * (x * x * x));
    return x / mk_one_plus_exp(-2.0f * u);
}

#endif
