/* Vector primitives for AVX2, which *_tmpl.h use: a register is 8 floats. */
#ifndef CPU_KERN_VEC_AVX2_H
#define CPU_KERN_VEC_AVX2_H

#include "cpu/kern/avx2.h"

typedef __m256 mk_vec;
#define MK_WIDTH 8

/* The number of a register's first lanes that are loaded; MK_WIDTH or more: all. */
typedef int64_t mk_tail;

MK_INLINE mk_tail mk_tail_of(int64_t n) {
    return n;
}

MK_INLINE mk_vec mk_zero(void) {
    return _mm256_setzero_ps();
}

MK_INLINE mk_vec mk_spread(float x) {
    return _mm256_set1_ps(x);
}

/* a * b + c, rounded once. */
MK_INLINE mk_vec mk_fma(mk_vec a, mk_vec b, mk_vec c) {
    return _mm256_fmadd_ps(a, b, c);
}

MK_INLINE mk_vec mk_add(mk_vec a, mk_vec b) {
    return _mm256_add_ps(a, b);
}

MK_INLINE mk_vec mk_sub(mk_vec a, mk_vec b) {
    return _mm256_sub_ps(a, b);
}

/* a where it is above b, or NaN, else b, which is not NaN; and where it is below. */
MK_INLINE mk_vec mk_at_least(mk_vec a, mk_vec b) {
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(a, b, _CMP_NLE_UQ));
}

MK_INLINE mk_vec mk_at_most(mk_vec a, mk_vec b) {
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(a, b, _CMP_NGE_UQ));
}

MK_INLINE mk_vec mk_load_vec(const float *x) {
    return _mm256_loadu_ps(x);
}

/* Lanes that are not loaded are zero. */
MK_INLINE mk_vec mk_load_tail(const float *x, mk_tail n) {
    return n >= MK_WIDTH ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, mk_first(n));
}

MK_INLINE void mk_store_vec(float *y, mk_vec v) {
    _mm256_storeu_ps(y, v);
}

MK_INLINE void mk_store_tail(float *y, mk_tail n, mk_vec v) {
    if (n >= MK_WIDTH)
        _mm256_storeu_ps(y, v);
    else
        _mm256_maskstore_ps(y, mk_first(n), v);
}

/* Loads elements of a row of any type, from element `at`. */
MK_INLINE mk_vec mk_load_type_tail(mk_type type, const void *row, int64_t at, mk_tail n) {
    if (type == MK_F32) return mk_load_tail((const float *)row + at, n);
    return mk_load_half((const uint16_t *)row + at, n, type);
}

MK_INLINE mk_vec mk_load_type(mk_type type, const void *row, int64_t at) {
    return mk_load_type_tail(type, row, at, MK_WIDTH);
}

/* Element `at` in every lane. */
MK_INLINE mk_vec mk_spread_type(mk_type type, const void *row, int64_t at) {
    if (type == MK_F32) return _mm256_broadcast_ss((const float *)row + at);
    uint16_t h = ((const uint16_t *)row)[at];
    if (type == MK_BF16) return _mm256_set1_ps(mk_from_bf16(h));
    return _mm256_cvtph_ps(_mm_set1_epi16((short)h));
}

/* Sums the lanes of each of the first n <= 4 registers. */
MK_INLINE void mk_store_sums(float *y, int n, const mk_vec sum[4]) {
    mk_store4(y, n, mk_sum4(sum[0], sum[1], sum[2], sum[3]));
}

#endif
