/* AVX-512: 16 codes at a time in their natural order, and affine rows of 4 bits 32 at a time.
 *
 * A group of 4 bits has 16 values scale * code + bias: a table in one register. A permutation looks
 * up 16 codes at once. Four words (32 codes) are broadcast to the four quarters of a register.
 * Shifts by 0 4 8 12 and 16 20 24 28 bring code 8 i + c to lane 4 c + i, the order that arrange_q4
 * (AVX2) gives the activations. Bits above a code need no mask: the permutation ignores them. */
#include "cpu/kern/pages.h"
#include "cpu/kern/quant/quant.h"
#include "cpu/kern/vec_avx512.h"

#define STEP 16
#define STAGED true

/* How 16 codes become 16 lanes: their 2 * bits bytes are spread so that lane i holds the two bytes
 * that code i begins in, and shifted down. */
typedef struct decoder {
    __m512i bytes, shifts, mask;
    __mmask16 load;
} decoder;

MK_INLINE decoder decoder_of(mk_form f) {
    uint8_t bytes[64];
    uint32_t shifts[16];
    for (int i = 0; i < 16; i++) {
        int bit = i * f.bits, after = bit / 8 + 1;
        bytes[4 * i] = (uint8_t)(bit / 8);
        bytes[4 * i + 1] = (uint8_t)(after < 2 * f.bits ? after : 0x80);
        bytes[4 * i + 2] = bytes[4 * i + 3] = 0x80; /* gives 0 */
        shifts[i] = (uint32_t)(bit % 8);
    }
    return (decoder){
        .bytes = _mm512_loadu_si512(bytes),
        .shifts = _mm512_loadu_si512(shifts),
        .mask = _mm512_set1_epi32((1 << f.bits) - 1),
        .load = mk_first(2 * f.bits),
    };
}

MK_INLINE __m512i read_codes(const decoder *d, int bits, const uint8_t *codes) {
    if (bits == 8) return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)codes));
    __m512i spread = _mm512_broadcast_i32x4(_mm_maskz_loadu_epi8(d->load, codes));
    spread = _mm512_srlv_epi32(_mm512_shuffle_epi8(spread, d->bytes), d->shifts);
    return _mm512_and_si512(spread, d->mask);
}

/* 16 bytes of E4M3 as f16, whose exponent's bias is 8 more, and then as f32. 0x7f is NaN. */
MK_INLINE __m512 from_e4m3(const uint8_t *codes) {
    __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)codes));
    __m256i rest = _mm256_and_si256(b, _mm256_set1_epi16(0x7f));
    __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(b, rest), 8);
    __mmask16 nan = _mm256_cmpeq_epi16_mask(rest, _mm256_set1_epi16(0x7f));
    __m256i half = _mm256_or_si256(_mm256_slli_epi16(rest, 7), sign);
    half = _mm256_mask_mov_epi16(half, nan, _mm256_set1_epi16(0x7e00));
    return _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0f));
}

MK_INLINE __m512 from_e2m1(__m512i codes) {
    const __m512 values = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f,
                                         -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
    return _mm512_permutexvar_ps(codes, values);
}

/* Register p of a block, in the order of arrange_q4. */
MK_INLINE __m512 look_up(__m512 table, const uint8_t *codes, int p) {
    const __m512i lower = _mm512_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    const __m512i upper =
        _mm512_setr_epi32(16, 16, 16, 16, 20, 20, 20, 20, 24, 24, 24, 24, 28, 28, 28, 28);
    __m512i words = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)codes));
    return _mm512_permutexvar_ps(_mm512_srlv_epi32(words, p == 0 ? lower : upper), table);
}

typedef struct group {
    __m512 scale, bias; /* of blocks, scale is the table of the 16 values */
} group;

MK_INLINE group group_of(mk_form f, __m512 scale, __m512 bias) {
    const __m512 each = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    if (f.step == MK_BLOCK) return (group){_mm512_fmadd_ps(scale, each, bias), bias};
    return (group){scale, bias};
}

MK_INLINE __m512 weights_of(mk_form f, const decoder *d, const group *of, const uint8_t *codes,
                            int p) {
    if (f.step == MK_BLOCK) return look_up(of->scale, codes, p);
    if (f.mode == MK_MXFP8) return _mm512_mul_ps(of->scale, from_e4m3(codes));
    __m512i numbers = read_codes(d, f.bits, codes);
    if (f.mode != MK_AFFINE) return _mm512_mul_ps(of->scale, from_e2m1(numbers));
    return _mm512_fmadd_ps(of->scale, _mm512_cvtepi32_ps(numbers), of->bias);
}

#include "cpu/kern/quant/quant_tmpl.h"

void mk_quant_avx512(mk_kernels *kernels) {
    set_quant(kernels);
}
