/* One element of an op that goes element by element: kern/element_list.h. */
#ifndef CUDA_KERN_ELEMENT_CUH
#define CUDA_KERN_ELEMENT_CUH

#include "cuda/kern/device.cuh"

enum {
#define ELEMENT(op, floats, integers) ELEMENT_##op,
#include "cuda/kern/element_list.h"
};

#define NO_FLOATS 0.0f
#define NO_INTEGERS 0

/* As Python's: the quotient is rounded down, the remainder has the sign of j. Division by 0 gives
 * quotient 0 and remainder i. The smallest integer divided by -1 wraps. */
static __device__ inline i64 floor_quotient(bool wide, i64 i, i64 j) {
    if (j == 0) return 0;
    if (wide) return (i64)((u64)i / (u64)j);
    if (j == -1) return (i64)(0 - (u64)i);
    return i / j - (i % j != 0 && (i < 0) != (j < 0));
}

static __device__ inline i64 floor_remainder(bool wide, i64 i, i64 j) {
    if (j == 0) return i;
    if (wide) return (i64)((u64)i % (u64)j);
    if (j == -1) return 0;
    i64 r = i % j;
    return r != 0 && (r < 0) != (j < 0) ? r + j : r;
}

static __device__ inline float float_remainder(float a, float b) {
    float r = fmodf(a, b);
    return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

/* i^j modulo 2^64 by squaring. A negative power of an integer is 0, except for 1 and -1. */
static __device__ inline i64 int_power(bool wide, i64 i, i64 j) {
    if (!wide && j < 0) return i == 1 ? 1 : i == -1 ? (j % 2 == 0 ? 1 : -1) : 0;
    u64 y = 1, x = (u64)i;
    for (u64 n = (u64)j; n != 0; n >>= 1, x *= x)
        if (n & 1) y *= x;
    return (i64)y;
}

static __device__ inline bool less(bool wide, i64 i, i64 j) {
    return wide ? (u64)i < (u64)j : i < j;
}

/* Shifts by the width or more, or by a negative number, shift all bits out. */
static __device__ inline i64 shift_right(bool wide, i64 i, i64 j) {
    if (wide) return (u64)j < 64 ? (i64)((u64)i >> j) : 0;
    u64 sign = i < 0 ? UINT64_MAX : 0;
    if (j < 0 || j > 63) return (i64)sign;
    return (i64)((((u64)i ^ sign) >> j) ^ sign);
}

/* log(e^a + e^b) = hi + log(1 + e^(lo - hi)); equal infinities would subtract to NaN. */
static __device__ inline float logaddexp(float a, float b) {
    if (a != a || b != b) return NAN;
    float hi = a > b ? a : b, lo = a > b ? b : a;
    return fabsf(hi) == INFINITY || lo == -INFINITY ? hi : hi + log1pf(expf(lo - hi));
}

static __device__ inline float of_floats(int op, float a, float b) {
    switch (op) {
#define ELEMENT(op, floats, integers) \
    case ELEMENT_##op:                \
        return floats;
#include "cuda/kern/element_list.h"
    }
    return 0;
}

static __device__ inline i64 of_integers(int op, bool wide, i64 i, i64 j) {
    u64 u = (u64)i, v = (u64)j;
    switch (op) {
#define ELEMENT(op, floats, integers) \
    case ELEMENT_##op:                \
        return integers;
#include "cuda/kern/element_list.h"
    }
    return (i64)(u + v);
}

static __device__ inline i64 place_in(const mc_cuda_elements &a, const mc_cuda_view &x, i64 i) {
    return place(i, a.ndim, a.shape, x.strides);
}

static __device__ inline int item_of(int dtype) {
    static const uint8_t items[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8};
    return items[dtype];
}

/* Element i, in logical order. `last` is what the element before this one in a region is, for the
 * operands that are that (a.lasts), and becomes this one, where its numbers are f32. */
static __device__ inline void run_element(const mc_cuda_elements &a, i64 i, float *last) {
    const mc_cuda_view *in = a.in;
    bool floats = is_float(in[0].dtype) || (a.op == ELEMENT_ASTYPE && is_float(a.out.dtype));
    i64 y = place_in(a, a.out, i);
    if (a.op == ELEMENT_WHERE) {
        bool yes = ((const uint8_t *)data_of(in[0]))[place_in(a, in[0], i)] != 0;
        i64 from = place_in(a, in[yes ? 1 : 2], i);
        copy_item(item_of(a.out.dtype), a.out.data, y, data_of(in[yes ? 1 : 2]), from);
    } else if (floats) {
        float x = *last, b = *last;
        if (!(a.lasts & 1)) x = load_f32(in[0].dtype, data_of(in[0]), place_in(a, in[0], i));
        if (in[1].is_there && !(a.lasts & 2))
            b = load_f32(in[1].dtype, data_of(in[1]), place_in(a, in[1], i));
        *last = of_floats(a.op, x, b);
        store_f32(a.out.dtype, a.out.data, y, *last);
    } else {
        i64 j = in[1].is_there ? load_i64(in[1].dtype, data_of(in[1]), place_in(a, in[1], i)) : 0;
        bool wide = in[0].dtype == MC_CUDA_U64;
        i64 x = load_i64(in[0].dtype, data_of(in[0]), place_in(a, in[0], i));
        store_i64(a.out.dtype, a.out.data, y, of_integers(a.op, wide, x, j));
    }
}

#endif
