/* Template of exp_total_bf16. The file that includes it has attn_avx512.h and `two_halves`, which
 * rounds 32 numbers to bf16, those of the first argument first. All instances give the same bits,
 * except for NaN. */

/* exp(t), t <= 0, as 2^n 2^f with |f| <= 1/2. The error is below 2^-17, which is enough before
 * rounding to bf16. Of the polynomials with 1 at 0 this has the least relative error: 2^-18.4. */
MK_INLINE __m512 exp_roughly(__m512 t) {
    __m512 z = _mm512_mul_ps(t, _mm512_set1_ps(0x1.715476p+0f));
    __m512 n = _mm512_roundscale_ps(z, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 f = _mm512_sub_ps(z, n);
    __m512 p = _mm512_set1_ps(0x1.3a02ccp-7f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.c9fc46p-5f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ec0378p-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62e12cp-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
    __mmask16 keep = _mm512_cmp_ps_mask(t, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ);
    return _mm512_maskz_scalef_ps(keep, p, n);
}

/* bf16 numbers, in the upper halves of lanes, as integer multiples of 2^-24. */
MK_INLINE __m512i shares(__m512i halves) {
    return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_castsi512_ps(halves), _mm512_set1_ps(0x1p24f)));
}

static float exp_total_bf16(int64_t n, const float *x, float shift, uint16_t *w) {
    const __m512 max = _mm512_set1_ps(shift);
    const __m512i upper = _mm512_set1_epi32(-0x10000);
    int64_t total = 0, i = 0;
    for (int64_t whole = n / 32 * 32; i < whole;) {
        int64_t end = min(whole, i + 16 * MK_ATTN_TERMS);
        __m512i sum = _mm512_setzero_si512();
        for (; i < end; i += 32) {
            __m512 a = exp_roughly(_mm512_sub_ps(_mm512_loadu_ps(x + i), max));
            __m512 b = exp_roughly(_mm512_sub_ps(_mm512_loadu_ps(x + i + 16), max));
            __m512i both = two_halves(a, b);
            _mm512_storeu_si512(w + i, both);
            sum = _mm512_add_epi32(sum, shares(_mm512_slli_epi32(both, 16)));
            sum = _mm512_add_epi32(sum, shares(_mm512_and_si512(both, upper)));
        }
        total += mk_sum_i32(sum);
    }
    for (; i < n; i += 16) {
        __mmask16 mask = mk_first(n - i);
        __m512 t = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), max);
        __m512i both = two_halves(exp_roughly(t), _mm512_setzero_ps());
        __m256i half = _mm256_maskz_mov_epi16(mask, _mm512_castsi512_si256(both));
        _mm256_mask_storeu_epi16(w + i, mask, half);
        total += mk_sum_i32(shares(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16)));
    }
    return (float)total * 0x1p-24f;
}
