/* Norms of rows; a sum and its norm. */
#include "cuda/kern/row.cuh"

KERNEL_OF(mc_norm, mc_cuda_norm, ROW_THREADS) {
    __shared__ double partial[2][NORM_THREADS];
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

/* What mc_chain does of an addition and a norm of dense rows of f32, in little code: that is what
 * one block waits for. */
KERNEL_OF(mc_add_norm, mc_cuda_add_norm, NORM_THREADS) {
    __shared__ double partial[2][NORM_THREADS];
    enum { MOST = MC_CUDA_ADD_NORM_D / NORM_THREADS };
    int use = 0, d = (int)a.d, thread = (int)threadIdx.x;
    for (i64 row = blockIdx.x; row < a.rows; row += gridDim.x) {
        const float *x = a.x + row * a.d, *y = a.y + row * a.d;
        float numbers[MOST] = {0}, weights[MOST];
        double squares = 0;
#pragma unroll
        for (int k = 0; k < MOST; k++) {
            int i = thread + k * NORM_THREADS;
            if (k * NORM_THREADS >= d) break;
            numbers[k] = i < d ? x[i] + y[i] : 0.0f;
            weights[k] = 0;
            if (i < d)
                weights[k] = a.weight_is_bf16 ? bf16_to_f32(((const uint16_t *)a.weight)[i])
                                              : ((const float *)a.weight)[i];
        }
#pragma unroll
        for (int k = 0; k < MOST; k++) {
            int i = thread + k * NORM_THREADS;
            if (k * NORM_THREADS >= d) break;
            if (i < d) a.sum[row * a.d + i] = numbers[k];
            squares += (double)numbers[k] * (double)numbers[k];
        }
        squares = sum_of_block(squares, partial, &use);
        float scale = (float)rsqrt(squares / (double)a.d + a.eps);
#pragma unroll
        for (int k = 0; k < MOST; k++) {
            int i = thread + k * NORM_THREADS;
            if (k * NORM_THREADS >= d) break;
            if (i < d) a.out[row * a.d + i] = numbers[k] * scale * weights[k];
        }
    }
}
