/* MLA, attention over latents: what is kept of a token is one vector, of which each head makes a
 * key and a value.
 *
 *      c, r = kv_down x;  c = norm(c), r = rope(r)
 *      q = q_up norm(q_down x), or q x; of each head its plain part, and what RoPE rotates
 *      k = [K c, r], v = V c, of each head
 *      y = o softmax(scale * q k^T) v
 *
 * K c is never made: a head's plain part times K meets c itself, and V is applied to the sum of
 * latents. So all heads attend to one head of keys, [c, r], whose first part is the values, and a
 * token is computed in the same way alone and among others.
 *
 * Source: DeepSeek-AI 2024 (arXiv:2405.04434), section 2.1 and appendix B; the behaviour of
 * transformers 5. */
#include "model/pass.h"

static int64_t heads(const mc_block_spec *b) {
    return b->attention.heads;
}

static int64_t latent(const mc_block_spec *b) {
    return b->attention.latent;
}

static int64_t query_latent(const mc_block_spec *b) {
    return b->mla.query_latent;
}

static int64_t plain(const mc_block_spec *b) {
    return b->mla.plain;
}

static int64_t value_dim(const mc_block_spec *b) {
    return b->mla.value_dim;
}

/* What is kept of a token. */
static int64_t kept_of_token(const mc_block_spec *b) {
    return b->attention.head_dim;
}

static int64_t query_dim(const mc_block_spec *b) {
    return plain(b) + b->attention.head_dim - latent(b);
}

static int64_t queries(const mc_block_spec *b) {
    return heads(b) * query_dim(b);
}

static int64_t up_rows(const mc_block_spec *b) {
    return heads(b) * (plain(b) + value_dim(b));
}

static int64_t values(const mc_block_spec *b) {
    return heads(b) * value_dim(b);
}

static int64_t kept(const mc_block_spec *b) {
    return 3 * b->hidden + 3 * query_latent(b) + 2 * queries(b) + values(b) +
           heads(b) * (kept_of_token(b) + 2 * latent(b)) + 4 * kept_of_token(b);
}

/* Each rank has its heads; latents are kept by all. */
static bool divide(mc_block_spec *b, int64_t ranks) {
    if (heads(b) % ranks != 0) return false;
    b->attention.heads /= ranks;
    return true;
}

static const mc_slot slots[MC_MLA_SLOTS] = {
    MC_BLOCK_NORMS("input_layernorm", "attn_norm", "post_attention_layernorm", NULL),
    [MC_MLA_Q] = MC_MATRIX("self_attn.q_proj", queries, mc_block_hidden, .optional = true,
                           .split = MC_SPLIT_KEPT, .gguf = "attn_q"),
    [MC_MLA_Q_DOWN] =
        MC_MATRIX("self_attn.q_a_proj", query_latent, mc_block_hidden, .gguf = "attn_q_a"),
    [MC_MLA_Q_NORM] = MC_NORM("self_attn.q_a_layernorm", query_latent, .gguf = "attn_q_a_norm"),
    [MC_MLA_Q_UP] = MC_MATRIX("self_attn.q_b_proj", queries, query_latent, .split = MC_SPLIT_KEPT,
                              .gguf = "attn_q_b"),
    [MC_MLA_KV_DOWN] = MC_MATRIX("self_attn.kv_a_proj_with_mqa", kept_of_token, mc_block_hidden,
                                 .sensitive = true, .gguf = "attn_kv_a_mqa"),
    [MC_MLA_KV_NORM] = MC_NORM("self_attn.kv_a_layernorm", latent, .gguf = "attn_kv_a_norm"),
    [MC_MLA_KV_UP] =
        MC_MATRIX("self_attn.kv_b_proj", up_rows, latent, .split = MC_SPLIT_OWN,
                  .first = MC_MLA_K_UP, .last = MC_MLA_V_UP, .by_heads = true, .gguf = "attn_kv_b"),
    [MC_MLA_K_UP] = MC_MATRIX("self_attn.embed_q", latent, plain, .optional = true,
                              .experts = heads, .split = MC_SPLIT_OWN, .gguf = "attn_k_b"),
    [MC_MLA_V_UP] = MC_MATRIX("self_attn.unembed_out", value_dim, latent, .optional = true,
                              .experts = heads, .split = MC_SPLIT_OWN, .gguf = "attn_v_b"),
    [MC_MLA_O] = MC_MATRIX("self_attn.o_proj", mc_block_hidden, values, .split = MC_SPLIT_JOINED,
                           .gguf = "attn_output"),
};

/* [B, L, heads, D] -> [heads, B * L, D]: what each head's matrix meets. */
static mica_array to_heads(const mc_lm_pass *p, mica_array x) {
    const int64_t shape[] = {-1, mica_array_dim(x, 2), mica_array_dim(x, 3)};
    return mica_swapaxes(p->s, mica_reshape(p->s, x, shape, 3), 0, 1);
}

/* Back. */
static mica_array from_heads(const mc_lm_pass *p, mica_array x) {
    const int64_t shape[] = {p->batch, -1, mica_array_dim(x, 0), mica_array_dim(x, 2)};
    return mica_reshape(p->s, mica_swapaxes(p->s, x, 0, 1), shape, 4);
}

/* A latent's norm has an eps of its own, whatever the config says. */
static mica_array normalise(const mc_lm_pass *p, const mc_block_at *at, int slot, mica_array x) {
    return mica_rms_norm(p->s, x, at->slots[slot].vector, 1e-6f);
}

/* The plain parts of queries [B, L, heads, plain], as they meet latents: [B, L, heads, latent]. */
static mica_array to_latents(const mc_lm_pass *p, const mc_block_at *at, mica_array q) {
    mica_array x = to_heads(p, q);
    if (mc_block_has(at, MC_MLA_K_UP)) {
        x = mc_linear_each(p->s, &at->slots[MC_MLA_K_UP].linear, x);
    } else {
        const mc_linear k = mc_linear_part(p->s, &at->slots[MC_MLA_KV_UP].linear, heads(at->spec),
                                           0, plain(at->spec));
        x = mc_linear_each_back(p->s, &k, x);
    }
    return from_heads(p, x);
}

/* Sums of latents [B, L, heads, latent] -> the heads' outputs [B, L, heads, value_dim]. */
static mica_array to_values(const mc_lm_pass *p, const mc_block_at *at, mica_array y) {
    int64_t first = plain(at->spec), end = first + value_dim(at->spec);
    mica_array x = to_heads(p, y);
    if (mc_block_has(at, MC_MLA_V_UP)) {
        x = mc_linear_each(p->s, &at->slots[MC_MLA_V_UP].linear, x);
    } else {
        const mc_linear v =
            mc_linear_part(p->s, &at->slots[MC_MLA_KV_UP].linear, heads(at->spec), first, end);
        x = mc_linear_each(p->s, &v, x);
    }
    return from_heads(p, x);
}

/* Of rows [first, L): [B, heads, L - first, latent, and what is rotated]. */
static mica_array make_queries(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    int64_t n = plain(at->spec), width = query_dim(at->spec);
    x = mc_block_rows_from(p, x, at->first);
    if (mc_block_has(at, MC_MLA_Q)) {
        x = mc_block_apply(p, at, MC_MLA_Q, x);
    } else {
        x = normalise(p, at, MC_MLA_Q_NORM, mc_block_apply(p, at, MC_MLA_Q_DOWN, x));
        x = mc_block_apply(p, at, MC_MLA_Q_UP, x);
    }
    x = mica_unflatten(p->s, x, -1, (int64_t[]){heads(at->spec), width}, 2);
    mica_array turned = mc_block_swap_heads(p, mc_block_part(p, x, n, width));
    mica_array parts[] = {
        mc_block_swap_heads(p, to_latents(p, at, mc_block_part(p, x, 0, n))),
        mc_block_rotate(p, at, turned, mc_block_advance(p, p->position, at->first))};
    return mica_concatenate(p->s, parts, 2, 3);
}

/* [B, 1, L, latent, and what is rotated] */
static mica_array make_keys(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    int64_t n = latent(at->spec), width = kept_of_token(at->spec);
    x = mica_expand_dims(p->s, mc_block_apply(p, at, MC_MLA_KV_DOWN, x), 1);
    mica_array parts[] = {normalise(p, at, MC_MLA_KV_NORM, mc_block_part(p, x, 0, n)),
                          mc_block_rotate(p, at, mc_block_part(p, x, n, width), p->position)};
    return mica_concatenate(p->s, parts, 2, 3);
}

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    const int64_t shape[] = {p->batch, p->length - at->first, values(at->spec)};
    mica_array q = make_queries(p, at, x), k = make_keys(p, at, x);
    if (p->store && p->store->observe) p->store->observe(p->store->observer, at->layer, q, k);
    mica_array y = mc_block_attend_to(p, at, q, k, k, MICA_NONE);
    y = mica_reshape(p->s, to_values(p, at, mc_block_swap_heads(p, y)), shape, 3);
    return mc_block_apply(p, at, MC_MLA_O, y);
}

const mc_block mc_block_mla = {
    .name = "mla",
    .slots = slots,
    .n_slots = MC_MLA_SLOTS,
    .state = MC_STATE_KEYS,
    .forward = forward,
    .divide = divide,
    .kept = kept,
};
