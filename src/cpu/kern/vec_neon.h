/* Vector primitives for NEON, which *_tmpl.h use: a register is 4 floats. */
#ifndef CPU_KERN_VEC_NEON_H
#define CPU_KERN_VEC_NEON_H

#include "cpu/kern/neon.h"

typedef float32x4_t mk_vec;
#define MK_WIDTH 4

/* The number of a register's first lanes that are loaded; MK_WIDTH or more: all. */
typedef int64_t mk_tail;

MK_INLINE mk_tail mk_tail_of(int64_t n) {
    return n;
}

MK_INLINE mk_vec mk_zero(void) {
    return vdupq_n_f32(0);
}

MK_INLINE mk_vec mk_spread(float x) {
    return vdupq_n_f32(x);
}

/* a * b + c, rounded once. */
MK_INLINE mk_vec mk_fma(mk_vec a, mk_vec b, mk_vec c) {
    return vfmaq_f32(c, a, b);
}

MK_INLINE mk_vec mk_add(mk_vec a, mk_vec b) {
    return vaddq_f32(a, b);
}

MK_INLINE mk_vec mk_sub(mk_vec a, mk_vec b) {
    return vsubq_f32(a, b);
}

/* a where it is above b, or NaN, else b, which is not NaN; and where it is below. */
MK_INLINE mk_vec mk_at_least(mk_vec a, mk_vec b) {
    return vbslq_f32(vcleq_f32(a, b), b, a);
}

MK_INLINE mk_vec mk_at_most(mk_vec a, mk_vec b) {
    return vbslq_f32(vcgeq_f32(a, b), b, a);
}

MK_INLINE mk_vec mk_load_vec(const float *x) {
    return vld1q_f32(x);
}

/* Lanes that are not loaded are zero. */
MK_INLINE mk_vec mk_load_tail(const float *x, mk_tail n) {
    return mk_load_first(x, n);
}

MK_INLINE void mk_store_vec(float *y, mk_vec v) {
    vst1q_f32(y, v);
}

MK_INLINE void mk_store_tail(float *y, mk_tail n, mk_vec v) {
    mk_store_first(y, n, v);
}

/* Loads elements of a row of any type, from element `at`. */
MK_INLINE mk_vec mk_load_type_tail(mk_type type, const void *row, int64_t at, mk_tail n) {
    if (type == MK_F32) return mk_load_first((const float *)row + at, n);
    return mk_wide(mk_load_first16((const uint16_t *)row + at, n), type);
}

MK_INLINE mk_vec mk_load_type(mk_type type, const void *row, int64_t at) {
    return mk_load_type_tail(type, row, at, MK_WIDTH);
}

/* Element `at` in every lane. */
MK_INLINE mk_vec mk_spread_type(mk_type type, const void *row, int64_t at) {
    if (type == MK_F32) return vld1q_dup_f32((const float *)row + at);
    return mk_wide(vld1_dup_u16((const uint16_t *)row + at), type);
}

/* Sums the lanes of each of the first n <= 4 registers. */
MK_INLINE void mk_store_sums(float *y, int n, const mk_vec sum[4]) {
    mk_store_first(y, n, mk_sum4(sum));
}

#endif
