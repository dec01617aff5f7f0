/* The gated delta rule, step by step: a state's bits do not depend on the parts that a text is read
 * in.
 *
 * A warp has four columns of a head's state, eight lanes each: a lane every eighth row of it. A
 * block has 32 columns of one head; what steps read is shared, several of them at once. */
#include "cuda/kern/device.cuh"

namespace delta {

enum {
    LANES = 32,
    COLUMNS = 4,
    PARTS = LANES / COLUMNS,
    THREADS = 256,
    BLOCK_COLUMNS = THREADS / LANES * COLUMNS,
    STEPS = 8,
    MAX_N = MC_CUDA_DELTA_N
};

typedef struct inputs {
    float k[STEPS][MAX_N], q[STEPS][MAX_N], v[STEPS][BLOCK_COLUMNS], decay[STEPS], beta[STEPS];
} inputs;

static __device__ inline const float *numbers_of(const mc_cuda_view &x) {
    return (const float *)data_of(x); /* it may be a number of the launch */
}

/* Shares what `count` steps from t on read; rows behind the last are zeros. */
static __device__ inline void share(const mc_cuda_delta &a, inputs &in, i64 batch, i64 head, i64 t,
                                    int count, int rows) {
    const i64 *sk = a.k.strides, *sq = a.q.strides, *sv = a.v.strides;
    i64 shared = head / a.sharing, first = (i64)blockIdx.x * BLOCK_COLUMNS;
    __syncthreads(); /* those of before are read */
    for (int i = (int)threadIdx.x; i < count * rows; i += THREADS) {
        int step = i / rows, n = i % rows;
        i64 at = t + step;
        bool there = n < a.n;
        in.k[step][n] =
            there ? numbers_of(a.k)[batch * sk[0] + at * sk[1] + shared * sk[2] + n * sk[3]] : 0.0f;
        in.q[step][n] =
            there ? numbers_of(a.q)[batch * sq[0] + at * sq[1] + shared * sq[2] + n * sq[3]] : 0.0f;
    }
    for (int i = (int)threadIdx.x; i < count * BLOCK_COLUMNS; i += THREADS) {
        int step = i / BLOCK_COLUMNS, column = i % BLOCK_COLUMNS;
        i64 m = first + column < a.m ? first + column : a.m - 1;
        in.v[step][column] =
            numbers_of(a.v)[batch * sv[0] + (t + step) * sv[1] + head * sv[2] + m * sv[3]];
    }
    if ((int)threadIdx.x < count) {
        const i64 *sg = a.g.strides, *sb = a.beta.strides;
        int step = (int)threadIdx.x;
        i64 at = t + step;
        in.decay[step] = expf(numbers_of(a.g)[batch * sg[0] + at * sg[1] + head * sg[2]]);
        if (a.beta.is_there)
            in.beta[step] = numbers_of(a.beta)[batch * sb[0] + at * sb[1] + head * sb[2]];
    }
    __syncthreads();
}

/* Over the lanes of a column, for each. */
static __device__ inline float sum_of_column(float x) {
#pragma unroll
    for (int other = COLUMNS; other < LANES; other *= 2)
        x += __shfl_xor_sync(0xffffffffu, x, other);
    return x;
}

/* A step of a column, of which a lane has rows part, part + PARTS ...: what it gives. */
template <int ROWS>
static __device__ inline float step_of(const mc_cuda_delta &a, const inputs &in, int step, int part,
                                       int column, float *s) {
    float d = in.v[step][column], decay = in.decay[step], seen = 0, y = 0;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        s[i] = __fmul_rn(s[i], decay);
        seen = fmaf(in.k[step][i * PARTS + part], s[i], seen);
    }
    if (a.beta.is_there) d = __fmul_rn(in.beta[step], __fadd_rn(d, -sum_of_column(seen)));
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        s[i] = fmaf(in.k[step][i * PARTS + part], d, s[i]);
        y = fmaf(in.q[step][i * PARTS + part], s[i], y);
    }
    return __fmul_rn(sum_of_column(y), a.scale);
}

template <int ROWS>
static __device__ inline void run(const mc_cuda_delta &a, inputs &in, i64 batch, i64 head) {
    int lane = (int)threadIdx.x % LANES, part = lane / COLUMNS;
    int column = (int)threadIdx.x / LANES * COLUMNS + lane % COLUMNS;
    i64 m = (i64)blockIdx.x * BLOCK_COLUMNS + column;
    bool has = m < a.m;
    const i64 *st = a.state.strides;
    float s[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        i64 n = i * PARTS + part;
        bool there = has && n < a.n && a.state.is_there;
        s[i] = there ? numbers_of(a.state)[batch * st[0] + head * st[1] + n * st[2] + m * st[3]]
                     : 0.0f;
    }
    for (i64 t = 0; t < a.steps; t += STEPS) {
        int count = a.steps - t < STEPS ? (int)(a.steps - t) : STEPS;
        share(a, in, batch, head, t, count, ROWS * PARTS);
#pragma unroll 1
        for (int step = 0; step < count; step++) {
            float y = step_of<ROWS>(a, in, step, part, column, s);
            if (has && part == 0)
                a.out[((batch * a.steps + t + step) * a.heads + head) * a.m + m] = y;
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        i64 n = i * PARTS + part;
        if (has && n < a.n) a.last[((batch * a.heads + head) * a.n + n) * a.m + m] = s[i];
    }
}

} // namespace delta

/* blockIdx: columns, heads, batch. */
KERNEL_OF(mc_gated_delta, mc_cuda_delta, delta::THREADS) {
    __shared__ delta::inputs in;
    for (i64 batch = blockIdx.z; batch < a.batch; batch += gridDim.z)
        for (i64 head = blockIdx.y; head < a.heads; head += gridDim.y) {
            if (a.n <= 64)
                delta::run<64 / delta::PARTS>(a, in, batch, head);
            else if (a.n <= 128)
                delta::run<128 / delta::PARTS>(a, in, batch, head);
            else
                delta::run<256 / delta::PARTS>(a, in, batch, head);
        }
}
