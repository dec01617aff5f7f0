/* Convolutions and pools, which compute with the channels last, and norms over channels. */
#include "onnx/window.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "graph/dim.h"
#include "op/window.h"

#include <mica/nn.h>
#include <mica/ops.h>

#include <math.h>

/* ---- convolutions ---- */

/* A known array as it is needed, evaluated. */
static mica_status keep(mc_onnx_import *import, mica_array *x) {
    *x = mica_contiguous(import->constants, *x);
    return mica_eval(import->constants, *x);
}

/* Gives the convolution's result; one of known weights is kept for a norm behind it. */
static mica_status give_conv(mc_onnx_node *n, const mc_onnx_conv *conv, bool known) {
    mica_array y = mica_conv_general(n->s, conv->x, conv->w, &conv->options);
    if (conv->bias.scope) y = mica_add(n->s, y, conv->bias);
    MC_TRY(mc_onnx_give_last(n, 0, y));
    if (!known) return MICA_OK;
    mc_onnx_conv *kept = mc_arena_alloc(&n->import->arena, sizeof *kept);
    if (!kept) return mc_fail_nomem("a convolution");
    *kept = *conv;
    n->out[0].conv = kept;
    MC_TRY(mc_onnx_hold(n->import, conv->x));
    MC_TRY(mc_onnx_hold(n->import, conv->w));
    return mc_onnx_hold(n->import, conv->bias);
}

static mica_array weights_last(mica_scope *s, mica_array w, int64_t kind) {
    (void)kind;
    return mc_onnx_to_last(s, w);
}

mica_status mc_onnx_conv_op(mc_onnx_node *n) {
    mica_array w = n->in[1].x;
    bool known = n->in[1].known && (!mc_onnx_has(n, 2) || n->in[2].known) && !n->in[0].known;
    mc_onnx_conv conv = {.x = mc_onnx_last(n, 0), .bias = mc_onnx_x(n, 2)};
    if (mica_array_ndim(w) != mica_array_ndim(n->in[0].x))
        return mc_fail(MICA_ESHAPE, "its weights have another number of axes than its operand");
    MC_TRY(mc_onnx_read_conv(n, w, &conv.options));
    bool done = false;
    MC_TRY(mc_onnx_steps_conv(n, &conv.options, &done));
    if (done) return MICA_OK;
    MC_TRY(mc_onnx_formed(n, 1, MC_ONNX_LAST, weights_last, &conv.w));
    known = known && conv.w.scope == n->import->constants;
    return give_conv(n, &conv, known);
}

/* Weights [C, O/groups, ...] as [O, ..., C/groups]. */
static mica_array exchange(mica_scope *s, mica_array w, int64_t groups) {
    int64_t shape[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(w);
    int64_t C = mica_array_dim(w, 0), O = mica_array_dim(w, 1);
    shape[0] = groups;
    shape[1] = C / groups;
    shape[2] = O;
    for (int k = 2; k < ndim; k++)
        shape[k + 1] = mica_array_dim(w, k);
    w = mica_swapaxes(s, mica_reshape(s, w, shape, ndim + 1), 1, 2);
    shape[0] = groups * O;
    shape[1] = C / groups;
    for (int k = 2; k < ndim; k++)
        shape[k] = shape[k + 1];
    return mc_onnx_to_last(s, mica_reshape(s, w, shape, ndim));
}

/* Padding of a transposed convolution: by numbers, by auto_pad, or by the result's lengths. */
static mica_status pad_transposed(const mc_onnx_node *n, mc_onnx_window *w, const int64_t *more) {
    int64_t shape[MICA_MAX_SPATIAL];
    int count;
    mc_str how = mc_onnx_text(n, "auto_pad", "NOTSET");
    bool upper = mc_str_is(how, "SAME_UPPER"), same = upper || mc_str_is(how, "SAME_LOWER");
    MC_TRY(mc_onnx_ints(n, "output_shape", MICA_MAX_SPATIAL, shape, &count));
    if (count >= 0 && count != w->spatial)
        return mc_fail(MICA_EFORMAT, "output_shape does not fit");
    for (int i = 0; i < w->spatial && (same || count >= 0); i++) {
        int64_t length = mica_array_dim(n->in[0].x, 2 + i);
        if (count >= 0 && (shape[i] < 0 || shape[i] > INT32_MAX))
            return mc_fail(MICA_EFORMAT, "output_shape is out of range");
        int64_t out = count >= 0 ? shape[i] : mc_dim_mul(length, w->stride[i]);
        int64_t full = mc_dim_mul(w->stride[i], mc_dim_sub(length, 1));
        full = mc_dim_add(full, more[i] + (w->kernel[i] - 1) * w->dilation[i] + 1);
        int64_t total = mc_dim_sub(full, out);
        MC_TRY(mc_onnx_need_number(n->import, "what a result leaves out of its padding", total));
        w->lo[i] = upper ? total / 2 : total - total / 2;
        if (total < 0) w->lo[i] = 0; /* the result is longer at its end */
        w->hi[i] = total - w->lo[i];
    }
    return MICA_OK;
}

mica_status mc_onnx_conv_transpose(mc_onnx_node *n) {
    mica_array w = n->in[1].x;
    mc_onnx_window win;
    int64_t groups = mc_onnx_int(n, "group", 1), more[MICA_MAX_SPATIAL];
    mc_onnx_conv conv = {.x = mc_onnx_last(n, 0), .bias = mc_onnx_x(n, 2)};
    if (mica_array_ndim(w) != mica_array_ndim(n->in[0].x) || groups < 1 || groups > INT32_MAX ||
        mica_array_dim(w, 0) % groups != 0)
        return mc_fail(MICA_ESHAPE, "its weights do not fit");
    MC_TRY(mc_onnx_read_window(n, mica_array_shape(w) + 2, &win));
    MC_TRY(mc_onnx_read_list(n, "output_padding", win.spatial, 0, more));
    MC_TRY(pad_transposed(n, &win, more));
    MC_TRY(mc_onnx_formed(n, 1, groups, exchange, &conv.w));
    conv.options.groups = groups;
    conv.options.flip = true;
    for (int i = 0; i < win.spatial; i++) {
        int64_t full = win.dilation[i] * (win.kernel[i] - 1);
        conv.options.input_dilation[i] = win.stride[i];
        conv.options.kernel_dilation[i] = win.dilation[i];
        conv.options.padding_lo[i] = full - win.lo[i];
        conv.options.padding_hi[i] = full - win.hi[i] + more[i];
    }
    return give_conv(n, &conv, false);
}

/* ---- pools ---- */

static mica_status pool(mc_onnx_node *n, mica_array last, mica_window_kind kind, mica_array *y) {
    mc_onnx_window w;
    MC_TRY(mc_onnx_read_window(n, NULL, &w));
    mica_pool_options options = {
        .exclude_padding = mc_onnx_int(n, "count_include_pad", 0) == 0,
        .ceil = mc_onnx_int(n, "ceil_mode", 0) != 0 && w.given,
    };
    for (int i = 0; i < w.spatial; i++) {
        options.kernel[i] = w.kernel[i];
        options.stride[i] = w.stride[i];
        options.dilation[i] = w.dilation[i];
        options.padding_lo[i] = w.lo[i];
        options.padding_hi[i] = w.hi[i];
    }
    *y = mica_pool(n->s, last, w.spatial, kind, MICA_CHANNELS_LAST, &options);
    return MICA_OK;
}

/* Where each maximum was: its place among all of [N, C, places..]. y and the result with the
 * channels last. */
static mica_status give_places(mc_onnx_node *n, mica_array x, mica_array y) {
    mc_onnx_window w;
    mc_window windows[MICA_MAX_SPATIAL];
    int64_t shape[MICA_MAX_NDIM], area = 1, taps = 1, after = 1;
    bool ceil = mc_onnx_int(n, "ceil_mode", 0) != 0;
    int ndim = mica_array_ndim(x);
    mica_scope *s = n->s;
    MC_TRY(mc_onnx_read_window(n, NULL, &w));
    int64_t column = mc_onnx_int(n, "storage_order", 0), step[MICA_MAX_SPATIAL];
    if (column < 0 || column > 1) return mc_onnx_refuse("this storage_order");
    for (int k = 0; k < ndim; k++)
        shape[k] = mica_array_dim(y, k);
    for (int i = 0; i < w.spatial; i++) {
        int64_t length = mica_array_dim(x, 1 + i);
        int64_t more = ceil ? w.stride[i] - 1 : 0; /* a window may begin in the padding */
        windows[i] = (mc_window){
            length, w.kernel[i], w.stride[i], w.dilation[i], 1, w.lo[i], mc_dim_add(w.hi[i], more)};
        area = mc_dim_mul(area, length);
        if (!mc_dim_mul_to(&taps, w.kernel[i]))
            return mc_fail(MICA_EFORMAT, "its window is out of range");
    }
    for (int i = 0; i < w.spatial; i++) { /* the last axis is the fastest, or the first */
        int k = column ? i : w.spatial - 1 - i;
        step[k] = after;
        after = mc_dim_mul(after, windows[k].length);
    }
    mica_array padded =
        mc_window_pad(s, mica_astype(s, x, MICA_F32), windows, w.spatial, 1, -INFINITY);
    mica_array view = mc_window_view(s, padded, windows, w.spatial, 1);
    for (int i = 0; i < w.spatial; i++)
        if (mica_array_dim(view, 1 + i) != shape[1 + i])
            view = mica_slice_axis(s, view, 1 + i, 0, shape[1 + i]);
    shape[ndim] = shape[ndim - 1];
    shape[ndim - 1] = taps;
    view = mica_reshape(s, view, shape, ndim + 1);
    mica_array tap = mica_astype(s, mica_argmax(s, view, ndim - 1, false), MICA_I64);
    mica_array at = mica_scalar(s, 0, MICA_I64);
    for (int i = w.spatial - 1; i >= 0; i--) {
        mica_array size = mica_scalar(s, (double)w.kernel[i], MICA_I64);
        mica_array own = mica_remainder(s, tap, size);
        mica_array first = mica_arange(s, 0, (double)shape[1 + i], 1, MICA_I64);
        first = mica_multiply(s, first, mica_scalar(s, (double)w.stride[i], MICA_I64));
        first = mica_subtract(s, first, mica_scalar(s, (double)w.lo[i], MICA_I64));
        own = mica_multiply(s, own, mica_scalar(s, (double)w.dilation[i], MICA_I64));
        own = mica_add(s, own, mc_onnx_along(s, first, 1 + i, ndim));
        own = mica_multiply(s, own, mica_scalar(s, (double)step[i], MICA_I64));
        at = mica_add(s, at, own);
        tap = mica_floor_divide(s, tap, size);
    }
    int64_t rows = mica_array_dim(x, 0), channels = mica_array_dim(x, -1);
    mica_array image = mica_arange(s, 0, (double)mc_dim_mul(rows, channels), 1, MICA_I64);
    image = mica_multiply(s, image, mica_scalar(s, (double)area, MICA_I64));
    int64_t each[MICA_MAX_NDIM] = {rows};
    for (int k = 1; k < ndim; k++)
        each[k] = k == ndim - 1 ? channels : 1;
    return mc_onnx_give_last(n, 1, mica_add(s, at, mica_reshape(s, image, each, ndim)));
}

/* A result that is much larger than its operand must be small. */
enum { MAX_UNPOOLED = 1 << 22, UNPOOLED_BY_ELEMENT = 256 };

/* Checks how much larger a result of `size` elements, or one of the shape `want`, is than x; where
 * lengths are open, by how much more windows make of an element. */
static mica_status check_unpooled(const mc_onnx_window *w, int64_t size, mica_array x,
                                  const int64_t *want) {
    int64_t room = 1, each = 1, n = mica_array_size(x);
    bool open = mc_dim_has_symbols(size);
    for (int k = 0; k < mica_array_ndim(x); k++) {
        open = open || mc_dim_has_symbols(want[k]);
        if (!open && __builtin_mul_overflow(room, mc_max(want[k], 0), &room)) room = INT64_MAX;
    }
    for (int i = 0; i < w->spatial; i++)
        if (__builtin_mul_overflow(each, mc_max(w->stride[i], w->kernel[i]), &each))
            each = INT64_MAX;
    bool large =
        open ? each > UNPOOLED_BY_ELEMENT
             : mc_max(size, room) > MAX_UNPOOLED && mc_max(size, room) / UNPOOLED_BY_ELEMENT > n;
    return large ? mc_onnx_refuse("unpooling to so much more than there is") : MICA_OK;
}

/* x at the places that a pool gave, zeros elsewhere. */
mica_status mc_onnx_max_unpool(mc_onnx_node *n) {
    mc_onnx_window w;
    mica_array x = n->in[0].x, at = mica_astype(n->s, n->in[1].x, MICA_I64);
    int64_t shape[MICA_MAX_NDIM], want[MICA_MAX_NDIM], before[MICA_MAX_NDIM] = {0},
                                                       after[MICA_MAX_NDIM] = {0}, size = 1;
    int count, ndim = mica_array_ndim(x);
    MC_TRY(mc_onnx_read_window(n, NULL, &w));
    MC_TRY(mc_onnx_operand_dims(n, 2, MICA_MAX_NDIM, want, &count));
    for (int k = 0; k < ndim; k++) {
        shape[k] = mica_array_dim(x, k);
        if (k >= 2) { /* (n - 1) stride + kernel - pads */
            shape[k] = mc_dim_mul(mc_dim_sub(shape[k], 1), w.stride[k - 2]);
            shape[k] = mc_dim_add(shape[k], w.kernel[k - 2]);
            shape[k] = mc_dim_sub(shape[k], mc_dim_add(w.lo[k - 2], w.hi[k - 2]));
        }
        if (mc_dim_sign(shape[k]) < 0 || !mc_dim_mul_to(&size, shape[k]))
            return mc_fail(MICA_ESHAPE, "its result's shape is out of range");
    }
    if (count >= 0 && count != ndim) return mc_fail(MICA_ESHAPE, "its output_shape does not fit");
    if (!mc_dim_may_equal(mica_array_size(at), mica_array_size(x)))
        return mc_fail(MICA_ESHAPE, "its indices do not fit");
    MC_TRY(check_unpooled(&w, size, x, count >= 0 ? want : shape));
    const int64_t flat[] = {mica_array_size(x)};
    mica_array y = mica_zeros(n->s, &size, 1, mica_array_dtype(x));
    y = mica_put_along_axis(n->s, y, mica_reshape(n->s, at, flat, 1),
                            mica_reshape(n->s, x, flat, 1), 0);
    y = mica_reshape(n->s, y, shape, ndim);
    for (int k = 0; count >= 0 && k < ndim; k++) {
        if (mc_dim_less(want[k], shape[k]))
            return mc_onnx_refuse("an output_shape that is smaller");
        after[k] = mc_dim_sub(want[k], shape[k]);
    }
    if (count >= 0) y = mica_pad(n->s, y, before, after, mica_scalar(n->s, 0, mica_array_dtype(x)));
    return mc_onnx_give(n, 0, y);
}

mica_status mc_onnx_max_pool(mc_onnx_node *n) {
    mica_array y;
    if (n->n_out > 1 && *n->proto->output[1]) {
        MC_TRY(pool(n, mc_onnx_last(n, 0), MICA_WINDOW_MAX, &y));
        MC_TRY(give_places(n, mc_onnx_last(n, 0), y));
        return mc_onnx_give_last(n, 0, y);
    }
    MC_TRY(pool(n, mc_onnx_last(n, 0), MICA_WINDOW_MAX, &y));
    return mc_onnx_give_last(n, 0, y);
}

mica_status mc_onnx_average_pool(mc_onnx_node *n) {
    mica_array y;
    MC_TRY(pool(n, mc_onnx_last(n, 0), MICA_WINDOW_MEAN, &y));
    return mc_onnx_give_last(n, 0, y);
}

/* |x|^p and its inverse. */
static mica_array raise(mc_onnx_node *n, mica_array x, double p) {
    mica_array exponent = mica_scalar(n->s, p, mica_array_dtype(x));
    return mica_power(n->s, mica_abs(n->s, x), exponent);
}

mica_status mc_onnx_lp_pool(mc_onnx_node *n) {
    mica_array y;
    double p = (double)mc_onnx_int(n, "p", 2);
    MC_TRY(pool(n, raise(n, mc_onnx_last(n, 0), p), MICA_WINDOW_SUM, &y));
    return mc_onnx_give_last(n, 0, raise(n, y, 1 / p));
}

/* The axes of places, with the channels last: all but the first and the last. */
static int places(mica_array x, int axes[MICA_MAX_NDIM]) {
    int count = 0;
    for (int k = 1; k + 1 < mica_array_ndim(x); k++)
        axes[count++] = k;
    return count;
}

static mica_status pool_all(mc_onnx_node *n, mc_onnx_reduction f, mica_array x, mica_array *y) {
    int axes[MICA_MAX_NDIM], count = places(x, axes);
    if (count == 0) return mc_fail(MICA_ESHAPE, "its operand has no places");
    *y = f(n->s, x, axes, count, true);
    return MICA_OK;
}

static mica_status pool_last(mc_onnx_node *n, mc_onnx_reduction f) {
    mica_array y;
    MC_TRY(pool_all(n, f, mc_onnx_last(n, 0), &y));
    return mc_onnx_give_last(n, 0, y);
}

mica_status mc_onnx_global_average_pool(mc_onnx_node *n) {
    return pool_last(n, mica_mean);
}
mica_status mc_onnx_global_max_pool(mc_onnx_node *n) {
    return pool_last(n, mica_max);
}
mica_status mc_onnx_global_lp_pool(mc_onnx_node *n) {
    mica_array y;
    double p = (double)mc_onnx_int(n, "p", 2);
    MC_TRY(pool_all(n, mica_sum, raise(n, mc_onnx_last(n, 0), p), &y));
    return mc_onnx_give_last(n, 0, raise(n, y, 1 / p));
}

/* ---- norms over channels ---- */

/* The convolution before a norm, with other weights: w a, bias a + b. */
static mica_status change_conv(mc_onnx_node *n, mica_array a, mica_array b) {
    mica_scope *s = n->import->constants;
    mc_onnx_conv conv = *n->in[0].conv;
    mica_dtype dtype = mica_array_dtype(conv.w);
    MC_TRY(mc_onnx_charge(n->import, mica_array_bytes(conv.w)));
    conv.w = mica_multiply(s, conv.w, mc_onnx_along(s, a, 0, mica_array_ndim(conv.w)));
    conv.bias = conv.bias.scope ? mica_add(s, mica_multiply(s, conv.bias, a), b) : b;
    conv.w = mica_astype(s, conv.w, dtype);
    conv.bias = mica_astype(s, conv.bias, dtype);
    MC_TRY(keep(n->import, &conv.w));
    MC_TRY(keep(n->import, &conv.bias));
    return give_conv(n, &conv, true);
}

/* By the moments of x itself; results 1 and 2 are the running ones. */
static mica_status train_norm(mc_onnx_node *n) {
    mica_scope *s = n->s;
    mica_array x = mc_onnx_last(n, 0), moments[2], f = mc_onnx_as_f32(n, x);
    int axes[MICA_MAX_NDIM], count = 0;
    double momentum = mc_onnx_real(n, "momentum", 0.9f);
    for (int k = 0; k + 1 < mica_array_ndim(x); k++)
        axes[count++] = k;
    moments[0] = mica_mean(s, f, axes, count, false);
    moments[1] = mica_var(s, f, axes, count, false, 0);
    for (size_t i = 0; i < 2; i++) {
        mica_array old = mica_multiply(s, n->in[3 + i].x, mc_onnx_f32(n, momentum));
        mica_array new = mica_multiply(s, moments[i], mc_onnx_f32(n, 1 - momentum));
        MC_TRY(mc_onnx_give(n, 1 + i, mica_add(s, old, new)));
    }
    mica_array eps = mc_onnx_f32(n, mc_onnx_real(n, "epsilon", 1e-5f));
    mica_array a = mica_multiply(s, n->in[1].x, mica_rsqrt(s, mica_add(s, moments[1], eps)));
    f = mica_multiply(s, mica_subtract(s, f, moments[0]), a);
    f = mica_add(s, f, n->in[2].x);
    return mc_onnx_give_last(n, 0, mica_astype(s, f, mica_array_dtype(x)));
}

/* x a + b with a = scale / sqrt(var + eps), b = bias - mean a */
mica_status mc_onnx_batch_norm(mc_onnx_node *n) {
    bool known = true;
    for (size_t i = 1; i < 5; i++) {
        known = known && n->in[i].known;
        if (mica_array_ndim(n->in[i].x) != 1)
            return mc_fail(MICA_ESHAPE, "operand %zu is no vector", i);
    }
    if (mica_array_ndim(n->in[0].x) < 2) return mc_fail(MICA_ESHAPE, "its operand has no channels");
    if (mc_onnx_int(n, "training_mode", 0)) return train_norm(n);
    mica_scope *s = known ? n->import->constants : n->s;
    mica_array var = n->in[4].x, eps = mica_scalar(s, mc_onnx_real(n, "epsilon", 1e-5f), MICA_F32);
    mica_array a = mica_multiply(s, n->in[1].x, mica_rsqrt(s, mica_add(s, var, eps)));
    mica_array b = mica_subtract(s, n->in[2].x, mica_multiply(s, n->in[3].x, a));
    if (known) MC_TRY(keep(n->import, &a));
    if (known) MC_TRY(keep(n->import, &b));
    bool fits = n->in[0].conv && mica_array_bytes(n->in[0].conv->w) <= n->import->fold_left;
    if (known && fits && mc_onnx_used_once(n, 0)) return change_conv(n, a, b);
    mica_array x = mc_onnx_last(n, 0);
    mica_dtype dtype = mica_array_dtype(x);
    mica_array y = mica_add(n->s, mica_multiply(n->s, x, a), b);
    return mc_onnx_give_last(n, 0, mica_astype(n->s, y, dtype));
}

mica_status mc_onnx_instance_norm(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    int64_t channels = mica_array_dim(x, 1);
    return mc_onnx_give(n, 0,
                        mica_group_norm(n->s, x, n->in[1].x, n->in[2].x, channels,
                                        (float)mc_onnx_real(n, "epsilon", 1e-5f)));
}

mica_status mc_onnx_group_norm(mc_onnx_node *n) {
    mica_array x = n->in[0].x, scale = n->in[1].x, bias = n->in[2].x;
    int64_t groups = mc_onnx_int(n, "num_groups", 0), channels = mica_array_dim(x, 1);
    if (groups < 1 || channels % groups != 0)
        return mc_fail(MICA_ESHAPE, "%lld groups do not divide its channels", (long long)groups);
    if (n->import->opset < 21) { /* they belonged to groups */
        scale = mica_repeat(n->s, scale, channels / groups, 0);
        bias = mica_repeat(n->s, bias, channels / groups, 0);
    }
    return mc_onnx_give(
        n, 0,
        mica_group_norm(n->s, x, scale, bias, groups, (float)mc_onnx_real(n, "epsilon", 1e-5f)));
}

/* x / (bias + alpha / size * sum of squares over `size` channels)^beta */
mica_status mc_onnx_lrn(mc_onnx_node *n) {
    mica_array x = mc_onnx_last(n, 0);
    int64_t size = mc_onnx_int(n, "size", 0);
    int channel = mica_array_ndim(x) - 1;
    if (size < 1 || size > INT32_MAX || channel < 1)
        return mc_fail(MICA_EFORMAT, "its size is out of range");
    mica_window_options options = {.window = {0}};
    options.window[channel] = size;
    options.padding_lo[channel] = (size - 1) / 2;
    options.padding_hi[channel] = size - 1 - (size - 1) / 2;
    mica_array sum = mica_reduce_window(n->s, mica_square(n->s, x), MICA_WINDOW_SUM, &options);
    double alpha = mc_onnx_real(n, "alpha", 0.0001f) / (double)size;
    sum = mica_multiply(n->s, sum, mica_scalar(n->s, alpha, mica_array_dtype(x)));
    sum = mica_add(n->s, sum, mica_scalar(n->s, mc_onnx_real(n, "bias", 1), mica_array_dtype(x)));
    mica_array beta = mica_scalar(n->s, mc_onnx_real(n, "beta", 0.75), mica_array_dtype(x));
    return mc_onnx_give_last(n, 0, mica_divide(n->s, x, mica_power(n->s, sum, beta)));
}
