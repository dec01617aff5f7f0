/* AVX-512 VNNI: attention over bf16 in int16, for processors that multiply pairs of bf16 slower
 * than f32, or not at all. vpdpwssd computes two products where an f32 instruction computes one,
 * and its sums are exact.
 *
 * Groups of numbers are quantised to codes with a common step, a power of two that the largest of
 * them determines. A group is MK_INT16_PART elements of a query or a key, a row's weights of
 * MK_INT16_GROUP keys, or the values of as many keys in one column. Codes of queries, keys and
 * weights have NARROW bits and a sign, codes of values WIDE bits and a sign; bf16 fills eight bits.
 * So a group's sum of products just fits 32 bits. Numbers down to a sixteenth of the largest
 * (values: a sixty-fourth) are exact; smaller ones are rounded to the step. */
#ifndef CPU_KERN_ATTN_ATTN_INT16_H
#define CPU_KERN_ATTN_ATTN_INT16_H

#include "cpu/kern/attn/attn_avx512.h"

#define NARROW 12
#define WIDE 14
#define FEW 4 /* max rows of q or weights for which keys and values are used in place */

/* Biased exponent of 2^-111. Groups of smaller numbers get its step, so that 1 / step is a
 * float. */
#define MIN_EXPONENT 16

/* The largest code of so many bits. */
#define MAX_CODE(bits) (255 << ((bits)-8))
_Static_assert(INT32_MAX / MAX_CODE(NARROW) / MAX_CODE(NARROW) >= MK_INT16_PART, "a score fits");
_Static_assert(INT32_MAX / MAX_CODE(NARROW) / MAX_CODE(WIDE) >= MK_INT16_GROUP,
               "a sum of values fits");

/* Two codes. */
typedef struct __attribute__((packed, may_alias)) code_pair {
    uint32_t word;
} code_pair;

/* up: factor from numbers to codes. down: factor from codes to numbers, NaN if a number was not
 * finite. */
typedef struct steps {
    __m512 up, down;
} steps;

/* max: in each lane, the bits of the largest magnitude in bf16. */
MK_INLINE steps steps_of(__m512i max, int bits) {
    __m512i whole = _mm512_srli_epi32(max, 7);
    __m512i e = _mm512_max_epi32(whole, _mm512_set1_epi32(MIN_EXPONENT));
    __m512i up = _mm512_sub_epi32(_mm512_set1_epi32(253 + bits), e);
    __m512i down = _mm512_sub_epi32(e, _mm512_set1_epi32(bits - 1));
    __mmask16 lost = _mm512_cmpeq_epi32_mask(whole, _mm512_set1_epi32(255));
    down = _mm512_mask_mov_epi32(_mm512_slli_epi32(down, 23), lost, _mm512_set1_epi32(0x7fc00000));
    return (steps){_mm512_castsi512_ps(_mm512_slli_epi32(up, 23)), _mm512_castsi512_ps(down)};
}

MK_INLINE __m512i magnitudes(__m512i halves) {
    return _mm512_and_si512(halves, _mm512_set1_epi16(0x7fff));
}

/* The larger half of each lane. */
MK_INLINE __m512i max_of_pairs(__m512i max) {
    __m512i upper = _mm512_srli_epi32(max, 16);
    return _mm512_max_epu32(upper, _mm512_and_si512(max, _mm512_set1_epi32(0xffff)));
}

/* The largest of 32 magnitudes, in every lane. */
MK_INLINE __m512i max_of_all(__m512i max) {
    __m256i a = _mm256_max_epu16(_mm512_castsi512_si256(max), _mm512_extracti64x4_epi64(max, 1));
    __m128i b = _mm_max_epu16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    __m128i min = _mm_minpos_epu16(_mm_sub_epi16(_mm_set1_epi16(0x7fff), b));
    return _mm512_set1_epi32(0x7fff - (_mm_cvtsi128_si32(min) & 0xffff));
}

/* The lower (upper) bf16 numbers of the lanes as integers in the low 16 bits: adding 1.5 * 2^23
 * leaves only them in a float's last bits. */
MK_INLINE __m512i lower_codes(__m512i halves, __m512 up) {
    __m512 x = _mm512_castsi512_ps(_mm512_slli_epi32(halves, 16));
    return _mm512_castps_si512(_mm512_fmadd_ps(x, up, _mm512_set1_ps(0x1.8p23f)));
}

MK_INLINE __m512i upper_codes(__m512i halves, __m512 up) {
    __m512 x =
        _mm512_castsi512_ps(_mm512_and_si512(halves, _mm512_set1_epi32((int32_t)0xffff0000u)));
    return _mm512_castps_si512(_mm512_fmadd_ps(x, up, _mm512_set1_ps(0x1.8p23f)));
}

/* Packs the low 16 bits of the lanes of a and b, those of a lower. */
MK_INLINE __m512i paired_codes(__m512i a, __m512i b) {
    return _mm512_mask_blend_epi16(0xaaaaaaaau, a, _mm512_slli_epi32(b, 16));
}

MK_INLINE __m512i codes_of(__m512i halves, __m512 up) {
    return paired_codes(lower_codes(halves, up), upper_codes(halves, up));
}

/* sum + the dot product of the two codes at `all`, broadcast, with the two of each lane. With the
 * intrinsic, gcc 12 moves the sum to another register and back. */
MK_INLINE __m512i dot2_all(__m512i sum, __m512i two, const uint32_t *all) {
    const code_pair *pair = (const void *)all;
    __asm__("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(two), "m"(*pair));
    return sum;
}

/* The same, with two codes of `other` for each lane. */
MK_INLINE __m512i dot2(__m512i sum, __m512i two, const uint32_t *other) {
    const __m512i_u *pairs = (const void *)other;
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(two), "m"(*pairs));
    return sum;
}

/* whole [rows, cols] += dot products of two codes of each row, rows `stride` words apart, and those
 * of `cols` registers from b on. */
MK_INLINE void add_dots(int rows, int cols, const uint32_t *row, int64_t stride, const uint32_t *b,
                        __m512i whole[][COLS]) {
    __m512i two[COLS];
#pragma GCC unroll 4
    for (int c = 0; c < cols; c++) {
        two[c] = _mm512_load_si512(b + 16 * c);
        __asm__("" : "+v"(two[c])); /* loaded once, not for each row */
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int c = 0; c < cols; c++)
            whole[i][c] = dot2_all(whole[i][c], two[c], row + i * stride);
}

/* Parts of mk_attn_avx512vnni_int16. */
void mk_attn_int16_scores(mk_kernels *kernels);
void mk_attn_int16_values(mk_kernels *kernels);

#endif
