/* AVX-512: the softmax. bf16 keys and values are widened and multiplied by dense_avx512.c. */
#include "cpu/kern/attn/attn.h"
#include "cpu/kern/avx512.h"

static float scale_max(int64_t n, float *x, float scale) {
    __m512 max = _mm512_set1_ps(-INFINITY), factor = _mm512_set1_ps(scale);
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 mask = mk_first(n - i);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), factor);
        _mm512_mask_storeu_ps(x + i, mask, v);
        max = _mm512_mask_max_ps(max, mask, v, max); /* the second operand, if one is NaN */
    }
    return _mm512_reduce_max_ps(max);
}

static float exp_total(int64_t n, float *x, float shift) {
    __m512 max = _mm512_set1_ps(shift), unit = _mm512_set1_ps(0x1p24f);
    int64_t total = 0;
    for (int64_t i = 0; i < n;) {
        int64_t end = n - i < 16 * MK_ATTN_TERMS ? n : i + 16 * MK_ATTN_TERMS;
        __m512i sum = _mm512_setzero_si512();
        for (; i < end; i += 16) {
            __mmask16 mask = mk_first(n - i);
            __m512 t = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), max);
            __m512 y = mk_exp_negative(t);
            _mm512_mask_storeu_ps(x + i, mask, y);
            __m512i whole = _mm512_maskz_cvtps_epi32(mask, _mm512_mul_ps(y, unit));
            sum = _mm512_add_epi32(sum, whole);
        }
        total += mk_sum_i32(sum);
    }
    return (float)total * 0x1p-24f;
}

void mk_attn_avx512(mk_kernels *kernels) {
    kernels->scale_max = scale_max;
    kernels->exp_total = exp_total;
}
