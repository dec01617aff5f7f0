/* What AVX-512 kernels share: the order in which the lanes of sums are joined. */
#ifndef CPU_KERN_AVX512_H
#define CPU_KERN_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define MK_INLINE static inline __attribute__((always_inline))

/* Lanes of a sum added up: halves, quarters, then neighbours. */
MK_INLINE __m128 mk_quarter(__m512 a) {
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

MK_INLINE __m128 mk_sum4(__m512 a, __m512 b, __m512 c, __m512 d) {
    __m128 ab = _mm_hadd_ps(mk_quarter(a), mk_quarter(b));
    return _mm_hadd_ps(ab, _mm_hadd_ps(mk_quarter(c), mk_quarter(d)));
}

/* The first n of 16 lanes; all of them where n >= 16. */
MK_INLINE __mmask16 mk_first(int64_t n) {
    unsigned lanes = n >= 16 ? 0xffffu : (1u << n) - 1u;
    return (__mmask16)lanes;
}

MK_INLINE __m512 mk_wide_bf16(__m256i h) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

#endif
