/* Device memory: counted storages from a caching allocator, and its accounts.
 *
 * Freed blocks are kept in bins by size and handed out again, so that steady decoding asks the
 * system for nothing; how many is the device's to say. Sizes are rounded up to 64 bytes, above 512
 * by at most an eighth, so that a bin fits many requests.
 * Threads: safe. */
#ifndef DEVICE_MEMORY_H
#define DEVICE_MEMORY_H

#include <pthread.h>
#include <stdint.h>

#include "device/backend.h"

enum { MC_MEMORY_BINS = 512 };

typedef struct mc_block mc_block;

typedef struct mc_memory {
    const mc_backend *backend;
    void *state;          /* the backend's */
    pthread_mutex_t lock; /* guards all below */
    mc_block *bins[MC_MEMORY_BINS];
    uint64_t active, peak, cached;      /* bytes */
    uint64_t memory_limit, cache_limit; /* memory_limit 0: none */
} mc_memory;

/* backend, state: borrowed until deinit. Limits in bytes; memory_limit 0: none. */
mica_status mc_memory_init(mc_memory *m, const mc_backend *backend, void *state,
                           uint64_t memory_limit, uint64_t cache_limit);
void mc_memory_deinit(mc_memory *m);

/* A storage of at least `bytes`, count one, content undefined, with neither release nor owner.
 * errors  MICA_ENOMEM, with the sizes and the limit */
mica_status mc_memory_get(mc_memory *m, size_t bytes, mc_storage **storage);
/* The same, rounded up to 64 bytes only: for what stays as long as a model. */
mica_status mc_memory_get_exact(mc_memory *m, size_t bytes, mc_storage **storage);
/* Takes back what these gave: kept for the next, or freed. */
void mc_memory_put(mc_memory *m, mc_storage *storage);
/* The bytes that a storage for `bytes` has, and counts as. */
size_t mc_memory_rounded(size_t bytes);
/* Frees what is kept. */
void mc_memory_clear(mc_memory *m);

#endif
