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
    {10, "Q2_K", LARGE, 84, decode_q2_k, 0, 0, NULL, NULL},
    {11, "Q3_K", LARGE, 110, decode_q3_k, 0, 0, NULL, NULL},
    {12, "Q4_K", LARGE, 144, decode_q4_k, 0, 0, NULL, NULL},
    {13, "Q5_K", LARGE, 176, decode_q5_k, 0, 0, NULL, NULL},
    {14, "Q6_K", LARGE, 210, decode_q6_k, 0, 0, NULL, NULL},
    {15, "Q8_K", LARGE, 292, decode_q8_k, 0, 0, NULL, NULL},
    {28, "F64", 1, 8, decode_f64, 0, 0, NULL, NULL},
    {30, "BF16", 1, 2, decode_bf16, 0, 0, NULL, NULL},
    {39, "MXFP4", SMALL, 17, decode_mxfp4, MICA_QUANT_MXFP4, 4, split_mxfp4, join_mxfp4},
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
