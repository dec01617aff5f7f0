#include "session/cache.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "base/map.h"
#include "device/device.h"

#include <string.h>

/* STEP: entries by which buffers grow. AXIS: the axis of entries. */
enum { STEP = MC_CACHE_STEP, AXIS = 2 };

/* A cache on a pool, as the rows of a batch of one. */
#define ROW(cache) ((const mc_paged *const[]){&(cache)->paged})

/* Attention sums values in groups of so many keys. Entries are dropped in multiples of it, so that
 * groups stay whole. */
static int64_t group_of(const mc_lm *lm) {
    return mc_max(1, mica_scope_device(lm->scope)->backend->keys_together);
}

mica_status mc_cache_init(mc_cache *cache, const mc_lm *lm, mica_device *device, mc_kv_pool *pool,
                          int64_t context, int64_t chunk) {
    *cache = (mc_cache){.lm = lm};
    cache->layers = mc_calloc((size_t)lm->spec.n_layers, sizeof *cache->layers);
    if (!cache->layers) return mc_fail_nomem("a session's caches");
    mc_cache_plan(lm, context, chunk, pool ? pool->block : group_of(lm), cache->layers);
    if (pool) MC_TRY(mc_paged_init(&cache->paged, pool, cache->layers, context, chunk));
    size_t live = 2 * (size_t)lm->spec.n_layers + MC_CACHE_MORE;
    cache->live = mc_array_alloc(live, sizeof *cache->live);
    if (!cache->live) return mc_fail_nomem("a session's caches");
    return mica_scope_open(device, &cache->scratch);
}

void mc_cache_deinit(mc_cache *cache) {
    mica_scope_close(&cache->scratch);
    if (cache->paged.pool) mc_paged_deinit(&cache->paged);
    mc_free(cache->layers);
    mc_free(cache->live);
    *cache = (mc_cache){0};
}

void mc_cache_clear(mc_cache *cache) {
    if (cache->paged.pool) mc_paged_clear(&cache->paged);
    for (int i = 0; i < cache->lm->spec.n_layers; i++) {
        mc_cache_layer *layer = &cache->layers[i];
        layer->k = layer->v = MICA_NONE;
        layer->cap = layer->count = 0;
    }
}

/* Replaces *buffer, one of the layer's, by one of `cap` entries. It begins with the old entries,
 * without the `drop` entries behind the head. The old buffer is freed at once: no more than one
 * buffer exists twice. */
static mica_status replace(mc_cache *cache, mica_scope *home, const mc_cache_layer *layer,
                           int64_t drop, int64_t cap, mica_array *buffer) {
    const mc_lm *lm = cache->lm;
    int64_t head = drop ? layer->head : 0, rest = cap - (layer->count - drop);
    const int64_t shape[] = {1, lm->spec.kv_heads, rest, mc_lm_kv_width(lm)};
    mica_scope *s = cache->scratch;
    mica_array joined = mica_zeros(s, shape, 4, lm->kv_dtype);
    if (layer->count) {
        mica_array old = mica_move(s, *buffer);
        const mica_array parts[] = {
            mica_slice_axis(s, old, AXIS, 0, head),
            mica_slice_axis(s, old, AXIS, head + drop, layer->count),
            joined,
        };
        joined = mica_concatenate(s, parts, 3, AXIS);
    }
    /* Evaluated in s, not in home: home keeps its errors, and it holds the other rows of a batch
     * too. */
    mica_status status = mica_eval(s, joined);
    if (status == MICA_OK) {
        *buffer = mica_materialize(home, joined);
        status = mica_scope_status(home);
    }
    mc_scope_reset(s);
    return status;
}

static mica_status reserve_layer(mc_cache *cache, mica_scope *home, mc_cache_layer *layer,
                                 int64_t n, int64_t later) {
    if (layer->count + n <= layer->cap) return MICA_OK;
    int64_t group = group_of(cache->lm);
    int64_t cap = mc_cache_limit(mc_round_up(layer->count + later, STEP), layer->max), drop = 0;
    if (layer->max && layer->count + n > layer->max) {
        int64_t rest = layer->count - layer->head, needed = layer->window - 1;
        int64_t room = layer->max - layer->head - n - (group - 1);
        int64_t wanted = mc_max(needed, mc_min(needed + MC_CACHE_SLACK, room));
        drop = (rest - mc_min(wanted, rest)) / group * group;
    }
    MC_TRY(replace(cache, home, layer, drop, cap, &layer->k));
    MC_TRY(replace(cache, home, layer, drop, cap, &layer->v));
    layer->count -= drop;
    layer->cap = cap;
    return MICA_OK;
}

mica_status mc_cache_reserve(mc_cache *cache, mica_scope *home, int64_t n, int64_t later) {
    if (cache->paged.pool) return mc_paged_reserve(&cache->paged, n, later);
    for (int i = 0; i < cache->lm->spec.n_layers; i++)
        MC_TRY(reserve_layer(cache, home, &cache->layers[i], n, later));
    return MICA_OK;
}

bool mc_cache_can_reserve(const mc_cache *cache, int64_t n) {
    const mc_kv_pool *pool = cache->paged.pool;
    if (!pool) return true;
    int64_t needed = mc_paged_needed(&cache->paged, n);
    return needed <= pool->n_free || needed <= mc_kv_pool_available(pool);
}

mica_status mc_cache_fork(const mc_cache *from, mc_cache *to) {
    return mc_paged_fork(&from->paged, &to->paged);
}

bool mc_cache_has_room(const mc_cache *cache, int64_t n) {
    for (int i = 0; i < cache->lm->spec.n_layers; i++)
        if (cache->layers[i].count + n > cache->layers[i].cap) return false;
    return true;
}

static mc_attended append(void *context, mica_scope *s, int index, mica_array k, mica_array v) {
    const mc_cache *cache = context;
    mc_cache_layer *layer = &cache->layers[index];
    const int64_t shape[] = {1, cache->lm->spec.kv_heads, layer->cap, mc_lm_kv_width(cache->lm)};
    layer->param_k = mica_program_param(s, cache->lm->kv_dtype, shape, 4);
    layer->param_v = mica_program_param(s, cache->lm->kv_dtype, shape, 4);
    layer->start = layer->alike < index ? cache->layers[layer->alike].start
                                        : mica_program_param(s, MICA_I32, NULL, 0);
    layer->next_k = mica_slice_update_at(s, layer->param_k, k, layer->start, AXIS);
    layer->next_v = mica_slice_update_at(s, layer->param_v, v, layer->start, AXIS);
    return (mc_attended){.k = layer->next_k,
                         .v = layer->next_v,
                         .offset = layer->start,
                         .window = layer->window,
                         .keep = layer->keep};
}

uint64_t mc_cache_shape(const mc_cache *cache) {
    if (cache->paged.pool) return mc_paged_shape(ROW(cache), 1);
    uint64_t hash = 0;
    for (int i = 0; i < cache->lm->spec.n_layers; i++)
        hash = mc_hash(&cache->layers[i].cap, sizeof cache->layers[i].cap, hash);
    return hash;
}

size_t mc_cache_result_count(const mc_cache *cache) {
    if (cache->paged.pool) return mc_paged_result_count(cache->paged.pool);
    return 2 * (size_t)cache->lm->spec.n_layers;
}

size_t mc_cache_param_count(const mc_cache *cache) {
    if (cache->paged.pool) return mc_paged_param_count(cache->paged.pool);
    size_t n = 0;
    for (int i = 0; i < cache->lm->spec.n_layers; i++)
        n += cache->layers[i].alike == i ? 3 : 2;
    return n;
}

void mc_cache_params(const mc_cache *cache, mica_param *params) {
    if (cache->paged.pool) {
        mc_paged_params(cache->paged.pool, params);
        return;
    }
    for (int i = 0; i < cache->lm->spec.n_layers; i++) {
        const mc_cache_layer *layer = &cache->layers[i];
        *params++ = (mica_param){.array = layer->param_k, .donate = true};
        *params++ = (mica_param){.array = layer->param_v, .donate = true};
        if (layer->alike == i) *params++ = (mica_param){.array = layer->start};
    }
}

void mc_cache_results(const mc_cache *cache, mica_array *results) {
    if (cache->paged.pool) {
        mc_paged_results(cache->paged.pool, results);
        return;
    }
    for (int i = 0; i < cache->lm->spec.n_layers; i++) {
        *results++ = cache->layers[i].next_k;
        *results++ = cache->layers[i].next_v;
    }
}

void mc_cache_args(const mc_cache *cache, mica_scope *s, int64_t n, mica_array *args) {
    if (cache->paged.pool) {
        mc_paged_args(ROW(cache), NULL, 1, s, n, args);
        return;
    }
    for (int i = 0; i < cache->lm->spec.n_layers; i++) {
        const mc_cache_layer *layer = &cache->layers[i];
        *args++ = layer->k;
        *args++ = layer->v;
        if (layer->alike == i) *args++ = mica_i32(s, (int32_t)layer->count);
    }
}

mica_status mc_cache_take(mc_cache *cache, mica_scope *home, const mica_array *results) {
    if (cache->paged.pool) return mc_pool_set_arrays(cache->paged.pool, results);
    for (int i = 0; i < cache->lm->spec.n_layers; i++) {
        mc_cache_layer *layer = &cache->layers[i];
        mica_array k = *results++, v = *results++;
        layer->k = k.scope == home ? k : mica_materialize(home, k);
        layer->v = v.scope == home ? v : mica_materialize(home, v);
    }
    return mica_scope_status(home);
}

mica_status mc_cache_collect(mc_cache *cache, mica_scope *home, mica_array *more, size_t n_more) {
    size_t n = 0;
    if (cache->paged.pool) return mica_scope_collect(home, more, n_more);
    for (int i = 0; i < cache->lm->spec.n_layers; i++) {
        if (!cache->layers[i].cap) continue;
        cache->live[n++] = cache->layers[i].k;
        cache->live[n++] = cache->layers[i].v;
    }
    for (size_t i = 0; i < n_more; i++)
        cache->live[n + i] = more[i];
    MC_TRY(mica_scope_collect(home, cache->live, n + n_more));
    for (size_t i = 0; i < n_more; i++)
        more[i] = cache->live[n + i];
    n = 0;
    for (int i = 0; i < cache->lm->spec.n_layers; i++) {
        if (!cache->layers[i].cap) continue;
        cache->layers[i].k = cache->live[n++];
        cache->layers[i].v = cache->live[n++];
    }
    return MICA_OK;
}

mc_kv_store mc_cache_store(mc_cache *cache) {
    if (cache->paged.pool) return mc_paged_store(ROW(cache), 1);
    return (mc_kv_store){.append = append, .context = cache};
}

void mc_cache_commit(mc_cache *cache, int64_t n) {
    for (int i = 0; i < cache->lm->spec.n_layers; i++)
        cache->layers[i].count += n;
}

int64_t mc_cache_reach(const mc_cache *cache) {
    int64_t reach = 0;
    for (int i = 0; i < cache->lm->spec.n_layers; i++) {
        if (!cache->layers[i].max) return 0;
        reach = mc_max(reach, cache->layers[i].max);
    }
    return reach;
}

bool mc_cache_can_cut(const mc_cache *cache, int64_t total, int64_t to) {
    for (int i = 0; i < cache->lm->spec.n_layers; i++) {
        const mc_cache_layer *layer = &cache->layers[i];
        int64_t dropped = total - layer->count;
        if (dropped && to < layer->head + dropped + layer->window - 1) return false;
    }
    return true;
}

void mc_cache_cut(mc_cache *cache, int64_t total, int64_t to) {
    for (int i = 0; i < cache->lm->spec.n_layers; i++)
        cache->layers[i].count -= total - to;
    if (cache->paged.pool) mc_paged_cut(&cache->paged, to);
}

/* The first entries that a file has in any case: those of the head, without what fills up the last
 * block of a pool. */
static int64_t head_of(const mc_cache *cache, const mc_cache_layer *layer) {
    return mc_min(layer->head, mc_round_up(layer->keep, group_of(cache->lm)));
}

bool mc_cache_can_hold(const mc_cache *cache, int index, int64_t total, int64_t count) {
    const mc_cache_layer *layer = &cache->layers[index];
    const mc_cache_layer *alike = &cache->layers[layer->alike];
    if (count < 0 || count > total || (layer->alike < index && alike->count != count)) return false;
    return count == total || (layer->window && count >= head_of(cache, layer) + layer->window - 1);
}

/* A buffer of `cap` entries that begins with `count` given ones. */
static mica_array fill(const mc_lm *lm, mica_scope *home, int64_t cap, int64_t count,
                       const void *entries) {
    const mc_decoder_spec *spec = &lm->spec;
    const int64_t shape[] = {1, spec->kv_heads, cap, mc_lm_kv_width(lm)};
    size_t entry = (size_t)shape[3] * mica_dtype_bytes(lm->kv_dtype);
    size_t row = (size_t)count * entry, stride = (size_t)cap * entry;
    char *data = mc_calloc((size_t)spec->kv_heads, stride);
    if (!data) {
        mc_fail_nomem("a session's caches");
        return MICA_NONE;
    }
    for (size_t i = 0; i < (size_t)spec->kv_heads; i++)
        memcpy(data + i * stride, (const char *)entries + i * row, row);
    mica_array buffer = mica_from_data(home, data, lm->kv_dtype, shape, 4);
    mc_free(data);
    return buffer;
}

mica_status mc_cache_fill(mc_cache *cache, mica_scope *home, int index, int64_t count,
                          const void *k, const void *v) {
    mc_cache_layer *layer = &cache->layers[index];
    if (cache->paged.pool) return mc_paged_fill(&cache->paged, index, count, k, v);
    layer->cap = mc_max(count, mc_cache_limit(mc_round_up(count, STEP), layer->max));
    layer->k = fill(cache->lm, home, layer->cap, count, k);
    layer->v = fill(cache->lm, home, layer->cap, count, v);
    if (!mica_valid(layer->k) || !mica_valid(layer->v)) return MICA_ENOMEM;
    layer->count = count;
    return MICA_OK;
}

int64_t mc_cache_saved_count(const mc_cache *cache, int64_t total, int index) {
    const mc_cache_layer *layer = &cache->layers[index];
    return layer->count - (total > layer->count ? layer->head - head_of(cache, layer) : 0);
}

mica_status mc_cache_read(mc_cache *cache, int64_t total, int index, int which, void *data) {
    const mc_cache_layer *layer = &cache->layers[index];
    int64_t head = head_of(cache, layer), count = mc_cache_saved_count(cache, total, index);
    mica_scope *s = cache->scratch;
    mica_array x = which ? layer->v : layer->k;
    if (cache->paged.pool) x = mc_paged_entries(&cache->paged, s, index, which);
    const mica_array parts[] = {
        mica_slice_axis(s, x, AXIS, 0, head),
        mica_slice_axis(s, x, AXIS, head + layer->count - count, layer->count)};
    if (count < layer->count)
        x = mica_concatenate(s, parts, 2, AXIS);
    else
        x = mica_slice_axis(s, x, AXIS, 0, count);
    size_t bytes = (size_t)(count * cache->lm->spec.kv_heads * mc_lm_kv_width(cache->lm)) *
                   mica_dtype_bytes(cache->lm->kv_dtype);
    mica_status status = mica_read(x, data, bytes);
    mc_scope_reset(s);
    return status;
}

uint64_t mc_cache_bytes(const mc_lm *lm, int64_t tokens, int64_t context, int64_t chunk) {
    const mc_decoder_spec *spec = &lm->spec;
    uint64_t entries = 0;
    for (int i = 0; i < spec->n_layers; i++) {
        mc_cache_layer layer = {0};
        mc_cache_plan_layer(lm, i, context, chunk, group_of(lm), &layer);
        entries += (uint64_t)mc_cache_limit(mc_round_up(tokens, STEP), layer.max);
    }
    return entries * 2 * (uint64_t)spec->kv_heads * (uint64_t)mc_lm_kv_width(lm) *
           mica_dtype_bytes(lm->kv_dtype);
}
