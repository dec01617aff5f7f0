#include "exec/cache.h"

#include <string.h>

#include "base/alloc.h"

/* Decoders of a thousand nodes take about a megabyte, and a few of them serve a model. */
#define LIMIT_BYTES ((size_t)64 << 20)

static void free_entry(mc_cached *entry) {
    mc_compiled_free(entry->compiled);
    mc_buffer_deinit(&entry->key);
    mc_free(entry);
}

static void free_list(mc_cached *list) {
    while (list) {
        mc_cached *next = list->next;
        free_entry(list);
        list = next;
    }
}

static void free_cache(mc_device_part *part) {
    mc_graph_cache *cache = (mc_graph_cache *)(void *)part;
    for (int i = 0; i < MC_CACHE_BUCKETS; i++)
        free_list(cache->buckets[i]);
    pthread_mutex_destroy(&cache->lock);
    mc_free(cache);
}

static mc_graph_cache *new_cache(void) {
    mc_graph_cache *cache = mc_calloc(1, sizeof *cache);
    if (!cache) return NULL;
    cache->part.free = free_cache;
    cache->limit_bytes = LIMIT_BYTES;
    if (pthread_mutex_init(&cache->lock, NULL) == 0) return cache;
    mc_free(cache);
    return NULL;
}

mc_graph_cache *mc_graph_cache_of(mica_device *device) {
    mc_device_part *there = atomic_load_explicit(&device->graphs, memory_order_acquire);
    if (there) return (mc_graph_cache *)(void *)there;
    mc_graph_cache *cache = new_cache();
    if (!cache) return NULL;
    if (atomic_compare_exchange_strong(&device->graphs, &there, &cache->part)) return cache;
    free_cache(&cache->part); /* another thread was first */
    return (mc_graph_cache *)(void *)there;
}

static mc_cached **bucket_of(mc_graph_cache *cache, uint64_t hash) {
    return &cache->buckets[hash % MC_CACHE_BUCKETS];
}

/* Under the lock. */
static mc_cached *find_graph(mc_graph_cache *cache, const mc_trace *trace) {
    mc_cached *entry = *bucket_of(cache, trace->hash);
    while (entry && (entry->hash != trace->hash || entry->key.len != trace->key.len ||
                     memcmp(entry->key.data, trace->key.data, trace->key.len) != 0))
        entry = entry->next;
    return entry;
}

/* Under the lock: the place that points to the entry used longest ago, of those with no other user
 * than the cache where `unused`; NULL: there is none. */
static mc_cached **find_oldest(mc_graph_cache *cache, bool unused) {
    mc_cached **oldest = NULL;
    for (int i = 0; i < MC_CACHE_BUCKETS; i++)
        for (mc_cached **at = &cache->buckets[i]; *at; at = &(*at)->next)
            if ((!unused || (*at)->users == 1) && (!oldest || (*at)->used < (*oldest)->used))
                oldest = at;
    return oldest;
}

/* Under the lock: takes an entry out; where nobody holds it, it goes to the list *dead. */
static void take_out(mc_graph_cache *cache, mc_cached **at, mc_cached **dead) {
    mc_cached *entry = *at;
    *at = entry->next;
    entry->next = NULL;
    cache->count--;
    cache->bytes -= entry->bytes;
    if (--entry->users > 0) return;
    entry->next = *dead;
    *dead = entry;
}

/* Under the lock: what entries hold now, which grows with what devices note of their launches. */
static void count_bytes(mc_graph_cache *cache) {
    cache->bytes = 0;
    for (int i = 0; i < MC_CACHE_BUCKETS; i++)
        for (mc_cached *entry = cache->buckets[i]; entry; entry = entry->next) {
            entry->bytes = sizeof *entry + entry->key.len + mc_compiled_bytes(entry->compiled);
            cache->bytes += entry->bytes;
        }
}

/* Under the lock: down to the limit, but for the entry that was used last. */
static mc_cached *shrink(mc_graph_cache *cache) {
    mc_cached *dead = NULL;
    count_bytes(cache);
    while (cache->bytes > cache->limit_bytes && cache->count > 1)
        take_out(cache, find_oldest(cache, false), &dead);
    return dead;
}

void mc_graph_cache_clear(mc_graph_cache *cache) {
    mc_cached *dead = NULL, **at;
    pthread_mutex_lock(&cache->lock);
    while ((at = find_oldest(cache, true)) != NULL)
        take_out(cache, at, &dead);
    pthread_mutex_unlock(&cache->lock);
    free_list(dead);
}

void mc_graph_cache_set_limit(mc_graph_cache *cache, size_t bytes) {
    pthread_mutex_lock(&cache->lock);
    cache->limit_bytes = bytes;
    mc_cached *dead = shrink(cache);
    pthread_mutex_unlock(&cache->lock);
    free_list(dead);
}

static mica_status make(mica_device *device, const mc_trace *trace, mc_cached **out) {
    mc_cached *entry = mc_calloc(1, sizeof *entry);
    *out = NULL;
    if (!entry) return mc_fail_nomem("compiling a graph");
    entry->hash = trace->hash;
    mica_status status = MICA_OK;
    if (!mc_buffer_add(&entry->key, trace->key.data, trace->key.len))
        status = mc_fail_nomem("compiling a graph");
    if (status == MICA_OK) status = mc_compiled_make(device, trace, &entry->compiled);
    if (status != MICA_OK) {
        free_entry(entry);
        return status;
    }
    *out = entry;
    return MICA_OK;
}

mica_status mc_cached_get(mica_device *device, const mc_trace *trace, mc_cached **out) {
    mc_cached *dead = NULL;
    *out = NULL;
    mc_graph_cache *cache = mc_graph_cache_of(device);
    if (!cache) return mc_fail_nomem("the cache of graphs");
    pthread_mutex_lock(&cache->lock);
    mc_cached *entry = find_graph(cache, trace);
    if (!entry) {
        cache->misses++;
        /* Compiling takes milliseconds: others may run meanwhile. Two threads that compile the same
         * keep two entries, of which one ages away. */
        pthread_mutex_unlock(&cache->lock);
        MC_TRY(make(device, trace, &entry));
        pthread_mutex_lock(&cache->lock);
        entry->users = 1;
        entry->next = *bucket_of(cache, entry->hash);
        *bucket_of(cache, entry->hash) = entry;
        cache->count++;
        entry->used = ++cache->clock;
        dead = shrink(cache);
    } else {
        cache->hits++;
    }
    entry->users++;
    entry->used = ++cache->clock;
    pthread_mutex_unlock(&cache->lock);
    free_list(dead);
    *out = entry;
    return MICA_OK;
}

void mc_cached_put(mica_device *device, mc_cached *cached) {
    if (!cached) return;
    mc_graph_cache *cache = mc_graph_cache_of(device); /* there: cached is of it */
    pthread_mutex_lock(&cache->lock);
    bool last = --cached->users == 0;
    pthread_mutex_unlock(&cache->lock);
    if (last) free_entry(cached);
}
