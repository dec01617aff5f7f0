/* Normalisations over the last axis. */
#include <mica/ops.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/gradient.h"
#include "op/work.h"

/* Checks x [..., D] and its vectors [D], which may be absent. The result has x's shape and the
 * promoted dtype. */
static mica_status norm_infer(const char *name, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    char text[MC_LAYOUT_TEXT], text_x[MC_LAYOUT_TEXT];
    *out = *in[0];
    if (in[0]->ndim == 0)
        return mc_fail(MICA_ESHAPE, "%s: a 0-dimensional array has no last axis", name);
    for (int i = 0; i < n_in; i++) {
        if (!in[i]) continue;
        if (!mica_dtype_is_float(in[i]->dtype))
            return mc_fail(MICA_EDTYPE, "%s: operand %d is %s, not a float", name, i,
                           mc_layout_text(in[i], text));
        int64_t last = in[0]->shape[in[0]->ndim - 1];
        if (i > 0 && (in[i]->ndim != 1 || in[i]->shape[0] != last))
            return mc_fail(MICA_ESHAPE, "%s: %s over the last axis of %s", name,
                           mc_layout_text(in[i], text), mc_layout_text(in[0], text_x));
        out->dtype = mica_dtype_promote(out->dtype, in[i]->dtype);
    }
    return MICA_OK;
}

static mica_status rms_norm_infer(const void *attr, const mc_layout *const *in, int n_in,
                                  mc_layout *out) {
    const mc_attr_norm *a = attr;
    if (!(a->eps >= 0)) return mc_fail(MICA_EINVAL, "rms_norm: eps %g is below 0", a->eps);
    return norm_infer("rms_norm", in, n_in, out);
}

static mica_status layer_norm_infer(const void *attr, const mc_layout *const *in, int n_in,
                                    mc_layout *out) {
    const mc_attr_norm *a = attr;
    if (!(a->eps >= 0)) return mc_fail(MICA_EINVAL, "layer_norm: eps %g is below 0", a->eps);
    return norm_infer("layer_norm", in, n_in, out);
}

/* The dtype of the result. The decompositions compute in f32. */
static mica_dtype result_dtype(const mica_array *in, int n_in) {
    mica_dtype dtype = mica_array_dtype(in[0]);
    for (int i = 1; i < n_in; i++)
        if (mica_valid(in[i])) dtype = mica_dtype_promote(dtype, mica_array_dtype(in[i]));
    return dtype;
}

/* x / sqrt(mean(x^2) + eps) in f32 */
static mica_array scale_by_rms(mica_scope *s, mica_array x, double eps) {
    const int last = -1;
    mica_array mean = mica_mean(s, mica_square(s, x), &last, 1, true);
    mean = mica_add(s, mean, mica_scalar(s, eps, MICA_F32));
    return mica_multiply(s, x, mica_rsqrt(s, mean));
}

static void rms_norm_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                               mica_array *out) {
    const mc_attr_norm *a = attr;
    mica_array y = scale_by_rms(s, mc_cast(s, in[0], MICA_F32), a->eps);
    if (mica_valid(in[1])) y = mica_multiply(s, y, mc_cast(s, in[1], MICA_F32));
    *out = mc_cast(s, y, result_dtype(in, n_in));
}

static void layer_norm_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                                 mica_array *out) {
    const mc_attr_norm *a = attr;
    const int last = -1;
    mica_array x = mc_cast(s, in[0], MICA_F32);
    mica_array y = scale_by_rms(s, mica_subtract(s, x, mica_mean(s, x, &last, 1, true)), a->eps);
    if (mica_valid(in[1])) y = mica_multiply(s, y, mc_cast(s, in[1], MICA_F32));
    if (mica_valid(in[2])) y = mica_add(s, y, mc_cast(s, in[2], MICA_F32));
    *out = mc_cast(s, y, result_dtype(in, n_in));
}

/* With h = x r, r = 1 / sqrt(mean(x^2) + eps), x centred in layer_norm, and g = dy weight:
 *
 *      dx = r (g - h mean(g h)), less r mean(g) in layer_norm: an op
 *      dweight = sum(dy h), dbias = sum(dy), over the rows */
static bool norm_vjp(const mc_gradient_node *n, bool centred, mica_array dy, mica_array *dx) {
    const mc_attr_norm *a = n->attr;
    mica_scope *s = n->s;
    if (n->wanted[0]) {
        const mica_array in[3] = {n->in[0], dy, n->in[1]};
        dx[0] =
            mc_record(s, centred ? MC_OP_LAYER_NORM_GRADIENT : MC_OP_RMS_NORM_GRADIENT, a, in, 3);
    }
    if (n->wanted[1]) {
        mica_array h =
            centred ? mica_layer_norm(s, mc_wide(s, n->in[0]), MICA_NONE, MICA_NONE, (float)a->eps)
                    : mica_rms_norm(s, mc_wide(s, n->in[0]), MICA_NONE, (float)a->eps);
        dx[1] = mc_sum_to(s, mica_multiply(s, mc_wide(s, dy), h), n->in[1]);
    }
    if (centred && n->wanted[2]) dx[2] = mc_sum_to(s, mc_wide(s, dy), n->in[2]);
    return true;
}

static bool rms_norm_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    return norm_vjp(n, false, *dy, dx);
}

static bool layer_norm_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    return norm_vjp(n, true, *dy, dx);
}

MC_OP(rms_norm, 1, 2, MC_ATTR(norm), .infer = rms_norm_infer, .decompose = rms_norm_decompose,
      .work = mc_work_function, .in_place = 1);
MC_GRADIENT(rms_norm, rms_norm_vjp, NULL);

MC_OP(layer_norm, 1, 3, MC_ATTR(norm), .infer = layer_norm_infer, .decompose = layer_norm_decompose,
      .work = mc_work_function, .in_place = 1);
MC_GRADIENT(layer_norm, layer_norm_vjp, NULL);

/* ---- the gradient by x ----
 *
 *  in  x [..., D], dy of x's shape, weight [D] or none: floats; the result has x's dtype */

static mica_status gradient_infer(const char *name, const void *attr, const mc_layout *const *in,
                                  int n_in, mc_layout *out) {
    const mc_attr_norm *a = attr;
    char text[MC_LAYOUT_TEXT];
    const mc_layout *vectors[2] = {in[0], in[2]};
    (void)n_in;
    if (!(a->eps >= 0)) return mc_fail(MICA_EINVAL, "%s: eps %g is below 0", name, a->eps);
    MC_TRY(norm_infer(name, vectors, 2, out));
    if (!mica_dtype_is_float(in[1]->dtype) || !mc_layout_same_shape(in[0], in[1]))
        return mc_fail(MICA_ESHAPE, "%s: dy is %s", name, mc_layout_text(in[1], text));
    *out = *in[0];
    return MICA_OK;
}

static mica_status rms_norm_gradient_infer(const void *attr, const mc_layout *const *in, int n_in,
                                           mc_layout *out) {
    return gradient_infer("rms_norm_gradient", attr, in, n_in, out);
}

static mica_status layer_norm_gradient_infer(const void *attr, const mc_layout *const *in, int n_in,
                                             mc_layout *out) {
    return gradient_infer("layer_norm_gradient", attr, in, n_in, out);
}

static mica_array less_mean(mica_scope *s, mica_array x) {
    const int last = -1;
    return mica_subtract(s, x, mica_mean(s, x, &last, 1, true));
}

static mica_array gradient_of(mica_scope *s, const mc_attr_norm *a, const mica_array *in,
                              bool centred) {
    const int last = -1;
    mica_array x = mc_cast(s, in[0], MICA_F32), g = mc_cast(s, in[1], MICA_F32);
    if (mica_valid(in[2])) g = mica_multiply(s, g, mc_cast(s, in[2], MICA_F32));
    if (centred) x = less_mean(s, x);
    if (centred) g = less_mean(s, g);
    mica_array mean = mica_mean(s, mica_square(s, x), &last, 1, true);
    mica_array r = mica_rsqrt(s, mica_add(s, mean, mica_scalar(s, a->eps, MICA_F32)));
    mica_array h = mica_multiply(s, x, r);
    mica_array along = mica_mean(s, mica_multiply(s, g, h), &last, 1, true);
    g = mica_multiply(s, r, mica_subtract(s, g, mica_multiply(s, h, along)));
    return mc_cast(s, g, mica_array_dtype(in[0]));
}

static void rms_norm_gradient_decompose(mica_scope *s, const void *attr, const mica_array *in,
                                        int n_in, mica_array *out) {
    (void)n_in;
    *out = gradient_of(s, attr, in, false);
}

static void layer_norm_gradient_decompose(mica_scope *s, const void *attr, const mica_array *in,
                                          int n_in, mica_array *out) {
    (void)n_in;
    *out = gradient_of(s, attr, in, true);
}

MC_OP(rms_norm_gradient, 2, 3, MC_ATTR(norm), .infer = rms_norm_gradient_infer,
      .decompose = rms_norm_gradient_decompose, .work = mc_work_function, .in_place = 2);
MC_DECOMPOSED_GRADIENT(rms_norm_gradient);

MC_OP(layer_norm_gradient, 2, 3, MC_ATTR(norm), .infer = layer_norm_gradient_infer,
      .decompose = layer_norm_gradient_decompose, .work = mc_work_function, .in_place = 2);
MC_DECOMPOSED_GRADIENT(layer_norm_gradient);

mica_array mica_rms_norm(mica_scope *s, mica_array x, mica_array weight, float eps) {
    mica_array in[2] = {x, weight};
    return mc_record(s, MC_OP_RMS_NORM, &(mc_attr_norm){(double)eps}, in, 2);
}

mica_array mica_layer_norm(mica_scope *s, mica_array x, mica_array weight, mica_array bias,
                           float eps) {
    mica_array in[3] = {x, weight, bias};
    return mc_record(s, MC_OP_LAYER_NORM, &(mc_attr_norm){(double)eps}, in, 3);
}
