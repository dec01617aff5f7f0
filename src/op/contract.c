/* Products over any axes, as matrix products of views: dot_general, kron. */
#include <mica/ops.h>

#include <string.h>

#include "op/build.h"

/* ---- axes ---- */

/* The axes of an operand in three groups, and their lengths. */
typedef struct side {
    mica_array x;
    int batch[MICA_MAX_NDIM], contract[MICA_MAX_NDIM], free[MICA_MAX_NDIM], n_free;
    int64_t n_rows, n_sum; /* elements of the free axes, of those contracted */
} side;

static bool list_axes(mica_scope *s, const mc_layout *l, const int *axes, int64_t n, bool *listed,
                      int *out) {
    char text[MC_LAYOUT_TEXT];
    if (n < 0 || n > l->ndim || (n > 0 && !axes)) {
        mc_scope_fail(s, MICA_EINVAL, "dot_general: a list of %lld axes of %s", (long long)n,
                      mc_layout_text(l, text));
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (!mc_find_axis(s, "dot_general", l, axes[i], &out[i])) return false;
        if (listed[out[i]]) {
            mc_scope_fail(s, MICA_EINVAL, "dot_general: axis %d of %s is listed twice", out[i],
                          mc_layout_text(l, text));
            return false;
        }
        listed[out[i]] = true;
    }
    return true;
}

static bool side_of(mica_scope *s, mica_array x, const int *batch, int64_t n_batch,
                    const int *contract, int64_t n_contract, side *out) {
    const mc_layout *l = mc_layout_of(x);
    bool listed[MICA_MAX_NDIM] = {false};
    *out = (side){.x = x, .n_rows = 1, .n_sum = 1};
    if (!list_axes(s, l, batch, n_batch, listed, out->batch)) return false;
    if (!list_axes(s, l, contract, n_contract, listed, out->contract)) return false;
    for (int k = 0; k < l->ndim; k++) {
        if (listed[k]) continue;
        out->free[out->n_free++] = k;
        out->n_rows = mc_dim_mul(out->n_rows, l->shape[k]);
    }
    for (int i = 0; i < n_contract; i++)
        out->n_sum = mc_dim_mul(out->n_sum, l->shape[out->contract[i]]);
    return true;
}

static bool check_pairs(mica_scope *s, const side *a, const side *b, const int *a_axes,
                        const int *b_axes, int n) {
    const mc_layout *x = mc_layout_of(a->x), *y = mc_layout_of(b->x);
    char text_x[MC_LAYOUT_TEXT], text_y[MC_LAYOUT_TEXT];
    for (int i = 0; i < n; i++) {
        if (x->shape[a_axes[i]] == y->shape[b_axes[i]]) continue;
        mc_scope_fail(s, MICA_ESHAPE,
                      "dot_general: %s and %s: axis %d of a and axis %d of b have other lengths",
                      mc_layout_text(x, text_x), mc_layout_text(y, text_y), a_axes[i], b_axes[i]);
        return false;
    }
    return true;
}

/* ---- products ---- */

/* A side as [batch, free, contract], or with `turned` as [batch, contract, free], each as one axis;
 * without a batch as a matrix. */
static mica_array as_matrices(mica_scope *s, const side *x, int n_batch, int n_contract,
                              bool turned) {
    int order[MICA_MAX_NDIM], n = 0;
    int64_t shape[3] = {1, x->n_rows, x->n_sum};
    for (int i = 0; i < n_batch; i++) {
        order[n++] = x->batch[i];
        shape[0] = mc_dim_mul(shape[0], mica_array_dim(x->x, x->batch[i]));
    }
    for (int pass = 0; pass < 2; pass++) {
        bool sums = (pass == 1) != turned;
        for (int i = 0; i < (sums ? n_contract : x->n_free); i++)
            order[n++] = sums ? x->contract[i] : x->free[i];
    }
    if (turned) {
        shape[1] = x->n_sum;
        shape[2] = x->n_rows;
    }
    mica_array y = mica_transpose(s, x->x, order);
    return n_batch > 0 ? mica_reshape(s, y, shape, 3) : mica_reshape(s, y, shape + 1, 2);
}

/* [.., M, K] i8 by [.., K, N] i8 in i32. Sums of 1,024 products are exact in f32. */
static mica_array multiply_i8(mica_scope *s, mica_array a, mica_array b) {
    enum { TERMS = 1024 };
    int64_t k = mica_array_dim(a, -1);
    mica_array sum = MICA_NONE;
    if (mc_dim_has_symbols(k)) return mc_need_number(s, "dot_general of i8", k);
    for (int64_t at = 0; at == 0 || at < k; at += TERMS) {
        mica_array x = mica_slice_axis(s, a, -1, at, at + TERMS);
        mica_array y = mica_slice_axis(s, b, -2, at, at + TERMS);
        y = mica_matmul(s, mc_cast(s, x, MICA_F32), mc_cast(s, y, MICA_F32));
        y = mica_astype(s, y, MICA_I32);
        sum = sum.scope ? mica_add(s, sum, y) : y;
        if (!mica_valid(sum)) return sum;
    }
    return sum;
}

/* Without axes to sum: element by element. */
static mica_array multiply(mica_scope *s, const side *a, const side *b, int n_batch) {
    int64_t shape[MICA_MAX_NDIM];
    int order[MICA_MAX_NDIM], n = 0;
    for (int i = 0; i < n_batch; i++)
        order[n++] = a->batch[i];
    for (int i = 0; i < a->n_free; i++)
        order[n++] = a->free[i];
    mica_array x = mica_transpose(s, a->x, order);
    for (int i = 0; i < n; i++)
        shape[i] = mica_array_dim(x, i);
    for (int i = 0; i < b->n_free; i++)
        shape[n + i] = 1;
    x = mica_reshape(s, x, shape, n + b->n_free);
    for (int i = 0; i < n_batch; i++)
        order[i] = b->batch[i];
    for (int i = 0; i < b->n_free; i++)
        order[n_batch + i] = b->free[i];
    mica_array y = mica_transpose(s, b->x, order);
    int64_t wide[MICA_MAX_NDIM];
    for (int i = 0; i < n; i++)
        wide[i] = i < n_batch ? shape[i] : 1;
    for (int i = 0; i < b->n_free; i++)
        wide[n + i] = mica_array_dim(y, n_batch + i);
    return mica_multiply(s, x, mica_reshape(s, y, wide, n + b->n_free));
}

static mica_array product(mica_scope *s, const side *a, const side *b, int n_batch,
                          int n_contract) {
    if (n_contract == 0) return multiply(s, a, b, n_batch);
    mica_array x = as_matrices(s, a, n_batch, n_contract, false);
    mica_array y = as_matrices(s, b, n_batch, n_contract, true);
    mica_array z = mica_array_dtype(a->x) == MICA_I8 ? multiply_i8(s, x, y) : mica_matmul(s, x, y);
    int64_t shape[MICA_MAX_NDIM];
    int n = 0;
    for (int i = 0; i < n_batch; i++)
        shape[n++] = mica_array_dim(a->x, a->batch[i]);
    for (int i = 0; i < a->n_free; i++)
        shape[n++] = mica_array_dim(a->x, a->free[i]);
    for (int i = 0; i < b->n_free; i++)
        shape[n++] = mica_array_dim(b->x, b->free[i]);
    return mica_reshape(s, z, shape, n);
}

/* Floats become of one dtype; two i8 stay, without sums as i32. */
static bool convert(mica_scope *s, mica_array *a, mica_array *b, bool outer) {
    mica_dtype x = mica_array_dtype(*a), y = mica_array_dtype(*b);
    char text_a[MC_LAYOUT_TEXT], text_b[MC_LAYOUT_TEXT];
    if (x == MICA_I8 && y == MICA_I8) {
        if (outer) *a = mica_astype(s, *a, MICA_I32);
        return mica_valid(*a);
    }
    if (mica_dtype_is_float(x) && mica_dtype_is_float(y)) return true;
    mc_scope_fail(s, MICA_EDTYPE, "dot_general: %s and %s: floats, or two i8, are possible",
                  mc_layout_text(mc_layout_of(*a), text_a),
                  mc_layout_text(mc_layout_of(*b), text_b));
    return false;
}

mica_array mica_dot_general(mica_scope *s, mica_array a, mica_array b, const mica_dot_axes *axes) {
    mica_array in[2] = {a, b};
    if (!mc_operands_ok(s, "dot_general", in, 2)) return mc_invalid(s);
    const mica_dot_axes none = {0}, *p = axes ? axes : &none;
    side x, y;
    if (!convert(s, &a, &b, p->n_contract == 0)) return mc_invalid(s);
    if (!side_of(s, a, p->a_batch, p->n_batch, p->a_contract, p->n_contract, &x) ||
        !side_of(s, b, p->b_batch, p->n_batch, p->b_contract, p->n_contract, &y))
        return mc_invalid(s);
    int n_batch = (int)p->n_batch, n_contract = (int)p->n_contract; /* a's axes at most */
    if (!check_pairs(s, &x, &y, x.batch, y.batch, n_batch) ||
        !check_pairs(s, &x, &y, x.contract, y.contract, n_contract))
        return mc_invalid(s);
    int ndim = n_batch + x.n_free + y.n_free;
    char text_a[MC_LAYOUT_TEXT], text_b[MC_LAYOUT_TEXT];
    if (ndim > MICA_MAX_NDIM)
        return mc_scope_fail(s, MICA_ESHAPE,
                             "dot_general: %s and %s: a result of %d axes, at most "
                             "%d are possible",
                             mc_layout_text(mc_layout_of(a), text_a),
                             mc_layout_text(mc_layout_of(b), text_b), ndim, MICA_MAX_NDIM);
    return product(s, &x, &y, n_batch, n_contract);
}

/* ---- kron ---- */

/* Axes of both are interleaved, [a0, 1, a1, 1 ..] by [1, b0, 1, b1 ..]; those that are 1 in both
 * are left out. */
mica_array mica_kron(mica_scope *s, mica_array a, mica_array b) {
    mica_array in[2] = {a, b};
    if (!mc_operands_ok(s, "kron", in, 2)) return mc_invalid(s);
    const mc_layout *x = mc_layout_of(a), *y = mc_layout_of(b);
    char text_a[MC_LAYOUT_TEXT], text_b[MC_LAYOUT_TEXT];
    int64_t shape_a[MICA_MAX_NDIM], shape_b[MICA_MAX_NDIM], shape[MICA_MAX_NDIM];
    int ndim = x->ndim > y->ndim ? x->ndim : y->ndim, n = 0;
    for (int k = 0; k < ndim; k++) {
        int64_t p = k < ndim - x->ndim ? 1 : x->shape[k - (ndim - x->ndim)];
        int64_t q = k < ndim - y->ndim ? 1 : y->shape[k - (ndim - y->ndim)];
        shape[k] = p;
        if (!mc_dim_mul_to(&shape[k], q))
            return mc_scope_fail(s, MICA_EINVAL, "kron: axis %d overflows", k);
        if (p == 1 && q == 1) continue;
        if (n + 2 > MICA_MAX_NDIM)
            return mc_scope_fail(
                s, MICA_ESHAPE, "kron: %s and %s: more than %d axes that are not 1",
                mc_layout_text(x, text_a), mc_layout_text(y, text_b), MICA_MAX_NDIM / 2);
        shape_a[n] = p;
        shape_b[n++] = 1;
        shape_a[n] = 1;
        shape_b[n++] = q;
    }
    a = mica_reshape(s, a, shape_a, n);
    return mica_reshape(s, mica_multiply(s, a, mica_reshape(s, b, shape_b, n)), shape, ndim);
}
