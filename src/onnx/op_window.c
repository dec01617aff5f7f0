/* Convolutions and pools, which compute with the channels last, and norms over channels. */
#include "onnx/import.h"

#include "base/alloc.h"
#include "base/integer.h"

#include <mica/nn.h>
#include <mica/ops.h>

/* ---- windows ---- */

typedef struct window {
    int spatial;
    int64_t kernel[MICA_MAX_SPATIAL], stride[MICA_MAX_SPATIAL], dilation[MICA_MAX_SPATIAL];
    int64_t lo[MICA_MAX_SPATIAL], hi[MICA_MAX_SPATIAL];
    bool given; /* padding by numbers, not by auto_pad */
} window;

static mica_status read_list(const mc_onnx_node *n, const char *name, int want, int64_t otherwise,
                             int64_t *list) {
    int count;
    MC_TRY(mc_onnx_ints(n, name, want, list, &count));
    if (count >= 0 && count != want) return mc_fail(MICA_EFORMAT, "%s has %d numbers", name, count);
    for (int i = 0; i < want; i++) {
        if (count < 0) list[i] = otherwise;
        if (list[i] < -INT32_MAX || list[i] > INT32_MAX)
            return mc_fail(MICA_EFORMAT, "%s is out of range", name);
    }
    return MICA_OK;
}

/* Padding such that a result is as long as the operand over the stride. */
static void pad_same(window *w, int i, int64_t length, bool upper) {
    int64_t out = (length + w->stride[i] - 1) / w->stride[i];
    int64_t total = (out - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - length;
    total = mc_max(total, 0);
    w->lo[i] = upper ? total / 2 : total - total / 2;
    w->hi[i] = total - w->lo[i];
}

/* kernel: that of the weights; NULL: the attribute. */
static mica_status read_window(const mc_onnx_node *n, const int64_t *kernel, window *w) {
    mica_array x = n->in[0].x;
    int64_t pads[2 * MICA_MAX_SPATIAL];
    mc_str how = mc_onnx_text(n, "auto_pad", "NOTSET");
    w->spatial = mica_array_ndim(x) - 2;
    if (w->spatial < 1 || w->spatial > MICA_MAX_SPATIAL)
        return mc_fail(MICA_EUNSUPPORTED, "its operand has %d axes; mica has 3 to %d of them",
                       w->spatial + 2, MICA_MAX_SPATIAL + 2);
    MC_TRY(read_list(n, "kernel_shape", w->spatial, 0, w->kernel));
    MC_TRY(read_list(n, "strides", w->spatial, 1, w->stride));
    MC_TRY(read_list(n, "dilations", w->spatial, 1, w->dilation));
    MC_TRY(read_list(n, "pads", 2 * w->spatial, 0, pads));
    bool same = mc_str_is(how, "SAME_UPPER") || mc_str_is(how, "SAME_LOWER");
    w->given = mc_str_is(how, "NOTSET");
    if (!same && !w->given && !mc_str_is(how, "VALID")) return mc_onnx_refuse("this auto_pad");
    for (int i = 0; i < w->spatial; i++) {
        if (kernel) w->kernel[i] = kernel[i];
        w->lo[i] = w->given ? pads[i] : 0;
        w->hi[i] = w->given ? pads[w->spatial + i] : 0;
        if (w->kernel[i] < 1 || w->stride[i] < 1 || w->dilation[i] < 1 ||
            w->kernel[i] > INT32_MAX / w->dilation[i])
            return mc_fail(MICA_EFORMAT, "its window is out of range");
        if (same) pad_same(w, i, mica_array_dim(x, 2 + i), mc_str_is(how, "SAME_UPPER"));
    }
    return MICA_OK;
}

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
    window win;
    bool known = n->in[1].known && (!mc_onnx_has(n, 2) || n->in[2].known) && !n->in[0].known;
    mc_onnx_conv conv = {.x = mc_onnx_last(n, 0), .bias = mc_onnx_x(n, 2)};
    if (mica_array_ndim(w) != mica_array_ndim(n->in[0].x))
        return mc_fail(MICA_ESHAPE, "its weights have another number of axes than its operand");
    MC_TRY(read_window(n, mica_array_shape(w) + 2, &win));
    MC_TRY(mc_onnx_formed(n, 1, MC_ONNX_LAST, weights_last, &conv.w));
    known = known && conv.w.scope == n->import->constants;
    conv.options.groups = mc_onnx_int(n, "group", 1);
    for (int i = 0; i < win.spatial; i++) {
        conv.options.stride[i] = win.stride[i];
        conv.options.kernel_dilation[i] = win.dilation[i];
        conv.options.padding_lo[i] = win.lo[i];
        conv.options.padding_hi[i] = win.hi[i];
    }
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
static mica_status pad_transposed(const mc_onnx_node *n, window *w, const int64_t *more) {
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
        int64_t out = count >= 0 ? shape[i] : length * w->stride[i];
        int64_t total =
            w->stride[i] * (length - 1) + more[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - out;
        w->lo[i] = upper ? total / 2 : total - total / 2;
        if (total < 0) w->lo[i] = 0; /* the result is longer at its end */
        w->hi[i] = total - w->lo[i];
    }
    return MICA_OK;
}

mica_status mc_onnx_conv_transpose(mc_onnx_node *n) {
    mica_array w = n->in[1].x;
    window win;
    int64_t groups = mc_onnx_int(n, "group", 1), more[MICA_MAX_SPATIAL];
    mc_onnx_conv conv = {.x = mc_onnx_last(n, 0), .bias = mc_onnx_x(n, 2)};
    if (mica_array_ndim(w) != mica_array_ndim(n->in[0].x) || groups < 1 || groups > INT32_MAX ||
        mica_array_dim(w, 0) % groups != 0)
        return mc_fail(MICA_ESHAPE, "its weights do not fit");
    MC_TRY(read_window(n, mica_array_shape(w) + 2, &win));
    MC_TRY(read_list(n, "output_padding", win.spatial, 0, more));
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
    window w;
    MC_TRY(read_window(n, NULL, &w));
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

mica_status mc_onnx_max_pool(mc_onnx_node *n) {
    mica_array y;
    if (n->n_out > 1 && *n->proto->output[1]) return mc_onnx_refuse("the indices of a pool");
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

/* x a + b with a = scale / sqrt(var + eps), b = bias - mean a */
mica_status mc_onnx_batch_norm(mc_onnx_node *n) {
    bool known = true;
    if (mc_onnx_int(n, "training_mode", 0)) return mc_onnx_refuse("norms while training");
    for (size_t i = 1; i < 5; i++) {
        known = known && n->in[i].known;
        if (mica_array_ndim(n->in[i].x) != 1)
            return mc_fail(MICA_ESHAPE, "operand %zu is no vector", i);
    }
    if (mica_array_ndim(n->in[0].x) < 2) return mc_fail(MICA_ESHAPE, "its operand has no channels");
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
