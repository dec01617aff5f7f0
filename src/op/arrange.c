/* Joining and rearranging: concatenate, and ops composed of it and of views. */
#include <mica/ops.h>

#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/gradient.h"

/* ---- concatenate ---- */

static mica_status concatenate_infer(const void *attr, const mc_layout *const *in, int n_in,
                                     mc_layout *out) {
    const mc_attr_axis *at = attr;
    MC_TRY(mc_check_axis("concatenate", in[0], at->axis));
    int axis = (int)at->axis;
    int64_t shape[MICA_MAX_NDIM] = {0};
    memcpy(shape, in[0]->shape, (size_t)in[0]->ndim * sizeof *shape);
    for (int i = 1; i < n_in; i++) {
        bool fits = in[i]->ndim == in[0]->ndim && in[i]->dtype == in[0]->dtype;
        for (int k = 0; fits && k < in[0]->ndim; k++)
            fits = k == axis || in[i]->shape[k] == in[0]->shape[k];
        char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
        if (!fits)
            return mc_fail(MICA_ESHAPE,
                           "concatenate: %s and %s (operands 0 and %d) differ beside axis %d",
                           mc_layout_text(in[0], a), mc_layout_text(in[i], b), i, axis);
        if (!mc_dim_add_to(&shape[axis], in[i]->shape[axis]))
            return mc_fail(MICA_EINVAL, "concatenate: axis %d overflows", axis);
    }
    return mc_set_result("concatenate", out, in[0]->dtype, shape, in[0]->ndim);
}

MC_OP(concatenate, 1, INT_MAX, .variadic = true, MC_ATTR(axis), .infer = concatenate_infer);

static bool concatenate_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    int axis = (int)((const mc_attr_axis *)n->attr)->axis;
    int64_t begin = 0;
    for (int i = 0; i < n->n_in; i++) {
        int64_t end = mc_dim_add(begin, mica_array_dim(n->in[i], axis));
        if (n->wanted[i]) dx[i] = mica_slice_axis(n->s, *dy, axis, begin, end);
        begin = end;
    }
    return true;
}
MC_GRADIENT(concatenate, concatenate_vjp, mc_linear_jvp);

mica_array mica_concatenate(mica_scope *s, const mica_array *xs, int n, int axis) {
    if (n < 1 || !xs) return mc_scope_fail(s, MICA_EINVAL, "concatenate: of no array");
    if (!mc_operands_ok(s, "concatenate", xs, n)) return mc_invalid(s);
    int at;
    if (!mc_find_axis(s, "concatenate", mc_layout_of(xs[0]), axis, &at)) return mc_invalid(s);
    if (n == 1) return xs[0];
    mica_dtype dtype = mica_array_dtype(xs[0]);
    for (int i = 1; i < n; i++)
        dtype = mica_dtype_promote(dtype, mica_array_dtype(xs[i]));
    mica_array *cast = mc_array_alloc((size_t)n, sizeof *cast);
    if (!cast) return mc_fail_in(s, mc_fail_nomem("concatenate"));
    for (int i = 0; i < n; i++)
        cast[i] = mc_cast(s, xs[i], dtype);
    mica_array y = mc_record(s, MC_OP_CONCATENATE, &(mc_attr_axis){at}, cast, n);
    mc_free(cast);
    return y;
}

mica_array mica_stack(mica_scope *s, const mica_array *xs, int n, int axis) {
    if (n < 1 || !xs) return mc_scope_fail(s, MICA_EINVAL, "stack: of no array");
    if (!mc_operands_ok(s, "stack", xs, n)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(xs[0]);
    char text[MC_LAYOUT_TEXT];
    if (axis < -l->ndim - 1 || axis > l->ndim)
        return mc_scope_fail(s, MICA_EINVAL, "stack: a new axis %d in %s", axis,
                             mc_layout_text(l, text));
    mica_array *wide = mc_array_alloc((size_t)n, sizeof *wide);
    if (!wide) return mc_fail_in(s, mc_fail_nomem("stack"));
    for (int i = 0; i < n; i++)
        wide[i] = mica_expand_dims(s, xs[i], axis);
    /* Counted in the result's axes, so that a negative axis means the same one. */
    mica_array y = mica_concatenate(s, wide, n, axis);
    mc_free(wide);
    return y;
}

mica_status mica_split(mica_scope *s, mica_array x, const int64_t *indices, int n, int axis,
                       mica_array *pieces) {
    if (n < 0 || !pieces || (n > 0 && !indices)) {
        mc_scope_fail(s, MICA_EINVAL, "split: at %d indices", n);
        return mica_scope_status(s);
    }
    for (int i = 0; i <= n; i++)
        pieces[i] = mica_slice_axis(s, x, axis, i == 0 ? 0 : indices[i - 1],
                                    i == n ? MICA_END_OF_AXIS : indices[i]);
    return mica_scope_status(s);
}

/* ---- padding ---- */

/* The shape of x with before[k] + after[k] more elements along axis k. */
static mica_status padded_shape(const mc_layout *l, const int64_t *before, const int64_t *after,
                                int64_t shape[MICA_MAX_NDIM]) {
    if (l->ndim > 0 && (!before || !after)) return mc_fail(MICA_EINVAL, "pad: the widths are NULL");
    for (int k = 0; k < l->ndim; k++) {
        if (mc_dim_sign(before[k]) < 0 || mc_dim_sign(after[k]) < 0)
            return mc_fail(MICA_EINVAL, "pad: %lld and %lld elements along axis %d",
                           (long long)before[k], (long long)after[k], k);
        shape[k] = l->shape[k];
        if (!mc_dim_add_to(&shape[k], before[k]) || !mc_dim_add_to(&shape[k], after[k]))
            return mc_fail(MICA_EINVAL, "pad: axis %d overflows", k);
    }
    return MICA_OK;
}

mica_array mica_pad(mica_scope *s, mica_array x, const int64_t *before, const int64_t *after,
                    mica_array value) {
    mica_array operands[] = {x, value};
    if (!mc_operands_ok(s, "pad", operands, 2)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    int64_t shape[MICA_MAX_NDIM] = {0}, stop[MICA_MAX_NDIM] = {0};
    mica_status status = padded_shape(l, before, after, shape);
    if (status != MICA_OK) return mc_fail_in(s, status);
    for (int k = 0; k < l->ndim; k++)
        stop[k] = mc_dim_add(before[k], l->shape[k]);
    mica_array frame = mc_broadcast(s, mc_cast(s, value, l->dtype), shape, l->ndim);
    return mica_slice_update(s, frame, x, before, stop, NULL);
}

/* The element at `start` of an axis, n times. */
static mica_array edge(mica_scope *s, mica_array x, int axis, int64_t start, int64_t n) {
    mica_array one = mica_slice_axis(s, x, axis, start, mc_dim_add(start, 1));
    if (!mica_valid(one)) return mc_invalid(s);
    int64_t shape[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(one);
    memcpy(shape, mica_array_shape(one), (size_t)ndim * sizeof *shape);
    shape[axis] = n;
    return mc_broadcast(s, one, shape, ndim);
}

mica_array mica_pad_edge(mica_scope *s, mica_array x, const int64_t *before, const int64_t *after) {
    if (!mc_operands_ok(s, "pad_edge", &x, 1)) return mc_invalid(s);
    mc_layout l = *mc_layout_of(x);
    int64_t shape[MICA_MAX_NDIM];
    mica_status status = padded_shape(&l, before, after, shape);
    if (status != MICA_OK) return mc_fail_in(s, status);
    for (int k = 0; k < l.ndim; k++) {
        if (shape[k] == l.shape[k]) continue;
        if (l.shape[k] == 0)
            return mc_scope_fail(s, MICA_EINVAL, "pad_edge: axis %d is empty and has no edge", k);
        mica_array parts[] = {edge(s, x, k, 0, before[k]), x,
                              edge(s, x, k, mc_dim_sub(l.shape[k], 1), after[k])};
        x = mica_concatenate(s, parts, 3, k);
    }
    return x;
}

/* ---- repeating and rolling ---- */

/* x reshaped to [rows, 1, block], repeated n times along the middle axis, reshaped to `shape`. */
static mica_array repeat_blocks(mica_scope *s, mica_array x, int64_t rows, int64_t block, int64_t n,
                                const int64_t *shape, int ndim) {
    int64_t narrow[] = {rows, 1, block}, wide[] = {rows, n, block};
    return mica_reshape(s, mc_broadcast(s, mica_reshape(s, x, narrow, 3), wide, 3), shape, ndim);
}

/* Product of the lengths of the axes begin to end - 1. */
static int64_t span(const int64_t *shape, int begin, int end) {
    int64_t n = 1;
    for (int k = begin; k < end; k++)
        n = mc_dim_mul(n, shape[k]);
    return n;
}

/* shape[k] *= n, checked. */
static bool scale_length(int64_t *length, int64_t n) {
    return n >= 0 && mc_dim_mul_to(length, n);
}

mica_array mica_repeat(mica_scope *s, mica_array x, int64_t n, int axis) {
    if (!mc_operands_ok(s, "repeat", &x, 1)) return mc_invalid(s);
    mc_layout l = *mc_layout_of(x);
    int at;
    if (!mc_find_axis(s, "repeat", &l, axis, &at)) return mc_invalid(s);
    int64_t rows = span(l.shape, 0, at + 1), block = span(l.shape, at + 1, l.ndim);
    if (!scale_length(&l.shape[at], n))
        return mc_scope_fail(s, MICA_EINVAL, "repeat: %lld times", (long long)n);
    return n == 1 ? x : repeat_blocks(s, x, rows, block, n, l.shape, l.ndim);
}

mica_array mica_tile(mica_scope *s, mica_array x, const int64_t *reps, int n_reps) {
    if (!mc_operands_ok(s, "tile", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    int ndim = n_reps > l->ndim ? n_reps : l->ndim;
    if (n_reps < 0 || n_reps > MICA_MAX_NDIM || (n_reps > 0 && !reps))
        return mc_scope_fail(s, MICA_EINVAL, "tile: %d numbers of repetitions", n_reps);
    int64_t shape[MICA_MAX_NDIM];
    for (int k = 0; k < ndim; k++)
        shape[k] = k < ndim - l->ndim ? 1 : l->shape[k - (ndim - l->ndim)];
    x = mica_reshape(s, x, shape, ndim);
    for (int k = ndim - 1; k >= ndim - n_reps; k--) {
        int64_t n = reps[k - (ndim - n_reps)];
        int64_t rows = span(shape, 0, k), block = span(shape, k, ndim);
        if (!scale_length(&shape[k], n))
            return mc_scope_fail(s, MICA_EINVAL, "tile: %lld times along axis %d", (long long)n, k);
        if (n != 1) x = repeat_blocks(s, x, rows, block, n, shape, ndim);
        if (!mica_valid(x)) return mc_invalid(s); /* the shape may overflow from here on */
    }
    return x;
}

mica_array mica_roll(mica_scope *s, mica_array x, int64_t shift, int axis) {
    if (!mc_operands_ok(s, "roll", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    int at;
    if (!mc_find_axis(s, "roll", l, axis, &at)) return mc_invalid(s);
    int64_t n = l->shape[at];
    bool fixed = mc_dim_numbers(n, shift);
    if (n == 0 || (fixed ? shift % n : shift) == 0) return x;
    /* the element that comes first; a symbol is taken as longer than the shift */
    int64_t cut = fixed                    ? n - (shift % n + n) % n
                  : mc_dim_sign(shift) < 0 ? mc_dim_sub(0, shift)
                                           : mc_dim_sub(n, shift);
    mica_array parts[] = {mica_slice_axis(s, x, at, cut, MICA_END_OF_AXIS),
                          mica_slice_axis(s, x, at, 0, cut)};
    return mica_concatenate(s, parts, 2, at);
}

mica_array mica_flip(mica_scope *s, mica_array x, int axis) {
    if (!mc_operands_ok(s, "flip", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    int at;
    if (!mc_find_axis(s, "flip", l, axis, &at)) return mc_invalid(s);
    int64_t step[MICA_MAX_NDIM];
    for (int k = 0; k < l->ndim; k++)
        step[k] = k == at ? -1 : 1;
    return mica_slice(s, x, NULL, NULL, step);
}

/* ---- triangles and diagonals ---- */

/* Keeps the elements of the last two axes where column - row <= k (lower) or >= k. */
static mica_array triangle(mica_scope *s, const char *op, mica_array x, int64_t k, bool lower) {
    if (!mc_operands_ok(s, op, &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    char text[MC_LAYOUT_TEXT];
    if (l->ndim < 2)
        return mc_scope_fail(s, MICA_ESHAPE, "%s: %s has no two axes", op, mc_layout_text(l, text));
    int64_t rows = l->shape[l->ndim - 2], columns = l->shape[l->ndim - 1];
    mica_dtype dtype = l->dtype;
    int64_t far = mc_dim_add(rows, columns); /* a greater k makes no difference */
    k = mc_dim_at_most(mc_dim_at_least(k, mc_dim_sub(0, far)), far);
    mica_array row =
        mica_expand_dims(s, mica_arange(s, (double)k, (double)mc_dim_add(k, rows), 1.0, MICA_I64),
                         1);                                                 /* [rows, 1] */
    mica_array column = mica_arange(s, 0.0, (double)columns, 1.0, MICA_I64); /* [columns] */
    mica_array kept = lower ? mica_less_equal(s, column, row) : mica_greater_equal(s, column, row);
    return mica_where(s, kept, x, mica_scalar(s, 0.0, dtype));
}

mica_array mica_tril(mica_scope *s, mica_array x, int64_t k) {
    return triangle(s, "tril", x, k, true);
}

mica_array mica_triu(mica_scope *s, mica_array x, int64_t k) {
    return triangle(s, "triu", x, k, false);
}

/* Max distance of a diagonal: a square of that side fits no memory, and smaller sizes do not
 * overflow. */
#define MAX_DIAGONAL ((int64_t)1 << 30)

mica_array mica_diag(mica_scope *s, mica_array x, int64_t k) {
    if (!mc_operands_ok(s, "diag", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    if (l->ndim == 2) return mica_diagonal(s, x, k, 0, 1);
    char text[MC_LAYOUT_TEXT];
    if (l->ndim != 1)
        return mc_scope_fail(s, MICA_ESHAPE, "diag: %s has neither one axis nor two",
                             mc_layout_text(l, text));
    int64_t n = l->shape[0];
    if (k < -MAX_DIAGONAL || k > MAX_DIAGONAL || mc_dim_less(MAX_DIAGONAL, n))
        return mc_scope_fail(s, MICA_EINVAL, "diag: %lld elements on diagonal %lld: at most %lld",
                             (long long)n, (long long)k, (long long)MAX_DIAGONAL);
    /* In the flattened square the diagonal is every (side + 1)-th element. */
    int64_t offset = k < 0 ? -k : k, side = mc_dim_add(n, offset);
    int64_t flat = mc_dim_mul(side, side), step = mc_dim_add(side, 1);
    int64_t start = k < 0 ? mc_dim_mul(offset, side) : offset;
    int64_t stop = mc_dim_sub(mc_dim_add(start, mc_dim_mul(n, step)), side);
    int64_t square[] = {side, side};
    if (n == 0) stop = start;
    mica_array zeros = mica_zeros(s, &flat, 1, l->dtype);
    return mica_reshape(s, mica_slice_update(s, zeros, x, &start, &stop, &step), square, 2);
}

mica_array mica_diagonal(mica_scope *s, mica_array x, int64_t k, int axis1, int axis2) {
    if (!mc_operands_ok(s, "diagonal", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    int first, second, axes[MICA_MAX_NDIM];
    if (!mc_find_axis(s, "diagonal", l, axis1, &first) ||
        !mc_find_axis(s, "diagonal", l, axis2, &second))
        return mc_invalid(s);
    if (first == second)
        return mc_scope_fail(s, MICA_EINVAL, "diagonal: axis %d is listed twice", first);
    int n = 0;
    for (int a = 0; a < l->ndim; a++)
        if (a != first && a != second) axes[n++] = a;
    axes[n] = first;
    axes[n + 1] = second;
    int64_t rows = l->shape[first], columns = l->shape[second];
    int64_t row = k < 0 ? mc_dim_at_most(k == INT64_MIN ? INT64_MAX : -k, rows) : 0;
    int64_t column = k < 0 ? 0 : mc_dim_at_most(k, columns);
    int64_t side = mc_dim_at_most(mc_dim_sub(rows, row), mc_dim_sub(columns, column));
    x = mica_transpose(s, x, axes);
    x = mica_slice_axis(s, x, -2, row, mc_dim_add(row, side));
    x = mica_slice_axis(s, x, -1, column, mc_dim_add(column, side));
    /* In each flattened square, every (side + 1)-th element. */
    x = mica_flatten(s, x, -2, -1);
    int64_t step[MICA_MAX_NDIM];
    for (int a = 0; a < n; a++)
        step[a] = 1;
    step[n] = mc_dim_add(side, 1);
    return mica_slice(s, x, NULL, NULL, step);
}
