/* Heads of queries, keys and values on their way to attention: norm, RoPE, conversion, and the copy
 * into a cache, by a warp each, whose lanes have the numbers. The same bits as by an op at a time
 * (row.cuh). */
#include "cuda/kern/heads.h"
#include "cuda/kern/row.cuh"

enum { HEAD_THREADS = 128, HEAD_WARPS = HEAD_THREADS / ROW_LANES };
enum { HEAD_NUMBERS = MC_CUDA_MAX_HEAD / ROW_LANES }; /* of a lane: lane, lane + 32, … */

static __device__ inline void store_head(const mc_cuda_view &to, i64 at, i64 d, const float *x) {
#pragma unroll
    for (int k = 0; k < HEAD_NUMBERS; k++) {
        int i = (int)threadIdx.x % ROW_LANES + k * ROW_LANES;
        if (i < d) store_f32(to.dtype, to.data, at + i, x[k]);
    }
}

static __device__ inline void norm_head(const mc_cuda_track &t, i64 row, float *x) {
    float weights[HEAD_NUMBERS];
    double squares = 0;
#pragma unroll
    for (int k = 0; k < HEAD_NUMBERS; k++) {
        int i = (int)threadIdx.x % ROW_LANES + k * ROW_LANES;
        weights[k] = 1;
        if (i < t.d && t.norm.weight.is_there)
            weights[k] =
                load_f32(t.norm.weight.dtype, data_of(t.norm.weight), i * t.norm.weight.strides[0]);
    }
#pragma unroll
    for (int k = 0; k < HEAD_NUMBERS; k++)
        squares += (double)x[k] * (double)x[k];
    squares = sum_of_warp(squares);
    float scale = (float)rsqrt(squares / (double)t.d + t.norm.eps);
#pragma unroll
    for (int k = 0; k < HEAD_NUMBERS; k++)
        x[k] = x[k] * scale * weights[k];
    store_head(t.norm.out, row * t.d, t.d, x);
}

/* FAR: a pair's numbers are so many of the lane's apart. */
template <int FAR>
static __device__ inline void turn_head(const mc_cuda_track &t, i64 position, float *x) {
#pragma unroll
    for (int k = 0; k < FAR; k++) {
        i64 j = (int)threadIdx.x % ROW_LANES + k * ROW_LANES;
        float c, s, u = x[k], v = x[k + FAR];
        turn((double)position * rate_of(t.rope, j), &s, &c);
        x[k] = u * c - v * s;
        x[k + FAR] = u * s + v * c;
    }
}

static __device__ inline void rotate_head(const mc_cuda_track &t, i64 row, float *x) {
    i64 position = load_i64(t.rope.offset.dtype, data_of(t.rope.offset), 0);
    if (t.rope.half == ROW_LANES)
        turn_head<1>(t, position, x);
    else if (t.rope.half == 2 * ROW_LANES)
        turn_head<2>(t, position, x);
    else
        turn_head<4>(t, position, x);
    store_head(t.rope.out, row * t.d, t.d, x);
}

/* blockIdx: x those of the first track, then of the next. */
KERNEL_EARLY(mc_heads, mc_cuda_heads, HEAD_THREADS) {
    __shared__ mc_cuda_track t;
    i64 block = blockIdx.x, from;
    int track = 0;
    for (; block >= a.blocks[track]; track++)
        block -= a.blocks[track];
    take_args(t, a.tracks[track], sizeof t);
    i64 row = block * HEAD_WARPS + threadIdx.x / ROW_LANES;
    float x[HEAD_NUMBERS];
    if (row >= t.rows) return;
#pragma unroll
    for (int k = 0; k < HEAD_NUMBERS; k++) {
        int i = (int)threadIdx.x % ROW_LANES + k * ROW_LANES;
        x[k] = i < t.d ? ((const float *)t.x.data)[row * t.x.strides[0] + i] : 0.0f;
    }
    if (t.norms) norm_head(t, row, x);
    if (t.rotates) rotate_head(t, row, x);
    if (t.converts) store_head(t.converted, row * t.d, t.d, x);
    if (!t.copies || !find_start(t.copy, &from)) return;
    store_head(t.copy.out, from + place(row * t.d, t.copy.ndim, t.copy.shape, t.copy.out.strides),
               t.d, x);
}
