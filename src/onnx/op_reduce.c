/* Operators over axes: reductions, softmax, running sums, order, products of matrices. */
#include "onnx/import.h"

#include "graph/dim.h"
#include "op/require.h"

#include <mica/nn.h>
#include <mica/ops.h>

#include <math.h>
#include <string.h>

/* ---- reductions ---- */

/* Where an axis without elements is reduced: the neutral element, which mica has no maximum of. */
static mica_array neutral(mc_onnx_node *n, mica_array x, const int *axes, int count, bool keepdims,
                          double value) {
    mica_array y = mica_sum(n->s, x, axes, count, keepdims);
    y = mica_astype(n->s, y, mica_array_dtype(x));
    if (mica_array_dtype(x) == MICA_BOOL) value = value > 0;
    return mica_full(n->s, mica_array_shape(y), mica_array_ndim(y),
                     mica_scalar(n->s, value, mica_array_dtype(x)));
}

static mica_status reduce_by(mc_onnx_node *n, mica_array x, mc_onnx_reduction f, mica_array *y) {
    int axes[MICA_MAX_NDIM], count, ndim = mica_array_ndim(x);
    bool keepdims = mc_onnx_int(n, "keepdims", 1) != 0;
    MC_TRY(mc_onnx_axes(n, 1, ndim, axes, &count));
    *y = x;
    if (count <= 0 && mc_onnx_int(n, "noop_with_empty_axes", 0)) return MICA_OK;
    if (ndim == 0) return MICA_OK;
    for (int i = 0; count <= 0 && i < ndim; i++)
        axes[i] = i;
    if (count <= 0) count = ndim;
    bool extreme = f == mica_max || f == mica_min;
    if (extreme && mica_array_size(x) == 0)
        *y = neutral(n, x, axes, count, keepdims, f == mica_max ? -INFINITY : INFINITY);
    else
        *y = f(n->s, x, axes, count, keepdims);
    return MICA_OK;
}

/* before, then f over the axes, then after; each may be NULL. The result has x's dtype. */
static mica_status reduce(mc_onnx_node *n, mc_onnx_unary before, mc_onnx_reduction f,
                          mc_onnx_unary after) {
    mica_array x = n->in[0].x, y;
    mica_dtype dtype = mica_array_dtype(x);
    if (before) x = before(n->s, x);
    MC_TRY(reduce_by(n, x, f, &y));
    if (after) y = after(n->s, y);
    return mc_onnx_give(n, 0, mica_astype(n->s, y, dtype));
}

mica_status mc_onnx_reduce_sum(mc_onnx_node *n) {
    return reduce(n, NULL, mica_sum, NULL);
}
mica_status mc_onnx_reduce_prod(mc_onnx_node *n) {
    return reduce(n, NULL, mica_prod, NULL);
}
mica_status mc_onnx_reduce_max(mc_onnx_node *n) {
    return reduce(n, NULL, mica_max, NULL);
}
mica_status mc_onnx_reduce_min(mc_onnx_node *n) {
    return reduce(n, NULL, mica_min, NULL);
}
mica_status mc_onnx_reduce_mean(mc_onnx_node *n) {
    return reduce(n, NULL, mica_mean, NULL);
}
mica_status mc_onnx_reduce_l1(mc_onnx_node *n) {
    return reduce(n, mica_abs, mica_sum, NULL);
}
mica_status mc_onnx_reduce_l2(mc_onnx_node *n) {
    return reduce(n, mica_square, mica_sum, mica_sqrt);
}
mica_status mc_onnx_reduce_log_sum(mc_onnx_node *n) {
    return reduce(n, NULL, mica_sum, mica_log);
}
mica_status mc_onnx_reduce_sum_square(mc_onnx_node *n) {
    return reduce(n, mica_square, mica_sum, NULL);
}
mica_status mc_onnx_reduce_log_sum_exp(mc_onnx_node *n) {
    if (mica_array_size(n->in[0].x) == 0) return reduce(n, mica_exp, mica_sum, mica_log);
    return reduce(n, NULL, mica_logsumexp, NULL);
}

static mica_status arg(mc_onnx_node *n, bool largest) {
    mica_array x = n->in[0].x;
    int axis;
    bool keepdims = mc_onnx_int(n, "keepdims", 1) != 0;
    bool last = mc_onnx_int(n, "select_last_index", 0) != 0;
    MC_TRY(mc_onnx_axis(n, 0, mica_array_ndim(x), &axis));
    if (last) x = mica_flip(n->s, x, axis);
    mica_array y =
        largest ? mica_argmax(n->s, x, axis, keepdims) : mica_argmin(n->s, x, axis, keepdims);
    y = mica_astype(n->s, y, MICA_I64);
    double end = (double)mc_dim_sub(mica_array_dim(x, axis), 1);
    if (last) y = mica_subtract(n->s, mica_scalar(n->s, end, MICA_I64), y);
    return mc_onnx_give(n, 0, y);
}

mica_status mc_onnx_argmax(mc_onnx_node *n) {
    return arg(n, true);
}
mica_status mc_onnx_argmin(mc_onnx_node *n) {
    return arg(n, false);
}

/* ---- softmax ---- */

enum { MATRIX_OPSET = 13 }; /* before it softmax went over all axes from one on */

/* The operand and the axis: before opset 13 as a matrix, whose rows are from the axis on. */
static mica_status find_rows(mc_onnx_node *n, mica_array *x, int *axis) {
    int64_t shape[] = {1, 1};
    bool matrix = n->import->opset < MATRIX_OPSET;
    *x = n->in[0].x;
    int ndim = mica_array_ndim(*x);
    MC_TRY(mc_onnx_axis(n, matrix ? 1 : -1, ndim, axis));
    if (!matrix || *axis == ndim - 1) return MICA_OK;
    for (int k = 0; k < ndim; k++)
        if (!mc_dim_mul_to(&shape[k >= *axis], mica_array_dim(*x, k)))
            return mc_fail(MICA_ESHAPE, "its shape is out of range");
    *x = mica_reshape(n->s, *x, shape, 2);
    *axis = 1;
    return MICA_OK;
}

/* Gives what find_rows was asked for the rows of, in the operand's shape. */
static mica_status give_rows(mc_onnx_node *n, mica_array y) {
    mica_array x = n->in[0].x;
    return mc_onnx_give(n, 0, mica_reshape(n->s, y, mica_array_shape(x), mica_array_ndim(x)));
}

mica_status mc_onnx_softmax(mc_onnx_node *n) {
    mica_array x;
    int axis;
    MC_TRY(find_rows(n, &x, &axis));
    return give_rows(n, mica_softmax(n->s, x, axis));
}

mica_status mc_onnx_log_softmax(mc_onnx_node *n) {
    mica_array x;
    int axis;
    MC_TRY(find_rows(n, &x, &axis));
    return give_rows(n, mica_subtract(n->s, x, mica_logsumexp(n->s, x, &axis, 1, true)));
}

mica_status mc_onnx_hardmax(mc_onnx_node *n) {
    mica_array x;
    int axis, ndim;
    MC_TRY(find_rows(n, &x, &axis));
    ndim = mica_array_ndim(x);
    mica_array places = mica_arange(n->s, 0, (double)mica_array_dim(x, axis), 1, MICA_U32);
    places = mc_onnx_along(n->s, places, axis, ndim);
    mica_array y = mica_equal(n->s, places, mica_argmax(n->s, x, axis, true));
    return give_rows(n, mica_astype(n->s, y, mica_array_dtype(x)));
}

/* ---- running sums, order ---- */

typedef mica_array (*running)(mica_scope *s, mica_array x, int axis, bool reverse, bool inclusive);

static mica_status accumulate(mc_onnx_node *n, running f) {
    int64_t axis;
    int count;
    mica_array x = n->in[0].x;
    MC_TRY(mc_onnx_operand_ints(n, 1, 1, &axis, &count));
    if (count != 1 || axis < -mica_array_ndim(x) || axis >= mica_array_ndim(x))
        return mc_fail(MICA_EFORMAT, "there is no such axis");
    mica_array y = f(n->s, x, (int)axis, mc_onnx_int(n, "reverse", 0) != 0,
                     mc_onnx_int(n, "exclusive", 0) == 0);
    return mc_onnx_give(n, 0, mica_astype(n->s, y, mica_array_dtype(x)));
}

mica_status mc_onnx_cumsum(mc_onnx_node *n) {
    return accumulate(n, mica_cumsum);
}
mica_status mc_onnx_cumprod(mc_onnx_node *n) {
    return accumulate(n, mica_cumprod);
}

/* What is beyond a count comes last. */
static mica_status put_last(mc_onnx_node *n, int axis, bool largest, mica_array *x) {
    if (!n->in[0].bound) return MICA_OK;
    if (n->in[0].bound->axis != axis || !mica_dtype_is_float(mica_array_dtype(*x)))
        return mc_onnx_refuse("the order of what depends on values along another axis");
    mica_array there = mc_onnx_count_mask(n->s, *x, n->in[0].bound);
    mica_array none = mica_scalar(n->s, largest ? -INFINITY : INFINITY, mica_array_dtype(*x));
    *x = mica_where(n->s, there, *x, none);
    return mica_scope_status(n->s);
}

/* Of k that a run says, or of what a run counts: all in order, and how many of them there are. */
static mica_status give_counted_topk(mc_onnx_node *n, int axis, bool largest) {
    mica_array x = n->in[0].x, order, count;
    mica_array length = mica_scalar(n->s, (double)mica_array_dim(x, axis), MICA_I64);
    count = mica_astype(n->s, mica_reshape(n->s, n->in[1].x, NULL, 0), MICA_I64);
    if (n->in[0].bound) length = n->in[0].bound->count;
    mica_array fits = mica_greater_equal(n->s, count, mica_scalar(n->s, 0, MICA_I64));
    fits = mica_logical_and(n->s, fits, mica_less_equal(n->s, count, length));
    count = mc_require(n->s, count, fits, MC_REQUIRE_TOPK);
    MC_TRY(put_last(n, axis, largest, &x));
    order = mica_argsort(n->s, largest ? mica_negative(n->s, x) : x, axis);
    mica_array y = mica_take_along_axis(n->s, n->in[0].x, order, axis);
    MC_TRY(mc_onnx_give_counted(n, 0, y, axis, count));
    return mc_onnx_give_counted(n, 1, mica_astype(n->s, order, MICA_I64), axis, count);
}

mica_status mc_onnx_topk(mc_onnx_node *n) {
    int64_t k;
    int count, axis;
    mica_array x = n->in[0].x, indices, y;
    bool largest = mc_onnx_int(n, "largest", 1) != 0;
    MC_TRY(mc_onnx_axis(n, -1, mica_array_ndim(x), &axis));
    bool open = mc_onnx_has(n, 1) && (!(n->in[1].known || n->in[1].lengths) || n->in[0].bound);
    if (open && mica_dtype_is_signed(mica_array_dtype(x)))
        return give_counted_topk(n, axis, largest);
    MC_TRY(mc_onnx_operand_dims(n, 1, 1, &k, &count));
    if (count < 0) { /* an attribute before opset 10 */
        k = mc_onnx_int(n, "k", -1);
        count = mc_onnx_attr(n, "k") != NULL;
    }
    if (count != 1) return mc_fail(MICA_EFORMAT, "k is not one number");
    if (largest) {
        y = mica_topk_indices(n->s, x, k, axis, &indices);
    } else {
        if (k < 0 || mc_dim_less(mica_array_dim(x, axis), k))
            return mc_fail(MICA_EFORMAT, "k is %lld of %lld", (long long)k,
                           (long long)mica_array_dim(x, axis));
        indices = mica_slice_axis(n->s, mica_argsort(n->s, x, axis), axis, 0, k);
        y = mica_take_along_axis(n->s, x, indices, axis);
    }
    MC_TRY(mc_onnx_give(n, 0, y));
    return mc_onnx_give(n, 1, mica_astype(n->s, indices, MICA_I64));
}

/* ---- products of matrices ---- */

static mica_array transposed(mica_scope *s, mica_array w, int64_t kind) {
    (void)kind;
    return mica_transpose(s, w, NULL);
}

/* A known matrix on the right, such as a layer's weights, in memory as its transpose: rows of it
 * are what the product's kernel reads. */
static mica_status turn_weights(mc_onnx_node *n, mica_array *w) {
    mica_array rows;
    if (!n->in[1].known || n->in[0].known || mica_array_ndim(*w) != 2) return MICA_OK;
    MC_TRY(mc_onnx_formed(n, 1, MC_ONNX_TRANSPOSED, transposed, &rows));
    *w = mica_transpose(n->s, rows, NULL);
    return MICA_OK;
}

mica_status mc_onnx_matmul(mc_onnx_node *n) {
    mica_array a = n->in[0].x, b = n->in[1].x;
    mica_dtype dtype = mica_array_dtype(a);
    bool done = false;
    if (!mica_dtype_is_float(dtype)) return mc_onnx_refuse("products of integers");
    MC_TRY(mc_onnx_steps_matmul(n, false, 0, &done));
    if (!done) MC_TRY(mc_onnx_packed_matmul(n, false, 0, &done));
    if (done) return MICA_OK;
    MC_TRY(turn_weights(n, &b));
    return mc_onnx_give(n, 0, mica_matmul(n->s, a, b));
}

static mica_array scaled(mc_onnx_node *n, mica_array x, const char *name) {
    double factor = mc_onnx_real(n, name, 1);
    if (factor == 1) return x;
    return mica_multiply(n->s, x, mica_scalar(n->s, factor, mica_array_dtype(x)));
}

mica_status mc_onnx_gemm(mc_onnx_node *n) {
    mica_array a = n->in[0].x, b = n->in[1].x;
    if (mica_array_ndim(a) != 2 || mica_array_ndim(b) != 2)
        return mc_fail(MICA_ESHAPE, "an operand is no matrix");
    bool plain = mc_onnx_int(n, "transA", 0) == 0 && mc_onnx_real(n, "alpha", 1) == 1, done = false;
    if (plain && (!mc_onnx_has(n, 2) || mc_onnx_real(n, "beta", 1) == 1))
        MC_TRY(mc_onnx_steps_matmul(n, mc_onnx_int(n, "transB", 0) != 0, 2, &done));
    if (plain && !done && (!mc_onnx_has(n, 2) || mc_onnx_real(n, "beta", 1) == 1))
        MC_TRY(mc_onnx_packed_matmul(n, mc_onnx_int(n, "transB", 0) != 0, 2, &done));
    if (done) return MICA_OK;
    if (mc_onnx_int(n, "transA", 0)) a = mica_transpose(n->s, a, NULL);
    if (mc_onnx_int(n, "transB", 0)) b = mica_transpose(n->s, b, NULL);
    mica_array y = scaled(n, mica_matmul(n->s, a, b), "alpha");
    if (mc_onnx_has(n, 2)) y = mica_add(n->s, y, scaled(n, n->in[2].x, "beta"));
    return mc_onnx_give(n, 0, y);
}

enum { MAX_EQUATION = 256, MAX_EINSUM = 16 };

mica_status mc_onnx_einsum(mc_onnx_node *n) {
    mc_str equation = mc_onnx_text(n, "equation", "");
    char text[MAX_EQUATION];
    mica_array xs[MAX_EINSUM];
    if (equation.len >= sizeof text || n->n_in > MAX_EINSUM)
        return mc_onnx_refuse("einsums as long as this");
    memcpy(text, equation.ptr, equation.len);
    text[equation.len] = '\0';
    for (size_t i = 0; i < n->n_in; i++)
        xs[i] = mc_onnx_x(n, i);
    return mc_onnx_give(n, 0, mica_einsum(n->s, text, xs, (int)n->n_in));
}
