/* Values packed in pairs of keys, as bf16 instructions take them: a register holds two keys'
 * elements of each of 16 columns, next to each other. */
#ifndef CPU_KERN_ATTN_ATTN_PAIRS_H
#define CPU_KERN_ATTN_ATTN_PAIRS_H

#include "cpu/kern/attn/attn_avx512.h"

/* Packs keys j and j + 1 in bf16, `cols` of 16 * COLS columns; zeros for the second unless
 * `both`. */
MK_INLINE void pair_halves(const values *v, int64_t j, int64_t cols, bool both,
                           __m512i pairs[COLS]) {
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    const __mmask32 mask[2] = {first_halves(cols), first_halves(cols - 32)};
    const char *a = v->first + j * v->stride, *b = a + v->stride;
    for (int h = 0; h < 2; h++) {
        __m512i x = _mm512_maskz_loadu_epi16(mask[h], a + 64 * h);
        __m512i y = _mm512_maskz_loadu_epi16(both ? mask[h] : 0, b + 64 * h);
        pairs[2 * h] = _mm512_permutex2var_epi16(x, low, y);
        pairs[2 * h + 1] = _mm512_permutex2var_epi16(x, high, y);
    }
}

/* The same for codes times their scales, rounded to bf16. */
MK_INLINE void pair_codes(const values *v, int64_t j, int64_t cols, bool both,
                          __m512i pairs[COLS]) {
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const char *a = v->first + j * v->stride, *scales = v->scales + j * v->stride;
    __m512 scale[2][2] = {{{0}}};
    load_scales(scales, cols, scale[0]);
    if (both) load_scales(scales + v->stride, cols, scale[1]);
#pragma GCC unroll 4
    for (int c = 0; c < COLS; c++) {
        __mmask16 mask = mk_first(cols - 16 * c);
        __m512 x = scaled(a + 16 * c, mask, scale[0][c / 2]);
        __m512 y = scaled(a + v->stride + 16 * c, both ? mask : 0, scale[1][c / 2]);
        pairs[c] = _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(y, x));
    }
}

#endif
