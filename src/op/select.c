/* where and clip. */
#include <mica/ops.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/gradient.h"

/* in: condition bool, a, b, all of one shape */
static mica_status where_infer(const void *attr, const mc_layout *const *in, int n_in,
                               mc_layout *out) {
    (void)attr, (void)n_in;
    if (in[0]->dtype != MICA_BOOL || in[1]->dtype != in[2]->dtype ||
        !mc_layout_same_shape(in[0], in[1]) || !mc_layout_same_shape(in[1], in[2])) {
        char c[MC_LAYOUT_TEXT], a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
        return mc_fail(MICA_ESHAPE, "where: operands %s, %s and %s are not alike",
                       mc_layout_text(in[0], c), mc_layout_text(in[1], a),
                       mc_layout_text(in[2], b));
    }
    *out = *in[1];
    return MICA_OK;
}

MC_OP(where, 3, 3, .infer = where_infer, .in_place = 3);

static bool where_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    mica_array zero = mica_scalar(n->s, 0, mica_array_dtype(*dy));
    if (n->wanted[1]) dx[1] = mica_where(n->s, n->in[0], *dy, zero);
    if (n->wanted[2]) dx[2] = mica_where(n->s, n->in[0], zero, *dy);
    return true;
}
MC_GRADIENT(where, where_vjp, mc_linear_jvp);

mica_array mica_where(mica_scope *s, mica_array condition, mica_array a, mica_array b) {
    mica_array in[3] = {condition, a, b};
    if (!mc_operands_ok(s, "where", in, 3)) return mc_invalid(s);
    mc_layout both = {.ndim = 0};
    mica_status status =
        mc_broadcast_shapes("where", mc_layout_of(a), mc_layout_of(b), both.shape, &both.ndim);
    int64_t shape[MICA_MAX_NDIM];
    int ndim;
    if (!status)
        status = mc_broadcast_shapes("where", mc_layout_of(condition), &both, shape, &ndim);
    if (status) {
        mc_scope_set_status(s, status);
        return mc_invalid(s);
    }
    mica_dtype dtype = mica_dtype_promote(mica_array_dtype(a), mica_array_dtype(b));
    for (int i = 0; i < 3; i++)
        in[i] = mc_broadcast(s, mc_cast(s, in[i], i == 0 ? MICA_BOOL : dtype), shape, ndim);
    return mc_record(s, MC_OP_WHERE, NULL, in, 3);
}

mica_array mica_clip(mica_scope *s, mica_array x, mica_array lo, mica_array hi) {
    if (!mc_operands_ok(s, "clip", &x, 1)) return mc_invalid(s);
    if (lo.scope) x = mica_maximum(s, x, lo);
    if (hi.scope) x = mica_minimum(s, x, hi);
    return x;
}
