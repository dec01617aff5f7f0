/* What ops do to a row, or an element of one, alone or in a chain of ops (rows.cu): norms, RoPE,
 * q8, copies. The bits are the same wherever it is done. */
#ifndef CUDA_KERN_ROW_CUH
#define CUDA_KERN_ROW_CUH

#include "cuda/kern/element.cuh"

enum { ROW_LANES = 32, NORM_THREADS = 256, NORM_WARPS = NORM_THREADS / ROW_LANES };
enum { WARP_ROW = 512 }; /* numbers that are normed by a warp; more by a block */

/* ---- norms: sums in f64 ---- */

/* Of all lanes, for each. */
static __device__ inline double sum_of_warp(double x) {
    for (int half = ROW_LANES / 2; half > 0; half /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, half);
    return x;
}

/* A long row's sum: four numbers that follow each other, a lane's, then 128 of them by a warp, then
 * those of every 32nd 128, one after the other, then all of these by a warp. */
enum { OF_LANE = 4, OF_WARP = OF_LANE * ROW_LANES };

static __device__ inline float number_of_row(const mc_cuda_norm &a, i64 base, i64 i) {
    return load_f32(a.x.dtype, data_of(a.x), base + i * a.x.strides[a.ndim]);
}

/* A number less the mean, squared; or, without a mean, as it is. */
static __device__ inline double term_of_row(const mc_cuda_norm &a, i64 base, const float *mean,
                                            i64 i) {
    float x = number_of_row(a, base, i);
    if (!mean) return (double)x;
    x -= *mean;
    return (double)x * (double)x;
}

static __device__ inline double sum_by_warp(const mc_cuda_norm &a, i64 base, const float *mean) {
    double sum = 0;
    for (i64 i = threadIdx.x % ROW_LANES; i < a.d; i += ROW_LANES)
        sum += term_of_row(a, base, mean, i);
    return sum_of_warp(sum);
}

/* By NORM_THREADS threads, for each. *use counts the calls. */
static __device__ inline double sum_by_block(const mc_cuda_norm &a, i64 base, const float *mean,
                                             double (*partial)[ROW_LANES], int *use) {
    int lane = threadIdx.x % ROW_LANES, warp = threadIdx.x / ROW_LANES;
    double *shared = partial[*use];
    *use ^= 1; /* the other one is read till the next barrier but one */
    if (lane == 0)
        for (int c = warp; c < ROW_LANES; c += NORM_WARPS)
            shared[c] = 0;
    for (i64 c = warp; c * OF_WARP < a.d; c += NORM_WARPS) {
        i64 first = c * OF_WARP + lane * OF_LANE;
        double sum = 0;
        for (int e = 0; e < OF_LANE; e++)
            if (first + e < a.d) sum += term_of_row(a, base, mean, first + e);
        sum = sum_of_warp(sum);
        if (lane == 0) shared[c % ROW_LANES] += sum;
    }
    __syncthreads();
    return sum_of_warp(shared[lane]);
}

static __device__ inline void scale_row(const mc_cuda_norm &a, i64 row, i64 base, float mean,
                                        double squares, i64 first, i64 step) {
    float scale = (float)rsqrt(squares / (double)a.d + a.eps);
    for (i64 i = first; i < a.d; i += step) {
        float x = (number_of_row(a, base, i) - mean) * scale;
        if (a.weight.is_there)
            x *= load_f32(a.weight.dtype, data_of(a.weight), i * a.weight.strides[0]);
        if (a.bias.is_there) x += load_f32(a.bias.dtype, data_of(a.bias), i * a.bias.strides[0]);
        store_f32(a.out.dtype, a.out.data, row * a.d + i, x);
    }
}

static __device__ inline void norm_by_warp(const mc_cuda_norm &a, i64 row) {
    i64 base = place(row, a.ndim, a.shape, a.x.strides);
    int lane = threadIdx.x % ROW_LANES;
    float mean = 0;
    if (a.centred) mean = (float)(sum_by_warp(a, base, NULL) / (double)a.d);
    double squares = sum_by_warp(a, base, &mean);
    scale_row(a, row, base, mean, squares, lane, ROW_LANES);
}

static __device__ inline void norm_by_block(const mc_cuda_norm &a, i64 row,
                                            double (*partial)[ROW_LANES], int *use) {
    i64 base = place(row, a.ndim, a.shape, a.x.strides);
    int thread = threadIdx.x;
    float mean = 0;
    if (a.centred) mean = (float)(sum_by_block(a, base, NULL, partial, use) / (double)a.d);
    double squares = sum_by_block(a, base, &mean, partial, use);
    scale_row(a, row, base, mean, squares, thread, NORM_THREADS);
}

/* ---- RoPE: angles are computed and reduced to [-pi, pi] in f64 ---- */

#define TURN 6.283185307179586476925

/* Sine and cosine of an angle; sinf and cosf would bring the code for large ones, too. */
static __device__ inline void turn(double angle, float *s, float *c) {
    double turns = angle * (1.0 / TURN);
    sincospif((float)(2.0 * (turns - rint(turns))), s, c);
}

/* What a position is multiplied by for the angle of pair j. */
template <typename T> static __device__ inline double rate_of(const T &a, i64 j) {
    if (a.freqs.is_there)
        return a.scale / (double)load_f32(a.freqs.dtype, data_of(a.freqs), j * a.freqs.strides[0]);
    return a.rates ? a.rates[j] : a.scale * pow(a.base, -(double)j / (double)a.half);
}

/* A row [d], by a warp. */
static __device__ inline void rotate_row(const mc_cuda_rope &a, i64 row) {
    i64 last = a.x.strides[a.ndim], base = place(row, a.ndim, a.shape, a.x.strides);
    i64 to = row * a.d, batch = row;
    for (int k = a.ndim - 1; k > 0; k--)
        batch /= a.shape[k];
    i64 position =
        row % a.length + load_i64(a.offset.dtype, data_of(a.offset), batch * a.offset.strides[0]);
    for (i64 j = threadIdx.x % ROW_LANES; j < a.half; j += ROW_LANES) {
        float c, s;
        turn((double)position * rate_of(a, j), &s, &c);
        i64 at = a.traditional ? 2 * j : j, other = a.traditional ? 2 * j + 1 : j + a.half;
        float x = load_f32(a.x.dtype, data_of(a.x), base + at * last);
        float y = load_f32(a.x.dtype, data_of(a.x), base + other * last);
        store_f32(a.out.dtype, a.out.data, to + at, x * c - y * s);
        store_f32(a.out.dtype, a.out.data, to + other, x * s + y * c);
    }
    for (i64 i = 2 * a.half + threadIdx.x % ROW_LANES; i < a.d; i += ROW_LANES)
        store_f32(a.out.dtype, a.out.data, to + i,
                  load_f32(a.x.dtype, data_of(a.x), base + i * last));
}

/* ---- q8: a thread a group of 32 numbers, or a number ---- */

/* The codes of a group, by the bf16 scale above its largest magnitude / 127. */
static __device__ inline void narrow_group(const mc_cuda_q8 &a, i64 from, i64 stride, i64 count,
                                           uint8_t *codes, uint8_t *scale_at) {
    uint32_t max = 0; /* the largest magnitude, as bits: NaN is above infinity */
    for (i64 i = 0; i < count; i++) {
        uint32_t size = __float_as_uint(load_f32(a.x.dtype, data_of(a.x), from + i * stride));
        size &= 0x7fffffffu;
        max = size > max ? size : max;
    }
    uint32_t up = __float_as_uint(bits_to_f32(max) * (1.0f / 127.0f)) + 0xffffu;
    float scale = bits_to_f32(up & 0xffff0000u);
    bool none = max >= 0x7f800000u || scale < 7.52316385e-37f;
    float inverse = 1.0f / scale;
    for (i64 i = 0; i < count; i++) { /* to the nearest, ties to even */
        float x = load_f32(a.x.dtype, data_of(a.x), from + i * stride);
        codes[i] =
            none ? 0 : (uint8_t)__float_as_uint(__fadd_rn(__fmul_rn(x, inverse), 12582912.0f));
    }
    uint32_t bits = max >= 0x7f800000u ? 0x7fc0u : none ? 0 : up >> 16;
    scale_at[0] = (uint8_t)bits;
    scale_at[1] = (uint8_t)(bits >> 8);
}

/* Group j of a row, or number j. */
static __device__ inline void convert_q8(const mc_cuda_q8 &a, i64 row, i64 j) {
    i64 groups = (a.d + 31) / 32, scales = (a.d + 3) / 4 * 4, last = a.x.strides[a.ndim];
    i64 from = place(row, a.ndim, a.shape, a.x.strides);
    if (!a.narrows) {
        const uint8_t *x = (const uint8_t *)data_of(a.x) + from;
        store_f32(a.out.dtype, a.out.data, row * a.d + j, q8_at(x, last, a.d, j));
        return;
    }
    uint8_t *to = (uint8_t *)a.out.data + row * a.bytes;
    i64 count = a.d - j * 32 < 32 ? a.d - j * 32 : 32;
    narrow_group(a, from + j * 32 * last, last, count, to + j * 32, to + scales + 2 * j);
    if (j + 1 < groups) return;
    for (i64 k = a.d; k < scales; k++) /* zeros up to the scales, and behind them */
        to[k] = 0;
    for (i64 k = scales + 2 * groups; k < a.bytes; k++)
        to[k] = 0;
}

/* ---- copies ---- */

/* Where a copy begins in the result; false: it does not fit. */
template <typename T> static __device__ inline bool find_start(const T &a, i64 *first) {
    *first = 0;
    if (!a.start.is_there) return true;
    i64 start = load_i64(a.start.dtype, data_of(a.start), 0);
    *first = start * a.start_stride;
    if (start >= 0 && start <= a.length - a.count) return true;
    fail(a.fault, MC_CUDA_BAD_START, a.op, a.axis, start, a.length, a.count);
    return false;
}

static __device__ inline void copy_element(const mc_cuda_copy &a, i64 first, i64 i) {
    copy_item(a.item, a.out.data, first + place(i, a.ndim, a.shape, a.out.strides), data_of(a.in),
              place(i, a.ndim, a.shape, a.in.strides));
}

/* Element i of rows for a pool. */
static __device__ inline void write_kv(const mc_cuda_kv_write &a, i64 i) {
    i64 at[4];
    for (int k = 3; k > 0; k--) {
        at[k] = i % a.shape[k];
        i /= a.shape[k];
    }
    at[0] = i;
    i64 found = load_i64(a.slots.dtype, data_of(a.slots),
                         at[0] * a.slots.strides[0] + at[2] * a.slots.strides[1]);
    i64 slot = found < 0 ? found + a.slots_in_pool : found;
    if (slot < 0 || slot >= a.slots_in_pool) {
        fail(a.fault, MC_CUDA_BAD_SLOT, a.op, 0, found, a.slots_in_pool, 0);
        return;
    }
    i64 to = at[1] * a.pool.strides[0] + slot / a.entries * a.pool.strides[1] +
             slot % a.entries * a.pool.strides[2] + at[3] * a.pool.strides[3];
    i64 from = 0;
    for (int k = 0; k < 4; k++)
        from += at[k] * a.x.strides[k];
    copy_item(a.item, a.pool.data, to, data_of(a.x), from);
}

/* ---- rows of a block ---- */

enum { ROW_THREADS = NORM_THREADS, ROW_WARPS = ROW_THREADS / ROW_LANES };

/* Rows that a warp has are `turns` warps further on, so that ops behind each other without a
 * barrier keep all warps busy. */
#define FOR_ROWS_OF_WARPS(i, n, turns)                                                         \
    for (i64 i = ((int)threadIdx.x / ROW_LANES + ROW_WARPS - (turns) % ROW_WARPS) % ROW_WARPS; \
         i < (n); i += ROW_WARPS)

#endif
