/* Quantised weights: quantize, dequantize, quantized_matmul. */
#include <mica/ops.h>

#include <string.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/gradient.h"
#include "op/quant.h"
#include "op/work.h"

/* ---- formats ---- */

static bool one_of(int64_t x, const int *values, int n) {
    for (int i = 0; i < n; i++)
        if (values[i] == x) return true;
    return false;
}

static mica_status check_format(const char *op, int64_t mode, int64_t bits, int64_t group) {
    static const int affine_bits[] = {2, 3, 4, 5, 6, 8}, affine_groups[] = {32, 64, 128};
    switch (mode) {
    case MICA_QUANT_AFFINE:
        if (!one_of(bits, affine_bits, 6) || !one_of(group, affine_groups, 3))
            return mc_fail(MICA_EINVAL,
                           "%s: affine with %lld bits and groups of %lld: bits are 2 3 4 5 "
                           "6 8, groups 32 64 128",
                           op, (long long)bits, (long long)group);
        return MICA_OK;
    case MICA_QUANT_MXFP4:
    case MICA_QUANT_MXFP8:
        if (bits != (mode == MICA_QUANT_MXFP4 ? 4 : 8) || group != 32)
            return mc_fail(MICA_EINVAL, "%s: %s with %lld bits and groups of %lld: has %d and 32",
                           op, mode == MICA_QUANT_MXFP4 ? "mxfp4" : "mxfp8", (long long)bits,
                           (long long)group, mode == MICA_QUANT_MXFP4 ? 4 : 8);
        return MICA_OK;
    case MICA_QUANT_NVFP4:
        if (bits != 4 || group != 16)
            return mc_fail(MICA_EINVAL, "%s: nvfp4 with %lld bits and groups of %lld: has 4 and 16",
                           op, (long long)bits, (long long)group);
        return MICA_OK;
    }
    return mc_fail(MICA_EINVAL, "%s: quantisation mode %lld is unknown", op, (long long)mode);
}

/* Checks codes [..., R, W] with scales (and biases) [..., R, W * 32 / bits / group]. *width
 * receives the number of codes in a row. */
static mica_status check_weights(const char *op, const mc_attr_quant *a, const mc_layout *codes,
                                 const mc_layout *scales, const mc_layout *biases, int64_t *width) {
    char text_c[MC_LAYOUT_TEXT], text_s[MC_LAYOUT_TEXT], text_b[MC_LAYOUT_TEXT];
    MC_TRY(check_format(op, a->mode, a->bits, a->group_size));
    bool affine = a->mode == MICA_QUANT_AFFINE;
    if (codes->dtype != MICA_U32)
        return mc_fail(MICA_EDTYPE, "%s: codes are %s, not u32", op, mc_layout_text(codes, text_c));
    if (affine ? !mica_dtype_is_float(scales->dtype) : scales->dtype != MICA_U8)
        return mc_fail(MICA_EDTYPE, "%s: scales are %s: must be %s", op,
                       mc_layout_text(scales, text_s), affine ? "floats" : "u8");
    if (affine != (biases != NULL))
        return mc_fail(MICA_EINVAL, "%s: biases belong to affine quantisation, and only there", op);
    if (codes->ndim < 1 || codes->ndim != scales->ndim)
        return mc_fail(MICA_ESHAPE, "%s: codes %s and scales %s do not fit", op,
                       mc_layout_text(codes, text_c), mc_layout_text(scales, text_s));
    int last = codes->ndim - 1;
    if (mc_dim_less(INT64_MAX / 32, codes->shape[last]))
        return mc_fail(MICA_ESHAPE, "%s: rows of codes %s are too long", op,
                       mc_layout_text(codes, text_c));
    int64_t bits = mc_dim_mul(codes->shape[last], 32);
    *width = mc_dim_div(bits, a->bits);
    bool fits = mc_dim_mod(bits, a->bits) == 0 && mc_dim_mod(*width, a->group_size) == 0 &&
                mc_dim_may_equal(scales->shape[last], mc_dim_div(*width, a->group_size));
    for (int i = 0; i < last; i++)
        fits = fits && codes->shape[i] == scales->shape[i];
    if (!fits)
        return mc_fail(MICA_ESHAPE,
                       "%s: codes %s and scales %s do not fit %lld bits in groups of "
                       "%lld",
                       op, mc_layout_text(codes, text_c), mc_layout_text(scales, text_s),
                       (long long)a->bits, (long long)a->group_size);
    if (biases && (biases->dtype != scales->dtype || !mc_layout_same_shape(biases, scales)))
        return mc_fail(MICA_ESHAPE, "%s: scales %s and biases %s differ", op,
                       mc_layout_text(scales, text_s), mc_layout_text(biases, text_b));
    return MICA_OK;
}

/* ---- dequantize: codes, scales, biases ---- */

static mica_status dequantize_infer(const void *attr, const mc_layout *const *in, int n_in,
                                    mc_layout *out) {
    (void)n_in;
    const mc_attr_quant *a = attr;
    int64_t width;
    MC_TRY(check_weights("dequantize", a, in[0], in[1], in[2], &width));
    int64_t dtype = in[2] ? (int64_t)in[1]->dtype : a->dtype;
    if (dtype < MICA_F16 || dtype > MICA_F32)
        return mc_fail(MICA_EDTYPE, "dequantize: to %s, which is not a float",
                       mica_dtype_name((mica_dtype)dtype));
    int64_t shape[MICA_MAX_NDIM];
    memcpy(shape, in[0]->shape, sizeof shape);
    shape[in[0]->ndim - 1] = width;
    return mc_layout_init(out, (mica_dtype)dtype, shape, in[0]->ndim);
}

/* Unpacks codes [..., W] to numbers u32 [..., W * 32 / bits]. */
static mica_array unpack_codes(mica_scope *s, mica_array codes, int bits) {
    mica_array shifts;
    if (32 % bits == 0) {
        shifts = mica_arange(s, 0, 32, bits, MICA_U32);
        codes = mica_right_shift(s, mica_expand_dims(s, codes, -1), shifts);
        mica_array mask = mica_scalar(s, (double)((1u << bits) - 1u), MICA_U32);
        return mica_flatten(s, mica_bitwise_and(s, codes, mask), -2, -1);
    }
    /* Codes cross the ends of words: split the words into bits, and join `bits` of them. */
    mica_array one = mica_scalar(s, 1, MICA_U32);
    shifts = mica_arange(s, 0, 32, 1, MICA_U32);
    mica_array stream = mica_right_shift(s, mica_expand_dims(s, codes, -1), shifts);
    stream = mica_flatten(s, mica_bitwise_and(s, stream, one), -2, -1);
    int64_t split[2] = {mc_dim_div(mica_array_dim(stream, -1), bits), bits};
    stream = mica_unflatten(s, stream, -1, split, 2);
    stream = mica_left_shift(s, stream, mica_arange(s, 0, bits, 1, MICA_U32));
    const int last = -1;
    return mica_sum(s, stream, &last, 1, false);
}

/* Converts E2M1 codes to f32. A code shifted two bits up, sign aside, is the E4M3 byte of 2^-6
 * times its value. */
static mica_array from_e2m1(mica_scope *s, mica_array codes) {
    mica_array sign = mica_bitwise_and(s, codes, mica_scalar(s, 8, MICA_U32));
    mica_array rest = mica_bitwise_and(s, codes, mica_scalar(s, 7, MICA_U32));
    sign = mica_left_shift(s, sign, mica_scalar(s, 4, MICA_U32));
    rest = mica_left_shift(s, rest, mica_scalar(s, 2, MICA_U32));
    mica_array bytes = mc_cast(s, mica_bitwise_or(s, sign, rest), MICA_U8);
    return mica_multiply(s, mica_from_fp8(s, bytes, MICA_F32), mica_f32(s, 64));
}

/* Converts E8M0 bytes to f32: 2^(byte - 127); 255 is NaN. Bytes 1 to 254 are an f32's exponent
 * bits. */
static mica_array from_e8m0(mica_scope *s, mica_array bytes) {
    mica_array smallest = mica_scalar(s, 0x00400000, MICA_U32); /* 2^-127 */
    mica_array nan = mica_scalar(s, 0x7fc00000, MICA_U32);
    bytes = mc_cast(s, bytes, MICA_U32);
    mica_array bits = mica_left_shift(s, bytes, mica_scalar(s, 23, MICA_U32));
    bits = mica_where(s, mica_equal(s, bytes, mica_scalar(s, 0, MICA_U32)), smallest, bits);
    bits = mica_where(s, mica_equal(s, bytes, mica_scalar(s, 255, MICA_U32)), nan, bits);
    return mica_view(s, bits, MICA_F32);
}

static void dequantize_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                                 mica_array *out) {
    (void)n_in;
    const mc_attr_quant *a = attr;
    mica_dtype dtype =
        a->mode == MICA_QUANT_AFFINE ? mica_array_dtype(in[1]) : (mica_dtype)a->dtype;
    mica_array codes = unpack_codes(s, in[0], (int)a->bits);
    int64_t split[2] = {mica_array_dim(in[1], -1), a->group_size};
    codes = mica_unflatten(s, codes, -1, split, 2);
    mica_array y, scales;
    switch ((mica_quant_mode)a->mode) {
    case MICA_QUANT_AFFINE:
        scales = mica_expand_dims(s, mc_cast(s, in[1], MICA_F32), -1);
        y = mica_multiply(s, mc_cast(s, codes, MICA_F32), scales);
        y = mica_add(s, y, mica_expand_dims(s, mc_cast(s, in[2], MICA_F32), -1));
        break;
    case MICA_QUANT_MXFP8:
        y = mica_from_fp8(s, mc_cast(s, codes, MICA_U8), MICA_F32);
        y = mica_multiply(s, y, mica_expand_dims(s, from_e8m0(s, in[1]), -1));
        break;
    case MICA_QUANT_MXFP4:
        y = mica_multiply(s, from_e2m1(s, codes), mica_expand_dims(s, from_e8m0(s, in[1]), -1));
        break;
    case MICA_QUANT_NVFP4:
    default:
        scales = mica_expand_dims(s, mica_from_fp8(s, in[1], MICA_F32), -1);
        y = mica_multiply(s, from_e2m1(s, codes), scales);
        break;
    }
    *out = mc_cast(s, mica_flatten(s, y, -2, -1), dtype);
}

/* ---- quantized_matmul: x, codes, scales, biases ---- */

mica_status mc_quant_check_product(const char *op, const mc_attr_quant *a, const mc_layout *x,
                                   const mc_layout *codes, const mc_layout *scales,
                                   const mc_layout *biases, int64_t *n) {
    int64_t width;
    MC_TRY(check_weights(op, a, codes, scales, biases, &width));
    char text_x[MC_LAYOUT_TEXT], text_c[MC_LAYOUT_TEXT];
    if (!mica_dtype_is_float(x->dtype))
        return mc_fail(MICA_EDTYPE, "%s: x is %s, not a float", op, mc_layout_text(x, text_x));
    if (x->ndim < 1 || codes->ndim < 2)
        return mc_fail(MICA_ESHAPE, "%s: x %s, codes %s: too few axes", op,
                       mc_layout_text(x, text_x), mc_layout_text(codes, text_c));
    int64_t rows = codes->shape[codes->ndim - 2];
    int64_t k = a->transpose != 0 ? width : rows;
    *n = a->transpose != 0 ? rows : width;
    if (x->shape[x->ndim - 1] == k) return MICA_OK;
    return mc_fail(MICA_ESHAPE,
                   "%s: x %s and codes %s: the last axis of x is %lld, and %lld weights meet it",
                   op, mc_layout_text(x, text_x), mc_layout_text(codes, text_c),
                   (long long)x->shape[x->ndim - 1], (long long)k);
}

static mica_status quantized_matmul_infer(const void *attr, const mc_layout *const *in, int n_in,
                                          mc_layout *out) {
    (void)n_in;
    const mc_layout *x = in[0], *codes = in[1];
    char text_x[MC_LAYOUT_TEXT], text_c[MC_LAYOUT_TEXT];
    int64_t n;
    MC_TRY(mc_quant_check_product("quantized_matmul", attr, x, codes, in[2], in[3], &n));
    int64_t shape[MICA_MAX_NDIM];
    int ndim = x->ndim;
    memcpy(shape, x->shape, sizeof shape);
    if (codes->ndim > 2) {
        mc_layout batch_x = *x, batch_w = *codes;
        batch_x.ndim = x->ndim < 2 ? 0 : x->ndim - 2;
        batch_w.ndim -= 2;
        MC_TRY(mc_broadcast_shapes("quantized_matmul", &batch_x, &batch_w, shape, &ndim));
        ndim += 2;
        if (ndim > MICA_MAX_NDIM)
            return mc_fail(MICA_ESHAPE, "quantized_matmul: x %s and codes %s: too many axes",
                           mc_layout_text(x, text_x), mc_layout_text(codes, text_c));
        shape[ndim - 2] = x->ndim < 2 ? 1 : x->shape[x->ndim - 2];
    }
    shape[ndim - 1] = n;
    return mc_layout_init(out, x->dtype, shape, ndim);
}

static void quantized_matmul_decompose(mica_scope *s, const void *attr, const mica_array *in,
                                       int n_in, mica_array *out) {
    (void)n_in;
    const mc_attr_quant *a = attr;
    mica_quant quant = {(mica_quant_mode)a->mode, (int)a->bits, (int)a->group_size};
    mica_array scales = in[2], biases = in[3];
    if (a->mode == MICA_QUANT_AFFINE) {
        scales = mc_cast(s, scales, MICA_F32);
        biases = mc_cast(s, biases, MICA_F32);
    }
    mica_array w = mica_dequantize(s, in[1], scales, biases, quant, MICA_F32);
    if (a->transpose != 0) w = mica_swapaxes(s, w, -1, -2);
    mica_array x = mc_cast(s, in[0], MICA_F32);
    /* matmul of a vector by a batch drops the axis that infer keeps */
    if (mica_array_ndim(x) == 1 && mica_array_ndim(w) > 2) x = mica_expand_dims(s, x, 0);
    *out = mc_cast(s, mica_matmul(s, x, w), mica_array_dtype(in[0]));
}

MC_OP(dequantize, 2, 3, MC_ATTR(quant), .infer = dequantize_infer,
      .decompose = dequantize_decompose);

/* w = scale * code + bias: by scales and biases, sums over groups; the codes are integers. */
static bool dequantize_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    const mc_attr_quant *a = n->attr;
    const int last = -1;
    mica_scope *s = n->s;
    mica_quant quant = {(mica_quant_mode)a->mode, (int)a->bits, (int)a->group_size};
    const int64_t split[2] = {mica_array_dim(n->in[1], -1), a->group_size};
    const int64_t *shape = mica_array_shape(n->in[1]);
    int ndim = mica_array_ndim(n->in[1]);
    mica_array d = mica_unflatten(s, mc_wide(s, *dy), -1, split, 2);
    if (n->wanted[1]) {
        mica_array codes = mica_dequantize(s, n->in[0], mica_ones(s, shape, ndim, MICA_F32),
                                           mica_zeros(s, shape, ndim, MICA_F32), quant, MICA_F32);
        codes = mica_unflatten(s, codes, -1, split, 2);
        dx[1] = mica_sum(s, mica_multiply(s, d, codes), &last, 1, false);
    }
    if (n->wanted[2]) dx[2] = mica_sum(s, d, &last, 1, false);
    return true;
}
MC_GRADIENT(dequantize, dequantize_vjp, mc_linear_jvp);

static MC_WORK_RULE(quantized_matmul_work) {
    (void)attr, (void)n_in;
    work->kind = MC_WORK_MATMUL;
    work->operations = 2 * (double)mc_layout_size(out) * (double)in[0]->shape[in[0]->ndim - 1];
}

MC_OP(quantized_matmul, 3, 4, MC_ATTR(quant), .infer = quantized_matmul_infer,
      .decompose = quantized_matmul_decompose, .work = quantized_matmul_work);

/* The matmul of t and the same codes, as they are or transposed. */
static mica_array matmul_of(const mc_gradient_node *n, mica_array t, bool other_way) {
    mc_attr_quant attr = *(const mc_attr_quant *)n->attr;
    const mica_array in[4] = {t, n->in[1], n->in[2], n->in[3]};
    if (other_way) attr.transpose = attr.transpose == 0;
    return mc_record(n->s, MC_OP_QUANTIZED_MATMUL, &attr, in, 4);
}

static bool quantized_matmul_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    if (n->wanted[2] || n->wanted[3]) return false;
    dx[0] = mc_sum_to(n->s, matmul_of(n, *dy, true), n->in[0]);
    return true;
}

static bool quantized_matmul_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    if (dx[2].scope || dx[3].scope) return false;
    *dy = matmul_of(n, dx[0], false);
    return true;
}
MC_GRADIENT(quantized_matmul, quantized_matmul_vjp, quantized_matmul_jvp);

mica_array mica_dequantize(mica_scope *s, mica_array codes, mica_array scales, mica_array biases,
                           mica_quant quant, mica_dtype dtype) {
    mica_array in[3] = {codes, scales, biases};
    mc_attr_quant attr = {quant.mode, quant.bits, quant.group_size, 0, dtype, 0};
    return mc_record(s, MC_OP_DEQUANTIZE, &attr, in, 3);
}

static mica_array record_matmul(mica_scope *s, mica_array x, mica_array codes, mica_array scales,
                                mica_array biases, mica_quant quant, bool transpose, int fast) {
    mica_array in[4] = {x, codes, scales, biases};
    mc_attr_quant attr = {quant.mode, quant.bits, quant.group_size, transpose, 0, fast};
    return mc_record(s, MC_OP_QUANTIZED_MATMUL, &attr, in, 4);
}

mica_array mica_quantized_matmul(mica_scope *s, mica_array x, mica_array codes, mica_array scales,
                                 mica_array biases, mica_quant quant, bool transpose) {
    return record_matmul(s, x, codes, scales, biases, quant, transpose, 0);
}

mica_array mc_quantized_matmul(mica_scope *s, mica_array x, mica_array codes, mica_array scales,
                               mica_array biases, mica_quant quant, int fast) {
    return record_matmul(s, x, codes, scales, biases, quant, true, fast);
}

/* ---- quantize ---- */

/* Packs numbers u32 [..., D], each below 2^bits, into words [..., D * bits / 32]. */
static mica_array pack_codes(mica_scope *s, mica_array codes, int bits) {
    const int last = -1;
    int64_t d = mica_array_dim(codes, -1);
    if (32 % bits == 0) {
        int64_t split[2] = {d * bits / 32, 32 / bits};
        codes = mica_unflatten(s, codes, -1, split, 2);
        codes = mica_left_shift(s, codes, mica_arange(s, 0, 32, bits, MICA_U32));
        return mica_sum(s, codes, &last, 1, false);
    }
    mica_array one = mica_scalar(s, 1, MICA_U32);
    mica_array shifts = mica_arange(s, 0, bits, 1, MICA_U32);
    mica_array stream = mica_right_shift(s, mica_expand_dims(s, codes, -1), shifts);
    stream = mica_flatten(s, mica_bitwise_and(s, stream, one), -2, -1);
    int64_t split[2] = {d * bits / 32, 32};
    stream = mica_unflatten(s, stream, -1, split, 2);
    stream = mica_left_shift(s, stream, mica_arange(s, 0, 32, 1, MICA_U32));
    return mica_sum(s, stream, &last, 1, false);
}

/* Affine codes of groups w [..., G, group] in f32, by MLX's rule: the end of the range farther from
 * 0 is represented exactly, and so is 0. */
static mica_array affine_codes(mica_scope *s, mica_array w, int bits, mica_dtype dtype,
                               mica_array *scales, mica_array *biases) {
    const int last = -1;
    mica_array largest = mica_max(s, w, &last, 1, true);
    mica_array smallest = mica_min(s, w, &last, 1, true);
    mica_array zero = mica_f32(s, 0);
    mica_array steps = mica_f32(s, (float)((1 << bits) - 1));
    mica_array below = mica_greater(s, mica_abs(s, smallest), mica_abs(s, largest));
    mica_array scale = mica_divide(s, mica_subtract(s, largest, smallest), steps);
    scale = mica_maximum(s, scale, mica_f32(s, 1e-7f));
    scale = mica_where(s, below, scale, mica_negative(s, scale));
    mica_array edge = mica_where(s, below, smallest, largest);
    mica_array at_zero = mica_round(s, mica_divide(s, edge, scale));
    mica_array has_zero = mica_not_equal(s, at_zero, zero);
    scale = mica_where(s, has_zero, mica_divide(s, edge, at_zero), scale);
    mica_array bias = mica_where(s, has_zero, edge, zero);
    mica_array codes = mica_round(s, mica_divide(s, mica_subtract(s, w, bias), scale));
    *scales = mc_cast(s, mica_squeeze(s, scale, -1), dtype);
    *biases = mc_cast(s, mica_squeeze(s, bias, -1), dtype);
    return mc_cast(s, mica_clip(s, codes, zero, steps), MICA_U32);
}

/* f32 to the nearest E2M1 codes (u32), clamped to 6, by MLX's rule: ties go towards 0, and 0 has no
 * sign. */
static mica_array to_e2m1(mica_scope *s, mica_array x) {
    static const float halfway[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    mica_array size = mica_abs(s, x);
    mica_array codes = mica_scalar(s, 0, MICA_U32);
    for (int i = 0; i < 7; i++) {
        mica_array above = mica_greater(s, size, mica_f32(s, halfway[i]));
        codes = mica_add(s, codes, mc_cast(s, above, MICA_U32));
    }
    mica_array below = mica_less(s, x, mica_f32(s, -halfway[0]));
    return mica_add(s, codes,
                    mica_where(s, below, mica_scalar(s, 8, MICA_U32), mica_scalar(s, 0, MICA_U32)));
}

/* Codes of the fp modes for groups w [..., G, group] in f32. */
static mica_array fp_codes(mica_scope *s, mica_array w, mica_quant_mode mode, mica_array *scales) {
    const int last = -1;
    mica_array top = mica_f32(s, mode == MICA_QUANT_MXFP8 ? 448.0f : 6.0f);
    mica_array scale = mica_divide(s, mica_max(s, mica_abs(s, w), &last, 1, true), top);
    mica_array bytes;
    mica_array zero = mica_f32(s, 0), one = mica_f32(s, 1);
    if (mode == MICA_QUANT_NVFP4) {
        bytes = mica_to_fp8(s, scale);
        scale = mica_from_fp8(s, bytes, MICA_F32);
    } else {
        mica_array none = mica_equal(s, scale, zero);
        mica_array power = mica_ceil(s, mica_log2(s, mica_where(s, none, one, scale)));
        power = mica_clip(s, power, mica_f32(s, -127), mica_f32(s, 127));
        bytes = mc_cast(s, mica_add(s, power, mica_f32(s, 127)), MICA_U8);
        scale = from_e8m0(s, bytes);
    }
    *scales = mica_squeeze(s, bytes, -1);
    mica_array ratio = mica_divide(s, w, mica_where(s, mica_equal(s, scale, zero), one, scale));
    if (mode == MICA_QUANT_MXFP8) return mc_cast(s, mica_to_fp8(s, ratio), MICA_U32);
    return to_e2m1(s, ratio);
}

mica_status mica_quantize(mica_scope *s, mica_array w, mica_quant quant, mica_array *codes,
                          mica_array *scales, mica_array *biases) {
    *codes = *scales = *biases = MICA_NONE;
    if (!mc_operands_ok(s, "quantize", &w, 1)) return mica_scope_status(s);
    mica_status status = check_format("quantize", quant.mode, quant.bits, quant.group_size);
    if (status != MICA_OK) return mc_scope_set_status(s, status);
    const mc_layout *l = mc_layout_of(w);
    char text[MC_LAYOUT_TEXT];
    mc_layout_text(l, text);
    if (!mica_dtype_is_float(l->dtype)) {
        mc_scope_fail(s, MICA_EDTYPE, "quantize: %s is not a float", text);
        return mica_scope_status(s);
    }
    int64_t d = l->ndim == 0 ? 0 : l->shape[l->ndim - 1];
    if (d < 1 || mc_dim_mod(d, quant.group_size) != 0) {
        mc_scope_fail(s, MICA_ESHAPE, "quantize: the last axis of %s is not a multiple of %d", text,
                      quant.group_size);
        return mica_scope_status(s);
    }
    int64_t split[2] = {mc_dim_div(d, quant.group_size), quant.group_size};
    mica_array groups = mica_unflatten(s, mc_cast(s, w, MICA_F32), -1, split, 2);
    mica_array numbers;
    if (quant.mode == MICA_QUANT_AFFINE)
        numbers = affine_codes(s, groups, quant.bits, l->dtype, scales, biases);
    else
        numbers = fp_codes(s, groups, quant.mode, scales);
    *codes = pack_codes(s, mica_flatten(s, numbers, -2, -1), quant.bits);
    return mica_scope_status(s);
}
