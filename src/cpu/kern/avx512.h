/* Shared by AVX-512 kernels: the order in which lanes and parts of sums are added, transposes,
 * exp. */
#ifndef CPU_KERN_AVX512_H
#define CPU_KERN_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define MK_INLINE static inline __attribute__((always_inline))

/* Adds the lanes of a sum: first halves, then quarters, then neighbours. */
MK_INLINE __m128 mk_quarter(__m512 a) {
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

MK_INLINE __m128 mk_sum4(__m512 a, __m512 b, __m512 c, __m512 d) {
    __m128 ab = _mm_hadd_ps(mk_quarter(a), mk_quarter(b));
    return _mm_hadd_ps(ab, _mm_hadd_ps(mk_quarter(c), mk_quarter(d)));
}

/* mk_quarter of each, in adjacent quarters. */
MK_INLINE __m512 mk_quarters(__m512 a, __m512 b, __m512 c, __m512 d) {
    __m512 ac = _mm512_add_ps(_mm512_mask_blend_ps(0xff00, a, c),
                              _mm512_shuffle_f32x4(a, c, _MM_SHUFFLE(1, 0, 3, 2)));
    __m512 bd = _mm512_add_ps(_mm512_mask_blend_ps(0xff00, b, d),
                              _mm512_shuffle_f32x4(b, d, _MM_SHUFFLE(1, 0, 3, 2)));
    __m512 badc = _mm512_mask_blend_ps(0x0f0f, ac, bd);
    return _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, ac, bd),
                         _mm512_shuffle_f32x4(badc, badc, _MM_SHUFFLE(2, 3, 0, 1)));
}

/* Adds neighbouring lanes: each 128 bits get the two sums of a, then those of b. */
MK_INLINE __m512 mk_add_neighbours(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)),
                         _mm512_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
}

/* mk_sum4 of two rows. */
MK_INLINE __m256 mk_sum8(const __m512 a[4], const __m512 b[4]) {
    __m512 two =
        mk_add_neighbours(mk_quarters(a[0], b[0], a[2], b[2]), mk_quarters(a[1], b[1], a[3], b[3]));
    return _mm256_hadd_ps(_mm512_castps512_ps256(two), _mm512_extractf32x8_ps(two, 1));
}

/* mk_sum4 of four rows. */
MK_INLINE __m512 mk_sum16(const __m512 a[4], const __m512 b[4], const __m512 c[4],
                          const __m512 d[4]) {
    return mk_add_neighbours(
        mk_add_neighbours(mk_quarters(a[0], b[0], c[0], d[0]), mk_quarters(a[1], b[1], c[1], d[1])),
        mk_add_neighbours(mk_quarters(a[2], b[2], c[2], d[2]),
                          mk_quarters(a[3], b[3], c[3], d[3])));
}

/* y [rows, cols] = sums of lanes; rows <= 6, cols 1 or 4. Stores whole quarters: an instruction
 * that extracts a quarter and stores it can fault on lanes that its mask excludes. */
MK_INLINE void mk_store_dots(int rows, int cols, __m512 sum[][4], float *y, int64_t y_stride) {
    if (cols == 1) {
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            __m128 two = _mm_hadd_ps(mk_quarter(sum[i][0]), mk_quarter(sum[i][0]));
            _mm_store_ss(y + i * y_stride, _mm_hadd_ps(two, two));
        }
        return;
    }
    int i = 0;
    if (rows >= 4) {
        __m512 four = mk_sum16(sum[0], sum[1], sum[2], sum[3]);
        _mm_storeu_ps(y, _mm512_castps512_ps128(four));
        _mm_storeu_ps(y + y_stride, _mm512_extractf32x4_ps(four, 1));
        _mm_storeu_ps(y + 2 * y_stride, _mm512_extractf32x4_ps(four, 2));
        _mm_storeu_ps(y + 3 * y_stride, _mm512_extractf32x4_ps(four, 3));
        i = 4;
    }
    if (i + 2 <= rows) {
        __m256 two = mk_sum8(sum[i], sum[i + 1]);
        _mm_storeu_ps(y + i * y_stride, _mm256_castps256_ps128(two));
        _mm_storeu_ps(y + (i + 1) * y_stride, _mm256_extractf128_ps(two, 1));
        i += 2;
    }
    if (i < rows)
        _mm_storeu_ps(y + i * y_stride, mk_sum4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]));
}

/* mk_store_dots for a part of a row: stores the sums of the first part, adds those of others to
 * y. */
MK_INLINE void mk_add_dots(int rows, int cols, bool first, __m512 sum[][4], float *y,
                           int64_t y_stride) {
    float more[6 * 4];
    mk_store_dots(rows, cols, sum, first ? y : more, first ? y_stride : 4);
    if (first) return;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            y[i * y_stride + j] += more[4 * i + j];
}

/* Number of elements in a part of a bf16 dot product. The lanes of a part are added up before the
 * next part. Parts of six rows and four columns fit an L1 cache of 48 KiB. */
#define MK_PART 2048

MK_INLINE int64_t mk_part(int64_t left) {
    return left < MK_PART ? left : MK_PART;
}

/* A mask of the first n of 16 lanes; of all if n >= 16. */
MK_INLINE __mmask16 mk_first(int64_t n) {
    unsigned lanes = n >= 16 ? 0xffffu : n > 0 ? (1u << n) - 1u : 0;
    return (__mmask16)lanes;
}

/* Loads the first n > 0 of 32 numbers of 16 bits, and zeros for the others. */
MK_INLINE __m512i mk_load_halves(const uint16_t *from, int64_t n) {
    if (n >= 32) return _mm512_loadu_si512(from);
    return _mm512_maskz_loadu_epi16((1u << n) - 1u, from);
}

MK_INLINE __m512 mk_wide_bf16(__m256i h) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* The first step of transposing 16 rows, for rows 4 i to 4 i + 3: half[c] receives their words c, 4
 * + c, 8 + c and 12 + c. */
MK_INLINE void mk_transpose_rows(const __m512i r[4], __m512i half[4]) {
    __m512i lower = _mm512_unpacklo_epi32(r[0], r[1]), upper = _mm512_unpackhi_epi32(r[0], r[1]);
    __m512i lower2 = _mm512_unpacklo_epi32(r[2], r[3]), upper2 = _mm512_unpackhi_epi32(r[2], r[3]);
    half[0] = _mm512_unpacklo_epi64(lower, lower2);
    half[1] = _mm512_unpackhi_epi64(lower, lower2);
    half[2] = _mm512_unpacklo_epi64(upper, upper2);
    half[3] = _mm512_unpackhi_epi64(upper, upper2);
}

/* The second step: words c, 4 + c, 8 + c and 12 + c of 16 rows. */
MK_INLINE void mk_transpose_words(const __m512i half[16], int c, __m512i words[4]) {
    __m512i even = _mm512_shuffle_i32x4(half[c], half[4 + c], 0x88);
    __m512i even2 = _mm512_shuffle_i32x4(half[8 + c], half[12 + c], 0x88);
    __m512i odd = _mm512_shuffle_i32x4(half[c], half[4 + c], 0xdd);
    __m512i odd2 = _mm512_shuffle_i32x4(half[8 + c], half[12 + c], 0xdd);
    words[0] = _mm512_shuffle_i32x4(even, even2, 0x88);
    words[1] = _mm512_shuffle_i32x4(odd, odd2, 0x88);
    words[2] = _mm512_shuffle_i32x4(even, even2, 0xdd);
    words[3] = _mm512_shuffle_i32x4(odd, odd2, 0xdd);
}

/* Transposes 16 x 16 words. */
MK_INLINE void mk_transpose(__m512i r[16]) {
    __m512i half[16];
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4)
        mk_transpose_rows(r + i, half + i);
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        __m512i words[4];
        mk_transpose_words(half, c, words);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            r[4 * i + c] = words[i];
    }
}

/* exp(t) for t <= 0, as 2^n e^r with |r| <= ln(2) / 2; e^r is its Taylor polynomial up to r^7 /
 * 5040. */
MK_INLINE __m512 mk_exp_negative(__m512 t) {
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(t, _mm512_set1_ps(0x1.715476p+0f)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.62e400p-1f), t);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.7f7d1cp-20f), r);
    __m512 p = _mm512_set1_ps(1.0f / 5040.0f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    __mmask16 keep = _mm512_cmp_ps_mask(t, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ);
    return _mm512_maskz_scalef_ps(keep, p, n);
}

/* The sum of 16 integers, in 64 bits because 32 may overflow. */
MK_INLINE int64_t mk_sum_i32(__m512i a) {
    __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(a));
    __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(a, 1));
    return _mm512_reduce_add_epi64(_mm512_add_epi64(low, high));
}

#endif
