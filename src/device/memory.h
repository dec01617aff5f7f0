/* Device memory: counted storages from a caching allocator, and its accounts.
 *
 * Freed blocks are kept in bins by size and handed out again, so that steady decoding asks the
 * system for nothing. Sizes are rounded up to 64 bytes, above 512 by at most an eighth, so that a
 * bin fits many requests.
 * Threads: safe. */
#ifndef DEVICE_MEMORY_H
#define DEVICE_MEMORY_H

#include <pthread.h>
#include <stdint.h>

#include "device/backend.h"

enum { MC_MEMORY_BINS = 512 };

typedef struct mc_block mc_block;

typedef struct mc_memory {
    pthread_mutex_t lock; /* guards all below */
    mc_block *bins[MC_MEMORY_BINS];
    uint64_t active, peak, cached;      /* bytes */
    uint64_t memory_limit, cache_limit; /* memory_limit 0: none */
} mc_memory;

mica_status mc_memory_init(mc_memory *m, uint64_t memory_limit, uint64_t cache_limit);
void mc_memory_deinit(mc_memory *m, mica_device *device);

/* A storage of at least `bytes`, count one, content undefined. For memory an array lives in, and
 * for what a plan needs while it runs.
 * errors  MICA_ENOMEM, with the sizes and the limit */
mica_status mc_storage_new(mica_device *device, size_t bytes, mc_storage **storage);

#endif
