/* Reading and writing parts of arrays: slices are written, elements are read and written by
 * index. */
#include <mica/ops.h>

#include <string.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/gradient.h"
#include "op/slice.h"
#include "op/work.h"

static mica_status check_index(const char *op, const mc_layout *l) {
    if (l->dtype >= MICA_U8 && l->dtype <= MICA_I64) return MICA_OK;
    char text[MC_LAYOUT_TEXT];
    return mc_fail(MICA_EDTYPE, "%s: indices %s are not integers", op, mc_layout_text(l, text));
}

static mica_status check_same_dtype(const char *op, const mc_layout *x, const mc_layout *update) {
    if (x->dtype == update->dtype) return MICA_OK;
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
    return mc_fail(MICA_EDTYPE, "%s: %s into %s", op, mc_layout_text(update, b),
                   mc_layout_text(x, a));
}

/* ---- slice_update, slice_update_at ---- */

static mica_status slice_update_infer(const void *attr, const mc_layout *const *in, int n_in,
                                      mc_layout *out) {
    (void)n_in;
    const mc_attr_slice *a = attr;
    MC_TRY(check_same_dtype("slice_update", in[0], in[1]));
    MC_TRY(mc_slice_check("slice_update", in[0], a));
    mc_layout part;
    MC_TRY(mc_set_result("slice_update", &part, in[0]->dtype, a->count, in[0]->ndim));
    char wanted[MC_LAYOUT_TEXT], given[MC_LAYOUT_TEXT];
    if (!mc_layout_same_shape(&part, in[1]))
        return mc_fail(MICA_ESHAPE, "slice_update: %s into a slice %s",
                       mc_layout_text(in[1], given), mc_layout_text(&part, wanted));
    *out = *in[0];
    return MICA_OK;
}

MC_OP(slice_update, 2, 2, MC_ATTR(slice), .infer = slice_update_infer, .work = mc_work_update,
      .in_place = 1);

static bool slice_update_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    const mica_array in[2] = {*dy, mc_zeros_like(n->s, n->in[1])};
    if (n->wanted[0]) dx[0] = mc_record(n->s, MC_OP_SLICE_UPDATE, n->attr, in, 2);
    if (n->wanted[1]) dx[1] = mc_record(n->s, MC_OP_SLICE, n->attr, dy, 1);
    return true;
}
MC_GRADIENT(slice_update, slice_update_vjp, mc_linear_jvp);

mica_array mica_slice_update(mica_scope *s, mica_array x, mica_array update, const int64_t *start,
                             const int64_t *stop, const int64_t *step) {
    mica_array in[] = {x, update};
    if (!mc_operands_ok(s, "slice_update", in, 2)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    mc_attr_slice attr;
    mica_status status = mc_slice_resolve("slice_update", l, start, stop, step, &attr);
    if (status != MICA_OK) return mc_fail_in(s, status);
    in[1] = mc_broadcast(s, mc_cast(s, update, l->dtype), attr.count, l->ndim);
    return mc_record(s, MC_OP_SLICE_UPDATE, &attr, in, 2);
}

static mica_status slice_update_at_infer(const void *attr, const mc_layout *const *in, int n_in,
                                         mc_layout *out) {
    (void)n_in;
    const mc_layout *x = in[0], *update = in[1], *start = in[2];
    const mc_attr_axis *at = attr;
    MC_TRY(mc_check_axis("slice_update_at", x, at->axis));
    int axis = (int)at->axis;
    MC_TRY(check_same_dtype("slice_update_at", x, update));
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
    if (start->dtype != MICA_I32 || start->ndim != 0)
        return mc_fail(MICA_EDTYPE, "slice_update_at: the start is %s, not i32[]",
                       mc_layout_text(start, a));
    bool fits = update->ndim == x->ndim;
    for (int k = 0; fits && k < x->ndim; k++)
        fits = k == axis ? !mc_dim_less(x->shape[k], update->shape[k])
                         : update->shape[k] == x->shape[k];
    if (!fits)
        return mc_fail(MICA_ESHAPE, "slice_update_at: %s does not fit into %s along axis %d",
                       mc_layout_text(update, b), mc_layout_text(x, a), axis);
    *out = *x;
    return MICA_OK;
}

MC_OP(slice_update_at, 3, 3, MC_ATTR(axis), .infer = slice_update_at_infer, .work = mc_work_update,
      .in_place = 1);

static bool slice_update_at_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    mica_scope *s = n->s;
    int axis = (int)((const mc_attr_axis *)n->attr)->axis;
    if (n->wanted[0])
        dx[0] = mica_slice_update_at(s, *dy, mc_zeros_like(s, n->in[1]), n->in[2], axis);
    if (n->wanted[1]) {
        double len = (double)mica_array_dim(n->in[1], axis);
        mica_array at = mica_add(s, mica_arange(s, 0, len, 1, MICA_I32), n->in[2]);
        dx[1] = mica_take(s, *dy, at, axis);
    }
    return true;
}
MC_GRADIENT(slice_update_at, slice_update_at_vjp, mc_linear_jvp);

mica_array mica_slice_update_at(mica_scope *s, mica_array x, mica_array update, mica_array start,
                                int axis) {
    mica_array in[] = {x, update, start};
    if (!mc_operands_ok(s, "slice_update_at", in, 3)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    int at;
    if (!mc_find_axis(s, "slice_update_at", l, axis, &at)) return mc_invalid(s);
    in[1] = mc_cast(s, update, l->dtype);
    return mc_record(s, MC_OP_SLICE_UPDATE_AT, &(mc_attr_axis){at}, in, 3);
}

/* ---- take ---- */

static mica_status take_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)n_in;
    const mc_layout *x = in[0], *index = in[1];
    const mc_attr_axis *at = attr;
    MC_TRY(mc_check_axis("take", x, at->axis));
    int axis = (int)at->axis;
    MC_TRY(check_index("take", index));
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
    if (x->ndim - 1 + index->ndim > MICA_MAX_NDIM)
        return mc_fail(MICA_ESHAPE, "take: %s at %s has more than %d axes", mc_layout_text(x, a),
                       mc_layout_text(index, b), MICA_MAX_NDIM);
    int64_t shape[MICA_MAX_NDIM];
    int n = 0;
    for (int k = 0; k < axis; k++)
        shape[n++] = x->shape[k];
    for (int k = 0; k < index->ndim; k++)
        shape[n++] = index->shape[k];
    for (int k = axis + 1; k < x->ndim; k++)
        shape[n++] = x->shape[k];
    return mc_set_result("take", out, x->dtype, shape, n);
}

MC_OP(take, 2, 2, MC_ATTR(axis), .infer = take_infer, .work = mc_work_pick);

mica_array mc_add_taken(mica_scope *s, mica_array x, mica_array indices, mica_array dy, int axis) {
    const int64_t count = mica_array_size(indices);
    int64_t flat[3] = {1, mica_array_dim(x, axis), 1}, parts[4] = {count, 1, 1, 1};
    for (int k = 0; k < mica_array_ndim(x); k++)
        if (k != axis)
            flat[k < axis ? 0 : 2] = mc_dim_mul(flat[k < axis ? 0 : 2], mica_array_dim(x, k));
    const int64_t rows[3] = {flat[0], count, flat[2]};
    if (mica_array_size(x) == 0 || count == 0) return mc_zeros_like(s, x);
    parts[1] = flat[0];
    parts[3] = flat[2];
    mica_array updates = mica_reshape(s, mica_astype(s, dy, MICA_F32), rows, 3);
    updates = mica_reshape(s, mica_swapaxes(s, updates, 0, 1), parts, 4);
    const mica_array at = mica_reshape(s, indices, &count, 1);
    const int middle = 1;
    mica_array sums = mica_scatter(s, mica_zeros(s, flat, 3, MICA_F32), &at, 1, &middle, updates,
                                   MICA_SCATTER_ADD);
    return mica_reshape(s, sums, mica_array_shape(x), mica_array_ndim(x));
}

static bool take_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    int axis = (int)((const mc_attr_axis *)n->attr)->axis;
    *dx = mc_add_taken(n->s, n->in[0], n->in[1], *dy, axis);
    return true;
}
MC_GRADIENT(take, take_vjp, mc_linear_jvp);

mica_array mica_take(mica_scope *s, mica_array x, mica_array indices, int axis) {
    mica_array in[] = {x, indices};
    if (!mc_operands_ok(s, "take", in, 2)) return mc_invalid(s);
    int at;
    if (!mc_find_axis(s, "take", mc_layout_of(x), axis, &at)) return mc_invalid(s);
    return mc_record(s, MC_OP_TAKE, &(mc_attr_axis){at}, in, 2);
}

/* ---- take_along_axis, put_along_axis ---- */

/* Checks that x and the indices have the same lengths on all axes but one. */
static mica_status check_along(const char *op, const mc_layout *x, const mc_layout *index,
                               int64_t axis) {
    MC_TRY(check_index(op, index));
    MC_TRY(mc_check_axis(op, x, axis));
    bool fits = x->ndim == index->ndim;
    for (int k = 0; fits && k < x->ndim; k++)
        fits = k == axis || x->shape[k] == index->shape[k];
    if (fits) return MICA_OK;
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
    return mc_fail(MICA_ESHAPE, "%s: %s and indices %s differ beside axis %lld", op,
                   mc_layout_text(x, a), mc_layout_text(index, b), (long long)axis);
}

/* x broadcast to the shape of `like`, with `length` along the axis. */
static mica_array broadcast_along(mica_scope *s, mica_array x, const int64_t *like, int ndim,
                                  int axis, int64_t length) {
    int64_t shape[MICA_MAX_NDIM];
    memcpy(shape, like, (size_t)ndim * sizeof *shape);
    shape[axis] = length;
    return mc_broadcast(s, x, shape, ndim);
}

static mica_status take_along_axis_infer(const void *attr, const mc_layout *const *in, int n_in,
                                         mc_layout *out) {
    (void)n_in;
    const mc_attr_axis *a = attr;
    MC_TRY(check_along("take_along_axis", in[0], in[1], a->axis));
    return mc_set_result("take_along_axis", out, in[0]->dtype, in[1]->shape, in[1]->ndim);
}

MC_OP(take_along_axis, 2, 2, MC_ATTR(axis), .infer = take_along_axis_infer, .work = mc_work_pick);

static bool take_along_axis_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    int axis = (int)((const mc_attr_axis *)n->attr)->axis;
    *dx = mc_add_along_axis(n->s, n->in[0], n->in[1], *dy, axis);
    return true;
}
MC_GRADIENT(take_along_axis, take_along_axis_vjp, mc_linear_jvp);

/* The shape that two layouts of equal ndim broadcast to on all axes but one. */
static mica_status shape_beside(const char *op, const mc_layout *x, const mc_layout *index,
                                int axis, int64_t shape[MICA_MAX_NDIM]) {
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
    if (x->ndim != index->ndim)
        return mc_fail(MICA_ESHAPE, "%s: %s and indices %s differ in their number of axes", op,
                       mc_layout_text(x, a), mc_layout_text(index, b));
    mc_layout flat_x = *x, flat_index = *index;
    flat_x.shape[axis] = flat_index.shape[axis] = 1;
    int ndim;
    return mc_broadcast_shapes(op, &flat_x, &flat_index, shape, &ndim);
}

mica_array mica_take_along_axis(mica_scope *s, mica_array x, mica_array indices, int axis) {
    mica_array in[] = {x, indices};
    if (!mc_operands_ok(s, "take_along_axis", in, 2)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x), *index = mc_layout_of(indices);
    int at;
    if (!mc_find_axis(s, "take_along_axis", l, axis, &at)) return mc_invalid(s);
    int64_t shape[MICA_MAX_NDIM];
    mica_status status = shape_beside("take_along_axis", l, index, at, shape);
    if (status != MICA_OK) return mc_fail_in(s, status);
    in[0] = broadcast_along(s, x, shape, l->ndim, at, l->shape[at]);
    in[1] = broadcast_along(s, indices, shape, l->ndim, at, index->shape[at]);
    return mc_record(s, MC_OP_TAKE_ALONG_AXIS, &(mc_attr_axis){at}, in, 2);
}

static mica_status put_along_axis_infer(const void *attr, const mc_layout *const *in, int n_in,
                                        mc_layout *out) {
    (void)n_in;
    const mc_attr_axis *at = attr;
    MC_TRY(check_along("put_along_axis", in[0], in[1], at->axis));
    MC_TRY(check_same_dtype("put_along_axis", in[0], in[2]));
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
    if (!mc_layout_same_shape(in[1], in[2]))
        return mc_fail(MICA_ESHAPE, "put_along_axis: values %s at indices %s",
                       mc_layout_text(in[2], a), mc_layout_text(in[1], b));
    *out = *in[0];
    return MICA_OK;
}

MC_OP(put_along_axis, 3, 3, MC_ATTR(axis), .infer = put_along_axis_infer, .in_place = 1);

/* The numbers 0, 1, .. in the shape of x: u32. */
static mica_array numbers(mica_scope *s, mica_array x) {
    mica_array number = mica_arange(s, 0, (double)mica_array_size(x), 1, MICA_U32);
    return mica_reshape(s, number, mica_array_shape(x), mica_array_ndim(x));
}

static bool put_along_axis_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    mica_scope *s = n->s;
    int axis = (int)((const mc_attr_axis *)n->attr)->axis;
    const mica_array x = n->in[0], at = n->in[1];
    if (n->wanted[0])
        dx[0] = mica_put_along_axis(s, *dy, at, mica_scalar(s, 0, mica_array_dtype(*dy)), axis);
    if (!n->wanted[2]) return true;
    mica_array number = numbers(s, at);
    mica_array last = mica_zeros(s, mica_array_shape(x), mica_array_ndim(x), MICA_U32);
    last = mica_put_along_axis(s, last, at, number, axis);
    dx[2] = mc_where_stayed(s, mica_take_along_axis(s, last, at, axis), number,
                            mica_take_along_axis(s, *dy, at, axis));
    return true;
}

/* The values' tangents are written in the same order as the values. */
MC_GRADIENT(put_along_axis, put_along_axis_vjp, mc_linear_jvp);

mica_array mica_put_along_axis(mica_scope *s, mica_array x, mica_array indices, mica_array values,
                               int axis) {
    mica_array in[] = {x, indices, values};
    if (!mc_operands_ok(s, "put_along_axis", in, 3)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x), *index = mc_layout_of(indices);
    int at;
    if (!mc_find_axis(s, "put_along_axis", l, axis, &at)) return mc_invalid(s);
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
    if (index->ndim != l->ndim)
        return mc_scope_fail(s, MICA_ESHAPE,
                             "put_along_axis: %s and indices %s differ in their number of axes",
                             mc_layout_text(l, a), mc_layout_text(index, b));
    in[1] = broadcast_along(s, indices, l->shape, l->ndim, at, index->shape[at]);
    if (!mica_valid(in[1])) return mc_invalid(s);
    const mc_layout *wide = mc_layout_of(in[1]);
    in[2] = mc_broadcast(s, mc_cast(s, values, l->dtype), wide->shape, wide->ndim);
    return mc_record(s, MC_OP_PUT_ALONG_AXIS, &(mc_attr_axis){at}, in, 3);
}

/* ---- gather, scatter ---- */

/* Checks that there is an index operand for each of n axes, that these operands are integers of one
 * shape, and that the axes exist and differ. */
static mica_status check_indices(const char *op, const mc_layout *x, const mc_layout *const *index,
                                 int n_index, int64_t n, const int64_t *axes) {
    bool taken[MICA_MAX_NDIM] = {false};
    if (n != n_index)
        return mc_fail(MICA_EINVAL, "%s: %d index arrays for %lld axes", op, n_index, (long long)n);
    for (int i = 0; i < n_index; i++) {
        MC_TRY(check_index(op, index[i]));
        MC_TRY(mc_check_axis(op, x, axes[i]));
        char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
        if (!mc_layout_same_shape(index[0], index[i]))
            return mc_fail(MICA_ESHAPE, "%s: indices %s and %s differ", op,
                           mc_layout_text(index[0], a), mc_layout_text(index[i], b));
        if (taken[axes[i]])
            return mc_fail(MICA_EINVAL, "%s: axis %lld is listed twice", op, (long long)axes[i]);
        taken[axes[i]] = true;
    }
    if (index[0]->ndim + x->ndim <= MICA_MAX_NDIM) return MICA_OK;
    return mc_fail(MICA_ESHAPE, "%s: %d axes of indices and %d of x: at most %d together", op,
                   index[0]->ndim, x->ndim, MICA_MAX_NDIM);
}

/* Checks a slice: on each axis at most x's length, and 1 on indexed axes. */
static mica_status check_slice(const char *op, const mc_layout *x, const int64_t *sizes, int64_t n,
                               const int64_t *axes) {
    char text[MC_LAYOUT_TEXT];
    for (int k = 0; k < x->ndim; k++)
        if (mc_dim_sign(sizes[k]) < 0 || mc_dim_less(x->shape[k], sizes[k]))
            return mc_fail(MICA_ESHAPE, "%s: slices of %lld along axis %d of %s", op,
                           (long long)sizes[k], k, mc_layout_text(x, text));
    for (int64_t i = 0; i < n; i++)
        if (sizes[axes[i]] != 1)
            return mc_fail(MICA_ESHAPE, "%s: slices of %lld along axis %lld, which is indexed", op,
                           (long long)sizes[axes[i]], (long long)axes[i]);
    return MICA_OK;
}

static mica_status gather_infer(const void *attr, const mc_layout *const *in, int n_in,
                                mc_layout *out) {
    const mc_attr_gather *a = attr;
    const mc_layout *x = in[0], *index = in[1];
    MC_TRY(check_indices("gather", x, in + 1, n_in - 1, a->n, a->axes));
    MC_TRY(check_slice("gather", x, a->slice_sizes, a->n, a->axes));
    int64_t shape[MICA_MAX_NDIM];
    memcpy(shape, index->shape, (size_t)index->ndim * sizeof *shape);
    memcpy(shape + index->ndim, a->slice_sizes, (size_t)x->ndim * sizeof *shape);
    return mc_set_result("gather", out, x->dtype, shape, index->ndim + x->ndim);
}

MC_OP(gather, 2, 1 + MICA_MAX_NDIM, .variadic = true, MC_ATTR(gather), .infer = gather_infer,
      .work = mc_work_pick);

/* A scatter of updates into x at the node's indices, which begin with operand `first`. */
static mica_array scatter_at(const mc_gradient_node *n, int first, mica_array x, mica_array updates,
                             mica_scatter_mode mode, const int64_t *axes) {
    mica_array in[2 + MICA_MAX_NDIM] = {x, updates};
    mc_attr_scatter attr = {.n = n->n_in - first, .mode = mode};
    for (int i = 0; i < n->n_in - first; i++) {
        in[2 + i] = n->in[first + i];
        attr.axes[i] = axes[i];
    }
    return mc_record(n->s, MC_OP_SCATTER, &attr, in, 2 + n->n_in - first);
}

static bool gather_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    const mc_attr_gather *a = n->attr;
    mica_array zeros =
        mica_zeros(n->s, mica_array_shape(n->in[0]), mica_array_ndim(n->in[0]), MICA_F32);
    *dx = scatter_at(n, 1, zeros, mica_astype(n->s, *dy, MICA_F32), MICA_SCATTER_ADD, a->axes);
    return true;
}
MC_GRADIENT(gather, gather_vjp, mc_linear_jvp);

/* Broadcasts the indices together into out[n] and counts the axes from the front. */
static bool prepare_indices(mica_scope *s, const char *op, const mc_layout *x,
                            const mica_array *indices, int n, const int *axes, mica_array *out,
                            int64_t *found) {
    if (n < 1 || n > MICA_MAX_NDIM || !indices || !axes) {
        mc_scope_fail(s, MICA_EINVAL, "%s: %d index arrays, 1 to %d are possible", op, n,
                      MICA_MAX_NDIM);
        return false;
    }
    if (!mc_operands_ok(s, op, indices, n)) return false;
    mc_layout all = *mc_layout_of(indices[0]);
    for (int i = 0; i < n; i++) {
        int at;
        if (!mc_find_axis(s, op, x, axes[i], &at)) return false;
        found[i] = at;
        int64_t shape[MICA_MAX_NDIM];
        int ndim;
        mica_status status = mc_broadcast_shapes(op, &all, mc_layout_of(indices[i]), shape, &ndim);
        if (status == MICA_OK) status = mc_layout_init(&all, all.dtype, shape, ndim);
        if (status != MICA_OK) return mica_valid(mc_fail_in(s, status));
    }
    for (int i = 0; i < n; i++)
        out[i] = mc_broadcast(s, indices[i], all.shape, all.ndim);
    return true;
}

mica_array mica_gather(mica_scope *s, mica_array x, const mica_array *indices, int n,
                       const int *axes, const int64_t *slice_sizes) {
    if (!mc_operands_ok(s, "gather", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    mica_array in[1 + MICA_MAX_NDIM] = {x};
    mc_attr_gather attr = {.n = n};
    if (!prepare_indices(s, "gather", l, indices, n, axes, in + 1, attr.axes)) return mc_invalid(s);
    if (!slice_sizes)
        return mc_scope_fail(s, MICA_EINVAL, "gather: the sizes of the slices are NULL");
    memcpy(attr.slice_sizes, slice_sizes, (size_t)l->ndim * sizeof *slice_sizes);
    return mc_record(s, MC_OP_GATHER, &attr, in, 1 + n);
}

static mica_status scatter_infer(const void *attr, const mc_layout *const *in, int n_in,
                                 mc_layout *out) {
    const mc_attr_scatter *a = attr;
    const mc_layout *x = in[0], *updates = in[1], *index = in[2];
    if (a->mode < MICA_SCATTER_SET || a->mode > MICA_SCATTER_MINIMUM)
        return mc_fail(MICA_EINVAL, "scatter: no mode %lld", (long long)a->mode);
    MC_TRY(check_same_dtype("scatter", x, updates));
    MC_TRY(check_indices("scatter", x, in + 2, n_in - 2, a->n, a->axes));
    bool fits = updates->ndim == index->ndim + x->ndim;
    for (int k = 0; fits && k < index->ndim; k++)
        fits = updates->shape[k] == index->shape[k];
    char t[MC_LAYOUT_TEXT], u[MC_LAYOUT_TEXT], v[MC_LAYOUT_TEXT];
    if (!fits)
        return mc_fail(MICA_ESHAPE,
                       "scatter: updates %s into %s at indices %s: the shape of the indices, then "
                       "that of a slice of x, is needed",
                       mc_layout_text(updates, u), mc_layout_text(x, t), mc_layout_text(index, v));
    MC_TRY(check_slice("scatter", x, updates->shape + index->ndim, a->n, a->axes));
    *out = *x;
    return MICA_OK;
}

MC_OP(scatter, 3, 2 + MICA_MAX_NDIM, .variadic = true, MC_ATTR(scatter), .infer = scatter_infer,
      .work = mc_work_update, .in_place = 1);

/* What x holds where the updates go: [shape of the updates]. */
static mica_array gather_at(const mc_gradient_node *n, mica_array x) {
    const mc_attr_scatter *a = n->attr;
    mica_array in[1 + MICA_MAX_NDIM] = {x};
    mc_attr_gather attr = {.n = a->n};
    int before = mica_array_ndim(n->in[2]);
    for (int i = 0; i < a->n; i++) {
        in[1 + i] = n->in[2 + i];
        attr.axes[i] = a->axes[i];
    }
    for (int k = 0; k < mica_array_ndim(x); k++)
        attr.slice_sizes[k] = mica_array_dim(n->in[1], before + k);
    return mc_record(n->s, MC_OP_GATHER, &attr, in, 1 + (int)a->n);
}

static mica_array scatter_like(const mc_gradient_node *n, mica_array x, mica_array updates,
                               mica_scatter_mode mode) {
    return scatter_at(n, 2, x, updates, mode, ((const mc_attr_scatter *)n->attr)->axes);
}

/* The updates that the last write of an element came from, of `x` filled with one number. */
static mica_array numbers_written(const mc_gradient_node *n, mica_array number, double fill,
                                  mica_scatter_mode mode) {
    const mica_array x = n->in[0];
    mica_array at =
        mica_full(n->s, mica_array_shape(x), mica_array_ndim(x), mica_scalar(n->s, fill, MICA_U32));
    return gather_at(n, scatter_like(n, at, number, mode));
}

static void set_vjp(const mc_gradient_node *n, mica_array dy, mica_array *dx) {
    mica_scope *s = n->s;
    mica_array number = numbers(s, n->in[1]);
    mica_array zeros =
        mica_zeros(s, mica_array_shape(n->in[1]), mica_array_ndim(n->in[1]), mica_array_dtype(dy));
    if (n->wanted[0]) dx[0] = scatter_like(n, dy, zeros, MICA_SCATTER_SET);
    if (n->wanted[1])
        dx[1] = mc_where_stayed(s, numbers_written(n, number, 0, MICA_SCATTER_SET), number,
                                gather_at(n, dy));
}

/* Of an element x u_1 u_2 .. by each factor: the product of the others, of which none may be 0. */
static void multiply_vjp(const mc_gradient_node *n, mica_array dy, mica_array *dx) {
    mica_scope *s = n->s;
    mica_array x = mc_wide(s, n->in[0]), u = mc_wide(s, n->in[1]);
    mica_array zero = mica_f32(s, 0), one = mica_f32(s, 1), none = mica_equal(s, u, zero);
    mica_array zeros_in_u = mica_astype(s, none, MICA_F32);
    mica_array others = mica_where(s, none, one, u); /* the factors that are not 0 */
    mica_array all = mica_ones(s, mica_array_shape(x), mica_array_ndim(x), MICA_F32);
    all = scatter_like(n, all, others, MICA_SCATTER_MULTIPLY);
    mica_array count = mica_zeros(s, mica_array_shape(x), mica_array_ndim(x), MICA_F32);
    count = scatter_like(n, count, zeros_in_u, MICA_SCATTER_ADD);
    dy = mc_wide(s, dy);
    if (n->wanted[0])
        dx[0] = mica_multiply(s, dy, mica_where(s, mica_equal(s, count, zero), all, zero));
    if (!n->wanted[1]) return;
    mica_array rest = mica_subtract(s, gather_at(n, count), zeros_in_u);
    mica_array product = mica_divide(s, gather_at(n, mica_multiply(s, x, all)), others);
    product = mica_where(s, mica_equal(s, rest, zero), product, zero);
    dx[1] = mica_multiply(s, gather_at(n, dy), product);
}

/* To x where it is the result, else to the first update that is. */
static void extreme_vjp(const mc_gradient_node *n, mica_array dy, mica_array *dx) {
    mica_scope *s = n->s;
    const mica_array x = n->in[0], y = n->out[0], u = n->in[1];
    mica_array zero = mica_scalar(s, 0, mica_array_dtype(dy)), kept = mica_equal(s, x, y);
    if (n->wanted[0]) dx[0] = mica_where(s, kept, dy, zero);
    if (!n->wanted[1]) return;
    mica_array loses =
        mica_logical_or(s, gather_at(n, kept), mica_not_equal(s, u, gather_at(n, y)));
    mica_array none = mica_scalar(s, UINT32_MAX, MICA_U32);
    mica_array number = mica_where(s, loses, none, numbers(s, u));
    mica_array first = numbers_written(n, number, UINT32_MAX, MICA_SCATTER_MINIMUM);
    dx[1] = mica_where(s, loses, zero, mc_where_stayed(s, first, number, gather_at(n, dy)));
}

static bool scatter_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    switch ((mica_scatter_mode)((const mc_attr_scatter *)n->attr)->mode) {
    case MICA_SCATTER_SET:
        set_vjp(n, *dy, dx);
        break;
    case MICA_SCATTER_ADD:
        dx[0] = *dy;
        if (n->wanted[1]) dx[1] = gather_at(n, *dy);
        break;
    case MICA_SCATTER_MULTIPLY:
        multiply_vjp(n, *dy, dx);
        break;
    case MICA_SCATTER_MAXIMUM:
    case MICA_SCATTER_MINIMUM:
        extreme_vjp(n, *dy, dx);
        break;
    }
    return true;
}

/* Where a result is no sum, its tangent is what the vjp is the transpose of: each element of x and
 * of the updates with the same derivative. */
static bool scatter_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    mica_scope *s = n->s;
    int64_t mode = ((const mc_attr_scatter *)n->attr)->mode;
    if (mode == MICA_SCATTER_SET || mode == MICA_SCATTER_ADD) return mc_linear_jvp(n, dx, dy);
    const bool both[2 + MICA_MAX_NDIM] = {true, true};
    mc_gradient_node all = *n;
    all.wanted = both;
    mica_array slopes[2 + MICA_MAX_NDIM] = {MICA_NONE};
    mica_array ones = mica_ones(s, mica_array_shape(n->in[0]), mica_array_ndim(n->in[0]), MICA_F32);
    scatter_vjp(&all, &ones, slopes);
    if (dx[0].scope) *dy = mica_multiply(s, mc_wide(s, dx[0]), slopes[0]);
    if (!dx[1].scope) return true;
    mica_array base =
        dy->scope ? *dy
                  : mica_zeros(s, mica_array_shape(n->in[0]), mica_array_ndim(n->in[0]), MICA_F32);
    mica_array updates = mica_multiply(s, mc_wide(s, dx[1]), slopes[1]);
    *dy = scatter_like(n, base, updates, MICA_SCATTER_ADD);
    return true;
}
MC_GRADIENT(scatter, scatter_vjp, scatter_jvp);

mica_array mica_scatter(mica_scope *s, mica_array x, const mica_array *indices, int n,
                        const int *axes, mica_array updates, mica_scatter_mode mode) {
    mica_array in[2 + MICA_MAX_NDIM] = {x, updates};
    if (!mc_operands_ok(s, "scatter", in, 2)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    mc_attr_scatter attr = {.n = n, .mode = mode};
    if (!prepare_indices(s, "scatter", l, indices, n, axes, in + 2, attr.axes))
        return mc_invalid(s);
    in[1] = mc_cast(s, updates, l->dtype);
    return mc_record(s, MC_OP_SCATTER, &attr, in, 2 + n);
}
