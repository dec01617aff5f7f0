/* Attention: softmax(scale * q k^T + mask) v, with RoPE, grouped keys and values, and, where a
 * family has them, norms of queries and keys, and a gate: the output times its sigmoid.
 *
 * Source: Vaswani et al. 2017 (arXiv:1706.03762); Ainslie et al. 2023 (arXiv:2305.13245). */
#include "model/pass.h"

#include <assert.h>

static int64_t queries(const mc_block_spec *b) {
    return b->attention.heads * b->attention.head_dim;
}

static int64_t query_rows(const mc_block_spec *b) {
    return queries(b) * (b->attention.gated ? 2 : 1);
}

static int64_t keys(const mc_block_spec *b) {
    return b->attention.kv_heads * b->attention.head_dim;
}

static int64_t all_rows(const mc_block_spec *b) {
    return queries(b) + 2 * keys(b);
}

static int64_t heads(const mc_block_spec *b) {
    return b->attention.heads;
}

static int64_t kv_heads(const mc_block_spec *b) {
    return b->attention.kv_heads;
}

static int64_t query_norm(const mc_block_spec *b) {
    return b->attention.wide_norms ? queries(b) : b->attention.head_dim;
}

static int64_t key_norm(const mc_block_spec *b) {
    return b->attention.wide_norms ? keys(b) : b->attention.head_dim;
}

static int64_t kept(const mc_block_spec *b) {
    return 4 * b->hidden + 3 * queries(b) + 6 * keys(b);
}

/* Each rank has its heads, and the keys and values of these: of one head several may have the same.
 * A norm over all heads needs all. */
static bool divide(mc_block_spec *b, int64_t ranks) {
    mc_attention_spec *a = &b->attention;
    bool shared = ranks % a->kv_heads == 0;
    if (a->wide_norms || a->heads % ranks != 0 || (a->kv_heads % ranks != 0 && !shared))
        return false;
    a->heads /= ranks;
    a->kv_heads = shared ? 1 : a->kv_heads / ranks;
    return true;
}

static const mc_slot slots[MC_ATTENTION_SLOTS] = {
    MC_BLOCK_NORMS("input_layernorm", "attn_norm", "post_attention_layernorm",
                   "post_attention_norm"),
    [MC_ATTENTION_Q] = MC_MATRIX("self_attn.q_proj", query_rows, mc_block_hidden, .rotated = heads,
                                 .split = MC_SPLIT_KEPT, .gguf = "attn_q"),
    [MC_ATTENTION_K] = MC_MATRIX("self_attn.k_proj", keys, mc_block_hidden, .rotated = kv_heads,
                                 .split = MC_SPLIT_KEPT, .gguf = "attn_k"),
    [MC_ATTENTION_V] = MC_MATRIX("self_attn.v_proj", keys, mc_block_hidden, .sensitive = true,
                                 .split = MC_SPLIT_KEPT, .gguf = "attn_v"),
    [MC_ATTENTION_O] = MC_MATRIX("self_attn.o_proj", mc_block_hidden, queries,
                                 .split = MC_SPLIT_JOINED, .gguf = "attn_output"),
    [MC_ATTENTION_Q_NORM] =
        MC_NORM("self_attn.q_norm", query_norm, .optional = true, .gguf = "attn_q_norm"),
    [MC_ATTENTION_K_NORM] =
        MC_NORM("self_attn.k_norm", key_norm, .optional = true, .gguf = "attn_k_norm"),
    [MC_ATTENTION_QKV] = MC_MATRIX(
        "self_attn.qkv_proj", all_rows, mc_block_hidden, .optional = true, .split = MC_SPLIT_KEPT,
        .first = MC_ATTENTION_Q, .last = MC_ATTENTION_V, .gguf = "attn_qkv"),
    [MC_ATTENTION_SINKS] = MC_VECTOR("self_attn.sinks", heads, .optional = true, .bare = true,
                                     .split = MC_SPLIT_KEPT, .gguf = "attn_sinks.weight"),
    [MC_ATTENTION_GATE] = MC_MATRIX("self_attn.g_proj", heads, mc_block_hidden, .optional = true,
                                    .split = MC_SPLIT_KEPT),
};

/* [B, L, heads * D] -> [B, L, heads, D] */
static mica_array split_heads(const mc_lm_pass *p, mica_array x, int64_t heads, int64_t dim) {
    const int64_t shape[] = {p->batch, mica_array_dim(x, 1), heads, dim};
    return mica_reshape(p->s, x, shape, 4);
}

/* Queries [B, L, heads, D]; *gate receives that of the output [B, L, heads * D], if there
 * is one. */
static mica_array split_queries(const mc_lm_pass *p, const mc_block_at *at, mica_array q,
                                mica_array *gate) {
    const mc_attention_spec *spec = &at->spec->attention;
    int64_t dim = spec->head_dim;
    const int64_t shape[] = {p->batch, mica_array_dim(q, 1), spec->heads * dim};
    *gate = MICA_NONE;
    if (!spec->gated) return split_heads(p, q, spec->heads, dim);
    q = split_heads(p, q, spec->heads, 2 * dim);
    *gate = mica_reshape(p->s, mica_slice_axis(p->s, q, 3, dim, 2 * dim), shape, 3);
    return mica_slice_axis(p->s, q, 3, 0, dim);
}

mica_array mc_block_swap_heads(const mc_lm_pass *p, mica_array x) {
    static const int axes[] = {0, 2, 1, 3};
    return mica_transpose(p->s, x, axes);
}

mica_array mc_block_advance(const mc_lm_pass *p, mica_array position, int64_t rows) {
    return rows ? mica_add(p->s, position, mica_i32(p->s, (int32_t)rows)) : position;
}

mica_array mc_block_rotate(const mc_lm_pass *p, const mc_block_at *at, mica_array x,
                           mica_array position) {
    int64_t i = at->spec->attention.rope;
    if (i == MC_NO_ROPE) return x;
    const mc_rope_spec *rope = &p->lm->spec.ropes[i];
    bool far = mc_lm_layer_falls_back(p->lm, at->layer);
    const mc_lm_rope *made = far ? &p->lm->far_ropes[i] : &p->lm->ropes[i];
    mica_rope_options options = {.base = (float)rope->base,
                                 .dims = (int)mc_rope_dims(rope),
                                 .traditional = rope->neighbours};
    if (rope->kind == MC_ROPE_LINEAR) options.scale = (float)(1.0 / rope->factor);
    x = mica_rope(p->s, x, position, made->freqs, &options);
    return mica_valid(made->amplitudes) ? mica_multiply(p->s, x, made->amplitudes) : x;
}

/* q [B, heads, L, D], the first of each row at `position`, times what grows with the position. */
static mica_array grow(const mc_lm_pass *p, const mc_block_at *at, mica_array q,
                       mica_array position) {
    const mc_attention_spec *spec = &at->spec->attention;
    const int64_t columns[] = {-1, 1, 1, 1}, column[] = {-1, 1};
    if (spec->growth == 0) return q;
    mica_array t = mica_arange(p->s, 0, (double)mica_array_dim(q, 2), 1, MICA_I32);
    if (mica_array_ndim(position)) position = mica_reshape(p->s, position, columns, 4);
    t = mica_add(p->s, mica_reshape(p->s, t, column, 2), position);
    t = mica_floor_divide(p->s, t, mica_i32(p->s, (int32_t)spec->period));
    t = mica_log1p(p->s, mica_astype(p->s, t, MICA_F32));
    t = mica_multiply(p->s, t, mica_f32(p->s, (float)spec->growth));
    return mica_multiply(p->s, q, mica_add(p->s, t, mica_f32(p->s, 1.0f)));
}

/* A norm over all heads at once, if the spec says so. */
static mica_array normalise_wide(const mc_lm_pass *p, const mc_block_at *at, int slot,
                                 mica_array x) {
    return at->spec->attention.wide_norms ? mc_block_normalise(p, at, slot, x) : x;
}

static mica_array normalise_heads(const mc_lm_pass *p, const mc_block_at *at, int slot,
                                  mica_array x) {
    return at->spec->attention.wide_norms ? x : mc_block_normalise(p, at, slot, x);
}

static mica_array to_kv(const mc_lm_pass *p, mica_array x) {
    if (p->lm->kv_dtype == MICA_U8) return mica_to_q8(p->s, x);
    return mica_astype(p->s, x, p->lm->kv_dtype);
}

/* What an encoder's tokens see of each other: what `seen` has, and `window` of them on
 * each side. */
static mica_array see_both_ways(const mc_lm_pass *p, mica_array seen, int64_t window) {
    const int64_t column[] = {-1, 1};
    if (!window) return seen;
    mica_array at = mica_arange(p->s, 0, (double)p->length, 1, MICA_I32);
    mica_array apart = mica_subtract(p->s, mica_reshape(p->s, at, column, 2), at);
    mica_array near = mica_less_equal(p->s, mica_abs(p->s, apart), mica_i32(p->s, (int32_t)window));
    return seen.scope ? mica_logical_and(p->s, near, seen) : near;
}

/* Attention of q [B, heads, L - first, D] to all keys and values in a store, after this chunk's k
 * and v, which have the store's dtype, are appended; MICA_NONE: those of another layer are. */
static mica_array attend_cached(const mc_lm_pass *p, const mc_block_at *at,
                                const mc_kv_store *store, mica_array q, mica_array k, mica_array v,
                                mica_array sinks) {
    const mc_attention_spec *spec = &at->spec->attention;
    mc_attended seen = {.k = k, .v = v, .window = spec->window};
    if (store && store->append) {
        seen = store->append(store->context, p->s, at->layer, k, v);
        seen.offset = mc_block_advance(p, seen.offset, at->first);
    }
    mica_sdpa_options options = {
        .scale = (float)spec->scale,
        .causal = true,
        .window = seen.window,
        .keep = seen.keep,
        .softcap = (float)spec->soft_cap,
        .mask = seen.mask,
        .offset = seen.offset,
        .sinks = sinks,
    };
    if (p->lm->spec.both_ways) {
        options.causal = false;
        options.window = 0;
        options.mask = see_both_ways(p, seen.mask, spec->window);
    }
    /* Rows of to_q8 are read whole. */
    bool whole = !spec->latent || p->lm->kv_dtype == MICA_U8;
    if (!whole) seen.v = mc_block_part(p, seen.v, 0, spec->latent);
    mica_array y = seen.table.scope ? mica_paged_sdpa(p->s, q, seen.k, seen.v, seen.table, &options)
                                    : mica_sdpa(p->s, q, seen.k, seen.v, &options);
    return whole && spec->latent ? mc_block_part(p, y, 0, spec->latent) : y;
}

static mica_array row_of(const mc_lm_pass *p, mica_array x, int64_t row) {
    return x.scope ? mica_slice_axis(p->s, x, 0, row, row + 1) : x;
}

/* The same for a batch in which each row has its own store, with its own number of keys. */
static mica_array attend_cached_by_rows(const mc_lm_pass *p, const mc_block_at *at, mica_array q,
                                        mica_array k, mica_array v, mica_array sinks) {
    mica_array y[MC_MAX_ROWS];
    assert(p->batch <= MC_MAX_ROWS);
    for (int64_t b = 0; b < p->batch; b++)
        y[b] = attend_cached(p, at, &p->store->rows[b], row_of(p, q, b), row_of(p, k, b),
                             row_of(p, v, b), sinks);
    return mica_concatenate(p->s, y, (int)p->batch, 0);
}

static bool by_rows(const mc_kv_store *store, int layer) {
    return store && store->rows && !(store->together && store->together(store->context, layer));
}

mica_array mc_block_attend_to(const mc_lm_pass *p, const mc_block_at *at, mica_array q,
                              mica_array k, mica_array v, mica_array sinks) {
    if (k.scope) k = to_kv(p, k);
    if (v.scope) v = to_kv(p, v);
    return by_rows(p->store, at->layer) ? attend_cached_by_rows(p, at, q, k, v, sinks)
                                        : attend_cached(p, at, p->store, q, k, v, sinks);
}

/* Queries of rows [first, L) of x, keys and values of all: [B, rows, heads * D]. kv  NULL: another
 * layer has them */
static void project(const mc_lm_pass *p, const mc_block_at *at, mica_array x, mica_array *q,
                    mica_array *kv) {
    int64_t n = queries(at->spec), m = n + keys(at->spec), end = m + keys(at->spec);
    if (!mc_block_has(at, MC_ATTENTION_QKV)) {
        *q = mc_block_apply(p, at, MC_ATTENTION_Q, mc_block_rows_from(p, x, at->first));
        if (kv) kv[0] = mc_block_apply(p, at, MC_ATTENTION_K, x);
        if (kv)
            kv[1] =
                mc_block_has(at, MC_ATTENTION_V) ? mc_block_apply(p, at, MC_ATTENTION_V, x) : kv[0];
        return;
    }
    mica_array all = mc_block_apply(p, at, MC_ATTENTION_QKV, x);
    *q = mc_block_rows_from(p, mc_block_part(p, all, 0, n), at->first);
    if (kv) kv[0] = mc_block_part(p, all, n, m);
    if (kv) kv[1] = mc_block_part(p, all, m, end);
}

/* Keys and values by heads: [B, L, kv_heads, D] and [B, kv_heads, L, D]. */
static void split_keys(const mc_lm_pass *p, const mc_block_at *at, mica_array kv[2]) {
    const mc_attention_spec *spec = &at->spec->attention;
    mica_array k = normalise_wide(p, at, MC_ATTENTION_K_NORM, kv[0]);
    k = split_heads(p, k, spec->kv_heads, spec->head_dim);
    kv[0] = normalise_heads(p, at, MC_ATTENTION_K_NORM, k);
    mica_array v = split_heads(p, kv[1], spec->kv_heads, spec->head_dim);
    if (spec->value_norm) v = mica_rms_norm(p->s, v, MICA_NONE, (float)at->spec->norm_eps);
    kv[1] = mc_block_swap_heads(p, v);
}

/* y [B, L, heads, D] of rows [first, L) times the gate of each head. */
static mica_array gate_heads(const mc_lm_pass *p, const mc_block_at *at, mica_array x,
                             mica_array y) {
    if (!mc_block_has(at, MC_ATTENTION_GATE)) return y;
    x = mc_block_apply(p, at, MC_ATTENTION_GATE, mc_block_rows_from(p, x, at->first));
    return mica_multiply(p->s, y, mica_expand_dims(p->s, mica_sigmoid(p->s, x), -1));
}

mica_array mc_block_attend(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    const mc_attention_spec *spec = &at->spec->attention;
    const mc_kv_store *store = p->store;
    int source = mc_spec_source(&p->lm->spec, at->layer);
    int shared = mc_spec_shared(&p->lm->spec, source);
    bool own = source == at->layer;
    mica_array here[2], *kv = shared < 0 ? here : p->shared[shared];
    mica_array q, gate, position = mc_block_advance(p, p->position, at->first);
    project(p, at, x, &q, own ? kv : NULL);
    q = split_queries(p, at, normalise_wide(p, at, MC_ATTENTION_Q_NORM, q), &gate);
    q = normalise_heads(p, at, MC_ATTENTION_Q_NORM, q);
    if (own) split_keys(p, at, kv);
    q = grow(p, at, mc_block_rotate(p, at, mc_block_swap_heads(p, q), position), position);
    if (own) kv[0] = mc_block_rotate(p, at, mc_block_swap_heads(p, kv[0]), p->position);
    if (store && store->observe) store->observe(store->observer, at->layer, q, kv[0]);
    bool there = !own && store && !store->keeps_nothing; /* the store has them already */
    mica_array y =
        mc_block_attend_to(p, at, q, there ? MICA_NONE : kv[0], there ? MICA_NONE : kv[1],
                           at->slots[MC_ATTENTION_SINKS].vector);
    const int64_t shape[] = {p->batch, p->length - at->first, spec->heads * spec->head_dim};
    y = mica_reshape(p->s, gate_heads(p, at, x, mc_block_swap_heads(p, y)), shape, 3);
    return mica_valid(gate) ? mica_multiply(p->s, y, mica_sigmoid(p->s, gate)) : y;
}

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    return mc_block_apply(p, at, MC_ATTENTION_O, mc_block_attend(p, at, x));
}

const mc_block mc_block_attention = {
    .name = "attention",
    .slots = slots,
    .n_slots = MC_ATTENTION_SLOTS,
    .state = MC_STATE_KEYS,
    .forward = forward,
    .divide = divide,
    .kept = kept,
};
