#include "session/swap.h"

#include "base/alloc.h"

#include <string.h>

void mc_swap_drop(mc_swap *swap) {
    if (swap->pool) swap->pool->swapped -= swap->bytes;
    mc_buffer_deinit(&swap->ids);
    mc_free(swap->data);
    *swap = (mc_swap){0};
}

bool mc_swap_allowed(const mc_cache *cache) {
    return cache->trail.pool && cache->trail.pool->swap_limit;
}

static mica_status save(mc_swap *swap, mc_cache *cache, const mc_tokens *text) {
    mc_kv_pool *pool = cache->trail.pool;
    uint64_t bytes = mc_cache_saved_bytes(cache, mc_tokens_count(text));
    uint64_t left = pool->swap_limit - pool->swapped;
    if (bytes > left)
        return mc_fail(MICA_ENOMEM, "the copies of caches have %llu bytes of %llu left",
                       (unsigned long long)left, (unsigned long long)pool->swap_limit);
    swap->data = mc_alloc((size_t)bytes);
    if (!swap->data || !mc_buffer_add(&swap->ids, text->ids.data, text->ids.len))
        return mc_fail_nomem("a copy of caches");
    swap->pool = pool;
    pool->swapped += swap->bytes = bytes;
    mc_part_writer w = {.memory = swap->data};
    return mc_cache_write(cache, mc_tokens_count(text), &w);
}

mica_status mc_swap_save(mc_swap *swap, mc_cache *cache, const mc_tokens *text) {
    mica_status status = save(swap, cache, text);
    if (status != MICA_OK) mc_swap_drop(swap);
    return status;
}

int64_t mc_swap_reach(const mc_swap *swap, const mc_tokens *text) {
    size_t n = swap->ids.len;
    bool begins = swap->data && !text->start && n <= text->ids.len &&
                  memcmp(swap->ids.data, text->ids.data, n) == 0;
    return begins ? (int64_t)MC_BUFFER_COUNT(&swap->ids, int32_t) : 0;
}

bool mc_swap_pays(const mc_swap *swap, int64_t tokens) {
    return swap->data && tokens >= swap->pool->block;
}

mica_status mc_swap_load(const mc_swap *swap, mc_cache *cache, mica_scope *home) {
    const int32_t *ids = MC_BUFFER_AT(&swap->ids, int32_t);
    int64_t n = (int64_t)MC_BUFFER_COUNT(&swap->ids, int32_t);
    mc_part_reader r = {
        .kind = "copy", .name = "a session", .data = swap->data, .size = (size_t)swap->bytes};
    MC_TRY(mc_cache_read(cache, home, n, &r));
    cache->trail.lost = false; /* unlike that of a file, the text is known */
    swap->pool->swaps++;
    MC_TRY(mc_trail_reserve(&cache->trail, n));
    mc_trail_extend(&cache->trail, ids, 0, n);
    return MICA_OK;
}
