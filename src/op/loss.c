/* Cross-entropy, and its gradient as an op: neither needs another array of the logits' size. */
#include <mica/ops.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/dtype.h"
#include "op/gradient.h"
#include "op/work.h"

/* Checks logits [..., V] and targets [...]. */
static mica_status check(const char *op, const mc_layout *logits, const mc_layout *targets) {
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
    if (!mica_dtype_is_float(logits->dtype) || targets->dtype < MICA_U8 ||
        targets->dtype > MICA_I64)
        return mc_fail(MICA_EDTYPE, "%s: targets %s for logits %s; give integers for floats", op,
                       mc_layout_text(targets, b), mc_layout_text(logits, a));
    bool fits = logits->ndim == targets->ndim + 1;
    for (int k = 0; fits && k < targets->ndim; k++)
        fits = logits->shape[k] == targets->shape[k];
    if (fits) return MICA_OK;
    return mc_fail(MICA_ESHAPE,
                   "%s: targets %s for logits %s; give the logits' shape without the last axis", op,
                   mc_layout_text(targets, b), mc_layout_text(logits, a));
}

static mica_status cross_entropy_infer(const void *attr, const mc_layout *const *in, int n_in,
                                       mc_layout *out) {
    (void)attr, (void)n_in;
    MC_TRY(check("cross_entropy", in[0], in[1]));
    *out = *in[1];
    out->dtype = in[0]->dtype;
    return MICA_OK;
}

static void cross_entropy_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                                    mica_array *out) {
    (void)attr, (void)n_in;
    const int last = -1;
    mica_array x = mc_cast(s, in[0], MICA_F32);
    mica_array taken = mica_take_along_axis(s, x, mica_expand_dims(s, in[1], -1), -1);
    mica_array y =
        mica_subtract(s, mica_logsumexp(s, x, &last, 1, false), mica_squeeze(s, taken, -1));
    *out = mc_cast(s, y, mica_array_dtype(in[0]));
}

static MC_WORK_RULE(cross_entropy_work) {
    (void)attr, (void)n_in, (void)out;
    work->operations = MC_WORK_FUNCTION * (double)mc_layout_size(in[0]);
}

MC_OP(cross_entropy, 2, 2, .infer = cross_entropy_infer, .decompose = cross_entropy_decompose,
      .work = cross_entropy_work);

/* in: logits, targets, the gradient of the losses */
static bool cross_entropy_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    const mica_array in[3] = {n->in[0], n->in[1], *dy};
    dx[0] = mc_record(n->s, MC_OP_CROSS_ENTROPY_GRADIENT, NULL, in, 3);
    return true;
}
MC_GRADIENT(cross_entropy, cross_entropy_vjp, NULL);

mica_array mica_cross_entropy(mica_scope *s, mica_array logits, mica_array targets) {
    mica_array in[2] = {logits, targets};
    if (!mc_operands_ok(s, "cross_entropy", in, 2)) return mc_invalid(s);
    in[0] = mc_cast(s, logits, mc_inexact(mica_array_dtype(logits)));
    return mc_record(s, MC_OP_CROSS_ENTROPY, NULL, in, 2);
}

/* ---- its gradient: (softmax(logits) - 1 at the target) dy, of the logits' dtype ---- */

static mica_status cross_entropy_gradient_infer(const void *attr, const mc_layout *const *in,
                                                int n_in, mc_layout *out) {
    (void)attr, (void)n_in;
    char a[MC_LAYOUT_TEXT];
    MC_TRY(check("cross_entropy_gradient", in[0], in[1]));
    if (!mica_dtype_is_float(in[2]->dtype) || !mc_layout_same_shape(in[1], in[2]))
        return mc_fail(MICA_ESHAPE, "cross_entropy_gradient: dy is %s", mc_layout_text(in[2], a));
    *out = *in[0];
    return MICA_OK;
}

static void cross_entropy_gradient_decompose(mica_scope *s, const void *attr, const mica_array *in,
                                             int n_in, mica_array *out) {
    (void)attr, (void)n_in;
    mica_array p = mica_softmax(s, mc_cast(s, in[0], MICA_F32), -1);
    mica_array none = mica_zeros(s, mica_array_shape(p), mica_array_ndim(p), MICA_F32);
    mica_array at = mica_expand_dims(s, in[1], -1); /* put_along_axis checks it */
    mica_array hit = mica_put_along_axis(s, none, at, mica_f32(s, 1), -1);
    mica_array y = mica_subtract(s, p, hit);
    y = mica_multiply(s, y, mica_expand_dims(s, mc_cast(s, in[2], MICA_F32), -1));
    *out = mc_cast(s, y, mica_array_dtype(in[0]));
}

MC_OP(cross_entropy_gradient, 3, 3, .infer = cross_entropy_gradient_infer,
      .decompose = cross_entropy_gradient_decompose, .work = mc_work_function, .in_place = 1);
MC_DECOMPOSED_GRADIENT(cross_entropy_gradient);
