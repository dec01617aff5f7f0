/* AVX-VNNI: AVX2's fast products with vpdpbusd, which has 32 bits for its sums. */
#include "cpu/kern/avx2.h"
#include "cpu/kern/fast.h"

#define HIGH 4

/* All widths are alike. */
typedef enum room { FOUR, TWO, HALVES } room;

static room room_of(int bits) {
    (void)bits;
    return FOUR;
}

/* dot plus the products of 4 registers of codes, `step` bytes apart, with 16 codes of x. */
MK_INLINE __m256i dot_four(room fit, __m256i dot, const uint8_t *w, int64_t step, const int8_t *x) {
    (void)fit;
    for (int i = 0; i < 4; i++) {
        int32_t word;
        memcpy(&word, x + 4 * i, sizeof word);
        __m256i v = _mm256_loadu_si256((const void *)(w + i * step)), a = _mm256_set1_epi32(word);
        /* gcc 12 moves the sum of the intrinsic to another register and back. */
        __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(dot) : "x"(v), "x"(a));
    }
    return dot;
}

/* dot plus the products of 32 codes with 32 of x. */
MK_INLINE __m256i dot_32(__m256i dot, __m256i w, __m256i x) {
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(dot) : "x"(w), "x"(x));
    return dot;
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

#include "cpu/kern/fast_avx2_text.h"

void mk_fast_avxvnni(mk_kernels *kernels) {
    kernels->fast_quantize = quantize;
    kernels->fast_matvec = matvec;
    kernels->fast_unpack = unpack;
    kernels->fast_matmul = matmul;
    kernels->fast_streamed = 8;
}
