/* AVX2: vpmaddubsw multiplies four codes of weights with four of x, and adds pairs in 16 bits. How
 * many of these fit before they must be widened depends on the width: 4 pairs of 2 * 31 * 127, 2 of
 * 2 * 63 * 127. Codes of 8 bits are multiplied a half at a time. */
#include "cpu/kern/avx2.h"
#include "cpu/kern/fast.h"

#define HIGH 2

/* How sums of 16 bits are kept from overflowing. */
typedef enum room { FOUR, TWO, HALVES } room;

static room room_of(int bits) {
    return bits <= 5 ? FOUR : bits == 6 ? TWO : HALVES;
}

MK_INLINE __m256i four_codes(const int8_t *x) {
    int32_t word;
    memcpy(&word, x, sizeof word);
    return _mm256_set1_epi32(word);
}

/* dot plus the products of 4 registers of codes, `step` bytes apart, with 16 codes of x. */
MK_INLINE __m256i dot_four(room fit, __m256i dot, const uint8_t *w, int64_t step, const int8_t *x) {
    const __m256i ones = _mm256_set1_epi16(1), low = _mm256_set1_epi8(0x0f);
    __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int i = 0; i < 4; i++) {
        __m256i v = _mm256_loadu_si256((const void *)(w + i * step)), a = four_codes(x + 4 * i);
        int to = fit == TWO ? i / 2 : 0;
        if (fit == HALVES) {
            __m256i high = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
            sum[1] = _mm256_add_epi16(sum[1], _mm256_maddubs_epi16(high, a));
            v = _mm256_and_si256(v, low);
        }
        sum[to] = _mm256_add_epi16(sum[to], _mm256_maddubs_epi16(v, a));
    }
    dot = _mm256_add_epi32(dot, _mm256_madd_epi16(sum[0], ones));
    if (fit == FOUR) return dot;
    __m256i rest = _mm256_madd_epi16(sum[1], ones);
    return _mm256_add_epi32(dot, fit == HALVES ? _mm256_slli_epi32(rest, 4) : rest);
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

#include "cpu/kern/fast_avx2_text.h"

void mk_fast_avx2(mk_kernels *kernels) {
    kernels->fast_quantize = quantize;
    kernels->fast_matvec = matvec;
    kernels->fast_unpack = unpack;
    kernels->fast_matmul = matmul;
    kernels->fast_streamed = 8;
}
