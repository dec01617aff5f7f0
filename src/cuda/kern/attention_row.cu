/* Attention of one query a sequence, as a step of decoding has it, to keys and values of floats
 * whose rows lie side by side. A block has the heads that share keys, and some parts, one a warp,
 * which reads keys and values once, into registers. Where a row sees more parts than a
 * block has, blocks leave theirs, and the one that is done last adds up all. */
#include "cuda/kern/attention.cuh"
#include "cuda/kern/warp.cuh"

namespace row {

enum {
    WARPS = MC_CUDA_ROW_PARTS,
    THREADS = WARPS * WARP_LANES,
    NUMBERS = MC_CUDA_ROW_NUMBERS, /* of a block's queries */
    SPREAD = NUMBERS / THREADS     /* numbers of the results that a thread has */
};

/* What a block knows of its rows: their queries, and what its parts gave. */
typedef struct rows {
    alignas(16) float q[NUMBERS]; /* [rows, d] */
    /* Of parts: at first products [rows, PART], and weights at the end, then sums [rows, d]. */
    alignas(16) float sums[WARPS][NUMBERS];
    i64 key_at[WARPS][PART], value_at[WARPS][PART]; /* where parts' keys and values begin */
    float max[PART][ROWS], total[PART][ROWS];       /* of parts */
    float to[PART][ROWS], by[PART][ROWS]; /* what sums before a part, and its own, are multiplied
                                             by */
    float end_to[ROWS], end_total[ROWS];
    uint32_t is_last;
} rows;

static_assert(sizeof(rows) <= MC_CUDA_ROW_SHARED, "what a block has in shared memory");

/* Four numbers side by side, and how they are read: of f32, or of halves. */
template <int T> struct quad {
    uint2 bits;
    __device__ inline void load(const void *data, i64 at) {
        bits = *(const uint2 *)((const uint16_t *)data + at);
    }
    __device__ inline float at(int i) const {
        uint32_t word = i / 2 ? bits.y : bits.x;
        uint16_t half = (uint16_t)(word >> i % 2 * 16);
        return T == MC_CUDA_BF16 ? bf16_to_f32(half) : f16_to_f32(half);
    }
};
template <> struct quad<MC_CUDA_F32> {
    float4 x;
    __device__ inline void load(const void *data, i64 at) {
        x = *(const float4 *)((const float *)data + at);
    }
    __device__ inline float at(int i) const {
        return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
    }
};

/* Products of a part's keys with each row's query: eight lanes have a key, each four numbers of
 * every 32 of it. Rows are a loop: a kernel waits for each instruction that it has not had. */
template <int T, int D32>
static __device__ inline void find_products(const mc_cuda_attention &a, rows &s, int n_rows,
                                            int warp) {
    enum { TOGETHER = D32 > 4 ? 2 : 4 }; /* keys of a lane that are on their way */
    int lane = threadIdx.x % WARP_LANES, part = lane % GROUP, group = lane / GROUP;
#pragma unroll 1
    for (int from = 0; from < GROUP; from += TOGETHER) {
        quad<T> k[TOGETHER][D32];
        int key = group * GROUP + from;
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            i64 at = s.key_at[warp][key + i] + part * 4;
#pragma unroll
            for (int step = 0; step < D32; step++)
                k[i][step].load(a.k.data, at + step * GROUP * 4);
        }
#pragma unroll 1
        for (int row = 0; row < n_rows; row++) {
            const float *query = s.q + row * D32 * 32 + part * 4;
            float sums[TOGETHER] = {0};
#pragma unroll
            for (int step = 0; step < D32; step++) {
                const float4 q = *(const float4 *)(query + step * GROUP * 4);
#pragma unroll
                for (int i = 0; i < TOGETHER; i++) {
                    sums[i] = __fmaf_rn(q.x, k[i][step].at(0), sums[i]);
                    sums[i] = __fmaf_rn(q.y, k[i][step].at(1), sums[i]);
                    sums[i] = __fmaf_rn(q.z, k[i][step].at(2), sums[i]);
                    sums[i] = __fmaf_rn(q.w, k[i][step].at(3), sums[i]);
                }
            }
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
#pragma unroll
                for (int half = GROUP / 2; half > 0; half /= 2)
                    sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], half);
                if (part == i) s.sums[warp][row * PART + key + i] = sums[i];
            }
        }
    }
}

/* Weights of a row's scores, a lane's own, by the largest; *max and *total of them. */
static __device__ inline float weight_of(float score, float *max, float *total) {
    float most = score > -INFINITY ? score : -INFINITY;
    for (int half = WARP_LANES / 2; half > 0; half /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, most, half);
        most = other > most ? other : most;
    }
    float weight = score == -INFINITY ? 0.0f : expf(score - most), sum = weight;
    for (int half = WARP_LANES / 2; half > 0; half /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, half);
    *max = most;
    *total = sum;
    return weight;
}

/* A lane's D32 numbers of each value of a part. */
template <int T, int D32> struct values {
    enum { QUADS = (D32 + 3) / 4 };
    quad<T> of[PART][QUADS];
    __device__ inline void load(const void *data, const i64 *value_at) {
        int lane = threadIdx.x % WARP_LANES, at = D32 < 4 ? lane / 2 * 4 : lane * D32;
#pragma unroll
        for (int key = 0; key < PART; key++) /* of d 64, two lanes read the same four */
#pragma unroll
            for (int q = 0; q < QUADS; q++)
                of[key][q].load(data, value_at[key] + at + q * 4);
    }
    __device__ inline float at(int key, int n) const {
        if (D32 >= 4) return of[key][n / 4].at(n % 4);
        return threadIdx.x % 2 ? of[key][0].at(2 + n % 2) : of[key][0].at(n % 2);
    }
};

/* A row of the weighted sums of a part's values, where its weights are. */
template <int T, int D32>
static __device__ inline void sum_values(const values<T, D32> &v, const float *weights,
                                         float *sums) {
#pragma unroll
    for (int key = 0; key < PART; key += 4) {
        const float4 w = *(const float4 *)(weights + key);
        const float of[] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int n = 0; n < D32; n++) { /* a key that is not seen may have any value */
                float sum = __fmaf_rn(of[i], v.at(key + i, n), sums[n]);
                sums[n] = of[i] != 0 ? sum : sums[n];
            }
    }
}

/* A part, by a warp: what it gives of each row is in s.max, s.total and s.sums. */
template <int T, int D32>
static __device__ inline void attend_part(const mc_cuda_attention &a, rows &s, attend_place p,
                                          attend_reach reach, i64 part) {
    int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    i64 t = part * PART + lane, last = last_key(a, reach), key = t < last ? t : last;
    float *weights = s.sums[warp] + NUMBERS - p.rows * PART;
    values<T, D32> v; /* behind the last key: that key's, with the weight 0 */
    i64 block = block_of(a, p.b, key);
    s.key_at[warp][lane] = key_place(a, a.k, p, key, block);
    s.value_at[warp][lane] = key_place(a, a.v, p, key, block);
    sync_warp();
    v.load(a.v.data, s.value_at[warp]);
    find_products<T, D32>(a, s, p.rows, warp);
    sync_warp();
    bool seen = is_seen(a, reach, t);
#pragma unroll 1
    for (int row = 0; row < p.rows; row++) {
        float max, total, score = s.sums[warp][row * PART + lane] * a.scale;
        if (a.softcap != 0) score = a.softcap * tanhf(score / a.softcap);
        weights[row * PART + lane] = weight_of(seen ? score : -INFINITY, &max, &total);
        if (lane != 0) continue;
        s.max[warp][row] = max;
        s.total[warp][row] = total;
    }
    sync_warp(); /* the products are read, the weights written */
#pragma unroll 1
    for (int row = 0; row < p.rows; row++) {
        float sums[D32] = {0};
        sum_values<T, D32>(v, weights + row * PART, sums);
        sync_warp(); /* the row's weights are read: its sums may lie there, d being PART or more */
#pragma unroll
        for (int n = 0; n < D32; n++)
            s.sums[warp][row * D32 * 32 + lane * D32 + n] = sums[n];
    }
}

template <int T>
static __device__ inline void attend_part_of(const mc_cuda_attention &a, rows &s, attend_place p,
                                             attend_reach reach, i64 part) {
    switch (a.d) {
    case 64:
        return attend_part<T, 2>(a, s, p, reach, part);
    case 128:
        return attend_part<T, 4>(a, s, p, reach, part);
    default: /* not of f32, for which there are no registers */
        return attend_part < T == MC_CUDA_F32 ? MC_CUDA_BF16 : T, 8 > (a, s, p, reach, part);
    }
}

/* ---- the sum of parts ---- */

/* What n parts, whose s.max and s.total are there, are added up with, behind those before: as
 * add_part has it, but for its exponentials, which are found at once. A warp has a row. max, total:
 * lane r of warp r's, of the parts so far. */
static __device__ inline void scale_parts(rows &s, int n_rows, int n, float *max, float *total) {
    int row = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    if (row >= n_rows) return;
    float before = *max, sum = *total;
    for (int i = 0; i < lane && i < n; i++)
        if (s.total[i][row] != 0 && s.max[i][row] > before) before = s.max[i][row];
    if (lane < n) {
        bool is_there = s.total[lane][row] != 0;
        float own = s.max[lane][row], more = is_there && own > before ? own : before;
        s.to[lane][row] = !is_there ? 1.0f : before == -INFINITY ? 0.0f : expf(before - more);
        s.by[lane][row] = is_there ? expf(own - more) : 0.0f;
    }
    sync_warp();
    for (int i = 0; i < n; i++) {
        if (s.total[i][row] == 0) continue;
        if (s.max[i][row] > *max) *max = s.max[i][row];
        sum = __fmaf_rn(sum, s.to[i][row], __fmul_rn(s.total[i][row], s.by[i][row]));
    }
    *total = sum;
}

static __device__ inline float add_number(float sum, float x, float to, float by) {
    float added = __fmaf_rn(sum, to, __fmul_rn(x, by));
    return by != 0 ? added : sum;
}

/* Number i of the results, of d: where the row's are. */
static __device__ inline i64 row_of(const mc_cuda_attention &a, attend_place p, int i) {
    return p.b * a.heads + head_of(a, i / (int)a.d);
}

/* The results of sums, of which the thread has every THREADSth number. */
static __device__ inline void store_rows(const mc_cuda_attention &a, rows &s, attend_place p,
                                         float max, float total, const float *sums) {
    int row = threadIdx.x / WARP_LANES;
    if (threadIdx.x % WARP_LANES == 0 && row < p.rows) {
        i64 h = head_of(a, row);
        add_sink(a, h, &max, &total, &s.end_to[row]);
        s.end_total[row] = total;
        if (a.lse.is_there) ((float *)a.lse.data)[p.b * a.heads + h] = log_of_sum(max, total);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SPREAD; k++) {
        int i = (int)threadIdx.x + k * THREADS, of = i / (int)a.d;
        if (i >= p.rows * (int)a.d) break;
        store_f32(a.out.dtype, a.out.data, row_of(a, p, i) * a.d + i % (int)a.d,
                  result_of(sums[k], s.end_to[of], s.end_total[of]));
    }
}

/* n parts of this block, which are all that there are. */
static __device__ inline void add_own(const mc_cuda_attention &a, rows &s, attend_place p, int n) {
    float max = -INFINITY, total = 0, sums[SPREAD] = {0};
    scale_parts(s, p.rows, n, &max, &total);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SPREAD; k++) {
        int i = (int)threadIdx.x + k * THREADS, row = i / (int)a.d;
        if (i >= p.rows * (int)a.d) break;
        for (int j = 0; j < n; j++)
            sums[k] = add_number(sums[k], s.sums[j][i], s.to[j][row], s.by[j][row]);
    }
    store_rows(a, s, p, max, total, sums);
}

/* What is left of part number n: a row's largest score, its total, and its sums. */
static __device__ inline float *left_at(const mc_cuda_attention &a, attend_place p, i64 n,
                                        int row) {
    return a.left + ((n * a.batch + p.b) * a.heads + head_of(a, row)) * (a.d + 2);
}

static __device__ inline void leave_parts(const mc_cuda_attention &a, const rows &s, attend_place p,
                                          i64 from, int n) {
    for (int j = 0; j < n; j++) {
        for (int i = threadIdx.x; i < p.rows * (int)a.d; i += THREADS)
            left_at(a, p, from + j, i / (int)a.d)[2 + i % (int)a.d] = s.sums[j][i];
        int row = threadIdx.x;
        if (row >= p.rows) continue;
        left_at(a, p, from + j, row)[0] = s.max[j][row];
        left_at(a, p, from + j, row)[1] = s.total[j][row];
    }
}

/* Whether all other blocks of these rows have left their parts. */
static __device__ inline bool is_last_block(const mc_cuda_attention &a, rows &s, uint32_t blocks) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t *done = a.done + blockIdx.z * gridDim.y + blockIdx.y;
        s.is_last = atomicAdd(done, 1u) == blocks - 1;
        if (s.is_last) *done = 0; /* for the next kernel */
    }
    __syncthreads();
    __threadfence();
    return s.is_last != 0;
}

static __device__ inline void add_left(const mc_cuda_attention &a, rows &s, attend_place p,
                                       i64 all) {
    float max = -INFINITY, total = 0, sums[SPREAD] = {0};
    for (i64 from = 0; from < all; from += PART) {
        int n = all - from < PART ? (int)(all - from) : PART;
        __syncthreads(); /* the last ones have been read */
        for (int i = threadIdx.x; i < n * p.rows; i += THREADS) {
            const float *left = left_at(a, p, from + i / p.rows, i % p.rows);
            s.max[i / p.rows][i % p.rows] = __ldcg(left);
            s.total[i / p.rows][i % p.rows] = __ldcg(left + 1);
        }
        __syncthreads();
        scale_parts(s, p.rows, n, &max, &total);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < SPREAD; k++) {
            int i = (int)threadIdx.x + k * THREADS, row = i / (int)a.d;
            if (i >= p.rows * (int)a.d) break;
#pragma unroll 8
            for (int j = 0; j < n; j++)
                sums[k] =
                    add_number(sums[k], __ldcg(left_at(a, p, from + j, row) + 2 + i % (int)a.d),
                               s.to[j][row], s.by[j][row]);
        }
    }
    store_rows(a, s, p, max, total, sums);
}

} // namespace row

/* blockIdx: x some parts, y heads that share keys, z of the batch. */
KERNEL_OF(mc_attention_row, mc_cuda_attention, row::THREADS) {
    DYNAMIC_SHARED(shared);
    row::rows &s = *(row::rows *)shared;
    __shared__ mc_cuda_attention c;
    take_args(c, a, sizeof a);
    attend_place p = {blockIdx.z, blockIdx.y / c.head_groups, c.shared};
    if (blockIdx.x == 0 && blockIdx.y == 0) check_table(c, p.b);
    attend_reach reach = reach_of(c, p.b, 0);
    attend_parts parts = find_parts(c, reach, reach, PART);
    i64 all = parts.kept + parts.end - parts.first, from = (i64)blockIdx.x * row::WARPS;
    if (from > 0 && from >= all) return;
    for (int i = threadIdx.x; i < p.rows * (int)c.d; i += row::THREADS) {
        i64 at = p.b * c.q.strides[0] + head_of(c, i / (int)c.d) * c.q.strides[1] +
                 i % (int)c.d * c.q.strides[3];
        s.q[i] = load_f32(c.q.dtype, data_of(c.q), at);
    }
    __syncthreads();
    i64 part = part_at(parts, from + threadIdx.x / WARP_LANES);
    if (part >= 0) switch (c.k.dtype) {
        case MC_CUDA_F32:
            row::attend_part_of<MC_CUDA_F32>(c, s, p, reach, part);
            break;
        case MC_CUDA_BF16:
            row::attend_part_of<MC_CUDA_BF16>(c, s, p, reach, part);
            break;
        default:
            row::attend_part_of<MC_CUDA_F16>(c, s, p, reach, part);
        }
    __syncthreads();
    int n = (int)(all - from < row::WARPS ? all - from : row::WARPS);
    if (all <= row::WARPS) {
        row::add_own(c, s, p, n);
        return;
    }
    row::leave_parts(c, s, p, from, n);
    uint32_t blocks = (uint32_t)((all + row::WARPS - 1) / row::WARPS);
    if (row::is_last_block(c, s, blocks)) row::add_left(c, s, p, all);
}
