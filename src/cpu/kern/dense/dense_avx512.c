/* AVX-512. */
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/vec_avx512.h"

#define ROWS 6 /* 6 x 4 sums and 5 operands fit 32 registers */
#define COLS 4
#define COLS_ALONE COLS
#define OWN_AHEAD 8192
#define store_dots mk_store_dots

/* To nearest even; NaN stays NaN. */
MK_INLINE __m256i narrow_vec(mk_type type, __m512 v) {
    if (type == MK_F16) return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512i u = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    up = _mm512_mask_or_epi32(up, nan, u, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
}

MK_INLINE void store_narrow(mk_type type, uint16_t *y, __m512 v) {
    _mm256_storeu_si256((void *)y, narrow_vec(type, v));
}

MK_INLINE void store_narrow_tail(mk_type type, uint16_t *y, mk_tail tail, __m512 v) {
    _mm256_mask_storeu_epi16(y, tail, narrow_vec(type, v));
}

#include "cpu/kern/dense/dense_narrow_tmpl.h"
#include "cpu/kern/dense/dense_tmpl.h"

void mk_dense_avx512(mk_kernels *kernels) {
    set_dense(kernels);
    set_narrow(kernels);
}
