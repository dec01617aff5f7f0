/* Shared by attention's AVX-512 kernels: tiles of transposed keys, where a register holds the same
 * 32 bits (two bf16 or four codes) of 16 keys, and columns of values in bf16 or in q8 rows. */
#ifndef CPU_KERN_ATTN_ATTN_AVX512_H
#define CPU_KERN_ATTN_ATTN_AVX512_H

#include "cpu/kern/attn/attn.h"
#include "cpu/kern/avx512.h"
#include "cpu/kern/pages.h"

#include <string.h>

#define COLS 4      /* registers of keys or columns in a tile */
#define KEYS 64     /* keys in a tile: COLS registers of 16 */
#define PREFETCH 64 /* rows between a prefetch and its use */

static inline int64_t min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Prefetches a row's bytes, and those MK_FETCHED_AGAIN before them, which mostly are the same
 * columns of earlier rows. A prefetch never faults. */
MK_INLINE void fetch(const char *row, int64_t bytes) {
    for (int64_t l = 0; l < bytes; l += 64)
        mk_prefetch_line((intptr_t)row + l);
}

/* Loads the first n of four words, the others as 0; all four if `whole`. */
MK_INLINE __m128i load_words(const char *k, int n, bool whole) {
    if (whole) return _mm_loadu_si128((const void *)k);
    return _mm_maskz_loadu_epi32((__mmask8)((1u << n) - 1u), k);
}

/* Transposes four words of 16 keys into to[i * KEYS + 0..15], with the bits of `flip` inverted. If
 * not `whole`, n words of each, and keys after `last` repeat it. */
MK_INLINE void transpose_words(const char *k, int64_t k_stride, int64_t last, int n, bool whole,
                               __m512i flip, uint32_t *to) {
    __m512i row[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) { /* four words each of keys r, r + 4, r + 8, r + 12 */
        row[r] = _mm512_setzero_si512();
#pragma GCC unroll 4
        for (int quarter = 0; quarter < 4; quarter++) {
            int64_t key = 4 * quarter + r;
            if (!whole) key = min(key, last);
            row[r] = _mm512_mask_broadcast_i32x4(row[r], (__mmask16)(0xfu << (4 * quarter)),
                                                 load_words(k + key * k_stride, n, whole));
        }
        row[r] = _mm512_xor_si512(row[r], flip);
    }
    /* Transposing 4 x 4 words within each 128 bits puts keys 4q .. 4q + 3 of a word into quarter
     * q. */
    __m512i a = _mm512_unpacklo_epi32(row[0], row[1]), b = _mm512_unpackhi_epi32(row[0], row[1]);
    __m512i c = _mm512_unpacklo_epi32(row[2], row[3]), d = _mm512_unpackhi_epi32(row[2], row[3]);
    _mm512_store_si512(to, _mm512_unpacklo_epi64(a, c));
    if (whole || n > 1) _mm512_store_si512(to + KEYS, _mm512_unpackhi_epi64(a, c));
    if (whole || n > 2) _mm512_store_si512(to + 2 * KEYS, _mm512_unpacklo_epi64(b, d));
    if (whole || n > 3) _mm512_store_si512(to + 3 * KEYS, _mm512_unpackhi_epi64(b, d));
}

/* Transposes `words` words of n <= KEYS keys, k_stride bytes apart, into to[words]. The unused
 * lanes of a register are undefined. Meanwhile prefetches `prefetch_bytes` of each key PREFETCH
 * keys ahead, as far as `left` keys, counted from the first, exist. */
MK_INLINE void transpose_keys(int64_t n, int64_t left, int64_t words, const char *k,
                              int64_t k_stride, int64_t prefetch_bytes, __m512i flip,
                              uint32_t (*to)[KEYS]) {
    int64_t each = (4 * 16 + words - 1) / words; /* rows to prefetch for each four words */
    for (int64_t j = 0; j < n; j += 16) {
        const char *first = k + j * k_stride;
        int64_t last = n - j - 1, p = 0, ahead = PREFETCH, max = min(PREFETCH + 16, left - j);
        if (last >= 15)
            for (; p + 4 <= words; p += 4) {
                for (int64_t end = min(ahead + each, max); ahead < end; ahead++)
                    fetch(first + ahead * k_stride, prefetch_bytes);
                transpose_words(first + 4 * p, k_stride, last, 4, true, flip, &to[p][j]);
            }
        for (; p < words; p += 4)
            transpose_words(first + 4 * p, k_stride, last, (int)min(4, words - p), false, flip,
                            &to[p][j]);
    }
}

/* The masks of COLS registers for the first n numbers. */
MK_INLINE void first_lanes(int64_t n, __mmask16 mask[COLS]) {
#pragma GCC unroll 4
    for (int c = 0; c < COLS; c++)
        mask[c] = mk_first(n - 16 * c);
}

/* Load y [rows, 16 * COLS] under the masks, and store it; rows <= 6. */
MK_INLINE void load_sums(int rows, const __mmask16 mask[COLS], const float *y, int64_t y_stride,
                         __m512 sum[][COLS]) {
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++)
            sum[i][c] = _mm512_maskz_loadu_ps(mask[c], y + i * y_stride + 16 * c);
}

MK_INLINE void store_sums(int rows, const __mmask16 mask[COLS], __m512 sum[][COLS], float *y,
                          int64_t y_stride) {
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++)
            _mm512_mask_storeu_ps(y + i * y_stride + 16 * c, mask[c], sum[i][c]);
}

/* Codes, those of 16 that the mask has, times their scale. */
MK_INLINE __m512 scaled(const char *codes, __mmask16 mask, __m512 scale) {
    __m512i wide = _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, codes));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(wide), scale);
}

/* The scales of up to two groups of 32 columns; the second is 0 if there is none. */
MK_INLINE void load_scales(const char *scales, int64_t cols, __m512 scale[2]) {
    uint32_t two = 0;
    memcpy(&two, scales, sizeof(uint16_t));
    if (cols > MK_Q8_GROUP) memcpy(&two, scales, sizeof two);
    scale[0] = _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)(two << 16)));
    scale[1] = _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)(two & 0xffff0000u)));
}

/* Some columns of consecutive keys' values: bf16, or codes of q8 rows. */
typedef struct values {
    const char *first;
    const char *scales; /* of the codes' group; unused for bf16 */
    int64_t stride;     /* bytes from a key to the next */
    int64_t left;       /* keys that may be prefetched */
} values;

/* The columns from c on, of the keys from j on. */
MK_INLINE values values_at(bool codes, const values *v, int64_t j, int64_t c) {
    values at = *v;
    at.first += j * v->stride + (codes ? c : 2 * c);
    if (codes) at.scales += j * v->stride + c / MK_Q8_GROUP * 2;
    at.left -= j;
    return at;
}

/* The mask of the first n of 32 lanes of 16 bits. */
MK_INLINE __mmask32 first_halves(int64_t n) {
    return n >= 32 ? 0xffffffffu : n <= 0 ? 0 : (1u << n) - 1u;
}

/* Prefetches a key's columns, if the key exists. */
MK_INLINE void fetch_key(bool codes, const values *v, int64_t j) {
    if (j >= v->left) return;
    fetch(v->first + j * v->stride, codes ? 16 * COLS : 32 * COLS);
    if (codes) fetch(v->scales + j * v->stride, 1);
}

#endif
