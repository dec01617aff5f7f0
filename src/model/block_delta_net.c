/* The gated delta net: linear attention with a state [key_dim, value_dim] for each value head.
 *
 *      q, k, v = silu(conv(qkv x)), q and k of length 1; z, a, b from x
 *      S = alpha S;  u = beta (v - k S);  S = S + k^T u;  o = q S / sqrt key_dim
 *      alpha = exp(-exp(A_log) softplus(a + dt_bias)), beta = sigmoid(b), of each value head
 *      y = out (norm(o) * silu(z))
 *
 * Several value heads share a key head. It carries the last inputs of the convolution, and S.
 *
 * Source: Yang et al. 2024 (arXiv:2412.06464); the behaviour of transformers 5. */
#include "model/pass.h"

#include <mica/nn.h>

#include <math.h>

static int64_t keys(const mc_block_spec *b) {
    return b->delta_net.key_heads * b->delta_net.key_dim;
}

static int64_t values(const mc_block_spec *b) {
    return b->delta_net.value_heads * b->delta_net.value_dim;
}

static int64_t channels(const mc_block_spec *b) {
    return 2 * keys(b) + values(b);
}

static int64_t packed(const mc_block_spec *b) {
    return 2 * keys(b) + 2 * values(b);
}

static int64_t heads(const mc_block_spec *b) {
    return b->delta_net.value_heads;
}

static int64_t two_heads(const mc_block_spec *b) {
    return 2 * b->delta_net.value_heads;
}

static int64_t value_dim(const mc_block_spec *b) {
    return b->delta_net.value_dim;
}

static int64_t taps(const mc_block_spec *b) {
    return b->delta_net.taps;
}

static int64_t kept(const mc_block_spec *b) {
    return 4 * b->hidden + 6 * keys(b) + 12 * values(b);
}

static const mc_slot slots[MC_DELTA_NET_SLOTS] = {
    MC_BLOCK_NORMS("input_layernorm", "attn_norm", "post_attention_layernorm", NULL),
    [MC_DELTA_NET_QKV] = MC_MATRIX("linear_attn.in_proj_qkv", channels, mc_block_hidden,
                                   .optional = true, .gguf = "attn_qkv"),
    [MC_DELTA_NET_Z] = MC_MATRIX("linear_attn.in_proj_z", values, mc_block_hidden, .optional = true,
                                 .gguf = "attn_gate"),
    [MC_DELTA_NET_A] = MC_MATRIX("linear_attn.in_proj_a", heads, mc_block_hidden, .optional = true,
                                 .gguf = "ssm_alpha"),
    [MC_DELTA_NET_B] = MC_MATRIX("linear_attn.in_proj_b", heads, mc_block_hidden, .optional = true,
                                 .gguf = "ssm_beta"),
    [MC_DELTA_NET_QKVZ] = MC_MATRIX("linear_attn.in_proj_qkvz", packed, mc_block_hidden,
                                    .optional = true, .first = MC_DELTA_NET_QKV,
                                    .last = MC_DELTA_NET_Z, .by_heads = true, .gguf = "ssm_in"),
    [MC_DELTA_NET_BA] = MC_MATRIX("linear_attn.in_proj_ba", two_heads, mc_block_hidden,
                                  .optional = true, .gguf = "ssm_ba"),
    [MC_DELTA_NET_KERNEL] = MC_KERNEL("linear_attn.conv1d", channels, taps, .gguf = "ssm_conv1d"),
    [MC_DELTA_NET_A_LOG] = MC_VECTOR("linear_attn.A_log", heads, .bare = true, .gguf = "ssm_a"),
    [MC_DELTA_NET_DT_BIAS] =
        MC_VECTOR("linear_attn.dt_bias", heads, .bare = true, .gguf = "ssm_dt.bias"),
    [MC_DELTA_NET_INNER_NORM] = MC_VECTOR("linear_attn.norm", value_dim, .gguf = "ssm_norm"),
    [MC_DELTA_NET_OUT] = MC_MATRIX("linear_attn.out_proj", mc_block_hidden, values,
                                   .sensitive = true, .gguf = "ssm_out"),
};

/* What x [B, L, hidden] is projected to: [B, L, channels], [B, L, values], [B, L, heads]. */
typedef struct projected {
    mica_array qkv, z, a, b;
} projected;

/* Elements [from, from + n) of the last axis of x [B, L, heads, .], as [B, L, heads * n]. */
static mica_array part(const mc_lm_pass *p, mica_array x, int64_t from, int64_t n) {
    const int64_t shape[] = {p->batch, p->length, mica_array_dim(x, 2) * n};
    return mica_reshape(p->s, mica_slice_axis(p->s, x, 3, from, from + n), shape, 3);
}

/* x [B, L, heads * n] -> [B, L, heads, n] */
static mica_array by_heads(const mc_lm_pass *p, mica_array x, int64_t heads) {
    const int64_t shape[] = {p->batch, mica_array_dim(x, 1), heads, mica_array_dim(x, 2) / heads};
    return mica_reshape(p->s, x, shape, 4);
}

/* For each key head: q, k, and the v and z of its value heads; their b and a. */
static projected unpack(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    const mc_delta_net_spec *d = &at->spec->delta_net;
    int64_t n = d->key_dim, ratio = d->value_heads / d->key_heads, m = ratio * d->value_dim;
    mica_array qkvz = by_heads(p, mc_block_apply(p, at, MC_DELTA_NET_QKVZ, x), d->key_heads);
    mica_array ba = by_heads(p, mc_block_apply(p, at, MC_DELTA_NET_BA, x), d->key_heads);
    mica_array qkv[] = {part(p, qkvz, 0, n), part(p, qkvz, n, n), part(p, qkvz, 2 * n, m)};
    return (projected){.qkv = mica_concatenate(p->s, qkv, 3, 2),
                       .z = part(p, qkvz, 2 * n + m, m),
                       .a = part(p, ba, ratio, ratio),
                       .b = part(p, ba, 0, ratio)};
}

static projected project(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    if (mc_block_has(at, MC_DELTA_NET_QKVZ)) return unpack(p, at, x);
    return (projected){.qkv = mc_block_apply(p, at, MC_DELTA_NET_QKV, x),
                       .z = mc_block_apply(p, at, MC_DELTA_NET_Z, x),
                       .a = mc_block_apply(p, at, MC_DELTA_NET_A, x),
                       .b = mc_block_apply(p, at, MC_DELTA_NET_B, x)};
}

/* x / sqrt(sum x^2 + 1e-6) of each key head, [B, L, keys] -> [B, L, key heads, key_dim]. */
static mica_array to_directions(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    const mc_delta_net_spec *d = &at->spec->delta_net;
    float length = (float)(1 / sqrt((double)d->key_dim));
    x = by_heads(p, x, d->key_heads);
    x = mica_rms_norm(p->s, x, MICA_NONE, 1e-6f / (float)d->key_dim);
    return mica_multiply(p->s, x, mica_f32(p->s, length));
}

/* log alpha [B, L, heads]. */
static mica_array decay(const mc_lm_pass *p, const mc_block_at *at, mica_array a) {
    mica_array rate = mica_exp(p->s, at->slots[MC_DELTA_NET_A_LOG].vector);
    a = mica_softplus(p->s, mica_add(p->s, a, at->slots[MC_DELTA_NET_DT_BIAS].vector));
    return mica_negative(p->s, mica_multiply(p->s, rate, a));
}

/* o [B, L, heads, value_dim] of all rows. */
static mica_array scan(const mc_lm_pass *p, const mc_block_at *at, const projected *in) {
    int64_t n = keys(at->spec), m = values(at->spec);
    mica_array last, qkv = mc_block_convolve(p, at, MC_DELTA_NET_KERNEL, 0, in->qkv);
    qkv = mica_silu(p->s, qkv);
    mica_array q = to_directions(p, at, mica_slice_axis(p->s, qkv, 2, 0, n));
    mica_array k = to_directions(p, at, mica_slice_axis(p->s, qkv, 2, n, 2 * n));
    mica_array v = mica_slice_axis(p->s, qkv, 2, 2 * n, 2 * n + m);
    v = by_heads(p, v, heads(at->spec));
    mica_array o = mica_gated_delta(p->s, q, k, v, decay(p, at, in->a), mica_sigmoid(p->s, in->b),
                                    mc_block_carried(p, at, 1), &last);
    mc_block_carry(p, at, 1, last);
    return o;
}

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    const projected in = project(p, at, x);
    mica_array o = mc_block_rows_from(p, scan(p, at, &in), at->first);
    mica_array z = mc_block_rows_from(p, in.z, at->first);
    o = mc_block_normalise(p, at, MC_DELTA_NET_INNER_NORM, o);
    const int64_t shape[] = {p->batch, mica_array_dim(z, 1), values(at->spec)};
    o = mica_multiply(p->s, mica_reshape(p->s, o, shape, 3), mica_silu(p->s, z));
    return mc_block_apply(p, at, MC_DELTA_NET_OUT, o);
}

const mc_block mc_block_delta_net = {
    .name = "delta_net",
    .slots = slots,
    .n_slots = MC_DELTA_NET_SLOTS,
    .state = MC_STATE_CARRIED,
    .forward = forward,
    .kept = kept,
};
