#include "model/lm.h"

#include <mica/grad.h>

#include <assert.h>

#include "graph/graph.h"

/* What every step of a pass needs. */
typedef struct pass {
    mica_scope *s;
    const mc_lm *lm;
    const mc_kv_store *store;
    mica_array position; /* i32 [] */
    int64_t batch, length;
} pass;

static mica_array normalise(const pass *p, mica_array x, mica_array weight) {
    if (!mica_valid(weight)) return x;
    return mica_rms_norm(p->s, x, weight, (float)p->lm->spec.norm_eps);
}

/* [B, L, heads * D] -> [B, heads, L, D], each row normalised if there is a norm. */
static mica_array split_heads(const pass *p, mica_array x, int64_t heads, mica_array norm) {
    static const int axes[] = {0, 2, 1, 3};
    const int64_t shape[] = {p->batch, mica_array_dim(x, 1), heads, p->lm->spec.head_dim};
    return mica_transpose(p->s, normalise(p, mica_reshape(p->s, x, shape, 4), norm), axes);
}

/* Rows [first, L) of x [B, L, ...]. */
static mica_array rows_from(const pass *p, mica_array x, int64_t first) {
    return first ? mica_slice_axis(p->s, x, 1, first, p->length) : x;
}

/* position + rows, i32 []. */
static mica_array advance(const pass *p, mica_array position, int64_t rows) {
    return rows ? mica_add(p->s, position, mica_i32(p->s, (int32_t)rows)) : position;
}

static mica_array apply_rope(const pass *p, mica_array x, mica_array position, int rope) {
    const mc_rope_spec *spec = &p->lm->spec.ropes[rope];
    mica_rope_options options = {.base = (float)spec->base};
    if (!spec->llama3) options.scale = (float)(1.0 / spec->factor);
    return mica_rope(p->s, x, position, p->lm->freqs[rope], &options);
}

static mica_array to_kv(const pass *p, mica_array x) {
    if (p->lm->kv_dtype == MICA_U8) return mica_to_q8(p->s, x);
    return mica_astype(p->s, x, p->lm->kv_dtype);
}

/* Attention of q [B, heads, L - first, D] to all keys and values in a store, after this chunk's k
 * and v, which have the store's dtype, are appended. Returns the shape of q. */
static mica_array attend_cached(const pass *p, const mc_kv_store *store, int layer, int64_t first,
                                mica_array q, mica_array k, mica_array v) {
    const mc_decoder_spec *spec = &p->lm->spec;
    mc_attended seen = {.k = k, .v = v, .window = spec->layers[layer].window};
    if (store) {
        seen = store->append(store->context, p->s, layer, k, v);
        seen.offset = advance(p, seen.offset, first);
    }
    mica_sdpa_options options = {
        .scale = (float)spec->attention_scale,
        .causal = true,
        .window = seen.window,
        .keep = seen.keep,
        .softcap = (float)spec->attention_softcap,
        .mask = seen.mask,
        .offset = seen.offset,
    };
    if (seen.table.scope) return mica_paged_sdpa(p->s, q, seen.k, seen.v, seen.table, &options);
    return mica_sdpa(p->s, q, seen.k, seen.v, &options);
}

/* The same for a batch in which each row has its own store, with its own number of keys. */
static mica_array attend_cached_by_rows(const pass *p, int layer, int64_t first, mica_array q,
                                        mica_array k, mica_array v) {
    mica_array y[MC_MAX_ROWS];
    for (int64_t b = 0; b < p->batch; b++)
        y[b] = attend_cached(
            p, &p->store->rows[b], layer, first, mica_slice_axis(p->s, q, 0, b, b + 1),
            mica_slice_axis(p->s, k, 0, b, b + 1), mica_slice_axis(p->s, v, 0, b, b + 1));
    return mica_concatenate(p->s, y, (int)p->batch, 0);
}

/* The attention block: x [B, L, hidden], already normalised -> rows [first, L) of [B, L, hidden].
 * All rows of x get keys and values. */
static mica_array attend(const pass *p, int layer, int64_t first, mica_array x) {
    static const int axes[] = {0, 2, 1, 3};
    const mc_decoder_spec *spec = &p->lm->spec;
    const mc_lm_layer *w = &p->lm->layers[layer];
    const mc_kv_store *store = p->store;
    int rope = spec->layers[layer].rope;
    mica_scope *s = p->s;
    assert(!store || !store->rows || p->batch <= MC_MAX_ROWS);

    mica_array asked = mc_linear_apply(s, &w->q, rows_from(p, x, first));
    mica_array q = split_heads(p, asked, spec->heads, w->q_norm);
    mica_array k = split_heads(p, mc_linear_apply(s, &w->k, x), spec->kv_heads, w->k_norm);
    mica_array v = split_heads(p, mc_linear_apply(s, &w->v, x), spec->kv_heads, MICA_NONE);
    q = apply_rope(p, q, advance(p, p->position, first), rope);
    k = apply_rope(p, k, p->position, rope);
    if (store && store->observe) store->observe(store->observer, layer, q, k);
    k = to_kv(p, k);
    v = to_kv(p, v);
    mica_array y = store && store->rows ? attend_cached_by_rows(p, layer, first, q, k, v)
                                        : attend_cached(p, store, layer, first, q, k, v);
    const int64_t shape[] = {p->batch, p->length - first, spec->heads * spec->head_dim};
    y = mica_reshape(s, mica_transpose(s, y, axes), shape, 3);
    return mc_linear_apply(s, &w->o, y);
}

static mica_array activate(const pass *p, mica_array x) {
    switch (p->lm->spec.activation) {
    case MC_SILU:
        return mica_silu(p->s, x);
    case MC_GELU:
        return mica_gelu(p->s, x);
    case MC_GELU_APPROX:
        break;
    }
    return mica_gelu_approx(p->s, x);
}

/* down(activation(gate(x)) * up(x)): [B, L, hidden] -> [B, L, hidden] */
static mica_array mlp(const pass *p, const mc_lm_layer *w, mica_array x) {
    mica_array gate = activate(p, mc_linear_apply(p->s, &w->gate, x));
    mica_array up = mc_linear_apply(p->s, &w->up, x);
    return mc_linear_apply(p->s, &w->down, mica_multiply(p->s, gate, up));
}

/* Layer i: x [B, L, hidden] -> rows [first, L) of [B, L, hidden]. */
static mica_array decode_layer(const pass *p, int i, int64_t first, mica_array x) {
    const mc_lm_layer *w = &p->lm->layers[i];
    mica_array y = attend(p, i, first, normalise(p, x, w->attention_norm));
    x = mica_add(p->s, rows_from(p, x, first), normalise(p, y, w->attention_post_norm));
    y = mlp(p, w, normalise(p, x, w->mlp_norm));
    return mica_add(p->s, x, normalise(p, y, w->mlp_post_norm));
}

typedef struct layer_call {
    const pass *p;
    int layer;
    int64_t first;
} layer_call;

static mica_status record_layer(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                mica_array *results, size_t n_results) {
    const layer_call *call = user;
    (void)n_args, (void)n_results;
    results[0] = decode_layer(call->p, call->layer, call->first, args[0]);
    return mica_scope_status(s);
}

static mica_array checkpoint_layer(const pass *p, int i, int64_t first, mica_array x) {
    layer_call call = {p, i, first};
    mica_array y;
    /* The scope keeps the error. */
    mc_scope_set_status(p->s, mica_checkpoint(p->s, record_layer, &call, &x, 1, &y, 1));
    return y;
}

mica_array mc_lm_head(mica_scope *s, const mc_lm *lm, mica_array hidden) {
    float cap = (float)lm->spec.final_softcap;
    mica_array logits = mc_linear_apply(s, &lm->head, hidden);
    if (cap == 0.0f) return logits;
    mica_array scale = mica_f32(s, cap);
    return mica_multiply(s, mica_tanh(s, mica_divide(s, logits, scale)), scale);
}

mica_array mc_lm_embed(mica_scope *s, const mc_lm *lm, mica_array ids) {
    float scale = (float)lm->spec.embed_scale;
    mica_array x = mc_linear_rows(s, &lm->embed, ids);
    return scale == 1.0f ? x : mica_multiply(s, x, mica_f32(s, scale));
}

mica_array mc_lm_forward(mica_scope *s, const mc_lm *lm, mica_array ids, mica_array position,
                         const mc_kv_store *store, mc_wanted wanted) {
    pass p = {s, lm, store, position, mica_array_dim(ids, 0), mica_array_dim(ids, 1)};
    mica_array x = mica_array_ndim(ids) == 3 ? ids : mc_lm_embed(s, lm, ids);

    /* The last layer computes keys and values of all rows, and the rest only for the rows that are
     * wanted. */
    int64_t last = wanted == MC_LAST_LOGITS && !(store && store->observe) ? p.length - 1 : 0;
    for (int i = 0; i < lm->spec.n_layers; i++) {
        int64_t first = i == lm->spec.n_layers - 1 ? last : 0;
        x = lm->checkpoint ? checkpoint_layer(&p, i, first, x) : decode_layer(&p, i, first, x);
    }
    if (wanted == MC_NO_LOGITS) return MICA_NONE;
    if (wanted == MC_LAST_LOGITS && last == 0) x = rows_from(&p, x, p.length - 1);
    x = normalise(&p, x, lm->norm);
    return wanted == MC_HIDDEN ? x : mc_lm_head(s, lm, x);
}
