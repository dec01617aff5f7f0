/* Weights of other schemes than MLX's: each as floats, by plain ops. */
#include <mica/nn.h>

#include <string.h>

#include "op/build.h"

/* ---- bytes and bits ---- */

/* Bytes [from, to) of each block [N, blocks, bytes]. */
static mica_array bytes_of(mica_scope *s, mica_array blocks, int64_t from, int64_t to) {
    return mica_slice_axis(s, blocks, -1, from, to);
}

/* A number that a block has, as f32 [N, blocks, 1]. */
static mica_array number(mica_scope *s, mica_array blocks, int64_t from, mica_dtype dtype) {
    int64_t to = from + (int64_t)mica_dtype_bytes(dtype);
    mica_array x = mica_view(s, mica_contiguous(s, bytes_of(s, blocks, from, to)), dtype);
    return mc_cast(s, x, MICA_F32);
}

static mica_array byte(mica_scope *s, int value) {
    return mica_scalar(s, value, MICA_U8);
}

/* (x >> shift) & mask */
static mica_array bits(mica_scope *s, mica_array x, int shift, int mask) {
    if (shift > 0) x = mica_right_shift(s, x, byte(s, shift));
    return mica_bitwise_and(s, x, byte(s, mask));
}

/* low | high << shift */
static mica_array join(mica_scope *s, mica_array low, mica_array high, int shift) {
    return mica_bitwise_or(s, low, mica_left_shift(s, high, byte(s, shift)));
}

/* x [N, blocks, n] as [N, blocks, a, b, ..]; lengths end with 0. */
static mica_array as(mica_scope *s, mica_array x, const int64_t *lengths) {
    int64_t shape[MICA_MAX_NDIM] = {mica_array_dim(x, 0), mica_array_dim(x, 1)};
    int ndim = 2;
    while (*lengths > 0)
        shape[ndim++] = *lengths++;
    return mica_reshape(s, x, shape, ndim);
}
#define AS(x, ...) as(s, x, (const int64_t[]){__VA_ARGS__, 0})

/* Bits of x [N, blocks, .., 1, n] at shifts 0, step .. of `count` rows: [.., count, n]. */
static mica_array fan(mica_scope *s, mica_array x, int count, int step, int mask) {
    mica_array at = mica_arange(s, 0, (double)(count * step), step, MICA_U8);
    x = mica_right_shift(s, x, mica_expand_dims(s, at, 1));
    return mica_bitwise_and(s, x, byte(s, mask));
}

static mica_array f32(mica_scope *s, mica_array x) {
    return mica_astype(s, x, MICA_F32);
}

/* Low nibbles, then high ones, along a new axis before the last: [.., 2, n]. */
static mica_array nibbles(mica_scope *s, mica_array x) {
    mica_array both[2] = {bits(s, x, 0, 15), bits(s, x, 4, 15)};
    return mica_stack(s, both, 2, -2);
}

/* ---- ggml's blocks: u8 [N, blocks, bytes] to f32 [N, blocks, ..] ---- */

static mica_array q4_0(mica_scope *s, mica_array x) {
    mica_array q = mica_subtract(s, f32(s, nibbles(s, bytes_of(s, x, 2, 18))), mica_f32(s, 8));
    return mica_multiply(s, AS(q, 32), number(s, x, 0, MICA_F16));
}

static mica_array codes_i8(mica_scope *s, mica_array x, int64_t from, int64_t to) {
    return f32(s, mica_view(s, mica_contiguous(s, bytes_of(s, x, from, to)), MICA_I8));
}

static mica_array q8_0(mica_scope *s, mica_array x) {
    return mica_multiply(s, codes_i8(s, x, 2, 34), number(s, x, 0, MICA_F16));
}

static mica_array q8_k(mica_scope *s, mica_array x) {
    return mica_multiply(s, codes_i8(s, x, 4, 260), number(s, x, 0, MICA_F32));
}

/* 256 codes of 2 bits, at bytes [from, from + 64): [N, blocks, 16, 16]. */
static mica_array codes_2(mica_scope *s, mica_array x, int64_t from) {
    mica_array q = AS(bytes_of(s, x, from, from + 64), 2, 1, 32);
    return AS(fan(s, q, 4, 2, 3), 16, 16);
}

/* x [N, blocks, n], a number for each row of [N, blocks, n, m]. */
static mica_array rows(mica_scope *s, mica_array x) {
    return mica_expand_dims(s, x, -1);
}

static mica_array q2_k(mica_scope *s, mica_array x) {
    mica_array scales = bytes_of(s, x, 0, 16);
    mica_array d = mica_multiply(s, f32(s, bits(s, scales, 0, 15)), number(s, x, 80, MICA_F16));
    mica_array m = mica_multiply(s, f32(s, bits(s, scales, 4, 15)), number(s, x, 82, MICA_F16));
    mica_array y = mica_multiply(s, f32(s, codes_2(s, x, 16)), rows(s, d));
    return mica_subtract(s, y, rows(s, m));
}

static mica_array q3_k(mica_scope *s, mica_array x) {
    mica_array high = fan(s, AS(bytes_of(s, x, 0, 32), 1, 32), 8, 1, 1); /* 0: minus 4 */
    mica_array q = mica_subtract(s, f32(s, codes_2(s, x, 32)), mica_f32(s, 4));
    q = mica_add(s, q, mica_multiply(s, f32(s, AS(high, 16, 16)), mica_f32(s, 4)));
    mica_array low = AS(nibbles(s, bytes_of(s, x, 96, 104)), 16);
    mica_array top = AS(fan(s, AS(bytes_of(s, x, 104, 108), 1, 4), 4, 2, 3), 16);
    mica_array scale = mica_subtract(s, f32(s, join(s, low, top, 4)), mica_f32(s, 32));
    return mica_multiply(s, q, rows(s, mica_multiply(s, scale, number(s, x, 108, MICA_F16))));
}

/* The 8 scales and 8 minima of 6 bits at bytes [4, 16) of q4_k and q5_k, times d and dmin. */
static void scales_6(mica_scope *s, mica_array x, mica_array *scale, mica_array *min) {
    mica_array a = bytes_of(s, x, 4, 8), b = bytes_of(s, x, 8, 12), c = bytes_of(s, x, 12, 16);
    mica_array scales[2] = {bits(s, a, 0, 63), join(s, bits(s, c, 0, 15), bits(s, a, 6, 3), 4)};
    mica_array mins[2] = {bits(s, b, 0, 63), join(s, bits(s, c, 4, 15), bits(s, b, 6, 3), 4)};
    *scale =
        mica_multiply(s, f32(s, mica_concatenate(s, scales, 2, -1)), number(s, x, 0, MICA_F16));
    *min = mica_multiply(s, f32(s, mica_concatenate(s, mins, 2, -1)), number(s, x, 2, MICA_F16));
}

static mica_array scaled_6(mica_scope *s, mica_array x, mica_array q) {
    mica_array scale, min;
    scales_6(s, x, &scale, &min);
    return mica_subtract(s, mica_multiply(s, f32(s, q), rows(s, scale)), rows(s, min));
}

static mica_array q4_k(mica_scope *s, mica_array x) {
    mica_array q = nibbles(s, AS(bytes_of(s, x, 16, 144), 4, 32));
    return scaled_6(s, x, AS(q, 8, 32));
}

static mica_array q5_k(mica_scope *s, mica_array x) {
    mica_array q = AS(nibbles(s, AS(bytes_of(s, x, 48, 176), 4, 32)), 8, 32);
    mica_array high = fan(s, AS(bytes_of(s, x, 16, 48), 1, 32), 8, 1, 1);
    return scaled_6(s, x, join(s, q, high, 4));
}

static mica_array q6_k(mica_scope *s, mica_array x) {
    mica_array q = AS(nibbles(s, AS(bytes_of(s, x, 0, 128), 2, 64)), 2, 4, 32);
    q = join(s, q, fan(s, AS(bytes_of(s, x, 128, 192), 2, 1, 32), 4, 2, 3), 4);
    q = mica_subtract(s, f32(s, AS(q, 16, 16)), mica_f32(s, 32));
    mica_array scale = mica_multiply(s, codes_i8(s, x, 192, 208), number(s, x, 208, MICA_F16));
    return mica_multiply(s, q, rows(s, scale));
}

/* ---- schemes ---- */

typedef struct block_scheme {
    mica_weight_scheme scheme;
    const char *name;
    int64_t bytes, elements;
    mica_array (*decode)(mica_scope *s, mica_array blocks);
} block_scheme;

static const block_scheme block_schemes[] = {
    {MICA_WEIGHT_Q4_0, "q4_0", 18, 32, q4_0},   {MICA_WEIGHT_Q8_0, "q8_0", 34, 32, q8_0},
    {MICA_WEIGHT_Q2_K, "q2_k", 84, 256, q2_k},  {MICA_WEIGHT_Q3_K, "q3_k", 110, 256, q3_k},
    {MICA_WEIGHT_Q4_K, "q4_k", 144, 256, q4_k}, {MICA_WEIGHT_Q5_K, "q5_k", 176, 256, q5_k},
    {MICA_WEIGHT_Q6_K, "q6_k", 210, 256, q6_k}, {MICA_WEIGHT_Q8_K, "q8_k", 292, 256, q8_k},
};

static mica_array refuse(mica_scope *s, mica_status status, const char *what, mica_array x) {
    char text[MC_LAYOUT_TEXT];
    return mc_scope_fail(s, status, "weight_dequantize: %s is %s", what,
                         x.scope ? mc_layout_text(mc_layout_of(x), text) : "absent");
}

/* Rows of blocks, u8 [N, bytes], to [K, N]. */
static mica_array from_blocks(mica_scope *s, mica_array codes, const block_scheme *b) {
    const mc_layout *l = mc_layout_of(codes);
    if (l->dtype != MICA_U8) return refuse(s, MICA_EDTYPE, "the array of blocks, not u8,", codes);
    if (l->ndim != 2 || mc_dim_mod(l->shape[1], b->bytes) != 0)
        return refuse(s, MICA_ESHAPE, "rows of whole blocks are needed: the array", codes);
    int64_t n = l->shape[0], blocks = mc_dim_div(l->shape[1], b->bytes);
    const int64_t parts[3] = {n, blocks, b->bytes}, flat[2] = {n, mc_dim_mul(blocks, b->elements)};
    if (n == 0 || blocks == 0) return mica_transpose(s, mica_zeros(s, flat, 2, MICA_F32), NULL);
    mica_array y = b->decode(s, mica_reshape(s, codes, parts, 3));
    return mica_transpose(s, mica_reshape(s, y, flat, 2), NULL);
}

/* q [K, N] f32, with a scale [K / b, N], and a zero point or none, for every b rows. */
static mica_array from_scaled(mica_scope *s, mica_array q, const mica_weight *w) {
    if (!w->scale.scope || !mica_dtype_is_float(mica_array_dtype(w->scale)))
        return refuse(s, MICA_EDTYPE, "the scale", w->scale);
    int64_t k = mica_array_dim(q, 0), n = mica_array_dim(q, 1),
            groups = mica_array_dim(w->scale, 0);
    if (mica_array_ndim(w->scale) != 2 || mica_array_dim(w->scale, 1) != n ||
        (groups == 0 ? k != 0 : mc_dim_mod(k, groups) != 0))
        return refuse(s, MICA_ESHAPE, "the scale", w->scale);
    if (w->zero_point.scope &&
        !mc_layout_same_shape(mc_layout_of(w->zero_point), mc_layout_of(w->scale)))
        return refuse(s, MICA_ESHAPE, "the zero point", w->zero_point);
    if (k == 0) return q;
    const int64_t parts[3] = {groups, mc_dim_div(k, groups), n}, flat[2] = {k, n};
    mica_array y = mica_reshape(s, q, parts, 3);
    if (w->zero_point.scope)
        y = mica_subtract(s, y, mica_expand_dims(s, mc_cast(s, w->zero_point, MICA_F32), 1));
    y = mica_multiply(s, y, mica_expand_dims(s, mc_cast(s, w->scale, MICA_F32), 1));
    return mica_reshape(s, y, flat, 2);
}

/* Two codes a byte along N, the low one first: 0 to 15, or without a zero point -8 to 7. */
static mica_array unpack_int4(mica_scope *s, mica_array codes, bool is_signed) {
    mica_array both[2] = {bits(s, codes, 0, 15), bits(s, codes, 4, 15)};
    mica_array q = f32(s, mica_flatten(s, mica_stack(s, both, 2, -1), -2, -1));
    if (!is_signed) return q;
    mica_array high = mica_greater(s, q, mica_f32(s, 7));
    return mica_where(s, high, mica_subtract(s, q, mica_f32(s, 16)), q);
}

/* The upper byte of an f16. */
static mica_array from_e5m2(mica_scope *s, mica_array codes) {
    mica_array half =
        mica_left_shift(s, mica_astype(s, codes, MICA_U16), mica_scalar(s, 8, MICA_U16));
    return f32(s, mica_view(s, half, MICA_F16));
}

mica_array mica_weight_dequantize(mica_scope *s, const mica_weight *w) {
    if (!w) return mc_scope_fail(s, MICA_EINVAL, "weight_dequantize: NULL");
    mica_array codes = w->codes;
    if (!mc_operands_ok(s, "weight_dequantize", &codes, 1)) return mc_invalid(s);
    for (size_t i = 0; i < sizeof block_schemes / sizeof *block_schemes; i++)
        if (block_schemes[i].scheme == w->scheme) return from_blocks(s, codes, &block_schemes[i]);
    mica_dtype wanted = w->scheme == MICA_WEIGHT_INT8    ? MICA_I8
                        : w->scheme == MICA_WEIGHT_NVFP4 ? MICA_U32
                                                         : MICA_U8;
    if (mica_array_dtype(codes) != wanted)
        return refuse(s, MICA_EDTYPE, "the array of codes", codes);
    if (mica_array_ndim(codes) != 2) return refuse(s, MICA_ESHAPE, "the array of codes", codes);
    switch (w->scheme) {
    case MICA_WEIGHT_INT8:
        return from_scaled(s, f32(s, codes), w);
    case MICA_WEIGHT_INT4:
        return from_scaled(s, unpack_int4(s, codes, !w->zero_point.scope), w);
    case MICA_WEIGHT_E4M3:
        return mica_from_fp8(s, codes, MICA_F32);
    case MICA_WEIGHT_E5M2:
        return from_e5m2(s, codes);
    case MICA_WEIGHT_NVFP4: {
        const mica_quant quant = {MICA_QUANT_NVFP4, 4, 16};
        mica_array y = mica_dequantize(s, codes, w->scale, MICA_NONE, quant, MICA_F32);
        if (w->global.scope) y = mica_multiply(s, y, mc_cast(s, w->global, MICA_F32));
        return mica_transpose(s, y, NULL);
    }
    default:
        return mc_scope_fail(s, MICA_EINVAL, "weight_dequantize: no scheme %d", (int)w->scheme);
    }
}

mica_array mica_dequant_matmul(mica_scope *s, mica_array x, const mica_weight *w) {
    if (!mc_operands_ok(s, "dequant_matmul", &x, 1)) return mc_invalid(s);
    mica_dtype dtype = mica_array_dtype(x);
    return mc_cast(s, mica_matmul(s, x, mica_weight_dequantize(s, w)), dtype);
}
