/* Operators of layers: attention, and losses. */
#include "onnx/import.h"

#include "base/integer.h"

#include <mica/ops.h>

#include <math.h>

/* ---- attention ---- */

/* [B, L, heads * D] as [B, heads, L, D]; four axes as they are. */
static mica_status split_heads(mc_onnx_node *n, size_t i, const char *heads, mica_array *x) {
    *x = mc_onnx_x(n, i);
    if (mica_array_ndim(*x) == 4) return MICA_OK;
    int64_t count = mc_onnx_int(n, heads, 0);
    if (mica_array_ndim(*x) != 3 || count < 1 || mica_array_dim(*x, 2) % count != 0)
        return mc_fail(MICA_ESHAPE, "operand %zu has no %lld heads", i, (long long)count);
    const int64_t shape[] = {mica_array_dim(*x, 0), mica_array_dim(*x, 1), count,
                             mica_array_dim(*x, 2) / count};
    *x = mica_swapaxes(n->s, mica_reshape(n->s, *x, shape, 4), 1, 2);
    return MICA_OK;
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
    if (!mask.scope || ndim == 0 || mica_array_dim(mask, -1) >= keys) return mask;
    after[ndim - 1] = keys - mica_array_dim(mask, -1);
    bool is_bool = mica_array_dtype(mask) == MICA_BOOL;
    mica_array unseen = mica_scalar(n->s, is_bool ? 0 : -INFINITY, mica_array_dtype(mask));
    return mica_pad(n->s, mask, before, after, unseen);
}

mica_status mc_onnx_attention(mc_onnx_node *n) {
    mica_array q, k, v, x = n->in[0].x;
    bool flat = mica_array_ndim(x) == 3;
    if (mc_onnx_has(n, 6)) return mc_onnx_refuse("attention over lengths of rows");
    if (mc_onnx_int(n, "left_window_size", -1) >= 0 || mc_onnx_int(n, "right_window_size", -1) >= 0)
        return mc_onnx_refuse("attention's windows");
    if (n->n_out > 3 && *n->proto->output[3]) return mc_onnx_refuse("the scores of attention");
    MC_TRY(split_heads(n, 0, "q_num_heads", &q));
    MC_TRY(split_heads(n, 1, "kv_num_heads", &k));
    MC_TRY(split_heads(n, 2, "kv_num_heads", &v));
    int64_t past = mc_onnx_has(n, 4) ? mica_array_dim(n->in[4].x, 2) : 0;
    MC_TRY(append(n, 4, 1, &k));
    MC_TRY(append(n, 5, 2, &v));
    mica_sdpa_options options = {
        .scale = (float)mc_onnx_real(n, "scale", 0),
        .softcap = (float)mc_onnx_real(n, "softcap", 0),
        .causal = mc_onnx_int(n, "is_causal", 0) != 0,
        .mask = pad_mask(n, mc_onnx_x(n, 3), mica_array_dim(k, 2)),
    };
    if (options.causal) options.offset = mica_i32(n->s, (int32_t)mc_min(past, INT32_MAX));
    mica_array y = mica_astype(n->s, mica_sdpa(n->s, q, k, v, &options), mica_array_dtype(x));
    if (!flat) return mc_onnx_give(n, 0, y);
    y = mica_swapaxes(n->s, y, 1, 2);
    const int64_t shape[] = {mica_array_dim(x, 0), mica_array_dim(x, 1), -1};
    return mc_onnx_give(n, 0, mica_reshape(n->s, y, shape, 3));
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
