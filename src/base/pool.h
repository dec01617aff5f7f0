/* The thread pool. It runs parallel regions of up to 8 callers at a time.
 *
 * Workers spin for some microseconds after a region, so that the next region of a decode step
 * finds them awake; then they park. The calling thread works, too, always on its own region.
 * Regions that run at once (of several threads, or one started from inside another) share the
 * workers evenly, and none waits for another to end. If 8 others run, a region runs in its caller
 * alone, with the same result: there is no deadlock.
 *
 * Threads: mc_pool_run may be called from any thread. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/numa.h"
#include "base/status.h"

#include <stdint.h>

typedef struct mc_pool mc_pool;

/* Runs tasks begin .. end - 1 of a region, 0 <= begin < end <= n_tasks. A worker begins with a
 * share of consecutive tasks; others take over tasks of a slow worker. `worker`, 0 .. threads - 1,
 * differs between the threads of a region: it selects scratch memory of the region's context.
 * Regions that run at once have a worker 0 each, and their other workers move between them: scratch
 * memory must not belong to the pool. */
typedef void (*mc_tasks_fn)(void *context, int begin, int end, int worker);

/* Opens a pool of `threads` >= 1 threads, the caller included: 1 starts no thread. On a machine of
 * several memory nodes each worker except the caller is bound to the CPUs of its node, and takes
 * over tasks of workers of its node first. errors  MICA_ENOMEM, MICA_EDEVICE */
mica_status mc_pool_open(int threads, mc_pool **pool);
/* The same on a machine with the nodes of `numa`, which is borrowed until this returns. */
mica_status mc_pool_open_on(int threads, const mc_numa *numa, mc_pool **pool);
/* In a fork of the process that opened it: frees its memory alone. */
void mc_pool_close(mc_pool **pool);
int mc_pool_threads(const mc_pool *pool); /* 1 for NULL */

typedef struct mc_stretch {
    const void *begin;
    int64_t bytes;
} mc_stretch;

#define MC_MAX_STRETCHES 8

/* Sets the memory to prefetch: n <= MC_MAX_STRETCHES stretches that a later region will read. From
 * the next region on, a worker that waits prefetches its part of them into its second-level cache.
 * The memory may be freed by then: a prefetch of it does nothing. Does nothing for pool NULL.
 * Threads: any. */
void mc_pool_prefetch(mc_pool *pool, const mc_stretch *next, int n);
/* The part that worker `index` of `threads` prefetches. */
mc_stretch mc_pool_part(const mc_stretch *next, int n, int index, int threads);

/* Runs n_tasks tasks and returns when all are done and their writes are visible to the caller.
 * pool NULL: runs them all in the caller. */
void mc_pool_run(mc_pool *pool, int n_tasks, mc_tasks_fn fn, void *context);

#endif
