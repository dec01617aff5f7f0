/* The cache of compiled graphs, keyed by structure (mc_trace.key).
 *
 * It holds as many as fit into a number of bytes, and forgets those that were used longest ago. One
 * that is held is kept alive by its holders. Threads: safe. */
#ifndef EXEC_CACHE_H
#define EXEC_CACHE_H

#include <pthread.h>
#include <stdint.h>

#include "device/device.h"
#include "exec/compiled.h"

enum { MC_CACHE_BUCKETS = 256 };

typedef struct mc_cached mc_cached;
struct mc_cached {
    mc_compiled *compiled;
    mc_buffer key;
    uint64_t hash;
    size_t bytes;
    uint64_t used;   /* when last, by the cache's clock */
    uint32_t users;  /* holders, and the cache itself */
    mc_cached *next; /* in its bucket */
};

typedef struct mc_graph_cache {
    mc_device_part part; /* first: the device frees it */
    pthread_mutex_t lock;
    mc_cached *buckets[MC_CACHE_BUCKETS];
    uint32_t count;
    size_t bytes, limit_bytes;
    uint64_t clock;
    uint64_t hits, misses; /* for tests and profiles */
} mc_graph_cache;

/* The device's, which is made where it has none yet; it ends with the device. NULL: no memory. */
mc_graph_cache *mc_graph_cache_of(mica_device *device);
/* Forgets all that nobody holds. */
void mc_graph_cache_clear(mc_graph_cache *cache);
void mc_graph_cache_set_limit(mc_graph_cache *cache, size_t bytes);

/* The compiled graph of a trace, found or made; given back with mc_cached_put.
 * errors  those of mc_compiled_make */
mica_status mc_cached_get(mica_device *device, const mc_trace *trace, mc_cached **cached);
void mc_cached_put(mica_device *device, mc_cached *cached); /* takes NULL */

#endif
