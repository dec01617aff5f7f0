#include "device/plan_cache.h"

#include <string.h>

#include "base/alloc.h"
#include "device/device.h"

mica_status mc_plan_cache_init(mc_plan_cache *cache) {
    memset(cache, 0, sizeof *cache);
    if (pthread_mutex_init(&cache->lock, NULL) != 0)
        return mc_fail(MICA_EDEVICE, "cannot make a mutex for the plan cache");
    return MICA_OK;
}

static void free_entry(mc_cached_plan *entry) {
    mc_plan_free(entry->plan);
    mc_buffer_deinit(&entry->key);
    mc_free(entry->spare);
    mc_free(entry);
}

void mc_plan_cache_deinit(mc_plan_cache *cache) {
    for (uint32_t i = 0; i < cache->count; i++)
        free_entry(cache->entries[i]);
    pthread_mutex_destroy(&cache->lock);
}

/* A frame for a plan: one block, with everything set that does not change between runs. */
static mc_frame *new_frame(mica_device *device, const mc_plan *p) {
    size_t roots = p->n_roots * sizeof(void *), own = p->n_roots * sizeof(mc_storage *);
    size_t operands = p->n_operands * sizeof(mc_operand), calls = p->n_steps * sizeof(mc_call);
    char *block = mc_calloc(1, sizeof(mc_frame) + roots + own + operands + calls);
    if (block == NULL) return NULL;
    mc_frame *f = (mc_frame *)(void *)block;
    f->roots = (void **)(void *)(block + sizeof *f);
    f->own = (mc_storage **)(void *)(block + sizeof *f + roots);
    f->operands = (mc_operand *)(void *)(block + sizeof *f + roots + own);
    f->calls = (mc_call *)(void *)(block + sizeof *f + roots + own + operands);
    mc_operand *next = f->operands;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const mc_step *step = &p->steps[i];
        f->calls[i] = (mc_call){.attr = step->attr, .n_in = (int)step->n_in, .in = next};
        f->calls[i].state = device->state;
        f->calls[i].out.layout = &p->values[step->out].layout;
        for (uint32_t k = 0; k < step->n_in; k++, next++)
            if (step->in[k] != MC_ABSENT) next->layout = &p->values[step->in[k]].layout;
    }
    return f;
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
    if (entry == NULL) return mc_fail_nomem("a plan");
    entry->hash = trace->hash;
    mica_status status = MICA_OK;
    if (!mc_buffer_add(&entry->key, trace->key.data, trace->key.len))
        status = mc_fail_nomem("a plan");
    if (status == MICA_OK) status = mc_plan_make(device, trace, &entry->plan);
    if (status != MICA_OK) free_entry(entry);
    *out = status == MICA_OK ? entry : NULL;
    return status;
}

mica_status mc_plan_get(mica_device *device, const mc_trace *trace, mc_cached_plan **plan,
                        mc_frame **frame) {
    mc_plan_cache *cache = &device->plans;
    pthread_mutex_lock(&cache->lock);
    mc_cached_plan *entry = find(cache, trace);
    if (entry != NULL) {
        cache->hits++;
        entry->users++;
    } else {
        cache->misses++;
        /* Planning takes milliseconds: others may run meanwhile. Two threads that plan the same
         * keep two entries, of which one ages away. */
        pthread_mutex_unlock(&cache->lock);
        mica_status status = make(device, trace, &entry);
        if (status != MICA_OK) return status;
        pthread_mutex_lock(&cache->lock);
        entry->users = 1;
        insert(cache, entry);
    }
    entry->used = ++cache->clock;
    *frame = entry->spare;
    entry->spare = NULL;
    pthread_mutex_unlock(&cache->lock);

    if (*frame == NULL) *frame = new_frame(device, entry->plan);
    if (*frame == NULL) {
        mc_plan_put(device, entry, NULL);
        return mc_fail_nomem("running a plan");
    }
    *plan = entry;
    return MICA_OK;
}

void mc_plan_put(mica_device *device, mc_cached_plan *plan, mc_frame *frame) {
    pthread_mutex_lock(&device->plans.lock);
    if (frame != NULL && plan->spare == NULL)
        plan->spare = frame;
    else
        mc_free(frame);
    release(plan);
    pthread_mutex_unlock(&device->plans.lock);
}
