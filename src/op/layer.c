/* Parts of layers that have names of their own elsewhere: compositions. */
#include <mica/nn.h>

#include "base/options.h"
#include "op/build.h"
#include "op/require.h"

/* ---- activations by their number ---- */

static mica_array identity(mica_scope *s, mica_array x) {
    (void)s;
    return x;
}

mica_array mica_activate(mica_scope *s, mica_activation kind, mica_array x) {
    static mica_array (*const functions[])(mica_scope *, mica_array) = {
        [MICA_ACT_IDENTITY] = identity,  [MICA_ACT_RELU] = mica_relu,
        [MICA_ACT_GELU] = mica_gelu,     [MICA_ACT_GELU_APPROX] = mica_gelu_approx,
        [MICA_ACT_SILU] = mica_silu,     [MICA_ACT_SIGMOID] = mica_sigmoid,
        [MICA_ACT_TANH] = mica_tanh,     [MICA_ACT_EXP] = mica_exp,
        [MICA_ACT_LOG] = mica_log,       [MICA_ACT_SQRT] = mica_sqrt,
        [MICA_ACT_RSQRT] = mica_rsqrt,   [MICA_ACT_NEGATIVE] = mica_negative,
        [MICA_ACT_ABS] = mica_abs,       [MICA_ACT_SIN] = mica_sin,
        [MICA_ACT_COS] = mica_cos,       [MICA_ACT_TAN] = mica_tan,
        [MICA_ACT_ARCTAN] = mica_arctan, [MICA_ACT_ROUND] = mica_round,
    };
    if ((int)kind < 0 || (size_t)kind >= sizeof functions / sizeof *functions)
        return mc_scope_fail(s, MICA_EINVAL, "activate: no activation %d", (int)kind);
    return functions[kind](s, x);
}

/* ---- attention with any mask ---- */

/* [B, L, heads * D] as [B, heads, L, D]. */
static mica_array split_heads(mica_scope *s, mica_array x, int64_t heads) {
    char text[MC_LAYOUT_TEXT];
    const mc_layout *l = mc_layout_of(x);
    if (l->ndim != 3 || heads < 1 || mc_dim_mod(l->shape[2], heads) != 0)
        return mc_scope_fail(s, MICA_ESHAPE, "attention: %s in %lld heads", mc_layout_text(l, text),
                             (long long)heads);
    const int64_t shape[4] = {l->shape[0], l->shape[1], heads, mc_dim_div(l->shape[2], heads)};
    return mica_swapaxes(s, mica_reshape(s, x, shape, 4), 1, 2);
}

static mica_array join_heads(mica_scope *s, mica_array x) {
    if (!mica_valid(x)) return x;
    const int64_t shape[3] = {mica_array_dim(x, 0), mica_array_dim(x, 2),
                              mc_dim_mul(mica_array_dim(x, 1), mica_array_dim(x, 3))};
    return mica_reshape(s, mica_swapaxes(s, x, 1, 2), shape, 3);
}

/* A mask [B, Lk], [B, Lq, Lk] or [B, H, Lq, Lk] of numbers or bool, as bool with four axes. */
static mica_array custom_mask(mica_scope *s, mica_array mask) {
    char text[MC_LAYOUT_TEXT];
    if (!mc_operands_ok(s, "attention", &mask, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(mask);
    if (l->ndim < 2 || l->ndim > 4)
        return mc_scope_fail(s, MICA_ESHAPE, "attention: a mask %s", mc_layout_text(l, text));
    if (l->dtype != MICA_BOOL) mask = mica_greater_equal(s, mask, mica_scalar(s, 0.5, MICA_F32));
    while (mica_valid(mask) && mica_array_ndim(mask) < 4)
        mask = mica_expand_dims(s, mask, 1);
    return mask;
}

static bool mask_of(mica_scope *s, const mica_masked_attention_options *o, mica_sdpa_options *p) {
    *p = (mica_sdpa_options){.scale = o->scale, .softcap = o->softcap};
    p->causal = o->kind == MICA_MASK_CAUSAL || o->kind == MICA_MASK_WINDOW;
    if (o->kind == MICA_MASK_WINDOW) {
        p->window = o->window;
        if (o->window < 1)
            mc_scope_fail(s, MICA_EINVAL, "attention: a window of %lld keys", (long long)o->window);
    } else if (o->kind == MICA_MASK_CUSTOM) {
        p->mask = custom_mask(s, o->mask);
    } else if (o->kind == MICA_MASK_BIAS) {
        p->mask = o->mask;
        if (mc_operands_ok(s, "attention", &o->mask, 1) &&
            !mica_dtype_is_float(mica_array_dtype(o->mask)))
            mc_scope_fail(s, MICA_EDTYPE, "attention: a bias that is no float");
    } else if (o->kind != MICA_MASK_NONE && o->kind != MICA_MASK_CAUSAL) {
        mc_scope_fail(s, MICA_EINVAL, "attention: no mask %d", (int)o->kind);
    }
    return mica_scope_status(s) == MICA_OK;
}

mica_array mica_masked_attention(mica_scope *s, mica_array q, mica_array k, mica_array v,
                                 const mica_masked_attention_options *options) {
    mica_masked_attention_options o;
    mica_sdpa_options p;
    mica_status status = MC_OPTIONS_COPY(mica_masked_attention_options, mask, &o, options);
    if (status != MICA_OK) return mc_fail_in(s, status);
    const mica_array in[3] = {q, k, v};
    if (!mc_operands_ok(s, "attention", in, 3) || !mask_of(s, &o, &p)) return mc_invalid(s);
    if (mica_array_ndim(q) != 3) return mica_sdpa(s, q, k, v, &p);
    int64_t kv_heads = o.kv_heads ? o.kv_heads : o.heads;
    q = split_heads(s, q, o.heads);
    k = split_heads(s, k, kv_heads);
    v = split_heads(s, v, kv_heads);
    return join_heads(s, mica_sdpa(s, q, k, v, &p));
}

/* ---- products, norms, gates ---- */

mica_array mica_matmul_bias_act(mica_scope *s, mica_array x, mica_array w, mica_array bias,
                                mica_activation act) {
    mica_array y = mica_matmul(s, x, w);
    if (bias.scope) y = mica_add(s, y, bias);
    return mica_activate(s, act, y);
}

static mica_array residual(mica_scope *s, mica_array x, mica_array r, mica_array bias) {
    x = mica_add(s, x, r);
    return bias.scope ? mica_add(s, x, bias) : x;
}

mica_array mica_residual_layer_norm(mica_scope *s, mica_array x, mica_array r, mica_array bias,
                                    mica_array gamma, mica_array beta, float eps) {
    return mica_layer_norm(s, residual(s, x, r, bias), gamma, beta, eps);
}

mica_array mica_residual_rms_norm(mica_scope *s, mica_array x, mica_array r, mica_array bias,
                                  mica_array gamma, float eps) {
    return mica_rms_norm(s, residual(s, x, r, bias), gamma, eps);
}

mica_array mica_swiglu(mica_scope *s, mica_array x, bool gate_first) {
    char text[MC_LAYOUT_TEXT];
    if (!mc_operands_ok(s, "swiglu", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    if (l->ndim < 1 || mc_dim_mod(l->shape[l->ndim - 1], 2) != 0)
        return mc_scope_fail(s, MICA_ESHAPE, "swiglu: the last axis of %s is not even",
                             mc_layout_text(l, text));
    int64_t half = mc_dim_div(l->shape[l->ndim - 1], 2);
    mica_array a = mica_slice_axis(s, x, -1, 0, half);
    mica_array b = mica_slice_axis(s, x, -1, half, mc_dim_mul(2, half));
    return mica_multiply(s, gate_first ? b : a, mica_silu(s, gate_first ? a : b));
}

mica_array mica_lora_matmul(mica_scope *s, mica_array x, mica_array w, mica_array a, mica_array b,
                            float scale) {
    mica_array low = mica_matmul(s, mica_matmul(s, x, a), b);
    if (!mica_valid(low)) return mc_invalid(s);
    low = mica_multiply(s, low, mica_scalar(s, (double)scale, mica_array_dtype(low)));
    return mica_add(s, mica_matmul(s, x, w), low);
}

/* ---- attention with its products, and a layer of an encoder ---- */

static mica_array biased(mica_scope *s, mica_array x, mica_array w, mica_array bias) {
    return mica_matmul_bias_act(s, x, w, bias, MICA_ACT_IDENTITY);
}

mica_array mica_attention_block(mica_scope *s, mica_array x, const mica_attention_weights *w,
                                const mica_masked_attention_options *options) {
    mica_masked_attention_options o;
    mica_sdpa_options p;
    mica_status status = MC_OPTIONS_COPY(mica_masked_attention_options, mask, &o, options);
    if (status != MICA_OK) return mc_fail_in(s, status);
    if (!w) return mc_scope_fail(s, MICA_EINVAL, "attention_block: the weights are NULL");
    if (!mask_of(s, &o, &p)) return mc_invalid(s);
    mica_array qkv = biased(s, x, w->qkv, w->qkv_bias), parts[3];
    if (!mica_valid(qkv)) return mc_invalid(s);
    const int64_t kv_heads = o.kv_heads ? o.kv_heads : o.heads,
                  heads[3] = {o.heads, kv_heads, kv_heads};
    const int64_t width = mica_array_dim(qkv, -1);
    if (mc_dim_has_symbols(width)) return mc_need_number(s, "attention_block", width);
    if (o.heads < 1 || kv_heads < 1 || kv_heads > width || width % (o.heads + 2 * kv_heads) != 0)
        return mc_scope_fail(s, MICA_ESHAPE,
                             "attention_block: %lld columns for %d heads of q, %lld of k and of v",
                             (long long)width, o.heads, (long long)kv_heads);
    const int64_t head_dim = width / (o.heads + 2 * kv_heads);
    for (int64_t i = 0, at = 0; i < 3; at += heads[i++] * head_dim) {
        parts[i] = mica_slice_axis(s, qkv, -1, at, at + heads[i] * head_dim);
        parts[i] = split_heads(s, parts[i], heads[i]);
        if (i < 2 && w->cos.scope) parts[i] = mica_rope_tables(s, parts[i], w->cos, w->sin);
        if (!mica_valid(parts[i])) return mc_invalid(s);
    }
    mica_array y = join_heads(s, mica_sdpa(s, parts[0], parts[1], parts[2], &p));
    return biased(s, y, w->out, w->out_bias);
}

mica_array mica_transformer_layer(mica_scope *s, mica_array x, const mica_layer_weights *w,
                                  mica_activation act, float eps,
                                  const mica_masked_attention_options *options) {
    if (!w) return mc_scope_fail(s, MICA_EINVAL, "transformer_layer: the weights are NULL");
    mica_array a = mica_attention_block(s, x, &w->attention, options);
    mica_array h = mica_residual_layer_norm(s, x, a, MICA_NONE, w->norm1, w->norm1_bias, eps);
    mica_array y = mica_matmul_bias_act(s, h, w->up, w->up_bias, act);
    y = biased(s, y, w->down, w->down_bias);
    return mica_residual_layer_norm(s, h, y, MICA_NONE, w->norm2, w->norm2_bias, eps);
}

/* ---- a loss with labels that are left out ---- */

mica_array mica_softmax_cross_entropy(mica_scope *s, mica_array logits, mica_array labels,
                                      const int64_t *ignore_index) {
    const mica_array in[2] = {logits, labels};
    if (!mc_operands_ok(s, "softmax_cross_entropy", in, 2)) return mc_invalid(s);
    mica_dtype dtype = mica_array_dtype(labels);
    if (dtype < MICA_U8 || dtype > MICA_I64)
        return mc_scope_fail(s, MICA_EDTYPE, "softmax_cross_entropy: labels of %s",
                             mica_dtype_name(dtype));
    mica_array zero = mica_scalar(s, 0, MICA_I64), ignored = MICA_NONE;
    labels = mica_astype(s, labels, MICA_I64);
    if (ignore_index) {
        ignored = mica_equal(s, labels, mica_scalar(s, (double)*ignore_index, MICA_I64));
        labels = mica_where(s, ignored, zero, labels);
    }
    labels = mc_require(s, labels, mica_greater_equal(s, labels, zero), MC_REQUIRE_LABEL);
    mica_array y = mica_cross_entropy(s, logits, labels);
    if (!ignore_index || !mica_valid(y)) return y;
    return mica_where(s, ignored, mica_scalar(s, 0, mica_array_dtype(y)), y);
}
