/* Gradients of single ops, under names of their own: what mica_grad gives of the op. */
#include <mica/grad.h>
#include <mica/nn.h>
#include <mica/signal.h>

#include "graph/graph.h"

enum { MAX = 3 };

/* The gradients of sum(y * dy) by xs [n], into those of out that are not NULL. */
static mica_status backward(mica_scope *s, mica_array y, mica_array dy, const mica_array *xs, int n,
                            mica_array *const *out) {
    mica_array some[MAX] = {MICA_NONE}, grads[MAX];
    int wanted = 0;
    for (int i = 0; i < n; i++)
        if (out[i]) some[wanted++] = xs[i];
    mica_status status = mica_grad(s, y, dy, some, (size_t)wanted, grads);
    wanted = 0;
    for (int i = 0; i < n; i++)
        if (out[i]) *out[i] = status == MICA_OK ? grads[wanted++] : (mica_array){s, MC_ABSENT};
    return s ? mc_scope_set_status(s, status) : status; /* as of an op */
}

/* x as a variable of its own: what else was recorded of it does not count. */
static mica_array variable(mica_scope *s, mica_array x) {
    return mc_record(s, MC_OP_IDENTITY, NULL, &x, 1);
}

static mica_array one(mica_scope *s, mica_array y, mica_array dy, mica_array x) {
    mica_array dx = mc_invalid(s);
    mica_array *const out[1] = {&dx};
    if (!mica_valid(y) || !mc_operands_ok(s, "a gradient", &dy, 1)) return mc_invalid(s);
    (void)backward(s, y, dy, &x, 1, out);
    return dx;
}

/* ---- element by element ---- */

mica_array mica_relu_backward(mica_scope *s, mica_array x, mica_array dy) {
    const mica_array in[2] = {x, dy};
    if (!mc_operands_ok(s, "relu_backward", in, 2)) return mc_invalid(s);
    mica_array zero = mica_scalar(s, 0, mica_array_dtype(x));
    mica_array rises = mica_greater(s, x, zero);
    mica_array dx = mica_where(s, rises, dy, mica_scalar(s, 0, mica_array_dtype(dy)));
    return mica_astype(s, dx, mica_array_dtype(x));
}

mica_array mica_activation_backward(mica_scope *s, mica_activation kind, mica_array x,
                                    mica_array dy) {
    const mica_array in[2] = {x, dy};
    if (!mc_operands_ok(s, "activation_backward", in, 2)) return mc_invalid(s);
    if (kind == MICA_ACT_RELU) return mica_relu_backward(s, x, dy);
    if (kind == MICA_ACT_ROUND) kind = MICA_ACT_IDENTITY; /* straight through */
    x = variable(s, x);
    return one(s, mica_activate(s, kind, x), dy, x);
}

mica_array mica_fake_quantize_backward(mica_scope *s, mica_array x, mica_array dy,
                                       const mica_fake_quantize_options *options) {
    if (!mc_operands_ok(s, "fake_quantize_backward", &x, 1)) return mc_invalid(s);
    x = variable(s, x);
    return one(s, mica_fake_quantize(s, x, options, NULL), dy, x);
}

mica_status mica_fake_quantize_lsq_backward(mica_scope *s, mica_array x, mica_array scale,
                                            mica_array dy, int bits, const int *axis,
                                            float scale_gradient, mica_array *dx,
                                            mica_array *dscale) {
    const mica_array xs[2] = {variable(s, x), variable(s, scale)};
    mica_array *const out[2] = {dx, dscale};
    mica_array y = mica_fake_quantize_lsq(s, xs[0], xs[1], bits, axis, scale_gradient);
    return backward(s, y, dy, xs, 2, out);
}

mica_array mica_cumsum_backward(mica_scope *s, mica_array dy, int axis, bool reverse,
                                bool inclusive) {
    return mica_cumsum(s, dy, axis, !reverse, inclusive);
}

/* ---- by index, of positions, of losses ---- */

mica_array mica_take_backward(mica_scope *s, mica_array x, mica_array indices, mica_array dy,
                              int axis) {
    if (!mc_operands_ok(s, "take_backward", &x, 1)) return mc_invalid(s);
    x = variable(s, x);
    return one(s, mica_take(s, x, indices, axis), dy, x);
}

mica_array mica_rope_tables_backward(mica_scope *s, mica_array dy, mica_array cos, mica_array sin) {
    return mica_rope_tables(s, dy, cos, mica_negative(s, sin));
}

mica_array mica_softmax_cross_entropy_backward(mica_scope *s, mica_array logits, mica_array labels,
                                               mica_array dloss, const int64_t *ignore_index) {
    if (!mc_operands_ok(s, "softmax_cross_entropy_backward", &logits, 1)) return mc_invalid(s);
    logits = variable(s, logits);
    return one(s, mica_softmax_cross_entropy(s, logits, labels, ignore_index), dloss, logits);
}

/* ---- norms ---- */

/* A vector of ones or zeros for a weight that is absent. */
static mica_array vector(mica_scope *s, mica_array given, mica_array x, int axis, float value) {
    if (given.scope) return variable(s, given);
    int64_t n = mica_array_dim(x, axis);
    return mica_full(s, &n, 1, mica_scalar(s, (double)value, mica_array_dtype(x)));
}

mica_status mica_layer_norm_backward(mica_scope *s, mica_array x, mica_array gamma, mica_array dy,
                                     float eps, mica_array *dx, mica_array *dgamma,
                                     mica_array *dbeta) {
    x = variable(s, x);
    const mica_array xs[3] = {x, vector(s, gamma, x, -1, 1), vector(s, MICA_NONE, x, -1, 0)};
    mica_array *const out[3] = {dx, dgamma, dbeta};
    return backward(s, mica_layer_norm(s, x, xs[1], xs[2], eps), dy, xs, 3, out);
}

mica_status mica_rms_norm_backward(mica_scope *s, mica_array x, mica_array gamma, mica_array dy,
                                   float eps, mica_array *dx, mica_array *dgamma) {
    x = variable(s, x);
    const mica_array xs[2] = {x, vector(s, gamma, x, -1, 1)};
    mica_array *const out[2] = {dx, dgamma};
    return backward(s, mica_rms_norm(s, x, xs[1], eps), dy, xs, 2, out);
}

mica_status mica_group_norm_backward(mica_scope *s, mica_array x, mica_array gamma, mica_array dy,
                                     int64_t groups, float eps, mica_array *dx, mica_array *dgamma,
                                     mica_array *dbeta) {
    x = variable(s, x);
    const mica_array xs[3] = {x, vector(s, gamma, x, 1, 1), vector(s, MICA_NONE, x, 1, 0)};
    mica_array *const out[3] = {dx, dgamma, dbeta};
    return backward(s, mica_group_norm(s, x, xs[1], xs[2], groups, eps), dy, xs, 3, out);
}

/* ---- convolutions, pools ---- */

mica_status mica_conv_backward(mica_scope *s, mica_array x, mica_array w, mica_array dy,
                               mica_channels layout, const mica_conv_options *options,
                               mica_array *dx, mica_array *dw) {
    static mica_array (*const by_axes[MICA_MAX_SPATIAL])(
        mica_scope *, mica_array, mica_array, mica_channels,
        const mica_conv_options *) = {mica_conv1d, mica_conv2d, mica_conv3d};
    const mica_array xs[2] = {variable(s, x), variable(s, w)};
    mica_array *const out[2] = {dx, dw};
    int axes = mica_array_ndim(xs[0]) - 2;
    if (axes < 1 || axes > MICA_MAX_SPATIAL) axes = 2; /* which says what is wrong */
    return backward(s, by_axes[axes - 1](s, xs[0], xs[1], layout, options), dy, xs, 2, out);
}

mica_array mica_pool_backward(mica_scope *s, mica_array x, mica_array dy, int spatial,
                              mica_window_kind kind, mica_channels layout,
                              const mica_pool_options *options) {
    if (!mc_operands_ok(s, "pool_backward", &x, 1)) return mc_invalid(s);
    x = variable(s, x);
    return one(s, mica_pool(s, x, spatial, kind, layout, options), dy, x);
}

/* ---- attention ---- */

mica_status mica_masked_attention_backward(mica_scope *s, mica_array q, mica_array k, mica_array v,
                                           mica_array dy,
                                           const mica_masked_attention_options *options,
                                           mica_array *dq, mica_array *dk, mica_array *dv) {
    const mica_array xs[3] = {variable(s, q), variable(s, k), variable(s, v)};
    mica_array *const out[3] = {dq, dk, dv};
    return backward(s, mica_masked_attention(s, xs[0], xs[1], xs[2], options), dy, xs, 3, out);
}
