/* Products in f32. All kernels add up alike, so that a row's bits do not depend on the rows beside
 * it: 32 products one after the other are a chunk, 32 chunks are added as a tree of neighbours, and
 * these sums one after the other. */
#include "cuda/kern/quant.cuh"

enum { CHUNK = 32, ROUND = 32 * CHUNK, LEVELS = 5, WARPS = 8, LANES = 32 };

/* Where the batch b of a product lies. */
typedef struct places {
    i64 x, w, scales, out;
} places;

static __device__ inline places places_of(const mc_cuda_matmul &a, i64 batch) {
    places p;
    p.x = place(batch, a.ndim, a.shape, a.x.strides);
    p.w = place(batch, a.ndim, a.shape, a.w_strides);
    p.scales = place(batch, a.ndim, a.shape, a.scale_strides);
    p.out = batch * a.m * a.n;
    return p;
}

/* Element [k, n] of w. */
static __device__ inline float w_at(const mc_cuda_matmul &a, const places &p, i64 k, i64 n) {
    if (!a.is_quantised) return load_f32(a.w.dtype, data_of(a.w), p.w + k * a.w_k + n * a.w_n);
    i64 row = a.transpose ? n : k, i = a.transpose ? k : n;
    return weight_at(a.quant, p.w + row * a.quant.code_stride,
                     p.scales + row * a.quant.scale_stride, i);
}

static __device__ inline float x_at(const mc_cuda_matmul &a, const places &p, i64 m, i64 k) {
    return load_f32(a.x.dtype, data_of(a.x),
                    p.x + m * a.x.strides[a.ndim] + k * a.x.strides[a.ndim + 1]);
}

/* Sums of chunks that come one after the other, added as the tree: those of levels whose bit of the
 * number of chunks is set wait for a neighbour. */
typedef struct tree {
    float levels[LEVELS], total;
} tree;

static __device__ inline void add_chunk(tree &t, i64 chunk, float sum) {
    bool waits = false;
    for (int i = 0; i < LEVELS; i++) {
        bool pair = (chunk >> i & 1) != 0;
        if (waits) continue;
        if (pair)
            sum = t.levels[i] + sum;
        else
            t.levels[i] = sum;
        waits = !pair;
    }
    if (!waits) t.total += sum;
}

/* The rest of a round has no chunks, which are 0. */
static __device__ inline float total_of(tree &t, i64 chunks) {
    for (; chunks % (ROUND / CHUNK) != 0; chunks++)
        add_chunk(t, chunks, 0);
    return t.total;
}

/* A block of 32 x 8 threads has a tile of out: a thread four rows of a column. */
KERNEL(mc_matmul_tiles, mc_cuda_matmul) {
    __shared__ float xs[CHUNK][CHUNK + 1], ws[CHUNK][CHUNK + 1];
    i64 n0 = (i64)blockIdx.x * CHUNK, m0 = (i64)blockIdx.y * CHUNK;
    bool along_k = a.is_quantised ? a.transpose : a.w_k == 1; /* rows of w lie along k */
    for (i64 batch = blockIdx.z; batch < a.batches; batch += gridDim.z) {
        places p = places_of(a, batch);
        tree trees[4] = {{{0}, 0}};
        for (i64 k0 = 0; k0 < a.k; k0 += CHUNK) {
            for (int r = threadIdx.y; r < CHUNK; r += 8) {
                i64 m = m0 + r, k = k0 + threadIdx.x, n = n0 + r;
                xs[r][threadIdx.x] = m < a.m && k < a.k ? x_at(a, p, m, k) : 0;
                if (along_k) {
                    ws[threadIdx.x][r] = n < a.n && k < a.k ? w_at(a, p, k, n) : 0;
                    continue;
                }
                n = n0 + threadIdx.x;
                k = k0 + r;
                ws[r][threadIdx.x] = n < a.n && k < a.k ? w_at(a, p, k, n) : 0;
            }
            __syncthreads();
            for (int j = 0; j < 4; j++) {
                float sum = 0;
                for (int k = 0; k < CHUNK; k++)
                    sum = fmaf(xs[threadIdx.y + 8 * j][k], ws[k][threadIdx.x], sum);
                add_chunk(trees[j], k0 / CHUNK, sum);
            }
            __syncthreads();
        }
        for (int j = 0; j < 4; j++) {
            i64 m = m0 + threadIdx.y + 8 * j, n = n0 + threadIdx.x;
            float y = total_of(trees[j], (a.k + CHUNK - 1) / CHUNK);
            if (m < a.m && n < a.n) store_f32(a.out.dtype, a.out.data, p.out + m * a.n + n, y);
        }
    }
}

/* One chunk at most, along rows of w: a thread has a column of some rows. */
enum { SHORT_ROWS = 8 };

KERNEL(mc_matmul_short, mc_cuda_matmul) {
    __shared__ float xs[SHORT_ROWS][CHUNK];
    i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x, m0 = (i64)blockIdx.y * SHORT_ROWS;
    int rows = a.m - m0 < SHORT_ROWS ? (int)(a.m - m0) : SHORT_ROWS, length = (int)a.k;
    for (i64 batch = blockIdx.z; batch < a.batches; batch += gridDim.z) {
        places p = places_of(a, batch);
        float sums[SHORT_ROWS] = {0};
        __syncthreads(); /* those of before are read */
        for (int i = (int)threadIdx.x; i < rows * length; i += blockDim.x)
            xs[i / length][i % length] = x_at(a, p, m0 + i / length, i % length);
        __syncthreads();
        if (n >= a.n) continue;
        for (int k = 0; k < length; k++) {
            float w = w_at(a, p, k, n);
#pragma unroll
            for (int r = 0; r < SHORT_ROWS; r++) /* rows that are not there are not stored */
                sums[r] = fmaf(r < rows ? xs[r][k] : 0.0f, w, sums[r]);
        }
#pragma unroll
        for (int r = 0; r < SHORT_ROWS; r++)
            if (r < rows)
                store_f32(a.out.dtype, a.out.data, p.out + (m0 + r) * a.n + n, 0.0f + sums[r]);
    }
}

/* ---- few rows: a warp a column, a lane a chunk of each round ---- */

static __device__ inline float sum_over_warp(float x) {
    for (int bit = 1; bit < LANES; bit *= 2)
        x += __shfl_xor_sync(0xffffffffu, x, bit);
    return x;
}

/* Few columns, or, where `swapped`, few rows, and many of the others, of which a warp has some: a
 * lane a chunk of each round. */
enum { NARROW = 8, NARROW_LINES = 2, NARROW_PITCH = CHUNK * NARROW + 4 };

KERNEL(mc_matmul_narrow, mc_cuda_matmul) {
    __shared__ float few[LANES * NARROW_PITCH]; /* [lanes, CHUNK, NARROW], in banks of their own */
    int lane = (int)threadIdx.x, thread = (int)threadIdx.y * LANES + lane;
    bool swapped = a.swapped != 0;
    i64 all = swapped ? a.n : a.m, width = swapped ? a.m : a.n, first = (i64)blockIdx.x * NARROW;
    i64 line = ((i64)blockIdx.y * WARPS + threadIdx.y) * NARROW_LINES;
    for (i64 batch = blockIdx.z; batch < a.batches; batch += gridDim.z) {
        places p = places_of(a, batch);
        float totals[NARROW_LINES][NARROW] = {{0}};
        for (i64 k0 = 0; k0 < a.k; k0 += ROUND) {
            float sums[NARROW_LINES][NARROW] = {{0}};
            __syncthreads(); /* those of before are read */
            for (int i = thread; i < ROUND * NARROW; i += WARPS * LANES) {
                int k = i / NARROW, c = i % NARROW;
                bool there = k0 + k < a.k && first + c < width;
                few[k / CHUNK * NARROW_PITCH + k % CHUNK * NARROW + c] =
                    !there    ? 0.0f
                    : swapped ? x_at(a, p, first + c, k0 + k)
                              : w_at(a, p, k0 + k, first + c);
            }
            __syncthreads();
            for (int i = 0; i < CHUNK; i++) {
                const float *y = few + lane * NARROW_PITCH + i * NARROW;
                i64 k = k0 + lane * CHUNK + i;
#pragma unroll
                for (int r = 0; r < NARROW_LINES; r++) {
                    bool there = k < a.k && line + r < all;
                    float x = !there    ? 0.0f
                              : swapped ? w_at(a, p, k, line + r)
                                        : x_at(a, p, line + r, k);
#pragma unroll
                    for (int c = 0; c < NARROW; c++)
                        sums[r][c] = fmaf(x, y[c], sums[r][c]);
                }
            }
#pragma unroll
            for (int r = 0; r < NARROW_LINES; r++)
#pragma unroll
                for (int c = 0; c < NARROW; c++)
                    totals[r][c] += sum_over_warp(sums[r][c]);
        }
#pragma unroll
        for (int r = 0; r < NARROW_LINES; r++)
#pragma unroll
            for (int c = 0; c < NARROW; c++) {
                i64 m = swapped ? first + c : line + r, n = swapped ? line + r : first + c;
                if (lane == r * NARROW + c && line + r < all && first + c < width)
                    store_f32(a.out.dtype, a.out.data, p.out + m * a.n + n, totals[r][c]);
            }
    }
}

enum { FEW_ROWS = 8, MAX_COLUMNS = 4, AT_ONCE = ROUND + ROUND / CHUNK };

/* Rows of x, from k0 on, in shared memory: a chunk begins in another bank than the one before. */
static __device__ inline void share_rows(const mc_cuda_matmul &a, const places &p, i64 m0,
                                         int count, i64 k0, float (*xs)[AT_ONCE]) {
    __syncthreads(); /* those of before are read */
    for (int i = threadIdx.y * LANES + threadIdx.x; i < count * ROUND; i += WARPS * LANES) {
        int m = i / ROUND, k = i % ROUND;
        xs[m][k + k / CHUNK] = k0 + k < a.k ? x_at(a, p, m0 + m, k0 + k) : 0;
    }
    __syncthreads();
}

/* The products of a lane's chunk, of codes of 4 bits that 16 bytes hold. */
template <int ROWS>
static __device__ inline void chunk_of_q4(const mc_cuda_matmul &a, i64 n, i64 k0,
                                          const float (*xs)[AT_ONCE], float *sums) {
    i64 group = n * a.quant.scale_stride + k0 / a.quant.group;
    float s = load_f32(a.quant.scales.dtype, a.quant.scales.data, group);
    float b = load_f32(a.quant.biases.dtype, a.quant.biases.data, group);
    const uint32_t *codes = (const uint32_t *)a.quant.codes.data + n * a.quant.code_stride;
    uint4 packed = *(const uint4 *)(codes + k0 / 8);
    const uint32_t words[] = {packed.x, packed.y, packed.z, packed.w};
    int first = (int)threadIdx.x * (CHUNK + 1);
#pragma unroll
    for (int i = 0; i < CHUNK; i++) { /* 2^23 + code, less 2^23 */
        uint32_t code = words[i / 8] >> (i % 8 * 4) & 15u;
        float w = fmaf(s, bits_to_f32(0x4b000000u | code) - 8388608.0f, b);
#pragma unroll
        for (int m = 0; m < ROWS; m++)
            sums[m] = fmaf(xs[m][first + i], w, sums[m]);
    }
}

template <int ROWS>
static __device__ inline void chunk_of(const mc_cuda_matmul &a, const places &p, i64 n, i64 k0,
                                       const float (*xs)[AT_ONCE], float *sums) {
    int first = (int)threadIdx.x * (CHUNK + 1);
    for (int i = 0; i < CHUNK && k0 + i < a.k; i++) {
        float w = w_at(a, p, k0 + i, n);
#pragma unroll
        for (int m = 0; m < ROWS; m++)
            sums[m] = fmaf(xs[m][first + i], w, sums[m]);
    }
}

/* Each warp has columns n, n + WARPS ... of the block's. */
template <int ROWS, bool Q4> static __device__ inline void few_rows(const mc_cuda_matmul &a) {
    enum { MOST = ROWS == 1 ? MAX_COLUMNS : 1 };
    __shared__ float xs[ROWS][AT_ONCE];
    i64 first = (i64)blockIdx.x * WARPS * a.columns + threadIdx.y;
    for (i64 batch = blockIdx.z; batch < a.batches; batch += gridDim.z) {
        places p = places_of(a, batch);
        for (i64 m0 = 0; m0 < a.m; m0 += ROWS) {
            int count = (int)(a.m - m0 < ROWS ? a.m - m0 : ROWS);
            float totals[MOST][ROWS] = {{0}};
            for (i64 k = 0; k < a.k; k += ROUND) {
                i64 k0 = k + threadIdx.x * CHUNK;
                share_rows(a, p, m0, count, k, xs);
#pragma unroll
                for (int c = 0; c < MOST; c++) {
                    i64 n = first + c * WARPS;
                    float sums[ROWS] = {0};
                    if (c >= a.columns || n >= a.n) break;
                    if (Q4 && k0 < a.k)
                        chunk_of_q4<ROWS>(a, n, k0, xs, sums);
                    else if (k0 < a.k)
                        chunk_of<ROWS>(a, p, n, k0, xs, sums);
#pragma unroll
                    for (int m = 0; m < ROWS; m++)
                        totals[c][m] += sum_over_warp(sums[m]);
                }
            }
#pragma unroll
            for (int c = 0; c < MOST; c++)
#pragma unroll
                for (int m = 0; m < ROWS; m++) {
                    i64 n = first + c * WARPS;
                    if (threadIdx.x == 0 && c < a.columns && m < count && n < a.n)
                        store_f32(a.out.dtype, a.out.data, p.out + (m0 + m) * a.n + n,
                                  totals[c][m]);
                }
        }
    }
}

KERNEL(mc_matmul_row, mc_cuda_matmul) {
    few_rows<1, false>(a);
}
KERNEL(mc_matmul_rows, mc_cuda_matmul) {
    few_rows<FEW_ROWS, false>(a);
}
KERNEL(mc_matmul_row_q4, mc_cuda_matmul) {
    few_rows<1, true>(a);
}
KERNEL(mc_matmul_rows_q4, mc_cuda_matmul) {
    few_rows<FEW_ROWS, true>(a);
}

KERNEL(mc_dequantize, mc_cuda_dequantize) {
    FOR_ELEMENTS(i, a.rows * a.k) {
        i64 row = i / a.k, codes = place(row, a.ndim, a.shape, a.code_strides);
        i64 scales = place(row, a.ndim, a.shape, a.scale_strides);
        store_f32(a.out.dtype, a.out.data, i, weight_at(a.quant, codes, scales, i % a.k));
    }
}

/* A block has 32 by 32 of them at a time, rows of which go to shared memory. */
KERNEL(mc_across, mc_cuda_across) {
    __shared__ uint16_t tile[LANES][LANES + 2];
    int lane = (int)threadIdx.x;
    i64 n0 = (i64)blockIdx.x * LANES;
    for (i64 k0 = (i64)blockIdx.y * LANES; k0 < a.padded; k0 += (i64)gridDim.y * LANES) {
        for (int i = (int)threadIdx.y; i < LANES; i += WARPS) {
            i64 k = k0 + i, n = n0 + lane;
            uint16_t w = 0;
            if (k < a.k && n < a.n)
                w = a.is_quantised ? f32_to_bf16(weight_at(a.quant, k * a.quant.code_stride,
                                                           k * a.quant.scale_stride, n))
                                   : a.w[k * a.w_k + n * a.w_n];
            tile[i][lane] = w;
        }
        __syncthreads();
        for (int i = (int)threadIdx.y; i < LANES; i += WARPS)
            if (n0 + i < a.n) a.out[(n0 + i) * a.padded + k0 + lane] = tile[lane][i];
        __syncthreads();
    }
}
