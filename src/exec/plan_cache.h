/* The cache of plans, keyed by structure.
 *
 * Holds at most MC_PLANS plans and forgets the one that was used longest ago. A plan in use is kept
 * alive by its users. Threads: safe. */
#ifndef EXEC_PLAN_CACHE_H
#define EXEC_PLAN_CACHE_H

#include <pthread.h>
#include <stdint.h>

#include "device/device.h"
#include "exec/plan.h"
#include "exec/run.h"

enum { MC_PLANS = 128 };

struct mc_cached_plan {
    mc_plan *plan;
    mc_buffer key;
    uint64_t hash;
    uint64_t used;  /* when last, by the cache's clock */
    uint32_t users; /* runs that hold it, and the cache itself */
    mc_run *spare;  /* a run that nobody uses, or NULL */
};

typedef struct mc_plan_cache {
    mc_device_part part; /* first: the device frees it */
    pthread_mutex_t lock;
    mc_cached_plan *entries[MC_PLANS];
    uint32_t count;
    uint64_t clock;
    uint64_t hits, misses; /* for tests and profiles */
} mc_plan_cache;

/* The device's, which is made where it has none yet; it ends with the device. NULL: no memory. */
mc_plan_cache *mc_plan_cache_of(mica_device *device);
/* Frees all plans, which nobody holds. */
void mc_plan_cache_clear(mc_plan_cache *cache);

/* A run of the plan for a trace, which is found or made; given back with mc_run_put.
 * errors  those of mc_plan_make */
mica_status mc_run_get(mica_device *device, const mc_trace *trace, mc_run **run);
void mc_run_put(mc_run *run);

#endif
