/* Norms over the axes behind one, or over listed ones. */
#include "onnx/import.h"

#include "base/integer.h"
#include "graph/dim.h"

#include <mica/nn.h>
#include <mica/ops.h>

/* x as [.., D], D being the elements of the axes from `axis` on. */
static mica_array flatten_from(mc_onnx_node *n, mica_array x, int axis) {
    int64_t shape[MICA_MAX_NDIM], elements = 1;
    if (axis == mica_array_ndim(x) - 1) return x;
    for (int k = 0; k < axis; k++)
        shape[k] = mica_array_dim(x, k);
    for (int k = axis; k < mica_array_ndim(x); k++)
        elements = mc_dim_mul(elements, mica_array_dim(x, k));
    shape[axis] = elements;
    return mica_reshape(n->s, x, shape, axis + 1);
}

/* A scale or bias as [D]. */
static mica_array weight_of(mc_onnx_node *n, size_t i, mica_array x, int axis) {
    mica_array w = mc_onnx_x(n, i);
    int ndim = mica_array_ndim(x) - axis;
    if (!w.scope) return w;
    if (ndim == 1 && mica_array_ndim(w) == 1) return w;
    w = mica_broadcast_to(n->s, w, mica_array_shape(x) + axis, ndim);
    return mica_reshape(n->s, w, (int64_t[]){-1}, 1);
}

/* The mean and 1 / sqrt(var + eps) over the axes from `axis` on. */
static mica_status give_moments(mc_onnx_node *n, int axis, double eps) {
    mica_array x = mica_astype(n->s, n->in[0].x, MICA_F32);
    int axes[MICA_MAX_NDIM], count = 0;
    for (int k = axis; k < mica_array_ndim(x); k++)
        axes[count++] = k;
    MC_TRY(mc_onnx_give(n, 1, mica_mean(n->s, x, axes, count, true)));
    mica_array var = mica_var(n->s, x, axes, count, true, 0);
    return mc_onnx_give(n, 2,
                        mica_rsqrt(n->s, mica_add(n->s, var, mica_scalar(n->s, eps, MICA_F32))));
}

static mica_status norm(mc_onnx_node *n, bool centred) {
    mica_array x = n->in[0].x;
    int axis;
    double eps = mc_onnx_real(n, "epsilon", 1e-5f);
    MC_TRY(mc_onnx_axis(n, -1, mica_array_ndim(x), &axis));
    mica_array flat = flatten_from(n, x, axis), w = weight_of(n, 1, x, axis);
    mica_array y = centred ? mica_layer_norm(n->s, flat, w, weight_of(n, 2, x, axis), (float)eps)
                           : mica_rms_norm(n->s, flat, w, (float)eps);
    y = mica_reshape(n->s, y, mica_array_shape(x), mica_array_ndim(x));
    MC_TRY(mc_onnx_give(n, 0, y));
    return centred && n->n_out > 1 ? give_moments(n, axis, eps) : MICA_OK;
}

mica_status mc_onnx_layer_norm(mc_onnx_node *n) {
    return norm(n, true);
}
mica_status mc_onnx_rms_norm(mc_onnx_node *n) {
    return norm(n, false);
}

mica_status mc_onnx_lp_norm(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    int axis;
    MC_TRY(mc_onnx_axis(n, -1, mica_array_ndim(x), &axis));
    bool first = mc_onnx_int(n, "p", 2) == 1;
    mica_array y = mica_sum(n->s, first ? mica_abs(n->s, x) : mica_square(n->s, x), &axis, 1, true);
    if (!first) y = mica_sqrt(n->s, y);
    mica_array zero = mica_scalar(n->s, 0, mica_array_dtype(x));
    mica_array quotient = mica_divide(n->s, x, y);
    return mc_onnx_give(n, 0, mica_where(n->s, mica_equal(n->s, y, zero), zero, quotient));
}

mica_status mc_onnx_mean_variance_norm(mc_onnx_node *n) {
    mica_dtype dtype = mica_array_dtype(n->in[0].x);
    mica_array x = mica_astype(n->s, n->in[0].x, MICA_F32); /* f16 has no such eps */
    int64_t list[MICA_MAX_NDIM];
    int axes[MICA_MAX_NDIM] = {0, 2, 3}, count;
    MC_TRY(mc_onnx_ints(n, "axes", MICA_MAX_NDIM, list, &count));
    for (int i = 0; i < count; i++)
        axes[i] = (int)mc_max(-MICA_MAX_NDIM, mc_min(list[i], MICA_MAX_NDIM));
    if (count < 0) count = 3;
    mica_array mean = mica_mean(n->s, x, axes, count, true);
    mica_array deviation = mica_std(n->s, x, axes, count, true, 0);
    mica_array eps = mica_scalar(n->s, 1e-9, MICA_F32);
    x = mica_divide(n->s, mica_subtract(n->s, x, mean), mica_add(n->s, deviation, eps));
    return mc_onnx_give(n, 0, mica_astype(n->s, x, dtype));
}
