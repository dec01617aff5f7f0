/* The cache of plans, keyed by structure.
 *
 * Holds at most MC_PLANS plans and forgets the one that was used longest ago. A plan in use is kept
 * alive by its users. Threads: safe. */
#ifndef DEVICE_PLAN_CACHE_H
#define DEVICE_PLAN_CACHE_H

#include <pthread.h>
#include <stdint.h>

#include "device/plan.h"

enum { MC_PLANS = 128 };

/* What a run of a plan needs in memory beside the arrays; kept with the plan between runs. */
typedef struct mc_frame {
    void **roots;         /* [n_roots] where each root lies */
    mc_storage **own;     /* [n_roots] storages of OWN roots */
    mc_operand *operands; /* [n_operands] of all steps, one after the other */
    mc_call *calls;       /* [n_steps] */
} mc_frame;

typedef struct mc_cached_plan {
    mc_plan *plan;
    mc_buffer key;
    uint64_t hash;
    uint64_t used;   /* when last, by the cache's clock */
    uint32_t users;  /* runs that hold it, and the cache itself */
    mc_frame *spare; /* a frame that nobody uses, or NULL */
} mc_cached_plan;

typedef struct mc_plan_cache {
    pthread_mutex_t lock;
    mc_cached_plan *entries[MC_PLANS];
    uint32_t count;
    uint64_t clock;
    uint64_t hits, misses; /* for tests and profiles */
} mc_plan_cache;

mica_status mc_plan_cache_init(mc_plan_cache *cache);
void mc_plan_cache_deinit(mc_plan_cache *cache);

/* The plan for a trace, found or made, with a frame to run it; given back with mc_plan_put.
 * errors  those of mc_plan_make */
mica_status mc_plan_get(mica_device *device, const mc_trace *trace, mc_cached_plan **plan,
                        mc_frame **frame);
void mc_plan_put(mica_device *device, mc_cached_plan *plan, mc_frame *frame);

#endif
