#include "device/memory.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "device/device.h"

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

mica_status mc_memory_init(mc_memory *m, uint64_t memory_limit, uint64_t cache_limit) {
    if (pthread_mutex_init(&m->lock, NULL) != 0)
        return mc_fail(MICA_EDEVICE, "cannot make a mutex for the device's memory");
    m->memory_limit = memory_limit;
    m->cache_limit = cache_limit;
    return MICA_OK;
}

static void free_block(mica_device *device, mc_block *block) {
    device->backend->free(device->state, block->storage.data, block->storage.bytes);
    mc_free(block);
}

/* Under the lock, or where nobody else is left. */
static void clear_cache(mica_device *device) {
    mc_memory *m = &device->memory;
    for (int i = 0; i < MC_MEMORY_BINS; i++) {
        while (m->bins[i] != NULL) {
            mc_block *block = m->bins[i];
            m->bins[i] = block->next;
            free_block(device, block);
        }
    }
    m->cached = 0;
}

void mc_memory_deinit(mc_memory *m, mica_device *device) {
    clear_cache(device);
    pthread_mutex_destroy(&m->lock);
}

static void release_block(mc_storage *storage) {
    mc_block *block = (mc_block *)(void *)storage;
    mica_device *device = storage->owner;
    mc_memory *m = &device->memory;
    size_t rounded;
    int bin = bin_of(storage->bytes, &rounded);
    pthread_mutex_lock(&m->lock);
    m->active -= storage->bytes;
    bool keep = storage->bytes <= m->cache_limit;
    /* What is cached may be of sizes that nobody asks for again: it makes room for this. */
    if (keep && m->cached + storage->bytes > m->cache_limit) clear_cache(device);
    if (keep) {
        block->next = m->bins[bin];
        m->bins[bin] = block;
        m->cached += storage->bytes;
    }
    pthread_mutex_unlock(&m->lock);
    if (!keep) free_block(device, block);
    mc_device_release(device);
}

/* Under the lock: a block of exactly `rounded` bytes, from its bin or new; NULL: no memory. */
static mc_block *take_block(mica_device *device, int bin, size_t rounded) {
    mc_memory *m = &device->memory;
    mc_block *block = m->bins[bin];
    if (block != NULL) {
        m->bins[bin] = block->next;
        m->cached -= rounded;
        return block;
    }
    block = mc_alloc(sizeof *block);
    if (block == NULL) return NULL;
    block->storage = (mc_storage){.bytes = rounded, .release = release_block, .owner = device};
    block->storage.data = device->backend->alloc(device->state, rounded);
    if (block->storage.data == NULL && m->cached > 0) {
        clear_cache(device);
        block->storage.data = device->backend->alloc(device->state, rounded);
    }
    if (block->storage.data != NULL) return block;
    mc_free(block);
    return NULL;
}

mica_status mc_storage_new(mica_device *device, size_t bytes, mc_storage **storage) {
    mc_memory *m = &device->memory;
    *storage = NULL;
    if (bytes > SIZE_MAX / 4)
        return mc_fail(MICA_ENOMEM, "out of memory: %zu bytes for one array", bytes);
    size_t rounded;
    int bin = bin_of(bytes, &rounded);
    pthread_mutex_lock(&m->lock);
    bool over = m->memory_limit > 0 && m->active + rounded > m->memory_limit;
    mc_block *block = over ? NULL : take_block(device, bin, rounded);
    if (block != NULL) {
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
    if (block == NULL)
        return mc_fail(MICA_ENOMEM, "out of memory: %zu bytes on device %s (%llu in use)", rounded,
                       device->backend->name, (unsigned long long)active);
    atomic_store_explicit(&block->storage.count, 1u, memory_order_relaxed);
    mc_device_retain(device);
    *storage = &block->storage;
    return MICA_OK;
}

/* ---- accounts ---- */

/* Reads, and where `set` is given changes, one number under the lock. */
static uint64_t exchange(const mica_device *device, const uint64_t *field, const uint64_t *set) {
    mc_memory *m = (mc_memory *)(uintptr_t)&device->memory;
    pthread_mutex_lock(&m->lock);
    uint64_t value = *field;
    if (set != NULL) *(uint64_t *)(uintptr_t)field = *set;
    pthread_mutex_unlock(&m->lock);
    return value;
}

uint64_t mica_device_active_bytes(const mica_device *device) {
    return device != NULL ? exchange(device, &device->memory.active, NULL) : 0;
}

uint64_t mica_device_peak_bytes(const mica_device *device) {
    return device != NULL ? exchange(device, &device->memory.peak, NULL) : 0;
}

uint64_t mica_device_cached_bytes(const mica_device *device) {
    return device != NULL ? exchange(device, &device->memory.cached, NULL) : 0;
}

void mica_device_reset_peak(mica_device *device) {
    if (device == NULL) return;
    pthread_mutex_lock(&device->memory.lock);
    device->memory.peak = device->memory.active;
    pthread_mutex_unlock(&device->memory.lock);
}

void mica_device_clear_cache(mica_device *device) {
    if (device == NULL) return;
    pthread_mutex_lock(&device->memory.lock);
    clear_cache(device);
    pthread_mutex_unlock(&device->memory.lock);
}

uint64_t mica_device_set_cache_limit(mica_device *device, uint64_t bytes) {
    if (device == NULL) return 0;
    uint64_t before = exchange(device, &device->memory.cache_limit, &bytes);
    if (mica_device_cached_bytes(device) > bytes) mica_device_clear_cache(device);
    return before;
}

uint64_t mica_device_set_memory_limit(mica_device *device, uint64_t bytes) {
    return device != NULL ? exchange(device, &device->memory.memory_limit, &bytes) : 0;
}
