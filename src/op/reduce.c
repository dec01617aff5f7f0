/* Reductions over any axes, and softmax. */
#include <mica/ops.h>

#include <math.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/complex.h"
#include "op/dtype.h"
#include "op/gradient.h"
#include "op/work.h"

/* ---- axes ---- */

/* Turns axes into a bit mask; n_axes 0 means all. errors  MICA_EINVAL out of range or twice */
static mica_status axes_mask(const char *name, const mc_layout *l, const int *axes, int n_axes,
                             int64_t *mask) {
    *mask = 0;
    if (n_axes <= 0 || !axes) {
        *mask = ((int64_t)1 << l->ndim) - 1;
        return MICA_OK;
    }
    for (int i = 0; i < n_axes; i++) {
        int axis;
        MC_TRY(mc_axis(name, l, axes[i], &axis));
        int64_t bit = (int64_t)1 << axis;
        char text[MC_LAYOUT_TEXT];
        if (*mask & bit)
            return mc_fail(MICA_EINVAL, "%s: axis %d of %s is given twice", name, axis,
                           mc_layout_text(l, text));
        *mask |= bit;
    }
    return MICA_OK;
}

/* Drops the axes in mask, which a reduction left with length 1. */
static mica_array drop_axes(mica_scope *s, mica_array x, int64_t mask) {
    const mc_layout *l = mc_layout_of(x);
    if (!l) return mc_invalid(s);
    int64_t shape[MICA_MAX_NDIM];
    int ndim = 0;
    for (int k = 0; k < l->ndim; k++)
        if (!(mask >> k & 1)) shape[ndim++] = l->shape[k];
    return ndim == l->ndim ? x : mica_reshape(s, x, shape, ndim);
}

static mica_array record(mica_scope *s, mc_op op, mica_array x, int64_t mask, bool keepdims) {
    mica_array y = mc_record(s, op, &(mc_attr_reduce){mask}, &x, 1);
    return keepdims ? y : drop_axes(s, y, mask);
}

/* Records a reduction over axes that a caller gives. */
static mica_array reduce(mica_scope *s, mc_op op, const char *name, mica_array x, const int *axes,
                         int n_axes, bool keepdims) {
    if (!mc_operands_ok(s, name, &x, 1)) return mc_invalid(s);
    int64_t mask;
    mica_status status = axes_mask(name, mc_layout_of(x), axes, n_axes, &mask);
    if (status) {
        mc_scope_set_status(s, status);
        return mc_invalid(s);
    }
    if (op == MC_OP_SUM && mica_array_dtype(x) == MICA_C64)
        return mc_complex_sum(s, x, axes, n_axes, keepdims);
    return record(s, op, x, mask, keepdims);
}

/* The number of elements reduced to one. */
static int64_t reduced_count(const mc_layout *l, int64_t mask) {
    int64_t n = 1;
    for (int k = 0; k < l->ndim; k++)
        if (mask >> k & 1) n = mc_dim_mul(n, l->shape[k]);
    return n;
}

/* ---- shape rules ---- */

static mica_status reduced_layout(const void *attr, const mc_layout *in, mica_dtype dtype,
                                  mc_layout *out) {
    const mc_attr_reduce *a = attr;
    char text[MC_LAYOUT_TEXT];
    if (a->axes < 0 || a->axes >> in->ndim != 0)
        return mc_fail(MICA_EINVAL, "reduction: the axes %#llx are not all axes of %s",
                       (unsigned long long)a->axes, mc_layout_text(in, text));
    *out = *in;
    out->dtype = dtype;
    for (int k = 0; k < in->ndim; k++)
        if (a->axes >> k & 1) out->shape[k] = 1;
    return MICA_OK;
}

/* Small integers are widened so that their sums do not overflow. */
static mica_status sum_infer(const void *attr, const mc_layout *const *in, int n_in,
                             mc_layout *out) {
    (void)n_in;
    mica_dtype dtype = in[0]->dtype;
    if (dtype == MICA_BOOL || dtype == MICA_I8 || dtype == MICA_I16) dtype = MICA_I32;
    if (dtype == MICA_U8 || dtype == MICA_U16) dtype = MICA_U32;
    return reduced_layout(attr, in[0], dtype, out);
}

static mica_status bool_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)n_in;
    return reduced_layout(attr, in[0], MICA_BOOL, out);
}

static mica_status logsumexp_infer(const void *attr, const mc_layout *const *in, int n_in,
                                   mc_layout *out) {
    (void)n_in;
    char text[MC_LAYOUT_TEXT];
    if (!mica_dtype_is_float(in[0]->dtype))
        return mc_fail(MICA_EDTYPE, "logsumexp: %s is not a float", mc_layout_text(in[0], text));
    return reduced_layout(attr, in[0], in[0]->dtype, out);
}

static mica_status not_empty(const void *attr, const mc_layout *in, const char *name) {
    const mc_attr_reduce *a = attr;
    char text[MC_LAYOUT_TEXT];
    if (reduced_count(in, a->axes) == 0)
        return mc_fail(MICA_EINVAL, "%s: %s has nothing along the axis to choose from", name,
                       mc_layout_text(in, text));
    return MICA_OK;
}

#define EXTREME_INFER(name)                                                                 \
    static mica_status name##_infer(const void *attr, const mc_layout *const *in, int n_in, \
                                    mc_layout *out) {                                       \
        (void)n_in;                                                                         \
        MC_TRY(not_empty(attr, in[0], #name));                                              \
        return reduced_layout(attr, in[0], in[0]->dtype, out);                              \
    }
EXTREME_INFER(max)
EXTREME_INFER(min)

static mica_status index_infer(const void *attr, const mc_layout *in, const char *name,
                               mc_layout *out) {
    MC_TRY(not_empty(attr, in, name));
    const mc_attr_reduce *a = attr;
    if (mc_dim_less(UINT32_MAX, reduced_count(in, a->axes)))
        return mc_fail(MICA_EINVAL, "%s: more than 2^32 - 1 elements have no u32 index", name);
    return reduced_layout(attr, in, MICA_U32, out);
}

/* ---- ops ---- */

#define REDUCE(ENUM, name, infer_fn)                                                             \
    const mc_op_def mc_op_##name = {#name,           .min_in = 1,       .max_in = 1,             \
                                    MC_ATTR(reduce), .infer = infer_fn, .work = mc_work_reduce}; \
    mica_array mica_##name(mica_scope *s, mica_array x, const int *axes, int n_axes,             \
                           bool keepdims) {                                                      \
        return reduce(s, MC_OP_##ENUM, #name, x, axes, n_axes, keepdims);                        \
    }
REDUCE(SUM, sum, sum_infer)
REDUCE(PROD, prod, sum_infer)
REDUCE(MAX, max, max_infer)
REDUCE(MIN, min, min_infer)
REDUCE(ALL, all, bool_infer)
REDUCE(ANY, any, bool_infer)
MC_NO_GRADIENT(all, "its result is a bool");
MC_NO_GRADIENT(any, "its result is a bool");

#define ARG_REDUCE(ENUM, name)                                                              \
    static mica_status name##_infer(const void *attr, const mc_layout *const *in, int n_in, \
                                    mc_layout *out) {                                       \
        (void)n_in;                                                                         \
        return index_infer(attr, in[0], #name, out);                                        \
    }                                                                                       \
    const mc_op_def mc_op_##name = {                                                        \
        #name,           .min_in = 1,           .max_in = 1,                                \
        MC_ATTR(reduce), .infer = name##_infer, .work = mc_work_reduce};                    \
    mica_array mica_##name(mica_scope *s, mica_array x, int axis, bool keepdims) {          \
        return reduce(s, MC_OP_##ENUM, #name, x, &axis, 1, keepdims);                       \
    }
ARG_REDUCE(ARGMAX, argmax)
ARG_REDUCE(ARGMIN, argmin)
MC_NO_GRADIENT(argmax, "its result is an index");
MC_NO_GRADIENT(argmin, "its result is an index");

/* log sum exp x = m + log sum exp(x - m), where m is the largest x, or 0 if that is infinite or
 * NaN. */
static void logsumexp_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                                mica_array *out) {
    (void)n_in;
    const mc_attr_reduce *a = attr;
    mica_array x = mica_astype(s, in[0], MICA_F32);
    if (!mica_valid(x)) {
        *out = mc_invalid(s);
        return;
    }
    mica_array m = mica_f32(s, 0.0f);
    if (reduced_count(mc_layout_of(x), a->axes) > 0) {
        mica_array largest = record(s, MC_OP_MAX, x, a->axes, true);
        m = mica_where(s, mica_isfinite(s, largest), largest, m);
    }
    mica_array sum = record(s, MC_OP_SUM, mica_exp(s, mica_subtract(s, x, m)), a->axes, true);
    mica_array y = mica_add(s, mica_log(s, sum), m);
    *out = mica_astype(s, y, mica_array_dtype(in[0]));
}

static MC_WORK_RULE(logsumexp_work) {
    mc_work_reduce(attr, in, n_in, out, work);
    work->kind = MC_WORK_ELEMENTS; /* the exponentials */
    work->operations *= MC_WORK_FUNCTION;
}

MC_OP(logsumexp, 1, 1, MC_ATTR(reduce), .infer = logsumexp_infer, .decompose = logsumexp_decompose,
      .work = logsumexp_work);

mica_array mica_logsumexp(mica_scope *s, mica_array x, const int *axes, int n_axes, bool keepdims) {
    if (!mc_operands_ok(s, "logsumexp", &x, 1)) return mc_invalid(s);
    x = mc_cast(s, x, mc_inexact(mica_array_dtype(x)));
    return reduce(s, MC_OP_LOGSUMEXP, "logsumexp", x, axes, n_axes, keepdims);
}

/* ---- gradients of reductions ---- */

static int64_t mask_of(const mc_gradient_node *n) {
    return ((const mc_attr_reduce *)n->attr)->axes;
}

static bool sum_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    *dx = mc_broadcast(n->s, *dy, mica_array_shape(n->in[0]), mica_array_ndim(n->in[0]));
    return true;
}
MC_GRADIENT(sum, sum_vjp, mc_linear_jvp);

/* The derivative of the result y, of axes of length 1, by each element of x; both wide. */
typedef mica_array (*weights_of)(mica_scope *s, mica_array x, mica_array y, int64_t mask);

static mica_array weights(const mc_gradient_node *n, weights_of w) {
    return w(n->s, mc_wide(n->s, n->in[0]), mc_wide(n->s, n->out[0]), mask_of(n));
}

#define WEIGHTS(name)                                                                         \
    static bool name##_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) { \
        *dx = mica_multiply(n->s, mc_wide(n->s, *dy), weights(n, name##_weights));            \
        return true;                                                                          \
    }                                                                                         \
    static bool name##_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) { \
        mica_array x = mica_multiply(n->s, mc_wide(n->s, *dx), weights(n, name##_weights));   \
        *dy = record(n->s, MC_OP_SUM, x, mask_of(n), true);                                   \
        return true;                                                                          \
    }                                                                                         \
    MC_GRADIENT(name, name##_vjp, name##_jvp)

/* exp(x - y); y is -inf where all elements are, and then they all get 0. */
static mica_array logsumexp_weights(mica_scope *s, mica_array x, mica_array y, int64_t mask) {
    (void)mask;
    y = mica_where(s, mica_equal(s, y, mica_f32(s, -INFINITY)), mica_f32(s, 0), y);
    return mica_exp(s, mica_subtract(s, x, y));
}
WEIGHTS(logsumexp);

/* Elements that are the extreme one share it. */
static mica_array extreme_weights(mica_scope *s, mica_array x, mica_array y, int64_t mask) {
    mica_array equal = mica_astype(s, mica_equal(s, x, y), MICA_F32);
    mica_array count = record(s, MC_OP_SUM, equal, mask, true);
    return mica_divide(s, equal, mica_maximum(s, count, mica_f32(s, 1)));
}
#define max_weights extreme_weights
#define min_weights extreme_weights
WEIGHTS(max);
WEIGHTS(min);

/* Brings the axes of the mask behind the others, as one; order receives the axes' order. */
static mica_array reduced_last(mica_scope *s, mica_array x, int64_t mask,
                               int order[MICA_MAX_NDIM]) {
    int64_t shape[MICA_MAX_NDIM + 1], last = 1;
    int ndim = mica_array_ndim(x), n = 0, kept;
    for (int k = 0; k < ndim; k++)
        if (!(mask >> k & 1)) order[n++] = k;
    kept = n;
    for (int k = 0; k < ndim; k++)
        if (mask >> k & 1) order[n++] = k;
    for (int k = 0; k < ndim; k++)
        if (k < kept)
            shape[k] = mica_array_dim(x, order[k]);
        else
            last = mc_dim_mul(last, mica_array_dim(x, order[k]));
    shape[kept] = last;
    return mica_reshape(s, mica_transpose(s, x, order), shape, kept + 1);
}

/* The product of the other elements: of those before it times those behind it, so that zeros are
 * right. */
static mica_array prod_weights(mica_scope *s, mica_array x, mica_array y, int64_t mask) {
    (void)y;
    int order[MICA_MAX_NDIM], back[MICA_MAX_NDIM];
    int64_t moved[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(x);
    if (mask == 0) return mica_f32(s, 1);
    mica_array rows = reduced_last(s, x, mask, order);
    mica_array others = mica_multiply(s, mica_cumprod(s, rows, -1, false, false),
                                      mica_cumprod(s, rows, -1, true, false));
    for (int k = 0; k < ndim; k++) {
        moved[k] = mica_array_dim(x, order[k]);
        back[order[k]] = k;
    }
    return mica_transpose(s, mica_reshape(s, others, moved, ndim), back);
}
WEIGHTS(prod);

/* ---- compositions: computed in f32, rounded once ---- */

/* The mean of x f32 over the mask's axes, which keep length 1. */
static mica_array mean_f32(mica_scope *s, mica_array x, int64_t mask) {
    if (!mica_valid(x)) return mc_invalid(s);
    int64_t n = reduced_count(mc_layout_of(x), mask);
    mica_array count = mica_scalar(s, (double)n, MICA_F32);
    return mica_divide(s, record(s, MC_OP_SUM, x, mask, true), count);
}

/* Converts x to f32 and the axes to a mask. false: the error is in the scope. */
static bool begin_f32(mica_scope *s, const char *name, mica_array *x, const int *axes, int n_axes,
                      int64_t *mask) {
    if (!mc_operands_ok(s, name, x, 1)) return false;
    mica_status status = axes_mask(name, mc_layout_of(*x), axes, n_axes, mask);
    if (status) {
        mc_scope_set_status(s, status);
        return false;
    }
    if (mica_array_dtype(*x) == MICA_C64) {
        mc_scope_fail(s, MICA_EDTYPE, "%s: it does not take complex numbers", name);
        return false;
    }
    *x = mc_cast(s, *x, MICA_F32);
    return true;
}

static mica_array end_f32(mica_scope *s, mica_array y, mica_dtype dtype, int64_t mask,
                          bool keepdims) {
    if (!mica_valid(y)) return mc_invalid(s);
    y = mc_cast(s, y, mc_inexact(dtype));
    return keepdims ? y : drop_axes(s, y, mask);
}

mica_array mica_mean(mica_scope *s, mica_array x, const int *axes, int n_axes, bool keepdims) {
    mica_dtype dtype = mica_array_dtype(x);
    int64_t mask;
    if (!begin_f32(s, "mean", &x, axes, n_axes, &mask)) return mc_invalid(s);
    return end_f32(s, mean_f32(s, x, mask), dtype, mask, keepdims);
}

/* sum((x - mean)^2) / (n - ddof) of x f32. */
static mica_array var_f32(mica_scope *s, mica_array x, int64_t mask, int ddof) {
    if (!mica_valid(x)) return mc_invalid(s);
    int64_t n = reduced_count(mc_layout_of(x), mask);
    mica_array apart = mica_square(s, mica_subtract(s, x, mean_f32(s, x, mask)));
    mica_array sum = record(s, MC_OP_SUM, apart, mask, true);
    int64_t rest = mc_dim_at_least(mc_dim_sub(n, ddof), 0);
    return mica_divide(s, sum, mica_scalar(s, (double)rest, MICA_F32));
}

mica_array mica_var(mica_scope *s, mica_array x, const int *axes, int n_axes, bool keepdims,
                    int ddof) {
    mica_dtype dtype = mica_array_dtype(x);
    int64_t mask;
    if (!begin_f32(s, "var", &x, axes, n_axes, &mask)) return mc_invalid(s);
    return end_f32(s, var_f32(s, x, mask, ddof), dtype, mask, keepdims);
}

mica_array mica_std(mica_scope *s, mica_array x, const int *axes, int n_axes, bool keepdims,
                    int ddof) {
    mica_dtype dtype = mica_array_dtype(x);
    int64_t mask;
    if (!begin_f32(s, "std", &x, axes, n_axes, &mask)) return mc_invalid(s);
    return end_f32(s, mica_sqrt(s, var_f32(s, x, mask, ddof)), dtype, mask, keepdims);
}

/* ---- softmax, along the last axis ---- */

static mica_status softmax_infer(const void *attr, const mc_layout *const *in, int n_in,
                                 mc_layout *out) {
    (void)attr, (void)n_in;
    char text[MC_LAYOUT_TEXT];
    if (!mica_dtype_is_float(in[0]->dtype))
        return mc_fail(MICA_EDTYPE, "softmax: %s is not a float", mc_layout_text(in[0], text));
    if (in[0]->ndim < 1) return mc_fail(MICA_EINVAL, "softmax: a 0-dimensional array has no axis");
    *out = *in[0];
    return MICA_OK;
}

static void softmax_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                              mica_array *out) {
    (void)attr, (void)n_in;
    mica_array x = mica_astype(s, in[0], MICA_F32);
    if (mica_array_size(x) == 0) {
        *out = in[0];
        return;
    }
    const int last = -1;
    mica_array e = mica_exp(s, mica_subtract(s, x, mica_max(s, x, &last, 1, true)));
    mica_array y = mica_divide(s, e, mica_sum(s, e, &last, 1, true));
    *out = mica_astype(s, y, mica_array_dtype(in[0]));
}

MC_OP(softmax, 1, 1, .infer = softmax_infer, .decompose = softmax_decompose,
      .work = mc_work_function, .in_place = 1);

/* y (t - sum(t y)): the Jacobian is symmetric. */
static bool softmax_rule(const mc_gradient_node *n, const mica_array *from, mica_array *to) {
    const int last = -1;
    mica_scope *s = n->s;
    mica_array y = mc_wide(s, n->out[0]), t = mc_wide(s, *from);
    mica_array mean = mica_sum(s, mica_multiply(s, t, y), &last, 1, true);
    *to = mica_multiply(s, y, mica_subtract(s, t, mean));
    return true;
}
MC_GRADIENT(softmax, softmax_rule, softmax_rule);

mica_array mica_softmax(mica_scope *s, mica_array x, int axis) {
    if (!mc_operands_ok(s, "softmax", &x, 1)) return mc_invalid(s);
    int at;
    if (!mc_find_axis(s, "softmax", mc_layout_of(x), axis, &at)) return mc_invalid(s);
    x = mc_cast(s, x, mc_inexact(mica_array_dtype(x)));
    x = mica_swapaxes(s, x, at, -1);
    return mica_swapaxes(s, mc_record(s, MC_OP_SOFTMAX, NULL, &x, 1), at, -1);
}
