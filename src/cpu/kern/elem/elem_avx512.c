#include <string.h>

#include "cpu/kern/avx512.h"
#include "cpu/kern/kern.h"

#define BYTES 64
#define FILL mk_elem_avx512

/* ---- a tile rounded, in registers ---- */

#define EVEN (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
enum { LANES = 16, REGS = 8 };

/* Multiples of the scale; false: some are too near the middle of two integers, or NaN. */
MK_INLINE bool round_quickly(const mk_rounding *by, const float *x, __m512i whole[REGS]) {
    const __m512 inverse = _mm512_set1_ps(by->inverse), zero = _mm512_set1_ps(by->zero);
    const __m512 lo = _mm512_set1_ps(by->lo), hi = _mm512_set1_ps(by->hi);
    const __m512 sure = _mm512_set1_ps(MK_ROUND_SURE);
    __mmask16 unsure = 0;
#pragma GCC unroll 8
    for (int k = 0; k < REGS; k++) {
        __m512 v = _mm512_mul_ps(_mm512_loadu_ps(x + k * LANES), inverse);
        __m512 apart = _mm512_abs_ps(_mm512_reduce_ps(v, EVEN));
        unsure |= _mm512_cmp_ps_mask(apart, sure, _CMP_NLE_UQ);
        v = _mm512_add_ps(_mm512_roundscale_ps(v, EVEN), zero);
        whole[k] = _mm512_cvttps_epi32(_mm512_min_ps(_mm512_max_ps(v, lo), hi));
    }
    return !unsure;
}

MK_INLINE void round_exactly(const mk_rounding *by, const float *x, __m512i whole[REGS]) {
    const __m512 scale = _mm512_set1_ps(by->scale), zero = _mm512_set1_ps(by->zero);
    const __m512 lo = _mm512_set1_ps(by->lo), hi = _mm512_set1_ps(by->hi);
#pragma GCC unroll 8
    for (int k = 0; k < REGS; k++) {
        __m512 v = _mm512_div_ps(_mm512_loadu_ps(x + k * LANES), scale);
        v = _mm512_add_ps(_mm512_roundscale_ps(v, EVEN), zero);
        const __mmask16 number = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q);
        v = _mm512_maskz_min_ps(number, _mm512_max_ps(v, lo), hi);
        whole[k] = _mm512_cvttps_epi32(v);
    }
}

static void round_tile(bool is_signed, const mk_step *s, float *x, int64_t n, uint8_t *to) {
    const mk_rounding by = mk_rounding_of(s->x, s->zero, is_signed);
    uint8_t part[REGS * LANES], *bytes = n == REGS * LANES && to ? to : part;
    __m512i whole[REGS];
    if (!by.quick || !round_quickly(&by, x, whole)) round_exactly(&by, x, whole);
#pragma GCC unroll 8
    for (int k = 0; k < REGS; k++) {
        _mm_storeu_si128((__m128i *)(void *)(bytes + k * LANES), _mm512_cvtepi32_epi8(whole[k]));
        _mm512_storeu_ps(x + k * LANES, _mm512_cvtepi32_ps(whole[k]));
    }
    if (bytes == part && to) memcpy(to, part, (size_t)n);
}

#define ROUNDS
#include "cpu/kern/elem/elem_tmpl.h"
