/* Products of many rows of activations, as planes: see planes.cuh. A block has a tile of the
 * product: rows of a matrix by rows of x. Codes, planes and scales of two groups are copied to
 * shared memory while those before are multiplied. Where batches of one row pick matrices, those
 * that pick the same one are rows of a tile, wherever they lie. */
#include "cuda/kern/planes.cuh"

namespace tiles {

using namespace planes;

enum { THREADS = 256, WARPS = THREADS / WARP_LANES, STEP_GROUPS = 2 };

/* MT, NT: 16 weight rows and 8 rows of x of a warp; WW: warps along the weight rows. */
template <int FORMAT, int PLANES, int MT, int NT, int WW> struct tile_of {
    enum {
        GROUP = unit_of<FORMAT>::GROUP,
        STEPS = unit_of<FORMAT>::GROUPS / STEP_GROUPS, /* of a unit */
        W_ROWS = WW * MT * 16,
        X_ROWS = WARPS / WW * NT * 8,
        X_OF_ROW = unit_of<FORMAT>::X_BYTES,
        X_BYTES = X_ROWS * X_OF_ROW, /* of a group and a plane */
        SUMS = FORMAT == BF16 ? 0 : X_ROWS * STEP_GROUPS * 8,
        SCALES = FORMAT == BF16 ? 0 : W_ROWS * SCALE_PITCH * 2 /* of a unit */
    };
};

template <int FORMAT> static __device__ inline int code_bytes(const mc_cuda_planes_matmul &a) {
    return unit_of<FORMAT>::GROUP / 8 * bits_of<FORMAT>(a); /* of a group */
}

template <typename OF, int FORMAT, int PLANES>
static __device__ inline int stage_bytes(const mc_cuda_planes_matmul &a) {
    return STEP_GROUPS * (OF::W_ROWS * code_bytes<FORMAT>(a) + PLANES * OF::X_BYTES) + OF::SUMS;
}

/* What a block multiplies. */
typedef struct operands {
    const char *codes, *scales, *biases;
    i64 w_rows, x_first, x_rows; /* that exist of the tile; x_first: in all planes */
    const int32_t *rows; /* [2, X_ROWS]: where they are in x, and in the result; NULL: in a row */
} operands;

static __device__ inline i64 row_of_x(const operands &o, i64 row) {
    return o.rows ? o.rows[row] : o.x_first + row;
}

/* Where the rows of a tile are. */
template <int X_ROWS>
static __device__ inline void share_rows(const mc_cuda_planes_matmul &a,
                                         const mc_cuda_row_tile &tile, int32_t *rows) {
    int i = (int)(threadIdx.y * WARP_LANES + threadIdx.x);
    if (i < tile.rows) {
        int batch = a.order[tile.first + i];
        rows[i] = (int32_t)x_matrix_of(a, batch);
        rows[X_ROWS + i] = batch;
    }
    __syncthreads();
}

/* Codes of which 16 bytes are copied at once. */
template <int FORMAT, typename OF>
static __device__ inline void fetch_codes(const mc_cuda_planes_matrix &matrix, const operands &o,
                                          i64 k0, i64 left, unsigned char *to) {
    enum { BYTES = FORMAT == BF16 ? 64 : 32, PIECES = BYTES / 16, OF_ROW = PIECES * STEP_GROUPS };
    int thread = (int)(threadIdx.y * WARP_LANES + threadIdx.x);
    const char *codes = o.codes + k0 * (FORMAT == BF16 ? 16 : 4) / 8;
    static_assert(OF::W_ROWS * OF_ROW % THREADS == 0, "whole rounds");
#pragma unroll
    for (int n = 0; n < OF::W_ROWS * OF_ROW / THREADS; n++) {
        int i = n * THREADS + thread, piece = i % OF_ROW, row = i / OF_ROW;
        bool there = row < o.w_rows && piece * 16 < left;
        copy_async<16>(to + (piece / PIECES * OF::W_ROWS + row) * BYTES + piece % PIECES * 16,
                       codes + (there ? row * matrix.code_stride + piece * 16 : 0), there);
    }
}

/* Codes [group, row], planes [plane, group, row], scales of x [row, group] of two groups. */
template <int FORMAT, int PLANES, int MT, int NT, int WW>
static __device__ inline void fetch_step(const mc_cuda_planes_matmul &a,
                                         const mc_cuda_planes_matrix &matrix, const operands &o,
                                         int step, unsigned char *to) {
    typedef tile_of<FORMAT, PLANES, MT, NT, WW> of;
    int thread = (int)(threadIdx.y * WARP_LANES + threadIdx.x), bytes = code_bytes<FORMAT>(a);
    i64 k0 = (i64)step * STEP_GROUPS * of::GROUP, left = (a.k - k0) * bits_of<FORMAT>(a) / 8;
    if (FORMAT != CODES && a.code_width == 16)
        fetch_codes<FORMAT, of>(matrix, o, k0, left, to);
    else
        for (int i = thread; i < of::W_ROWS * STEP_GROUPS; i += THREADS) {
            int row = i / STEP_GROUPS, group = i % STEP_GROUPS;
            const char *from = o.codes + k0 * bits_of<FORMAT>(a) / 8;
            i64 there = row < o.w_rows ? left - group * bytes : 0;
            if (there > 0) from += row * matrix.code_stride + group * bytes;
            copy_bytes(to + (group * of::W_ROWS + row) * bytes, from, a.code_width, 0, 1, bytes,
                       there);
        }
    to += STEP_GROUPS * of::W_ROWS * bytes;
    enum { PIECES = of::X_OF_ROW / 16, OF_ROW = PIECES * STEP_GROUPS };
    const int8_t *planes = a.x + (i64)step * STEP_GROUPS * of::X_OF_ROW;
    i64 x_stride = a.padded / of::GROUP * of::X_OF_ROW;
    static_assert(PLANES * of::X_ROWS * OF_ROW % THREADS == 0, "whole rounds");
#pragma unroll
    for (int n = 0; n < PLANES * of::X_ROWS * OF_ROW / THREADS; n++) {
        int i = n * THREADS + thread;
        int piece = i % OF_ROW, row = i / OF_ROW % of::X_ROWS, plane = i / OF_ROW / of::X_ROWS;
        int group = piece / PIECES;
        i64 at = row < o.x_rows ? row : 0;
        const int8_t *from = planes + (plane * a.x_rows + row_of_x(o, at)) * x_stride + piece * 16;
        copy_async<16>(to + (plane * STEP_GROUPS + group) * of::X_BYTES + row * of::X_OF_ROW +
                           piece % PIECES * 16,
                       from, row < o.x_rows);
    }
    if (FORMAT == BF16) return;
    to += PLANES * STEP_GROUPS * of::X_BYTES;
    for (int row = thread; row < of::X_ROWS; row += THREADS) {
        i64 at = row < o.x_rows ? row : 0;
        copy_async<16>(to + row * 16,
                       a.x_scales +
                           (row_of_x(o, at) * (a.padded / of::GROUP) + (i64)step * STEP_GROUPS) * 2,
                       row < o.x_rows);
    }
}

/* Scales and biases [row] of a unit. */
template <int FORMAT, int PLANES, int MT, int NT, int WW>
static __device__ inline void fetch_scales(const mc_cuda_planes_matmul &a,
                                           const mc_cuda_planes_matrix &matrix, const operands &o,
                                           int unit, unsigned char *to) {
    typedef tile_of<FORMAT, PLANES, MT, NT, WW> of;
    int thread = (int)(threadIdx.y * WARP_LANES + threadIdx.x);
    i64 k0 = (i64)unit * unit_of<FORMAT>::COLUMNS, there = (a.k - k0) / a.group * a.scale_bytes;
    int bytes = (int)(unit_of<FORMAT>::COLUMNS / a.group) * a.scale_bytes;
    for (int i = thread; i < 2 * of::W_ROWS; i += THREADS) {
        int row = i % of::W_ROWS;
        const char *from = i < of::W_ROWS ? o.scales : o.biases;
        if (!from) continue;
        bool is_there = row < o.w_rows;
        if (is_there) from += (row * matrix.scale_stride + k0 / a.group) * a.scale_bytes;
        copy_bytes(to + i * SCALE_PITCH, from, a.scale_width, 0, 1, bytes, is_there ? there : 0);
    }
}

/* Scale and bias of a row's group of a unit. */
static __device__ inline float2 scale_of(const mc_cuda_planes_matmul &a, const uint8_t *s,
                                         const uint8_t *b, int group) {
    float2 out;
    int at = group >> a.spread;
    if (a.mode == MC_CUDA_MXFP4) {
        out.x = from_e8m0(s[at]) * 0.5f;
        out.y = out.x * -12.0f;
        return out;
    }
    uint16_t x = ((const uint16_t *)s)[at], y = ((const uint16_t *)b)[at];
    out.x = a.scale_is_f16 ? f16_to_f32(x) : bf16_to_f32(x);
    out.y = a.scale_is_f16 ? f16_to_f32(y) : bf16_to_f32(y);
    return out;
}

/* A lane's eight rows of weights: the codes of a group, as mma takes them. */
template <int FORMAT, int MT> struct codes_of {
    octet low[MT][2], high[FORMAT == Q4 ? MT : 1][2]; /* [rows g, g + 8] */
    float2 scales[MT][2];
};

template <int FORMAT, int MT>
static __device__ inline void load_codes(const mc_cuda_planes_matmul &a, const uint8_t *codes,
                                         const uint8_t *scales, int w_rows, int first, int group,
                                         codes_of<FORMAT, MT> &w) {
    int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4, bytes = code_bytes<FORMAT>(a);
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int row = first + m * 16 + i * 8 + g;
            const uint8_t *at = codes + row * bytes;
            if (FORMAT == Q4) {
                uint2 u = *(const uint2 *)(at + t * 8);
                w.low[m][i] = octet_of_q4(u.x);
                w.high[FORMAT == Q4 ? m : 0][i] = octet_of_q4(u.y);
            } else {
                w.low[m][i] = octet_at(a, at + t * a.bits);
            }
            w.scales[m][i] = scale_of(a, scales + row * SCALE_PITCH,
                                      scales + (w_rows + row) * SCALE_PITCH, group);
        }
}

/* sums [m, n, e] += the products of a group: e of rows g, g + 8 and columns 2t, 2t + 1. */
template <int FORMAT, int PLANES, int MT, int NT>
static __device__ inline void multiply_group(const codes_of<FORMAT, MT> &w, const uint8_t *x,
                                             int plane_bytes, const float2 *x_scales,
                                             float (*sums)[NT][4]) {
    enum { GROUP = unit_of<FORMAT>::GROUP };
    int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < NT; n++) {
        uint32_t b[PLANES][4];
        float2 sx[2];
#pragma unroll
        for (int p = 0; p < PLANES; p++) {
            const uint8_t *from = x + p * plane_bytes + (n * 8 + g) * GROUP + t * (GROUP / 4);
            if (FORMAT == Q4) {
                uint4 v = *(const uint4 *)from;
                b[p][0] = v.x, b[p][1] = v.y, b[p][2] = v.z, b[p][3] = v.w;
            } else {
                uint2 v = *(const uint2 *)from;
                b[p][0] = v.x, b[p][1] = v.y, b[p][2] = b[p][3] = 0;
            }
        }
        sx[0] = x_scales[(n * 8 + 2 * t) * STEP_GROUPS];
        sx[1] = x_scales[(n * 8 + 2 * t + 1) * STEP_GROUPS];
#pragma unroll
        for (int m = 0; m < MT; m++) {
            int32_t d[PLANES][4];
            const octet *low = w.low[m], *high = w.high[FORMAT == Q4 ? m : 0];
#pragma unroll
            for (int p = 0; p < PLANES; p++) {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    d[p][e] = MAGIC_BITS;
                mma_u8_s8(d[p], low[0].even, low[1].even, low[0].odd, low[1].odd, b[p][0], b[p][1]);
                if (FORMAT == Q4)
                    mma_u8_s8(d[p], high[0].even, high[1].even, high[0].odd, high[1].odd, b[p][2],
                              b[p][3]);
            }
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float v = joined<PLANES>(magic_sum(d[0][e]), magic_sum(d[1][e]),
                                         magic_sum(d[PLANES - 1][e]));
                float2 s = w.scales[m][e / 2];
                sums[m][n][e] = fmaf(s.x * sx[e % 2].x, v, fmaf(s.y, sx[e % 2].y, sums[m][n][e]));
            }
        }
    }
}

/* The same of bf16, at codes [row, 64 bytes]. */
template <int PLANES, int MT, int NT>
static __device__ inline void multiply_bf16(const uint8_t *codes, const uint8_t *x, int plane_bytes,
                                            float (*sums)[NT][4]) {
    int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
    uint4 w[MT][2];
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            w[m][i] = *(const uint4 *)(codes + (m * 16 + i * 8 + g) * 64 + t * 16);
#pragma unroll
    for (int n = 0; n < NT; n++) {
        uint4 b[PLANES];
#pragma unroll
        for (int p = 0; p < PLANES; p++)
            b[p] = *(const uint4 *)(x + p * plane_bytes + (n * 8 + g) * 64 + t * 16);
#pragma unroll
        for (int m = 0; m < MT; m++) {
#pragma unroll
            for (int p = PLANES - 1; p >= 0; p--)
                mma_bf16(sums[m][n], w[m][0].x, w[m][1].x, w[m][0].y, w[m][1].y, b[p].x, b[p].y);
#pragma unroll
            for (int p = PLANES - 1; p >= 0; p--)
                mma_bf16(sums[m][n], w[m][0].z, w[m][1].z, w[m][0].w, w[m][1].w, b[p].z, b[p].w);
        }
    }
}

template <int FORMAT, int PLANES, int MT, int NT, int WW>
static __device__ inline void run(const mc_cuda_planes_matmul &a) {
    typedef tile_of<FORMAT, PLANES, MT, NT, WW> of;
    DYNAMIC_SHARED(shared);
    int stage = stage_bytes<of, FORMAT, PLANES>(a), warp = (int)threadIdx.y;
    int first_w = warp % WW * MT * 16, first_x = warp / WW * NT * 8;
    int steps = a.units * of::STEPS, bytes = code_bytes<FORMAT>(a);
    unsigned char *scales = shared + a.stages * stage; /* of two units */
    tile_place p = place_of(a, blockIdx.y + (i64)blockIdx.z * a.tiles, of::W_ROWS);
    const mc_cuda_planes_matrix &matrix = *p.matrix;
    weights_place w;
    i64 m0 = (i64)blockIdx.x * of::X_ROWS, x_rows = a.m - m0;
    int32_t *rows = NULL;
    if (a.row_tiles) {
        const mc_cuda_row_tile tile = a.row_tiles[blockIdx.x];
        if (tile.rows == 0) return;
        rows = (int32_t *)(scales + 2 * of::SCALES);
        share_rows<of::X_ROWS>(a, tile, rows);
        w.codes = tile.matrix * a.w_strides[0];
        w.scales = tile.matrix * a.scale_strides[0];
        x_rows = tile.rows;
    } else {
        w = weights_of(a, p.batch);
    }
    i64 s = w.scales + p.row * matrix.scale_stride * a.scale_bytes;
    operands o = {(const char *)matrix.codes + w.codes + p.row * matrix.code_stride,
                  (const char *)matrix.scales + s,
                  matrix.biases ? (const char *)matrix.biases + s : NULL,
                  matrix.n - p.row,
                  rows ? 0 : x_matrix_of(a, p.batch) * a.m + m0,
                  x_rows,
                  rows};
    float sums[MT][NT][4] = {{{0}}}, totals[MT][NT][4] = {{{0}}};
    for (int i = 0; i < a.stages - 1; i++) {
        if (i < steps) fetch_step<FORMAT, PLANES, MT, NT, WW>(a, matrix, o, i, shared + i * stage);
        if (FORMAT != BF16 && i < steps && i % of::STEPS == 0)
            fetch_scales<FORMAT, PLANES, MT, NT, WW>(a, matrix, o, i / of::STEPS,
                                                     scales + i / of::STEPS % 2 * of::SCALES);
        commit_copies();
    }
    for (int i = 0, slot = 0; i < steps; i++) {
        wait_for_copies(a.stages - 2);
        __syncthreads(); /* all have what is here, and have read the slot that is filled next */
        int next = i + a.stages - 1, to = slot == 0 ? a.stages - 1 : slot - 1;
        if (next < steps)
            fetch_step<FORMAT, PLANES, MT, NT, WW>(a, matrix, o, next, shared + to * stage);
        if (FORMAT != BF16 && next < steps && next % of::STEPS == 0)
            fetch_scales<FORMAT, PLANES, MT, NT, WW>(a, matrix, o, next / of::STEPS,
                                                     scales + next / of::STEPS % 2 * of::SCALES);
        commit_copies();
        const unsigned char *codes = shared + slot * stage;
        const unsigned char *x = codes + STEP_GROUPS * of::W_ROWS * bytes;
        const unsigned char *x_scales = x + PLANES * STEP_GROUPS * of::X_BYTES;
#pragma unroll
        for (int j = 0; j < STEP_GROUPS; j++) {
            if constexpr (FORMAT == BF16) {
                multiply_bf16<PLANES, MT, NT>(codes + (j * of::W_ROWS + first_w) * 64,
                                              x + j * of::X_BYTES + first_x * 64,
                                              STEP_GROUPS * of::X_BYTES, sums);
            } else {
                codes_of<FORMAT, MT> tile;
                load_codes<FORMAT, MT>(a, codes + j * of::W_ROWS * bytes,
                                       scales + i / of::STEPS % 2 * of::SCALES, of::W_ROWS, first_w,
                                       i % of::STEPS * STEP_GROUPS + j, tile);
                multiply_group<FORMAT, PLANES, MT, NT>(
                    tile, x + j * of::X_BYTES + first_x * of::X_OF_ROW, STEP_GROUPS * of::X_BYTES,
                    (const float2 *)x_scales + first_x * STEP_GROUPS + j, sums);
            }
        }
        slot = slot + 1 == a.stages ? 0 : slot + 1;
        if (i % of::STEPS != of::STEPS - 1) continue;
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    totals[m][n][e] += sums[m][n][e];
                    sums[m][n][e] = 0;
                }
    }
    int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                i64 row = first_w + m * 16 + e / 2 * 8 + g,
                    column = first_x + n * 8 + 2 * t + e % 2;
                if (row >= o.w_rows || column >= o.x_rows) continue;
                i64 to = rows ? rows[of::X_ROWS + column] : p.batch * a.m + m0 + column;
                store_f32(matrix.out_dtype, matrix.out, to * matrix.n + p.row + row,
                          totals[m][n][e]);
            }
}

/* Batches in the order of the matrices that they pick, in tiles of one matrix; by a block. */
static __device__ inline void group_rows(const mc_cuda_planes_matmul &a) {
    DYNAMIC_SHARED(shared);
    uint32_t *counts = (uint32_t *)shared, *next = counts + a.rhs_count;
    uint32_t thread = threadIdx.x, n = (uint32_t)a.rhs_count, all = (uint32_t)a.batches;
    for (uint32_t i = thread; i < n; i += THREADS)
        counts[i] = 0;
    __syncthreads();
    for (uint32_t i = thread; i < all; i += THREADS)
        atomicAdd(&counts[picked(a, a.rhs, i, a.rhs_count)], 1u);
    __syncthreads();
    for (uint32_t i = thread; i < n; i += THREADS) {
        uint32_t first = 0, of_tile = (uint32_t)a.tile_rows;
        int tile = 0;
        for (uint32_t j = 0; j < i; j++) {
            first += counts[j];
            tile += (int)((counts[j] + of_tile - 1) / of_tile);
        }
        next[i] = first;
        for (uint32_t at = 0; at < counts[i]; at += of_tile) {
            uint32_t left = counts[i] - at;
            a.row_tiles[tile++] = {(int32_t)i, (int32_t)(first + at),
                                   (int32_t)(left < of_tile ? left : of_tile), 0};
        }
        for (; i == n - 1 && tile < a.n_row_tiles; tile++)
            a.row_tiles[tile] = {0, 0, 0, 0};
    }
    __syncthreads();
    for (uint32_t i = thread; i < all; i += THREADS)
        a.order[atomicAdd(&next[picked(a, a.rhs, i, a.rhs_count)], 1u)] = (int32_t)i;
}

} // namespace tiles

KERNEL(mc_group_rows, mc_cuda_planes_matmul) {
    tiles::group_rows(a);
}

/* Tiles of 128 by 128, and of 64 by 64. */
#define TILES_KERNEL(name, FORMAT, PLANES, MT, NT, WW)     \
    KERNEL(name, mc_cuda_planes_matmul) {                  \
        tiles::run<planes::FORMAT, PLANES, MT, NT, WW>(a); \
    }
TILES_KERNEL(mc_tiles_q4_fast, Q4, 2, 4, 4, 2)
TILES_KERNEL(mc_tiles_q4_exact, Q4, 3, 4, 4, 2)
TILES_KERNEL(mc_tiles_q4_fast_small, Q4, 2, 1, 4, 4)
TILES_KERNEL(mc_tiles_q4_exact_small, Q4, 3, 1, 4, 4)
TILES_KERNEL(mc_tiles_fast, CODES, 2, 4, 4, 2)
TILES_KERNEL(mc_tiles_exact, CODES, 3, 4, 4, 2)
TILES_KERNEL(mc_tiles_fast_small, CODES, 2, 1, 4, 4)
TILES_KERNEL(mc_tiles_exact_small, CODES, 3, 1, 4, 4)
TILES_KERNEL(mc_tiles_bf16_fast, BF16, 1, 4, 4, 2)
TILES_KERNEL(mc_tiles_bf16_exact, BF16, 3, 4, 4, 2)
TILES_KERNEL(mc_tiles_bf16_fast_small, BF16, 1, 1, 4, 4)
TILES_KERNEL(mc_tiles_bf16_exact_small, BF16, 3, 1, 4, 4)
