/* AVX2: 8 codes at a time in their natural order, and affine rows of 4 bits 32 at a time.
 *
 * These 32 codes are four words, which are broadcast to both halves of a register. Shifts by 8 v
 * (low half) and 8 v + 4 (high half), v = 0..3, bring code 8 i + c to lane 4 c + i of the block's
 * 32: the order that arrange_q4 gives the activations. */
#include "cpu/kern/pages.h"
#include "cpu/kern/quant/quant.h"
#include "cpu/kern/vec_avx2.h"

#define STEP 8
#define STAGED true

/* y[32 b + 4 c + i] = x[32 b + 8 i + c]: each block is a 4 x 8 matrix, transposed. */
static void arrange_q4(int64_t k, const float *x, float *y) {
    for (int64_t b = 0; b < k; b += MK_BLOCK) {
        for (int half = 0; half < 2; half++) {
            const float *from = x + b + 4 * half;
            __m128 r0 = _mm_loadu_ps(from), r1 = _mm_loadu_ps(from + 8);
            __m128 r2 = _mm_loadu_ps(from + 16), r3 = _mm_loadu_ps(from + 24);
            _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
            float *to = y + b + 16 * half;
            _mm_storeu_ps(to, r0);
            _mm_storeu_ps(to + 4, r1);
            _mm_storeu_ps(to + 8, r2);
            _mm_storeu_ps(to + 12, r3);
        }
    }
}

/* How the `bits` bytes of 8 codes become 8 lanes: lane i gets the two bytes that code i begins in,
 * and is shifted down. */
typedef struct decoder {
    __m256i bytes, shifts, mask;
} decoder;

MK_INLINE decoder decoder_of(mk_form f) {
    uint8_t bytes[32];
    uint32_t shifts[8];
    for (int i = 0; i < 8; i++) {
        bytes[4 * i] = (uint8_t)(i * f.bits / 8);
        bytes[4 * i + 1] = (uint8_t)(i * f.bits / 8 + 1); /* byte 8 at most: byte 0 again */
        bytes[4 * i + 2] = bytes[4 * i + 3] = 0x80;       /* gives 0 */
        shifts[i] = (uint32_t)(i * f.bits % 8);
    }
    return (decoder){
        .bytes = _mm256_loadu_si256((const void *)bytes),
        .shifts = _mm256_loadu_si256((const void *)shifts),
        .mask = _mm256_set1_epi32((1 << f.bits) - 1),
    };
}

MK_INLINE __m256i read_codes(const decoder *d, int bits, const uint8_t *codes) {
    if (bits == 8) return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)codes));
    __m256i spread = _mm256_set1_epi64x((int64_t)mk_read_bytes(codes, bits));
    spread = _mm256_shuffle_epi8(spread, d->bytes);
    return _mm256_and_si256(_mm256_srlv_epi32(spread, d->shifts), d->mask);
}

/* Register v of a block, in the order of arrange_q4. */
MK_INLINE __m256i read_block(const uint8_t *codes, int v) {
    __m256i words = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)codes));
    __m256i shift =
        _mm256_add_epi32(_mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4), _mm256_set1_epi32(8 * v));
    return _mm256_and_si256(_mm256_srlv_epi32(words, shift), _mm256_set1_epi32(15));
}

/* 8 bytes of E4M3 as f16, whose exponent's bias is 8 more, and then as f32. 0x7f is NaN. */
MK_INLINE __m256 from_e4m3(const uint8_t *codes) {
    __m128i b = _mm_cvtepu8_epi16(_mm_loadl_epi64((const void *)codes));
    __m128i rest = _mm_and_si128(b, _mm_set1_epi16(0x7f));
    __m128i sign = _mm_slli_epi16(_mm_xor_si128(b, rest), 8);
    __m128i nan = _mm_cmpeq_epi16(rest, _mm_set1_epi16(0x7f));
    __m128i half = _mm_or_si128(_mm_slli_epi16(rest, 7), sign);
    half = _mm_blendv_epi8(half, _mm_set1_epi16(0x7e00), nan);
    return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0f));
}

MK_INLINE __m256 from_e2m1(__m256i codes) {
    const __m256 sizes = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
    __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(codes, 3), 31);
    return _mm256_or_ps(_mm256_permutevar8x32_ps(sizes, codes), _mm256_castsi256_ps(sign));
}

typedef struct group {
    __m256 scale, bias;
} group;

MK_INLINE group group_of(mk_form f, __m256 scale, __m256 bias) {
    (void)f;
    return (group){scale, bias};
}

MK_INLINE __m256 weights_of(mk_form f, const decoder *d, const group *of, const uint8_t *codes,
                            int p) {
    if (f.mode == MK_MXFP8) return _mm256_mul_ps(of->scale, from_e4m3(codes));
    __m256i numbers = f.step == MK_BLOCK ? read_block(codes, p) : read_codes(d, f.bits, codes);
    if (f.mode != MK_AFFINE) return _mm256_mul_ps(of->scale, from_e2m1(numbers));
    return _mm256_fmadd_ps(of->scale, _mm256_cvtepi32_ps(numbers), of->bias);
}

#include "cpu/kern/quant/quant_tmpl.h"

void mk_quant_avx2(mk_kernels *kernels) {
    set_quant(kernels);
    kernels->arrange_q4 = arrange_q4;
}
