/* Quantised values: integers, each the multiple of a scale, counted from a zero point. */
#include "onnx/import.h"

#include "base/integer.h"

#include <mica/ops.h>

static bool can_quantise_to(mica_dtype dtype) {
    return !mica_dtype_is_float(dtype) && dtype != MICA_BOOL && mica_dtype_bytes(dtype) <= 2;
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
    block = mc_min(block, length); /* a single one may be longer */
    if (mica_array_ndim(v) != ndim) return mc_fail(MICA_ESHAPE, "its scales do not fit");
    if (mica_array_dim(v, axis) != length / block + (length % block != 0))
        return mc_fail(MICA_ESHAPE, "it has %lld blocks of %lld for an axis of %lld",
                       (long long)mica_array_dim(v, axis), (long long)block, (long long)length);
    v = mica_repeat(n->s, v, block, axis);
    *out = mica_slice_axis(n->s, v, axis, 0, length);
    return MICA_OK;
}

/* The zero point that is operand i, or none where it is known to be 0. */
static mica_array zero_of(const mc_onnx_node *n, size_t i) {
    mica_array zero = mc_onnx_x(n, i);
    double value = 1;
    if (zero.scope && n->in[i].known && !n->in[i].small && mica_array_size(zero) == 1 &&
        mica_item_f64(zero, &value) == MICA_OK && value == 0)
        return MICA_NONE;
    return zero;
}

/* Whether the node's scale is one number. */
static bool is_whole(const mc_onnx_node *n) {
    return mica_array_size(n->in[1].x) == 1;
}

/* The type that a node quantises to: its zero point's, else the attribute's, else u8. */
static mica_status quantised_type(const mc_onnx_node *n, mica_dtype *dtype,
                                  const mc_onnx_small **small) {
    *dtype = MICA_U8;
    *small = NULL;
    if (mc_onnx_has(n, 2)) {
        *dtype = mica_array_dtype(n->in[2].x);
        *small = n->in[2].small;
    } else if (mc_onnx_int(n, "output_dtype", 0)) {
        MC_TRY(mc_onnx_any_dtype(mc_onnx_int(n, "output_dtype", 0), dtype, small));
    }
    return MICA_OK;
}

/* Rounded to a type of few bits: x f32, zero f32 or none. */
static mica_array quantised_small(mc_onnx_node *n, mica_array x, mica_array scale, mica_array zero,
                                  const mc_onnx_small *type) {
    double lo, hi;
    x = mica_divide(n->s, x, scale);
    if (mc_onnx_small_is_float(type)) {
        if (zero.scope) x = mica_add(n->s, x, zero);
        return mc_onnx_small_encode(n->s, type, x, mc_onnx_int(n, "saturate", 1) != 0,
                                    MC_ONNX_NEAREST);
    }
    mc_onnx_small_range(type, &lo, &hi);
    mica_array q = mica_round(n->s, x);
    if (zero.scope) q = mica_add(n->s, q, zero);
    q = mica_clip(n->s, q, mica_f32(n->s, (float)lo), mica_f32(n->s, (float)hi));
    return mica_astype(n->s, q, mc_onnx_small_dtype(type));
}

/* ---- operators ---- */

mica_status mc_onnx_quantize(mc_onnx_node *n) {
    bool last = is_whole(n) && n->in[0].last.scope;
    mica_array x = mc_onnx_as_f32(n, last ? n->in[0].last : n->in[0].x), scale,
               zero = zero_of(n, 2);
    mica_dtype dtype;
    const mc_onnx_small *small;
    MC_TRY(quantised_type(n, &dtype, &small));
    if (!small && !can_quantise_to(dtype)) return mc_onnx_refuse("quantising to this dtype");
    if (n->in[0].small || n->in[1].small) return mc_onnx_refuse("quantising this dtype");
    if (!small && !n->in[0].known && n->in[1].known && (!zero.scope || n->in[2].known) &&
        mc_onnx_has_steps(n->import, n->in[0].steps, n->in[1].x, zero, dtype)) {
        const mc_onnx_steps *t = n->in[0].steps;
        return t->last.scope ? mc_onnx_give_last(n, 0, t->last) : mc_onnx_give(n, 0, t->q);
    }
    if (!small && n->in[0].joined && is_whole(n) && n->in[1].known &&
        (!zero.scope || n->in[2].known))
        return mc_onnx_quantise_joined(n, n->in[0].joined, zero, dtype);
    MC_TRY(spread(n, n->in[1].x, x, &scale));
    if (zero.scope && small) zero = mc_onnx_small_decode(n->s, small, zero);
    if (zero.scope) MC_TRY(spread(n, zero, x, &zero));
    if (zero.scope) zero = mc_onnx_as_f32(n, zero);
    mica_array q = small ? quantised_small(n, x, mc_onnx_as_f32(n, scale), zero, small)
                         : mc_onnx_quantised(n, x, mc_onnx_as_f32(n, scale), zero, dtype);
    MC_TRY(last ? mc_onnx_give_last(n, 0, q) : mc_onnx_give(n, 0, q));
    n->out[0].small = small;
    return MICA_OK;
}

enum { OPEN = 256 /* elements of known integers that stay integers */, GROUP = 128 };

/* Elements of a block of scales, no more than groups that hold the whole axis. */
static int64_t block_of(const mc_onnx_node *n, int64_t length) {
    return mc_min(mc_onnx_int(n, "block_size", 0), (length + GROUP - 1) / GROUP * GROUP);
}

/* A scale or zero point, where it is one number without an axis. */
static mica_status keep_part(mc_onnx_node *n, size_t i, bool number, mica_array *x) {
    mica_scope *s = n->in[i].known ? n->import->constants : n->s;
    *x = n->in[i].x;
    if (number) *x = mica_reshape(s, *x, NULL, 0);
    if (n->in[i].known) MC_TRY(mica_eval(s, *x));
    return mc_onnx_hold(n->import, *x);
}

/* Keeps what a result is made of, if products can read that. */
static mica_status keep_steps(mc_onnx_node *n) {
    mica_array q = n->in[0].x, scale = n->in[1].x, zero = mc_onnx_x(n, 2);
    int axis = -1;
    if (n->in[0].small && mc_onnx_small_is_float(n->in[0].small)) return MICA_OK;
    if ((mica_array_dtype(q) != MICA_I8 && mica_array_dtype(q) != MICA_U8) ||
        !mica_dtype_is_float(mica_array_dtype(scale)) ||
        mica_array_dtype(n->out[0].x) != mica_array_dtype(scale))
        return MICA_OK;
    if (!is_whole(n)) MC_TRY(mc_onnx_axis(n, 1, mica_array_ndim(q), &axis));
    int ndim = axis < 0 ? 0 : mica_array_ndim(scale);
    mc_onnx_steps *steps = mc_arena_calloc(&n->import->arena, sizeof *steps);
    if (!steps) return mc_fail_nomem("a value");
    *steps = (mc_onnx_steps){.q = q, .last = n->in[0].last, .axis = axis, .bits = 8};
    if (ndim > 1) steps->block = block_of(n, mica_array_dim(q, axis));
    if (n->in[0].small) steps->bits = mc_onnx_small_bits(n->in[0].small);
    MC_TRY(keep_part(n, 1, ndim == 0, &steps->scale));
    if (zero.scope) MC_TRY(keep_part(n, 2, ndim == 0, &steps->zero));
    n->out[0].steps = steps;
    n->open = n->in[0].known && mica_array_size(q) > OPEN;
    return mc_onnx_hold(n->import, q);
}

mica_status mc_onnx_dequantize(mc_onnx_node *n) {
    bool last = is_whole(n) && n->in[0].last.scope;
    mica_array x = last ? n->in[0].last : n->in[0].x, scale = n->in[1].x, zero = zero_of(n, 2);
    mica_dtype dtype = mica_array_dtype(scale);
    if (mc_onnx_int(n, "output_dtype", 0))
        MC_TRY(mc_onnx_dtype(mc_onnx_int(n, "output_dtype", 0), &dtype));
    const mc_onnx_small *small = n->in[0].small;
    bool zero_fits = !zero.scope || n->in[2].small == small;
    if (mica_dtype_is_float(mica_array_dtype(x)) || n->in[1].small || !zero_fits)
        return mc_onnx_refuse("dequantising this dtype");
    if (small) x = mc_onnx_small_decode(n->s, small, x);
    if (small && zero.scope) zero = mc_onnx_small_decode(n->s, small, zero);
    MC_TRY(spread(n, scale, x, &scale));
    if (zero.scope) MC_TRY(spread(n, zero, x, &zero));
    mica_array y = mica_astype(n->s, mc_onnx_dequantised(n, x, scale, zero), dtype);
    MC_TRY(last ? mc_onnx_give_last(n, 0, y) : mc_onnx_give(n, 0, y));
    return keep_steps(n);
}

/* scale = (max - min) / 255 over the range of x and 0. */
mc_onnx_dynamic mc_onnx_quantise(mc_onnx_node *n, mica_array x) {
    mica_array zero = mica_f32(n->s, 0), full = mica_f32(n->s, 255);
    mica_array hi = mica_maximum(n->s, mica_max(n->s, x, NULL, 0, false), zero);
    mica_array lo = mica_minimum(n->s, mica_min(n->s, x, NULL, 0, false), zero);
    mica_array scale = mica_divide(n->s, mica_subtract(n->s, hi, lo), full);
    mica_array at = mica_round(n->s, mica_divide(n->s, mica_subtract(n->s, zero, lo), scale));
    at = mica_clip(n->s, at, zero, full);
    return (mc_onnx_dynamic){mc_onnx_quantised(n, x, scale, at, MICA_U8), scale,
                             mica_astype(n->s, at, MICA_U8)};
}

mica_status mc_onnx_dynamic_quantize(mc_onnx_node *n) {
    bool last = n->in[0].last.scope;
    mc_onnx_dynamic d = mc_onnx_quantise(n, last ? n->in[0].last : n->in[0].x);
    MC_TRY(last ? mc_onnx_give_last(n, 0, d.q) : mc_onnx_give(n, 0, d.q));
    MC_TRY(mc_onnx_give(n, 1, d.scale));
    return mc_onnx_give(n, 2, d.zero);
}
