/* One row times matrices of codes or of bf16, as a token has them: with the same bits as planes.cu,
 * and with those of the kernels of norms, sums and gates whose work it takes over. A step of
 * decoding waits for its kernels one after the other, so this one reads weights before the row is
 * there, has little code, and all of it in loops: what is executed once is waited for.
 *
 * A tile is 16 rows of a matrix; block b has tiles b, b + gridDim ..., `bunch` of them at a time.
 * The pairs of a tile and a unit are dealt to its warps in equal parts, each of which copies to
 * slots of its own. Of matrices that indices pick, nothing is read before these are there. */
#include "cuda/kern/early.cuh"
#include "cuda/kern/element.cuh"
#include "cuda/kern/gemv.h"
#include "cuda/kern/planes.cuh"

namespace gemv {

using planes::BF16;
using planes::CODES;
using planes::Q4;
using planes::unit_of;

enum {
    WARPS = 8,
    THREADS = WARPS * WARP_LANES,
    TILE = 16,
    PITCH_OF_SCALES = planes::SCALE_PITCH,
    SHIFT = 12, /* where scales that begin anywhere have by how many bits they are shifted */
};

/* Bytes between rows of a slot: lanes that read at once read other banks. */
template <int F> static __device__ inline int pitch_of(const mc_cuda_gemv &a) {
    return F == Q4 ? 256 + 32 : F == BF16 ? 256 + 64 : a.pitch;
}
template <int F> static __device__ inline int unit_bytes_of(const mc_cuda_gemv &a) {
    return F == CODES ? a.unit_bytes : 256;
}
template <int F> static __device__ inline int slot_of(const mc_cuda_gemv &a) {
    return TILE * (pitch_of<F>(a) + (F == BF16 ? 0 : MC_CUDA_GEMV_SCALES));
}

/* What a block has in shared memory behind its slots. K: numbers of all rows of x, in units. */
typedef struct space {
    double *of_warps; /* [32] */
    int2 *picks;      /* [batches] the row of x, and the matrix */
    float *parts;     /* [bunch, units, 16] sums */
    float *x;         /* [K] */
    float *weight;    /* [K] of the norm; where there is none, no memory */
    float *inner;     /* [K] of the inner one; the same */
    int8_t *codes;    /* [2, K] planes of x, or [K] of bf16 */
    float2 *scales;   /* [K / group] */
} space;

/* Of the block. Where there is a gate, tile 2j of it is of the first matrix, 2j + 1 the same of the
 * second. */
static __device__ inline int tiles_of(const mc_cuda_gemv &a) {
    int log = a.gated ? 1 : 0, all = (a.tiles >> log) * a.batches, step = (int)gridDim.x;
    return (all - (int)blockIdx.x + step - 1) / step << log;
}

/* Tile j of the block: its matrix, its first row, and its batch. */
typedef struct tile_at {
    int matrix, row, batch;
} tile_at;

static __device__ inline tile_at find_tile(const mc_cuda_gemv &a, int j) {
    int log = a.gated ? 1 : 0, at = (int)blockIdx.x + (j >> log) * (int)gridDim.x;
    int i = a.n_matrices - 1;
    tile_at p = {0, 0, 0};
    if (a.batches > 1) {
        int all = a.tiles >> log;
        p.batch = at / all;
        at -= p.batch * all;
    }
    if (a.gated) {
        p.matrix = j % 2;
        p.row = at * TILE;
        return p;
    }
#pragma unroll 1
    while (i > 0 && at < a.matrices[i].first_tile)
        i--;
    p.matrix = i;
    p.row = (at - a.matrices[i].first_tile) * TILE;
    return p;
}

/* Where a warp is in its pairs: `left` of them in a bunch, which has `count` tiles from the
 * block's tile `first` on; tile counted from that. */
typedef struct walker {
    int first, count, left, tile, unit;
} walker;

static __device__ inline void enter(const mc_cuda_gemv &a, walker &w, int tiles) {
    w.count = tiles - w.first < a.bunch ? tiles - w.first : a.bunch;
    int pairs = w.count * a.units, warp = warp_of_block(), first = pairs * warp / WARPS;
    w.left = pairs * (warp + 1) / WARPS - first;
    w.tile = first / a.units;
    w.unit = first - w.tile * a.units;
}

static __device__ inline void advance(const mc_cuda_gemv &a, walker &w) {
    w.left--;
    if (++w.unit < a.units) return;
    w.unit = 0;
    w.tile++;
}

/* To the next bunch that has pairs for the warp, or behind the last. */
static __device__ inline void skip_to_pair(const mc_cuda_gemv &a, walker &w, int tiles) {
    while (w.left == 0 && w.first < tiles) {
        w.first += w.count;
        if (w.first < tiles) enter(a, w, tiles);
    }
}

/* A row's scales, or biases, in a unit, of which so many bytes are there. Where they begin anywhere
 * they are copied from the last multiple of four bytes on. */
static __device__ inline void fetch_scales(const mc_cuda_gemv &a, const char *from, int there,
                                           unsigned char *to) {
    if (a.scale_width == 16) return copy_async<16>(to, from, true);
    int shift = a.scale_width == 1 ? (int)((uintptr_t)from & 3) : 0;
    int end = a.scale_width == 1 ? SHIFT : PITCH_OF_SCALES;
    if (a.scale_width == 1) *(uint32_t *)(to + SHIFT) = 8u * (uint32_t)shift;
    from -= shift;
    there += shift;
#pragma unroll 1
    for (int i = 0; i < end; i += 4) {
        int left = there - i;
        copy_word_async(to + i, left > 0 ? from + i : from, left < 0 ? 0 : left > 4 ? 4 : left);
    }
}

/* Starts to copy the next pair, if there is one, to a slot: codes, then a row's scales by each of
 * 16 lanes, and its biases by the others. Behind the last row of a matrix that is copied again. */
template <int F>
static __device__ inline void fetch(const mc_cuda_gemv &a, const space &s, walker &w, int tiles,
                                    unsigned char *slot) {
    if (w.left > 0) {
        int lane = lane_of_warp(), half = lane / 16, piece = lane % 16;
        int unit_bytes = unit_bytes_of<F>(a), pitch = pitch_of<F>(a);
        tile_at p = find_tile(a, w.first + w.tile);
        const mc_cuda_gemv_matrix &m = a.matrices[p.matrix];
        int last = m.n - 1 - p.row;
        int codes_of_row = F == Q4 ? a.k / 2 : F == BF16 ? a.k * 2 : a.k / 8 * a.bits;
        int there = codes_of_row - w.unit * unit_bytes; /* bytes of codes */
        uint32_t stride = (uint32_t)m.code_stride, scale_stride = (uint32_t)m.scale_stride;
        i64 pick = a.rhs.data ? s.picks[p.batch].y : 0;
        const char *codes = (const char *)m.codes + pick * m.code_step + (i64)p.row * stride +
                            w.unit * unit_bytes + piece * 16;
        unsigned char *to = slot + half * pitch + piece * 16;
        if (piece * 16 < unit_bytes)
#pragma unroll
            for (int r = 0; r < TILE; r += 2) {
                int row = r + half < last ? r + half : last;
                copy_async<16>(to + r * pitch, codes + (u64)(uint32_t)row * stride,
                               piece * 16 < there);
            }
        const char *scales = (const char *)(half ? m.biases : m.scales);
        if (F != BF16 && scales) {
            int row = piece < last ? piece : last, skipped = w.unit * a.scale_bytes;
            fetch_scales(a,
                         scales + pick * m.scale_step +
                             (u64)(uint32_t)(p.row + row) * scale_stride + skipped,
                         a.scales_of_row - skipped, slot + TILE * pitch + lane * PITCH_OF_SCALES);
        }
        advance(a, w);
        skip_to_pair(a, w, tiles);
    }
    commit_copies();
}

template <int F>
static __device__ inline void fetch_some(const mc_cuda_gemv &a, const space &s, walker &w,
                                         int tiles, unsigned char *slots, int from, int end) {
#pragma unroll 1
    for (int i = from; i < end; i++)
        fetch<F>(a, s, w, tiles, slots + i * slot_of<F>(a));
}

/* Of a batch; an index that is out of range is told. */
static __device__ inline int picked(const mc_cuda_gemv &a, const mc_cuda_gemv_index &index,
                                    int batch) {
    if (!index.data) return 0;
    int found = __ldcg(index.data + batch * index.stride), i = found;
    if (i < 0 && !index.is_unsigned) i += index.count;
    if (i >= 0 && i < index.count) return i;
    fail(a.fault, MC_CUDA_BAD_INDEX, a.op, 0, found, index.count, 0);
    return 0;
}

static __device__ inline void share_picks(const mc_cuda_gemv &a, const space &s) {
    int batch = (int)threadIdx.x;
    if (batch < a.batches) {
        s.picks[batch].x = a.lhs.data ? picked(a, a.lhs, batch) : batch / a.each;
        s.picks[batch].y = picked(a, a.rhs, batch);
    }
    __syncthreads();
}

/* ---- the row ---- */

/* A norm's weight, which is there before the row is. */
static __device__ inline void share_weight(const mc_cuda_gemv &a, const void *from, int is_bf16,
                                           float *to) {
    int quads = a.k / 4;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < quads; i += THREADS) {
        float4 w;
        if (is_bf16) {
            const uint2 v = ((const uint2 *)from)[i];
            w.x = bits_to_f32(v.x << 16), w.y = bits_to_f32(v.x & 0xffff0000u);
            w.z = bits_to_f32(v.y << 16), w.w = bits_to_f32(v.y & 0xffff0000u);
        } else {
            w = ((const float4 *)from)[i];
        }
        ((float4 *)to)[i] = w;
    }
}

/* The sum of the squares of 32 quads of a row, a lane's each: kern/row.cuh's order. */
static __device__ inline double squares_of(const float4 &x) {
    double sum = (double)x.x * (double)x.x + (double)x.y * (double)x.y + (double)x.z * (double)x.z +
                 (double)x.w * (double)x.w;
#pragma unroll
    for (int half = WARP_LANES / 2; half > 0; half /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, half);
    return sum;
}

/* A row of x, in quads, of which a thread has every THREADSth, MORE of them on their way at once;
 * its octets are others. */
template <int MORE>
static __device__ inline void share_quads(const mc_cuda_gemv &a, const space &s, const float *from,
                                          float *to) {
    int quads = a.k / 4, thread = (int)threadIdx.x;
#pragma unroll 1
    for (int first = 0; first < quads; first += MORE * THREADS) {
        float4 v[MORE];
#pragma unroll
        for (int i = 0; i < MORE; i++) {
            int at = first + i * THREADS + thread;
            v[i] = float4{0, 0, 0, 0};
            if (at < quads) v[i] = __ldcg((const float4 *)from + at);
        }
#pragma unroll
        for (int i = 0; i < MORE; i++) {
            int at = first + i * THREADS + thread;
            if (at < quads) ((float4 *)to)[at] = v[i];
        }
        if (!a.weight && !a.inner_weight) continue;
#pragma unroll
        for (int i = 0; i < MORE; i++) {
            int warp = (first + i * THREADS + thread) / WARP_LANES;
            double squares = squares_of(v[i]);
            if (warp < WARP_LANES) s.of_warps[warp] = squares;
        }
    }
}

/* What the row is multiplied by for its norm: the order of sums is kern/row.cuh's. */
static __device__ inline float scale_of_norm(const mc_cuda_gemv &a, const space &s, double eps) {
    int lane = lane_of_warp();
    double squares = lane < (a.k + 127) / (4 * WARP_LANES) ? s.of_warps[lane] : 0.0;
#pragma unroll
    for (int half = WARP_LANES / 2; half > 0; half /= 2)
        squares += __shfl_xor_sync(0xffffffffu, squares, half);
    return (float)rsqrt(squares / (double)a.k + eps);
}

static __device__ inline float4 scaled(float4 x, float scale, const float4 &w) {
    x.x = x.x * scale * w.x, x.y = x.y * scale * w.y;
    x.z = x.z * scale * w.z, x.w = x.w * scale * w.w;
    return x;
}

/* The row becomes its norm and a sum; of that a norm follows. Returns what it is multiplied by for
 * the first one, and less than 0 but in the block that is last to have read the row. */
static __device__ inline float add_inner(const mc_cuda_gemv &a, const space &s) {
    uint32_t *before = (uint32_t *)s.parts; /* which nothing is in yet */
    int quads = a.k / 4;
    float scale = scale_of_norm(a, s, a.inner_eps);
    __syncthreads(); /* the sums of warps are read */
#pragma unroll 1
    for (int first = 0; first < quads; first += THREADS) {
        int i = first + (int)threadIdx.x;
        float4 sum = {0, 0, 0, 0};
        if (i < quads) {
            const float4 w = ((const float4 *)s.inner)[i],
                         y = __ldcg((const float4 *)a.inner_addend + i);
            float4 x = scaled(((const float4 *)s.x)[i], scale, w);
            sum = float4{y.x + x.x, y.y + x.y, y.z + x.z, y.w + x.w};
            ((float4 *)s.x)[i] = sum;
        }
        double squares = squares_of(sum);
        if (i / WARP_LANES < WARP_LANES) s.of_warps[i / WARP_LANES] = squares;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        *before = atomicAdd(a.done, 1u);
    }
    __syncthreads();
    return *before + 1 == gridDim.x ? scale : -1.0f;
}

/* Writes what add_inner made, where x, and what was added, may lie. */
static __device__ inline void write_inner(const mc_cuda_gemv &a, const space &s, float scale) {
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < a.k / 4; i += THREADS) {
        float4 x = scaled(__ldcg((const float4 *)a.x + i), scale, ((const float4 *)s.inner)[i]);
        if (a.inner_norm) ((float4 *)a.inner_norm)[i] = x;
        if (a.inner_sum) ((float4 *)a.inner_sum)[i] = ((const float4 *)s.x)[i];
    }
    if (threadIdx.x == 0) *a.done = 0;
}

/* Numbers of a row of x, in units. */
template <int F> static __device__ inline int padded_of(const mc_cuda_gemv &a) {
    return a.units * unit_of<F>::COLUMNS;
}

template <int F> static __device__ inline float share_rows(const mc_cuda_gemv &a, const space &s) {
#pragma unroll 1
    for (int row = 0; row < a.x_rows; row++) {
        float *to = s.x + row * padded_of<F>(a);
        const float *from = a.x + row * a.x_stride;
        if (a.k <= 4 * THREADS)
            share_quads<1>(a, s, from, to);
        else
            share_quads<4>(a, s, from, to);
        for (int i = a.k + (int)threadIdx.x; i < padded_of<F>(a); i += THREADS)
            to[i] = 0;
    }
    __syncthreads();
    return a.inner_weight ? add_inner(a, s) : -1.0f;
}

/* An octet's codes of 16 bits with the scale of their group, as planes.cu's to_planes has them. */
template <int GROUP>
static __device__ inline void quantise_octet(int o, const float *x, int plane, int8_t *codes,
                                             float2 *scales) {
    uint32_t largest = 0;
    int32_t sum = 0;
    uint32_t high[2] = {0, 0}, low[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t bits = __float_as_uint(x[i]) & 0x7fffffffu;
        largest = bits > largest ? bits : largest;
    }
#pragma unroll
    for (int other = 1; other < GROUP / 8; other *= 2)
        largest = shuffle_max(largest, other);
    bool finite = largest < 0x7f800000u, none = largest < 0x0d800000u; /* 2^-100 */
    float scale = none ? 0.0f : bits_to_f32(largest) / 32512.0f;
    float inverse = none || !finite ? 0.0f : 1.0f / scale;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int32_t code = finite ? (int32_t)rintf(x[i] * inverse) : 0;
        sum += code;
        low[i % 2] |= ((uint32_t)code & 255u) << (i / 2 * 8);
        high[i % 2] |= ((uint32_t)((code + 128) >> 8) & 255u) << (i / 2 * 8);
    }
#pragma unroll
    for (int other = 1; other < GROUP / 8; other *= 2)
        sum = shuffle_sum(sum, other);
    *(uint2 *)(codes + o * 8) = uint2{high[0], high[1]};
    *(uint2 *)(codes + plane + o * 8) = uint2{low[0], low[1]};
    if (o % (GROUP / 8) != 0) return;
    if (!finite) scale = NAN;
    scales[o / (GROUP / 8)] = float2{scale, scale * (float)sum};
}

static __device__ inline void round_octet(int o, const float *x, int8_t *codes) {
    ((uint4 *)codes)[o] = uint4{f32_to_bf16_pair(x[0], x[1]), f32_to_bf16_pair(x[2], x[3]),
                                f32_to_bf16_pair(x[4], x[5]), f32_to_bf16_pair(x[6], x[7])};
}

/* Planes of x, or of its norm, which the first block may have to write. */
template <int F> static __device__ inline void share_planes(const mc_cuda_gemv &a, const space &s) {
    int all = a.x_rows * padded_of<F>(a);
    float scale = a.weight ? scale_of_norm(a, s, a.eps) : 1.0f;
#pragma unroll 1
    for (int o = (int)threadIdx.x; o < all / 8; o += THREADS) {
        float x[8];
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] = s.x[o * 8 + i];
        bool there = o * 8 < a.k;
        if (a.weight && there)
#pragma unroll
            for (int i = 0; i < 8; i++)
                x[i] = x[i] * scale * s.weight[o * 8 + i];
        if (a.written && there && blockIdx.x == 0) {
            ((float4 *)a.written)[2 * o] = float4{x[0], x[1], x[2], x[3]};
            ((float4 *)a.written)[2 * o + 1] = float4{x[4], x[5], x[6], x[7]};
        }
        if (F == BF16)
            round_octet(o, x, s.codes);
        else
            quantise_octet<unit_of<F>::GROUP>(o, x, all, s.codes, s.scales);
    }
    __syncthreads();
}

/* ---- products ---- */

/* Adds what a group's integer sums d, as mma has them, are worth to sums of rows g and g + 8. */
static __device__ inline void add_group(const int32_t *d, float2 sx, const float (*by)[4],
                                        const float (*more)[4], int q, float *sums) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float sum = planes::joined<2>(magic_sum(d[2 * i]), magic_sum(d[2 * i + 1]), 0);
        sums[i] = fmaf(by[i][q] * sx.x, sum, fmaf(more[i][q], sx.y, sums[i]));
    }
}

/* Sums of a unit of rows g and g + 8 of a tile; all lanes of a row have the same. x: the unit in
 * the planes of its row; x_scales: of its groups. */
static __device__ inline void multiply_q4(const mc_cuda_gemv &a, const uint8_t *slot,
                                          const int8_t *x, const float2 *x_scales, float *sums) {
    enum { PITCH = 256 + 32 };
    int g = lane_of_warp() / 4, t = lane_of_warp() % 4;
    const uint8_t *w = slot + g * PITCH + t * 8;
    const uint8_t *scales = slot + TILE * PITCH + g * PITCH_OF_SCALES;
    const uint8_t *biases = scales + TILE * PITCH_OF_SCALES;
    x += t * 16;
#pragma unroll 1
    for (int h = 0; h < 2; h++) {
        float by[2][4], more[2][4];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint2 u = *(const uint2 *)(scales + 8 * i * PITCH_OF_SCALES + h * 8);
            const uint2 v = *(const uint2 *)(biases + 8 * i * PITCH_OF_SCALES + h * 8);
            planes::widen4(u.x, u.y, a.scale_is_f16, by[i]);
            planes::widen4(v.x, v.y, a.scale_is_f16, more[i]);
        }
#pragma unroll
        for (int q = 0; q < 4; q++) {
            int j = 4 * h + q;
            const uint2 u = *(const uint2 *)(w + j * 32);
            const uint2 v = *(const uint2 *)(w + 8 * PITCH + j * 32);
            const uint4 b = *(const uint4 *)(x + j * 64);
            int32_t d[4] = {MAGIC_BITS, MAGIC_BITS, MAGIC_BITS, MAGIC_BITS};
            planes::octet u0 = planes::octet_of_q4(u.x), v0 = planes::octet_of_q4(v.x);
            planes::octet u1 = planes::octet_of_q4(u.y), v1 = planes::octet_of_q4(v.y);
            mma_u8_s8(d, u0.even, v0.even, u0.odd, v0.odd, b.x, b.y);
            mma_u8_s8(d, u1.even, v1.even, u1.odd, v1.odd, b.z, b.w);
            add_group(d, x_scales[j], by, more, q, sums);
        }
    }
}

/* 16 bytes of scales, from where they begin on. */
static __device__ inline uint4 scales_at(const mc_cuda_gemv &a, const uint8_t *at) {
    uint4 v = *(const uint4 *)at;
    uint32_t down = v.w & 31;
    if (a.scale_width != 1 || down == 0) return v;
    v.x = v.x >> down | v.y << (32 - down);
    v.y = v.y >> down | v.z << (32 - down);
    return v;
}

static __device__ inline void multiply_codes(const mc_cuda_gemv &a, const uint8_t *slot,
                                             const int8_t *x, const float2 *x_scales, float *sums) {
    int g = lane_of_warp() / 4, t = lane_of_warp() % 4, pitch = a.pitch;
    const uint8_t *w = slot + g * pitch + t * a.bits;
    const uint8_t *scales = slot + TILE * pitch + g * PITCH_OF_SCALES;
    const uint8_t *biases = scales + TILE * PITCH_OF_SCALES;
    x += t * 8;
#pragma unroll 1
    for (int h = 0; h < 2; h++) {
        float by[2][4], more[2][4];
#pragma unroll
        for (int i = 0; i < 2; i++)
            planes::scales_of<false>(a, scales_at(a, scales + 8 * i * PITCH_OF_SCALES),
                                     scales_at(a, biases + 8 * i * PITCH_OF_SCALES), h, by[i],
                                     more[i]);
#pragma unroll
        for (int q = 0; q < 4; q++) {
            int j = 4 * h + q;
            const uint2 b = *(const uint2 *)(x + j * 32);
            int32_t d[4] = {MAGIC_BITS, MAGIC_BITS, MAGIC_BITS, MAGIC_BITS};
            planes::octet u = planes::octet_at(a, w + j * 4 * a.bits);
            planes::octet v = planes::octet_at(a, w + 8 * pitch + j * 4 * a.bits);
            mma_u8_s8(d, u.even, v.even, u.odd, v.odd, b.x, b.y);
            add_group(d, x_scales[j], by, more, q, sums);
        }
    }
}

static __device__ inline void multiply_bf16(const uint8_t *slot, const int8_t *x, float *sums) {
    enum { PITCH = 256 + 64 };
    int g = lane_of_warp() / 4, t = lane_of_warp() % 4;
    const uint8_t *w = slot + g * PITCH + t * 16;
    float d[4] = {0};
    x += t * 16;
#pragma unroll
    for (int j = 0; j < unit_of<BF16>::GROUPS; j++) {
        const uint4 u = *(const uint4 *)(w + j * 64), b = *(const uint4 *)(x + j * 64);
        const uint4 v = *(const uint4 *)(w + 8 * PITCH + j * 64);
        mma_bf16(d, u.x, v.x, u.y, v.y, b.x, b.y);
        mma_bf16(d, u.z, v.z, u.w, v.w, b.z, b.w);
    }
    sums[0] = d[0], sums[1] = d[2];
}

/* Of a unit, and the row of x of the tile's batch. */
template <int F>
static __device__ inline void multiply(const mc_cuda_gemv &a, const uint8_t *slot, const space &s,
                                       const walker &at, float *sums) {
    int first = at.unit * unit_of<F>::COLUMNS, plane = lane_of_warp() / 4 % 2;
    if (a.x_rows > 1) first += s.picks[find_tile(a, at.first + at.tile).batch].x * padded_of<F>(a);
    const int8_t *x =
        s.codes + (F == BF16 ? 2 * first : first + plane * a.x_rows * padded_of<F>(a));
    const float2 *x_scales = s.scales + first / unit_of<F>::GROUP;
    sums[0] = sums[1] = 0;
    if (F == Q4)
        multiply_q4(a, slot, x, x_scales, sums);
    else if (F == CODES)
        multiply_codes(a, slot, x, x_scales, sums);
    else
        multiply_bf16(slot, x, sums);
}

/* ---- results ---- */

/* A row's sum: that of its units, one after the other. */
static __device__ inline float sum_of(const mc_cuda_gemv &a, const float *parts, int tile,
                                      int row) {
    const float *part = parts + tile * a.units * TILE + row;
    float sum = 0;
#pragma unroll 4
    for (int unit = 0; unit < a.units; unit++)
        sum += part[unit * TILE];
    return sum;
}

/* The results of a bunch. */
static __device__ inline void finish(const mc_cuda_gemv &a, const float *parts, const walker &at) {
    int log = a.gated ? 1 : 0;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < (at.count >> log) * TILE; i += THREADS) {
        int tile = i / TILE << log;
        tile_at p = find_tile(a, at.first + tile);
        const mc_cuda_gemv_matrix &m = a.matrices[p.matrix];
        int row = p.row + i % TILE;
        if (row >= m.n) continue;
        float sum = sum_of(a, parts, tile, i % TILE);
        row += p.batch * m.n;
        m.out[row] = sum;
        if (a.sum) a.sum[row] = a.addend[row] + sum;
        if (!a.gated) continue;
        float y = sum_of(a, parts, tile + 1, i % TILE);
        float gate = a.is_gelu ? of_floats(ELEMENT_GELU_APPROX, sum, 0.0f)
                               : of_floats(ELEMENT_SILU, sum, 0.0f);
        a.matrices[1].out[row] = y;
        a.gate[row] = gate;
        a.gated[row] = gate * y;
    }
}

/* Products of all tiles of the block. */
template <int F>
static __device__ inline void multiply_tiles(const mc_cuda_gemv &a, const space &s, walker &at,
                                             walker &ahead, int tiles, unsigned char *slots) {
    int g = lane_of_warp() / 4, t = lane_of_warp() % 4, slot = 0;
#pragma unroll 1
    while (at.first < tiles) {
#pragma unroll 1
        while (at.left > 0) {
            float sums[2];
            wait_for_copies(a.stages - 1);
            sync_warp();
            multiply<F>(a, slots + slot * slot_of<F>(a), s, at, sums);
            float *to = s.parts + (at.tile * a.units + at.unit) * TILE + g;
            if (t == 0) to[0] = sums[0], to[8] = sums[1];
            sync_warp(); /* all have read the slot */
            fetch<F>(a, s, ahead, tiles, slots + slot * slot_of<F>(a));
            slot = slot + 1 == a.stages ? 0 : slot + 1;
            advance(a, at);
        }
        __syncthreads();
        finish(a, s.parts, at);
        at.first += at.count;
        if (at.first >= tiles) break;
        __syncthreads(); /* the parts are read */
        enter(a, at, tiles);
    }
}

template <int F> static __device__ inline void run(const mc_cuda_gemv &a, unsigned char *shared) {
    int k = a.x_rows * padded_of<F>(a), tiles = tiles_of(a);
    unsigned char *slots = shared + warp_of_block() * a.stages * slot_of<F>(a);
    space s;
    s.of_warps = (double *)(shared + WARPS * a.stages * slot_of<F>(a));
    s.picks = (int2 *)(s.of_warps + WARP_LANES);
    s.x = (float *)(s.picks + MC_CUDA_GEMV_BATCHES);
    s.codes = (int8_t *)(s.x + k);
    s.scales = (float2 *)(s.codes + 2 * k);
    s.weight = (float *)(s.scales + (F == BF16 ? 0 : k / unit_of<F>::GROUP));
    s.inner = s.weight + (a.weight ? k : 0);
    s.parts = s.inner + (a.inner_weight ? k : 0);
    walker at = {0, 0, 0, 0, 0}, ahead;
    enter(a, at, tiles);
    ahead = at;
    skip_to_pair(a, ahead, tiles);
    let_next_begin();
    fetch_some<F>(a, s, ahead, tiles, slots, 0, a.early_stages);
    if (a.weight) share_weight(a, a.weight, a.weight_is_bf16, s.weight);
    if (a.inner_weight) share_weight(a, a.inner_weight, a.inner_is_bf16, s.inner);
    wait_for_last();
    if (a.rhs.data) share_picks(a, s);
    float inner_scale = share_rows<F>(a, s);
    fetch_some<F>(a, s, ahead, tiles, slots, a.early_stages, a.stages);
    share_planes<F>(a, s);
    multiply_tiles<F>(a, s, at, ahead, tiles, slots);
    if (inner_scale >= 0.0f || inner_scale != inner_scale) write_inner(a, s, inner_scale);
}

} // namespace gemv

#define GEMV_KERNEL(name, FORMAT)                  \
    KERNEL_OF(name, mc_cuda_gemv, gemv::THREADS) { \
        DYNAMIC_SHARED(shared);                    \
        gemv::run<planes::FORMAT>(a, shared);      \
    }
GEMV_KERNEL(mc_gemv_q4, Q4)
GEMV_KERNEL(mc_gemv_codes, CODES)
GEMV_KERNEL(mc_gemv_bf16, BF16)
