/* The gradient of attention: an op of three results, so that a device need not hold all weights.
 *
 *      p = softmax(scores)                 [Lq, Lk], of each head
 *      dp = dy v^T
 *      ds = p (dp - sum(p dp) + dlse) * scale, and with a cap * (1 - tanh^2)
 *      dq = ds k, dk = ds^T q, dv = p^T dy, summed over the heads that share k and v
 *
 *  in       those of sdpa, without rows of to_q8; dy [B, Hq, Lq, Dv] float; dlse [B, Hq, Lq] f32 or
 *           absent
 *  results  dq, dk, dv f32, of the shapes of q, k and v
 *  source   Dao et al. 2022 (arXiv:2205.14135), appendix B.2. */
#include <mica/ops.h>

#include "op/attention.h"
#include "op/build.h"
#include "op/gradient.h"

enum { Q = MC_SDPA_Q, K, V, MASK, OFFSET, SINKS, DY, DLSE };

static mica_status sdpa_gradient_infer(const void *attr, const mc_layout *const *in, int n_in,
                                       mc_layout *out) {
    mc_layout y;
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
    MC_TRY(mc_sdpa_infer(attr, in, n_in, &y));
    if (in[K]->dtype == MICA_U8)
        return mc_fail(MICA_EDTYPE, "sdpa_gradient: k and v are no floats");
    if (!in[DY] || !mica_dtype_is_float(in[DY]->dtype) || !mc_layout_same_shape(in[DY], &y))
        return mc_fail(MICA_ESHAPE, "sdpa_gradient: dy is %s for a result %s",
                       in[DY] ? mc_layout_text(in[DY], a) : "absent", mc_layout_text(&y, b));
    y.ndim = 3;
    if (in[DLSE] && (in[DLSE]->dtype != MICA_F32 || !mc_layout_same_shape(in[DLSE], &y)))
        return mc_fail(MICA_ESHAPE, "sdpa_gradient: dlse is %s", mc_layout_text(in[DLSE], a));
    for (int i = Q; i <= V; i++) {
        out[i] = *in[i];
        out[i].dtype = MICA_F32;
    }
    return MICA_OK;
}

/* [B, Hq, Lq, D] as [B, Hkv, Hq / Hkv * Lq, D]: what meets one head of keys. */
static mica_array rows_of(mica_scope *s, mica_array x, int64_t kv_heads) {
    const int64_t shape[4] = {
        mica_array_dim(x, 0), kv_heads,
        mc_dim_mul(mc_dim_div(mica_array_dim(x, 1), kv_heads), mica_array_dim(x, 2)),
        mica_array_dim(x, 3)};
    return mica_reshape(s, x, shape, 4);
}

static void sdpa_gradient_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                                    mica_array *out) {
    (void)n_in;
    const mc_attr_sdpa *a = attr;
    const int last = -1;
    int64_t kv_heads = mica_array_dim(in[K], 1);
    bool met = mica_array_dim(in[K], 2) > 0; /* whether a query meets a key */
    for (int k = 0; k < 3; k++)
        met = met && mica_array_dim(in[Q], k) > 0;
    if (!met) {
        for (int i = Q; i <= V; i++)
            out[i] = mica_zeros(s, mica_array_shape(in[i]), 4, MICA_F32);
        return;
    }
    mica_array tanh, p = mc_sdpa_weights(s, a, in, &tanh, NULL);
    mica_array k = mc_cast(s, in[K], MICA_F32), v = mc_cast(s, in[V], MICA_F32);
    mica_array dy = rows_of(s, mc_cast(s, in[DY], MICA_F32), kv_heads);
    mica_array dp = mica_matmul(s, dy, mica_swapaxes(s, v, -1, -2));
    dp = mica_reshape(s, dp, mica_array_shape(p), 4);
    mica_array less = mica_sum(s, mica_multiply(s, p, dp), &last, 1, true);
    if (mica_valid(in[DLSE])) less = mica_subtract(s, less, mica_expand_dims(s, in[DLSE], -1));
    mica_array ds = mica_multiply(s, p, mica_subtract(s, dp, less));
    if (mica_valid(tanh))
        ds = mica_multiply(s, ds, mica_subtract(s, mica_f32(s, 1), mica_square(s, tanh)));
    ds = rows_of(s, mica_multiply(s, ds, mica_scalar(s, a->scale, MICA_F32)), kv_heads);
    mica_array q = rows_of(s, mc_cast(s, in[Q], MICA_F32), kv_heads);
    out[Q] = mica_reshape(s, mica_matmul(s, ds, k), mica_array_shape(in[Q]), 4);
    out[K] = mica_matmul(s, mica_swapaxes(s, ds, -1, -2), q);
    out[V] = mica_matmul(s, mica_swapaxes(s, rows_of(s, p, kv_heads), -1, -2), dy);
}

/* The weights again, and a product for each of dV, dP, dQ and dK. */
static MC_WORK_RULE(sdpa_gradient_work) {
    mc_sdpa_work(attr, in, n_in, out, work);
    work->operations *= 2.5;
}

MC_OP(sdpa_gradient, 3, MC_SDPA_OPERANDS, .n_out = 3, MC_ATTR(sdpa), .infer = sdpa_gradient_infer,
      .decompose = sdpa_gradient_decompose, .work = sdpa_gradient_work);
MC_DECOMPOSED_GRADIENT(sdpa_gradient);

bool mc_sdpa_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    mica_array in[MC_SDPA_OPERANDS];
    if (n->wanted[MASK] || n->wanted[SINKS] || mica_array_dtype(n->in[K]) == MICA_U8) return false;
    for (int i = Q; i <= SINKS; i++)
        in[i] = n->in[i];
    in[DY] = mc_or_zeros(n->s, dy[0], n->out[0]);
    in[DLSE] = mc_op_get(n->op)->n_out > 1 ? dy[1] : MICA_NONE;
    mica_array all = mc_record(n->s, MC_OP_SDPA_GRADIENT, n->attr, in, MC_SDPA_OPERANDS);
    for (int i = Q; i <= V; i++)
        if (n->wanted[i]) dx[i] = mc_record_part(n->s, all, i);
    return true;
}
