/* Matrix products over matrices that indices pick: gather_mm, gather_qmm. */
#include <mica/nn.h>
#include <mica/ops.h>

#include "graph/attr.h"
#include "graph/gradient.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/gradient.h"
#include "op/matmul.h"
#include "op/quant.h"
#include "op/work.h"

/* Operands: x, the weights, then the indices of both, each of which may be absent. */
enum { MM_LHS = 2, MM_RHS, QMM_LHS = 4, QMM_RHS };

/* The axes that x counts for: those of its indices, or its own before the last two. */
static mica_status batch_of(const char *op, const mc_layout *x, const mc_layout *index,
                            mc_layout *batch) {
    char text[MC_LAYOUT_TEXT];
    if (x->ndim < 2)
        return mc_fail(MICA_ESHAPE, "%s: %s: matrices have two axes or more", op,
                       mc_layout_text(x, text));
    if (index && (index->dtype < MICA_U8 || index->dtype > MICA_I64))
        return mc_fail(MICA_EDTYPE, "%s: indices %s are not integers", op,
                       mc_layout_text(index, text));
    mc_layout matrices = *x;
    matrices.ndim -= 2;
    *batch = index ? *index : matrices;
    if (index && mc_layout_size(&matrices) == 0 && mc_layout_size(index) > 0)
        return mc_fail(MICA_EINVAL, "%s: there are no matrices in %s to pick", op,
                       mc_layout_text(x, text));
    return MICA_OK;
}

static mica_status infer_picked(const char *op, const mc_layout *x, const mc_layout *w,
                                const mc_layout *lhs, const mc_layout *rhs, mica_dtype dtype,
                                int64_t n, mc_layout *out) {
    mc_layout left, right;
    int64_t shape[MICA_MAX_NDIM];
    int ndim;
    char text_x[MC_LAYOUT_TEXT], text_w[MC_LAYOUT_TEXT];
    MC_TRY(batch_of(op, x, lhs, &left));
    MC_TRY(batch_of(op, w, rhs, &right));
    MC_TRY(mc_broadcast_shapes(op, &left, &right, shape, &ndim));
    if (ndim + 2 > MICA_MAX_NDIM)
        return mc_fail(MICA_ESHAPE, "%s: %s and %s: too many axes", op, mc_layout_text(x, text_x),
                       mc_layout_text(w, text_w));
    shape[ndim] = x->shape[x->ndim - 2];
    shape[ndim + 1] = n;
    return mc_layout_init(out, dtype, shape, ndim + 2);
}

/* The matrices of x [B..., R, C] that indices name, counted over B: [indices..., R, C]. Without
 * indices x as it is. */
static mica_array pick(mica_scope *s, mica_array x, mica_array indices) {
    if (!x.scope || !indices.scope) return x;
    int ndim = mica_array_ndim(x);
    x = ndim == 2 ? mica_expand_dims(s, x, 0) : mica_flatten(s, x, 0, ndim - 3);
    return mica_take(s, x, indices, 0);
}

/* The gradient of x, where d [batch..., R, C] is that of the matrices that were picked of it. */
static mica_array add_picked(mica_scope *s, mica_array d, mica_array x, mica_array indices) {
    if (!indices.scope) return mc_sum_to(s, d, x);
    int batch = mica_array_ndim(d) - 2, ndim = mica_array_ndim(x);
    indices = mica_broadcast_to(s, indices, mica_array_shape(d), batch);
    mica_array flat = ndim == 2 ? mica_expand_dims(s, x, 0) : mica_flatten(s, x, 0, ndim - 3);
    flat = mc_add_taken(s, flat, indices, d, 0);
    return mica_reshape(s, flat, mica_array_shape(x), ndim);
}

static MC_WORK_RULE(picked_work) {
    (void)attr;
    double k = (double)in[0]->shape[in[0]->ndim - 1], picked = 1;
    for (int i = 0; i < out->ndim - 2; i++)
        picked *= (double)out->shape[i];
    work->kind = MC_WORK_MATMUL;
    work->operations = 2 * (double)mc_layout_size(out) * k;
    for (int i = 1; i < n_in; i++) { /* of the weights, those that are picked at most */
        if (!in[i] || in[i]->ndim < 2) continue;
        double all = 1;
        for (int a = 0; a < in[i]->ndim - 2; a++)
            all *= (double)in[i]->shape[a];
        if (all > picked) work->bytes -= (double)mc_layout_bytes(in[i]) * (1 - picked / all);
    }
}

/* ---- gather_mm: a, b, lhs, rhs ---- */

static mica_status gather_mm_infer(const void *attr, const mc_layout *const *in, int n_in,
                                   mc_layout *out) {
    (void)attr, (void)n_in;
    const mc_layout *a = in[0], *b = in[1];
    char text_a[MC_LAYOUT_TEXT], text_b[MC_LAYOUT_TEXT];
    if (!mica_dtype_is_float(a->dtype) || !mica_dtype_is_float(b->dtype))
        return mc_fail(MICA_EDTYPE, "gather_mm: %s and %s: convert integers to a float first",
                       mc_layout_text(a, text_a), mc_layout_text(b, text_b));
    if (a->ndim >= 2 && b->ndim >= 2 && a->shape[a->ndim - 1] != b->shape[b->ndim - 2])
        return mc_fail(MICA_ESHAPE,
                       "gather_mm: %s and %s: the last axis of a and the second last of b differ",
                       mc_layout_text(a, text_a), mc_layout_text(b, text_b));
    int64_t n = b->ndim > 0 ? b->shape[b->ndim - 1] : 0;
    return infer_picked("gather_mm", a, b, in[MM_LHS], in[MM_RHS],
                        mica_dtype_promote(a->dtype, b->dtype), n, out);
}

static void gather_mm_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                                mica_array *out) {
    (void)n_in;
    const mica_array picked[2] = {pick(s, in[0], in[MM_LHS]), pick(s, in[1], in[MM_RHS])};
    *out = mc_record(s, MC_OP_MATMUL, attr, picked, 2);
}

MC_OP(gather_mm, 2, 4, MC_ATTR(matmul), .infer = gather_mm_infer, .decompose = gather_mm_decompose,
      .work = picked_work);

static bool gather_mm_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    mica_scope *s = n->s;
    const mica_array a = n->in[0], b = n->in[1], lhs = n->in[MM_LHS], rhs = n->in[MM_RHS];
    const mica_array turned[4] = {*dy, mica_swapaxes(s, b, -1, -2), MICA_NONE, rhs};
    if (n->wanted[0]) {
        mica_array d = mc_record(s, MC_OP_GATHER_MM, n->attr, turned, 4);
        dx[0] = add_picked(s, d, a, lhs);
    }
    if (n->wanted[1]) {
        mica_array d = mica_matmul(s, mica_swapaxes(s, pick(s, a, lhs), -1, -2), *dy);
        dx[1] = add_picked(s, d, b, rhs);
    }
    return true;
}
MC_GRADIENT(gather_mm, gather_mm_vjp, NULL);

static mica_array record_mm(mica_scope *s, mica_array a, mica_array b, mica_array lhs,
                            mica_array rhs, bool fast) {
    const mica_array in[4] = {a, b, lhs, rhs};
    return mc_record(s, MC_OP_GATHER_MM, &(mc_attr_matmul){fast}, in, 4);
}

mica_array mica_gather_mm(mica_scope *s, mica_array a, mica_array b, mica_array lhs_indices,
                          mica_array rhs_indices) {
    return record_mm(s, a, b, lhs_indices, rhs_indices, false);
}

mica_array mc_gather_rows(mica_scope *s, mica_array x, mica_array w, mica_array lhs_indices,
                          mica_array rhs_indices, bool fast) {
    return record_mm(s, x, mica_swapaxes(s, w, -1, -2), lhs_indices, rhs_indices, fast);
}

/* ---- gather_qmm: x, codes, scales, biases, lhs, rhs ---- */

static mica_status gather_qmm_infer(const void *attr, const mc_layout *const *in, int n_in,
                                    mc_layout *out) {
    (void)n_in;
    const mc_layout *x = in[0];
    int64_t n;
    MC_TRY(mc_quant_check_product("gather_qmm", attr, x, in[1], in[2], in[3], &n));
    return infer_picked("gather_qmm", x, in[1], in[QMM_LHS], in[QMM_RHS], x->dtype, n, out);
}

static void gather_qmm_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                                 mica_array *out) {
    (void)n_in;
    const mica_array rhs = in[QMM_RHS];
    const mica_array picked[4] = {pick(s, in[0], in[QMM_LHS]), pick(s, in[1], rhs),
                                  pick(s, in[2], rhs), pick(s, in[3], rhs)};
    *out = mc_record(s, MC_OP_QUANTIZED_MATMUL, attr, picked, 4);
}

MC_OP(gather_qmm, 3, 6, MC_ATTR(quant), .infer = gather_qmm_infer,
      .decompose = gather_qmm_decompose, .work = picked_work);

static bool gather_qmm_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    mc_attr_quant attr = *(const mc_attr_quant *)n->attr;
    const mica_array in[6] = {*dy, n->in[1], n->in[2], n->in[3], MICA_NONE, n->in[QMM_RHS]};
    if (n->wanted[2] || n->wanted[3]) return false;
    attr.transpose = attr.transpose == 0;
    mica_array d = mc_record(n->s, MC_OP_GATHER_QMM, &attr, in, 6);
    dx[0] = add_picked(n->s, d, n->in[0], n->in[QMM_LHS]);
    return true;
}
MC_GRADIENT(gather_qmm, gather_qmm_vjp, NULL);

mica_array mica_gather_qmm(mica_scope *s, mica_array x, mica_array codes, mica_array scales,
                           mica_array biases, mica_quant quant, bool transpose,
                           mica_array lhs_indices, mica_array rhs_indices) {
    const mica_array in[6] = {x, codes, scales, biases, lhs_indices, rhs_indices};
    mc_attr_quant attr = {quant.mode, quant.bits, quant.group_size, transpose, 0, 0};
    return mc_record(s, MC_OP_GATHER_QMM, &attr, in, 6);
}

mica_array mc_gather_qmm(mica_scope *s, mica_array x, mica_array codes, mica_array scales,
                         mica_array biases, mica_quant quant, mica_array lhs_indices,
                         mica_array rhs_indices, int fast) {
    const mica_array in[6] = {x, codes, scales, biases, lhs_indices, rhs_indices};
    mc_attr_quant attr = {quant.mode, quant.bits, quant.group_size, 1, 0, fast};
    return mc_record(s, MC_OP_GATHER_QMM, &attr, in, 6);
}
