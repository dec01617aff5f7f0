/* What gradient rules share, and the ops that exist for gradients: both are their operand, and no
 * device computes anything for them. */
#include "op/gradient.h"

#include "base/alloc.h"

#include "graph/attr.h"
#include "op/build.h"

/* ---- identity, stop_gradient ---- */

static mica_status same_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)attr, (void)n_in;
    *out = *in[0];
    return MICA_OK;
}

static void same_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                           mica_array *out) {
    (void)s, (void)attr, (void)n_in;
    *out = in[0];
}

bool mc_same_rule(const mc_gradient_node *n, const mica_array *from, mica_array *to) {
    (void)n;
    *to = *from;
    return true;
}

MC_OP(identity, 1, 1, .infer = same_infer, .decompose = same_decompose);
MC_GRADIENT(identity, mc_same_rule, mc_same_rule);

MC_OP(stop_gradient, 1, 1, .infer = same_infer, .decompose = same_decompose);
MC_ZERO_GRADIENT(stop_gradient);

mica_array mica_stop_gradient(mica_scope *s, mica_array x) {
    return mc_record(s, MC_OP_STOP_GRADIENT, NULL, &x, 1);
}

/* ---- helpers ---- */

mica_array mc_wide(mica_scope *s, mica_array x) {
    bool half = mica_array_dtype(x) == MICA_F16 || mica_array_dtype(x) == MICA_BF16;
    return half ? mica_astype(s, x, MICA_F32) : x;
}

mica_array mc_zeros_like(mica_scope *s, mica_array x) {
    if (!mica_valid(x)) return mc_invalid(s);
    return mica_zeros(s, mica_array_shape(x), mica_array_ndim(x), mica_array_dtype(x));
}

mica_array mc_or_zeros(mica_scope *s, mica_array x, mica_array like) {
    return x.scope ? x : mc_zeros_like(s, like);
}

mica_array mc_sum_of(mica_scope *s, mica_array a, mica_array b) {
    if (!a.scope) return b;
    return b.scope ? mica_add(s, a, b) : a;
}

mica_array mc_sum_to(mica_scope *s, mica_array x, mica_array like) {
    const mc_layout *from = mc_layout_of(x), *to = mc_layout_of(like);
    if (!from || !to) return mc_invalid(s);
    int axes[MICA_MAX_NDIM], n = 0, more = from->ndim - to->ndim;
    for (int k = 0; k < from->ndim; k++)
        if (k < more || (to->shape[k - more] == 1 && from->shape[k] != 1)) axes[n++] = k;
    if (n == 0) return x;
    return mica_reshape(s, mica_sum(s, x, axes, n, true), to->shape, to->ndim);
}

/* [0, 1 .. n - 1] as a column, i64. */
static mica_array column(mica_scope *s, int64_t n) {
    const int64_t shape[2] = {n, 1};
    return mica_reshape(s, mica_arange(s, 0, (double)n, 1, MICA_I64), shape, 2);
}

mica_array mc_add_along_axis(mica_scope *s, mica_array x, mica_array indices, mica_array values,
                             int axis) {
    if (!mica_valid(x)) return mc_invalid(s);
    /* rows [R, n], their indices and values [R, m] */
    int64_t n = mica_array_dim(x, axis), m = mica_array_dim(indices, axis);
    int64_t rows = 1, wide[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(x);
    for (int k = 0; k < ndim; k++) {
        wide[k] = mica_array_dim(x, k);
        if (k != axis) rows = mc_dim_mul(rows, wide[k]);
    }
    if (rows == 0 || n == 0 || m == 0) return mc_zeros_like(s, x);
    wide[axis] = wide[ndim - 1];
    wide[ndim - 1] = n;
    const int64_t flat[2] = {rows, n}, list[2] = {rows, m}, parts[4] = {rows, m, 1, 1};
    const int axes[2] = {0, 1};
    mica_array at[2] = {column(s, rows),
                        mica_reshape(s, mica_swapaxes(s, indices, axis, -1), list, 2)};
    values = mica_astype(s, mica_swapaxes(s, values, axis, -1), MICA_F32);
    mica_array y = mica_scatter(s, mica_zeros(s, flat, 2, MICA_F32), at, 2, axes,
                                mica_reshape(s, values, parts, 4), MICA_SCATTER_ADD);
    return mica_swapaxes(s, mica_reshape(s, y, wide, ndim), axis, -1);
}

mica_array mc_where_stayed(mica_scope *s, mica_array stayed, mica_array number, mica_array dy) {
    mica_array zero = mica_scalar(s, 0, mica_array_dtype(dy));
    return mica_where(s, mica_equal(s, stayed, number), dy, zero);
}

bool mc_linear_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    mica_array *in = mc_array_alloc((size_t)n->n_in, sizeof *in);
    if (!in) {
        mc_scope_fail(n->s, MICA_ENOMEM, "out of memory: a gradient");
        return false;
    }
    for (int i = 0; i < n->n_in; i++) {
        bool linear = n->in[i].scope && mc_dtype_has_gradient(mica_array_dtype(n->in[i]));
        in[i] = linear ? mc_or_zeros(n->s, dx[i], n->in[i]) : n->in[i];
    }
    *dy = mc_record(n->s, n->op, n->attr, in, n->n_in);
    mc_free(in);
    return true;
}

bool mc_slope_rule(const mc_gradient_node *n, mc_slope slope, const mica_array *from,
                   mica_array *to) {
    mica_scope *s = n->s;
    mica_array x = mc_wide(s, n->in[0]), y = mc_wide(s, n->out[0]);
    *to = mica_multiply(s, mc_wide(s, *from), slope(s, x, y));
    return true;
}
