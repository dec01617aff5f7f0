/* Heads of queries, keys and values on their way to attention: norm, RoPE, conversion, and the copy
 * into a cache, by a warp each, whose lanes have the numbers. The same bits as by an op at a time
 * (row.cuh). */
#ifndef CUDA_KERN_HEADS_CUH
#define CUDA_KERN_HEADS_CUH

#include "cuda/kern/heads.h"
#include "cuda/kern/row.cuh"

/* A lane has numbers lane, lane + 32, ... of a head, N at most. */

/* Whether there is a number k of a lane. */
static __device__ inline bool has(i64 d, int k) {
    return k * ROW_LANES < d;
}

static __device__ inline int number(int k) {
    return (int)threadIdx.x % ROW_LANES + k * ROW_LANES;
}

/* Where a row is: along both axes. */
typedef struct head_at {
    i64 i[2];
} head_at;

static __device__ inline i64 place_of_head(const mc_cuda_head_view &x, head_at at) {
    return at.i[0] * x.strides[0] + at.i[1] * x.strides[1];
}

template <int N>
static __device__ inline void store_head(const mc_cuda_head_view &to, i64 at, i64 d,
                                         const float *x) {
    bool is_f32 = to.dtype == MC_CUDA_F32;
#pragma unroll
    for (int k = 0; k < N; k++) {
        if (!has(d, k)) break;
        if (is_f32)
            ((float *)to.data)[at + number(k)] = x[k];
        else
            ((uint16_t *)to.data)[at + number(k)] =
                to.dtype == MC_CUDA_BF16 ? f32_to_bf16(x[k]) : f32_to_f16(x[k]);
    }
}

/* What a lane multiplies its numbers of a row by: it is there before the row is. */
template <int N> struct head_way {
    float weights[N];
    float c[N / 2], s[N / 2]; /* of pairs */
};

template <int N>
static __device__ inline void prepare_head(const mc_cuda_track &t, head_at at, head_way<N> &way) {
    const mc_cuda_head_view &weight = t.norm.weight;
    if (t.norms)
#pragma unroll
        for (int k = 0; k < N; k++) {
            way.weights[k] = 1;
            if (has(t.d, k) && weight.is_there)
                way.weights[k] =
                    load_f32(weight.dtype, data_of(weight), number(k) * weight.strides[0]);
        }
    if (!t.rotates) return;
    if (t.rope.turns) {
#pragma unroll
        for (int k = 0; k < N / 2; k++)
            if (k * ROW_LANES < t.rope.half) {
                const float2 v = __ldcg((const float2 *)t.rope.turns + number(k));
                way.c[k] = v.x, way.s[k] = v.y;
            }
        return;
    }
    i64 position = load_i64(t.rope.offset.dtype, data_of(t.rope.offset), 0);
    if (t.position_axis >= 0) position += at.i[t.position_axis];
#pragma unroll
    for (int k = 0; k < N / 2; k++)
        if (k * ROW_LANES < t.rope.half)
            turn((double)position * rate_of(t.rope, number(k)), &way.s[k], &way.c[k]);
}

template <int N>
static __device__ inline void norm_head(const mc_cuda_track &t, const head_way<N> &way, float *x) {
    double squares = 0;
#pragma unroll
    for (int k = 0; k < N; k++)
        squares += (double)x[k] * (double)x[k];
    squares = sum_of_warp(squares);
    float scale = (float)rsqrt(squares / (double)t.d + t.norm.eps);
#pragma unroll
    for (int k = 0; k < N; k++)
        x[k] = x[k] * scale * way.weights[k];
}

/* FAR: a pair's numbers are so many of the lane's apart. */
template <int FAR>
static __device__ inline void turn_head(const float *c, const float *s, float *x) {
#pragma unroll
    for (int k = 0; k < FAR; k++) {
        float u = x[k], v = x[k + FAR];
        x[k] = u * c[k] - v * s[k];
        x[k + FAR] = u * s[k] + v * c[k];
    }
}

template <int N>
static __device__ inline void rotate_head(const mc_cuda_track &t, const head_way<N> &way,
                                          float *x) {
    if (t.rope.half == ROW_LANES)
        turn_head<1>(way.c, way.s, x);
    else if (N >= 4 && t.rope.half == 2 * ROW_LANES)
        turn_head<N >= 4 ? 2 : 1>(way.c, way.s, x);
    else if (N >= 8)
        turn_head<N >= 8 ? 4 : 1>(way.c, way.s, x);
}

template <int N>
static __device__ inline void load_head(const mc_cuda_track &t, head_at at, float *x) {
    const float *data = (const float *)t.x.data + place_of_head(t.x, at);
#pragma unroll
    for (int k = 0; k < N; k++)
        x[k] = has(t.d, k) ? __ldcg(data + number(k)) : 0.0f;
}

/* A row x, as it was loaded, goes its way. */
template <int N>
static __device__ inline void run_head(const mc_cuda_track &t, head_at at, const head_way<N> &way,
                                       float *x) {
    i64 from;
    if (t.norms) {
        norm_head<N>(t, way, x);
        store_head<N>(t.norm.out, place_of_head(t.norm.out, at), t.d, x);
    }
    if (t.rotates) {
        rotate_head<N>(t, way, x);
        store_head<N>(t.rope.out, place_of_head(t.rope.out, at), t.d, x);
    }
    if (t.converts) store_head<N>(t.converted, place_of_head(t.converted, at), t.d, x);
    if (!t.copies || !find_start(t.copy, &from)) return;
    store_head<N>(t.copy.out, from + place_of_head(t.copy.out, at), t.d, x);
}

#endif
