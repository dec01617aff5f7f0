#include "io/ggml_block.h"

#include "base/half.h"

#include <math.h>
#include <string.h>

enum { SMALL = 32, LARGE = 256 };

static uint16_t u16_at(const uint8_t *at) {
    return (uint16_t)(at[0] | at[1] << 8);
}

static float f16_at(const uint8_t *at) {
    return mc_f16_to_f32(u16_at(at));
}

static float f32_at(const uint8_t *at) {
    return mc_f32_from_bits((uint32_t)u16_at(at) | (uint32_t)u16_at(at + 2) << 16);
}

/* ---- plain numbers ---- */

static void decode_f32(const uint8_t *block, float *out) {
    *out = f32_at(block);
}

static void decode_f16(const uint8_t *block, float *out) {
    *out = f16_at(block);
}

static void decode_bf16(const uint8_t *block, float *out) {
    *out = mc_bf16_to_f32(u16_at(block));
}

static void decode_f64(const uint8_t *block, float *out) {
    uint64_t bits = 0;
    double value;
    for (int i = 8; i-- > 0;)
        bits = bits << 8 | block[i];
    memcpy(&value, &bits, sizeof value);
    *out = (float)value;
}

/* ---- blocks of 32 ---- */

/* Low halves of bytes are the first 16 codes, high halves the last. */
static void nibbles(const uint8_t *packed, uint8_t codes[SMALL]) {
    for (int i = 0; i < 16; i++) {
        codes[i] = packed[i] & 15;
        codes[i + 16] = packed[i] >> 4;
    }
}

/* The same with a fifth bit for each in four bytes. */
static void five_bits(const uint8_t *high, const uint8_t *packed, uint8_t codes[SMALL]) {
    nibbles(packed, codes);
    for (int i = 0; i < SMALL; i++)
        codes[i] = (uint8_t)(codes[i] | (high[i / 8] >> i % 8 & 1) << 4);
}

/* The bias of codes from which `offset` is subtracted: -offset * scale, exact for a power of two
 * unless it overflows. */
static uint16_t offset_bias(uint16_t scale, float offset) {
    return mc_f32_to_f16(-offset * mc_f16_to_f32(scale));
}

static void split_q4_0(const uint8_t *b, uint8_t *codes, uint16_t *scale, uint16_t *bias) {
    nibbles(b + 2, codes);
    *scale = u16_at(b);
    *bias = offset_bias(*scale, 8);
}

static void split_q4_1(const uint8_t *b, uint8_t *codes, uint16_t *scale, uint16_t *bias) {
    nibbles(b + 4, codes);
    *scale = u16_at(b);
    *bias = u16_at(b + 2);
}

static void split_q5_0(const uint8_t *b, uint8_t *codes, uint16_t *scale, uint16_t *bias) {
    five_bits(b + 2, b + 6, codes);
    *scale = u16_at(b);
    *bias = offset_bias(*scale, 16);
}

static void split_q5_1(const uint8_t *b, uint8_t *codes, uint16_t *scale, uint16_t *bias) {
    five_bits(b + 4, b + 8, codes);
    *scale = u16_at(b);
    *bias = u16_at(b + 2);
}

static void split_q8_0(const uint8_t *b, uint8_t *codes, uint16_t *scale, uint16_t *bias) {
    for (int i = 0; i < SMALL; i++)
        codes[i] = (uint8_t)(b[2 + i] ^ 0x80); /* + 128 */
    *scale = u16_at(b);
    *bias = offset_bias(*scale, 128);
}

static void split_mxfp4(const uint8_t *b, uint8_t *codes, uint16_t *scale, uint16_t *bias) {
    nibbles(b + 1, codes);
    *scale = b[0];
    *bias = 0;
}

static void decode_q4_0(const uint8_t *b, float *out) {
    uint8_t codes[SMALL];
    nibbles(b + 2, codes);
    for (int i = 0; i < SMALL; i++)
        out[i] = f16_at(b) * (float)(codes[i] - 8);
}

static void decode_q4_1(const uint8_t *b, float *out) {
    uint8_t codes[SMALL];
    nibbles(b + 4, codes);
    for (int i = 0; i < SMALL; i++)
        out[i] = f16_at(b) * (float)codes[i] + f16_at(b + 2);
}

static void decode_q5_0(const uint8_t *b, float *out) {
    uint8_t codes[SMALL];
    five_bits(b + 2, b + 6, codes);
    for (int i = 0; i < SMALL; i++)
        out[i] = f16_at(b) * (float)(codes[i] - 16);
}

static void decode_q5_1(const uint8_t *b, float *out) {
    uint8_t codes[SMALL];
    five_bits(b + 4, b + 8, codes);
    for (int i = 0; i < SMALL; i++)
        out[i] = f16_at(b) * (float)codes[i] + f16_at(b + 2);
}

static void decode_q8_0(const uint8_t *b, float *out) {
    for (int i = 0; i < SMALL; i++)
        out[i] = f16_at(b) * (float)(int8_t)b[2 + i];
}

static void decode_mxfp4(const uint8_t *b, float *out) {
    static const float values[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    uint8_t codes[SMALL];
    float scale = ldexpf(1, b[0] - 127);
    nibbles(b + 1, codes);
    for (int i = 0; i < SMALL; i++)
        out[i] = scale * (codes[i] & 8 ? -values[codes[i] & 7] : values[codes[i]]);
}

/* ---- writing blocks of 32 ---- */

static void put_u16(uint8_t *at, uint16_t value) {
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static void put_nibbles(const uint8_t codes[SMALL], uint8_t *packed) {
    for (int i = 0; i < 16; i++)
        packed[i] = (uint8_t)((codes[i] & 15) | (codes[i + 16] & 15) << 4);
}

static void put_five_bits(const uint8_t codes[SMALL], uint8_t *high, uint8_t *packed) {
    put_nibbles(codes, packed);
    memset(high, 0, 4);
    for (int i = 0; i < SMALL; i++)
        high[i / 8] = (uint8_t)(high[i / 8] | (codes[i] >> 4 & 1) << i % 8);
}

static void join_q4_0(const uint8_t *codes, uint16_t scale, uint16_t bias, uint8_t *b) {
    (void)bias;
    put_u16(b, scale);
    put_nibbles(codes, b + 2);
}

static void join_q4_1(const uint8_t *codes, uint16_t scale, uint16_t bias, uint8_t *b) {
    put_u16(b, scale);
    put_u16(b + 2, bias);
    put_nibbles(codes, b + 4);
}

static void join_q5_0(const uint8_t *codes, uint16_t scale, uint16_t bias, uint8_t *b) {
    (void)bias;
    put_u16(b, scale);
    put_five_bits(codes, b + 2, b + 6);
}

static void join_q5_1(const uint8_t *codes, uint16_t scale, uint16_t bias, uint8_t *b) {
    put_u16(b, scale);
    put_u16(b + 2, bias);
    put_five_bits(codes, b + 4, b + 8);
}

static void join_q8_0(const uint8_t *codes, uint16_t scale, uint16_t bias, uint8_t *b) {
    (void)bias;
    put_u16(b, scale);
    for (int i = 0; i < SMALL; i++)
        b[2 + i] = codes[i] ^ 0x80; /* - 128 */
}

static void join_mxfp4(const uint8_t *codes, uint16_t scale, uint16_t bias, uint8_t *b) {
    (void)bias;
    b[0] = (uint8_t)scale;
    put_nibbles(codes, b + 1);
}

/* ---- blocks of 256 ---- */

/* scales[16] (4 bits of scale, 4 of minimum), codes[64], d, dmin */
static void decode_q2_k(const uint8_t *b, float *out) {
    const uint8_t *packed = b + 16;
    float d = f16_at(b + 80), dmin = f16_at(b + 82);
    for (int i = 0; i < LARGE; i++) {
        int half = i / 128, shift = i % 128 / 32 * 2,
            code = packed[half * 32 + i % 32] >> shift & 3;
        uint8_t s = b[i / 16];
        out[i] = d * (float)(s & 15) * (float)code - dmin * (float)(s >> 4);
    }
}

/* high[32] (one bit a code), codes[64], scales[12] (6 bits each), d */
static void decode_q3_k(const uint8_t *b, float *out) {
    const uint8_t *packed = b + 32, *scales = b + 96;
    float d = f16_at(b + 108);
    for (int i = 0; i < LARGE; i++) {
        int j = i / 16, half = i / 128, plane = i % 128 / 32;
        int low = j < 8 ? scales[j] & 15 : scales[j - 8] >> 4;
        int scale = (low | (scales[8 + j % 4] >> j / 4 * 2 & 3) << 4) - 32;
        int code = packed[half * 32 + i % 32] >> plane * 2 & 3;
        if (!(b[i % 32] >> (half * 4 + plane) & 1)) code -= 4;
        out[i] = d * (float)scale * (float)code;
    }
}

/* The j-th of eight scales and minima of 6 bits, in 12 bytes. */
static void scale_and_minimum(const uint8_t *packed, int j, float *scale, float *minimum) {
    int s = packed[j] & 63, m = packed[j + 4] & 63;
    if (j >= 4) {
        s = (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
        m = packed[j + 4] >> 4 | packed[j] >> 6 << 4;
    }
    *scale = (float)s;
    *minimum = (float)m;
}

/* d, dmin, scales[12], codes[128] */
static void decode_q4_k(const uint8_t *b, float *out) {
    const uint8_t *packed = b + 16;
    float d = f16_at(b), dmin = f16_at(b + 2), scale, minimum;
    for (int i = 0; i < LARGE; i++) {
        int code = packed[i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15;
        scale_and_minimum(b + 4, i / 32, &scale, &minimum);
        out[i] = d * scale * (float)code - dmin * minimum;
    }
}

/* d, dmin, scales[12], high[32] (a bit a code), codes[128] */
static void decode_q5_k(const uint8_t *b, float *out) {
    const uint8_t *high = b + 16, *packed = b + 48;
    float d = f16_at(b), dmin = f16_at(b + 2), scale, minimum;
    for (int i = 0; i < LARGE; i++) {
        int code = packed[i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15;
        code |= (high[i % 32] >> i / 32 & 1) << 4;
        scale_and_minimum(b + 4, i / 32, &scale, &minimum);
        out[i] = d * scale * (float)code - dmin * minimum;
    }
}

/* low[128] (4 bits a code), high[64] (2 bits), scales[16] i8, d */
static void decode_q6_k(const uint8_t *b, float *out) {
    float d = f16_at(b + 208);
    for (int i = 0; i < LARGE; i++) {
        int half = i / 128, plane = i % 128 / 32, at = i % 32;
        int low = b[half * 64 + plane % 2 * 32 + at] >> plane / 2 * 4 & 15;
        int high = b[128 + half * 32 + at] >> plane * 2 & 3;
        out[i] = d * (float)(int8_t)b[192 + i / 16] * (float)((low | high << 4) - 32);
    }
}

/* ---- other levels ---- */

/* The levels of IQ4: not evenly apart. */
static const int8_t iq4_levels[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};

/* d, codes[16] */
static void decode_iq4_nl(const uint8_t *b, float *out) {
    uint8_t codes[SMALL];
    nibbles(b + 2, codes);
    for (int i = 0; i < SMALL; i++)
        out[i] = f16_at(b) * (float)iq4_levels[codes[i]];
}

/* d, high[2] (2 bits a scale), low[4] (4 bits), codes[128] */
static void decode_iq4_xs(const uint8_t *b, float *out) {
    unsigned high = u16_at(b + 2);
    for (int j = 0; j < LARGE / SMALL; j++) {
        uint8_t codes[SMALL];
        int scale = (b[4 + j / 2] >> j % 2 * 4 & 15) | (int)(high >> 2 * j & 3) << 4;
        nibbles(b + 8 + j * 16, codes);
        for (int i = 0; i < SMALL; i++)
            out[j * SMALL + i] = f16_at(b) * (float)(scale - 32) * (float)iq4_levels[codes[i]];
    }
}

/* Five digits of base 3 in a byte, as a fraction of 256; the n-th of them. */
static int third(uint8_t byte, int n) {
    static const uint8_t power[] = {1, 3, 9, 27, 81};
    return (uint8_t)(byte * power[n]) * 3 >> 8;
}

/* Codes 0, 1 and 2 of TQ1_0: digits[48] (five a byte), rest[4] (four a byte), d */
static void thirds(const uint8_t *b, uint8_t codes[LARGE]) {
    for (int i = 0; i < 160; i++)
        codes[i] = (uint8_t)third(b[i % 32], i / 32);
    for (int i = 0; i < 80; i++)
        codes[160 + i] = (uint8_t)third(b[32 + i % 16], i / 16);
    for (int i = 0; i < 16; i++)
        codes[240 + i] = (uint8_t)third(b[48 + i % 4], i / 4);
}

/* The same of TQ2_0: codes[64] (two bits each), d */
static void pairs_of_bits(const uint8_t *b, uint8_t codes[LARGE]) {
    for (int i = 0; i < LARGE; i++)
        codes[i] = b[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

static void decode_tq1_0(const uint8_t *b, float *out) {
    uint8_t codes[LARGE];
    thirds(b, codes);
    for (int i = 0; i < LARGE; i++)
        out[i] = f16_at(b + 52) * (float)(codes[i] - 1);
}

static void decode_tq2_0(const uint8_t *b, float *out) {
    uint8_t codes[LARGE];
    pairs_of_bits(b, codes);
    for (int i = 0; i < LARGE; i++)
        out[i] = f16_at(b + 64) * (float)(codes[i] - 1);
}

/* One scale for all groups, and codes from which 1 is subtracted. */
static void put_ternary(uint16_t d, int groups, uint16_t *scales, uint16_t *biases) {
    for (int j = 0; j < groups; j++) {
        scales[j] = d;
        biases[j] = offset_bias(d, 1);
    }
}

static void split_tq1_0(const uint8_t *b, uint8_t *codes, uint16_t *scales, uint16_t *biases) {
    thirds(b, codes);
    put_ternary(u16_at(b + 52), LARGE / SMALL, scales, biases);
}

static void split_tq2_0(const uint8_t *b, uint8_t *codes, uint16_t *scales, uint16_t *biases) {
    pairs_of_bits(b, codes);
    put_ternary(u16_at(b + 64), LARGE / SMALL, scales, biases);
}

/* ---- blocks of a scale and one or two bits ---- */

enum { BITS = 128, QUARTERS = 64 }; /* weights of Q1_0 and Q2_0 */

/* d f16, then a bit for each weight: -d or d, codes 0 and 2. */
static void split_q1_0(const uint8_t *b, uint8_t *codes, uint16_t *scales, uint16_t *biases) {
    for (int i = 0; i < BITS; i++)
        codes[i] = (uint8_t)((b[2 + i / 8] >> i % 8 & 1) * 2);
    put_ternary(u16_at(b), BITS / SMALL, scales, biases);
}

static void decode_q1_0(const uint8_t *b, float *out) {
    for (int i = 0; i < BITS; i++)
        out[i] = b[2 + i / 8] >> i % 8 & 1 ? f16_at(b) : -f16_at(b);
}

/* d f16, then codes of two bits, from which 1 is subtracted. */
static void split_q2_0(const uint8_t *b, uint8_t *codes, uint16_t *scales, uint16_t *biases) {
    for (int i = 0; i < QUARTERS; i++)
        codes[i] = b[2 + i / 4] >> i % 4 * 2 & 3;
    put_ternary(u16_at(b), QUARTERS / SMALL, scales, biases);
}

static void decode_q2_0(const uint8_t *b, float *out) {
    for (int i = 0; i < QUARTERS; i++)
        out[i] = f16_at(b) * (float)((b[2 + i / 4] >> i % 4 * 2 & 3) - 1);
}

/* ---- blocks of 256 as groups of 32 ---- */

static void put_scales(const uint8_t *b, uint16_t *scales, uint16_t *biases) {
    float scale, minimum;
    for (int j = 0; j < LARGE / SMALL; j++) {
        scale_and_minimum(b + 4, j, &scale, &minimum);
        scales[j] = mc_f32_to_f16(f16_at(b) * scale);
        biases[j] = mc_f32_to_f16(-f16_at(b + 2) * minimum);
    }
}

static void split_q4_k(const uint8_t *b, uint8_t *codes, uint16_t *scales, uint16_t *biases) {
    for (int i = 0; i < LARGE; i++)
        codes[i] = b[16 + i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15;
    put_scales(b, scales, biases);
}

static void split_q5_k(const uint8_t *b, uint8_t *codes, uint16_t *scales, uint16_t *biases) {
    for (int i = 0; i < LARGE; i++) {
        int code = b[48 + i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15;
        codes[i] = (uint8_t)(code | (b[16 + i % 32] >> i / 32 & 1) << 4);
    }
    put_scales(b, scales, biases);
}

/* Quantises 32 numbers to codes up to `last`, between the least and the largest of them. What is
 * no finite number, in a damaged file, has the code 0. */
static void fit(const float *x, int last, uint8_t *codes, uint16_t *scale, uint16_t *bias) {
    float low = x[0], high = x[0];
    for (int i = 1; i < SMALL; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    *scale = mc_f32_to_f16((high - low) / (float)last);
    *bias = mc_f32_to_f16(low);
    float step = mc_f16_to_f32(*scale), from = mc_f16_to_f32(*bias);
    for (int i = 0; i < SMALL; i++) {
        float code = step > 0 ? rintf((x[i] - from) / step) : 0;
        codes[i] = (uint8_t)(code > 0 ? (code < (float)last ? code : (float)last) : 0);
    }
}

static void fit_all(const float *x, int groups, int last, uint8_t *codes, uint16_t *scales,
                    uint16_t *biases) {
    for (int j = 0; j < groups; j++)
        fit(x + j * SMALL, last, codes + j * SMALL, &scales[j], &biases[j]);
}

/* split of a type whose weights are quantised anew. */
#define SPLIT_ANEW(name, block, bits)                                            \
    static void split_##name(const uint8_t *b, uint8_t *codes, uint16_t *scales, \
                             uint16_t *biases) {                                 \
        float out[block];                                                        \
        decode_##name(b, out);                                                   \
        fit_all(out, (block) / SMALL, (1 << (bits)) - 1, codes, scales, biases); \
    }
SPLIT_ANEW(q2_k, LARGE, 6)
SPLIT_ANEW(q3_k, LARGE, 6)
SPLIT_ANEW(q6_k, LARGE, 8)
SPLIT_ANEW(iq4_nl, SMALL, 6)
SPLIT_ANEW(iq4_xs, LARGE, 6)

/* d f32, codes[256] i8, sums */
static void decode_q8_k(const uint8_t *b, float *out) {
    for (int i = 0; i < LARGE; i++)
        out[i] = f32_at(b) * (float)(int8_t)b[4 + i];
}

/* ---- the types ---- */

static const mc_ggml_type types[] = {
    {0, "F32", 1, 4, decode_f32, 0, 0, NULL, NULL},
    {1, "F16", 1, 2, decode_f16, 0, 0, NULL, NULL},
    {2, "Q4_0", SMALL, 18, decode_q4_0, MICA_QUANT_AFFINE, 4, split_q4_0, join_q4_0},
    {3, "Q4_1", SMALL, 20, decode_q4_1, MICA_QUANT_AFFINE, 4, split_q4_1, join_q4_1},
    {6, "Q5_0", SMALL, 22, decode_q5_0, MICA_QUANT_AFFINE, 5, split_q5_0, join_q5_0},
    {7, "Q5_1", SMALL, 24, decode_q5_1, MICA_QUANT_AFFINE, 5, split_q5_1, join_q5_1},
    {8, "Q8_0", SMALL, 34, decode_q8_0, MICA_QUANT_AFFINE, 8, split_q8_0, join_q8_0},
    {10, "Q2_K", LARGE, 84, decode_q2_k, MICA_QUANT_AFFINE, 6, split_q2_k, NULL},
    {11, "Q3_K", LARGE, 110, decode_q3_k, MICA_QUANT_AFFINE, 6, split_q3_k, NULL},
    {12, "Q4_K", LARGE, 144, decode_q4_k, MICA_QUANT_AFFINE, 4, split_q4_k, NULL},
    {13, "Q5_K", LARGE, 176, decode_q5_k, MICA_QUANT_AFFINE, 5, split_q5_k, NULL},
    {14, "Q6_K", LARGE, 210, decode_q6_k, MICA_QUANT_AFFINE, 8, split_q6_k, NULL},
    {15, "Q8_K", LARGE, 292, decode_q8_k, 0, 0, NULL, NULL},
    {16, "IQ2_XXS", LARGE, 66, NULL, 0, 0, NULL, NULL},
    {17, "IQ2_XS", LARGE, 74, NULL, 0, 0, NULL, NULL},
    {18, "IQ3_XXS", LARGE, 98, NULL, 0, 0, NULL, NULL},
    {19, "IQ1_S", LARGE, 50, NULL, 0, 0, NULL, NULL},
    {20, "IQ4_NL", SMALL, 18, decode_iq4_nl, MICA_QUANT_AFFINE, 6, split_iq4_nl, NULL},
    {21, "IQ3_S", LARGE, 110, NULL, 0, 0, NULL, NULL},
    {22, "IQ2_S", LARGE, 82, NULL, 0, 0, NULL, NULL},
    {23, "IQ4_XS", LARGE, 136, decode_iq4_xs, MICA_QUANT_AFFINE, 6, split_iq4_xs, NULL},
    {28, "F64", 1, 8, decode_f64, 0, 0, NULL, NULL},
    {29, "IQ1_M", LARGE, 56, NULL, 0, 0, NULL, NULL},
    {30, "BF16", 1, 2, decode_bf16, 0, 0, NULL, NULL},
    {34, "TQ1_0", LARGE, 54, decode_tq1_0, MICA_QUANT_AFFINE, 2, split_tq1_0, NULL},
    {35, "TQ2_0", LARGE, 66, decode_tq2_0, MICA_QUANT_AFFINE, 2, split_tq2_0, NULL},
    {39, "MXFP4", SMALL, 17, decode_mxfp4, MICA_QUANT_MXFP4, 4, split_mxfp4, join_mxfp4},
    {40, "NVFP4", QUARTERS, 36, NULL, 0, 0, NULL, NULL},
    {41, "Q1_0", BITS, 18, decode_q1_0, MICA_QUANT_AFFINE, 2, split_q1_0, NULL},
    {42, "Q2_0", QUARTERS, 18, decode_q2_0, MICA_QUANT_AFFINE, 2, split_q2_0, NULL},
};
enum { N_TYPES = sizeof types / sizeof *types };

const mc_ggml_type *mc_ggml_type_find(uint32_t id) {
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].id == id) return &types[i];
    return NULL;
}

const mc_ggml_type *mc_ggml_type_at(size_t i) {
    return i < N_TYPES ? &types[i] : NULL;
}
