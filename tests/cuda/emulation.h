/* What CUDA has and C++ lacks, for kernels that run on the processor (tests/cuda/emulated.cpp). */
#ifndef CUDA_EMULATION_H
#define CUDA_EMULATION_H

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define MICA_EMULATED 1
#define __device__
#define __global__
#define __shared__ static
#define KERNEL(name, args) KERNEL_OF(name, args, 256)
#define KERNEL_OF(name, args, threads)         \
    typedef args args_of_##name;               \
    enum { most_threads_of_##name = threads }; \
    static void name(const args &a)

typedef struct dim3_of {
    unsigned x, y, z;
} dim3_of;

typedef struct uint4 {
    uint32_t x, y, z, w;
} uint4;

typedef struct uint2 {
    uint32_t x, y;
} uint2;

typedef struct int2 {
    int x, y;
} int2;

typedef struct float2 {
    float x, y;
} float2;

typedef struct float4 {
    float x, y, z, w;
} float4;

extern dim3_of gridDim, blockDim, blockIdx;
extern thread_local dim3_of emulated_threadIdx;
#define threadIdx emulated_threadIdx

/* Lets the other threads of the block come as far. */
void emulated_wait();
/* The value of the thread of the warp whose number differs by the bits of `other`. */
float emulated_shuffle(float x, int other);
double emulated_shuffle(double x, int other);
/* Lets the other lanes of the warp come as far. */
void emulated_sync_warp();
/* What each lane of the warp gives, n words of 8 at most; valid until its call after the next. */
const uint32_t (*emulated_exchange(const uint32_t *mine, int n))[8];

#define __syncthreads emulated_wait
#define __shfl_xor_sync(mask, x, other) emulated_shuffle(x, other)

static inline uint32_t atomicExch(uint32_t *at, uint32_t value) {
    uint32_t was = *at;
    *at = value;
    return was;
}

static inline uint32_t atomicAdd(uint32_t *at, uint32_t value) {
    uint32_t was = *at;
    *at += value;
    return was;
}

static inline void __threadfence() {}

template <typename T> static inline T __ldcg(const T *at) {
    return *at;
}

static inline float __fmaf_rn(float x, float y, float z) {
    return fmaf(x, y, z);
}

static inline double rsqrt(double x) {
    return 1.0 / sqrt(x);
}

static inline void sincospif(float half_turns, float *s, float *c) {
    *s = (float)sin(M_PI * (double)half_turns);
    *c = (float)cos(M_PI * (double)half_turns);
}

static inline float __uint_as_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t __float_as_uint(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float __fmul_rn(float x, float y) {
    return x * y;
}

static inline float __fadd_rn(float x, float y) {
    return x + y;
}

extern "C" {
#include "base/half.h"
}
static inline float emulated_f16_to_f32(uint16_t x) {
    return mc_f16_to_f32(x);
}
static inline uint16_t emulated_f32_to_f16(float x) {
    return mc_f32_to_f16(x);
}

#endif
