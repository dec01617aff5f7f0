/* The CPU device within: its state, and how kernels split work. */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include "base/pool.h"
#include "cpu/kern/kern.h"
#include "device/backend.h"

typedef struct mc_cpu {
    mc_pool *pool;
    const mk_kernels *kern; /* the kernels chosen for this machine */
    int threads;
    char description[160];
} mc_cpu;

static inline mc_cpu *mc_cpu_of(const mc_call *call) {
    return (mc_cpu *)call->state;
}

/* Splits [0, n) into runs of at least `grain` and calls fn(context, begin, end, worker) on the pool;
 * alone where one run is enough. */
typedef void (*mc_range_fn)(void *context, int64_t begin, int64_t end, int worker);
void mc_cpu_for(const mc_call *call, int64_t n, int64_t grain, mc_range_fn fn, void *context);

/* prefetch.c. Before the region of a product of m rows, `last` the last call of those in it: says what the next
 * product reads. Who waits then fetches a part of that. */
void mc_cpu_prefetch(const mc_call *last, int64_t m);
/* What the next product reads, and how many stretches that is: of all calls that are one region. */
int mc_cpu_next(const mc_call *last, mc_stretch next[MC_MAX_JOINT]);

#endif
