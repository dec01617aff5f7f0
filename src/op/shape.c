/* Views: ops that give the same elements another shape. If strides can express the result, nothing
 * is copied. If not, `view` returns false and the planner makes the operand dense first. */
#include <mica/ops.h>

#include <string.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/gradient.h"
#include "op/slice.h"

/* ---- reshape ---- */

static mica_status reshape_infer(const void *attr, const mc_layout *const *in, int n_in,
                                 mc_layout *out) {
    (void)n_in;
    const mc_attr_shape *a = attr;
    MC_TRY(mc_set_result("reshape", out, in[0]->dtype, a->shape, a->ndim));
    int64_t before = mc_layout_size(in[0]), after = mc_layout_size(out);
    if (mc_dim_may_equal(before, after)) return MICA_OK;
    char from[MC_LAYOUT_TEXT], to[MC_LAYOUT_TEXT], n[MC_DIM_TEXT], m[MC_DIM_TEXT];
    return mc_fail(MICA_ESHAPE, "reshape: %s to %s: %s elements are not %s",
                   mc_layout_text(in[0], from), mc_layout_text(out, to), mc_dim_text(before, n),
                   mc_dim_text(after, m));
}

/* Merges the operand's axes into runs, the inner one last: run i has len[i] elements, stride[i]
 * apart. Axes that cannot be merged stay apart; axes of length 1 are dropped. Returns the number of
 * runs. */
static int merge_axes(const mc_layout *in, int64_t len[MICA_MAX_NDIM],
                      int64_t stride[MICA_MAX_NDIM]) {
    int n = 0;
    for (int k = 0; k < in->ndim; k++) {
        if (in->shape[k] == 1) continue;
        if (n > 0 && stride[n - 1] == in->strides[k] * in->shape[k]) {
            len[n - 1] *= in->shape[k];
        } else {
            n++;
            len[n - 1] = in->shape[k];
        }
        stride[n - 1] = in->strides[k];
    }
    return n;
}

/* Cuts the runs into the new axes, the inner one first. No stride exists for an axis that would
 * span two runs. */
static bool reshape_view(const void *attr, const mc_layout *in, mc_layout *out,
                         int64_t *offset_bytes) {
    (void)attr;
    *offset_bytes = 0;
    mc_layout_set_dense(out);
    if (mc_layout_size(in) == 0) return true;
    int64_t len[MICA_MAX_NDIM], stride[MICA_MAX_NDIM];
    int run = merge_axes(in, len, stride);
    int64_t left = 1, step = 1;
    for (int k = out->ndim - 1; k >= 0; k--) {
        if (out->shape[k] == 1) continue;
        if (left == 1) {
            run--;
            left = len[run];
            step = stride[run];
        }
        if (left % out->shape[k] != 0) return false;
        out->strides[k] = step;
        step *= out->shape[k];
        left /= out->shape[k];
    }
    return true;
}

MC_OP(reshape, 1, 1, MC_ATTR(shape), .infer = reshape_infer, .view = reshape_view);

static bool reshape_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    const mica_array x = n->in[0];
    *dx = mica_reshape(n->s, *dy, mica_array_shape(x), mica_array_ndim(x));
    return true;
}
MC_GRADIENT(reshape, reshape_vjp, mc_linear_jvp);

/* Replaces a length of -1 by the one that fits. */
static mica_status fill_length(const char *op, const mc_layout *x, int64_t *shape, int ndim) {
    int at = -1;
    int64_t known = 1;
    for (int k = 0; k < ndim; k++) {
        if (shape[k] == -1 && at >= 0)
            return mc_fail(MICA_EINVAL, "%s: axes %d and %d are both -1", op, at, k);
        if (shape[k] == -1) {
            at = k;
        } else if (shape[k] < 0) {
            return mc_fail(MICA_EINVAL, "%s: length %lld of axis %d", op, (long long)shape[k], k);
        } else if (!mc_dim_mul_to(&known, shape[k])) {
            return mc_fail(MICA_EINVAL, "%s: the lengths overflow at axis %d", op, k);
        }
    }
    if (at < 0) return MICA_OK;
    int64_t size = mc_layout_size(x);
    if (known == 0 || mc_dim_mod(size, known) != 0) {
        char text[MC_LAYOUT_TEXT], n[MC_DIM_TEXT], m[MC_DIM_TEXT];
        return mc_fail(MICA_ESHAPE, "%s: %s: %s elements do not divide by %s", op,
                       mc_layout_text(x, text), mc_dim_text(size, n), mc_dim_text(known, m));
    }
    shape[at] = mc_dim_div(size, known);
    return MICA_OK;
}

static mica_status check_ndim(const char *op, const void *list, int ndim) {
    if (ndim < 0 || ndim > MICA_MAX_NDIM)
        return mc_fail(MICA_EINVAL, "%s: %d axes, 0 to %d are possible", op, ndim, MICA_MAX_NDIM);
    if (ndim > 0 && !list) return mc_fail(MICA_EINVAL, "%s: the list of axes is NULL", op);
    return MICA_OK;
}

static bool has_shape(const mc_layout *l, const int64_t *shape, int ndim) {
    return l->ndim == ndim &&
           (ndim == 0 || memcmp(l->shape, shape, (size_t)ndim * sizeof *shape) == 0);
}

mica_array mica_reshape(mica_scope *s, mica_array x, const int64_t *shape, int ndim) {
    if (!mc_operands_ok(s, "reshape", &x, 1)) return mc_invalid(s);
    mica_status status = check_ndim("reshape", shape, ndim);
    if (status != MICA_OK) return mc_fail_in(s, status);
    const mc_layout *l = mc_layout_of(x);
    mc_attr_shape attr = {.ndim = ndim};
    if (ndim > 0) memcpy(attr.shape, shape, (size_t)ndim * sizeof *shape);
    status = fill_length("reshape", l, attr.shape, ndim);
    if (status != MICA_OK) return mc_fail_in(s, status);
    if (has_shape(l, attr.shape, ndim)) return x;
    return mc_record(s, MC_OP_RESHAPE, &attr, &x, 1);
}

mica_array mica_flatten(mica_scope *s, mica_array x, int start_axis, int end_axis) {
    if (!mc_operands_ok(s, "flatten", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    int64_t shape[MICA_MAX_NDIM] = {1};
    if (l->ndim == 0) return mica_reshape(s, x, shape, 1);
    int start, end;
    mica_status status = mc_axis("flatten", l, start_axis, &start);
    if (status == MICA_OK) status = mc_axis("flatten", l, end_axis, &end);
    if (status != MICA_OK) return mc_fail_in(s, status);
    if (start > end)
        return mc_scope_fail(s, MICA_EINVAL, "flatten: axis %d is after axis %d", start, end);
    if (start == end) return x;
    int n = 0;
    for (int k = 0; k < l->ndim; k++) {
        if (k > start && k <= end) {
            shape[n - 1] = mc_dim_mul(shape[n - 1], l->shape[k]);
        } else {
            shape[n++] = l->shape[k];
        }
    }
    return mica_reshape(s, x, shape, n);
}

mica_array mica_unflatten(mica_scope *s, mica_array x, int axis, const int64_t *shape, int ndim) {
    if (!mc_operands_ok(s, "unflatten", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    int at;
    mica_status status = mc_axis("unflatten", l, axis, &at);
    if (status == MICA_OK) status = check_ndim("unflatten", shape, ndim);
    if (status == MICA_OK) status = check_ndim("unflatten", l->shape, l->ndim - 1 + ndim);
    if (status != MICA_OK) return mc_fail_in(s, status);
    /* Only the unflattened axis decides what -1 is, and its new lengths must give exactly its
     * own. */
    mc_layout whole = {.dtype = l->dtype, .ndim = 1, .shape = {l->shape[at]}};
    int64_t parts[MICA_MAX_NDIM] = {0}, product = 1;
    if (ndim > 0) memcpy(parts, shape, (size_t)ndim * sizeof *shape);
    status = fill_length("unflatten", &whole, parts, ndim);
    if (status != MICA_OK) return mc_fail_in(s, status);
    char old[MC_DIM_TEXT], made[MC_DIM_TEXT];
    for (int k = 0; k < ndim; k++)
        product = mc_dim_mul(product, parts[k]);
    if (!mc_dim_may_equal(product, l->shape[at]))
        return mc_scope_fail(s, MICA_ESHAPE,
                             "unflatten: axis %d has %s elements, the new axes have %s", at,
                             mc_dim_text(l->shape[at], old), mc_dim_text(product, made));
    int64_t full[MICA_MAX_NDIM];
    int n = 0;
    for (int k = 0; k < at; k++)
        full[n++] = l->shape[k];
    for (int k = 0; k < ndim; k++)
        full[n++] = parts[k];
    for (int k = at + 1; k < l->ndim; k++)
        full[n++] = l->shape[k];
    return mica_reshape(s, x, full, n);
}

mica_array mica_squeeze(mica_scope *s, mica_array x, int axis) {
    if (!mc_operands_ok(s, "squeeze", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    int at;
    if (!mc_find_axis(s, "squeeze", l, axis, &at)) return mc_invalid(s);
    char text[MC_LAYOUT_TEXT];
    if (l->shape[at] != 1)
        return mc_scope_fail(s, MICA_ESHAPE, "squeeze: axis %d of %s is not of length 1", at,
                             mc_layout_text(l, text));
    int64_t shape[MICA_MAX_NDIM];
    int n = 0;
    for (int k = 0; k < l->ndim; k++)
        if (k != at) shape[n++] = l->shape[k];
    return mica_reshape(s, x, shape, n);
}

mica_array mica_expand_dims(mica_scope *s, mica_array x, int axis) {
    if (!mc_operands_ok(s, "expand_dims", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    int at = axis < 0 ? axis + l->ndim + 1 : axis;
    char text[MC_LAYOUT_TEXT];
    if (at < 0 || at > l->ndim || l->ndim == MICA_MAX_NDIM)
        return mc_scope_fail(s, MICA_EINVAL, "expand_dims: a new axis %d in %s", axis,
                             mc_layout_text(l, text));
    int64_t shape[MICA_MAX_NDIM];
    int n = 0;
    for (int k = 0; k <= l->ndim; k++) {
        if (k == at) shape[n++] = 1;
        if (k < l->ndim) shape[n++] = l->shape[k];
    }
    return mica_reshape(s, x, shape, n);
}

/* ---- transpose ---- */

static mica_status transpose_infer(const void *attr, const mc_layout *const *in, int n_in,
                                   mc_layout *out) {
    (void)n_in;
    const mc_attr_transpose *a = attr;
    bool taken[MICA_MAX_NDIM] = {false};
    out->dtype = in[0]->dtype;
    out->ndim = in[0]->ndim;
    for (int k = 0; k < out->ndim; k++) {
        int64_t axis = a->axes[k];
        MC_TRY(mc_check_axis("transpose", in[0], axis));
        if (taken[axis])
            return mc_fail(MICA_EINVAL, "transpose: axis %lld is listed twice", (long long)axis);
        taken[axis] = true;
        out->shape[k] = in[0]->shape[axis];
    }
    return MICA_OK;
}

static bool transpose_view(const void *attr, const mc_layout *in, mc_layout *out,
                           int64_t *offset_bytes) {
    const mc_attr_transpose *a = attr;
    *offset_bytes = 0;
    for (int k = 0; k < out->ndim; k++)
        out->strides[k] = in->strides[a->axes[k]];
    return true;
}

MC_OP(transpose, 1, 1, MC_ATTR(transpose), .infer = transpose_infer, .view = transpose_view);

static bool transpose_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    const mc_attr_transpose *a = n->attr;
    int back[MICA_MAX_NDIM] = {0};
    for (int k = 0; k < mica_array_ndim(*dy); k++)
        back[a->axes[k]] = k;
    *dx = mica_transpose(n->s, *dy, back);
    return true;
}
MC_GRADIENT(transpose, transpose_vjp, mc_linear_jvp);

mica_array mica_transpose(mica_scope *s, mica_array x, const int *axes) {
    if (!mc_operands_ok(s, "transpose", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    mc_attr_transpose attr = {{0}};
    bool same = true;
    for (int k = 0; k < l->ndim; k++) {
        int at = l->ndim - 1 - k;
        if (axes) {
            mica_status status = mc_axis("transpose", l, axes[k], &at);
            if (status != MICA_OK) return mc_fail_in(s, status);
        }
        attr.axes[k] = at;
        same = same && at == k;
    }
    if (same) return x;
    return mc_record(s, MC_OP_TRANSPOSE, &attr, &x, 1);
}

mica_array mica_swapaxes(mica_scope *s, mica_array x, int a, int b) {
    if (!mc_operands_ok(s, "swapaxes", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    int first, second;
    mica_status status = mc_axis("swapaxes", l, a, &first);
    if (status == MICA_OK) status = mc_axis("swapaxes", l, b, &second);
    if (status != MICA_OK) return mc_fail_in(s, status);
    int axes[MICA_MAX_NDIM];
    for (int k = 0; k < l->ndim; k++)
        axes[k] = k == first ? second : k == second ? first : k;
    return mica_transpose(s, x, axes);
}

mica_array mica_moveaxis(mica_scope *s, mica_array x, int from, int to) {
    if (!mc_operands_ok(s, "moveaxis", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    int source, target;
    mica_status status = mc_axis("moveaxis", l, from, &source);
    if (status == MICA_OK) status = mc_axis("moveaxis", l, to, &target);
    if (status != MICA_OK) return mc_fail_in(s, status);
    int axes[MICA_MAX_NDIM];
    for (int k = 0, next = 0; k < l->ndim; k++) {
        if (k == target) {
            axes[k] = source;
            continue;
        }
        if (next == source) next++;
        axes[k] = next++;
    }
    return mica_transpose(s, x, axes);
}

/* ---- broadcast_to ---- */

static mica_status broadcast_to_infer(const void *attr, const mc_layout *const *in, int n_in,
                                      mc_layout *out) {
    (void)n_in;
    const mc_attr_shape *a = attr;
    MC_TRY(mc_set_result("broadcast_to", out, in[0]->dtype, a->shape, a->ndim));
    mc_layout dense = *in[0], ignored;
    mc_layout_set_dense(&dense); /* only the shapes count here */
    if (mc_layout_broadcast(&dense, a->shape, (int)a->ndim, &ignored)) return MICA_OK;
    char from[MC_LAYOUT_TEXT], to[MC_LAYOUT_TEXT];
    return mc_fail(MICA_ESHAPE, "broadcast_to: %s does not stretch to %s",
                   mc_layout_text(in[0], from), mc_layout_text(out, to));
}

static bool broadcast_to_view(const void *attr, const mc_layout *in, mc_layout *out,
                              int64_t *offset_bytes) {
    const mc_attr_shape *a = attr;
    *offset_bytes = 0;
    return mc_layout_broadcast(in, a->shape, (int)a->ndim, out);
}

MC_OP(broadcast_to, 1, 1, MC_ATTR(shape), .infer = broadcast_to_infer, .view = broadcast_to_view);

static bool broadcast_to_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    *dx = mc_sum_to(n->s, *dy, n->in[0]);
    return true;
}
MC_GRADIENT(broadcast_to, broadcast_to_vjp, mc_linear_jvp);

mica_array mica_broadcast_to(mica_scope *s, mica_array x, const int64_t *shape, int ndim) {
    if (!mc_operands_ok(s, "broadcast_to", &x, 1)) return mc_invalid(s);
    mica_status status = check_ndim("broadcast_to", shape, ndim);
    if (status != MICA_OK) return mc_fail_in(s, status);
    if (has_shape(mc_layout_of(x), shape, ndim)) return x;
    mc_attr_shape attr = {.ndim = ndim};
    if (ndim > 0) memcpy(attr.shape, shape, (size_t)ndim * sizeof *shape);
    return mc_record(s, MC_OP_BROADCAST_TO, &attr, &x, 1);
}

/* ---- slice ---- */

static mica_status slice_infer(const void *attr, const mc_layout *const *in, int n_in,
                               mc_layout *out) {
    (void)n_in;
    const mc_attr_slice *a = attr;
    MC_TRY(mc_slice_check("slice", in[0], a));
    return mc_set_result("slice", out, in[0]->dtype, a->count, in[0]->ndim);
}

static bool slice_view(const void *attr, const mc_layout *in, mc_layout *out,
                       int64_t *offset_bytes) {
    const mc_attr_slice *a = attr;
    *offset_bytes = 0;
    mc_layout_set_dense(out);
    if (mc_layout_size(out) == 0) return true;
    int64_t offset = 0;
    for (int k = 0; k < in->ndim; k++) {
        offset += a->start[k] * in->strides[k];
        if (out->shape[k] > 1) out->strides[k] = in->strides[k] * a->step[k];
    }
    *offset_bytes = offset * (int64_t)mica_dtype_bytes(in->dtype);
    return true;
}

MC_OP(slice, 1, 1, MC_ATTR(slice), .infer = slice_infer, .view = slice_view);

static bool slice_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    const mica_array in[2] = {
        mica_zeros(n->s, mica_array_shape(n->in[0]), mica_array_ndim(n->in[0]),
                   mica_array_dtype(*dy)),
        *dy,
    };
    *dx = mc_record(n->s, MC_OP_SLICE_UPDATE, n->attr, in, 2);
    return true;
}
MC_GRADIENT(slice, slice_vjp, mc_linear_jvp);

/* x between lo and hi, as far as this does not depend on symbols. */
static int64_t clamp(int64_t x, int64_t lo, int64_t hi) {
    return mc_dim_at_least(mc_dim_at_most(x, hi), lo);
}

/* A place along an axis of n elements, between lo and hi; those below 0 count from its end, and
 * beyond 32 bits they are beyond each end. */
static int64_t place_of(int64_t place, int64_t n, int64_t lo, int64_t hi) {
    if (!mc_dim_in_range(place) && place >= INT32_MAX && mc_dim_in_range(n)) return hi;
    if (place <= -INT32_MAX && mc_dim_in_range(n)) return lo;
    return clamp(mc_dim_sign(place) < 0 ? mc_dim_add(place, n) : place, lo, hi);
}

/* Resolves Python's start:stop:step for an axis of n elements. */
static void resolve_axis(int64_t n, int64_t start, int64_t stop, int64_t step, mc_attr_slice *attr,
                         int k) {
    bool forward = step > 0;
    bool open = stop == MICA_END_OF_AXIS;
    int64_t lo = forward ? 0 : -1, hi = forward ? n : mc_dim_sub(n, 1), end = mc_dim_add(n, 1);
    start = place_of(start, n, lo, hi);
    stop = open ? (forward ? n : -1) : place_of(stop, n, lo, hi);
    int64_t span = forward ? mc_dim_sub(stop, start) : mc_dim_sub(start, stop);
    /* -step may overflow; a step longer than the axis acts as one of its length. */
    int64_t stride = forward ? clamp(step, 1, end) : clamp(step, mc_dim_sub(0, end), -1);
    int64_t length = forward ? stride : -stride;
    bool none = span == 0 || mc_dim_sign(span) < 0;
    attr->count[k] = none ? 0 : mc_dim_div_up(span, length);
    attr->start[k] = attr->count[k] > 0 ? start : 0;
    attr->step[k] = attr->count[k] > 1 ? stride : 1;
}

mica_status mc_slice_resolve(const char *op, const mc_layout *x, const int64_t *start,
                             const int64_t *stop, const int64_t *step, mc_attr_slice *attr) {
    memset(attr, 0, sizeof *attr);
    for (int k = 0; k < x->ndim; k++) {
        int64_t by = !step ? 1 : step[k];
        if (by == 0) return mc_fail(MICA_EINVAL, "%s: the step of axis %d is 0", op, k);
        if (mc_dim_in_range(by) && mc_dim_sign(by) <= 0)
            return mc_fail(MICA_EUNSUPPORTED,
                           "%s: the step of axis %d is a length with symbols, which is not above 0",
                           op, k);
        int64_t from = start ? start[k] : by > 0 ? 0 : INT64_MAX;
        resolve_axis(x->shape[k], from, stop ? stop[k] : MICA_END_OF_AXIS, by, attr, k);
    }
    return MICA_OK;
}

/* Whether `count` elements from `start` on, `step` apart, are within an axis of n. */
static bool lies_in(int64_t n, int64_t start, int64_t count, int64_t step) {
    int64_t last;
    if (mc_dim_has_symbols(n) || mc_dim_has_symbols(start) || mc_dim_has_symbols(count) ||
        mc_dim_has_symbols(step))
        return true; /* not known yet */
    if (count == 0) return start == 0 && step == 1;
    if (count < 0 || start < 0 || start >= n) return false;
    if (count == 1) return step == 1;
    return step != 0 && !__builtin_mul_overflow(count - 1, step, &last) &&
           !__builtin_add_overflow(start, last, &last) && last >= 0 && last < n;
}

mica_status mc_slice_check(const char *op, const mc_layout *x, const mc_attr_slice *attr) {
    char text[MC_LAYOUT_TEXT];
    for (int k = 0; k < x->ndim; k++)
        if (!lies_in(x->shape[k], attr->start[k], attr->count[k], attr->step[k]))
            return mc_fail(MICA_EINVAL,
                           "%s: %lld elements from %lld on by %lld along axis %d of %s", op,
                           (long long)attr->count[k], (long long)attr->start[k],
                           (long long)attr->step[k], k, mc_layout_text(x, text));
    return MICA_OK;
}

mica_array mica_slice(mica_scope *s, mica_array x, const int64_t *start, const int64_t *stop,
                      const int64_t *step) {
    if (!mc_operands_ok(s, "slice", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    mc_attr_slice attr;
    mica_status status = mc_slice_resolve("slice", l, start, stop, step, &attr);
    if (status != MICA_OK) return mc_fail_in(s, status);
    bool whole = true;
    for (int k = 0; k < l->ndim; k++)
        whole = whole && attr.start[k] == 0 && attr.count[k] == l->shape[k] && attr.step[k] == 1;
    return whole ? x : mc_record(s, MC_OP_SLICE, &attr, &x, 1);
}

mica_array mica_slice_axis(mica_scope *s, mica_array x, int axis, int64_t start, int64_t stop) {
    if (!mc_operands_ok(s, "slice_axis", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    int at;
    if (!mc_find_axis(s, "slice_axis", l, axis, &at)) return mc_invalid(s);
    int64_t starts[MICA_MAX_NDIM] = {0}, stops[MICA_MAX_NDIM];
    for (int k = 0; k < l->ndim; k++)
        stops[k] = MICA_END_OF_AXIS;
    starts[at] = start;
    stops[at] = stop;
    return mica_slice(s, x, starts, stops, NULL);
}

mica_array mica_narrow(mica_scope *s, mica_array x, int axis, int64_t start, int64_t length) {
    if (!mc_operands_ok(s, "narrow", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    char text[MC_LAYOUT_TEXT], from[MC_DIM_TEXT], count[MC_DIM_TEXT];
    int at;
    if (!mc_find_axis(s, "narrow", l, axis, &at)) return mc_invalid(s);
    int64_t n = l->shape[at], begin = mc_dim_sign(start) < 0 ? mc_dim_add(start, n) : start;
    if (mc_dim_sign(begin) < 0 || mc_dim_less(n, begin) || mc_dim_sign(length) < 0 ||
        mc_dim_less(mc_dim_sub(n, begin), length))
        return mc_scope_fail(s, MICA_EINVAL, "narrow: %s elements from %s on of axis %d of %s",
                             mc_dim_text(length, count), mc_dim_text(start, from), at,
                             mc_layout_text(l, text));
    return mica_slice_axis(s, x, at, begin, mc_dim_add(begin, length));
}

/* ---- as_strided ---- */

/* Adds a * b to *sum. false: overflow. */
static bool add_product(int64_t a, int64_t b, int64_t *sum) {
    int64_t product;
    return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(*sum, product, sum);
}

static mica_status as_strided_infer(const void *attr, const mc_layout *const *in, int n_in,
                                    mc_layout *out) {
    (void)n_in;
    const mc_attr_strided *a = attr;
    MC_TRY(mc_set_result("as_strided", out, in[0]->dtype, a->shape, a->ndim));
    bool open = mc_layout_has_symbols(in[0]) || mc_layout_has_symbols(out);
    for (int k = 0; k < out->ndim; k++)
        open = open || mc_dim_has_symbols(a->strides[k]);
    if (open || mc_dim_has_symbols(a->offset) || mc_layout_size(out) == 0) return MICA_OK;
    int64_t first = a->offset, last = a->offset, size = mc_layout_size(in[0]);
    bool fits = true;
    for (int k = 0; k < out->ndim; k++)
        fits = fits &&
               add_product(out->shape[k] - 1, a->strides[k], a->strides[k] < 0 ? &first : &last);
    if (fits && first >= 0 && last < size) return MICA_OK;
    char from[MC_LAYOUT_TEXT], to[MC_LAYOUT_TEXT];
    return mc_fail(MICA_EINVAL,
                   "as_strided: %s from offset %lld reaches outside the %lld elements of %s",
                   mc_layout_text(out, to), (long long)a->offset, (long long)size,
                   mc_layout_text(in[0], from));
}

/* Strides are in elements of the row-major operand, so it must be dense in memory. */
static bool as_strided_view(const void *attr, const mc_layout *in, mc_layout *out,
                            int64_t *offset_bytes) {
    const mc_attr_strided *a = attr;
    *offset_bytes = 0;
    mc_layout_set_dense(out);
    if (mc_layout_size(out) == 0) return true;
    if (!mc_layout_is_dense(in)) return false;
    for (int k = 0; k < out->ndim; k++)
        if (out->shape[k] > 1) out->strides[k] = a->strides[k];
    *offset_bytes = a->offset * (int64_t)mica_dtype_bytes(in->dtype);
    return true;
}

MC_OP(as_strided, 1, 1, MC_ATTR(strided), .infer = as_strided_infer, .view = as_strided_view);

/* The places in x that the result reads: [shape], i64. */
static mica_array strided_places(mica_scope *s, const mc_attr_strided *a) {
    mica_array at = mica_scalar(s, (double)a->offset, MICA_I64);
    int ndim = (int)a->ndim;
    for (int k = 0; k < ndim; k++) {
        int64_t shape[MICA_MAX_NDIM];
        for (int i = 0; i < ndim; i++)
            shape[i] = i == k ? a->shape[k] : 1;
        mica_array step = mica_arange(s, 0, (double)a->shape[k], 1, MICA_I64);
        step = mica_multiply(s, step, mica_scalar(s, (double)a->strides[k], MICA_I64));
        at = mica_add(s, at, mica_reshape(s, step, shape, ndim));
    }
    return at;
}

static bool as_strided_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    mica_scope *s = n->s;
    const mica_array x = n->in[0];
    const int64_t size = mica_array_size(x), count = mica_array_size(*dy), rows[2] = {count, 1};
    if (size == 0 || count == 0) {
        *dx = mc_zeros_like(s, x);
        return true;
    }
    mica_array at = mica_reshape(s, strided_places(s, n->attr), &count, 1);
    mica_array updates = mica_reshape(s, mica_astype(s, *dy, MICA_F32), rows, 2);
    const int axis = 0;
    mica_array flat = mica_scatter(s, mica_zeros(s, &size, 1, MICA_F32), &at, 1, &axis, updates,
                                   MICA_SCATTER_ADD);
    *dx = mica_reshape(s, flat, mica_array_shape(x), mica_array_ndim(x));
    return true;
}
MC_GRADIENT(as_strided, as_strided_vjp, mc_linear_jvp);

mica_array mica_as_strided(mica_scope *s, mica_array x, const int64_t *shape,
                           const int64_t *strides, int ndim, int64_t offset) {
    if (!mc_operands_ok(s, "as_strided", &x, 1)) return mc_invalid(s);
    mica_status status = check_ndim("as_strided", shape, ndim);
    if (status == MICA_OK) status = check_ndim("as_strided", strides, ndim);
    if (status != MICA_OK) return mc_fail_in(s, status);
    mc_attr_strided attr = {.ndim = ndim, .offset = offset};
    for (int k = 0; k < ndim; k++) {
        attr.shape[k] = shape[k];
        attr.strides[k] = strides[k];
    }
    return mc_record(s, MC_OP_AS_STRIDED, &attr, &x, 1);
}

/* ---- contiguous ---- */

static mica_status contiguous_infer(const void *attr, const mc_layout *const *in, int n_in,
                                    mc_layout *out) {
    (void)attr;
    (void)n_in;
    *out = *in[0];
    return MICA_OK;
}

MC_OP(contiguous, 1, 1, .infer = contiguous_infer);
MC_GRADIENT(contiguous, mc_same_rule, mc_same_rule);

mica_array mica_contiguous(mica_scope *s, mica_array x) {
    return mc_record(s, MC_OP_CONTIGUOUS, NULL, &x, 1);
}
