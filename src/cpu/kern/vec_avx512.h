/* Vector primitives for AVX-512, which *_tmpl.h use: a register is 16 floats. */
#ifndef CPU_KERN_VEC_AVX512_H
#define CPU_KERN_VEC_AVX512_H

#include "cpu/kern/avx512.h"
#include "cpu/kern/num.h"

typedef __m512 mk_vec;
#define MK_WIDTH 16

/* A mask of a register's first lanes, those that are loaded. */
typedef __mmask16 mk_tail;

MK_INLINE mk_tail mk_tail_of(int64_t n) {
    return mk_first(n);
}

MK_INLINE mk_vec mk_zero(void) {
    return _mm512_setzero_ps();
}

MK_INLINE mk_vec mk_spread(float x) {
    return _mm512_set1_ps(x);
}

/* a * b + c, rounded once. */
MK_INLINE mk_vec mk_fma(mk_vec a, mk_vec b, mk_vec c) {
    return _mm512_fmadd_ps(a, b, c);
}

MK_INLINE mk_vec mk_add(mk_vec a, mk_vec b) {
    return _mm512_add_ps(a, b);
}

MK_INLINE mk_vec mk_sub(mk_vec a, mk_vec b) {
    return _mm512_sub_ps(a, b);
}

/* a where it is above b, or NaN, else b, which is not NaN; and where it is below. */
MK_INLINE mk_vec mk_at_least(mk_vec a, mk_vec b) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_NLE_UQ), b, a);
}

MK_INLINE mk_vec mk_at_most(mk_vec a, mk_vec b) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_NGE_UQ), b, a);
}

MK_INLINE mk_vec mk_load_vec(const float *x) {
    return _mm512_loadu_ps(x);
}

/* Lanes that are not loaded are zero. */
MK_INLINE mk_vec mk_load_tail(const float *x, mk_tail mask) {
    return _mm512_maskz_loadu_ps(mask, x);
}

MK_INLINE void mk_store_vec(float *y, mk_vec v) {
    _mm512_storeu_ps(y, v);
}

MK_INLINE void mk_store_tail(float *y, mk_tail mask, mk_vec v) {
    _mm512_mask_storeu_ps(y, mask, v);
}

/* Loads elements of a row of any type, from element `at`. */
MK_INLINE mk_vec mk_load_type_tail(mk_type type, const void *row, int64_t at, mk_tail mask) {
    if (type == MK_F32) return mk_load_tail((const float *)row + at, mask);
    __m256i h = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)row + at);
    return type == MK_BF16 ? mk_wide_bf16(h) : _mm512_cvtph_ps(h);
}

MK_INLINE mk_vec mk_load_type(mk_type type, const void *row, int64_t at) {
    if (type == MK_F32) return mk_load_vec((const float *)row + at);
    __m256i h = _mm256_loadu_si256((const void *)((const uint16_t *)row + at));
    return type == MK_BF16 ? mk_wide_bf16(h) : _mm512_cvtph_ps(h);
}

/* Element `at` in every lane. */
MK_INLINE mk_vec mk_spread_type(mk_type type, const void *row, int64_t at) {
    return _mm512_set1_ps(mk_load(row, type, at));
}

/* Sums the lanes of each of the first n <= 4 registers. */
MK_INLINE void mk_store_sums(float *y, int n, const mk_vec sum[4]) {
    __mmask8 first = (__mmask8)((1u << n) - 1u);
    _mm_mask_storeu_ps(y, first, mk_sum4(sum[0], sum[1], sum[2], sum[3]));
}

#endif
