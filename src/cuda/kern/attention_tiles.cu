/* Attention of many queries to keys and values of bf16 whose rows lie side by side, on tensor
 * cores: queries and weights are rounded to bf16, sums are of f32. A block has rows, queries of the
 * heads that share keys, 16 a warp, and goes over tiles of keys with the largest score and the
 * total so far (Dao 2023, arXiv:2307.08691). Tiles are by their place in the cache, and one that a
 * row does not see, of finite values, leaves it as it is: its bits do not depend on the rows beside
 * it. */
#include "cuda/kern/attention.cuh"
#include "cuda/kern/warp.cuh"

namespace tiles_of_keys {

enum { WARPS = MC_CUDA_TILE_ROWS / 16, THREADS = WARPS * WARP_LANES };
#define LOG2_E 1.4426950408889634f

/* How many keys a tile has, and what it takes in shared memory: rows of keys, then of values, whose
 * pitches let lanes read other banks. */
template <int D> struct tile {
    enum {
        KEYS = D > 128 ? 32 : 64,
        PIECES = D / 8, /* of 16 bytes, of a row */
        K_PITCH = D * 2 + 64,
        V_PITCH = D * 2 + 16,
        V_AT = KEYS * K_PITCH,
        BYTES = KEYS * (K_PITCH + V_PITCH)
    };
};

/* What a lane has of its rows g and g + 8: queries, as products with eight keys want them; sums of
 * dims 16t to 16t + 15 of every 64; largest scores, times log2 e, and totals. */
template <int D> struct lane_rows {
    uint32_t q[D / 32][2][4];
    float sums[D / 64][8][4];
    float max[2], total[2];
    attend_reach reach[2];
};

static __device__ inline int row_of_lane(int i) {
    return warp_of_block() * 16 + lane_of_warp() / 4 + 8 * i;
}

/* The block's queries: the last ones first, which have the most keys. */
static __device__ inline i64 first_query(const mc_cuda_attention &a) {
    return (i64)(gridDim.x - 1 - blockIdx.x) * a.queries_of_block;
}

/* Dims 8t to 8t + 7 of every 32 make two products of 16: of a lane, four numbers in each. */
template <int D>
static __device__ inline void load_rows(const mc_cuda_attention &a, attend_place p,
                                        lane_rows<D> &r) {
    int t = lane_of_warp() % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = row_of_lane(i);
        row = row < p.rows ? row : p.rows - 1;
        i64 query = first_query(a) + row / a.shared;
        const float *q = (const float *)a.q.data + p.b * a.q.strides[0] +
                         head_of(a, row) * a.q.strides[1] + query * a.q.strides[2];
#pragma unroll
        for (int j = 0; j < D / 32; j++) {
            const float4 low = *(const float4 *)(q + j * 32 + t * 8);
            const float4 high = *(const float4 *)(q + j * 32 + t * 8 + 4);
            r.q[j][0][i] = f32_to_bf16_pair(low.x, low.y);
            r.q[j][0][2 + i] = f32_to_bf16_pair(low.z, low.w);
            r.q[j][1][i] = f32_to_bf16_pair(high.x, high.y);
            r.q[j][1][2 + i] = f32_to_bf16_pair(high.z, high.w);
        }
        r.reach[i] = reach_of(a, p.b, query);
        r.max[i] = -INFINITY;
        r.total[i] = 0;
    }
#pragma unroll
    for (int j = 0; j < D / 64; j++)
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                r.sums[j][i][e] = 0;
}

/* Starts to copy a tile. Behind the last key that is seen nobody may have written: that is copied
 * again. */
template <int D>
static __device__ inline void fetch(const mc_cuda_attention &a, attend_place p, i64 number,
                                    i64 last, unsigned char *to) {
    typedef tile<D> of;
    enum { AT_ONCE = THREADS / of::PIECES };
    int piece = (int)threadIdx.x % of::PIECES, first = (int)threadIdx.x / of::PIECES;
    const uint16_t *k = (const uint16_t *)a.k.data + piece * 8;
    const uint16_t *v = (const uint16_t *)a.v.data + piece * 8;
    to += piece * 16;
#pragma unroll 4
    for (int key = first; key < of::KEYS; key += AT_ONCE) {
        i64 t = number * of::KEYS + key;
        t = t > last ? last : t;
        i64 block = block_of(a, p.b, t);
        copy_async<16>(to + key * of::K_PITCH, k + key_place(a, a.k, p, t, block), true);
        copy_async<16>(to + of::V_AT + key * of::V_PITCH, v + key_place(a, a.v, p, t, block), true);
    }
    commit_copies();
}

/* Scores of 16 rows and a tile's keys, times log2 e: element e of scores[n] is of row g + 8 (e / 2)
 * and key 8n + 2t + e % 2. */
template <int D>
static __device__ inline void find_scores(const mc_cuda_attention &a, const unsigned char *keys,
                                          const lane_rows<D> &r, float (*scores)[4]) {
    typedef tile<D> of;
    int g = lane_of_warp() / 4, t = lane_of_warp() % 4;
#pragma unroll
    for (int n = 0; n < of::KEYS / 8; n++) {
        const unsigned char *key = keys + (n * 8 + g) * of::K_PITCH + t * 16;
        float *d = scores[n];
        d[0] = d[1] = d[2] = d[3] = 0;
#pragma unroll
        for (int j = 0; j < D / 32; j++) {
            const uint4 k = *(const uint4 *)(key + j * 64);
            const uint32_t(*q)[4] = r.q[j];
            mma_bf16(d, q[0][0], q[0][1], q[0][2], q[0][3], k.x, k.y);
            mma_bf16(d, q[1][0], q[1][1], q[1][2], q[1][3], k.z, k.w);
        }
    }
    float scale = a.softcap != 0 ? a.scale / a.softcap : a.scale * LOG2_E;
#pragma unroll
    for (int n = 0; n < of::KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            scores[n][e] *= scale;
    if (a.softcap == 0) return;
#pragma unroll
    for (int n = 0; n < of::KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            scores[n][e] = a.softcap * LOG2_E * tanhf(scores[n][e]);
}

/* x, where it is far off, as a number of 32 bits. */
static __device__ inline int near(i64 x) {
    return (int)(x < -(1 << 30) ? -(1 << 30) : x > 1 << 30 ? 1 << 30 : x);
}

/* Hides what a row does not see. */
template <int D>
static __device__ inline void hide(const mc_cuda_attention &a, i64 number, const lane_rows<D> &r,
                                   float (*scores)[4]) {
    i64 first = number * tile<D>::KEYS + lane_of_warp() % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int last = near(a.keys - 1 - first), begin = -1, keep = 0;
        if (a.causal) {
            int position = near(r.reach[i].position - first);
            last = position < last ? position : last;
            begin = near(r.reach[i].first - first);
            keep = near(a.keep - first);
        }
#pragma unroll
        for (int n = 0; n < tile<D>::KEYS / 8; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                int t = n * 8 + e;
                if (t > last || (t < begin && t >= keep)) scores[n][2 * i + e] = -INFINITY;
            }
    }
}

/* Scores become weights by the largest so far, to which sums and totals are brought. */
template <int D> static __device__ inline void weigh(lane_rows<D> &r, float (*scores)[4]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float max = r.max[i], sum = 0;
#pragma unroll
        for (int n = 0; n < tile<D>::KEYS / 8; n++) {
            max = scores[n][2 * i] > max ? scores[n][2 * i] : max;
            max = scores[n][2 * i + 1] > max ? scores[n][2 * i + 1] : max;
        }
#pragma unroll
        for (int other = 1; other < 4; other *= 2) {
            float theirs = __shfl_xor_sync(0xffffffffu, max, other);
            max = theirs > max ? theirs : max;
        }
        float base = max == -INFINITY ? 0.0f : max, to = power_of_2(r.max[i] - base);
#pragma unroll
        for (int n = 0; n < tile<D>::KEYS / 8; n++)
#pragma unroll
            for (int e = 2 * i; e < 2 * i + 2; e++) {
                scores[n][e] = power_of_2(scores[n][e] - base);
                sum += scores[n][e];
            }
#pragma unroll
        for (int other = 1; other < 4; other *= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, other);
        if (r.max[i] == -INFINITY) to = 0;
        r.total[i] = fmaf(r.total[i], to, sum);
        r.max[i] = max;
#pragma unroll
        for (int j = 0; j < D / 64; j++)
#pragma unroll
            for (int k = 0; k < 8; k++)
                r.sums[j][k][2 * i] *= to, r.sums[j][k][2 * i + 1] *= to;
    }
}

/* Adds the products of weights and values. A lane reads dims 8g to 8g + 7 of every 64 of keys 2t
 * and 2t + 1, and of those 8 further on: eight products, of which the n-th has dim n of each
 * eight. */
template <int D>
static __device__ inline void add_values(const unsigned char *values, const float (*weights)[4],
                                         lane_rows<D> &r) {
    typedef tile<D> of;
    int g = lane_of_warp() / 4, t = lane_of_warp() % 4;
#pragma unroll
    for (int k = 0; k < of::KEYS / 16; k++) {
        const float *low = weights[2 * k], *high = weights[2 * k + 1];
        uint32_t p0 = f32_to_bf16_pair(low[0], low[1]), p1 = f32_to_bf16_pair(low[2], low[3]);
        uint32_t p2 = f32_to_bf16_pair(high[0], high[1]), p3 = f32_to_bf16_pair(high[2], high[3]);
        const unsigned char *from = values + (k * 16 + 2 * t) * of::V_PITCH + g * 16;
#pragma unroll
        for (int j = 0; j < D / 64; j++) {
            const uint4 v0 = *(const uint4 *)(from + j * 128);
            const uint4 v1 = *(const uint4 *)(from + of::V_PITCH + j * 128);
            const uint4 v8 = *(const uint4 *)(from + 8 * of::V_PITCH + j * 128);
            const uint4 v9 = *(const uint4 *)(from + 9 * of::V_PITCH + j * 128);
            const uint32_t x0[] = {v0.x, v0.y, v0.z, v0.w}, x1[] = {v1.x, v1.y, v1.z, v1.w};
            const uint32_t x8[] = {v8.x, v8.y, v8.z, v8.w}, x9[] = {v9.x, v9.y, v9.z, v9.w};
#pragma unroll
            for (int w = 0; w < 4; w++) {
                mma_bf16(r.sums[j][2 * w], p0, p1, p2, p3, permute_bytes(x0[w], x1[w], 0x5410),
                         permute_bytes(x8[w], x9[w], 0x5410));
                mma_bf16(r.sums[j][2 * w + 1], p0, p1, p2, p3, permute_bytes(x0[w], x1[w], 0x7632),
                         permute_bytes(x8[w], x9[w], 0x7632));
            }
        }
    }
}

template <int D>
static __device__ inline void store_rows(const mc_cuda_attention &a, attend_place p,
                                         const lane_rows<D> &r) {
    int t = lane_of_warp() % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = row_of_lane(i);
        if (row >= p.rows) break;
        i64 h = head_of(a, row), query = first_query(a) + row / a.shared;
        i64 at = (p.b * a.heads + h) * a.queries + query;
        float max = r.max[i] / LOG2_E, total = r.total[i], to;
        add_sink(a, h, &max, &total, &to);
        if (a.lse.is_there && t == 0) ((float *)a.lse.data)[at] = log_of_sum(max, total);
#pragma unroll
        for (int j = 0; j < D / 64; j++)
#pragma unroll
            for (int k = 0; k < 16; k++)
                ((float *)a.out.data)[at * D + j * 64 + t * 16 + k] =
                    result_of(r.sums[j][k % 8][2 * i + k / 8], to, total);
    }
}

template <int D> static __device__ inline void attend(const mc_cuda_attention &a, attend_place p) {
    typedef tile<D> of;
    DYNAMIC_SHARED(shared);
    lane_rows<D> r;
    load_rows<D>(a, p, r);
    i64 end_query = first_query(a) + p.rows / a.shared - 1;
    attend_reach first = reach_of(a, p.b, first_query(a)), end = reach_of(a, p.b, end_query);
    attend_parts parts = find_parts(a, first, end, of::KEYS);
    i64 last = last_key(a, end), now = part_at(parts, 0);
    if (now >= 0) fetch<D>(a, p, now, last, shared);
    for (i64 n = 0; now >= 0; n++) {
        i64 next = part_at(parts, n + 1);
        if (next >= 0)
            fetch<D>(a, p, next, last, shared + (n + 1) % 2 * of::BYTES);
        else
            commit_copies();
        wait_for_copies(1);
        __syncthreads();
        const unsigned char *keys = shared + n % 2 * of::BYTES;
        float scores[of::KEYS / 8][4];
        find_scores<D>(a, keys, r, scores);
        if (!is_whole(a, first, end, now * of::KEYS, (now + 1) * of::KEYS))
            hide<D>(a, now, r, scores);
        weigh<D>(r, scores);
        add_values<D>(keys + of::V_AT, scores, r);
        __syncthreads(); /* the tile is read */
        now = next;
    }
    store_rows<D>(a, p, r);
}

} // namespace tiles_of_keys

/* blockIdx: x queries, y heads of keys, z of the batch. */
KERNEL_OF(mc_attention_tiles, mc_cuda_attention, tiles_of_keys::THREADS) {
    i64 left = a.queries - tiles_of_keys::first_query(a);
    int queries = (int)(left < a.queries_of_block ? left : a.queries_of_block);
    attend_place p = {blockIdx.z, blockIdx.y, queries * a.shared};
    if (blockIdx.x == 0 && blockIdx.y == 0) check_table(a, p.b);
    switch (a.d) {
    case 64:
        return tiles_of_keys::attend<64>(a, p);
    case 128:
        return tiles_of_keys::attend<128>(a, p);
    default:
        return tiles_of_keys::attend<256>(a, p);
    }
}
