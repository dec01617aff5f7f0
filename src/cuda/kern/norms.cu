/* Norms of rows; a sum and its norm. */
#include "cuda/kern/row.cuh"

KERNEL_OF(mc_norm, mc_cuda_norm, ROW_THREADS) {
    __shared__ double partial[2][ROW_LANES];
    int use = 0;
    if (a.d <= WARP_ROW) {
        i64 first = (i64)blockIdx.x * ROW_WARPS, stride = (i64)gridDim.x * ROW_WARPS;
        for (i64 row = first + threadIdx.x / ROW_LANES; row < a.rows; row += stride)
            norm_by_warp(a, row);
        return;
    }
    for (i64 row = blockIdx.x; row < a.rows; row += gridDim.x)
        norm_by_block(a, row, partial, &use);
}

/* ---- a sum and its norm ---- */

enum { ADD_THREADS = MC_CUDA_ADD_NORM_D / 4 };

/* Four weights. */
static __device__ inline float4 weights_at(const void *weight, int is_bf16, int i) {
    if (!is_bf16) return *(const float4 *)((const float *)weight + i);
    const uint2 w = *(const uint2 *)((const uint16_t *)weight + i);
    float4 out = {bits_to_f32(w.x << 16), bits_to_f32(w.x & 0xffff0000u), bits_to_f32(w.y << 16),
                  bits_to_f32(w.y & 0xffff0000u)};
    return out;
}

/* What mc_chain does of an addition and a norm of dense rows of f32, in little code: that is what
 * one block waits for. A thread has four numbers; the order of the sum is sum_by_block's. */
static __device__ inline float4 normed(float4 x, const float4 &w, i64 d, double eps,
                                       double *of_warps) {
    int thread = (int)threadIdx.x, lane = thread % ROW_LANES;
    double squares = sum_of_warp((double)x.x * (double)x.x + (double)x.y * (double)x.y +
                                 (double)x.z * (double)x.z + (double)x.w * (double)x.w);
    if (lane == 0) of_warps[thread / ROW_LANES] = squares;
    __syncthreads(); /* the other half is read till the next one */
    squares = sum_of_warp(lane < (int)blockDim.x / ROW_LANES ? of_warps[lane] : 0.0);
    float scale = (float)rsqrt(squares / (double)d + eps);
    x.x = x.x * scale * w.x, x.y = x.y * scale * w.y;
    x.z = x.z * scale * w.z, x.w = x.w * scale * w.w;
    return x;
}

KERNEL_OF(mc_add_norm, mc_cuda_add_norm, ADD_THREADS) {
    __shared__ double of_warps[2][ROW_LANES];
    int i = (int)threadIdx.x * 4, use = 0;
    bool has = i < a.d;
    float4 none = {0, 0, 0, 0}, w = has ? weights_at(a.weight, a.weight_is_bf16, i) : none;
    float4 inner = has && a.inner_weight ? weights_at(a.inner_weight, a.inner_is_bf16, i) : none;
    float4 bias = has && a.bias ? *(const float4 *)(a.bias + i) : none;
    for (i64 row = blockIdx.x; row < a.rows; row += gridDim.x) {
        i64 at = row * a.d + i;
        float4 x = none, u = none, v = none;
        if (has) u = *(const float4 *)(a.x + at), v = *(const float4 *)(a.y + at);
        if (a.bias) {
            v.x = v.x + bias.x, v.y = v.y + bias.y, v.z = v.z + bias.z, v.w = v.w + bias.w;
            if (has) *(float4 *)(a.biased + at) = v;
        }
        if (a.inner_weight) {
            v = normed(v, inner, a.d, a.inner_eps, of_warps[use]);
            if (has) *(float4 *)(a.normed + at) = v;
            use ^= 1;
        }
        x.x = u.x + v.x, x.y = u.y + v.y, x.z = u.z + v.z, x.w = u.w + v.w;
        if (has) *(float4 *)(a.sum + at) = x;
        x = normed(x, w, a.d, a.eps, of_warps[use]);
        if (has) *(float4 *)(a.out + at) = x;
        use ^= 1;
    }
}
