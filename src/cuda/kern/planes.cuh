/* Products of integers: codes of weights with activations as byte planes, on tensor cores.
 *
 * A group is 64 numbers of a row where codes are affine ones of 4 bits in groups of 64 or more,
 * else 32. The products of a group are summed in integers, which have no order, then
 *
 *     sum += s sx (2^8 hi + lo) + b X
 *
 * with the weights' scale and bias s and b, and the activations' scale sx and sum X. A unit is
 * eight groups, added up from 0 one after the other; the sum of a row is that of its units, one
 * after the other. So a row's bits depend neither on the rows beside it nor on who multiplies them.
 *
 * Weights of bf16 are multiplied by x as one term of bf16, or three, whose sum it is; a unit is 128
 * numbers, the products of 16 of which a tensor core adds to the sum at once, the smallest term's
 * first. */
#ifndef CUDA_KERN_PLANES_CUH
#define CUDA_KERN_PLANES_CUH

#include "cuda/kern/quant.cuh"
#include "cuda/kern/warp.cuh"

namespace planes {

enum { UNIT_GROUPS = MC_CUDA_UNIT_GROUPS, SCALE_PITCH = 16 };

/* Eight codes: the even and the odd ones, a byte each. */
typedef struct octet {
    uint32_t even, odd;
} octet;

static __device__ inline octet octet_of_q4(uint32_t w) {
    octet o = {w & 0x0f0f0f0fu, w >> 4 & 0x0f0f0f0fu};
    return o;
}

/* Twice the magnitudes of e2m1, less those of negative codes, and 12: 0 to 24. */
static __device__ inline octet octet_of_e2m1(uint32_t w) {
    uint32_t low = w & 0x7777u, high = w >> 16 & 0x7777u;
    uint32_t up0 = permute_bytes(0x0f0e0d0cu, 0x18141210u, low);
    uint32_t up1 = permute_bytes(0x0f0e0d0cu, 0x18141210u, high);
    uint32_t down0 = permute_bytes(0x090a0b0cu, 0x00040608u, low);
    uint32_t down1 = permute_bytes(0x090a0b0cu, 0x00040608u, high);
    uint32_t even = permute_bytes(w << 4, 0, 0xba98u), odd = permute_bytes(w, 0, 0xba98u);
    octet o;
    o.even =
        (permute_bytes(up0, up1, 0x6420) & ~even) | (permute_bytes(down0, down1, 0x6420) & even);
    o.odd = (permute_bytes(up0, up1, 0x7531) & ~odd) | (permute_bytes(down0, down1, 0x7531) & odd);
    return o;
}

/* Codes of any number of bits. */
static __device__ inline octet octet_of_bits(const uint8_t *bytes, int bits) {
    if (bits == 8) {
        uint2 w = *(const uint2 *)bytes;
        octet o = {permute_bytes(w.x, w.y, 0x6420), permute_bytes(w.x, w.y, 0x7531)};
        return o;
    }
    if (bits == 4) return octet_of_q4(*(const uint32_t *)bytes);
    u64 all = 0;
    for (int i = 0; i < bits; i++)
        all |= (u64)bytes[i] << (8 * i);
    uint32_t mask = (1u << bits) - 1u;
    octet o = {0, 0};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        o.even |= ((uint32_t)(all >> (2 * i * bits)) & mask) << (8 * i);
        o.odd |= ((uint32_t)(all >> ((2 * i + 1) * bits)) & mask) << (8 * i);
    }
    return o;
}

/* a: mc_cuda_planes_matmul, or another struct that says of what form weights are. */
template <typename T> static __device__ inline octet octet_at(const T &a, const uint8_t *bytes) {
    return a.mode == MC_CUDA_MXFP4 ? octet_of_e2m1(*(const uint32_t *)bytes)
                                   : octet_of_bits(bytes, a.bits);
}

/* ---- scales and biases of a row in a unit, in 16 bytes each ---- */

/* Four halves to floats. */
static __device__ inline void widen4(uint32_t x, uint32_t y, int is_f16, float *to) {
    if (is_f16) {
        to[0] = f16_to_f32((uint16_t)x);
        to[1] = f16_to_f32((uint16_t)(x >> 16));
        to[2] = f16_to_f32((uint16_t)y);
        to[3] = f16_to_f32((uint16_t)(y >> 16));
        return;
    }
    to[0] = bits_to_f32(x << 16);
    to[1] = bits_to_f32(x & 0xffff0000u);
    to[2] = bits_to_f32(y << 16);
    to[3] = bits_to_f32(y & 0xffff0000u);
}

/* One that 2^spread groups share, for each of them. */
static __device__ inline uint4 spread_halves(uint4 v, int spread) {
    uint4 w = v;
    if (spread >= 1) {
        w.x = permute_bytes(v.x, 0, 0x1010);
        w.y = permute_bytes(v.x, 0, 0x3232);
        w.z = permute_bytes(v.y, 0, 0x1010);
        w.w = permute_bytes(v.y, 0, 0x3232);
    }
    if (spread == 2) {
        w.z = w.w = w.y;
        w.y = w.x;
    }
    return w;
}

/* Of groups 4h to 4h + 3. v, w: a row's scales and biases. WHOLE: of affine weights, each group its
 * own. */
template <bool WHOLE, typename T>
static __device__ inline void scales_of(const T &a, uint4 v, uint4 w, int h, float *scale,
                                        float *bias) {
    if (!WHOLE && a.mode == MC_CUDA_MXFP4) {
        uint32_t codes = h ? v.y : v.x;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            scale[i] = from_e8m0(codes >> (8 * i) & 255u) * 0.5f;
            bias[i] = scale[i] * -12.0f;
        }
        return;
    }
    if (!WHOLE && a.spread > 0) {
        v = spread_halves(v, a.spread);
        w = spread_halves(w, a.spread);
    }
    widen4(h ? v.z : v.x, h ? v.w : v.y, a.scale_is_f16, scale);
    widen4(h ? w.z : w.x, h ? w.w : w.y, a.scale_is_f16, bias);
}

/* The sums of planes as one number: lower planes have a 256th of the weight. */
template <int PLANES> static __device__ inline float joined(float hi, float mid, float lo) {
    return PLANES == 2 ? fmaf(256.0f, hi, mid) : fmaf(256.0f, fmaf(256.0f, hi, mid), lo);
}

/* What weights are: affine codes of 4 bits in groups of 64 or more, other codes, or bf16. */
enum { Q4, CODES, BF16 };

/* GROUP: columns; X_BYTES: of them in a plane. */
template <int FORMAT> struct unit_of {
    enum {
        GROUPS = FORMAT == BF16 ? 4 : UNIT_GROUPS,
        GROUP = FORMAT == Q4 ? 64 : 32,
        COLUMNS = GROUPS * GROUP,
        X_BYTES = FORMAT == CODES ? 32 : 64
    };
};

template <int FORMAT> static __device__ inline int bits_of(const mc_cuda_planes_matmul &a) {
    return FORMAT == Q4 ? 4 : FORMAT == BF16 ? 16 : a.bits;
}

/* ---- where things lie ---- */

/* The matrix of a tile of the grid, which has so many rows of it; of which batch, and the first. */
typedef struct tile_place {
    const mc_cuda_planes_matrix *matrix;
    i64 batch, row;
} tile_place;

static __device__ inline tile_place place_of(const mc_cuda_planes_matmul &a, i64 tile,
                                             int tile_rows) {
    tile_place p;
    p.batch = a.batches > 1 ? tile / a.tiles : 0;
    int t = (int)(tile - p.batch * a.tiles), i = a.n_matrices - 1;
    while (i > 0 && t < a.matrices[i].first_tile)
        i--;
    p.matrix = &a.matrices[i];
    p.row = (i64)(t - p.matrix->first_tile) * tile_rows;
    return p;
}

/* A batch's matrix of x or of w that an index picks. */
static __device__ inline i64 picked(const mc_cuda_planes_matmul &a, const mc_cuda_view &index,
                                    i64 batch, i64 count) {
    i64 at = place(batch, a.ndim, a.shape, index.strides);
    i64 found = resolve(index, at, count, a.op, 0, a.fault);
    return found < 0 ? 0 : found;
}

static __device__ inline i64 x_matrix_of(const mc_cuda_planes_matmul &a, i64 batch) {
    return a.lhs.is_there ? picked(a, a.lhs, batch, a.lhs_count) : batch / a.each;
}

/* Where a batch's codes and scales begin, in bytes. */
typedef struct weights_place {
    i64 codes, scales;
} weights_place;

static __device__ inline weights_place weights_of(const mc_cuda_planes_matmul &a, i64 batch) {
    weights_place p = {0, 0};
    if (a.rhs.is_there) {
        i64 i = picked(a, a.rhs, batch, a.rhs_count);
        p.codes = i * a.w_strides[0];
        p.scales = i * a.scale_strides[0];
    } else if (a.batches > 1) {
        p.codes = place(batch, a.ndim, a.shape, a.w_strides);
        p.scales = place(batch, a.ndim, a.shape, a.scale_strides);
    }
    return p;
}

/* ---- copies to shared memory ---- */

template <int WIDTH>
static __device__ inline void copy_pieces(unsigned char *to, const char *from, int first, int step,
                                          int bytes, i64 there) {
#pragma unroll 1
    for (int at = first * WIDTH; at < bytes; at += step * WIDTH)
        copy_async<WIDTH>(to + at, at < there ? from + at : from, at < there);
}

/* `bytes` to shared memory, of which the first `there` exist, by lanes first, first + step ... */
static __device__ inline void copy_bytes(unsigned char *to, const char *from, int width, int first,
                                         int step, int bytes, i64 there) {
    if (width == 16)
        copy_pieces<16>(to, from, first, step, bytes, there);
    else if (width == 8)
        copy_pieces<8>(to, from, first, step, bytes, there);
    else if (width == 4)
        copy_pieces<4>(to, from, first, step, bytes, there);
    else
#pragma unroll 1
        for (int at = first; at < bytes; at += step) /* seen by others once the copies are */
            to[at] = at < there ? (unsigned char)from[at] : 0;
}

} // namespace planes

#endif
