/* Systems of linear equations. */
#include <mica/ops.h>

#include <string.h>

#include "graph/graph.h"
#include "op/build.h"
#include "op/gradient.h"
#include "op/work.h"

/* in: a [.., N, N], b [.., N, K], floats, of the same batch axes. */
static mica_status dense_solve_infer(const void *attr, const mc_layout *const *in, int n_in,
                                     mc_layout *out) {
    (void)attr, (void)n_in;
    const mc_layout *a = in[0], *b = in[1];
    char text_a[MC_LAYOUT_TEXT], text_b[MC_LAYOUT_TEXT];
    if (!mica_dtype_is_float(a->dtype) || !mica_dtype_is_float(b->dtype))
        return mc_fail(MICA_EDTYPE, "dense_solve: %s and %s: convert integers to a float first",
                       mc_layout_text(a, text_a), mc_layout_text(b, text_b));
    bool fits =
        a->ndim >= 2 && a->ndim == b->ndim && a->shape[a->ndim - 2] == a->shape[a->ndim - 1];
    for (int k = 0; fits && k + 1 < a->ndim; k++)
        fits = a->shape[k] == b->shape[k];
    if (!fits)
        return mc_fail(MICA_ESHAPE, "dense_solve: %s and %s; [.., N, N] and [.., N, K] are needed",
                       mc_layout_text(a, text_a), mc_layout_text(b, text_b));
    *out = *b;
    out->dtype = mica_dtype_promote(a->dtype, b->dtype);
    return MICA_OK;
}

/* The factors, 2/3 n^3, and two triangles for each column. */
static MC_WORK_RULE(dense_solve_work) {
    (void)attr, (void)n_in;
    double n = (double)in[0]->shape[in[0]->ndim - 1];
    work->operations =
        (double)mc_layout_size(in[0]) * n * 2 / 3 + 2 * n * (double)mc_layout_size(out);
}

MC_OP(dense_solve, 2, 2, .infer = dense_solve_infer, .work = dense_solve_work);

static mica_array solve(mica_scope *s, mica_array a, mica_array b) {
    const mica_array in[2] = {a, b};
    return mc_record(s, MC_OP_DENSE_SOLVE, NULL, in, 2);
}

static mica_array transposed(mica_scope *s, mica_array x) {
    return mica_swapaxes(s, x, -1, -2);
}

/* db = a^-T dy, da = -db y^T */
static bool dense_solve_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    mica_scope *s = n->s;
    mica_array db = solve(s, transposed(s, n->in[0]), *dy);
    dx[1] = db;
    if (n->wanted[0]) dx[0] = mica_negative(s, mica_matmul(s, db, transposed(s, n->out[0])));
    return true;
}

/* dy = a^-1 (db - da y) */
static bool dense_solve_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    mica_scope *s = n->s;
    mica_array right = dx[1];
    if (dx[0].scope)
        right = mc_sum_of(s, right, mica_negative(s, mica_matmul(s, dx[0], n->out[0])));
    *dy = solve(s, n->in[0], right);
    return true;
}
MC_GRADIENT(dense_solve, dense_solve_vjp, dense_solve_jvp);

/* x with the last two axes of its own and the batch axes that both broadcast to. */
static mica_array with_batch(mica_scope *s, mica_array x, const int64_t *batch, int n) {
    int64_t shape[MICA_MAX_NDIM + 2];
    memcpy(shape, batch, (size_t)n * sizeof *shape);
    shape[n] = mica_array_dim(x, -2);
    shape[n + 1] = mica_array_dim(x, -1);
    return mc_broadcast(s, x, shape, n + 2);
}

mica_array mica_solve(mica_scope *s, mica_array a, mica_array b) {
    mica_array in[2] = {a, b};
    if (!mc_operands_ok(s, "solve", in, 2)) return mc_invalid(s);
    char text_a[MC_LAYOUT_TEXT], text_b[MC_LAYOUT_TEXT];
    const mc_layout *x = mc_layout_of(a), *y = mc_layout_of(b);
    bool vector = y->ndim == x->ndim - 1 || y->ndim == 1;
    if (x->ndim < 2 || y->ndim < 1)
        return mc_scope_fail(s, MICA_ESHAPE,
                             "solve: %s and %s; [.., N, N] and [.., N, K] or "
                             "[.., N] are needed",
                             mc_layout_text(x, text_a), mc_layout_text(y, text_b));
    if (vector) b = mica_expand_dims(s, b, -1);
    mc_layout p = *x, q = *mc_layout_of(b);
    p.ndim -= 2;
    q.ndim -= 2;
    int64_t batch[MICA_MAX_NDIM];
    int n;
    mica_status status = mc_broadcast_shapes("solve", &p, &q, batch, &n);
    if (status != MICA_OK) return mc_fail_in(s, status);
    mica_array z = solve(s, with_batch(s, a, batch, n), with_batch(s, b, batch, n));
    return vector ? mica_squeeze(s, z, -1) : z;
}
