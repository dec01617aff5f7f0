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

size_t mc_memory_rounded(size_t bytes) {
    size_t rounded;
    (void)bin_of(bytes, &rounded);
    return rounded;
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
    m->backend->free(m->state, block->storage.address, block->storage.bytes);
    mc_free(block);
}

/* Under the lock: takes all that is cached out, into one list. */
static mc_block *take_cache(mc_memory *m) {
    mc_block *all = NULL;
    for (int i = 0; i < MC_MEMORY_BINS; i++) {
        while (m->bins[i]) {
            mc_block *block = m->bins[i];
            m->bins[i] = block->next;
            block->next = all;
            all = block;
        }
    }
    m->cached = 0;
    return all;
}

/* Not under the lock: giving pages back takes long. */
static void free_blocks(const mc_memory *m, mc_block *block) {
    while (block) {
        mc_block *next = block->next;
        free_block(m, block);
        block = next;
    }
}

void mc_memory_deinit(mc_memory *m) {
    free_blocks(m, take_cache(m));
    pthread_mutex_destroy(&m->lock);
}

void mc_memory_put(mc_memory *m, mc_storage *storage) {
    mc_block *block = (mc_block *)(void *)storage, *old = NULL;
    size_t rounded;
    int bin = bin_of(storage->bytes, &rounded);
    pthread_mutex_lock(&m->lock);
    m->active -= storage->bytes;
    bool keep = storage->bytes == rounded && rounded <= m->cache_limit;
    /* What is cached may be of sizes that nobody asks for again: it makes room for this. */
    if (keep && m->cached + storage->bytes > m->cache_limit) old = take_cache(m);
    if (keep) {
        block->next = m->bins[bin];
        m->bins[bin] = block;
        m->cached += storage->bytes;
    }
    pthread_mutex_unlock(&m->lock);
    free_blocks(m, old);
    if (!keep) free_block(m, block);
}

void mc_memory_clear(mc_memory *m) {
    pthread_mutex_lock(&m->lock);
    mc_block *all = take_cache(m);
    pthread_mutex_unlock(&m->lock);
    free_blocks(m, all);
}

/* A new block of exactly `rounded` bytes; NULL: no memory. */
static mc_block *new_block(mc_memory *m, size_t rounded) {
    mc_block *block = mc_alloc(sizeof *block);
    if (!block) return NULL;
    block->storage = (mc_storage){.bytes = rounded};
    block->storage.address = m->backend->alloc(m->state, rounded);
    if (!block->storage.address) { /* what is cached may be enough */
        mc_memory_clear(m);
        block->storage.address = m->backend->alloc(m->state, rounded);
    }
    /* Where launches end later, the host reads by copies, which come after them. */
    if (m->backend->host_memory && !m->backend->late) block->storage.host = block->storage.address;
    if (block->storage.address) return block;
    mc_free(block);
    return NULL;
}

/* Under the lock: counts `bytes` more as active. False: that would pass the limit. */
static bool count_active(mc_memory *m, size_t bytes) {
    if (m->memory_limit > 0 && m->active + bytes > m->memory_limit) return false;
    m->active += bytes;
    return true;
}

/* A block of `rounded` bytes. *bin: what is kept of this size; bin NULL: a new one. */
static mica_status get(mc_memory *m, size_t rounded, mc_block **bin, mc_storage **storage) {
    pthread_mutex_lock(&m->lock);
    bool over = !count_active(m, rounded);
    mc_block *block = over || !bin ? NULL : *bin;
    if (block) {
        *bin = block->next;
        m->cached -= rounded;
        if (m->active > m->peak) m->peak = m->active;
    }
    uint64_t active = m->active, limit = m->memory_limit;
    pthread_mutex_unlock(&m->lock);
    if (over)
        return mc_fail(MICA_ENOMEM,
                       "memory limit: %zu bytes more than the %llu in use would pass the limit of "
                       "%llu (mica_device_set_memory_limit)",
                       rounded, (unsigned long long)active, (unsigned long long)limit);
    if (!block) {
        block = new_block(m, rounded);
        pthread_mutex_lock(&m->lock);
        if (!block) m->active -= rounded;
        active = m->active;
        if (block && m->active > m->peak) m->peak = m->active;
        pthread_mutex_unlock(&m->lock);
    }
    if (!block)
        return mc_fail(MICA_ENOMEM, "out of memory: %zu bytes on device %s (%llu in use)", rounded,
                       m->backend->name, (unsigned long long)active);
    atomic_store_explicit(&block->storage.count, 1u, memory_order_relaxed);
    *storage = &block->storage;
    return MICA_OK;
}

static mica_status check_size(size_t bytes, mc_storage **storage) {
    *storage = NULL;
    if (bytes <= SIZE_MAX / 4) return MICA_OK;
    return mc_fail(MICA_ENOMEM, "out of memory: %zu bytes for one array", bytes);
}

mica_status mc_memory_get(mc_memory *m, size_t bytes, mc_storage **storage) {
    size_t rounded;
    MC_TRY(check_size(bytes, storage));
    int bin = bin_of(bytes, &rounded);
    return get(m, rounded, &m->bins[bin], storage);
}

mica_status mc_memory_get_exact(mc_memory *m, size_t bytes, mc_storage **storage) {
    MC_TRY(check_size(bytes, storage));
    return get(m, bytes == 0 ? 64 : (bytes + 63) / 64 * 64, NULL, storage);
}
