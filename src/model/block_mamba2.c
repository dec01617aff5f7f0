/* Mamba-2: a state [head_dim, state] for each head, which decays at a rate of its own.
 *
 *      z, xBC, dt = in x;  x, B, C = silu(conv(xBC))
 *      d = clip(softplus(dt + dt_bias), min_step, max_step)
 *      S = exp(-exp(A_log) d) S + d x B^T;  y = S C + D x
 *      out (w * norm(y * silu(z)))
 *
 * Heads side by side share a group's B and C; the norm is over each group. It carries the last
 * inputs of the convolution, and S as [state, head_dim].
 *
 * Source: Dao & Gu 2024 (arXiv:2405.21060); the behaviour of transformers 5. */
#include "model/pass.h"

#include <mica/nn.h>

#include <math.h>

static int64_t inner(const mc_block_spec *b) {
    return b->mamba2.heads * b->mamba2.head_dim;
}

/* Of B, or C. */
static int64_t vectors(const mc_block_spec *b) {
    return b->mamba2.groups * b->mamba2.state;
}

static int64_t channels(const mc_block_spec *b) {
    return inner(b) + 2 * vectors(b);
}

static int64_t heads(const mc_block_spec *b) {
    return b->mamba2.heads;
}

static int64_t projected(const mc_block_spec *b) {
    return inner(b) + channels(b) + heads(b);
}

static int64_t taps(const mc_block_spec *b) {
    return b->mamba2.taps;
}

static int64_t kept(const mc_block_spec *b) {
    return 4 * b->hidden + 8 * inner(b) + 4 * channels(b);
}

static const mc_slot slots[MC_MAMBA2_SLOTS] = {
    MC_BLOCK_NORMS("input_layernorm", "attn_norm", "post_attention_layernorm", NULL),
    [MC_MAMBA2_IN] = MC_MATRIX("mamba.in_proj", projected, mc_block_hidden, .gguf = "ssm_in"),
    [MC_MAMBA2_KERNEL] = MC_KERNEL("mamba.conv1d", channels, taps, .gguf = "ssm_conv1d"),
    [MC_MAMBA2_BIAS] = MC_VECTOR("mamba.conv1d.bias", channels, .optional = true, .bare = true,
                                 .gguf = "ssm_conv1d.bias"),
    [MC_MAMBA2_A_LOG] = MC_VECTOR("mamba.A_log", heads, .bare = true, .gguf = "ssm_a"),
    [MC_MAMBA2_D] =
        {.kind = MC_SLOT_VECTOR, .name = "mamba.D", .bare = true, .rows = heads, .gguf = "ssm_d"},
    [MC_MAMBA2_DT_BIAS] = MC_VECTOR("mamba.dt_bias", heads, .bare = true, .gguf = "ssm_dt.bias"),
    [MC_MAMBA2_INNER_NORM] = MC_VECTOR("mamba.norm", inner, .gguf = "ssm_norm"),
    [MC_MAMBA2_OUT] =
        MC_MATRIX("mamba.out_proj", mc_block_hidden, inner, .sensitive = true, .gguf = "ssm_out"),
};

/* x [B, L, n * parts] -> [B, L, parts, n] */
static mica_array divide(const mc_lm_pass *p, mica_array x, int64_t parts) {
    const int64_t shape[] = {p->batch, mica_array_dim(x, 1), parts, mica_array_dim(x, 2) / parts};
    return mica_reshape(p->s, x, shape, 4);
}

/* [B, L, parts, n] -> [B, L, parts * n] */
static mica_array join(const mc_lm_pass *p, mica_array x) {
    return mica_flatten(p->s, x, 2, 3);
}

static mica_array convolve(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    mica_array bias = at->slots[MC_MAMBA2_BIAS].vector;
    x = mc_block_convolve(p, at, MC_MAMBA2_KERNEL, 0, x);
    return mica_silu(p->s, mica_valid(bias) ? mica_add(p->s, x, bias) : x);
}

/* d [B, L, heads] of dt. */
static mica_array steps(const mc_lm_pass *p, const mc_block_at *at, mica_array dt) {
    const mc_mamba2_spec *m = &at->spec->mamba2;
    dt = mica_softplus(p->s, mica_add(p->s, dt, at->slots[MC_MAMBA2_DT_BIAS].vector));
    if (m->min_step > 0) dt = mica_maximum(p->s, dt, mica_f32(p->s, (float)m->min_step));
    if (!isinf(m->max_step)) dt = mica_minimum(p->s, dt, mica_f32(p->s, (float)m->max_step));
    return dt;
}

/* y [B, L, inner], of xBC as it is convolved and d. */
static mica_array scan(const mc_lm_pass *p, const mc_block_at *at, mica_array all, mica_array d) {
    const mc_mamba2_spec *m = &at->spec->mamba2;
    int64_t n = inner(at->spec), k = vectors(at->spec);
    mica_array last, x = divide(p, mica_slice_axis(p->s, all, 2, 0, n), m->heads);
    mica_array b = divide(p, mica_slice_axis(p->s, all, 2, n, n + k), m->groups);
    mica_array c = divide(p, mica_slice_axis(p->s, all, 2, n + k, n + 2 * k), m->groups);
    mica_array rate = mica_negative(p->s, mica_exp(p->s, at->slots[MC_MAMBA2_A_LOG].vector));
    mica_array dx = mica_multiply(p->s, x, mica_expand_dims(p->s, d, -1));
    mica_array skip = mica_expand_dims(p->s, at->slots[MC_MAMBA2_D].vector, -1);
    mica_array y = mica_gated_delta(p->s, c, b, dx, mica_multiply(p->s, rate, d), MICA_NONE,
                                    mc_block_carried(p, at, 1), &last);
    mc_block_carry(p, at, 1, last);
    return join(p, mica_add(p->s, y, mica_multiply(p->s, x, skip)));
}

/* w * norm(y * silu(z)), the norm over each group. */
static mica_array normalise(const mc_lm_pass *p, const mc_block_at *at, mica_array y,
                            mica_array z) {
    y = divide(p, mica_multiply(p->s, y, mica_silu(p->s, z)), at->spec->mamba2.groups);
    y = join(p, mica_rms_norm(p->s, y, MICA_NONE, (float)at->spec->norm_eps));
    return mica_multiply(p->s, y, at->slots[MC_MAMBA2_INNER_NORM].vector);
}

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    int64_t n = inner(at->spec), m = n + channels(at->spec);
    mica_array in = mc_block_apply(p, at, MC_MAMBA2_IN, x);
    mica_array all = convolve(p, at, mica_slice_axis(p->s, in, 2, n, m));
    mica_array d = steps(p, at, mica_slice_axis(p->s, in, 2, m, m + heads(at->spec)));
    mica_array y = mc_block_rows_from(p, scan(p, at, all, d), at->first);
    mica_array z = mc_block_rows_from(p, mica_slice_axis(p->s, in, 2, 0, n), at->first);
    return mc_block_apply(p, at, MC_MAMBA2_OUT, normalise(p, at, y, z));
}

const mc_block mc_block_mamba2 = {
    .name = "mamba2",
    .slots = slots,
    .n_slots = MC_MAMBA2_SLOTS,
    .state = MC_STATE_CARRIED,
    .forward = forward,
    .kept = kept,
};
