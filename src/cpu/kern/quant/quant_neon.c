/* NEON: 8 codes at a time in their natural order, and affine rows of 4 bits 32 at a time, the even
 * codes of a block before the odd ones: a mask and a shift give them so, and arrange_q4 gives the
 * activations that order. */
#include "cpu/kern/pages.h"
#include "cpu/kern/quant/quant.h"
#include "cpu/kern/vec_neon.h"

#define STEP 8
#define STAGED false /* untimed: no ARM machine was at hand */

/* y[32 b + 16 odd + i] = x[32 b + 2 i + odd] */
static void arrange_q4(int64_t k, const float *x, float *y) {
    for (int64_t b = 0; b < k; b += MK_BLOCK) {
        for (int64_t i = 0; i < MK_BLOCK / 2; i += 4) {
            float32x4x2_t pairs = vld2q_f32(x + b + 2 * i);
            vst1q_f32(y + b + i, pairs.val[0]);
            vst1q_f32(y + b + MK_BLOCK / 2 + i, pairs.val[1]);
        }
    }
}

/* How the `bits` bytes of 8 codes become 8 lanes: lane i gets the two bytes that code i begins in,
 * and is shifted down. */
typedef struct decoder {
    uint8x16_t bytes;
    int16x8_t shifts;
    uint16x8_t mask;
} decoder;

MK_INLINE decoder decoder_of(mk_form f) {
    uint8_t bytes[16];
    int16_t shifts[8];
    for (int i = 0; i < 8; i++) {
        bytes[2 * i] = (uint8_t)(i * f.bits / 8);
        bytes[2 * i + 1] = (uint8_t)(i * f.bits / 8 + 1);
        shifts[i] = (int16_t) - (i * f.bits % 8);
    }
    return (decoder){
        .bytes = vld1q_u8(bytes),
        .shifts = vld1q_s16(shifts),
        .mask = vdupq_n_u16((uint16_t)((1 << f.bits) - 1)),
    };
}

MK_INLINE uint16x8_t read_codes(const decoder *d, int bits, const uint8_t *codes) {
    if (bits == 8) return vmovl_u8(vld1_u8(codes));
    uint8x8_t packed = vcreate_u8(mk_read_bytes(codes, bits));
    uint8x16_t spread = vqtbl1q_u8(vcombine_u8(packed, packed), d->bytes);
    return vandq_u16(vshlq_u16(vreinterpretq_u16_u8(spread), d->shifts), d->mask);
}

/* Codes 8 c .. of a block, in the order of arrange_q4. */
MK_INLINE uint16x8_t read_block(const uint8_t *codes, int c) {
    uint8x16_t pairs = vld1q_u8(codes);
    uint8x16_t half = c < 2 ? vandq_u8(pairs, vdupq_n_u8(15)) : vshrq_n_u8(pairs, 4);
    return vmovl_u8(c % 2 == 0 ? vget_low_u8(half) : vget_high_u8(half));
}

/* Lanes 4 p .. of 8. */
MK_INLINE uint16x4_t half_of(uint16x8_t v, int p) {
    return p % 2 == 0 ? vget_low_u16(v) : vget_high_u16(v);
}

/* 8 bytes of E4M3 as f16, whose exponent's bias is 8 more. 0x7f is NaN. */
MK_INLINE uint16x8_t from_e4m3(uint16x8_t b) {
    uint16x8_t rest = vandq_u16(b, vdupq_n_u16(0x7f));
    uint16x8_t sign = vshlq_n_u16(veorq_u16(b, rest), 8);
    uint16x8_t nan = vceqq_u16(rest, vdupq_n_u16(0x7f));
    uint16x8_t half = vorrq_u16(vshlq_n_u16(rest, 7), sign);
    return vbslq_u16(nan, vdupq_n_u16(0x7e00), half);
}

/* 8 codes of E2M1 as f16, whose lower byte is 0 for all of them. */
MK_INLINE uint16x8_t from_e2m1(uint16x8_t codes) {
    static const uint8_t upper[16] = {0x00, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46,
                                      0x80, 0xb8, 0xbc, 0xbe, 0xc0, 0xc2, 0xc4, 0xc6};
    return vshll_n_u8(vqtbl1_u8(vld1q_u8(upper), vmovn_u16(codes)), 8);
}

typedef struct group {
    float32x4_t scale, bias;
} group;

MK_INLINE group group_of(mk_form f, float32x4_t scale, float32x4_t bias) {
    (void)f;
    return (group){scale, bias};
}

MK_INLINE float32x4_t weights_of(mk_form f, const decoder *d, const group *of, const uint8_t *codes,
                                 int p) {
    uint16x8_t numbers =
        f.step == MK_BLOCK ? read_block(codes, p / 2) : read_codes(d, f.bits, codes);
    if (f.mode == MK_AFFINE)
        return vfmaq_f32(of->bias, of->scale, vcvtq_f32_u32(vmovl_u16(half_of(numbers, p))));
    if (f.mode == MK_MXFP8) {
        float32x4_t v = mk_wide(half_of(from_e4m3(numbers), p), MK_F16);
        return vmulq_f32(of->scale, vmulq_n_f32(v, 256.0f));
    }
    return vmulq_f32(of->scale, mk_wide(half_of(from_e2m1(numbers), p), MK_F16));
}

#include "cpu/kern/quant/quant_tmpl.h"

void mk_quant_neon(mk_kernels *kernels) {
    set_quant(kernels);
    kernels->arrange_q4 = arrange_q4;
}
