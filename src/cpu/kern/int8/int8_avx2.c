/* AVX2: vpmaddubsw multiplies four codes of weights with four of x, and adds pairs in 16 bits. How
 * many of these fit before they must be widened depends on the width: 8 pairs of 2 * 15 * 128, 4 of
 * 2 * 31 * 127, 2 of 2 * 63 * 127. Codes of 8 bits are multiplied a half at a time. */
#include "cpu/kern/avx2.h"
#include "cpu/kern/int8/int8.h"

#define HIGH 2
#define STREAMED 4

/* How many registers of codes' products may be added in 16 bits. Codes of 8 bits are two halves. */
typedef enum room { TWO = 2, FOUR = 4, EIGHT = 8, HALVES = 9 } room;

static room room_of(int max) {
    return max <= 15 ? EIGHT : max <= 31 ? FOUR : max <= 63 ? TWO : HALVES;
}

MK_INLINE __m256i four_codes(const int8_t *x) {
    int32_t word;
    memcpy(&word, x, sizeof word);
    return _mm256_set1_epi32(word);
}

/* Adds pairs to sum, or begins it, now: gcc would keep products of many registers first, and run
 * out of these. */
MK_INLINE void add_pairs(bool first, __m256i *sum, __m256i pairs) {
    *sum = first ? pairs : _mm256_add_epi16(*sum, pairs);
    __asm__("" : "+x"(*sum));
}

/* dot[m] plus the products of up to 8 registers of codes with 4 times as many codes of each of m
 * rows of x, which are `stride` apart. */
MK_INLINE void dot_words(room fit, int m, __m256i *dot, const __m256i *w, int count,
                         const int8_t *x, int64_t stride) {
    const __m256i ones = _mm256_set1_epi16(1), low = _mm256_set1_epi8(0x0f);
    __m256i sum[STREAMED], high[STREAMED];
    const int fits = (int)fit;
#pragma GCC unroll 8
    for (int i = 0; i < count; i++) {
        __m256i v = w[i], h = v;
        if (fit == HALVES) {
            h = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
            v = _mm256_and_si256(v, low);
        }
#pragma GCC unroll 4
        for (int r = 0; r < m; r++) {
            __m256i a = four_codes(x + r * stride + 4 * i);
            add_pairs(i % fits == 0, &sum[r], _mm256_maddubs_epi16(v, a));
            if (fit == HALVES) add_pairs(i == 0, &high[r], _mm256_maddubs_epi16(h, a));
        }
        if (i + 1 < count && (i + 1) % fits != 0) continue;
#pragma GCC unroll 4
        for (int r = 0; r < m; r++) {
            dot[r] = _mm256_add_epi32(dot[r], _mm256_madd_epi16(sum[r], ones));
            if (fit == HALVES)
                dot[r] =
                    _mm256_add_epi32(dot[r], _mm256_madd_epi16(high[r], _mm256_set1_epi16(16)));
        }
    }
}

/* dot plus the products of 32 codes of at most 6 bits with 32 of x. */
MK_INLINE __m256i dot_row(__m256i dot, __m256i w, const int8_t *x) {
    __m256i pairs = _mm256_maddubs_epi16(w, _mm256_loadu_si256((const void *)x));
    return _mm256_add_epi32(dot, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* The same of 8 bits. */
MK_INLINE __m256i dot_bytes(__m256i dot, const uint8_t *w, const int8_t *x) {
    for (int h = 0; h < 2; h++) {
        __m256i a = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(w + 16 * h)));
        __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(x + 16 * h)));
        dot = _mm256_add_epi32(dot, _mm256_madd_epi16(a, b));
    }
    return dot;
}

/* The same of 64 codes of at most 5 bits. */
MK_INLINE __m256i dot_two(__m256i dot, __m256i w0, __m256i x0, __m256i w1, __m256i x1) {
    __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(w0, x0), _mm256_maddubs_epi16(w1, x1));
    return _mm256_add_epi32(dot, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#include "cpu/kern/int8/int8_avx2_tmpl.h"

void mk_int8_avx2(mk_kernels *kernels) {
    fill(kernels);
}
