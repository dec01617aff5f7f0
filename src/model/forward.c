#include "model/forward.h"

#include "graph/graph.h"

static mc_attended attend_masked(void *context, mica_scope *s, int layer, mica_array k,
                                 mica_array v) {
    const mc_masked *masked = context;
    return (mc_attended){.k = k,
                         .v = v,
                         .offset = mica_i32(s, 0),
                         .window = mc_spec_attention(&masked->lm->spec, layer)->window,
                         .mask = masked->mask};
}

mc_kv_store mc_masked_store(mc_masked *masked) {
    return (mc_kv_store){.append = attend_masked, .context = masked, .keeps_nothing = true};
}

/* ---- a store of the caller's ---- */

typedef struct given_store {
    const mc_lm *lm;
    const mica_kv_store *store;
    const char *name;                 /* of the function that the caller called */
    mc_attended seen[MC_MAX_SOURCES]; /* by layers that others share */
} given_store;

/* Whether what a store gives for the keys, or values, x of a chunk ends with as many. */
static bool holds_chunk(mica_array seen, mica_array x) {
    if (!mica_valid(seen) || mica_array_dtype(seen) != mica_array_dtype(x)) return false;
    for (int i = 0; i < 4; i++)
        if (i != 2 && mica_array_dim(seen, i) != mica_array_dim(x, i)) return false;
    return mica_array_ndim(seen) == 4 && mica_array_dim(seen, 2) >= mica_array_dim(x, 2);
}

static void ask_store(const given_store *g, mica_scope *s, int layer, mica_array k, mica_array v,
                      mica_kv *kv) {
    if (mica_scope_status(s) != MICA_OK) return;
    mica_status status = g->store->update(g->store->user, s, layer, k, v, kv);
    if (status != MICA_OK) {
        mc_scope_set_status(s, mc_fail_context(status, "%s: the store, layer %d", g->name, layer));
        return;
    }
    if (mica_scope_status(s) == MICA_OK && !(holds_chunk(kv->k, k) && holds_chunk(kv->v, v) &&
                                             mica_array_dim(kv->k, 2) == mica_array_dim(kv->v, 2)))
        mc_scope_fail(s, MICA_ESHAPE,
                      "%s: the store, layer %d: k and v are not [%lld, %lld, N, %lld] of the "
                      "chunk's dtype, N at least %lld",
                      g->name, layer, (long long)mica_array_dim(k, 0),
                      (long long)mica_array_dim(k, 1), (long long)mica_array_dim(k, 3),
                      (long long)mica_array_dim(k, 2));
}

static mc_attended attend_given(void *context, mica_scope *s, int layer, mica_array k,
                                mica_array v) {
    given_store *g = context;
    const mc_decoder_spec *spec = &g->lm->spec;
    int source = mc_spec_source(spec, layer), shared = mc_spec_shared(spec, source);
    mica_kv kv = {0};
    if (source != layer) return g->seen[shared];
    ask_store(g, s, layer, k, v, &kv);
    if (mica_scope_status(s) != MICA_OK) kv = (mica_kv){.k = k, .v = v};
    int64_t before = mica_array_dim(kv.k, 2) - mica_array_dim(k, 2);
    mc_attended seen = {.k = kv.k,
                        .v = kv.v,
                        .offset = mica_i32(s, (int32_t)before),
                        .window = mc_spec_attention(spec, layer)->window,
                        .mask = kv.mask};
    if (shared >= 0) g->seen[shared] = seen;
    return seen;
}

/* What layers carry beside keys and values has no place in a store, and passes over a mask. */
static void check_store(mica_scope *s, const mc_lm *lm, const mica_forward_options *o,
                        const char *name) {
    if (!o->store && !mica_valid(o->mask)) return;
    if (o->store && (o->mask.scope || !o->store->update))
        mc_scope_fail(s, MICA_EINVAL, "%s: %s", name,
                      o->mask.scope ? "mask: the store gives it" : "the store has no update");
    for (int i = 0; i < lm->spec.n_layers; i++)
        if (mc_spec_carrier(&lm->spec, i))
            mc_scope_fail(
                s, MICA_EUNSUPPORTED,
                "%s: layer %d carries more than keys and values, of which a %s says nothing", name,
                i, o->store ? "store" : "mask");
}

static bool is_integer(mica_array x) {
    mica_dtype dtype = mica_array_dtype(x);
    return dtype >= MICA_U8 && dtype <= MICA_I64;
}

/* Checks tokens, or their embeddings; the scope keeps an error. */
static bool check_tokens(mica_scope *s, const mc_lm *lm, mica_array x, bool embedded,
                         const char *name) {
    int ndim = mica_array_ndim(x);
    if (!mica_valid(x)) {
        mc_scope_fail(s, MICA_EINVAL, "%s: ids are no array", name);
    } else if (ndim == 3 && embedded) {
        if (mica_array_dtype(x) != MICA_F32)
            mc_scope_fail(s, MICA_EDTYPE, "%s: embeddings are %s: want f32", name,
                          mica_dtype_name(mica_array_dtype(x)));
        else if (lm->spec.layer_width)
            mc_scope_fail(s, MICA_EUNSUPPORTED,
                          "%s: embeddings: layers of %s read the ids of tokens, too: give those",
                          name, lm->spec.family);
        else if (mica_array_dim(x, 2) != lm->spec.hidden)
            mc_scope_fail(s, MICA_ESHAPE, "%s: embeddings of %lld numbers: the model has %lld",
                          name, (long long)mica_array_dim(x, 2), (long long)lm->spec.hidden);
    } else if (ndim != 2) {
        mc_scope_fail(s, MICA_ESHAPE, "%s: ids have %d axes: want [rows, tokens]", name, ndim);
    } else if (!is_integer(x)) {
        mc_scope_fail(s, MICA_EDTYPE, "%s: ids are %s: want integers", name,
                      mica_dtype_name(mica_array_dtype(x)));
    }
    if (mica_scope_status(s) == MICA_OK && mica_array_size(x) == 0)
        mc_scope_fail(s, MICA_ESHAPE, "%s: there are no tokens", name);
    return mica_scope_status(s) == MICA_OK;
}

static bool is_shape(mica_array x, mica_dtype dtype, int ndim, const int64_t *shape) {
    bool is = mica_array_ndim(x) == ndim && mica_array_dtype(x) == dtype;
    for (int i = 0; is && i < ndim; i++)
        is = shape[i] < 0 || mica_array_dim(x, i) == shape[i];
    return is;
}

/* Checks an array of the options, if it is there. shape: -1 is any length. */
static void check_option(mica_scope *s, const char *name, const char *option, mica_array x,
                         mica_dtype dtype, int ndim, const int64_t *shape) {
    if (!x.scope || is_shape(x, dtype, ndim, shape)) return;
    mc_scope_fail(s, mica_array_dtype(x) == dtype ? MICA_ESHAPE : MICA_EDTYPE,
                  "%s: %s is %s of %d axes: want %s of %d axes that fit the tokens", name, option,
                  mica_valid(x) ? mica_dtype_name(mica_array_dtype(x)) : "no array",
                  mica_array_ndim(x), mica_dtype_name(dtype), ndim);
}

static bool check_options(mica_scope *s, mica_array ids, const mica_forward_options *o,
                          const char *name) {
    int64_t rows = mica_array_dim(ids, 0), length = mica_array_dim(ids, 1);
    const int64_t mask[] = {rows, 1, length, length}, any[] = {-1};
    check_option(s, name, "position", o->position, MICA_I32, mica_array_ndim(o->position) > 0,
                 &rows);
    check_option(s, name, "mask", o->mask, MICA_BOOL, 4, mask);
    check_option(s, name, "at", o->at, MICA_I32, 1, any);
    return mica_scope_status(s) == MICA_OK;
}

/* Numbers of which none counts from the end: those below 0 become large ones. */
static mica_array from_front(mica_scope *s, mica_array x) {
    bool wide = mica_dtype_bytes(mica_array_dtype(x)) == 8;
    return mica_astype(s, x, wide ? MICA_U64 : MICA_U32);
}

mica_array mc_forward(mica_scope *s, const mc_lm *lm, mica_array ids, const mica_forward_options *o,
                      const char *name) {
    if (!check_tokens(s, lm, ids, true, name) || !check_options(s, ids, o, name))
        return mc_invalid(s);
    check_store(s, lm, o, name);
    if (mica_scope_status(s) != MICA_OK) return mc_invalid(s);
    mc_masked masked = {lm, o->mask};
    given_store given = {.lm = lm, .store = o->store, .name = name};
    mc_kv_store store = o->store ? (mc_kv_store){.append = attend_given, .context = &given}
                                 : mc_masked_store(&masked);
    bool stored = o->store || mica_valid(o->mask);
    mica_array position = mica_valid(o->position) ? o->position : mica_i32(s, 0);
    if (mica_array_ndim(ids) == 2) ids = from_front(s, ids);
    mica_array x = mc_lm_forward(s, lm, ids, position, stored ? &store : NULL, MC_HIDDEN);
    if (mica_valid(o->at)) x = mica_take(s, x, from_front(s, o->at), 1);
    return o->hidden ? x : mc_lm_head(s, lm, x);
}

mica_array mc_forward_embed(mica_scope *s, const mc_lm *lm, mica_array ids, const char *name) {
    if (!check_tokens(s, lm, ids, false, name)) return mc_invalid(s);
    return mc_lm_embed(s, lm, from_front(s, ids));
}

mica_array mc_forward_head(mica_scope *s, const mc_lm *lm, mica_array hidden, const char *name) {
    if (!mica_valid(hidden) || mica_array_dtype(hidden) != MICA_F32)
        return mc_scope_fail(s, MICA_EDTYPE, "%s: hidden is no array of f32", name);
    if (mica_array_ndim(hidden) < 1 || mica_array_dim(hidden, -1) != lm->spec.hidden)
        return mc_scope_fail(s, MICA_ESHAPE, "%s: hidden has no last axis of %lld", name,
                             (long long)lm->spec.hidden);
    return mc_lm_head(s, lm, hidden);
}
