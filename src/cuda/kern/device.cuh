/* What the kernels share: reading and writing elements of any dtype, places of strided views, sums
 * over a block. CUDA, or C++ that runs on the processor (tests/cuda/emulation.h). */
#ifndef CUDA_KERN_DEVICE_CUH
#define CUDA_KERN_DEVICE_CUH

#include <stddef.h>

#include "cuda/kern/args.h"

#ifndef MICA_EMULATED
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define KERNEL(name, args) KERNEL_OF(name, args, 256)
#define KERNEL_OF(name, args, threads) \
    extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ args a)
#endif

/* Copies the first bytes of what a kernel takes to shared memory, and waits: reading it where it is
 * takes long, the first time, and need not be waited for. */
template <typename T> static __device__ inline void take_args(T &to, const T &a, size_t bytes) {
    for (unsigned i = threadIdx.x; i < bytes / 8; i += blockDim.x)
        ((uint64_t *)&to)[i] = ((const uint64_t *)&a)[i];
    __syncthreads();
}

typedef int64_t i64;
typedef uint64_t u64;

/* ---- halves ---- */

static __device__ inline float bits_to_f32(uint32_t bits) {
    return __uint_as_float(bits);
}

static __device__ inline float bf16_to_f32(uint16_t x) {
    return bits_to_f32((uint32_t)x << 16);
}

static __device__ inline uint16_t f32_to_bf16(float x) { /* to the nearest, ties to even */
    uint32_t bits = __float_as_uint(x);
    if (x != x) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Two, the first one below. */
static __device__ inline uint32_t f32_to_bf16_pair(float low, float high) {
#ifdef MICA_EMULATED
    return (uint32_t)f32_to_bf16(low) | (uint32_t)f32_to_bf16(high) << 16;
#else
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#endif
}

/* 2^x, to a few units of the last place. */
static __device__ inline float power_of_2(float x) {
#ifdef MICA_EMULATED
    return exp2f(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

static __device__ inline float f16_to_f32(uint16_t x) {
#ifdef MICA_EMULATED
    return emulated_f16_to_f32(x);
#else
    return __half2float(__ushort_as_half(x));
#endif
}

static __device__ inline uint16_t f32_to_f16(float x) {
#ifdef MICA_EMULATED
    return emulated_f32_to_f16(x);
#else
    return __half_as_ushort(__float2half_rn(x));
#endif
}

/* ---- elements ---- */

static __device__ inline bool is_float(int dtype) {
    return (dtype >= MC_CUDA_F16 && dtype <= MC_CUDA_F32) || dtype == MC_CUDA_F64;
}

/* Where an operand's elements are. */
template <typename T> static __device__ inline const void *data_of(const T &x) {
    return x.data ? x.data : &x.number;
}

static __device__ inline float load_f32(int dtype, const void *data, i64 at) {
    switch (dtype) {
    case MC_CUDA_F32:
        return ((const float *)data)[at];
    case MC_CUDA_BF16:
        return bf16_to_f32(((const uint16_t *)data)[at]);
    case MC_CUDA_F16:
        return f16_to_f32(((const uint16_t *)data)[at]);
    case MC_CUDA_BOOL:
        return ((const uint8_t *)data)[at] != 0 ? 1.0f : 0.0f;
    case MC_CUDA_U8:
        return (float)((const uint8_t *)data)[at];
    case MC_CUDA_U16:
        return (float)((const uint16_t *)data)[at];
    case MC_CUDA_U32:
        return (float)((const uint32_t *)data)[at];
    case MC_CUDA_U64:
        return (float)((const uint64_t *)data)[at];
    case MC_CUDA_I8:
        return (float)((const int8_t *)data)[at];
    case MC_CUDA_I16:
        return (float)((const int16_t *)data)[at];
    case MC_CUDA_I32:
        return (float)((const int32_t *)data)[at];
    case MC_CUDA_I64:
        return (float)((const int64_t *)data)[at];
    case MC_CUDA_F64:
        return (float)((const double *)data)[at];
    }
    return 0;
}

static __device__ inline i64 load_i64(int dtype, const void *data, i64 at) {
    switch (dtype) {
    case MC_CUDA_BOOL:
        return ((const uint8_t *)data)[at] != 0;
    case MC_CUDA_U8:
        return ((const uint8_t *)data)[at];
    case MC_CUDA_U16:
        return ((const uint16_t *)data)[at];
    case MC_CUDA_U32:
        return ((const uint32_t *)data)[at];
    case MC_CUDA_I8:
        return ((const int8_t *)data)[at];
    case MC_CUDA_I16:
        return ((const int16_t *)data)[at];
    case MC_CUDA_I32:
        return ((const int32_t *)data)[at];
    }
    return ((const i64 *)data)[at];
}

/* Rounds towards zero, clamps to [lo, hi]; NaN becomes 0. */
static __device__ inline i64 saturate(float v, i64 lo, i64 hi) {
    if (v != v) return 0;
    if (v >= (float)hi) return hi;
    if (v <= (float)lo) return lo;
    return (i64)v;
}

static __device__ inline void store_f32(int dtype, void *data, i64 at, float v) {
    switch (dtype) {
    case MC_CUDA_F32:
        ((float *)data)[at] = v;
        break;
    case MC_CUDA_BF16:
        ((uint16_t *)data)[at] = f32_to_bf16(v);
        break;
    case MC_CUDA_F16:
        ((uint16_t *)data)[at] = f32_to_f16(v);
        break;
    case MC_CUDA_BOOL:
        ((uint8_t *)data)[at] = v != 0.0f;
        break;
    case MC_CUDA_U8:
        ((uint8_t *)data)[at] = (uint8_t)saturate(v, 0, UINT8_MAX);
        break;
    case MC_CUDA_U16:
        ((uint16_t *)data)[at] = (uint16_t)saturate(v, 0, UINT16_MAX);
        break;
    case MC_CUDA_U32:
        ((uint32_t *)data)[at] = (uint32_t)saturate(v, 0, UINT32_MAX);
        break;
    case MC_CUDA_U64:
        ((uint64_t *)data)[at] = !(v > 0.0f)                    ? 0
                                 : v >= 18446744073709551616.0f ? UINT64_MAX
                                                                : (uint64_t)v;
        break;
    case MC_CUDA_I8:
        ((int8_t *)data)[at] = (int8_t)saturate(v, INT8_MIN, INT8_MAX);
        break;
    case MC_CUDA_I16:
        ((int16_t *)data)[at] = (int16_t)saturate(v, INT16_MIN, INT16_MAX);
        break;
    case MC_CUDA_I32:
        ((int32_t *)data)[at] = (int32_t)saturate(v, INT32_MIN, INT32_MAX);
        break;
    case MC_CUDA_I64:
        ((int64_t *)data)[at] = saturate(v, INT64_MIN, INT64_MAX);
        break;
    case MC_CUDA_F64:
        ((double *)data)[at] = (double)v;
        break;
    }
}

static __device__ inline void store_i64(int dtype, void *data, i64 at, i64 v) {
    switch (dtype) {
    case MC_CUDA_BOOL:
        ((uint8_t *)data)[at] = v != 0;
        break;
    case MC_CUDA_U8:
    case MC_CUDA_I8:
        ((uint8_t *)data)[at] = (uint8_t)v;
        break;
    case MC_CUDA_U16:
    case MC_CUDA_I16:
        ((uint16_t *)data)[at] = (uint16_t)v;
        break;
    case MC_CUDA_U32:
    case MC_CUDA_I32:
        ((uint32_t *)data)[at] = (uint32_t)v;
        break;
    case MC_CUDA_U64:
    case MC_CUDA_I64:
        ((i64 *)data)[at] = v;
        break;
    default:
        store_f32(dtype, data, at, (float)v);
    }
}

static __device__ inline void copy_item(int item, void *to, i64 to_at, const void *from,
                                        i64 from_at) {
    switch (item) {
    case 1:
        ((uint8_t *)to)[to_at] = ((const uint8_t *)from)[from_at];
        break;
    case 2:
        ((uint16_t *)to)[to_at] = ((const uint16_t *)from)[from_at];
        break;
    case 4:
        ((uint32_t *)to)[to_at] = ((const uint32_t *)from)[from_at];
        break;
    case 16:
        ((uint4 *)to)[to_at] = ((const uint4 *)from)[from_at];
        break;
    default:
        ((u64 *)to)[to_at] = ((const u64 *)from)[from_at];
    }
}

/* Number i of a q8 row of d, whose first byte is at `row`. */
static __device__ inline float q8_at(const uint8_t *row, i64 stride, i64 d, i64 i) {
    i64 scales = (d + 3) / 4 * 4 + i / 32 * 2;
    uint32_t scale = row[scales * stride] | (uint32_t)row[(scales + 1) * stride] << 8;
    return (float)(int8_t)row[i * stride] * bf16_to_f32((uint16_t)scale);
}

/* ---- places ---- */

/* The element of a view at the index i, in logical order, of axes [0, ndim). */
static __device__ inline i64 place(i64 i, int ndim, const i64 *shape, const i64 *strides) {
    i64 at = 0;
    if (i >> 32 == 0) { /* quotients of 32 bits are much faster, and a long axis has few of them */
        uint32_t rest = (uint32_t)i;
        for (int k = ndim - 1; k > 0; k--) {
            if (shape[k] >> 32 != 0) return at + rest * strides[k];
            uint32_t n = (uint32_t)shape[k], quotient = rest / n;
            at += (i64)(rest - quotient * n) * strides[k];
            rest = quotient;
        }
        return ndim > 0 ? at + rest * strides[0] : 0;
    }
    for (int k = ndim - 1; k > 0; k--) {
        at += i % shape[k] * strides[k];
        i /= shape[k];
    }
    return ndim > 0 ? at + i * strides[0] : 0;
}

/* The elements that a thread has of n. */
#define FOR_ELEMENTS(i, n)                                            \
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < (n); \
         i += (i64)gridDim.x * blockDim.x)

/* ---- faults ---- */

static __device__ inline void fail(mc_cuda_fault **to, uint32_t what, int op, int axis, i64 found,
                                   i64 length, i64 count) {
    mc_cuda_fault *fault = *to;
    if (atomicExch(&fault->taken, 1u) != 0) return;
    fault->op = op;
    fault->axis = axis;
    fault->found = found;
    fault->length = length;
    fault->count = count;
    fault->what = what;
}

/* An index counted from the front, or -1 and a fault. */
static __device__ inline i64 resolve(const mc_cuda_view &index, i64 at, i64 length, int op,
                                     int axis, mc_cuda_fault **fault) {
    i64 found = load_i64(index.dtype, data_of(index), at), i = found;
    if (i < 0 && index.dtype != MC_CUDA_U64) i += length;
    if (i >= 0 && i < length) return i;
    fail(fault, MC_CUDA_BAD_INDEX, op, axis, found, length, 0);
    return -1;
}

/* ---- sums over a block ---- */

enum { MAX_THREADS = 256 };

/* The sum of a value of each thread, in an order that depends on the number of threads alone; for
 * all of them. shared [MAX_THREADS] is free again behind the next barrier. */
template <typename T> static __device__ inline T sum_over_block(T value, T *shared) {
    shared[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    T sum = shared[0];
    __syncthreads();
    return sum;
}

#endif
