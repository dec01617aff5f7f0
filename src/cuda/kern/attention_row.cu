/* Attention of one query a sequence, as a step of decoding has it, to keys and values of floats
 * whose rows lie side by side. A block has the heads that share keys, and some parts, one a warp,
 * which reads keys and values once, into registers. Where a row sees more parts than a
 * block has, blocks leave theirs, and the one that is done last adds up all.
 *
 * It may have heads on their way to it, too (heads.cuh): of the query in each block, of the last
 * key and value in that whose part they are of. Keys and values before these are read as the
 * kernel begins, which may be before the products of the token are there. */
#include "cuda/kern/attention.cuh"
#include "cuda/kern/attention_row.h"
#include "cuda/kern/early.cuh"
#include "cuda/kern/heads.cuh"
#include "cuda/kern/warp.cuh"

namespace row {

/* A lane's number, for all of the warp. */
static __device__ inline float of_lane(float x, int lane) {
#ifdef MICA_EMULATED
    uint32_t bits = __float_as_uint(x);
    return __uint_as_float(emulated_exchange(&bits, 1)[lane][0]);
#else
    return __shfl_sync(0xffffffffu, x, lane);
#endif
}

enum {
    WARPS = MC_CUDA_ROW_PARTS,
    THREADS = WARPS * WARP_LANES,
    BOUND =
        384, /* threads that there are registers for: beside a block of the product before, while
                    which the kernel begins */
    NUMBERS = MC_CUDA_ROW_NUMBERS, /* of a block's queries */
    SPREAD = NUMBERS / THREADS     /* numbers of the results that a thread has */
};

/* What a block knows of its rows: their queries, and what its parts gave. */
typedef struct rows {
    alignas(16) float q[NUMBERS]; /* [rows, d] */
    float normed[NUMBERS];        /* the same before RoPE, where the block norms them */
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
        bits = __ldcg((const uint2 *)((const uint16_t *)data + at));
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
        x = __ldcg((const float4 *)((const float *)data + at));
    }
    __device__ inline float at(int i) const {
        return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
    }
};

/* Keys of a part, of which eight lanes have GROUP, each four numbers of every 32. Where registers
 * hold all of them, they are loaded at once, before the query is there. */
template <int T, int D32> struct keys {
    enum { WHOLE = T != MC_CUDA_F32 && D32 <= 4, TOGETHER = WHOLE ? GROUP : D32 <= 4 ? 4 : 2 };
    quad<T> of[TOGETHER][D32];
    __device__ inline void load(const void *data, const i64 *key_at, int from) {
        int lane = threadIdx.x % WARP_LANES, part = lane % GROUP,
            first = lane / GROUP * GROUP + from;
#pragma unroll
        for (int i = 0; i < TOGETHER; i++)
#pragma unroll
            for (int step = 0; step < D32; step++)
                of[i][step].load(data, key_at[first + i] + part * 4 + step * GROUP * 4);
    }
};

/* Products of those keys with each row's query. Rows are a loop: a kernel waits for each
 * instruction that it has not had. */
template <int T, int D32>
static __device__ inline void multiply_keys(const keys<T, D32> &k, rows &s, int n_rows, int warp,
                                            int from) {
    enum { TOGETHER = keys<T, D32>::TOGETHER };
    int lane = threadIdx.x % WARP_LANES, part = lane % GROUP, first = lane / GROUP * GROUP + from;
#pragma unroll 1
    for (int row = 0; row < n_rows; row++) {
        const float *query = s.q + row * D32 * 32 + part * 4;
        float sums[TOGETHER] = {0};
#pragma unroll
        for (int step = 0; step < D32; step++) {
            const float4 q = *(const float4 *)(query + step * GROUP * 4);
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
                sums[i] = __fmaf_rn(q.x, k.of[i][step].at(0), sums[i]);
                sums[i] = __fmaf_rn(q.y, k.of[i][step].at(1), sums[i]);
                sums[i] = __fmaf_rn(q.z, k.of[i][step].at(2), sums[i]);
                sums[i] = __fmaf_rn(q.w, k.of[i][step].at(3), sums[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
#pragma unroll
            for (int half = GROUP / 2; half > 0; half /= 2)
                sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], half);
            if (part == i) s.sums[warp][row * PART + first + i] = sums[i];
        }
    }
}

template <int T, int D32>
static __device__ inline void find_products(const mc_cuda_attention &a, rows &s, int n_rows,
                                            int warp, keys<T, D32> &k) {
    if constexpr (keys<T, D32>::WHOLE) {
        multiply_keys<T, D32>(k, s, n_rows, warp, 0);
    } else {
#pragma unroll 1
        for (int from = 0; from < GROUP; from += keys<T, D32>::TOGETHER) {
            k.load(a.k.data, s.key_at[warp], from);
            multiply_keys<T, D32>(k, s, n_rows, warp, from);
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

/* A part whose values are there, and keys where registers hold them, by a warp: what it gives of
 * each row is in s.max, s.total and s.sums. */
template <int T, int D32>
static __device__ inline void attend_part(const mc_cuda_attention &a, rows &s, attend_place p,
                                          bool seen, keys<T, D32> &k, const values<T, D32> &v) {
    int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    float *weights = s.sums[warp] + NUMBERS - p.rows * PART;
    find_products<T, D32>(a, s, p.rows, warp, k);
    sync_warp();
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

/* ---- the sum of parts ---- */

/* What n parts, whose s.max and s.total are there, are added up with, behind those before: as
 * add_part has it, but at once. A warp has a row, a lane a part; behind the last, parts change
 * nothing. max, total: of the parts so far, for all lanes. */
static __device__ inline void scale_parts(rows &s, int n_rows, int n, float *max, float *total) {
    int row = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    if (row >= n_rows) return;
    bool is_there = lane < n && s.total[lane][row] != 0;
    float own = is_there ? s.max[lane][row] : -INFINITY;
    float of_part = is_there ? s.total[lane][row] : 0.0f, most = own; /* of parts up to this */
#pragma unroll 1
    for (int far = 1; far < n; far *= 2) {
        float other = of_lane(most, lane < far ? lane : lane - far);
        if (other > most) most = other;
    }
    float before = of_lane(most, lane == 0 ? 0 : lane - 1);
    if (lane == 0 || *max > before) before = *max;
    float more = own > before ? own : before, sum = *total;
    float to = !is_there ? 1.0f : before == -INFINITY ? 0.0f : expf(before - more);
    float by = is_there ? expf(own - more) : 0.0f, term = __fmul_rn(of_part, by);
    s.to[lane][row] = to;
    s.by[lane][row] = by;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        float scaled = __fmaf_rn(sum, of_lane(to, i), of_lane(term, i));
        sum = of_lane(is_there ? 1.0f : 0.0f, i) != 0 ? scaled : sum;
    }
    float last = of_lane(most, n - 1);
    if (last > *max) *max = last;
    *total = sum;
}

static __device__ inline float add_number(float sum, float x, float to, float by) {
    float added = __fmaf_rn(sum, to, __fmul_rn(x, by));
    return by != 0 ? added : sum;
}

/* What a row's results are divided by, behind the last part. */
static __device__ inline void end_rows(const mc_cuda_attention &a, rows &s, attend_place p,
                                       float max, float total) {
    int row = threadIdx.x / WARP_LANES;
    if (threadIdx.x % WARP_LANES == 0 && row < p.rows) {
        add_sink(a, head_of(a, row), &max, &total, &s.end_to[row]);
        s.end_total[row] = total;
        if (a.lse.is_there)
            ((float *)a.lse.data)[p.b * a.heads + head_of(a, row)] = log_of_sum(max, total);
    }
    __syncthreads();
}

/* Number i of a block's results, by its sum. */
template <int D>
static __device__ inline void store_result(const mc_cuda_attention &a, const rows &s,
                                           attend_place p, int i, float sum) {
    i64 at = (p.b * a.heads + head_of(a, 0)) * D + i;
    float result = result_of(sum, s.end_to[i / D], s.end_total[i / D]);
    if (a.out.dtype == MC_CUDA_F32)
        ((float *)a.out.data)[at] = result;
    else
        store_f32(a.out.dtype, a.out.data, at, result);
}

/* n parts of this block, which are all that there are. */
template <int D>
static __device__ inline void add_own(const mc_cuda_attention &a, rows &s, attend_place p, int n) {
    float max = -INFINITY, total = 0;
    scale_parts(s, p.rows, n, &max, &total);
    end_rows(a, s, p, max, total);
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < p.rows * D; i += THREADS) {
        float sum = 0;
#pragma unroll
        for (int j = 0; j < WARPS; j++) /* behind the last, they are multiplied by 0 */
            sum = add_number(sum, s.sums[j][i], s.to[j][i / D], s.by[j][i / D]);
        store_result<D>(a, s, p, i, sum);
    }
}

/* What is left of part number n: a row's largest score, its total, and its sums. */
template <int D>
static __device__ inline float *left_at(const mc_cuda_attention &a, attend_place p, i64 n,
                                        int row) {
    return a.left + ((n * a.batch + p.b) * a.heads + head_of(a, row)) * (D + 2);
}

template <int D>
static __device__ inline void leave_parts(const mc_cuda_attention &a, const rows &s, attend_place p,
                                          i64 from, int n) {
#pragma unroll 1
    for (int j = 0; j < n; j++) {
        for (int i = threadIdx.x; i < p.rows * D; i += THREADS)
            left_at<D>(a, p, from + j, i / D)[2 + i % D] = s.sums[j][i];
        int row = threadIdx.x;
        if (row >= p.rows) continue;
        left_at<D>(a, p, from + j, row)[0] = s.max[j][row];
        left_at<D>(a, p, from + j, row)[1] = s.total[j][row];
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

template <int D>
static __device__ inline void add_left(const mc_cuda_attention &a, rows &s, attend_place p,
                                       i64 all) {
    float max = -INFINITY, total = 0, sums[SPREAD] = {0};
#pragma unroll 1
    for (i64 from = 0; from < all; from += PART) {
        int n = all - from < PART ? (int)(all - from) : PART;
        __syncthreads(); /* the last ones have been read */
        for (int i = threadIdx.x; i < n * p.rows; i += THREADS) {
            const float *left = left_at<D>(a, p, from + i / p.rows, i % p.rows);
            s.max[i / p.rows][i % p.rows] = __ldcg(left);
            s.total[i / p.rows][i % p.rows] = __ldcg(left + 1);
        }
        __syncthreads();
        scale_parts(s, p.rows, n, &max, &total);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < SPREAD; k++) {
            int i = (int)threadIdx.x + k * THREADS;
            if (i >= p.rows * D) break;
            const float *left = left_at<D>(a, p, from, i / D) + 2 + i % D;
            i64 step = a.batch * a.heads * (D + 2);
#pragma unroll 8
            for (int j = 0; j < n; j++)
                sums[k] =
                    add_number(sums[k], __ldcg(left + j * step), s.to[j][i / D], s.by[j][i / D]);
        }
    }
    end_rows(a, s, p, max, total);
#pragma unroll
    for (int k = 0; k < SPREAD; k++) {
        int i = (int)threadIdx.x + k * THREADS;
        if (i < p.rows * D) store_result<D>(a, s, p, i, sums[k]);
    }
}

/* ---- what goes before ---- */

/* The query of each row, as it lies. */
template <int D>
static __device__ inline void load_queries(const mc_cuda_attention &a, rows &s, attend_place p) {
    bool is_f32 = a.q.dtype == MC_CUDA_F32;
#pragma unroll 1
    for (int i = threadIdx.x; i < p.rows * D; i += THREADS) {
        i64 at = p.b * a.q.strides[0] + head_of(a, i / D) * a.q.strides[1] + i % D * a.q.strides[3];
        s.q[i] = is_f32 ? __ldcg((const float *)data_of(a.q) + at)
                        : load_f32(a.q.dtype, data_of(a.q), at);
    }
}

/* Heads of the queries, which are there for the block, and in memory when its rows are done; and,
 * of a block that has the last part, of its key and value, which go into the cache. Each is a
 * warp's. */
template <int D32>
static __device__ inline void take_heads(const mc_cuda_attention_row &c, rows &s, attend_place p,
                                         bool has_last) {
    enum { N = D32 };
    int lane = threadIdx.x % WARP_LANES, warp = threadIdx.x / WARP_LANES;
    int items = p.rows + (has_last ? 2 : 0);
    if (warp >= items) wait_for_last();
#pragma unroll 1
    for (int item = warp; item < items; item += WARPS) {
        int of_kv = item - p.rows; /* 0: the key, 1: the value */
        const mc_cuda_track &t = c.tracks[of_kv < 0 ? MC_CUDA_TRACK_Q : MC_CUDA_TRACK_K + of_kv];
        head_at at = {{0, of_kv < 0 ? head_of(c.attention, item) : p.kv}};
        head_way<N> way;
        float x[N];
        prepare_head<N>(t, at, way);
        if (item == warp) wait_for_last();
        load_head<N>(t, at, x);
        if (of_kv >= 0) {
            run_head<N>(t, at, way, x);
            continue;
        }
        int first = item * D32 * 32 + lane;
        if (t.norms) norm_head<N>(t, way, x);
#pragma unroll
        for (int k = 0; k < N; k++)
            s.normed[first + k * WARP_LANES] = x[k];
        rotate_head<N>(t, way, x);
#pragma unroll
        for (int k = 0; k < N; k++)
            s.q[first + k * WARP_LANES] = x[k];
    }
}

/* Writes the queries of a block's rows, where other blocks have read what they are made of. */
template <int D>
static __device__ inline void leave_queries(const mc_cuda_attention_row &c, const rows &s,
                                            attend_place p) {
    const mc_cuda_track &t = c.tracks[MC_CUDA_TRACK_Q];
#pragma unroll 1
    for (int i = threadIdx.x; i < p.rows * D; i += THREADS) {
        head_at at = {{0, head_of(c.attention, i / D)}};
        if (t.norms)
            ((float *)t.norm.out.data)[place_of_head(t.norm.out, at) + i % D] = s.normed[i];
        ((float *)t.rope.out.data)[place_of_head(t.rope.out, at) + i % D] = s.q[i];
    }
}

/* ---- all of it ---- */

template <int T, int D32>
static __device__ inline void attend(const mc_cuda_attention_row &c, rows &s) {
    enum { D = D32 * 32 };
    const mc_cuda_attention &a = c.attention;
    attend_place p = {blockIdx.z, blockIdx.y / a.head_groups, a.shared};
    if (blockIdx.x == 0 && blockIdx.y == 0) check_table(a, p.b);
    attend_reach reach = reach_of(a, p.b, 0);
    attend_parts parts = find_parts(a, reach, reach, PART);
    i64 all = parts.kept + parts.end - parts.first, from = (i64)blockIdx.x * WARPS;
    if (from > 0 && from >= all) {
        wait_for_last();
        return;
    }
    int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    int n = (int)(all - from < WARPS ? all - from : WARPS);
    bool has_last = all - from <= WARPS, is_last = has_last && warp == n - 1;
    i64 part = part_at(parts, from + warp), t = part * PART + lane;
    keys<T, D32> k;
    values<T, D32> v; /* behind the last key: that key's, with the weight 0 */
    if (part >= 0) {
        i64 last = last_key(a, reach), key = t < last ? t : last, block = block_of(a, p.b, key);
        s.key_at[warp][lane] = key_place(a, a.k, p, key, block);
        s.value_at[warp][lane] = key_place(a, a.v, p, key, block);
    }
    sync_warp();
#pragma unroll 1
    for (int begun = 0; begun < 2; begun++) { /* the last key is not there at first */
        if (begun) {
            if (c.takes_heads) {
                take_heads<D32>(c, s, p, has_last);
            } else {
                wait_for_last();
                load_queries<D>(a, s, p);
            }
            __syncthreads();
            if (c.takes_heads && all <= WARPS) leave_queries<D>(c, s, p);
        }
        if (part < 0 || (begun ? c.has_keys && !is_last : !c.has_keys)) continue;
        if constexpr (keys<T, D32>::WHOLE) k.load(a.k.data, s.key_at[warp], 0);
        v.load(a.v.data, s.value_at[warp]);
    }
    if (part >= 0) attend_part<T, D32>(a, s, p, is_seen(a, reach, t), k, v);
    __syncthreads();
    if (all <= WARPS) {
        add_own<D>(a, s, p, n);
        return;
    }
    leave_parts<D>(a, s, p, from, n);
    if (!is_last_block(a, s, (uint32_t)((all + WARPS - 1) / WARPS))) return;
    add_left<D>(a, s, p, all);
    if (c.takes_heads) leave_queries<D>(c, s, p);
}

template <int T> static __device__ inline void attend_of(const mc_cuda_attention_row &c, rows &s) {
    switch (c.attention.d) {
    case 64:
        return attend<T, 2>(c, s);
    case 128:
        return attend<T, 4>(c, s);
    default: /* not of f32, for which there are no registers */
        return attend < T == MC_CUDA_F32 ? MC_CUDA_BF16 : T, 8 > (c, s);
    }
}

} // namespace row

/* blockIdx: x some parts, y heads that share keys, z of the batch. */
KERNEL_OF(mc_attention_row, mc_cuda_attention_row, row::BOUND) {
    DYNAMIC_SHARED(shared);
    row::rows &s = *(row::rows *)shared;
    mc_cuda_attention_row &c = *(mc_cuda_attention_row *)(shared + MC_CUDA_ROW_SHARED);
    let_next_begin();
    take_args(c, a, a.takes_heads ? sizeof a : offsetof(mc_cuda_attention_row, tracks));
    switch (c.attention.k.dtype) {
    case MC_CUDA_F32:
        return row::attend_of<MC_CUDA_F32>(c, s);
    case MC_CUDA_BF16:
        return row::attend_of<MC_CUDA_BF16>(c, s);
    default:
        return row::attend_of<MC_CUDA_F16>(c, s);
    }
}
