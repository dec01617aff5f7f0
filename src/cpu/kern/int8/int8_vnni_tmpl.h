/* AVX2's fast products with vpdpbusd, which has 32 bits for its sums: one text for AVX-VNNI and
 * AVX-512 VNNI, which differ in how the instruction is written, VPDPBUSD. */
#include "cpu/kern/avx2.h"
#include "cpu/kern/int8/int8.h"

#define HIGH 4
#define STREAMED 4

/* All widths are alike. */
typedef enum room { TWO, FOUR, EIGHT, HALVES } room;

static room room_of(int max) {
    (void)max;
    return FOUR;
}

/* dot plus the products of 32 codes with 32 of x. gcc 12 moves the sum of the intrinsic to another
 * register and back. */
MK_INLINE __m256i dot_32(__m256i dot, __m256i w, __m256i x) {
    __asm__(VPDPBUSD " %2, %1, %0" : "+v"(dot) : "v"(w), "v"(x));
    return dot;
}

/* dot[m] plus the products of up to 8 registers of codes with 4 times as many codes of each of m
 * rows of x, which are `stride` apart. */
MK_INLINE void dot_words(room fit, int m, __m256i *dot, const __m256i *w, int count,
                         const int8_t *x, int64_t stride) {
    (void)fit;
    __m256i odd[STREAMED]; /* sums of their own, which need not wait */
    for (int r = 0; r < m; r++)
        odd[r] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int i = 0; i < count; i++)
#pragma GCC unroll 4
        for (int r = 0; r < m; r++) {
            __m256i *to = i % 2 == 0 ? &dot[r] : &odd[r];
            int32_t word;
            memcpy(&word, x + r * stride + 4 * i, sizeof word);
            *to = dot_32(*to, w[i], _mm256_set1_epi32(word));
        }
    for (int r = 0; r < m; r++)
        dot[r] = _mm256_add_epi32(dot[r], odd[r]);
}

MK_INLINE __m256i dot_row(__m256i dot, __m256i w, const int8_t *x) {
    return dot_32(dot, w, _mm256_loadu_si256((const void *)x));
}

MK_INLINE __m256i dot_bytes(__m256i dot, const uint8_t *w, const int8_t *x) {
    return dot_row(dot, _mm256_loadu_si256((const void *)w), x);
}

/* 64 codes. */
MK_INLINE __m256i dot_two(__m256i dot, __m256i w0, __m256i x0, __m256i w1, __m256i x1) {
    return dot_32(dot_32(dot, w0, x0), w1, x1);
}

#include "cpu/kern/int8/int8_avx2_tmpl.h"
