/* Operators of layers: attention, and losses. */
#include "onnx/import.h"

#include "graph/dim.h"

#include <mica/ops.h>

#include <math.h>

/* ---- attention ---- */

/* An operand as [B, heads, L, D]; four axes as they are. */
static mica_status split_heads(mc_onnx_node *n, size_t i, const char *heads, mica_array *x) {
    *x = mc_onnx_x(n, i);
    if (mica_array_ndim(*x) == 4) return MICA_OK;
    return mc_onnx_split_heads(n, *x, mc_onnx_int(n, heads, 0), x);
}

/* A cache with what is new behind it, which is a result, too. */
static mica_status append(mc_onnx_node *n, size_t past, size_t present, mica_array *x) {
    if (mc_onnx_has(n, past))
        *x = mica_concatenate(n->s, (mica_array[]){mc_onnx_x(n, past), *x}, 2, 2);
    return mc_onnx_give(n, present, *x);
}

/* A mask, which may have fewer keys than there are: the others are not seen. */
static mica_array pad_mask(mc_onnx_node *n, mica_array mask, int64_t keys) {
    int64_t before[MICA_MAX_NDIM] = {0}, after[MICA_MAX_NDIM] = {0};
    int ndim = mica_array_ndim(mask);
    if (!mask.scope || ndim == 0 || !mc_dim_less(mica_array_dim(mask, -1), keys)) return mask;
    after[ndim - 1] = mc_dim_sub(keys, mica_array_dim(mask, -1));
    bool is_bool = mica_array_dtype(mask) == MICA_BOOL;
    mica_array unseen = mica_scalar(n->s, is_bool ? 0 : -INFINITY, mica_array_dtype(mask));
    return mica_pad(n->s, mask, before, after, unseen);
}

/* Which keys queries see, by their places: bool [.., Lq, Lk]; none: all.
 *
 * offset  i64, keys before the first query: [] or, by row, [B, 1, 1, 1] */
static mica_array seen_keys(mc_onnx_node *n, int64_t queries, int64_t keys, mica_array offset) {
    mica_scope *s = n->s;
    int64_t left = mc_onnx_int(n, "left_window_size", -1),
            right = mc_onnx_int(n, "right_window_size", -1);
    mica_array j = mica_arange(s, 0, (double)keys, 1, MICA_I64), seen = MICA_NONE, more;
    mica_array i = mica_expand_dims(s, mica_arange(s, 0, (double)queries, 1, MICA_I64), 1);
    mica_array apart = mica_subtract(s, mica_add(s, i, offset), j); /* above 0: keys before it */
    if (mc_onnx_int(n, "is_causal", 0) && (right < 0 || right > 0)) right = 0;
    if (right >= 0) seen = mica_greater_equal(s, apart, mica_scalar(s, (double)-right, MICA_I64));
    if (left >= 0) {
        more = mica_less_equal(s, apart, mica_scalar(s, (double)left, MICA_I64));
        seen = seen.scope ? mica_logical_and(s, seen, more) : more;
    }
    if (!mc_onnx_has(n, 6)) return seen;
    mica_array lengths = mica_astype(s, n->in[6].x, MICA_I64);
    lengths = mica_reshape(s, lengths, (int64_t[]){mica_array_dim(lengths, 0), 1, 1, 1}, 4);
    more = mica_less(s, j, lengths);
    return seen.scope ? mica_logical_and(s, seen, more) : more;
}

static mica_status give_scores(mc_onnx_node *n, int mode, mica_array x) {
    if (mc_onnx_int(n, "qk_matmul_output_mode", 0) != mode) return MICA_OK;
    return mc_onnx_give(n, 3, mica_astype(n->s, x, mica_array_dtype(n->in[0].x)));
}

/* Attention op by op, for what mica_sdpa does not have: rows of different lengths, windows, and the
 * scores as a result. q [B, H, Lq, D], k and v [B, H / groups, Lk, ..]; computed in f32. */
static mica_status spell_out(mc_onnx_node *n, mica_array q, mica_array k, mica_array v,
                             int64_t past, mica_array *y) {
    mica_scope *s = n->s;
    int64_t queries = mica_array_dim(q, 2), keys = mica_array_dim(k, 2);
    if (mc_dim_sign(mica_array_dim(k, 1)) < 1)
        return mc_fail(MICA_ESHAPE, "its keys have no heads");
    int64_t groups = mc_dim_div(mica_array_dim(q, 1), mica_array_dim(k, 1));
    double scale = mc_onnx_real(n, "scale", 1 / sqrt((double)mica_array_dim(q, 3)));
    double cap = mc_onnx_real(n, "softcap", 0);
    mica_array none = mica_f32(s, -INFINITY), mask = pad_mask(n, mc_onnx_x(n, 3), keys);
    MC_TRY(mc_onnx_need_number(n->import, "the size of heads", mica_array_dim(q, 3)));
    if (groups > 1) k = mica_repeat(s, k, groups, 1);
    if (groups > 1) v = mica_repeat(s, v, groups, 1);
    q = mica_multiply(s, mica_astype(s, q, MICA_F32), mica_f32(s, (float)scale));
    k = mica_astype(s, k, MICA_F32);
    mica_array scores = mica_matmul(s, q, mica_swapaxes(s, k, 2, 3));
    MC_TRY(give_scores(n, 0, scores));
    if (cap > 0) {
        mica_array limit = mica_f32(s, (float)cap);
        scores = mica_multiply(s, mica_tanh(s, mica_divide(s, scores, limit)), limit);
    }
    MC_TRY(give_scores(n, 1, scores));
    mica_array offset = mica_scalar(s, (double)past, MICA_I64);
    if (mc_onnx_has(n, 6)) {
        offset = mica_subtract(s, mica_astype(s, n->in[6].x, MICA_I64),
                               mica_scalar(s, (double)queries, MICA_I64));
        offset = mica_reshape(s, offset, (int64_t[]){mica_array_dim(n->in[6].x, 0), 1, 1, 1}, 4);
    }
    mica_array seen = seen_keys(n, queries, keys, offset);
    if (mask.scope && mica_array_dtype(mask) == MICA_BOOL)
        scores = mica_where(s, mask, scores, none);
    else if (mask.scope)
        scores = mica_add(s, scores, mica_astype(s, mask, MICA_F32));
    if (seen.scope) scores = mica_where(s, seen, scores, none);
    MC_TRY(give_scores(n, 2, scores));
    mica_array any = mica_greater(s, mica_max(s, scores, (int[]){3}, 1, true), none);
    scores = mica_where(s, any, mica_softmax(s, scores, 3), mica_f32(s, 0)); /* sees nothing: 0 */
    MC_TRY(give_scores(n, 3, scores));
    *y = mica_matmul(s, scores, mica_astype(s, v, MICA_F32));
    return mica_scope_status(s);
}

mica_status mc_onnx_attention(mc_onnx_node *n) {
    mica_array q, k, v, y, x = n->in[0].x;
    bool flat = mica_array_ndim(x) == 3;
    bool spelled = mc_onnx_has(n, 6) || mc_onnx_int(n, "left_window_size", -1) >= 0 ||
                   mc_onnx_int(n, "right_window_size", -1) >= 0 ||
                   (n->n_out > 3 && *n->proto->output[3]);
    MC_TRY(split_heads(n, 0, "q_num_heads", &q));
    MC_TRY(split_heads(n, 1, "kv_num_heads", &k));
    MC_TRY(split_heads(n, 2, "kv_num_heads", &v));
    int64_t past = mc_onnx_has(n, 4) ? mica_array_dim(n->in[4].x, 2) : 0;
    MC_TRY(append(n, 4, 1, &k));
    MC_TRY(append(n, 5, 2, &v));
    if (spelled) MC_TRY(spell_out(n, q, k, v, past, &y));
    mica_sdpa_options options = {
        .scale = (float)mc_onnx_real(n, "scale", 0),
        .softcap = (float)mc_onnx_real(n, "softcap", 0),
        .causal = mc_onnx_int(n, "is_causal", 0) != 0,
        .mask = pad_mask(n, mc_onnx_x(n, 3), mica_array_dim(k, 2)),
    };
    if (options.causal)
        options.offset = mica_scalar(n->s, (double)mc_dim_at_most(past, INT32_MAX), MICA_I32);
    if (!spelled) y = mica_sdpa(n->s, q, k, v, &options);
    y = mica_astype(n->s, y, mica_array_dtype(x));
    return mc_onnx_give(n, 0, flat ? mc_onnx_join_heads(n, y) : y);
}

/* ---- losses ---- */

/* The loss of log-probabilities [N, C, ..] under targets [N, ..], each times the weight of its
 * class; targets that are ignored have none. */
static mica_status nll(mc_onnx_node *n, mica_array log_p, size_t weight) {
    mica_array targets = mica_astype(n->s, n->in[1].x, MICA_I64),
               zero = mica_scalar(n->s, 0, MICA_I64);
    mica_dtype dtype = mica_array_dtype(log_p);
    mc_str how = mc_onnx_text(n, "reduction", "mean");
    if (!mc_str_is(how, "mean") && !mc_str_is(how, "sum") && !mc_str_is(how, "none"))
        return mc_onnx_refuse("this reduction");
    if (mica_array_ndim(log_p) < 2 || mica_array_ndim(targets) != mica_array_ndim(log_p) - 1)
        return mc_fail(MICA_ESHAPE, "its operands do not fit");
    mica_array w = mica_full(n->s, mica_array_shape(targets), mica_array_ndim(targets),
                             mica_scalar(n->s, 1, dtype));
    mica_array seen = MICA_NONE;
    if (mc_onnx_attr(n, "ignore_index")) {
        mica_array ignored = mica_scalar(n->s, (double)mc_onnx_int(n, "ignore_index", 0), MICA_I64);
        seen = mica_not_equal(n->s, targets, ignored);
        targets = mica_where(n->s, seen, targets, zero);
    }
    if (mc_onnx_has(n, weight)) w = mica_take(n->s, mc_onnx_x(n, weight), targets, 0);
    if (seen.scope) w = mica_where(n->s, seen, w, mica_scalar(n->s, 0, dtype));
    mica_array at = mica_expand_dims(n->s, targets, 1);
    mica_array loss = mica_squeeze(n->s, mica_take_along_axis(n->s, log_p, at, 1), 1);
    loss = mica_multiply(n->s, mica_negative(n->s, loss), w);
    if (mc_str_is(how, "none")) return mc_onnx_give(n, 0, loss);
    loss = mica_sum(n->s, loss, NULL, 0, false);
    if (mc_str_is(how, "mean")) loss = mica_divide(n->s, loss, mica_sum(n->s, w, NULL, 0, false));
    return mc_onnx_give(n, 0, loss);
}

mica_status mc_onnx_nll_loss(mc_onnx_node *n) {
    return nll(n, n->in[0].x, 2);
}

mica_status mc_onnx_cross_entropy(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    if (mica_array_ndim(x) < 2) return mc_fail(MICA_ESHAPE, "its operand has no classes");
    mica_array log_p = mica_subtract(n->s, x, mica_logsumexp(n->s, x, (int[]){1}, 1, true));
    MC_TRY(mc_onnx_give(n, 1, log_p));
    return nll(n, log_p, 2);
}
