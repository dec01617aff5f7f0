/* What the kernels of attention share. A part is so many keys by their place in the cache; a row,
 * a query of a head, has the largest score, total and sums of each part that it sees, which are
 * added up in the parts' order. So it has the same bits beside whatever other rows it is computed,
 * in attention.cu and attention_row.cu alike; attention_tiles.cu has others. */
#ifndef CUDA_KERN_ATTENTION_CUH
#define CUDA_KERN_ATTENTION_CUH

#include "cuda/kern/device.cuh"

enum {
    PART = MC_CUDA_PART,           /* keys */
    ROWS = MC_CUDA_ATTENTION_ROWS, /* of a block, at most */
    GROUP = 8                      /* lanes that have a key */
};

/* A block's rows: queries of heads; b, kv: of the batch, and of the keys. */
typedef struct attend_place {
    i64 b, kv;
    int rows;
} attend_place;

static __device__ inline i64 head_of(const mc_cuda_attention &a, int row) {
    return (i64)blockIdx.y * a.shared + row % a.shared;
}

/* The place of key t, in keys or values x; block: of a pool. */
static __device__ inline i64 key_place(const mc_cuda_attention &a, const mc_cuda_view &x,
                                       attend_place p, i64 t, i64 block) {
    if (a.entries == 0) return p.b * x.strides[0] + p.kv * x.strides[1] + t * x.strides[2];
    return p.kv * x.strides[0] + block * x.strides[1] + t % a.entries * x.strides[2];
}

/* The block of a pool that has key t; 0 where there is none: the launch has failed. */
static __device__ inline i64 block_of(const mc_cuda_attention &a, i64 b, i64 t) {
    if (a.entries == 0) return 0;
    i64 block = resolve(a.table, b * a.table.strides[0] + t / a.entries * a.table.strides[1],
                        a.blocks, a.op, 1, a.fault);
    return block < 0 ? 0 : block;
}

/* All of a row's table counts, whether its keys are seen or not. */
static __device__ inline void check_table(const mc_cuda_attention &a, i64 b) {
    for (i64 j = threadIdx.x; a.entries > 0 && j < a.keys / a.entries; j += blockDim.x)
        (void)resolve(a.table, b * a.table.strides[0] + j * a.table.strides[1], a.blocks, a.op, 1,
                      a.fault);
}

/* What a row sees, where it is causal: keys up to its position, from `first` on, and those that are
 * kept. */
typedef struct attend_reach {
    i64 position, first;
} attend_reach;

static __device__ inline attend_reach reach_from(const mc_cuda_attention &a, i64 position) {
    attend_reach reach = {position, 0};
    if (a.window > 0) reach.first = position - a.window + 1;
    return reach;
}

static __device__ inline attend_reach reach_of(const mc_cuda_attention &a, i64 b, i64 query) {
    i64 offset = a.offset.is_there
                     ? load_i64(a.offset.dtype, data_of(a.offset), b * a.offset.strides[0])
                     : a.keys - a.queries;
    return reach_from(a, query + offset);
}

static __device__ inline bool is_seen(const mc_cuda_attention &a, attend_reach reach, i64 t) {
    if (t >= a.keys) return false;
    if (!a.causal) return true;
    return t <= reach.position && (t >= reach.first || t < a.keep);
}

/* Whether queries from the first to the last all see keys [from, end). */
static __device__ inline bool is_whole(const mc_cuda_attention &a, attend_reach first,
                                       attend_reach last, i64 from, i64 end) {
    if (end > a.keys) return false;
    if (!a.causal) return true;
    return end - 1 <= first.position && from >= last.first;
}

/* The last key that is seen. Behind it nobody may have written. */
static __device__ inline i64 last_key(const mc_cuda_attention &a, attend_reach reach) {
    i64 last = a.keys - 1;
    if (a.causal && reach.position < last) last = reach.position;
    return last < 0 ? 0 : last;
}

/* Parts that rows see: [first, end), and, of the keys that are kept, [0, kept). */
typedef struct attend_parts {
    i64 first, end, kept;
} attend_parts;

/* first, last: the rows' first and last query; a part has so many keys. */
static __device__ inline attend_parts find_parts(const mc_cuda_attention &a, attend_reach first,
                                                 attend_reach last, int keys) {
    i64 end = a.keys, from = 0;
    attend_parts parts = {0, 0, 0};
    if (a.causal) {
        end = last.position + 1 < a.keys ? last.position + 1 : a.keys;
        from = first.first > 0 ? first.first : 0;
    }
    parts.end = end > 0 ? (end + keys - 1) / keys : 0;
    parts.first = from / keys;
    if (a.causal && a.window > 0) parts.kept = a.keep / keys + (a.keep % keys != 0);
    if (parts.kept > parts.first) parts.kept = parts.first;
    if (parts.kept > parts.end) parts.kept = parts.end;
    if (parts.end < parts.first) parts.end = parts.first;
    return parts;
}

/* Part i of those, from 0 on; -1: there are no more. */
static __device__ inline i64 part_at(attend_parts parts, i64 i) {
    if (i < parts.kept) return i;
    i += parts.first - parts.kept;
    return i < parts.end ? i : -1;
}

/* Adds a part's largest score and total to those so far; *to and *by are what the sums so far, and
 * the part's, are multiplied by. false: nothing of the part is seen. */
static __device__ inline bool add_part(float *max, float *total, float part_max, float part_total,
                                       float *to, float *by) {
    *to = 1;
    *by = 0;
    if (part_total == 0) return false;
    float more = part_max > *max ? part_max : *max;
    *to = *max == -INFINITY ? 0.0f : expf(*max - more);
    *by = expf(part_max - more);
    *total = __fmaf_rn(*total, *to, __fmul_rn(part_total, *by));
    *max = more;
    return true;
}

/* Adds head h's sink, which is a score without a value. */
static __device__ inline void add_sink(const mc_cuda_attention &a, i64 h, float *max, float *total,
                                       float *to) {
    float by, sink = -INFINITY;
    *to = 1;
    if (a.sinks.is_there) sink = load_f32(a.sinks.dtype, data_of(a.sinks), h * a.sinks.strides[0]);
    if (sink != -INFINITY) (void)add_part(max, total, sink, 1.0f, to, &by);
}

static __device__ inline float log_of_sum(float max, float total) {
    return total > 0 ? max + logf(total) : -INFINITY;
}

/* A number of a result, of the sum of all parts. */
static __device__ inline float result_of(float sum, float to, float total) {
    return total > 0 || total != total ? __fmul_rn(sum, to) / total : 0.0f;
}

#endif
