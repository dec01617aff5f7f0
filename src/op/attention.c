/* Scaled dot product attention. */
#include <mica/ops.h>

#include <float.h>
#include <math.h>

#include "base/options.h"
#include "graph/attr.h"
#include "graph/graph.h"
#include "op/attention.h"
#include "op/build.h"
#include "op/gradient.h"

enum { Q = MC_SDPA_Q, K, V, MASK, OFFSET, SINKS, OPERANDS };

#define MAX_SCORES ((int64_t)1 << 40) /* that kernels have scratch for at once; a terabyte */

static mica_status wrong_qkv(mica_status status, const mc_layout *const *in, const char *what) {
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT], c[MC_LAYOUT_TEXT];
    return mc_fail(status, "sdpa: q %s, k %s and v %s: %s", mc_layout_text(in[Q], a),
                   mc_layout_text(in[K], b), mc_layout_text(in[V], c), what);
}

/* Whether k and v are rows of to_q8. */
static bool has_q8(const mc_layout *const *in) {
    return in[K]->dtype == MICA_U8 && in[V]->dtype == MICA_U8;
}

static mica_status check_qkv(const mc_layout *const *in) {
    const mc_layout *q = in[Q], *k = in[K], *v = in[V];
    for (int i = Q; i <= V; i++)
        if (!mica_dtype_is_float(in[i]->dtype) && (i == Q || !has_q8(in)))
            return wrong_qkv(MICA_EDTYPE, in, "must be floats, or k and v rows of to_q8");
    if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4)
        return wrong_qkv(MICA_ESHAPE, in, "must have four axes");
    int64_t d = has_q8(in) ? mica_q8_bytes(q->shape[3]) : q->shape[3];
    if (q->shape[0] != k->shape[0] || k->shape[0] != v->shape[0] || k->shape[1] != v->shape[1] ||
        k->shape[2] != v->shape[2] || d != k->shape[3] || (has_q8(in) && d != v->shape[3]))
        return wrong_qkv(MICA_ESHAPE, in, "batches, keys or head sizes differ");
    if (k->shape[1] < 1 || mc_dim_mod(q->shape[1], k->shape[1]) != 0)
        return wrong_qkv(MICA_ESHAPE, in, "the heads of q are not a multiple of those of k");
    if (mc_dim_less(INT32_MAX, k->shape[2])) /* positions are i32 */
        return wrong_qkv(MICA_ESHAPE, in, "there are more than 2147483647 keys");
    int64_t group = mc_dim_div(q->shape[1], k->shape[1]); /* heads that meet one head of keys */
    if (mc_dim_less(MAX_SCORES, group) || mc_dim_less(MAX_SCORES, mc_dim_mul(group, k->shape[2])))
        return wrong_qkv(MICA_ESHAPE, in, "a query has more than 2^40 scores with a head of keys");
    return MICA_OK;
}

static mica_status check_mask(const mc_layout *const *in) {
    const mc_layout *mask = in[MASK];
    char text[MC_LAYOUT_TEXT];
    if (!mask) return MICA_OK;
    if (mask->dtype != MICA_BOOL && !mica_dtype_is_float(mask->dtype))
        return mc_fail(MICA_EDTYPE, "sdpa: mask %s is neither bool nor a float",
                       mc_layout_text(mask, text));
    int64_t shape[4] = {in[Q]->shape[0], in[Q]->shape[1], in[Q]->shape[2], in[K]->shape[2]};
    mc_layout spread;
    if (!mc_layout_broadcast(mask, shape, 4, &spread))
        return mc_fail(MICA_ESHAPE, "sdpa: mask %s does not broadcast to [%lld,%lld,%lld,%lld]",
                       mc_layout_text(mask, text), (long long)shape[0], (long long)shape[1],
                       (long long)shape[2], (long long)shape[3]);
    return MICA_OK;
}

mica_status mc_sdpa_infer(const void *attr, const mc_layout *const *in, int n_in, mc_layout *out) {
    (void)n_in;
    const mc_attr_sdpa *a = attr;
    char text[MC_LAYOUT_TEXT];
    MC_TRY(check_qkv(in));
    MC_TRY(check_mask(in));
    const mc_layout *offset = in[OFFSET], *sinks = in[SINKS];
    if (a->window < 0 || mc_dim_less(INT32_MAX, a->window) || (a->window > 0 && a->causal == 0))
        return mc_fail(MICA_EINVAL, "sdpa: window %lld: must be 0, or above 0 with causal",
                       (long long)a->window);
    if (a->keep < 0 || mc_dim_less(INT32_MAX, a->keep) || (a->keep > 0 && a->window == 0))
        return mc_fail(MICA_EINVAL, "sdpa: keep %lld: must be 0, or above 0 with window",
                       (long long)a->keep);
    if (offset && (offset->dtype != MICA_I32 || offset->ndim > 1 ||
                   (offset->ndim == 1 && offset->shape[0] != in[Q]->shape[0])))
        return mc_fail(MICA_ESHAPE, "sdpa: offset is %s, not i32[] or i32[%lld]",
                       mc_layout_text(offset, text), (long long)in[Q]->shape[0]);
    if (sinks && (!mica_dtype_is_float(sinks->dtype) || sinks->ndim != 1 ||
                  sinks->shape[0] != in[Q]->shape[1]))
        return mc_fail(MICA_ESHAPE, "sdpa: sinks is %s, not one float for each of %lld heads",
                       mc_layout_text(sinks, text), (long long)in[Q]->shape[1]);
    *out = *in[Q];
    if (has_q8(in)) return MICA_OK;
    out->shape[3] = in[V]->shape[3];
    out->dtype = mica_dtype_promote(mica_dtype_promote(in[Q]->dtype, in[K]->dtype), in[V]->dtype);
    return MICA_OK;
}

static mica_status sdpa_lse_infer(const void *attr, const mc_layout *const *in, int n_in,
                                  mc_layout *out) {
    MC_TRY(mc_sdpa_infer(attr, in, n_in, &out[0]));
    out[1] = *in[Q];
    out[1].dtype = MICA_F32;
    out[1].ndim = 3;
    return MICA_OK;
}

/* True where causal, window and keep let a query attend to a key: [B or 1, 1, Lq, Lk]. */
static mica_array visible(mica_scope *s, const mc_attr_sdpa *a, const mica_array *in) {
    int64_t lq = mica_array_dim(in[Q], 2), lk = mica_array_dim(in[K], 2);
    mica_array offset =
        mica_valid(in[OFFSET]) ? in[OFFSET] : mica_scalar(s, (double)mc_dim_sub(lk, lq), MICA_I32);
    int64_t batch[4] = {mica_array_ndim(offset) == 1 ? mica_array_dim(offset, 0) : 1, 1, 1, 1};
    int64_t column[2] = {lq, 1};
    mica_array query = mica_arange(s, 0, (double)lq, 1, MICA_I32);
    query = mica_add(s, mica_reshape(s, query, column, 2), mica_reshape(s, offset, batch, 4));
    mica_array key = mica_arange(s, 0, (double)lk, 1, MICA_I32);
    mica_array seen = mica_less_equal(s, key, query);
    if (a->window == 0) return seen;
    mica_array first = mica_subtract(s, query, mica_scalar(s, (double)a->window, MICA_I32));
    mica_array near = mica_greater(s, key, first);
    if (a->keep > 0)
        near =
            mica_logical_or(s, near, mica_less(s, key, mica_scalar(s, (double)a->keep, MICA_I32)));
    return mica_logical_and(s, seen, near);
}

/* [B, H, ..] as [B, Hkv, H / Hkv, ..], or [B, Hkv, 1, ..] for keys and values. */
static mica_array group_heads(mica_scope *s, mica_array x, int64_t kv_heads) {
    int64_t shape[2] = {kv_heads, mc_dim_div(mica_array_dim(x, 1), kv_heads)};
    return mica_unflatten(s, x, 1, shape, 2);
}

/* Scores [B, Hq, Lq, Lk] in f32; -inf where a query does not attend to a key. *tanh receives what
 * the cap is multiplied by, MICA_NONE if there is none. */
static mica_array scores_of(mica_scope *s, const mc_attr_sdpa *a, const mica_array *in,
                            mica_array *tanh) {
    int64_t kv_heads = mica_array_dim(in[K], 1);
    mica_array q = group_heads(s, mc_cast(s, in[Q], MICA_F32), kv_heads);
    mica_array k = group_heads(s, mc_cast(s, in[K], MICA_F32), kv_heads);
    mica_array scores = mica_matmul(s, q, mica_swapaxes(s, k, -1, -2));
    scores = mica_flatten(s, scores, 1, 2);
    scores = mica_multiply(s, scores, mica_scalar(s, a->scale, MICA_F32));
    *tanh = MICA_NONE;
    if (a->softcap != 0) {
        mica_array cap = mica_scalar(s, a->softcap, MICA_F32);
        *tanh = mica_tanh(s, mica_divide(s, scores, cap));
        scores = mica_multiply(s, *tanh, cap);
    }
    mica_array never = mica_f32(s, -INFINITY);
    if (mica_valid(in[MASK])) {
        if (mica_array_dtype(in[MASK]) == MICA_BOOL)
            scores = mica_where(s, in[MASK], scores, never);
        else
            scores = mica_add(s, scores, mc_cast(s, in[MASK], MICA_F32));
    }
    if (a->causal != 0) scores = mica_where(s, visible(s, a, in), scores, never);
    return scores;
}

/* Of sinks alone, or of nothing: queries without keys. */
static mica_array lse_without_keys(mica_scope *s, const mica_array *in) {
    int64_t column[2] = {mica_array_dim(in[Q], 1), 1};
    mica_array y = mica_f32(s, -INFINITY);
    if (mica_valid(in[SINKS])) y = mica_reshape(s, mc_cast(s, in[SINKS], MICA_F32), column, 2);
    return mica_broadcast_to(s, y, mica_array_shape(in[Q]), 3);
}

mica_array mc_sdpa_weights(mica_scope *s, const mc_attr_sdpa *a, const mica_array *in,
                           mica_array *tanh, mica_array *lse) {
    const int last = -1;
    mica_array scores = scores_of(s, a, in, tanh);
    /* a finite maximum, so that rows without keys do not compute -inf - -inf */
    mica_array none = mica_f32(s, -FLT_MAX);
    mica_array largest = mica_maximum(s, mica_max(s, scores, &last, 1, true), none);
    mica_array sinks = MICA_NONE;
    if (mica_valid(in[SINKS])) {
        int64_t column[3] = {mica_array_dim(in[SINKS], 0), 1, 1};
        sinks = mica_reshape(s, mc_cast(s, in[SINKS], MICA_F32), column, 3);
        largest = mica_maximum(s, largest, sinks);
    }
    largest = mica_stop_gradient(s, largest); /* which cancels */
    mica_array weights = mica_exp(s, mica_subtract(s, scores, largest));
    mica_array total = mica_sum(s, weights, &last, 1, true);
    if (mica_valid(sinks))
        total = mica_add(s, total, mica_exp(s, mica_subtract(s, sinks, largest)));
    mica_array nothing = mica_equal(s, total, mica_f32(s, 0));
    total = mica_where(s, nothing, mica_f32(s, 1), total);
    if (lse) {
        *lse = mica_add(s, largest, mica_log(s, total));
        *lse = mica_squeeze(s, mica_where(s, nothing, mica_f32(s, -INFINITY), *lse), -1);
    }
    return mica_divide(s, weights, total);
}

/* The decomposition for k and v of floats; lse NULL: it is not asked for. */
static mica_array attend(mica_scope *s, const void *attr, const mica_array *in, mica_array *lse) {
    mica_dtype dtype = mica_dtype_promote(mica_array_dtype(in[Q]), mica_array_dtype(in[K]));
    dtype = mica_dtype_promote(dtype, mica_array_dtype(in[V]));
    int64_t shape[4] = {mica_array_dim(in[Q], 0), mica_array_dim(in[Q], 1),
                        mica_array_dim(in[Q], 2), mica_array_dim(in[V], 3)};
    if (mica_array_dim(in[K], 2) == 0) {
        if (lse) *lse = lse_without_keys(s, in);
        return mica_zeros(s, shape, 4, dtype);
    }
    mica_array tanh, weights = mc_sdpa_weights(s, attr, in, &tanh, lse);
    int64_t kv_heads = mica_array_dim(in[K], 1);
    mica_array v = group_heads(s, mc_cast(s, in[V], MICA_F32), kv_heads);
    mica_array y = mica_matmul(s, group_heads(s, weights, kv_heads), v);
    return mc_cast(s, mica_flatten(s, y, 1, 2), dtype);
}

static mica_array decompose(mica_scope *s, const void *attr, const mica_array *in,
                            mica_array *lse) {
    mica_array floats[OPERANDS];
    if (mica_array_dtype(in[K]) != MICA_U8) return attend(s, attr, in, lse);
    for (int i = 0; i < OPERANDS; i++)
        floats[i] = in[i];
    int64_t d = mica_array_dim(in[Q], 3);
    floats[K] = mica_from_q8(s, in[K], d, MICA_F32);
    floats[V] = mica_from_q8(s, in[V], d, MICA_F32);
    return mc_cast(s, attend(s, attr, floats, lse), mica_array_dtype(in[Q]));
}

static void sdpa_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                           mica_array *out) {
    (void)n_in;
    *out = decompose(s, attr, in, NULL);
}

static void sdpa_lse_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                               mica_array *out) {
    (void)n_in;
    out[0] = decompose(s, attr, in, &out[1]);
}

/* Queries times keys, and weights times values, of the keys that a query sees; those of a cache,
 * whose offset is not known here, are taken as seen. */
MC_WORK_RULE(mc_sdpa_work) {
    (void)out, (void)n_in;
    const mc_attr_sdpa *a = attr;
    const mc_layout *q = in[Q], *k = in[K], *v = in[V];
    double rows = (double)q->shape[0] * (double)q->shape[1] * (double)q->shape[2];
    double width = (double)q->shape[3], keys = (double)k->shape[2];
    width += v->dtype == MICA_U8 ? width : (double)v->shape[3];
    if (a->causal && q->shape[2] == k->shape[2]) keys /= 2;
    if (a->window > 0 && (double)a->window < keys) keys = (double)a->window;
    work->kind = MC_WORK_ATTENTION;
    work->operations = 2 * rows * keys * width;
}

MC_OP(sdpa, 3, OPERANDS, MC_ATTR(sdpa), .infer = mc_sdpa_infer, .decompose = sdpa_decompose,
      .work = mc_sdpa_work);
MC_GRADIENT(sdpa, mc_sdpa_vjp, NULL);

MC_OP(sdpa_lse, 3, OPERANDS, .n_out = 2, MC_ATTR(sdpa), .infer = sdpa_lse_infer,
      .decompose = sdpa_lse_decompose, .work = mc_sdpa_work);
MC_GRADIENT(sdpa_lse, mc_sdpa_vjp, NULL);

bool mc_sdpa_read_options(mica_scope *s, const mica_sdpa_options *options, mica_array q,
                          mc_attr_sdpa *attr, mica_array *in) {
    mica_sdpa_options o;
    mica_status status = MC_OPTIONS_COPY(mica_sdpa_options, sinks, &o, options);
    if (status != MICA_OK) {
        (void)mc_scope_fail(s, status, "%s", mica_last_error());
        return false;
    }
    in[MASK] = o.mask;
    in[OFFSET] = o.offset;
    in[SINKS] = o.sinks;
    int64_t d = mica_array_dim(q, -1);
    if (o.scale == 0 && mc_dim_has_symbols(d))
        return mica_valid(mc_need_number(s, "sdpa without a scale", d));
    *attr = (mc_attr_sdpa){
        .scale = o.scale != 0 ? (double)o.scale : 1.0 / sqrt((double)(d < 1 ? 1 : d)),
        .softcap = (double)o.softcap,
        .causal = o.causal,
        .window = mc_dim_at_most(o.window, INT32_MAX), /* positions are i32 */
        .keep = mc_dim_at_most(o.keep, INT32_MAX),
    };
    return true;
}

static mica_array record(mica_scope *s, mc_op op, mica_array q, mica_array k, mica_array v,
                         const mica_sdpa_options *options) {
    mica_array in[OPERANDS] = {q, k, v};
    mc_attr_sdpa attr;
    if (!mc_operands_ok(s, mc_op_get(op)->name, in, 3)) return mc_invalid(s);
    if (!mc_sdpa_read_options(s, options, q, &attr, in)) return mc_invalid(s);
    return mc_record(s, op, &attr, in, OPERANDS);
}

mica_array mica_sdpa(mica_scope *s, mica_array q, mica_array k, mica_array v,
                     const mica_sdpa_options *options) {
    return record(s, MC_OP_SDPA, q, k, v, options);
}

mica_array mica_sdpa_lse(mica_scope *s, mica_array q, mica_array k, mica_array v,
                         const mica_sdpa_options *options, mica_array *lse) {
    mica_array unused, both = record(s, MC_OP_SDPA_LSE, q, k, v, options);
    if (!lse) lse = &unused;
    *lse = mc_record_part(s, both, 1);
    return mc_record_part(s, both, 0);
}
