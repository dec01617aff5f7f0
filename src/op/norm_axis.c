/* Norms over other axes than the last: compositions of views and the ops of op/norm.c. */
#include <mica/nn.h>

#include <string.h>

#include "op/build.h"

typedef mica_array (*norm)(mica_scope *s, mica_array x, mica_array weight, mica_array bias,
                           float eps);

static mica_array rms_norm(mica_scope *s, mica_array x, mica_array weight, mica_array bias,
                           float eps) {
    (void)bias;
    return mica_rms_norm(s, x, weight, eps);
}

static mica_array along(mica_scope *s, const char *name, norm f, mica_array x, mica_array weight,
                        mica_array bias, int axis, float eps) {
    int at;
    if (!mc_operands_ok(s, name, &x, 1)) return mc_invalid(s);
    if (!mc_find_axis(s, name, mc_layout_of(x), axis, &at)) return mc_invalid(s);
    x = mica_swapaxes(s, x, at, -1);
    return mica_swapaxes(s, f(s, x, weight, bias, eps), at, -1);
}

mica_array mica_rms_norm_axis(mica_scope *s, mica_array x, mica_array weight, int axis, float eps) {
    return along(s, "rms_norm_axis", rms_norm, x, weight, MICA_NONE, axis, eps);
}

mica_array mica_layer_norm_axis(mica_scope *s, mica_array x, mica_array weight, mica_array bias,
                                int axis, float eps) {
    return along(s, "layer_norm_axis", mica_layer_norm, x, weight, bias, axis, eps);
}

/* A vector of the channels [C], f32, as [C, 1, ...] of ndim - 1 axes. false: it is none. */
static bool of_channels(mica_scope *s, const mc_layout *x, mica_array *v, mica_dtype *dtype) {
    char text[MC_LAYOUT_TEXT], text_x[MC_LAYOUT_TEXT];
    if (!v->scope) return true;
    if (!mc_operands_ok(s, "group_norm", v, 1)) return false;
    const mc_layout *l = mc_layout_of(*v);
    if (!mica_dtype_is_float(l->dtype) || l->ndim != 1 || l->shape[0] != x->shape[1]) {
        mc_scope_fail(s, MICA_ESHAPE, "group_norm: %s for the channels of %s",
                      mc_layout_text(l, text), mc_layout_text(x, text_x));
        return false;
    }
    int64_t shape[MICA_MAX_NDIM] = {x->shape[1]};
    for (int k = 1; k + 1 < x->ndim; k++)
        shape[k] = 1;
    *dtype = mica_dtype_promote(*dtype, l->dtype);
    *v = mica_reshape(s, mc_cast(s, *v, MICA_F32), shape, x->ndim - 1);
    return mica_valid(*v);
}

mica_array mica_group_norm(mica_scope *s, mica_array x, mica_array weight, mica_array bias,
                           int64_t groups, float eps) {
    char text[MC_LAYOUT_TEXT];
    if (!mc_operands_ok(s, "group_norm", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    if (groups < 1)
        return mc_scope_fail(s, MICA_EINVAL, "group_norm: %lld groups", (long long)groups);
    if (!mica_dtype_is_float(l->dtype))
        return mc_scope_fail(s, MICA_EDTYPE, "group_norm: %s is not a float",
                             mc_layout_text(l, text));
    if (l->ndim < 2 || mc_dim_mod(l->shape[1], groups) != 0)
        return mc_scope_fail(s, MICA_ESHAPE, "group_norm: %s in %lld groups of channels",
                             mc_layout_text(l, text), (long long)groups);
    mica_dtype dtype = l->dtype;
    if (!of_channels(s, l, &weight, &dtype) || !of_channels(s, l, &bias, &dtype))
        return mc_invalid(s);
    int64_t rows[3] = {l->shape[0], groups, mc_dim_div(l->shape[1], groups)}, shape[MICA_MAX_NDIM];
    int ndim = l->ndim;
    memcpy(shape, l->shape, sizeof shape);
    for (int k = 2; k < ndim; k++)
        rows[2] = mc_dim_mul(rows[2], shape[k]);
    mica_array y = mica_reshape(s, mc_cast(s, x, MICA_F32), rows, 3);
    y = mica_layer_norm(s, y, MICA_NONE, MICA_NONE, eps);
    y = mica_reshape(s, y, shape, ndim);
    if (weight.scope) y = mica_multiply(s, y, weight);
    if (bias.scope) y = mica_add(s, y, bias);
    return mc_cast(s, y, dtype);
}
