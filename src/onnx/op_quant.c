/* Quantised values: integers, each the multiple of a scale, counted from a zero point. */
#include "onnx/import.h"

#include <mica/ops.h>

#include <math.h>

static bool range_of(mica_dtype dtype, double *lo, double *hi) {
    int bits = 8 * (int)mica_dtype_bytes(dtype);
    bool is_signed = mica_dtype_is_signed(dtype);
    if (mica_dtype_is_float(dtype) || dtype == MICA_BOOL || bits > 16) return false;
    *lo = is_signed ? -ldexp(1, bits - 1) : 0;
    *hi = ldexp(1, is_signed ? bits - 1 : bits) - 1;
    return true;
}

/* A scale or zero point as it broadcasts to x: one, one for each place of an axis, or for each
 * block of it. */
static mica_status spread(mc_onnx_node *n, mica_array v, mica_array x, mica_array *out) {
    int axis, ndim = mica_array_ndim(x);
    int64_t block = mc_onnx_int(n, "block_size", 0);
    if (mica_array_size(v) == 1) {
        *out = mica_reshape(n->s, v, NULL, 0);
        return MICA_OK;
    }
    MC_TRY(mc_onnx_axis(n, 1, ndim, &axis));
    int64_t length = mica_array_dim(x, axis);
    if (mica_array_ndim(v) == 1) {
        if (mica_array_size(v) != length)
            return mc_fail(MICA_ESHAPE, "it has %lld scales for an axis of %lld",
                           (long long)mica_array_size(v), (long long)length);
        *out = mc_onnx_along(n->s, v, axis, ndim);
        return MICA_OK;
    }
    if (block < 1) return mc_fail(MICA_EFORMAT, "its scales are blocks of no size");
    if (mica_array_ndim(v) != ndim) return mc_fail(MICA_ESHAPE, "its scales do not fit");
    if (mica_array_dim(v, axis) != length / block + (length % block != 0))
        return mc_fail(MICA_ESHAPE, "it has %lld blocks of %lld for an axis of %lld",
                       (long long)mica_array_dim(v, axis), (long long)block, (long long)length);
    v = mica_repeat(n->s, v, block, axis);
    *out = mica_slice_axis(n->s, v, axis, 0, length);
    return MICA_OK;
}

static mica_array f32(mc_onnx_node *n, mica_array x) {
    return mica_astype(n->s, x, MICA_F32);
}

/* clamp(round(x / scale) + zero) as a dtype; x and scale f32, zero f32 or none. */
static mica_array quantised(mc_onnx_node *n, mica_array x, mica_array scale, mica_array zero,
                            mica_dtype dtype) {
    double lo = 0, hi = 0;
    (void)range_of(dtype, &lo, &hi);
    mica_array q = mica_round(n->s, mica_divide(n->s, x, scale));
    if (zero.scope) q = mica_add(n->s, q, zero);
    q = mica_clip(n->s, q, mica_f32(n->s, (float)lo), mica_f32(n->s, (float)hi));
    return mica_astype(n->s, q, dtype);
}

mica_status mc_onnx_quantize(mc_onnx_node *n) {
    mica_array x = f32(n, n->in[0].x), scale, zero = mc_onnx_x(n, 2);
    mica_dtype dtype = MICA_U8;
    double lo, hi;
    if (mc_onnx_int(n, "output_dtype", 0))
        MC_TRY(mc_onnx_dtype(mc_onnx_int(n, "output_dtype", 0), &dtype));
    if (zero.scope) dtype = mica_array_dtype(zero);
    if (!range_of(dtype, &lo, &hi)) return mc_onnx_refuse("quantising to this dtype");
    MC_TRY(spread(n, n->in[1].x, x, &scale));
    if (zero.scope) MC_TRY(spread(n, zero, x, &zero));
    if (zero.scope) zero = f32(n, zero);
    return mc_onnx_give(n, 0, quantised(n, x, f32(n, scale), zero, dtype));
}

mica_status mc_onnx_dequantize(mc_onnx_node *n) {
    mica_array x = n->in[0].x, scale = n->in[1].x, zero = mc_onnx_x(n, 2);
    mica_dtype dtype = mica_array_dtype(scale);
    if (mc_onnx_int(n, "output_dtype", 0))
        MC_TRY(mc_onnx_dtype(mc_onnx_int(n, "output_dtype", 0), &dtype));
    if (mica_dtype_is_float(mica_array_dtype(x))) return mc_onnx_refuse("dequantising this dtype");
    MC_TRY(spread(n, scale, x, &scale));
    mica_array y = f32(n, x);
    if (zero.scope) {
        MC_TRY(spread(n, zero, x, &zero));
        y = mica_subtract(n->s, y, f32(n, zero));
    }
    y = mica_multiply(n->s, y, f32(n, scale));
    return mc_onnx_give(n, 0, mica_astype(n->s, y, dtype));
}

/* scale = (max - min) / 255 over the range of x and 0. */
mica_status mc_onnx_dynamic_quantize(mc_onnx_node *n) {
    mica_array x = n->in[0].x, zero = mica_f32(n->s, 0), full = mica_f32(n->s, 255);
    mica_array hi = mica_maximum(n->s, mica_max(n->s, x, NULL, 0, false), zero);
    mica_array lo = mica_minimum(n->s, mica_min(n->s, x, NULL, 0, false), zero);
    mica_array scale = mica_divide(n->s, mica_subtract(n->s, hi, lo), full);
    mica_array at = mica_round(n->s, mica_divide(n->s, mica_subtract(n->s, zero, lo), scale));
    at = mica_clip(n->s, at, zero, full);
    MC_TRY(mc_onnx_give(n, 0, quantised(n, x, scale, at, MICA_U8)));
    MC_TRY(mc_onnx_give(n, 1, scale));
    return mc_onnx_give(n, 2, mica_astype(n->s, at, MICA_U8));
}

/* ---- products ---- */

/* An i8 or u8 operand as i8, its zero point as i32: both are 128 less where it is u8. */
static mica_status as_i8(mc_onnx_node *n, mica_array x, mica_array zero, mica_array *q,
                         mica_array *z) {
    mica_dtype dtype = mica_array_dtype(x);
    if (dtype != MICA_I8 && dtype != MICA_U8) return mc_onnx_refuse("products of this dtype");
    mica_array shift = mica_scalar(n->s, dtype == MICA_U8 ? 128 : 0, MICA_I32);
    *q = mica_subtract(n->s, mica_astype(n->s, x, MICA_I32), shift);
    *q = mica_astype(n->s, *q, MICA_I8);
    if (!zero.scope) zero = mica_scalar(n->s, 0, MICA_I32);
    *z = mica_subtract(n->s, mica_astype(n->s, zero, MICA_I32), shift);
    return mica_scope_status(n->s);
}

/* sum (a - a_zero) (b - b_zero), exact i32, from the product of the operands and their sums.
 *
 * a [.., M, K], b [K, N] or with the same axes before; a_zero [] or [M], b_zero [] or [N] */
static mica_status product(mc_onnx_node *n, mica_array a, mica_array a_zero, mica_array b,
                           mica_array b_zero, mica_array *y) {
    int an = mica_array_ndim(a), bn = mica_array_ndim(b), batch[MICA_MAX_NDIM];
    if (an < 2 || (bn != 2 && bn != an)) return mc_onnx_refuse("products of these shapes");
    MC_TRY(as_i8(n, a, a_zero, &a, &a_zero));
    MC_TRY(as_i8(n, b, b_zero, &b, &b_zero));
    for (int k = 0; k + 2 < bn; k++)
        batch[k] = k;
    const mica_dot_axes axes = {.a_batch = batch,
                                .b_batch = batch,
                                .n_batch = bn - 2,
                                .a_contract = (int[]){an - 1},
                                .b_contract = (int[]){bn - 2},
                                .n_contract = 1};
    *y = mica_dot_general(n->s, a, b, &axes);
    if (mica_array_ndim(a_zero) == 1 && mica_array_size(a_zero) > 1)
        a_zero = mica_expand_dims(n->s, a_zero, -1);
    mica_array rows = mica_sum(n->s, mica_astype(n->s, a, MICA_I32), (int[]){an - 1}, 1, true);
    mica_array columns = mica_sum(n->s, mica_astype(n->s, b, MICA_I32), (int[]){bn - 2}, 1, true);
    mica_array depth = mica_scalar(n->s, (double)mica_array_dim(a, an - 1), MICA_I32);
    *y = mica_subtract(n->s, *y, mica_multiply(n->s, rows, b_zero));
    columns = mica_subtract(n->s, columns, mica_multiply(n->s, depth, b_zero));
    *y = mica_subtract(n->s, *y, mica_multiply(n->s, columns, a_zero));
    return mica_scope_status(n->s);
}

mica_status mc_onnx_matmul_integer(mc_onnx_node *n) {
    mica_array y;
    MC_TRY(product(n, n->in[0].x, mc_onnx_x(n, 2), n->in[1].x, mc_onnx_x(n, 3), &y));
    return mc_onnx_give(n, 0, y);
}

mica_status mc_onnx_qlinear_matmul(mc_onnx_node *n) {
    mica_array y, a_scale = f32(n, n->in[1].x), zero = n->in[7].x;
    MC_TRY(product(n, n->in[0].x, n->in[2].x, n->in[3].x, n->in[5].x, &y));
    if (mica_array_size(a_scale) > 1) a_scale = mica_expand_dims(n->s, a_scale, -1);
    mica_array scale = mica_multiply(n->s, a_scale, f32(n, n->in[4].x));
    y = mica_multiply(n->s, f32(n, y), scale);
    y = quantised(n, y, f32(n, n->in[6].x), f32(n, zero), mica_array_dtype(zero));
    return mc_onnx_give(n, 0, y);
}
