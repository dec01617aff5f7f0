#include "device/memory.h"

#include <stdlib.h>

#include "base/alloc.h"

struct mc_block {
    mc_storage storage; /* first: a storage of ours is a block */
    mc_block *next;
};

/* Bins: multiples of 64 bytes up to 512, then eight steps to each power of two. */
static int bin_of(size_t bytes, size_t *rounded) {
    if (bytes <= 512) {
        size_t units = bytes == 0 ? 1 : (bytes + 63) / 64;
        *rounded = units * 64;
        return (int)units - 1;
    }
    int log2 = 63 - __builtin_clzll((unsigned long long)(bytes - 1));
    size_t step = (size_t)1 << (log2 - 3);
    size_t steps = (bytes - 1) / step + 1; /* 9..16 */
    *rounded = steps * step;
    return 8 + (log2 - 9) * 8 + (int)steps - 9;
}

mica_status mc_memory_init(mc_memory *m, const mc_backend *backend, void *state,
                           uint64_t memory_limit, uint64_t cache_limit) {
    if (pthread_mutex_init(&m->lock, NULL) != 0)
        return mc_fail(MICA_EDEVICE, "cannot make a mutex for the device's memory");
    m->backend = backend;
    m->state = state;
    m->memory_limit = memory_limit;
    m->cache_limit = cache_limit;
    return MICA_OK;
}

static void free_block(const mc_memory *m, mc_block *block) {
    m->backend->free(m->state, block->storage.data, block->storage.bytes);
    mc_free(block);
}

/* Under the lock, or where nobody else is left. */
static void clear_cache(mc_memory *m) {
    for (int i = 0; i < MC_MEMORY_BINS; i++) {
        while (m->bins[i]) {
            mc_block *block = m->bins[i];
            m->bins[i] = block->next;
            free_block(m, block);
        }
    }
    m->cached = 0;
}

void mc_memory_deinit(mc_memory *m) {
    clear_cache(m);
    pthread_mutex_destroy(&m->lock);
}

void mc_memory_put(mc_memory *m, mc_storage *storage) {
    mc_block *block = (mc_block *)(void *)storage;
    size_t rounded;
    int bin = bin_of(storage->bytes, &rounded);
    pthread_mutex_lock(&m->lock);
    m->active -= storage->bytes;
    bool keep = storage->bytes <= m->cache_limit;
    /* What is cached may be of sizes that nobody asks for again: it makes room for this. */
    if (keep && m->cached + storage->bytes > m->cache_limit) clear_cache(m);
    if (keep) {
        block->next = m->bins[bin];
        m->bins[bin] = block;
        m->cached += storage->bytes;
    }
    pthread_mutex_unlock(&m->lock);
    if (!keep) free_block(m, block);
}

void mc_memory_clear(mc_memory *m) {
    pthread_mutex_lock(&m->lock);
    clear_cache(m);
    pthread_mutex_unlock(&m->lock);
}

/* Under the lock: a block of exactly `rounded` bytes, from its bin or new; NULL: no memory. */
static mc_block *take_block(mc_memory *m, int bin, size_t rounded) {
    mc_block *block = m->bins[bin];
    if (block) {
        m->bins[bin] = block->next;
        m->cached -= rounded;
        return block;
    }
    block = mc_alloc(sizeof *block);
    if (!block) return NULL;
    block->storage = (mc_storage){.bytes = rounded};
    block->storage.data = m->backend->alloc(m->state, rounded);
    if (!block->storage.data && m->cached > 0) {
        clear_cache(m);
        block->storage.data = m->backend->alloc(m->state, rounded);
    }
    if (block->storage.data) return block;
    mc_free(block);
    return NULL;
}

mica_status mc_memory_get(mc_memory *m, size_t bytes, mc_storage **storage) {
    *storage = NULL;
    if (bytes > SIZE_MAX / 4)
        return mc_fail(MICA_ENOMEM, "out of memory: %zu bytes for one array", bytes);
    size_t rounded;
    int bin = bin_of(bytes, &rounded);
    pthread_mutex_lock(&m->lock);
    bool over = m->memory_limit > 0 && m->active + rounded > m->memory_limit;
    mc_block *block = over ? NULL : take_block(m, bin, rounded);
    if (block) {
        m->active += rounded;
        if (m->active > m->peak) m->peak = m->active;
    }
    uint64_t active = m->active, limit = m->memory_limit;
    pthread_mutex_unlock(&m->lock);
    if (over)
        return mc_fail(MICA_ENOMEM,
                       "memory limit: %zu bytes more than the %llu in use would pass the limit of "
                       "%llu (mica_device_set_memory_limit)",
                       rounded, (unsigned long long)active, (unsigned long long)limit);
    if (!block)
        return mc_fail(MICA_ENOMEM, "out of memory: %zu bytes on device %s (%llu in use)", rounded,
                       m->backend->name, (unsigned long long)active);
    atomic_store_explicit(&block->storage.count, 1u, memory_order_relaxed);
    *storage = &block->storage;
    return MICA_OK;
}
