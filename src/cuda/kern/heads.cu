/* A kernel of heads alone: heads.cuh. */
#include "cuda/kern/heads.cuh"

enum { HEAD_THREADS = 256, HEAD_WARPS = HEAD_THREADS / ROW_LANES };

template <int N> static __device__ inline void run_row(const mc_cuda_track &t, head_at at) {
    head_way<N> way;
    float x[N];
    load_head<N>(t, at, x);
    prepare_head<N>(t, at, way);
    run_head<N>(t, at, way, x);
}

/* blockIdx: x which. */
KERNEL_OF(mc_turns, mc_cuda_turns, MC_CUDA_MAX_HEAD / 2) {
    const mc_cuda_head_rope &rope = a.ropes[blockIdx.x];
    if (threadIdx.x >= rope.half) return;
    float2 v;
    i64 position = load_i64(rope.offset.dtype, data_of(rope.offset), 0);
    turn((double)position * rate_of(rope, threadIdx.x), &v.y, &v.x);
    ((float2 *)a.to)[blockIdx.x * (MC_CUDA_MAX_HEAD / 2) + threadIdx.x] = v;
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
        run_row<2>(t, at);
    else if (t.d <= 4 * ROW_LANES)
        run_row<4>(t, at);
    else
        run_row<8>(t, at);
}
