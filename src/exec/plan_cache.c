#include "exec/plan_cache.h"

#include <string.h>

#include "base/alloc.h"
#include "device/device.h"

static void free_entry(mc_cached_plan *entry) {
    mc_plan_free(entry->plan);
    mc_buffer_deinit(&entry->key);
    mc_free(entry->spare);
    mc_free(entry);
}

void mc_plan_cache_clear(mc_plan_cache *cache) {
    while (cache->count > 0)
        free_entry(cache->entries[--cache->count]);
}

static void free_cache(mc_device_part *part) {
    mc_plan_cache *cache = (mc_plan_cache *)(void *)part;
    mc_plan_cache_clear(cache);
    pthread_mutex_destroy(&cache->lock);
    mc_free(cache);
}

static mc_plan_cache *new_cache(void) {
    mc_plan_cache *cache = mc_calloc(1, sizeof *cache);
    if (!cache) return NULL;
    cache->part.free = free_cache;
    if (pthread_mutex_init(&cache->lock, NULL) == 0) return cache;
    mc_free(cache);
    return NULL;
}

mc_plan_cache *mc_plan_cache_of(mica_device *device) {
    mc_device_part *there = atomic_load_explicit(&device->plans, memory_order_acquire);
    if (there) return (mc_plan_cache *)(void *)there;
    mc_plan_cache *cache = new_cache();
    if (!cache) return NULL;
    if (atomic_compare_exchange_strong(&device->plans, &there, &cache->part)) return cache;
    free_cache(&cache->part); /* another thread was first */
    return (mc_plan_cache *)(void *)there;
}

/* Under the lock. */
static mc_cached_plan *find(mc_plan_cache *cache, const mc_trace *trace) {
    for (uint32_t i = 0; i < cache->count; i++) {
        mc_cached_plan *entry = cache->entries[i];
        if (entry->hash == trace->hash && entry->key.len == trace->key.len &&
            memcmp(entry->key.data, trace->key.data, trace->key.len) == 0)
            return entry;
    }
    return NULL;
}

/* Under the lock: gives up one reference. */
static void release(mc_cached_plan *entry) {
    if (--entry->users == 0) free_entry(entry);
}

/* Under the lock: puts a new entry in, in the place of the oldest where the cache is full. */
static void insert(mc_plan_cache *cache, mc_cached_plan *entry) {
    uint32_t at = cache->count;
    if (cache->count < MC_PLANS) {
        cache->count++;
    } else {
        at = 0;
        for (uint32_t i = 1; i < MC_PLANS; i++)
            if (cache->entries[i]->used < cache->entries[at]->used) at = i;
        release(cache->entries[at]);
    }
    cache->entries[at] = entry;
    entry->users++;
}

static mica_status make(mica_device *device, const mc_trace *trace, mc_cached_plan **out) {
    mc_cached_plan *entry = mc_calloc(1, sizeof *entry);
    if (!entry) return mc_fail_nomem("a plan");
    entry->hash = trace->hash;
    mica_status status = MICA_OK;
    if (!mc_buffer_add(&entry->key, trace->key.data, trace->key.len))
        status = mc_fail_nomem("a plan");
    if (status == MICA_OK) status = mc_plan_make(device, trace, &entry->plan);
    if (status != MICA_OK) free_entry(entry);
    *out = status == MICA_OK ? entry : NULL;
    return status;
}

/* The entry for a trace, held for the caller. */
static mica_status hold(mica_device *device, const mc_trace *trace, mc_cached_plan **out) {
    mc_plan_cache *cache = mc_plan_cache_of(device);
    if (!cache) return mc_fail_nomem("the plan cache");
    pthread_mutex_lock(&cache->lock);
    mc_cached_plan *entry = find(cache, trace);
    if (!entry) {
        cache->misses++;
        /* Planning takes milliseconds: others may run meanwhile. Two threads that plan the same
         * keep two entries, of which one ages away. */
        pthread_mutex_unlock(&cache->lock);
        MC_TRY(make(device, trace, &entry));
        pthread_mutex_lock(&cache->lock);
        insert(cache, entry);
    } else {
        cache->hits++;
    }
    entry->users++;
    entry->used = ++cache->clock;
    *out = entry;
    pthread_mutex_unlock(&cache->lock);
    return MICA_OK;
}

mica_status mc_run_get(mica_device *device, const mc_trace *trace, mc_run **run) {
    mc_cached_plan *entry = NULL;
    MC_TRY(hold(device, trace, &entry));
    mc_plan_cache *cache = mc_plan_cache_of(device);
    pthread_mutex_lock(&cache->lock);
    *run = entry->spare;
    entry->spare = NULL;
    pthread_mutex_unlock(&cache->lock);
    if (!*run) *run = mc_run_new(device, entry->plan);
    if (*run) {
        (*run)->entry = entry;
        return MICA_OK;
    }
    pthread_mutex_lock(&cache->lock);
    release(entry);
    pthread_mutex_unlock(&cache->lock);
    return mc_fail_nomem("running a plan");
}

void mc_run_put(mc_run *run) {
    mc_plan_cache *cache = mc_plan_cache_of(run->device);
    mc_cached_plan *entry = run->entry;
    pthread_mutex_lock(&cache->lock);
    entry->used = ++cache->clock; /* a run that was kept may have been used all the while */
    if (!entry->spare)
        entry->spare = run;
    else
        mc_free(run);
    release(entry);
    pthread_mutex_unlock(&cache->lock);
}
