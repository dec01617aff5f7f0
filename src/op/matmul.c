#include <mica/ops.h>

#include <string.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/gradient.h"
#include "op/matmul.h"
#include "op/work.h"

/* Sets the leading axes of out to the batch shape that a and b broadcast to. */
static mica_status batch_shape(const mc_layout *a, const mc_layout *b, mc_layout *out) {
    mc_layout x = *a, y = *b;
    x.ndim -= 2;
    y.ndim -= 2;
    int64_t shape[MICA_MAX_NDIM];
    int ndim;
    if (mc_broadcast_shapes("matmul", &x, &y, shape, &ndim) != MICA_OK ||
        ndim + 2 > MICA_MAX_NDIM) {
        char text_a[MC_LAYOUT_TEXT], text_b[MC_LAYOUT_TEXT];
        return mc_fail(MICA_ESHAPE, "matmul: %s and %s: the batch axes do not broadcast",
                       mc_layout_text(a, text_a), mc_layout_text(b, text_b));
    }
    int64_t full[MICA_MAX_NDIM];
    memcpy(full, shape, sizeof shape);
    full[ndim] = a->shape[a->ndim - 2];
    full[ndim + 1] = b->shape[b->ndim - 1];
    return mc_set_result("matmul", out, mica_dtype_promote(a->dtype, b->dtype), full, ndim + 2);
}

/* a [..., M, K] b [..., K, N] -> [..., M, N]; batch axes broadcast. */
static mica_status matmul_infer(const void *attr, const mc_layout *const *in, int n_in,
                                mc_layout *out) {
    (void)attr, (void)n_in;
    const mc_layout *a = in[0], *b = in[1];
    char text_a[MC_LAYOUT_TEXT], text_b[MC_LAYOUT_TEXT];
    if (!mica_dtype_is_float(a->dtype) || !mica_dtype_is_float(b->dtype))
        return mc_fail(MICA_EDTYPE, "matmul: %s and %s: convert integers to a float first",
                       mc_layout_text(a, text_a), mc_layout_text(b, text_b));
    if (a->ndim < 2 || b->ndim < 2)
        return mc_fail(MICA_ESHAPE, "matmul: %s and %s: both need two axes or more",
                       mc_layout_text(a, text_a), mc_layout_text(b, text_b));
    int64_t k = a->shape[a->ndim - 1];
    char text_k[2][MC_DIM_TEXT];
    if (k != b->shape[b->ndim - 2])
        return mc_fail(MICA_ESHAPE,
                       "matmul: %s and %s: the last axis of a (%s) and the second last of b (%s) "
                       "differ",
                       mc_layout_text(a, text_a), mc_layout_text(b, text_b),
                       mc_dim_text(k, text_k[0]), mc_dim_text(b->shape[b->ndim - 2], text_k[1]));
    return batch_shape(a, b, out);
}

static MC_WORK_RULE(matmul_work) {
    (void)attr, (void)n_in;
    work->kind = MC_WORK_MATMUL;
    work->operations = 2 * (double)mc_layout_size(out) * (double)in[0]->shape[in[0]->ndim - 1];
}

MC_OP(matmul, 2, 2, MC_ATTR(matmul), .infer = matmul_infer, .work = matmul_work);

static mica_array record_matmul(mica_scope *s, mica_array a, mica_array b, bool fast) {
    mica_array in[2] = {a, b};
    mc_attr_matmul attr = {fast};
    return mc_record(s, MC_OP_MATMUL, &attr, in, 2);
}

/* x [..., M, K] as [rows, K]. */
static mica_array as_rows(mica_scope *s, mica_array x) {
    const int64_t shape[2] = {-1, mica_array_dim(x, -1)};
    return mica_reshape(s, x, shape, 2);
}

/* da = dy b^T, db = a^T dy, summed over batch axes that were broadcast. A matrix b that all of the
 * batch meets gets one matmul over all rows. */
static bool matmul_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    mica_scope *s = n->s;
    const mica_array a = n->in[0], b = n->in[1];
    if (n->wanted[0]) {
        bool fast = ((const mc_attr_matmul *)n->attr)->fast != 0;
        dx[0] = mc_sum_to(s, record_matmul(s, *dy, mica_swapaxes(s, b, -1, -2), fast), a);
    }
    if (!n->wanted[1]) return true;
    mica_array d = *dy, x = a;
    if (mica_array_ndim(b) == 2 && mica_array_dim(a, -1) > 0 && mica_array_dim(d, -1) > 0) {
        x = as_rows(s, a);
        d = as_rows(s, d);
    }
    /* a^T d, or (d^T a)^T: the first operand is copied to be transposed, so it is the narrower. */
    bool turned = mc_dim_less(mica_array_dim(d, -1), mica_array_dim(x, -1));
    mica_array first = turned ? d : x, second = turned ? x : d;
    dx[1] = record_matmul(s, mica_swapaxes(s, first, -1, -2), second, false);
    if (turned) dx[1] = mica_swapaxes(s, dx[1], -1, -2);
    dx[1] = mc_sum_to(s, dx[1], b);
    return true;
}

static bool matmul_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    const mica_array left[2] = {dx[0], n->in[1]}, right[2] = {n->in[0], dx[1]};
    mica_scope *s = n->s;
    if (dx[0].scope) *dy = mc_record(s, MC_OP_MATMUL, n->attr, left, 2);
    if (dx[1].scope) *dy = mc_sum_of(s, *dy, mc_record(s, MC_OP_MATMUL, n->attr, right, 2));
    return true;
}
MC_GRADIENT(matmul, matmul_vjp, matmul_jvp);

mica_array mica_matmul(mica_scope *s, mica_array a, mica_array b) {
    mica_array in[2] = {a, b};
    if (!mc_operands_ok(s, "matmul", in, 2)) return mc_invalid(s);
    int ndim_a = mica_array_ndim(a), ndim_b = mica_array_ndim(b);
    if (ndim_a == 0 || ndim_b == 0)
        return mc_scope_fail(s, MICA_ESHAPE, "matmul: a 0-dimensional operand; use multiply");
    if (ndim_a == 1) in[0] = mica_expand_dims(s, a, 0);
    if (ndim_b == 1) in[1] = mica_expand_dims(s, b, 1);
    mica_array y = record_matmul(s, in[0], in[1], false);
    if (ndim_b == 1) y = mica_squeeze(s, y, -1);
    if (ndim_a == 1) y = mica_squeeze(s, y, ndim_b == 1 ? -1 : -2);
    return y;
}

mica_array mc_matmul_rows(mica_scope *s, mica_array x, mica_array w, bool fast) {
    return record_matmul(s, x, mica_swapaxes(s, w, -1, -2), fast);
}

mica_array mica_addmm(mica_scope *s, mica_array c, mica_array a, mica_array b, float alpha,
                      float beta) {
    mica_array in[3] = {c, a, b};
    if (!mc_operands_ok(s, "addmm", in, 3)) return mc_invalid(s);
    mica_array ab = mica_matmul(s, a, b);
    mica_dtype dtype = mica_array_dtype(ab);
    if (alpha != 1.0f) ab = mica_multiply(s, ab, mica_scalar(s, (double)alpha, dtype));
    if (beta != 1.0f) c = mica_multiply(s, c, mica_scalar(s, (double)beta, mica_array_dtype(c)));
    return mica_add(s, ab, c);
}

mica_array mica_outer(mica_scope *s, mica_array a, mica_array b) {
    mica_array in[2] = {a, b};
    if (!mc_operands_ok(s, "outer", in, 2)) return mc_invalid(s);
    int64_t column[2] = {mica_array_size(a), 1};
    int64_t row[2] = {1, mica_array_size(b)};
    return mica_multiply(s, mica_reshape(s, a, column, 2), mica_reshape(s, b, row, 2));
}

/* The number of elements of the axes first .. end - 1. */
static int64_t count_axes(mica_array x, int first, int end) {
    int64_t count = 1;
    for (int axis = first; axis < end; axis++)
        count = mc_dim_mul(count, mica_array_dim(x, axis));
    return count;
}

/* Sums over the last n axes of a and over axes b_first .. b_first + n - 1 of b, which are b's first
 * or last axes. */
static mica_array contract(mica_scope *s, const char *name, mica_array a, mica_array b, int n,
                           bool b_last) {
    int ndim_a = mica_array_ndim(a), ndim_b = mica_array_ndim(b);
    int kept_a = ndim_a - n, kept_b = ndim_b - n;
    if (n < 0 || kept_a < 0 || kept_b < 0 || kept_a + kept_b > MICA_MAX_NDIM)
        return mc_scope_fail(s, MICA_EINVAL, "%s: %d axes of arrays with %d and %d", name, n,
                             ndim_a, ndim_b);
    int begin_b = b_last ? kept_b : 0;
    int64_t shape[MICA_MAX_NDIM] = {0};
    for (int i = 0; i < n; i++) {
        if (mica_array_dim(a, kept_a + i) == mica_array_dim(b, begin_b + i)) continue;
        char text_a[MC_LAYOUT_TEXT], text_b[MC_LAYOUT_TEXT];
        return mc_scope_fail(s, MICA_ESHAPE, "%s: %s and %s: summed axes differ", name,
                             mc_layout_text(mc_layout_of(a), text_a),
                             mc_layout_text(mc_layout_of(b), text_b));
    }
    for (int i = 0; i < kept_a; i++)
        shape[i] = mica_array_dim(a, i);
    int other_b = b_last ? 0 : n;
    for (int i = 0; i < kept_b; i++)
        shape[kept_a + i] = mica_array_dim(b, other_b + i);
    int64_t k = count_axes(a, kept_a, ndim_a);
    int64_t kept = count_axes(b, other_b, other_b + kept_b);
    int64_t flat_a[2] = {count_axes(a, 0, kept_a), k};
    int64_t flat_b[2] = {b_last ? kept : k, b_last ? k : kept};
    mica_array x = mica_reshape(s, a, flat_a, 2);
    mica_array y = mica_reshape(s, b, flat_b, 2);
    if (b_last) y = mica_transpose(s, y, NULL);
    return mica_reshape(s, mica_matmul(s, x, y), shape, kept_a + kept_b);
}

mica_array mica_inner(mica_scope *s, mica_array a, mica_array b) {
    mica_array in[2] = {a, b};
    if (!mc_operands_ok(s, "inner", in, 2)) return mc_invalid(s);
    if (mica_array_ndim(a) == 0 || mica_array_ndim(b) == 0) return mica_multiply(s, a, b);
    return contract(s, "inner", a, b, 1, true);
}

mica_array mica_tensordot(mica_scope *s, mica_array a, mica_array b, int n) {
    mica_array in[2] = {a, b};
    if (!mc_operands_ok(s, "tensordot", in, 2)) return mc_invalid(s);
    return contract(s, "tensordot", a, b, n, false);
}
