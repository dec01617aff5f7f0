/* The gradient of attention, on tensor cores (Dao 2023, arXiv:2307.08691, section 3.1). A block has
 * rows of its own, 16 a warp, and goes over tiles of others: queries over keys for dq, then keys
 * over queries, of all heads that share them, for dk and dv. What is multiplied is rounded to bf16,
 * or split into three such terms, of which the products of the small ones are left out; sums are of
 * f32.
 *
 *      p = 2^(s - lse), with scores s times log2 e
 *      ds = p (dp - less) scale, where less = sum(p dp) - dlse, and with a cap * (1 - tanh^2)
 *      dq = ds k, dk = ds^T q, dv = p^T dy */
#include "cuda/kern/attention.cuh"
#include "cuda/kern/attention_back.h"
#include "cuda/kern/warp.cuh"

namespace back {

#define LOG2_E 1.4426950408889634f

/* Tiles in shared memory: rows of D numbers of bf16, then those of the next terms. Pitches let
 * lanes read other banks. */
template <int D, int TERMS> struct tiles {
    enum {
        OWN = MC_CUDA_BACK_OWN(TERMS),
        OTHERS = MC_CUDA_BACK_OTHERS(TERMS),
        THREADS = OWN * 2,
        PITCH = MC_CUDA_BACK_PITCH(D),
        OWN_TERM = OWN * PITCH,
        OTHER_TERM = OTHERS * PITCH,
        Y = OWN_TERM * TERMS, /* where the second of two own tiles is; of others: */
        OTHER_Y = OTHER_TERM * TERMS,
        OTHER_AT = 2 * Y,
        ROWS_AT = OTHER_AT + 2 * OTHER_Y /* lse and less of others that are queries */
    };
};

/* Rows of f32 in memory: `count` of d numbers, whose strides these are. */
typedef struct rows_of_f32 {
    const float *from;
    i64 count, d, row, column;
} rows_of_f32;

/* From a row on, of a head. */
static __device__ inline rows_of_f32 rows_from(const mc_cuda_view &x, i64 b, i64 h, i64 first,
                                               i64 count, i64 d) {
    const float *from =
        (const float *)data_of(x) + b * x.strides[0] + h * x.strides[1] + first * x.strides[2];
    rows_of_f32 rows = {from, count - first, d, x.strides[2], x.strides[3]};
    return rows;
}

/* Two numbers rounded to bf16, which are taken from them. */
static __device__ inline uint32_t take_term(float &x, float &y) {
    uint32_t pair = f32_to_bf16_pair(x, y);
    x -= bits_to_f32(pair << 16);
    y -= bits_to_f32(pair & 0xffff0000u);
    return pair;
}

/* Copies them to a tile of `all` rows; what is not there becomes 0. */
template <int D, int TERMS>
static __device__ inline void load_tile(unsigned char *to, int term_bytes, int all,
                                        rows_of_f32 rows) {
    enum { PIECES = D / 4 };
    bool wide = rows.column == 1 && ((uintptr_t)rows.from | (uintptr_t)(rows.row * 4)) % 16 == 0 &&
                rows.d % 4 == 0;
    for (int i = (int)threadIdx.x; i < all * PIECES; i += tiles<D, TERMS>::THREADS) {
        int row = i / PIECES, column = i % PIECES * 4;
        const float *from = rows.from + row * rows.row + column * rows.column;
        int there = row < rows.count ? (int)(rows.d - column) : 0;
        float4 x = {0, 0, 0, 0};
        if (wide && there > 0) {
            x = *(const float4 *)from;
        } else {
            if (there > 0) x.x = from[0];
            if (there > 1) x.y = from[rows.column];
            if (there > 2) x.z = from[2 * rows.column];
            if (there > 3) x.w = from[3 * rows.column];
        }
        unsigned char *at = to + row * tiles<D, TERMS>::PITCH + column * 2;
#pragma unroll
        for (int n = 0; n < TERMS; n++) {
            uint2 term = {take_term(x.x, x.y), take_term(x.z, x.w)};
            *(uint2 *)(at + n * term_bytes) = term;
        }
    }
}

/* What a lane gives to products: of 16 rows and 16 columns, and of 8. */
template <int TERMS> struct sixteen { uint32_t of[TERMS][4]; };
template <int TERMS> struct eight { uint32_t of[TERMS][2]; };

/* Tensor cores cut off what is far below a sum: so several terms are added up apart, the products
 * of the smallest first, and then to the sum. */
template <int TERMS>
static __device__ inline void multiply(float *d, const sixteen<TERMS> &a, const eight<TERMS> &b) {
    float apart[4] = {0, 0, 0, 0};
    float *to = TERMS == 1 ? d : apart;
#pragma unroll
    for (int both = TERMS - 1; both >= 0; both--)
#pragma unroll
        for (int i = both; i >= 0; i--) {
            const uint32_t *x = a.of[i], *y = b.of[both - i];
            mma_bf16(to, x[0], x[1], x[2], x[3], y[0], y[1]);
        }
    if (TERMS == 1) return;
#pragma unroll
    for (int e = 0; e < 4; e++)
        d[e] += apart[e];
}

static __device__ inline uint32_t word_at(const unsigned char *from) {
    return *(const uint32_t *)from;
}

/* out [OTHERS / 8][4] = x y^T, of the warp's 16 own rows x and rows y of a tile of others. */
template <int D, int TERMS>
static __device__ inline void multiply_rows(const unsigned char *x, const unsigned char *y,
                                            float (*out)[4]) {
    typedef tiles<D, TERMS> of;
    int g = lane_of_warp() / 4, t = lane_of_warp() % 4;
    x += (warp_of_block() * 16 + g) * of::PITCH + t * 4;
    y += g * of::PITCH + t * 4;
#pragma unroll
    for (int n = 0; n < of::OTHERS / 8; n++)
        out[n][0] = out[n][1] = out[n][2] = out[n][3] = 0;
#pragma unroll 2
    for (int k = 0; k < D / 16; k++) {
        sixteen<TERMS> a;
#pragma unroll
        for (int i = 0; i < TERMS; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                a.of[i][e] =
                    word_at(x + i * of::OWN_TERM + e % 2 * 8 * of::PITCH + e / 2 * 16 + k * 32);
#pragma unroll
        for (int n = 0; n < of::OTHERS / 8; n++) {
            eight<TERMS> b;
#pragma unroll
            for (int i = 0; i < TERMS; i++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    b.of[i][e] =
                        word_at(y + i * of::OTHER_TERM + n * 8 * of::PITCH + e * 16 + k * 32);
            multiply<TERMS>(out[n], a, b);
        }
    }
}

/* Sums of a lane's rows g and g + 8: dims 16t to 16t + 15 of every 64. */
template <int D> struct sums { float of[D / 64][8][4]; };

template <int D> static __device__ inline void clear(sums<D> &s) {
#pragma unroll
    for (int j = 0; j < D / 64; j++)
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s.of[j][n][e] = 0;
}

/* Numbers of 16 rows and 16 columns, as products have them, as what is multiplied. */
template <int TERMS>
static __device__ inline sixteen<TERMS> split(const float *low, const float *high) {
    sixteen<TERMS> a;
    const float *from[2] = {low, high};
#pragma unroll
    for (int e = 0; e < 4; e++) {
        float x = from[e / 2][e % 2 * 2], y = from[e / 2][e % 2 * 2 + 1];
#pragma unroll
        for (int n = 0; n < TERMS; n++)
            a.of[n][e] = take_term(x, y);
    }
    return a;
}

/* to += w y, of numbers w [16, OTHERS] of the warp and rows y of a tile of others. A lane reads
 * dims 8g to 8g + 7 of every 64 of rows 2t, 2t + 1, and of those 8 further on: eight products, of
 * which the n-th has dim n of each eight. */
template <int D, int TERMS>
static __device__ inline void add_rows(const float (*w)[4], const unsigned char *y, sums<D> &to) {
    typedef tiles<D, TERMS> of;
    int g = lane_of_warp() / 4, t = lane_of_warp() % 4;
    y += 2 * t * of::PITCH + g * 16;
#pragma unroll
    for (int k = 0; k < of::OTHERS / 16; k++) {
        sixteen<TERMS> a = split<TERMS>(w[2 * k], w[2 * k + 1]);
        const unsigned char *from = y + k * 16 * of::PITCH;
#pragma unroll
        for (int j = 0; j < D / 64; j++) {
            uint32_t x[TERMS][4][4];
#pragma unroll
            for (int i = 0; i < TERMS; i++)
#pragma unroll
                for (int r = 0; r < 4; r++) {
                    const uint4 v = *(const uint4 *)(from + i * of::OTHER_TERM +
                                                     (r % 2 + r / 2 * 8) * of::PITCH + j * 128);
                    x[i][r][0] = v.x, x[i][r][1] = v.y, x[i][r][2] = v.z, x[i][r][3] = v.w;
                }
#pragma unroll
            for (int n = 0; n < 8; n++) {
                eight<TERMS> b;
#pragma unroll
                for (int i = 0; i < TERMS; i++)
#pragma unroll
                    for (int e = 0; e < 2; e++)
                        b.of[i][e] = permute_bytes(x[i][2 * e][n / 2], x[i][2 * e + 1][n / 2],
                                                   n % 2 ? 0x7632 : 0x5410);
                multiply<TERMS>(to.of[j][n], a, b);
            }
        }
    }
}

/* Rows of the warp to memory: dense, of d numbers. */
template <int D>
static __device__ inline void store_rows(float *to, const sums<D> &s, i64 count, i64 d) {
    int g = lane_of_warp() / 4, t = lane_of_warp() % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = warp_of_block() * 16 + g + 8 * i;
        if (row >= count) break;
#pragma unroll
        for (int j = 0; j < D / 64; j++)
#pragma unroll
            for (int k = 0; k < 16; k++) {
                int dim = j * 64 + t * 16 + k;
                if (dim < d) to[row * d + dim] = s.of[j][k % 8][2 * i + k / 8];
            }
    }
}

/* A product of a query and a key as a score times log2 e; *slope: the score's by the product. */
static __device__ inline float score_of(const mc_cuda_attention &a, float product, float *slope) {
    *slope = a.scale;
    if (a.softcap == 0) return product * (a.scale * LOG2_E);
    float capped = tanhf(product * (a.scale / a.softcap));
    *slope = a.scale * (1 - capped * capped);
    return a.softcap * LOG2_E * capped;
}

/* ---- dq: queries over keys ---- */

/* What a lane has of its rows g and g + 8; lse times log2 e. */
typedef struct lane_rows {
    attend_reach reach[2];
    float max[2], total[2], product[2]; /* of what was seen so far; product: the sum of p dp */
    float lse[2], less[2];
} lane_rows;

/* seen: keys up to the last one that is seen. Behind it nobody may have written. */
template <int D, int TERMS>
static __device__ inline void load_keys(const mc_cuda_attention &a, i64 kv, i64 first, i64 seen,
                                        unsigned char *to) {
    typedef tiles<D, TERMS> of;
    i64 b = blockIdx.z;
    load_tile<D, TERMS>(to, of::OTHER_TERM, of::OTHERS, rows_from(a.k, b, kv, first, seen, a.d));
    load_tile<D, TERMS>(to + of::OTHER_Y, of::OTHER_TERM, of::OTHERS,
                        rows_from(a.v, b, kv, first, seen, a.d));
}

/* Adds a tile's weights, and their products with dp, to those so far. */
template <int N>
static __device__ inline void weigh(const mc_cuda_attention &a, lane_rows &r, i64 first, bool whole,
                                    float (*s)[4], const float (*dp)[4]) {
    i64 t = first + lane_of_warp() % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float max = r.max[i], slope, sum = 0, product = 0;
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &x = s[n][2 * i + e];
                bool seen = whole || is_seen(a, r.reach[i], t + n * 8 + e);
                x = seen ? score_of(a, x, &slope) : -INFINITY;
                max = x > max ? x : max;
            }
#pragma unroll
        for (int other = 1; other < 4; other *= 2) {
            float theirs = __shfl_xor_sync(0xffffffffu, max, other);
            max = theirs > max ? theirs : max;
        }
        float base = max == -INFINITY ? 0.0f : max;
        float to = r.max[i] == -INFINITY ? 0.0f : power_of_2(r.max[i] - base);
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float p = power_of_2(s[n][2 * i + e] - base);
                sum += p;
                product = fmaf(p, p > 0 ? dp[n][2 * i + e] : 0.0f, product);
            }
#pragma unroll
        for (int other = 1; other < 4; other *= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, other);
            product += __shfl_xor_sync(0xffffffffu, product, other);
        }
        r.total[i] = fmaf(r.total[i], to, sum);
        r.product[i] = fmaf(r.product[i], to, product);
        r.max[i] = max;
    }
}

/* lse and less, for the keys' blocks, too. */
static __device__ inline void end_rows(const mc_cuda_attention_back &a, lane_rows &r, i64 head,
                                       i64 first, i64 count) {
    const mc_cuda_attention &o = a.attention;
    i64 b = blockIdx.z;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = warp_of_block() * 16 + lane_of_warp() / 4 + 8 * i;
        float max = r.max[i] / LOG2_E, total = r.total[i], to;
        add_sink(o, head, &max, &total, &to);
        r.lse[i] = total != 0 ? (max + logf(total)) * LOG2_E : INFINITY;
        r.less[i] = total != 0 ? r.product[i] * to / total : 0.0f;
        if (row >= count) continue;
        i64 at = (b * o.heads + head) * o.queries + first + row;
        if (a.dlse.is_there)
            r.less[i] -= load_f32(a.dlse.dtype, data_of(a.dlse),
                                  b * a.dlse.strides[0] + head * a.dlse.strides[1] +
                                      (first + row) * a.dlse.strides[2]);
        if (lane_of_warp() % 4 == 0) a.rows[2 * at] = r.lse[i], a.rows[2 * at + 1] = r.less[i];
    }
}

/* Products become ds. */
template <int N>
static __device__ inline void differentiate(const mc_cuda_attention &a, const lane_rows &r,
                                            i64 first, bool whole, float (*s)[4],
                                            const float (*dp)[4]) {
    i64 t = first + lane_of_warp() % 4 * 2;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float slope, score = score_of(a, s[n][e], &slope);
            bool seen = whole || is_seen(a, r.reach[e / 2], t + n * 8 + e % 2);
            float p = seen ? power_of_2(score - r.lse[e / 2]) : 0.0f;
            s[n][e] = p > 0 ? p * (dp[n][e] - r.less[e / 2]) * slope : p;
        }
}

template <int D, int TERMS>
static __device__ inline void find_dq(const mc_cuda_attention_back &all) {
    typedef tiles<D, TERMS> of;
    enum { N = of::OTHERS / 8 };
    DYNAMIC_SHARED(shared);
    const mc_cuda_attention &a = all.attention;
    i64 b = blockIdx.z, head = blockIdx.y, kv = head / (a.heads / a.kv_heads);
    i64 first = (i64)blockIdx.x * of::OWN, left = a.queries - first,
        count = left < of::OWN ? left : of::OWN;
    unsigned char *keys = shared + of::OTHER_AT, *values = keys + of::OTHER_Y;
    load_tile<D, TERMS>(shared, of::OWN_TERM, of::OWN,
                        rows_from(a.q, b, head, first, a.queries, a.d));
    load_tile<D, TERMS>(shared + of::Y, of::OWN_TERM, of::OWN,
                        rows_from(all.dy, b, head, first, a.queries, a.d));
    lane_rows r;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r.reach[i] = reach_of(a, b, first + warp_of_block() * 16 + lane_of_warp() / 4 + 8 * i);
        r.max[i] = -INFINITY;
        r.total[i] = r.product[i] = r.lse[i] = r.less[i] = 0;
    }
    attend_reach begin = reach_of(a, b, first), end = reach_of(a, b, first + count - 1);
    attend_parts parts = find_parts(a, begin, end, of::OTHERS);
    i64 keys_seen = last_key(a, end) + 1;
    sums<D> dq;
    clear<D>(dq);
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
#pragma unroll 1
        for (i64 i = 0, part; (part = part_at(parts, i)) >= 0; i++) {
            i64 key = part * of::OTHERS;
            bool whole = is_whole(a, begin, end, key, key + of::OTHERS);
            float s[N][4], dp[N][4];
            __syncthreads(); /* the last tile is read */
            load_keys<D, TERMS>(a, kv, key, keys_seen, keys);
            __syncthreads();
            multiply_rows<D, TERMS>(shared, keys, s);
            multiply_rows<D, TERMS>(shared + of::Y, values, dp);
            if (pass == 0) {
                weigh<N>(a, r, key, whole, s, dp);
            } else {
                differentiate<N>(a, r, key, whole, s, dp);
                add_rows<D, TERMS>(s, keys, dq);
            }
        }
        if (pass == 0) end_rows(all, r, head, first, count);
    }
    store_rows<D>(all.dq + ((b * a.heads + head) * a.queries + first) * a.d, dq, count, a.d);
}

/* ---- dk, dv: keys over queries ---- */

/* Queries [first, end) may see keys [key, key + keys). */
static __device__ inline void find_queries(const mc_cuda_attention &a, i64 offset, i64 key,
                                           int keys, i64 *first, i64 *end) {
    *first = 0;
    *end = a.queries;
    if (!a.causal) return;
    if (key - offset > 0) *first = key - offset;
    i64 seen = key + keys - 1 + a.window - offset;
    if (a.window > 0 && key >= a.keep && seen < *end) *end = seen;
}

template <int D, int TERMS>
static __device__ inline void find_dkv(const mc_cuda_attention_back &all) {
    typedef tiles<D, TERMS> of;
    enum { N = of::OTHERS / 8 };
    DYNAMIC_SHARED(shared);
    const mc_cuda_attention &a = all.attention;
    i64 b = blockIdx.z, kv = blockIdx.y, sharing = a.heads / a.kv_heads, begin, end;
    i64 first = (i64)blockIdx.x * of::OWN, left = a.keys - first,
        count = left < of::OWN ? left : of::OWN;
    unsigned char *queries = shared + of::OTHER_AT, *dy = queries + of::OTHER_Y;
    float *rows = (float *)(shared + of::ROWS_AT);
    load_tile<D, TERMS>(shared, of::OWN_TERM, of::OWN, rows_from(a.k, b, kv, first, a.keys, a.d));
    load_tile<D, TERMS>(shared + of::Y, of::OWN_TERM, of::OWN,
                        rows_from(a.v, b, kv, first, a.keys, a.d));
    i64 offset = reach_of(a, b, 0).position;
    find_queries(a, offset, first, of::OWN, &begin, &end);
    i64 key = first + warp_of_block() * 16 + lane_of_warp() / 4;
    int t = lane_of_warp() % 4;
    sums<D> dk, dv;
    clear<D>(dk);
    clear<D>(dv);
#pragma unroll 1
    for (i64 head = kv * sharing; head < (kv + 1) * sharing; head++)
#pragma unroll 1
        for (i64 q0 = begin / of::OTHERS * of::OTHERS; q0 < end; q0 += of::OTHERS) {
            float p[N][4], ds[N][4];
            i64 position = q0 + offset;
            bool whole = is_whole(a, reach_from(a, position),
                                  reach_from(a, position + of::OTHERS - 1), first, first + of::OWN);
            i64 there = a.queries - q0, at = (b * a.heads + head) * a.queries + q0;
            __syncthreads(); /* the last tile is read */
            load_tile<D, TERMS>(queries, of::OTHER_TERM, of::OTHERS,
                                rows_from(a.q, b, head, q0, a.queries, a.d));
            load_tile<D, TERMS>(dy, of::OTHER_TERM, of::OTHERS,
                                rows_from(all.dy, b, head, q0, a.queries, a.d));
            for (int i = (int)threadIdx.x; i < 2 * of::OTHERS; i += of::THREADS)
                rows[i] = i / 2 < there ? all.rows[2 * at + i] : INFINITY;
            __syncthreads();
            multiply_rows<D, TERMS>(shared, queries, p);
            multiply_rows<D, TERMS>(shared + of::Y, dy, ds);
#pragma unroll
            for (int n = 0; n < N; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    int query = n * 8 + 2 * t + e % 2;
                    attend_reach reach = reach_from(a, position + query);
                    float slope, score = score_of(a, p[n][e], &slope);
                    bool seen = query < there && (whole || is_seen(a, reach, key + e / 2 * 8));
                    float w = seen ? power_of_2(score - rows[2 * query]) : 0.0f;
                    ds[n][e] = w > 0 ? w * (ds[n][e] - rows[2 * query + 1]) * slope : w;
                    p[n][e] = w;
                }
            add_rows<D, TERMS>(p, dy, dv);
            add_rows<D, TERMS>(ds, queries, dk);
        }
    i64 out = ((b * a.kv_heads + kv) * a.keys + first) * a.d;
    store_rows<D>(all.dk + out, dk, count, a.d);
    store_rows<D>(all.dv + out, dv, count, a.d);
}

} // namespace back

/* blockIdx: x queries, or keys, y heads, or those of keys, z of the batch. */
#define BACK_KERNEL(name, find, D, TERMS)                                       \
    KERNEL_OF(name, mc_cuda_attention_back, (back::tiles<D, TERMS>::THREADS)) { \
        back::find<D, TERMS>(a);                                                \
    }
BACK_KERNEL(mc_attention_dq_64, find_dq, 64, 1)
BACK_KERNEL(mc_attention_dq_128, find_dq, 128, 1)
BACK_KERNEL(mc_attention_dq_64_exact, find_dq, 64, 3)
BACK_KERNEL(mc_attention_dq_128_exact, find_dq, 128, 3)
BACK_KERNEL(mc_attention_dkv_64, find_dkv, 64, 1)
BACK_KERNEL(mc_attention_dkv_128, find_dkv, 128, 1)
BACK_KERNEL(mc_attention_dkv_64_exact, find_dkv, 64, 3)
BACK_KERNEL(mc_attention_dkv_128_exact, find_dkv, 128, 3)
