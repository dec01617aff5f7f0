/* Operators that make arrays, or pick elements by indices. */
#include "onnx/import.h"

#include "graph/dim.h"

#include <mica/ops.h>

#include <math.h>
#include <string.h>

/* ---- constants ---- */

mica_status mc_onnx_constant_op(mc_onnx_node *n) {
    const mc_onnx_attribute *a = n->proto->n_attribute == 1 ? n->proto->attribute[0] : NULL;
    const char *name = a && a->name ? a->name : "";
    a = mc_onnx_attr(n, name); /* of a function it may be the call's */
    if (!a) return mc_fail(MICA_EFORMAT, "it has no value");
    if (strcmp(name, "value") == 0 && a->t) {
        n->out[0] = (mc_onnx_value){.known = true, .small = mc_onnx_small_of(a->t->data_type)};
        return mc_onnx_tensor_array(a->t, &n->import->outside, n->import->constants, &n->out[0].x);
    }
    if (strcmp(name, "value_float") == 0)
        return mc_onnx_constant(n->import, &a->f, MICA_F32, NULL, 0, &n->out[0]);
    if (strcmp(name, "value_int") == 0)
        return mc_onnx_constant(n->import, &a->i, MICA_I64, NULL, 0, &n->out[0]);
    if (strcmp(name, "value_floats") == 0)
        return mc_onnx_constant(n->import, a->n_floats ? a->floats : (const float[]){0}, MICA_F32,
                                (int64_t[]){(int64_t)a->n_floats}, 1, &n->out[0]);
    if (strcmp(name, "value_ints") == 0)
        return mc_onnx_constant(n->import, a->n_ints ? a->ints : (const int64_t[]){0}, MICA_I64,
                                (int64_t[]){(int64_t)a->n_ints}, 1, &n->out[0]);
    return mc_onnx_refuse("this kind of constant");
}

mica_status mc_onnx_constant_of_shape(mc_onnx_node *n) {
    int64_t shape[MICA_MAX_NDIM];
    int count, axis;
    const mc_onnx_attribute *a = mc_onnx_attr(n, "value");
    mica_array value = mica_scalar(n->s, 0, MICA_F32), counted;
    MC_TRY(mc_onnx_operand_shape(n, 0, shape, &count, &axis, &counted));
    if (a && a->t) {
        if (mc_onnx_small_of(a->t->data_type)) return mc_onnx_refuse("filling with this dtype");
        MC_TRY(mc_onnx_tensor_array(a->t, &n->import->outside, n->import->constants, &value));
        if (mica_array_size(value) != 1)
            return mc_fail(MICA_EFORMAT, "its value is not one number");
        value = mica_reshape(n->import->constants, value, NULL, 0);
        MC_TRY(mica_eval(n->import->constants, value));
    }
    mica_array y = mica_full(n->s, shape, count, value);
    return axis < 0 ? mc_onnx_give(n, 0, y) : mc_onnx_give_counted(n, 0, y, axis, counted);
}

mica_status mc_onnx_range(mc_onnx_node *n) {
    double start, limit, delta;
    MC_TRY(mc_onnx_operand_scalar(n, 0, 0, &start));
    MC_TRY(mc_onnx_operand_scalar(n, 1, 0, &limit));
    MC_TRY(mc_onnx_operand_scalar(n, 2, 1, &delta));
    return mc_onnx_give(n, 0, mica_arange(n->s, start, limit, delta, mica_array_dtype(n->in[0].x)));
}

mica_status mc_onnx_eye_like(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    mica_dtype dtype = mica_array_dtype(x);
    if (mc_onnx_attr(n, "dtype")) MC_TRY(mc_onnx_dtype(mc_onnx_int(n, "dtype", 0), &dtype));
    if (mica_array_ndim(x) != 2) return mc_fail(MICA_ESHAPE, "its operand is no matrix");
    return mc_onnx_give(
        n, 0,
        mica_eye(n->s, mica_array_dim(x, 0), mica_array_dim(x, 1), mc_onnx_int(n, "k", 0), dtype));
}

mica_status mc_onnx_one_hot(mc_onnx_node *n) {
    mica_array at = n->in[0].x, values = n->in[2].x;
    double depth;
    int axis, ndim = mica_array_ndim(at);
    MC_TRY(mc_onnx_operand_real(n, 1, 0, &depth));
    if (!(depth >= 0 && depth < INT32_MAX))
        return mc_fail(MICA_EFORMAT, "its depth is out of range");
    if (ndim + 1 > MICA_MAX_NDIM || mica_array_size(values) != 2)
        return mc_fail(MICA_ESHAPE, "its operands do not fit");
    MC_TRY(mc_onnx_axis(n, -1, ndim + 1, &axis));
    at = mica_astype(n->s, at, MICA_I64);
    mica_array zero = mica_scalar(n->s, 0, MICA_I64), all = mica_scalar(n->s, depth, MICA_I64);
    at = mica_where(n->s, mica_less(n->s, at, zero), mica_add(n->s, at, all), at);
    at = mica_expand_dims(n->s, at, axis);
    mica_array places = mica_arange(n->s, 0, depth, 1, MICA_I64);
    places = mc_onnx_along(n->s, places, axis, ndim + 1);
    mica_array off = mica_reshape(n->s, mica_slice_axis(n->s, values, 0, 0, 1), NULL, 0);
    mica_array on = mica_reshape(n->s, mica_slice_axis(n->s, values, 0, 1, 2), NULL, 0);
    return mc_onnx_give(n, 0, mica_where(n->s, mica_equal(n->s, at, places), on, off));
}

mica_status mc_onnx_dropout(mc_onnx_node *n) {
    double training = 0;
    if (mc_onnx_has(n, 2)) MC_TRY(mc_onnx_operand_real(n, 2, 0, &training));
    double ratio = mc_onnx_real(n, "ratio", 0.5);
    if (mc_onnx_has(n, 1)) MC_TRY(mc_onnx_operand_real(n, 1, 0.5, &ratio));
    if (training != 0 && ratio != 0) return mc_onnx_refuse("dropout while training");
    mica_array x = n->in[0].x;
    mica_dtype mask = n->import->opset < 10 ? mica_array_dtype(x) : MICA_BOOL;
    if (n->n_out > 1)
        MC_TRY(mc_onnx_give(n, 1, mica_ones(n->s, mica_array_shape(x), mica_array_ndim(x), mask)));
    n->out[0] = n->in[0];
    return MICA_OK;
}

/* ---- indices ---- */

mica_status mc_onnx_gather(mc_onnx_node *n) {
    int axis;
    MC_TRY(mc_onnx_axis(n, 0, mica_array_ndim(n->in[0].x), &axis));
    bool done;
    MC_TRY(mc_onnx_packed_gather(n, axis, &done));
    if (done) return MICA_OK;
    return mc_onnx_give(n, 0, mica_take(n->s, n->in[0].x, n->in[1].x, axis));
}

mica_status mc_onnx_gather_elements(mc_onnx_node *n) {
    mica_array x = n->in[0].x, at = n->in[1].x;
    int axis, ndim = mica_array_ndim(x);
    MC_TRY(mc_onnx_axis(n, 0, ndim, &axis));
    if (mica_array_ndim(at) != ndim) return mc_fail(MICA_ESHAPE, "its operands do not fit");
    for (int k = 0; k < ndim; k++) { /* other axes may be shorter than those of x */
        int64_t length = mica_array_dim(at, k);
        if (k != axis && mc_dim_less(length, mica_array_dim(x, k)))
            x = mica_slice_axis(n->s, x, k, 0, length);
    }
    return mc_onnx_give(n, 0, mica_take_along_axis(n->s, x, at, axis));
}

mica_status mc_onnx_gather_nd(mc_onnx_node *n) {
    int64_t dims = mc_onnx_int(n, "batch_dims", 0);
    if (dims < 0 || dims > MICA_MAX_NDIM)
        return mc_fail(MICA_EFORMAT, "batch_dims is out of range");
    return mc_onnx_give(n, 0, mica_gather_nd(n->s, n->in[0].x, n->in[1].x, (int)dims));
}

static mica_status find_mode(const mc_onnx_node *n, mica_scatter_mode *mode) {
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    mc_str text = mc_onnx_text(n, "reduction", "none");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!mc_str_is(text, names[i])) continue;
        *mode = (mica_scatter_mode)i;
        return MICA_OK;
    }
    return mc_onnx_refuse("this reduction");
}

/* Where updates have a count: x has one element more along the axis, which those beyond it go to.
 */
static mica_status add_place(mc_onnx_node *n, int axis, mica_array *x, mica_array *at) {
    const mc_onnx_bound *b = n->in[1].bound ? n->in[1].bound : n->in[2].bound;
    const mc_onnx_bound *own = n->in[0].bound;
    int ndim = mica_array_ndim(*x);
    int64_t shape[MICA_MAX_NDIM], length = mica_array_dim(*x, axis);
    if ((n->in[1].bound && n->in[2].bound && n->in[1].bound->axis != n->in[2].bound->axis) ||
        (own && own->axis != axis))
        return mc_onnx_refuse("operands whose lengths depend on values along different axes");
    mica_array end = own ? own->count : mica_scalar(n->s, (double)length, MICA_I64);
    mica_array last = mica_scalar(n->s, (double)length, MICA_I64), zero;
    zero = mica_scalar(n->s, 0, MICA_I64);
    *at = mica_astype(n->s, *at, MICA_I64);
    *at = mica_where(n->s, mica_less(n->s, *at, zero), mica_add(n->s, *at, end), *at);
    if (b) *at = mica_where(n->s, mc_onnx_count_mask(n->s, *at, b), *at, last);
    memcpy(shape, mica_array_shape(*x), (size_t)ndim * sizeof *shape);
    shape[axis] = 1;
    mica_array more = mica_zeros(n->s, shape, ndim, mica_array_dtype(*x));
    *x = mica_concatenate(n->s, (mica_array[]){*x, more}, 2, axis);
    return mica_scope_status(n->s);
}

/* x[.., at[.., i, ..], ..] = updates[.., i, ..]: the places along other axes are counted. */
mica_status mc_onnx_scatter_elements(mc_onnx_node *n) {
    mica_array x = n->in[0].x, at = n->in[1].x, updates = n->in[2].x, index[MICA_MAX_NDIM];
    mica_scatter_mode mode;
    int axis, ndim = mica_array_ndim(x), axes[MICA_MAX_NDIM];
    int64_t shape[2 * MICA_MAX_NDIM];
    MC_TRY(mc_onnx_axis(n, 0, ndim, &axis));
    MC_TRY(find_mode(n, &mode));
    if (mica_array_ndim(at) != ndim || mica_array_ndim(updates) != ndim)
        return mc_fail(MICA_ESHAPE, "its operands do not fit");
    if (2 * ndim > MICA_MAX_NDIM) return mc_onnx_refuse("so many axes");
    int64_t length = mica_array_dim(x, axis);
    bool counted = mc_onnx_has_bounds(n);
    if (counted) MC_TRY(add_place(n, axis, &x, &at));
    for (int k = 0; k < ndim; k++) {
        mica_array places = mica_arange(n->s, 0, (double)mica_array_dim(at, k), 1, MICA_I64);
        axes[k] = k;
        index[k] = k == axis ? at : mc_onnx_along(n->s, places, k, ndim);
    }
    for (int k = 0; k < ndim; k++) {
        shape[k] = mica_array_dim(updates, k);
        shape[ndim + k] = 1;
    }
    updates = mica_reshape(n->s, updates, shape, 2 * ndim);
    x = mica_scatter(n->s, x, index, ndim, axes, updates, mode);
    if (counted) x = mica_slice_axis(n->s, x, axis, 0, length);
    if (n->in[0].bound) return mc_onnx_give_counted(n, 0, x, axis, n->in[0].bound->count);
    return mc_onnx_give(n, 0, x);
}

/* A cache with rows of an update from each example's place on, which may go on at the beginning. */
mica_status mc_onnx_tensor_scatter(mc_onnx_node *n) {
    mica_array x = n->in[0].x, update = n->in[1].x;
    int axis, ndim = mica_array_ndim(x);
    int64_t shape[MICA_MAX_NDIM];
    MC_TRY(mc_onnx_axis(n, -2, ndim, &axis));
    if (mica_array_ndim(update) != ndim) return mc_fail(MICA_ESHAPE, "its operands do not fit");
    mica_array at = mica_arange(n->s, 0, (double)mica_array_dim(update, axis), 1, MICA_I64);
    at = mc_onnx_along(n->s, at, axis, ndim);
    if (mc_onnx_has(n, 2)) {
        mica_array first = mica_astype(n->s, n->in[2].x, MICA_I64);
        at = mica_add(n->s, at, mc_onnx_along(n->s, first, 0, ndim));
    }
    if (mc_str_is(mc_onnx_text(n, "mode", "linear"), "circular")) {
        double length = (double)mica_array_dim(x, axis);
        at = mica_remainder(n->s, at, mica_scalar(n->s, length, MICA_I64));
    }
    for (int k = 0; k < ndim; k++)
        shape[k] = mica_array_dim(update, k);
    at = mica_broadcast_to(n->s, at, shape, ndim);
    return mc_onnx_give(n, 0, mica_put_along_axis(n->s, x, at, update, axis));
}

/* a - b cos(2 pi i / N) + c cos(4 pi i / N), N being the size, or one less. */
static mica_status window_of(mc_onnx_node *n, double a, double b, double c) {
    double size;
    mica_dtype dtype = MICA_F32;
    MC_TRY(mc_onnx_operand_real(n, 0, 0, &size));
    if (!(size >= 0 && size < INT32_MAX)) return mc_fail(MICA_EFORMAT, "its size is out of range");
    if (mc_onnx_int(n, "output_datatype", 1) != MC_ONNX_DOUBLE)
        MC_TRY(mc_onnx_dtype(mc_onnx_int(n, "output_datatype", 1), &dtype));
    double period = mc_onnx_int(n, "periodic", 1) ? size : size - 1;
    mica_scope *s = n->s;
    mica_array i = mica_arange(s, 0, size, 1, MICA_F32);
    mica_array turn = mica_multiply(s, i, mica_f32(s, (float)(2 * acos(-1) / fmax(period, 1))));
    mica_array y = mica_subtract(s, mica_f32(s, (float)a),
                                 mica_multiply(s, mica_cos(s, turn), mica_f32(s, (float)b)));
    if (c != 0) {
        turn = mica_multiply(s, turn, mica_f32(s, 2));
        y = mica_add(s, y, mica_multiply(s, mica_cos(s, turn), mica_f32(s, (float)c)));
    }
    return mc_onnx_give(n, 0, mica_astype(s, y, dtype));
}

mica_status mc_onnx_hann_window(mc_onnx_node *n) {
    return window_of(n, 0.5, 0.5, 0);
}
mica_status mc_onnx_hamming_window(mc_onnx_node *n) {
    return window_of(n, 25.0 / 46, 21.0 / 46, 0);
}
mica_status mc_onnx_blackman_window(mc_onnx_node *n) {
    return window_of(n, 0.42, 0.5, 0.08);
}

mica_status mc_onnx_scatter_nd(mc_onnx_node *n) {
    mica_scatter_mode mode;
    MC_TRY(find_mode(n, &mode));
    return mc_onnx_give(n, 0, mica_scatter_nd(n->s, n->in[0].x, n->in[1].x, n->in[2].x, mode));
}
