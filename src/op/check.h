/* Errors of builders and shape rules. They are kept in the scope and name the op. */
#ifndef OP_CHECK_H
#define OP_CHECK_H

#include "graph/graph.h"

/* Keeps the current error as the scope's first one; returns the invalid array. */
static inline mica_array mc_fail_in(mica_scope *s, mica_status status) {
    mc_scope_set_status(s, status);
    return mc_invalid(s);
}

/* mc_axis. false: the error is in s. */
static inline bool mc_find_axis(mica_scope *s, const char *op, const mc_layout *l, int axis,
                                int *out) {
    mica_status status = mc_axis(op, l, axis, out);
    if (status != MICA_OK) mc_scope_set_status(s, status);
    return status == MICA_OK;
}

/* For shape rules: whether an attribute is an axis of x, counted from the front.
 * errors  MICA_EINVAL */
static inline mica_status mc_check_axis(const char *op, const mc_layout *x, int64_t axis) {
    char text[MC_LAYOUT_TEXT];
    if (axis >= 0 && axis < x->ndim) return MICA_OK;
    return mc_fail(MICA_EINVAL, "%s: there is no axis %lld in %s", op, (long long)axis,
                   mc_layout_text(x, text));
}

/* mc_layout_init of an op's result, whose ndim may be an attribute; the error names the op. */
static inline mica_status mc_set_result(const char *op, mc_layout *out, mica_dtype dtype,
                                        const int64_t *shape, int64_t ndim) {
    if (ndim < 0 || ndim > MICA_MAX_NDIM)
        return mc_fail(MICA_EINVAL, "%s: %lld axes, 0 to %d are possible", op, (long long)ndim,
                       MICA_MAX_NDIM);
    mica_status status = mc_layout_init(out, dtype, shape, (int)ndim);
    return status == MICA_OK ? status : mc_fail_context(status, "%s", op);
}

/* What a builder returns that cannot do without the number which a dimension is. */
static inline mica_array mc_need_number(mica_scope *s, const char *op, int64_t dim) {
    char text[MC_DIM_TEXT];
    return mc_scope_fail(s, MICA_EUNSUPPORTED, "%s: a length is %s, and must be a number here", op,
                         mc_dim_text(dim, text));
}

#endif
