#include "session/cache.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "graph/graph.h"

/* ---- making ---- */

static mica_status open_state(mc_cache *cache, int i, const mc_cache_options *options) {
    mc_state *state = cache->states[i] = mc_calloc(1, cache->plan.states[i].kind->bytes);
    if (!state) return mc_fail_nomem("a session's caches");
    *state = mc_state_planned(&cache->plan, i, cache->lm);
    state->pool = options->pool;
    state->scratch = cache->scratch;
    state->chunk = options->chunk;
    return state->kind->init ? state->kind->init(state) : MICA_OK;
}

static mica_status open_lists(mc_cache *cache) {
    size_t n = 0;
    for (int i = 0; i < cache->plan.n; i++)
        if (cache->states[i]->kind->arrays)
            n += cache->states[i]->kind->arrays(cache->states[i], NULL);
    cache->refs = mc_array_alloc(n + 1, sizeof *cache->refs);
    cache->live = mc_array_alloc(n + MC_CACHE_MORE, sizeof *cache->live);
    return cache->refs && cache->live ? MICA_OK : mc_fail_nomem("a session's caches");
}

mica_status mc_cache_init(mc_cache *cache, const mc_lm *lm, mica_device *device,
                          const mc_cache_options *options) {
    const mc_kv_pool *pool = options->pool;
    *cache = (mc_cache){.lm = lm};
    if (pool && pool->context != options->context)
        return mc_fail(MICA_EINVAL, "a session with another context than its pool");
    MC_TRY(mc_state_plan_init(&cache->plan, lm, options->states, options->context, options->chunk,
                              pool ? pool->block : 0));
    cache->states = mc_calloc((size_t)cache->plan.n + 1, sizeof(mc_state *));
    if (!cache->states) return mc_fail_nomem("a session's caches");
    MC_TRY(mica_scope_open(device, &cache->scratch));
    for (int i = 0; i < cache->plan.n; i++)
        MC_TRY(open_state(cache, i, options));
    mc_trail_init(&cache->trail, options->pool, cache->states);
    return open_lists(cache);
}

void mc_cache_deinit(mc_cache *cache) {
    mc_trail_leave(&cache->trail);
    mc_trail_deinit(&cache->trail);
    for (int i = 0; cache->states && i < cache->plan.n; i++) {
        mc_state *state = cache->states[i];
        if (state && state->kind->deinit) state->kind->deinit(state);
        mc_free(state);
    }
    mica_scope_close(&cache->scratch);
    mc_state_plan_deinit(&cache->plan);
    mc_free(cache->states);
    mc_free(cache->refs);
    mc_free(cache->live);
    *cache = (mc_cache){0};
}

void mc_cache_clear(mc_cache *cache) {
    mc_trail_leave(&cache->trail);
    for (int i = 0; i < cache->plan.n; i++)
        cache->states[i]->kind->clear(cache->states[i]);
}

/* ---- room ---- */

mica_status mc_cache_reserve(mc_cache *cache, mica_scope *home, int64_t n, int64_t later) {
    for (int i = 0; i < cache->plan.n; i++)
        if (cache->states[i]->kind->shed) cache->states[i]->kind->shed(cache->states[i]);
    for (int i = 0; i < cache->plan.n; i++)
        MC_TRY(cache->states[i]->kind->reserve(cache->states[i], home, n, later));
    return mc_trail_reserve(&cache->trail, n);
}

/* Whether a part has the blocks that n tokens take of it. */
static bool part_can_reserve(const mc_cache *cache, const mc_kv_part *part, int64_t n) {
    int64_t needed = 0;
    for (int i = 0; i < cache->plan.together; i++)
        if (mc_kv_part_of(cache->trail.pool, i) == part)
            needed += cache->states[i]->kind->needed(cache->states[i], n);
    return needed <= 0 || needed <= mc_kv_part_available(part);
}

bool mc_cache_can_reserve(const mc_cache *cache, int64_t n) {
    const mc_kv_pool *pool = cache->trail.pool;
    for (int c = 0; pool && c < pool->n_parts; c++)
        if (!part_can_reserve(cache, &pool->parts[c], n)) return false;
    return true;
}

int64_t mc_cache_blocks(const mc_cache *cache) {
    const mc_kv_pool *pool = cache->trail.pool;
    int64_t least = pool ? pool->blocks : 0;
    for (int c = 0; pool && c < pool->n_parts; c++) {
        int64_t blocks = 0;
        for (int i = 0; i < cache->plan.together; i++)
            if (mc_kv_part_of(pool, i) == &pool->parts[c])
                blocks += cache->states[i]->kind->blocks(cache->states[i]);
        least = mc_min(least, mc_kv_pool_scaled(pool, &pool->parts[c], blocks));
    }
    return least;
}

mica_status mc_cache_fork(const mc_cache *from, mc_cache *to, mica_scope *home) {
    mica_status status = mc_trail_copy(&from->trail, &to->trail);
    for (int i = 0; i < from->plan.n && status == MICA_OK; i++) {
        status = from->states[i]->kind->fork(from->states[i], to->states[i], home);
        to->states[i]->count = from->states[i]->count;
        to->states[i]->cap = from->states[i]->cap;
    }
    if (status == MICA_OK) return MICA_OK;
    to->trail.lost = true; /* what was copied is not all there */
    mc_cache_clear(to);
    return status;
}

mica_status mc_cache_collect(mc_cache *cache, mica_scope *home, mica_array *more, size_t n_more) {
    size_t n = 0;
    for (int i = 0; i < cache->plan.n; i++)
        if (cache->states[i]->kind->arrays)
            n += cache->states[i]->kind->arrays(cache->states[i], cache->refs + n);
    for (size_t i = 0; i < n; i++)
        cache->live[i] = *cache->refs[i];
    for (size_t i = 0; i < n_more; i++)
        cache->live[n + i] = more[i];
    MC_TRY(mica_scope_collect(home, cache->live, n + n_more));
    for (size_t i = 0; i < n; i++)
        *cache->refs[i] = cache->live[i];
    for (size_t i = 0; i < n_more; i++)
        more[i] = cache->live[n + i];
    return MICA_OK;
}

bool mc_cache_has_room(const mc_cache *cache, int64_t n) {
    for (int i = 0; i < cache->plan.n; i++) {
        const mc_state *state = cache->states[i];
        if (state->kind->entries && (state->kind->together || state->count + n > state->cap))
            return false;
    }
    return true;
}

bool mc_cache_is_together(const mc_cache *cache) {
    return cache->plan.together == cache->plan.n;
}

mica_status mc_cache_max_saved_bytes(const mc_lm *lm, const mc_cache_options *options,
                                     int64_t tokens, uint64_t *bytes) {
    mc_state_plan plan;
    *bytes = 0;
    MC_TRY(mc_state_plan_init(&plan, lm, options->states, options->context, options->chunk, 0));
    for (int i = 0; i < plan.n; i++) {
        mc_state state = mc_state_planned(&plan, i, lm);
        state.count = tokens;
        *bytes += (uint64_t)state.slots * state.kind->saved_bytes(&state, tokens);
    }
    mc_state_plan_deinit(&plan);
    return MICA_OK;
}

mica_status mc_cache_bytes(const mc_lm *lm, const mc_cache_options *options, int64_t tokens,
                           uint64_t *bytes) {
    mc_state_plan plan;
    *bytes = 0;
    MC_TRY(mc_state_plan_init(&plan, lm, options->states, options->context, options->chunk, 0));
    for (int i = 0; i < plan.n; i++) {
        const mc_state state = mc_state_planned(&plan, i, lm);
        *bytes += state.kind->bytes_after(&state, tokens);
    }
    mc_state_plan_deinit(&plan);
    return MICA_OK;
}

/* ---- going back ---- */

void mc_cache_commit(mc_cache *cache, int64_t n) {
    for (int i = 0; i < cache->plan.n; i++)
        cache->states[i]->count += n;
}

int64_t mc_cache_reach(const mc_cache *cache) {
    int64_t reach = 0;
    for (int i = 0; i < cache->plan.n; i++) {
        int64_t one = cache->states[i]->kind->reach(cache->states[i]);
        if (!one) return 0;
        reach = mc_max(reach, one);
    }
    return reach;
}

int64_t mc_cache_back(const mc_cache *cache, int64_t total, int64_t to) {
    for (int i = 0; i < cache->plan.n && to > 0; i++) {
        int64_t back = cache->states[i]->kind->back(cache->states[i], total, to);
        if (back == to) continue;
        to = back;
        i = -1; /* all again, for an earlier one */
    }
    return to;
}

void mc_cache_cut(mc_cache *cache, int64_t total, int64_t to) {
    mc_trail_cut(&cache->trail, to);
    for (int i = 0; i < cache->plan.n; i++)
        cache->states[i]->kind->cut(cache->states[i], total, to);
}

mica_status mc_cache_snapshot(mc_cache *cache, mica_scope *home, int64_t total, bool lasting) {
    for (int i = 0; i < cache->plan.n; i++)
        if (cache->states[i]->kind->snapshot)
            MC_TRY(cache->states[i]->kind->snapshot(cache->states[i], home, total, lasting));
    return MICA_OK;
}

/* ---- files ---- */

uint64_t mc_cache_saved_bytes(const mc_cache *cache, int64_t total) {
    uint64_t bytes = 0;
    for (int i = 0; i < cache->plan.n; i++)
        bytes += (uint64_t)cache->states[i]->slots *
                 cache->states[i]->kind->saved_bytes(cache->states[i], total);
    return bytes;
}

mica_status mc_cache_write(mc_cache *cache, int64_t total, mc_part_writer *w) {
    for (int i = 0; i < cache->plan.layers; i++) {
        if (mc_state_plan_skips(&cache->plan, i)) continue;
        mc_state *state = cache->states[cache->plan.places[i].state];
        MC_TRY(state->kind->write(state, total, cache->plan.places[i].slot, w));
    }
    return MICA_OK;
}

mica_status mc_cache_read(mc_cache *cache, mica_scope *home, int64_t total, mc_part_reader *r) {
    mica_status status = MICA_OK;
    cache->trail.lost = true;
    for (int i = 0; i < cache->plan.layers && status == MICA_OK; i++) {
        if (mc_state_plan_skips(&cache->plan, i)) continue;
        mc_state *state = cache->states[cache->plan.places[i].state];
        status = state->kind->read(state, home, total, cache->plan.places[i].slot, r);
    }
    if (cache->trail.pool) mc_pool_end_writes(cache->trail.pool);
    return status;
}
