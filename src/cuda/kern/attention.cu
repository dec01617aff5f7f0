/* Attention of any operands. A block has a few rows, queries of heads that share keys, and parts of
 * their keys: it finds scores, weights by the part's largest, and the weighted sum of the values;
 * then it adds that to what the parts before gave. Where rows are few, each part has a block of its
 * own, and the block that is done last adds them up, in their order. */
#include "cuda/kern/attention.cuh"

/* Functions that are called, not put where they are used: little code is read sooner. */
#ifdef MICA_EMULATED
#define CALLED
#else
#define CALLED __noinline__
#endif

enum {
    ATTEND_WARPS = 4,
    ATTEND_THREADS = ATTEND_WARPS * 32,
    MAX_D = 512,                    /* of keys and values */
    SPREAD = MAX_D / ATTEND_THREADS /* numbers of a value that a thread has */
};

/* What a block knows of its rows. */
typedef struct attend_rows {
    alignas(16) float q[ROWS][MAX_D];
    float weights[ROWS][PART]; /* scores, then weights, of a part; of parts: see add_up */
    float scales[ROWS][PART];
    i64 key_at[PART], value_at[PART]; /* where the part's keys and values begin */
    float part_max[ROWS], part_total[ROWS];
    float max[ROWS], total[ROWS]; /* of the parts so far */
    float to[ROWS], by[ROWS];     /* what their sums, and the part's, are multiplied by */
    attend_reach reach[ROWS];
    uint32_t is_last;
} attend_rows;

static __device__ inline i64 query_of(const mc_cuda_attention &a, int row) {
    return (i64)blockIdx.x * a.queries_of_block + row / a.shared;
}

/* Number i of a key or value, of floats or q8, whose first element is at `at`. T: its dtype, or -1:
 * any; known when it is compiled, loads are under way together. */
template <int T> static __device__ inline float entry(const mc_cuda_view &x, i64 at, i64 d, i64 i) {
    if (T >= 0) return load_f32(T, x.data, at + i * x.strides[3]);
    if (x.dtype != MC_CUDA_U8) return load_f32(x.dtype, data_of(x), at + i * x.strides[3]);
    return q8_at((const uint8_t *)data_of(x) + at, x.strides[3], d, i);
}

/* Numbers i to i + 3, zeros behind d. A dtype T that is known says that they lie side by side, and
 * d is a multiple of four. */
template <int T>
static __device__ inline void four_entries(const mc_cuda_view &x, i64 at, i64 d, i64 i,
                                           float *four) {
    if (T == MC_CUDA_F32) {
        float4 v = *(const float4 *)((const float *)x.data + at + i);
        four[0] = v.x, four[1] = v.y, four[2] = v.z, four[3] = v.w;
    } else if (T >= 0) {
        uint2 v = *(const uint2 *)((const uint16_t *)x.data + at + i);
        const uint32_t words[] = {v.x, v.y};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            uint16_t half = (uint16_t)(words[k / 2] >> k % 2 * 16);
            four[k] = T == MC_CUDA_BF16 ? bf16_to_f32(half) : f16_to_f32(half);
        }
    } else {
        for (int k = 0; k < 4; k++)
            four[k] = i + k < d ? entry<-1>(x, at, d, i + k) : 0.0f;
    }
}

/* ---- the rows ---- */

static __device__ inline void load_rows(const mc_cuda_attention &a, attend_rows &s,
                                        attend_place p) {
    int padded = ((int)a.d + 3) / 4 * 4;
    for (int i = threadIdx.x; i < p.rows * padded; i += ATTEND_THREADS) {
        int row = i / padded, k = i % padded;
        i64 at = p.b * a.q.strides[0] + head_of(a, row) * a.q.strides[1] +
                 query_of(a, row) * a.q.strides[2] + k * a.q.strides[3];
        s.q[row][k] = k < a.d ? load_f32(a.q.dtype, data_of(a.q), at) : 0.0f;
    }
    if (threadIdx.x < (unsigned)p.rows) {
        int row = threadIdx.x;
        s.reach[row] = reach_of(a, p.b, query_of(a, row));
        s.max[row] = -INFINITY;
        s.total[row] = 0;
    }
}

/* ---- a part ---- */

static __device__ inline void find_keys(const mc_cuda_attention &a, attend_rows &s, attend_place p,
                                        i64 first) {
    if (threadIdx.x >= PART) return;
    i64 t = first + threadIdx.x;
    if (t >= a.keys) t = a.keys - 1;
    i64 block = block_of(a, p.b, t);
    s.key_at[threadIdx.x] = key_place(a, a.k, p, t, block);
    s.value_at[threadIdx.x] = key_place(a, a.v, p, t, block);
}

/* A product of a query and a key as the softmax takes it; -infinity where it is not seen. */
static __device__ inline float score_of(const mc_cuda_attention &a, const attend_rows &s,
                                        attend_place p, int row, i64 t, float product) {
    if (!is_seen(a, s.reach[row], t)) return -INFINITY;
    float score = product * a.scale;
    if (a.softcap != 0) score = a.softcap * tanhf(score / a.softcap);
    if (!a.mask.is_there) return score;
    i64 at = p.b * a.mask_strides[0] + head_of(a, row) * a.mask_strides[1] +
             query_of(a, row) * a.mask_strides[2] + t * a.mask_strides[3];
    if (a.mask_is_bool) return ((const uint8_t *)data_of(a.mask))[at] != 0 ? score : -INFINITY;
    return score + load_f32(a.mask.dtype, data_of(a.mask), at);
}

/* Scores of a part: eight lanes have a key, each four numbers of every 32 of it. What is read of a
 * key is under way together, up to STEPS of these. */
template <int T>
static __device__ CALLED void find_scores(const mc_cuda_attention &a, attend_rows &s,
                                          attend_place p, i64 first) {
    enum { STEPS = 4 };
    int lane = threadIdx.x % GROUP, d = (int)a.d;
#pragma unroll 2
    for (int key = threadIdx.x / GROUP; key < PART; key += ATTEND_THREADS / GROUP) {
        float sums[ROWS] = {0};
        i64 at = s.key_at[key];
        for (int from = lane * 4; from < d; from += STEPS * GROUP * 4) {
            float k[STEPS][4];
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                int i = from + step * GROUP * 4;
                if (i < d) four_entries<T>(a.k, at, d, i, k[step]);
            }
#pragma unroll
            for (int row = 0; row < ROWS; row++) {
                if (row >= p.rows) break;
#pragma unroll
                for (int step = 0; step < STEPS; step++) {
                    int i = from + step * GROUP * 4;
                    if (i >= d) break;
                    float4 q = *(const float4 *)&s.q[row][i];
                    sums[row] = __fmaf_rn(q.x, k[step][0], sums[row]);
                    sums[row] = __fmaf_rn(q.y, k[step][1], sums[row]);
                    sums[row] = __fmaf_rn(q.z, k[step][2], sums[row]);
                    sums[row] = __fmaf_rn(q.w, k[step][3], sums[row]);
                }
            }
        }
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            if (row >= p.rows) break;
            float sum = sums[row];
            for (int half = GROUP / 2; half > 0; half /= 2)
                sum += __shfl_xor_sync(0xffffffffu, sum, half);
            if (lane == row) s.weights[row][key] = score_of(a, s, p, row, first + key, sum);
        }
    }
}

/* Weights of a part's scores, by its largest, and their sum: a warp has every fourth row. Then what
 * the sums so far, and the part's, are multiplied by. */
static __device__ inline void find_weights(attend_rows &s, int rows) {
    int lane = threadIdx.x % 32;
    for (int row = threadIdx.x / 32; row < rows; row += ATTEND_WARPS) {
        float max = -INFINITY, total = 0;
        for (int i = lane; i < PART; i += 32)
            max = s.weights[row][i] > max ? s.weights[row][i] : max;
        for (int half = 16; half > 0; half /= 2) {
            float other = __shfl_xor_sync(0xffffffffu, max, half);
            max = other > max ? other : max;
        }
        for (int i = lane; i < PART; i += 32) {
            float score = s.weights[row][i];
            float weight = score == -INFINITY ? 0.0f : expf(score - max);
            s.weights[row][i] = weight;
            total += weight;
        }
        for (int half = 16; half > 0; half /= 2)
            total += __shfl_xor_sync(0xffffffffu, total, half);
        if (lane == 0) {
            s.part_max[row] = max;
            s.part_total[row] = total;
        }
    }
}

/* The weighted sums of a part's values, of one number of them. What no row sees is not read:
 * nobody may have written it. */
template <int T>
static __device__ CALLED void sum_values_of(const mc_cuda_attention &a, const attend_rows &s,
                                            int rows, i64 first, i64 number, float *sums) {
    enum { TOGETHER = 16 }; /* values that are on their way */
    float mine[ROWS] = {0};
    int n = PART;
    if (a.causal && s.reach[rows - 1].position + 1 - first < n)
        n = (int)(s.reach[rows - 1].position + 1 - first);
    if (a.keys - first < n) n = (int)(a.keys - first);
    for (int key = 0; key < n; key += TOGETHER) {
        float v[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++)
            v[k] = key + k < n ? entry<T>(a.v, s.value_at[key + k], a.dv, number) : 0.0f;
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            if (row >= rows) break;
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) {
                float weight = key + k < n ? s.weights[row][key + k] : 0.0f;
                float sum = __fmaf_rn(weight, v[k], mine[row]);
                mine[row] = weight != 0 ? sum : mine[row];
            }
        }
    }
#pragma unroll
    for (int row = 0; row < ROWS; row++)
        sums[row] = mine[row];
}

static __device__ inline void sum_values(const mc_cuda_attention &a, const attend_rows &s, int rows,
                                         i64 first, i64 number, float *sums) {
    switch (a.v.data ? a.v.dtype : -1) {
    case MC_CUDA_F32:
        return sum_values_of<MC_CUDA_F32>(a, s, rows, first, number, sums);
    case MC_CUDA_BF16:
        return sum_values_of<MC_CUDA_BF16>(a, s, rows, first, number, sums);
    case MC_CUDA_F16:
        return sum_values_of<MC_CUDA_F16>(a, s, rows, first, number, sums);
    default:
        return sum_values_of<-1>(a, s, rows, first, number, sums);
    }
}

/* The weights of a part, in shared memory. */
static __device__ inline void weigh_part(const mc_cuda_attention &a, attend_rows &s, attend_place p,
                                         i64 part) {
    i64 first = part * PART;
    __syncthreads(); /* those of the last part have been read */
    find_keys(a, s, p, first);
    __syncthreads();
    switch (a.wide_keys ? a.k.dtype : -1) {
    case MC_CUDA_F32:
        find_scores<MC_CUDA_F32>(a, s, p, first);
        break;
    case MC_CUDA_BF16:
        find_scores<MC_CUDA_BF16>(a, s, p, first);
        break;
    case MC_CUDA_F16:
        find_scores<MC_CUDA_F16>(a, s, p, first);
        break;
    default:
        find_scores<-1>(a, s, p, first);
    }
    __syncthreads();
    find_weights(s, p.rows);
    __syncthreads();
}

/* ---- the sum of parts ---- */

/* A row's result of its sums, with the sink, which is a score without a value. */
static __device__ CALLED void store_row(const mc_cuda_attention &a, attend_place p, int row,
                                        float max, float total, const float *sums) {
    i64 h = head_of(a, row), at = (p.b * a.heads + h) * a.queries + query_of(a, row);
    float to;
    add_sink(a, h, &max, &total, &to);
    if (a.lse.is_there && threadIdx.x == 0) ((float *)a.lse.data)[at] = log_of_sum(max, total);
#pragma unroll
    for (int k = 0; k < SPREAD; k++) {
        i64 i = threadIdx.x + k * ATTEND_THREADS;
        if (i >= a.dv) break;
        store_f32(a.out.dtype, a.out.data, at * a.dv + i, result_of(sums[k], to, total));
    }
}

/* All parts, one after the other. */
static __device__ inline void attend_alone(const mc_cuda_attention &a, attend_rows &s,
                                           attend_place p, attend_parts parts) {
    float sums[ROWS][SPREAD] = {{0}};
    for (i64 n = 0, part; (part = part_at(parts, n)) >= 0; n++) {
        weigh_part(a, s, p, part);
        int row = threadIdx.x;
        if (row < p.rows)
            (void)add_part(&s.max[row], &s.total[row], s.part_max[row], s.part_total[row],
                           &s.to[row], &s.by[row]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < SPREAD; k++) {
            i64 i = threadIdx.x + k * ATTEND_THREADS;
            float of_part[ROWS];
            if (i >= a.dv) break;
            sum_values(a, s, p.rows, part * PART, i, of_part);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                if (r >= p.rows || s.by[r] == 0) continue;
                sums[r][k] = __fmaf_rn(sums[r][k], s.to[r], __fmul_rn(of_part[r], s.by[r]));
            }
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (r < p.rows) store_row(a, p, r, s.max[r], s.total[r], sums[r]);
}

/* Where a part's numbers of a row are left: its largest score, its total, and its sums. */
static __device__ inline float *left_of(const mc_cuda_attention &a, attend_place p, i64 part,
                                        int row) {
    i64 of_row = (p.b * a.heads + head_of(a, row)) * a.queries + query_of(a, row);
    return a.left + (part * a.batch * a.heads * a.queries + of_row) * (a.dv + 2);
}

static __device__ inline void leave_part(const mc_cuda_attention &a, attend_rows &s, attend_place p,
                                         i64 part) {
    weigh_part(a, s, p, part);
    for (int k = 0; k < SPREAD; k++) {
        i64 i = threadIdx.x + k * ATTEND_THREADS;
        float sums[ROWS];
        if (i >= a.dv) break;
        sum_values(a, s, p.rows, part * PART, i, sums);
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            if (row >= p.rows) break;
            left_of(a, p, part, row)[2 + i] = sums[row];
        }
    }
    int row = threadIdx.x;
    if (row >= p.rows) return;
    left_of(a, p, part, row)[0] = s.part_max[row];
    left_of(a, p, part, row)[1] = s.part_total[row];
}

/* Whether all other blocks of these rows have left their parts. */
static __device__ inline bool is_last_block(const mc_cuda_attention &a, attend_rows &s,
                                            attend_place p) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t *done = a.done + (p.b * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        s.is_last = atomicAdd(done, 1u) == (uint32_t)a.splits - 1;
        if (s.is_last) *done = 0; /* for the next kernel */
    }
    __syncthreads();
    __threadfence();
    return s.is_last != 0;
}

/* What parts' sums are multiplied by, of at most PART parts from number `from` on, in s.weights and
 * s.scales; the row's largest score and total go on. A thread has a row. */
static __device__ inline void scale_parts(const mc_cuda_attention &a, attend_rows &s,
                                          attend_place p, attend_parts parts, i64 from, int n) {
    int lane = threadIdx.x % PART;
    for (int row = threadIdx.x / PART; row < p.rows; row += ATTEND_THREADS / PART) {
        const float *left = left_of(a, p, part_at(parts, from + (lane < n ? lane : 0)), row);
        s.weights[row][lane] = __ldcg(left);
        s.scales[row][lane] = __ldcg(left + 1);
    }
    __syncthreads();
    int row = threadIdx.x;
    if (row < p.rows) {
        float max = s.max[row], total = s.total[row];
        for (int i = 0; i < n; i++)
            (void)add_part(&max, &total, s.weights[row][i], s.scales[row][i], &s.weights[row][i],
                           &s.scales[row][i]);
        s.max[row] = max;
        s.total[row] = total;
    }
    __syncthreads();
}

/* What was left, added up in the order of the parts. */
static __device__ inline void add_up(const mc_cuda_attention &a, attend_rows &s, attend_place p,
                                     attend_parts parts) {
    i64 all = parts.kept + parts.end - parts.first;
    float sums[ROWS][SPREAD] = {{0}};
    for (i64 from = 0; from < all; from += PART) {
        int n = all - from < PART ? (int)(all - from) : PART;
        __syncthreads(); /* the last ones have been read */
        scale_parts(a, s, p, parts, from, n);
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            if (row >= p.rows) break;
#pragma unroll
            for (int k = 0; k < SPREAD; k++) {
                i64 i = threadIdx.x + k * ATTEND_THREADS;
                if (i >= a.dv) break;
#pragma unroll 8
                for (int j = 0; j < n; j++) {
                    float x = __ldcg(left_of(a, p, part_at(parts, from + j), row) + 2 + i);
                    float by = s.scales[row][j];
                    float sum = __fmaf_rn(sums[row][k], s.weights[row][j], __fmul_rn(x, by));
                    sums[row][k] = by != 0 ? sum : sums[row][k];
                }
            }
        }
    }
#pragma unroll
    for (int row = 0; row < ROWS; row++)
        if (row < p.rows) store_row(a, p, row, s.max[row], s.total[row], sums[row]);
}

/* blockIdx: x queries, y heads that share keys, z batch * splits + a split. */
KERNEL_OF(mc_attention, mc_cuda_attention, ATTEND_THREADS) {
    __shared__ attend_rows s;
    __shared__ mc_cuda_attention c;
    take_args(c, a, sizeof a);
    i64 split = blockIdx.z % c.splits, left = c.queries - (i64)blockIdx.x * c.queries_of_block;
    int queries = (int)(left < c.queries_of_block ? left : c.queries_of_block);
    attend_place p = {blockIdx.z / c.splits, blockIdx.y / c.head_groups, queries * c.shared};
    load_rows(c, s, p);
    if (blockIdx.x == 0 && blockIdx.y == 0 && split == 0) check_table(c, p.b);
    __syncthreads();
    attend_parts parts = find_parts(c, s.reach[0], s.reach[p.rows - 1], PART);
    if (c.splits == 1) {
        attend_alone(c, s, p, parts);
        return;
    }
    for (i64 n = split, part; (part = part_at(parts, n)) >= 0; n += c.splits)
        leave_part(c, s, p, part);
    if (is_last_block(c, s, p)) add_up(c, s, p, parts);
}
