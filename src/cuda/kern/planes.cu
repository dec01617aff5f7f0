/* Activations as planes of bytes, and products of up to eight rows of them: see planes.cuh. */
#include "cuda/kern/planes.cuh"

namespace planes {

/* ---- activations to planes: a thread has eight numbers ---- */

static __device__ inline void load_octet(const mc_cuda_to_planes &a, i64 row, i64 k, float *x) {
    i64 stride = a.x.strides[a.ndim], at = place(row, a.ndim, a.shape, a.x.strides) + k * stride;
    const void *data = data_of(a.x);
    if (a.x.dtype == MC_CUDA_F32 && stride == 1 && at % 4 == 0 && k + 8 <= a.k &&
        (uintptr_t)data % 16 == 0) {
        const float4 *from = (const float4 *)((const float *)data + at);
        float4 low = from[0], high = from[1];
        x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
        x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = k + i < a.k ? load_f32(a.x.dtype, data, at + i * stride) : 0.0f;
}

/* Byte `plane` of the codes, the even ones first. */
static __device__ inline uint2 bytes_of(const int32_t *codes) {
    uint2 out = {0, 0};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out.x |= ((uint32_t)codes[2 * i] & 255u) << (8 * i);
        out.y |= ((uint32_t)codes[2 * i + 1] & 255u) << (8 * i);
    }
    return out;
}

/* The codes less their lowest byte, which is of [-128, 127], a byte further down. */
static __device__ inline uint2 take_bytes(int32_t *codes) {
    uint2 low = bytes_of(codes);
#pragma unroll
    for (int i = 0; i < 8; i++)
        codes[i] = (codes[i] + 128) >> 8;
    return low;
}

static __device__ inline void to_planes(const mc_cuda_to_planes &a, i64 row, i64 k,
                                        int8_t *to_codes, float *to_scales) {
    const float most = a.planes == 2 ? 32512.0f : 8323072.0f; /* 127 in the highest byte */
    int lanes = a.group / 8, log = a.group == 64 ? 6 : 5;
    float x[8];
    int32_t codes[8], sum = 0;
    uint32_t largest = 0; /* as bits, of which those of NaN are the largest */
    load_octet(a, row, k, x);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t bits = __float_as_uint(x[i]) & 0x7fffffffu;
        largest = bits > largest ? bits : largest;
    }
    for (int other = 1; other < lanes; other *= 2)
        largest = shuffle_max(largest, other);
    bool finite = largest < 0x7f800000u, none = largest < 0x0d800000u; /* 2^-100 */
    float scale = none ? 0.0f : bits_to_f32(largest) / most;
    float inverse = none || !finite ? 0.0f : 1.0f / scale;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        codes[i] = finite ? (int32_t)rintf(x[i] * inverse) : 0;
        sum += codes[i];
    }
    for (int other = 1; other < lanes; other *= 2)
        sum = shuffle_sum(sum, other);
    for (int plane = a.planes - 1; plane >= 0; plane--)
        *(uint2 *)(to_codes + (plane * a.rows + row) * a.padded + k) = take_bytes(codes);
    if ((k & (a.group - 1)) != 0) return;
    float *to = to_scales + (row * (a.padded >> log) + (k >> log)) * 2;
    if (!finite) scale = NAN;
    to[0] = scale;
    to[1] = scale * (float)sum;
}

/* x as the sum of terms of bf16, rounded to the nearest; what is not finite has one. */
static __device__ inline void to_terms(const mc_cuda_to_planes &a, i64 row, i64 k) {
    float x[8];
    load_octet(a, row, k, x);
    for (int plane = 0; plane < a.planes; plane++) {
        uint32_t term[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            term[i] = f32_to_bf16(x[i]);
            float rest = x[i] - bf16_to_f32((uint16_t)term[i]);
            x[i] = (__float_as_uint(rest) & 0x7f800000u) == 0x7f800000u ? 0.0f : rest;
        }
        uint4 packed = {term[0] | term[1] << 16, term[2] | term[3] << 16, term[4] | term[5] << 16,
                        term[6] | term[7] << 16};
        *(uint4 *)(a.codes + ((plane * a.rows + row) * a.padded + k) * 2) = packed;
    }
}

/* ---- products ----
 *
 * A tile is 16 rows of a matrix. A block has tiles b, b + gridDim ..., `bunch` of them at a time.
 * The pairs of a unit and a tile of a bunch are dealt to its warps in equal parts, unit by unit,
 * for a warp to have a unit's activations in registers for several tiles. A warp copies codes and
 * scales to slots of its own, `stages` of them on their way at once. */

enum { TILE = 16 };

/* Bytes between rows of codes in a slot: lanes that read at once read other banks. */
template <int FORMAT> static __device__ inline int pitch_of(const mc_cuda_planes_matmul &a) {
    return FORMAT == Q4     ? 256 + 32
           : FORMAT == BF16 ? 256 + 64
                            : 32 * a.bits + (a.bits == 8 ? 32 : 16);
}

/* Where a warp is in its pairs. */
typedef struct walker {
    int first, count; /* of the bunch: its first tile of the block, and how many it has */
    int pair, end;    /* of the warp */
    int unit, tile;   /* of the pair; tile counted from `first` */
} walker;

static __device__ inline void enter(const mc_cuda_planes_matmul &a, walker &w, int tiles) {
    w.count = tiles - w.first < a.bunch ? tiles - w.first : a.bunch;
    int pairs = w.count * a.units, warps = warps_of_block(), warp = warp_of_block();
    w.pair = pairs * warp / warps;
    w.end = pairs * (warp + 1) / warps;
    w.unit = w.pair / w.count;
    w.tile = w.pair % w.count;
}

static __device__ inline void advance(walker &w) {
    w.pair++;
    if (++w.tile < w.count) return;
    w.tile = 0;
    w.unit++;
}

/* Of Q4, of one batch, whole units, all of it in pieces of 16 bytes. Where a tile has more rows
 * than there are, the last is copied again. */
static __device__ inline void fetch_whole(const mc_cuda_planes_matmul &a, const walker &w,
                                          unsigned char *slot) {
    int t = (int)blockIdx.x + (w.first + w.tile) * (int)gridDim.x, i = a.n_matrices - 1;
#pragma unroll 1
    while (i > 0 && t < a.matrices[i].first_tile)
        i--;
    const mc_cuda_planes_matrix &matrix = a.matrices[i];
    int first = (t - matrix.first_tile) * TILE, last = (int)matrix.n - 1 - first;
    int lane = lane_of_warp(), half = lane / 16, piece = lane % 16;
    uint32_t stride = (uint32_t)matrix.code_stride,
             scale_stride = (uint32_t)matrix.scale_stride * 2;
    const char *codes =
        (const char *)matrix.codes + (i64)first * stride + w.unit * 256 + piece * 16;
    const char *scales = (const char *)(half ? matrix.biases : matrix.scales) +
                         (i64)first * scale_stride + w.unit * SCALE_PITCH;
    enum { PITCH = 256 + 32 };
    unsigned char *to = slot + half * PITCH + piece * 16;
#pragma unroll
    for (int r = 0; r < TILE; r += 2) {
        int row = r + half < last ? r + half : last;
        copy_async<16>(to + r * PITCH, codes + (u64)(uint32_t)row * stride, true);
    }
    int row = piece < last ? piece : last;
    copy_async<16>(slot + TILE * PITCH + lane * SCALE_PITCH,
                   scales + (u64)(uint32_t)row * scale_stride, true);
}

template <int FORMAT>
static __device__ inline void fetch_any(const mc_cuda_planes_matmul &a, const walker &w,
                                        unsigned char *slot) {
    enum { COLUMNS = unit_of<FORMAT>::COLUMNS };
    tile_place p = place_of(a, blockIdx.x + (i64)(w.first + w.tile) * gridDim.x, TILE);
    const mc_cuda_planes_matrix &matrix = *p.matrix;
    int lane = lane_of_warp(), bits = bits_of<FORMAT>(a), pitch = pitch_of<FORMAT>(a);
    i64 k0 = (i64)w.unit * COLUMNS, left = (a.k - k0) * bits / 8, rows = matrix.n - p.row;
    weights_place w0 = weights_of(a, p.batch);
    const char *codes =
        (const char *)matrix.codes + w0.codes + p.row * matrix.code_stride + k0 * bits / 8;
#pragma unroll 1
    for (int i = 0; i < TILE; i += 2) {
        int r = i + lane / 16;
        bool is_there = r < rows;
        copy_bytes(slot + r * pitch, is_there ? codes + r * matrix.code_stride : codes,
                   a.code_width, lane % 16, 16, COLUMNS / 8 * bits, is_there ? left : 0);
    }
    if (FORMAT == BF16) return;
    /* scales of 16 rows by 16 lanes, then their biases */
    const void *from = lane < 16 ? matrix.scales : matrix.biases;
    if (!from) return;
    int r = lane % 16, bytes = (int)(COLUMNS / a.group) * a.scale_bytes;
    i64 at = w0.scales +
             ((p.row + (r < rows ? r : 0)) * matrix.scale_stride + k0 / a.group) * a.scale_bytes;
    i64 there = r < rows ? (a.k - k0) / a.group * a.scale_bytes : 0;
    copy_bytes(slot + TILE * pitch + lane * SCALE_PITCH, (const char *)from + at, a.scale_width, 0,
               1, bytes, there);
}

/* A lane's part of the activations of a unit. PAIRED: a column of b holds plane c % 2 of row c / 2;
 * else that of its plane's row c, and there are as many b as planes. */
template <int FORMAT, int PLANES, bool PAIRED> struct activations {
    enum { TERMS = PAIRED ? 1 : PLANES, ROWS = PAIRED ? 1 : 2, WORDS = FORMAT == CODES ? 2 : 4 };
    uint32_t codes[TERMS][unit_of<FORMAT>::GROUPS][WORDS];
    float2 scales[ROWS][FORMAT == BF16 ? 1 : UNIT_GROUPS]; /* BF16: there are none */
};

static __device__ inline i64 clamped(int row, int m) {
    return row < m ? row : m - 1;
}

template <int FORMAT, int PLANES, bool PAIRED>
static __device__ inline void load_activations(const mc_cuda_planes_matmul &a, const int8_t *planes,
                                               const float *scales, i64 first, int unit,
                                               activations<FORMAT, PLANES, PAIRED> &x) {
    typedef activations<FORMAT, PLANES, PAIRED> of;
    typedef unit_of<FORMAT> unit_type;
    int g = lane_of_warp() / 4, t = lane_of_warp() % 4;
    i64 row_bytes = a.padded / unit_type::GROUP * unit_type::X_BYTES;
#pragma unroll
    for (int term = 0; term < of::TERMS; term++) {
        i64 row = first + clamped(PAIRED ? g / 2 : g, a.m);
        i64 plane = PAIRED ? g % 2 : term;
        const int8_t *from = planes + (plane * a.x_rows + row) * row_bytes +
                             (i64)unit * unit_type::GROUPS * unit_type::X_BYTES +
                             t * (unit_type::X_BYTES / 4);
#pragma unroll
        for (int j = 0; j < unit_type::GROUPS; j++) {
            uint32_t *to = x.codes[term][j];
            if (FORMAT == CODES) {
                uint2 v = *(const uint2 *)(from + j * unit_type::X_BYTES);
                to[0] = v.x, to[1] = v.y;
            } else {
                uint4 v = *(const uint4 *)(from + j * unit_type::X_BYTES);
                to[0] = v.x, to[1] = v.y, to[of::WORDS - 2] = v.z, to[of::WORDS - 1] = v.w;
            }
        }
    }
    if (FORMAT == BF16) return;
#pragma unroll
    for (int r = 0; r < of::ROWS; r++) {
        i64 row = first + clamped(PAIRED ? t : 2 * t + r, a.m);
        const float2 *from =
            (const float2 *)scales + row * (a.padded / unit_type::GROUP) + (i64)unit * UNIT_GROUPS;
#pragma unroll
        for (int j = 0; j < (FORMAT == BF16 ? 1 : UNIT_GROUPS); j++)
            x.scales[r][j] = from[j];
    }
}

/* The integer sums of group j of 16 rows, which begin at w, w + 8 pitch. */
template <int FORMAT, int PLANES, bool PAIRED>
static __device__ inline void multiply_group(const mc_cuda_planes_matmul &a, const uint8_t *w,
                                             int pitch8, int j,
                                             const activations<FORMAT, PLANES, PAIRED> &x,
                                             int32_t (*d)[4]) {
    typedef activations<FORMAT, PLANES, PAIRED> of;
#pragma unroll
    for (int term = 0; term < of::TERMS; term++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            d[term][e] = MAGIC_BITS;
    if (FORMAT == Q4) {
        uint2 u = *(const uint2 *)(w + j * 32), v = *(const uint2 *)(w + pitch8 + j * 32);
        octet u0 = octet_of_q4(u.x), v0 = octet_of_q4(v.x);
        octet u1 = octet_of_q4(u.y), v1 = octet_of_q4(v.y);
#pragma unroll
        for (int term = 0; term < of::TERMS; term++) {
            const uint32_t *b = x.codes[term][j];
            mma_u8_s8(d[term], u0.even, v0.even, u0.odd, v0.odd, b[0], b[1]);
            mma_u8_s8(d[term], u1.even, v1.even, u1.odd, v1.odd, b[of::WORDS - 2],
                      b[of::WORDS - 1]);
        }
        return;
    }
    octet u = octet_at(a, w + j * 4 * a.bits), v = octet_at(a, w + pitch8 + j * 4 * a.bits);
#pragma unroll
    for (int term = 0; term < of::TERMS; term++) {
        const uint32_t *b = x.codes[term][j];
        mma_u8_s8(d[term], u.even, v.even, u.odd, v.odd, b[0], b[1]);
    }
}

/* Products of bf16, 16 rows of which begin at w, w + 8 pitch: as mma has them. */
template <int TERMS>
static __device__ inline void multiply_bf16(const uint8_t *w, int pitch8,
                                            const uint32_t (*x)[unit_of<BF16>::GROUPS][4],
                                            float *sums) {
#pragma unroll
    for (int j = 0; j < unit_of<BF16>::GROUPS; j++) {
        uint4 u = *(const uint4 *)(w + j * 64), v = *(const uint4 *)(w + pitch8 + j * 64);
#pragma unroll
        for (int term = TERMS - 1; term >= 0; term--)
            mma_bf16(sums, u.x, v.x, u.y, v.y, x[term][j][0], x[term][j][1]);
#pragma unroll
        for (int term = TERMS - 1; term >= 0; term--)
            mma_bf16(sums, u.z, v.z, u.w, v.w, x[term][j][2], x[term][j][3]);
    }
}

/* sums[r][i]: of row g + 8i of the tile and the lane's row r of x. */
template <int FORMAT, int PLANES, bool PAIRED, bool WHOLE>
static __device__ inline void multiply_unit(const mc_cuda_planes_matmul &a, const uint8_t *slot,
                                            const activations<FORMAT, PLANES, PAIRED> &x,
                                            float (*sums)[2]) {
    typedef activations<FORMAT, PLANES, PAIRED> of;
    int g = lane_of_warp() / 4, t = lane_of_warp() % 4, pitch = pitch_of<FORMAT>(a);
    const uint8_t *w = slot + g * pitch + t * (FORMAT == Q4 ? 8 : a.bits);
    const uint8_t *scales = slot + TILE * pitch + g * SCALE_PITCH;
    const uint8_t *biases = scales + TILE * SCALE_PITCH;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float s[2][4], b[2][4];
#pragma unroll
        for (int i = 0; i < 2; i++)
            scales_of<WHOLE>(a, *(const uint4 *)(scales + 8 * i * SCALE_PITCH),
                             *(const uint4 *)(biases + 8 * i * SCALE_PITCH), h, s[i], b[i]);
#pragma unroll
        for (int q = 0; q < 4; q++) {
            int32_t d[of::TERMS][4];
            int j = 4 * h + q;
            multiply_group<FORMAT, PLANES, PAIRED>(a, w, 8 * pitch, j, x, d);
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int r = 0; r < of::ROWS; r++) {
                    float2 sx = x.scales[r][j];
                    float v = PAIRED
                                  ? joined<2>(magic_sum(d[0][2 * i]), magic_sum(d[0][2 * i + 1]), 0)
                                  : joined<PLANES>(magic_sum(d[0][2 * i + r]),
                                                   magic_sum(d[1 % of::TERMS][2 * i + r]),
                                                   magic_sum(d[of::TERMS - 1][2 * i + r]));
                    sums[r][i] = fmaf(s[i][q] * sx.x, v, fmaf(b[i][q], sx.y, sums[r][i]));
                }
        }
    }
}

/* The units' sums [tiles, units, m, 16] of a bunch, added up and written. */
static __device__ inline void finish(const mc_cuda_planes_matmul &a, const walker &w,
                                     const float *parts) {
    int threads = (int)blockDim.x, each = a.m * TILE;
    for (int i = (int)threadIdx.x; i < w.count * each; i += threads) {
        int tile = i / each, at = i % each;
        const float *part = parts + tile * a.units * each + at;
        float sum = 0;
#pragma unroll 4
        for (int unit = 0; unit < a.units; unit++)
            sum += part[unit * each];
        tile_place p = place_of(a, blockIdx.x + (i64)(w.first + tile) * gridDim.x, TILE);
        i64 n = p.row + at % TILE, m = p.batch * a.m + at / TILE;
        if (n >= p.matrix->n) continue;
        if (p.matrix->out_dtype == MC_CUDA_F32)
            ((float *)p.matrix->out)[m * p.matrix->n + n] = sum;
        else
            store_f32(p.matrix->out_dtype, p.matrix->out, m * p.matrix->n + n, sum);
    }
}

/* To the warp's next bunch that has pairs for it, or behind the last. */
static __device__ inline void skip_to_pair(const mc_cuda_planes_matmul &a, walker &w, int tiles) {
    while (w.first < tiles && w.pair == w.end) {
        w.first += w.count;
        if (w.first < tiles) enter(a, w, tiles);
    }
}

/* Starts to copy the next pair, if there is one. */
template <int FORMAT, bool WHOLE>
static __device__ inline void fetch_next(const mc_cuda_planes_matmul &a, walker &w, int tiles,
                                         unsigned char *slot) {
    if (w.first < tiles) {
        if (WHOLE)
            fetch_whole(a, w, slot);
        else
            fetch_any<FORMAT>(a, w, slot);
        advance(w);
        skip_to_pair(a, w, tiles);
    }
    commit_copies();
}

static __device__ inline i64 batch_of(const mc_cuda_planes_matmul &a, const walker &w) {
    return a.batches > 1 ? (blockIdx.x + (i64)(w.first + w.tile) * gridDim.x) / a.tiles : 0;
}

/* The planes of x in shared memory. Warps have whole groups: padded is a multiple of units. */
static __device__ inline void share_planes(const mc_cuda_planes_matmul &a, int8_t *codes,
                                           float *scales) {
    int octets = (int)a.padded / 8, threads = (int)blockDim.x;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < a.m * octets; i += threads)
        to_planes(a.source, i / octets, (i64)(i % octets) * 8, codes, scales);
    __syncthreads();
}

template <int FORMAT, int PLANES, bool PAIRED, bool WHOLE>
static __device__ inline void few_rows(const mc_cuda_planes_matmul &a) {
    DYNAMIC_SHARED(shared);
    typedef activations<FORMAT, PLANES, PAIRED> of;
    int slot_bytes = TILE * (pitch_of<FORMAT>(a) + 2 * SCALE_PITCH);
    int g = lane_of_warp() / 4, t = lane_of_warp() % 4;
    float *parts = (float *)(shared + warps_of_block() * a.stages * slot_bytes);
    unsigned char *slots = shared + warp_of_block() * a.stages * slot_bytes;
    int tiles = (a.tiles * (int)a.batches - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    walker at = {0, 0, 0, 0, 0, 0}, ahead;
    of x;
    i64 have = -1;
    int slot = 0;
    enter(a, at, tiles);
    ahead = at;
    skip_to_pair(a, ahead, tiles);
#pragma unroll 1
    for (int i = 0; i < a.stages; i++)
        fetch_next<FORMAT, WHOLE>(a, ahead, tiles, slots + i * slot_bytes);
    const int8_t *codes = a.x;
    const float *scales = a.x_scales;
    if (WHOLE && !codes) {
        int8_t *to = (int8_t *)(parts + a.bunch * a.units * a.m * TILE);
        codes = to;
        scales = (const float *)(to + PLANES * a.m * (int)a.padded);
        share_planes(a, to, (float *)(to + PLANES * a.m * (int)a.padded));
    }
#pragma unroll 1
    while (at.first < tiles) {
#pragma unroll 1
        for (; at.pair < at.end; advance(at)) {
            i64 from = WHOLE ? 0 : x_matrix_of(a, batch_of(a, at));
            i64 wanted = from * a.units + at.unit;
            float sums[of::ROWS][2] = {{0}};
            if (have != wanted)
                load_activations<FORMAT, PLANES, PAIRED>(a, codes, scales, from * a.m, at.unit, x);
            have = wanted;
            wait_for_copies(a.stages - 1);
            sync_warp();
            if constexpr (FORMAT == BF16) {
                float d[4] = {0};
                multiply_bf16<PLANES>(slots + slot * slot_bytes + g * pitch_of<BF16>(a) + t * 16,
                                      8 * pitch_of<BF16>(a), x.codes, d);
                sums[0][0] = d[0], sums[of::ROWS - 1][0] = d[1];
                sums[0][1] = d[2], sums[of::ROWS - 1][1] = d[3];
            } else {
                multiply_unit<FORMAT, PLANES, PAIRED, WHOLE>(a, slots + slot * slot_bytes, x, sums);
            }
            float *to = parts + (at.tile * a.units + at.unit) * a.m * TILE + g;
#pragma unroll
            for (int r = 0; r < of::ROWS; r++) {
                int row = PAIRED ? t : 2 * t + r;
                if (row < a.m) to[row * TILE] = sums[r][0], to[row * TILE + 8] = sums[r][1];
            }
            sync_warp(); /* all have read the slot */
            fetch_next<FORMAT, WHOLE>(a, ahead, tiles, slots + slot * slot_bytes);
            slot = slot + 1 == a.stages ? 0 : slot + 1;
        }
        __syncthreads();
        finish(a, at, parts);
        at.first += at.count;
        if (at.first >= tiles) break;
        __syncthreads(); /* the parts are read */
        enter(a, at, tiles);
    }
}

} // namespace planes

KERNEL(mc_to_planes, mc_cuda_to_planes) {
    FOR_ELEMENTS(i, a.rows * a.padded / 8) {
        i64 octets = a.padded / 8;
        i64 row = i >> 32 == 0 ? (i64)((uint32_t)i / (uint32_t)octets) : i / octets;
        if (a.group == 0)
            planes::to_terms(a, row, (i - row * octets) * 8);
        else
            planes::to_planes(a, row, (i - row * octets) * 8, a.codes, a.scales);
    }
}

/* WHOLE: products that fetch_whole has. */
#define FEW_ROWS_KERNEL(name, FORMAT, PLANES, PAIRED, WHOLE)        \
    KERNEL(name, mc_cuda_planes_matmul) {                           \
        planes::few_rows<planes::FORMAT, PLANES, PAIRED, WHOLE>(a); \
    }
FEW_ROWS_KERNEL(mc_planes_q4_whole_paired, Q4, 2, true, true)
FEW_ROWS_KERNEL(mc_planes_q4_whole_fast, Q4, 2, false, true)
FEW_ROWS_KERNEL(mc_planes_q4_whole_exact, Q4, 3, false, true)
FEW_ROWS_KERNEL(mc_planes_q4_paired, Q4, 2, true, false)
FEW_ROWS_KERNEL(mc_planes_q4_fast, Q4, 2, false, false)
FEW_ROWS_KERNEL(mc_planes_q4_exact, Q4, 3, false, false)
FEW_ROWS_KERNEL(mc_planes_paired, CODES, 2, true, false)
FEW_ROWS_KERNEL(mc_planes_fast, CODES, 2, false, false)
FEW_ROWS_KERNEL(mc_planes_exact, CODES, 3, false, false)
FEW_ROWS_KERNEL(mc_terms_fast, BF16, 1, false, false)
FEW_ROWS_KERNEL(mc_terms_exact, BF16, 3, false, false)
