/* Heads of queries, keys and values on their way to attention: norm, RoPE, conversion, and the copy
 * into a cache, by a warp each, whose lanes have the numbers. The same bits as by an op at a time
 * (row.cuh). */
#include "cuda/kern/heads.h"
#include "cuda/kern/row.cuh"

enum { HEAD_THREADS = 256, HEAD_WARPS = HEAD_THREADS / ROW_LANES };
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

static __device__ inline i64 place_of_head(const mc_cuda_head_rows &r, head_at at) {
    return at.i[0] * r.strides[0] + at.i[1] * r.strides[1];
}

template <int N>
static __device__ inline void store_head(const mc_cuda_view &to, i64 at, i64 d, const float *x) {
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

template <int N>
static __device__ inline void norm_head(const mc_cuda_track &t, head_at at, float *x) {
    const mc_cuda_view &weight = t.norm.weight;
    float weights[N];
    double squares = 0;
#pragma unroll
    for (int k = 0; k < N; k++) {
        weights[k] = 1;
        if (has(t.d, k) && weight.is_there)
            weights[k] = load_f32(weight.dtype, data_of(weight), number(k) * weight.strides[0]);
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        squares += (double)x[k] * (double)x[k];
    squares = sum_of_warp(squares);
    float scale = (float)rsqrt(squares / (double)t.d + t.norm.eps);
#pragma unroll
    for (int k = 0; k < N; k++)
        x[k] = x[k] * scale * weights[k];
    store_head<N>(t.norm.out, place_of_head(t.norm_rows, at), t.d, x);
}

/* FAR: a pair's numbers are so many of the lane's apart. */
template <int FAR>
static __device__ inline void turn_head(const mc_cuda_track &t, i64 position, float *x) {
#pragma unroll
    for (int k = 0; k < FAR; k++) {
        float c, s, u = x[k], v = x[k + FAR];
        turn((double)position * rate_of(t.rope, number(k)), &s, &c);
        x[k] = u * c - v * s;
        x[k + FAR] = u * s + v * c;
    }
}

template <int N>
static __device__ inline void rotate_head(const mc_cuda_track &t, head_at at, float *x) {
    i64 position = load_i64(t.rope.offset.dtype, data_of(t.rope.offset), 0);
    if (t.position_axis >= 0) position += at.i[t.position_axis];
    if (t.rope.half == ROW_LANES)
        turn_head<1>(t, position, x);
    else if (N >= 4 && t.rope.half == 2 * ROW_LANES)
        turn_head<N >= 4 ? 2 : 1>(t, position, x);
    else if (N >= 8)
        turn_head<N >= 8 ? 4 : 1>(t, position, x);
    store_head<N>(t.rope.out, place_of_head(t.rope_rows, at), t.d, x);
}

template <int N> static __device__ inline void run_head(const mc_cuda_track &t, head_at at) {
    const float *data = (const float *)t.x.data + place_of_head(t.x_rows, at);
    float x[N];
    i64 from;
#pragma unroll
    for (int k = 0; k < N; k++)
        x[k] = has(t.d, k) ? data[number(k)] : 0.0f;
    if (t.norms) norm_head<N>(t, at, x);
    if (t.rotates) rotate_head<N>(t, at, x);
    if (t.converts) store_head<N>(t.converted, place_of_head(t.converted_rows, at), t.d, x);
    if (!t.copies || !find_start(t.copy, &from)) return;
    store_head<N>(t.copy.out, from + place_of_head(t.copy_rows, at), t.d, x);
}

/* blockIdx: x those of the first track, then of the next. */
KERNEL_OF(mc_heads, mc_cuda_heads, HEAD_THREADS) {
    __shared__ mc_cuda_track t;
    i64 block = blockIdx.x;
    int track = 0;
    for (; block >= a.blocks[track]; track++)
        block -= a.blocks[track];
    take_args(t, a.tracks[track], sizeof t);
    i64 row = block * HEAD_WARPS + threadIdx.x / ROW_LANES;
    if (row >= t.rows) return;
    uint32_t outer = (uint32_t)row / (uint32_t)t.inner;
    head_at at = {{outer, row - outer * t.inner}};
    if (t.d <= 2 * ROW_LANES)
        run_head<2>(t, at);
    else if (t.d <= 4 * ROW_LANES)
        run_head<4>(t, at);
    else
        run_head<8>(t, at);
}
