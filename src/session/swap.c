#include "session/swap.h"

#include "base/alloc.h"

#include <string.h>

/* Bytes of `count` keys, or values, of a layer. */
static size_t bytes_of(const mc_lm *lm, int64_t count) {
    return (size_t)(count * lm->spec.kv_heads * mc_lm_kv_width(lm)) *
           mica_dtype_bytes(lm->kv_dtype);
}

static int64_t *counts_of(const mc_swap *swap) {
    return MC_BUFFER_AT(&swap->counts, int64_t);
}

void mc_swap_drop(mc_swap *swap, mc_kv_pool *pool) {
    if (pool) pool->swapped -= swap->bytes;
    mc_buffer_deinit(&swap->ids);
    mc_buffer_deinit(&swap->counts);
    mc_free(swap->data);
    *swap = (mc_swap){0};
}

/* Lists the entries of the layers, and gets memory for them. */
static mica_status prepare(mc_swap *swap, mc_cache *cache, const mc_tokens *text) {
    mc_kv_pool *pool = cache->paged.pool;
    uint64_t bytes = 0;
    if (!mc_buffer_add(&swap->ids, text->ids.data, text->ids.len))
        return mc_fail_nomem("a copy of caches");
    for (int i = 0; i < cache->lm->spec.n_layers; i++) {
        int64_t count = mc_cache_saved_count(cache, mc_tokens_count(text), i);
        if (!MC_BUFFER_PUSH(&swap->counts, int64_t, count))
            return mc_fail_nomem("a copy of caches");
        bytes += 2 * (uint64_t)bytes_of(cache->lm, count);
    }
    if (bytes > pool->swap_limit - pool->swapped)
        return mc_fail(MICA_ENOMEM, "the copies of caches have %llu bytes of %llu left",
                       (unsigned long long)(pool->swap_limit - pool->swapped),
                       (unsigned long long)pool->swap_limit);
    swap->data = mc_alloc((size_t)bytes);
    if (!swap->data) return mc_fail_nomem("a copy of caches");
    pool->swapped += swap->bytes = bytes;
    return MICA_OK;
}

static mica_status read_layers(mc_swap *swap, mc_cache *cache, int64_t total) {
    char *to = swap->data;
    for (int i = 0; i < cache->lm->spec.n_layers; i++)
        for (int which = 0; which < 2; which++) {
            MC_TRY(mc_cache_read(cache, total, i, which, to));
            to += bytes_of(cache->lm, counts_of(swap)[i]);
        }
    return MICA_OK;
}

mica_status mc_swap_save(mc_swap *swap, mc_cache *cache, const mc_tokens *text) {
    mica_status status = prepare(swap, cache, text);
    if (status == MICA_OK) status = read_layers(swap, cache, mc_tokens_count(text));
    if (status != MICA_OK) mc_swap_drop(swap, cache->paged.pool);
    return status;
}

int64_t mc_swap_reach(const mc_swap *swap, const mc_tokens *text) {
    size_t n = swap->ids.len;
    bool begins = swap->data && !text->start && n <= text->ids.len &&
                  memcmp(swap->ids.data, text->ids.data, n) == 0;
    return begins ? (int64_t)MC_BUFFER_COUNT(&swap->ids, int32_t) : 0;
}

static mica_status write_layers(const mc_swap *swap, mc_cache *cache, mica_scope *home) {
    const char *from = swap->data;
    for (int i = 0; i < cache->lm->spec.n_layers; i++) {
        size_t bytes = bytes_of(cache->lm, counts_of(swap)[i]);
        MC_TRY(mc_cache_fill(cache, home, i, counts_of(swap)[i], from, from + bytes));
        from += 2 * bytes;
    }
    return MICA_OK;
}

mica_status mc_swap_load(const mc_swap *swap, mc_cache *cache, mica_scope *home) {
    const int32_t *ids = MC_BUFFER_AT(&swap->ids, int32_t);
    int64_t n = (int64_t)MC_BUFFER_COUNT(&swap->ids, int32_t);
    mc_trail *trail = &cache->paged.trail;
    mica_status status = write_layers(swap, cache, home);
    mc_pool_end_writes(cache->paged.pool);
    MC_TRY(status);
    trail->lost = false; /* unlike that of a file, the text is known */
    MC_TRY(mc_trail_reserve(trail, n));
    mc_trail_extend(trail, ids, 0, n);
    return MICA_OK;
}
