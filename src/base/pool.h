/* The thread pool: one parallel region at a time, spin briefly, then park.
 *
 * Workers spin for a few microseconds after a region, so that the regions of one decode step find
 * them awake, and park after that. The calling thread works too. A region started while another
 * runs (from another thread, or from inside one) runs in its caller alone: no deadlock, same
 * result.
 *
 * Threads: mc_pool_run may be called from any thread. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/numa.h"
#include "base/status.h"

#include <stdint.h>

typedef struct mc_pool mc_pool;

/* Tasks begin .. end - 1 of a region, 0 <= begin < end <= n_tasks. A worker begins with tasks that
 * follow one another; those of a slow one are taken over by others. `worker` is 0..threads-1 and
 * differs between the threads that work on this region: for scratch memory that belongs to the
 * region's context. Two regions that run at once (the second in its caller alone) both have a
 * worker 0: scratch must not belong to the pool. */
typedef void (*mc_tasks_fn)(void *context, int begin, int end, int worker);

/* threads >= 1, the caller's included: 1 starts no thread. On a machine of several memory nodes
 * each worker but the caller, which is not ours, keeps to the CPUs of its node, and takes tasks
 * over from workers there before others. errors  MICA_ENOMEM, MICA_EDEVICE */
mica_status mc_pool_open(int threads, mc_pool **pool);
/* The same, on a machine with these nodes; borrowed until this returns. */
mica_status mc_pool_open_on(int threads, const mc_numa *numa, mc_pool **pool);
void mc_pool_close(mc_pool **pool);
int mc_pool_threads(const mc_pool *pool); /* 1 for NULL */

typedef struct mc_stretch {
    const void *begin;
    int64_t bytes;
} mc_stretch;

#define MC_MAX_STRETCHES 8

/* What is read after the next region, by the tasks of one that comes later: n <= MC_MAX_STRETCHES
 * stretches of memory. From the next region on, a worker that waits fetches its part of them into
 * its second-level cache. They may be gone by then: nothing is read. pool NULL: nothing happens.
 * Threads: any. */
void mc_pool_ahead(mc_pool *pool, const mc_stretch *next, int n);
/* The part that worker `index` of `threads` fetches. */
mc_stretch mc_pool_part(const mc_stretch *next, int n, int index, int threads);

/* Runs n_tasks tasks and returns when all are done, and all they wrote is visible to the caller.
 * pool NULL: in the caller, at once. */
void mc_pool_run(mc_pool *pool, int n_tasks, mc_tasks_fn fn, void *context);

#endif
