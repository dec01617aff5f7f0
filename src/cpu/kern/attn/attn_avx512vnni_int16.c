/* Attention in int16 (attn_int16.h), and weights rounded to bf16 without instructions for that. */
#include "cpu/kern/attn/attn_int16.h"

/* Rounds to bf16, to nearest even, in the upper half; NaN stays NaN. */
MK_INLINE __m512i rounded(__m512 x) {
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    return _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
                                 _mm512_set1_epi32(0x7fc00000));
}

MK_INLINE __m512i two_halves(__m512 a, __m512 b) {
    const __m512i upper =
        _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                         25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_permutex2var_epi16(rounded(a), upper, rounded(b));
}

#include "cpu/kern/attn/attn_exp_tmpl.h"

void mk_attn_avx512vnni_int16(mk_kernels *kernels) {
    mk_attn_int16_scores(kernels);
    mk_attn_int16_values(kernels);
    kernels->exp_total_bf16 = exp_total_bf16;
    kernels->bf16_pairs = kernels->int16 = true;
    kernels->values_together = MK_INT16_GROUP;
}
