/* Shared by AVX2 kernels: the order in which the lanes of sums are added, loads of 16 bits, exp. */
#ifndef CPU_KERN_AVX2_H
#define CPU_KERN_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#include "cpu/kern/num.h"

#define MK_INLINE static inline __attribute__((always_inline))

/* Adds the lanes of a sum: first halves, then neighbours. */
MK_INLINE __m128 mk_half(__m256 a) {
    return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
}

MK_INLINE __m128 mk_sum4(__m256 a, __m256 b, __m256 c, __m256 d) {
    __m128 ab = _mm_hadd_ps(mk_half(a), mk_half(b));
    return _mm_hadd_ps(ab, _mm_hadd_ps(mk_half(c), mk_half(d)));
}

/* Stores the first n of 4. */
MK_INLINE void mk_store4(float *y, int n, __m128 v) {
    if (n == 4) {
        _mm_storeu_ps(y, v);
        return;
    }
    float parts[4];
    _mm_storeu_ps(parts, v);
    for (int i = 0; i < n; i++)
        y[i] = parts[i];
}

/* A mask of the first n of 8 lanes. */
MK_INLINE __m256i mk_first(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n < 8 ? n : 8)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

MK_INLINE __m256 mk_wide(__m128i h, mk_type type) {
    if (type == MK_F16) return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* Loads n <= 8 elements of 16 bits as f32, and zeros for the others. */
MK_INLINE __m256 mk_load_half(const uint16_t *x, int64_t n, mk_type type) {
    if (n >= 8) return mk_wide(_mm_loadu_si128((const void *)x), type);
    uint16_t part[8] = {0};
    memcpy(part, x, (size_t)n * sizeof *part);
    return mk_wide(_mm_loadu_si128((const void *)part), type);
}

/* exp(t) for t <= 0, as 2^n e^r with |r| <= ln(2) / 2; e^r is its Taylor polynomial up to r^7 /
 * 5040. */
MK_INLINE __m256 mk_exp_negative(__m256 t) {
    __m256 n = _mm256_round_ps(_mm256_mul_ps(t, _mm256_set1_ps(0x1.715476p+0f)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.62e400p-1f), t);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.7f7d1cp-20f), r);
    __m256 p = _mm256_set1_ps(1.0f / 5040.0f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 720.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i power = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    __m256 y = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), power));
    __m256 nan = _mm256_cmp_ps(t, t, _CMP_UNORD_Q);
    y = _mm256_and_ps(y, _mm256_cmp_ps(t, _mm256_set1_ps(-87.0f), _CMP_NLT_UQ));
    return _mm256_blendv_ps(y, t, nan);
}

#endif
