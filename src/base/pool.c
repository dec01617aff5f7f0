#define _POSIX_C_SOURCE 200809L

#include "base/pool.h"

#include "base/alloc.h"
#include "base/system.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* How a region runs.
 *
 * A caller claims one of the pool's slots, writes the region's fields there and opens it. The
 * slot's word in `states` holds the region's number, whether it is open, and how many workers are
 * in it. Workers that see it open join by adding themselves to the count. When no task is left, the
 * caller closes the region, so that no worker joins late, and waits until all workers in it have
 * left. It never waits for a worker that sleeps. A caller works on its own region only: no region
 * waits for another.
 *
 * Regions of several callers share the workers. A worker joins the open region with the fewest
 * workers; of equals it takes the next after the slot that it left last. After each piece it checks
 * whether another region has fewer workers, and moves there: a long region gives workers to short
 * ones beside it, and a single worker alternates. Several workers that check at the same moment may
 * all move; the next pieces correct that.
 *
 * Each worker has a share of consecutive tasks of a region. It takes a third of what is left of
 * its share from the front, again and again: memory is read in order, in long runs. A worker whose
 * share is empty takes a third of what another worker has left, from the back; workers on its own
 * memory node come first. With halves instead of thirds, one core that was three times slower than
 * 15 others delayed a region by 44 % with the first piece that it took; with thirds by 20 %.
 *
 * Prefetch: any caller may write the stretches to prefetch, also the caller of a region that runs
 * in its caller alone. A worker that reads them while they change prefetches useless memory, which
 * does no harm. Their number (`ahead`) changes after the next region was opened, so that workers do
 * not start to prefetch on their way into that region.
 *
 * A slot's fields in `work` are not atomic: only the caller that claimed the slot writes them,
 * while the region is closed and empty, and only workers that have joined read them.
 *
 * Parking: a thread that wants to sleep raises its counter (`parked`, or `callers_waiting`) and
 * reads the states once more before it waits. A thread that changes a state reads the counter
 * afterwards. All of these are sequentially consistent: at least one of the two threads sees the
 * other. */

#define COUNT_MASK UINT64_C(0xffff)
#define OPEN_BIT UINT64_C(0x10000)
#define NUMBER_ONE UINT64_C(0x20000) /* the lowest bit of the region's number */
#define NUMBER_MASK (~(COUNT_MASK | OPEN_BIT))
#define MAX_THREADS 4096
#define MAX_REGIONS 8 /* that share the workers: their states fill a cache line */
#define CACHE_LINE 64

#define SPIN_US 40 /* longer than the pause between two regions of a decode step */
#define PAUSES_A_LOOK 16
#define AHEAD_BYTES (128 * 1024) /* that a worker prefetches: it has no time for more */
#define LINES_A_PAUSE 8

#if defined(__x86_64__) || defined(__i386__)
#define CPU_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define CPU_PAUSE() __asm__ volatile("yield")
#else
#define CPU_PAUSE() ((void)0)
#endif

/* What a thread prefetches. */
typedef struct prefetcher {
    int index;       /* of the worker; 0: a caller */
    unsigned number; /* of the stretches that it prefetches */
    uintptr_t next;  /* what is left of them */
    int64_t left;
} prefetcher;

typedef struct task_share {
    _Alignas(CACHE_LINE) _Atomic uint64_t tasks; /* begin .. end - 1 as end << 32 | begin */
} task_share;

typedef struct worker {
    task_share shares[MAX_REGIONS]; /* by slot */
    mc_pool *pool;
    pthread_t thread; /* unset in worker 0, the caller */
    int index;
    int first, after; /* workers first .. after - 1 are on its memory node */

    _Alignas(CACHE_LINE) prefetcher ahead;
    int last;                       /* slot of the region that it left last */
    uint64_t finished[MAX_REGIONS]; /* by slot: number of the region that had no task left for it */
} worker;

/* What a slot's region runs. */
typedef struct region_work {
    mc_tasks_fn fn;
    void *context;
} region_work;

struct mc_pool {
    _Alignas(CACHE_LINE) _Atomic uint64_t states[MAX_REGIONS];
    _Alignas(CACHE_LINE) _Atomic unsigned claimed; /* bit i: a caller has claimed slot i */
    region_work work[MAX_REGIONS];

    _Alignas(CACHE_LINE) _Atomic unsigned ahead; /* number of the stretches below */
    atomic_bool told;                            /* they are new and have no number yet */
    struct {
        _Atomic uintptr_t begin;
        _Atomic int64_t bytes;
    } stretches[MC_MAX_STRETCHES]; /* unused ones have 0 bytes */

    _Alignas(CACHE_LINE) _Atomic int parked;
    _Atomic int callers_waiting;
    atomic_bool stop;
    pthread_mutex_t lock; /* only for the condition variables */
    pthread_cond_t wake;
    pthread_cond_t left;

    pid_t process; /* that opened it */
    int threads;
    int started; /* running workers; threads - 1 when the pool is open */
    uint64_t spin_us;
    prefetcher callers[MAX_REGIONS]; /* by slot: of the caller that claimed it */
    worker workers[];                /* [threads] */
};

static bool is_open(uint64_t state) {
    return (state & OPEN_BIT) != 0;
}

static int count_of(uint64_t state) {
    return (int)(state & COUNT_MASK);
}

static uint64_t share_of(uint64_t begin, uint64_t end) {
    return end << 32 | begin;
}

static void deal_tasks(mc_pool *pool, int slot, int n_tasks) {
    uint64_t n = (uint64_t)n_tasks, threads = (uint64_t)pool->threads;
    for (uint64_t i = 0; i < threads; i++)
        atomic_store_explicit(&pool->workers[i].shares[slot].tasks,
                              share_of(i * n / threads, (i + 1) * n / threads),
                              memory_order_relaxed);
}

/* Takes a third of what is left of a share: from the front of the worker's own, from the back of
 * another's. False: nothing is left. */
static bool take_tasks(task_share *from, bool own, int *begin, int *end) {
    uint64_t tasks = atomic_load_explicit(&from->tasks, memory_order_relaxed), rest;
    do {
        uint64_t first = tasks & UINT32_MAX, after = tasks >> 32;
        if (first == after) return false;
        uint64_t third = (after - first + 2) / 3;
        *begin = (int)(own ? first : after - third);
        *end = (int)(own ? first + third : after);
        rest = own ? share_of(first + third, after) : share_of(first, after - third);
    } while (!atomic_compare_exchange_weak_explicit(&from->tasks, &tasks, rest,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* The i-th worker whose share a worker takes from: 0 is itself, then come those of its node, then
 * the others. Each worker begins with a different one, so that they do not all try the same. */
static int nth_from(const mc_pool *pool, int self, int i) {
    int first = pool->workers[self].first, after = pool->workers[self].after;
    int near = after - first, at = self - first;
    if (i < near) return first + (at + i) % near;
    return (after + (at + i - near) % (pool->threads - near)) % pool->threads;
}

/* ---- whose tasks a worker runs ---- */

/* The open region with the fewest workers, of those that may have tasks for this one; -1: none. */
static int find_region(const worker *self) {
    int best = -1, fewest = 0;
    for (int i = 1; i <= MAX_REGIONS; i++) {
        int slot = (self->last + i) % MAX_REGIONS;
        uint64_t state = atomic_load(&self->pool->states[slot]);
        if (!is_open(state) || (state & NUMBER_MASK) == self->finished[slot]) continue;
        if (best >= 0 && count_of(state) >= fewest) continue;
        best = slot;
        fewest = count_of(state);
    }
    return best;
}

/* Whether a region has fewer workers than that of `slot`, which this worker is in. */
static bool is_wanted_elsewhere(const worker *self, int slot) {
    const mc_pool *pool = self->pool;
    unsigned claimed = atomic_load_explicit(&pool->claimed, memory_order_relaxed);
    if ((claimed & (claimed - 1)) == 0) return false;
    int other = find_region(self);
    return other >= 0 && other != slot &&
           count_of(atomic_load(&pool->states[other])) < count_of(atomic_load(&pool->states[slot]));
}

/* Runs tasks of the slot's region until none is left (true), or until another region needs the
 * worker more (false). self 0: the caller, which stays. */
static bool run_tasks(mc_pool *pool, int slot, int self) {
    region_work work = pool->work[slot];
    int begin, end;
    for (int i = 0; i < pool->threads; i++) {
        task_share *from = &pool->workers[nth_from(pool, self, i)].shares[slot];
        while (take_tasks(from, i == 0, &begin, &end)) {
            work.fn(work.context, begin, end, self);
            if (self > 0 && is_wanted_elsewhere(&pool->workers[self], slot)) return false;
        }
    }
    return true;
}

/* ---- prefetch ---- */

void mc_pool_prefetch(mc_pool *pool, const mc_stretch *next, int n) {
    if (!pool || pool->threads == 1) return;
    for (int i = 0; i < MC_MAX_STRETCHES; i++) {
        mc_stretch s = i < n ? next[i] : (mc_stretch){0};
        atomic_store_explicit(&pool->stretches[i].begin, (uintptr_t)s.begin, memory_order_relaxed);
        atomic_store_explicit(&pool->stretches[i].bytes, s.bytes, memory_order_relaxed);
    }
    atomic_store_explicit(&pool->told, true, memory_order_release);
}

mc_stretch mc_pool_part(const mc_stretch *next, int n, int index, int threads) {
    int64_t all = 0;
    for (int i = 0; i < n; i++)
        all += next[i].bytes;
    int64_t share = all / threads, skip = share * index;
    for (int i = 0; i < n; skip -= next[i++].bytes) {
        if (skip >= next[i].bytes) continue;
        int64_t bytes = next[i].bytes - skip; /* a share ends with its stretch */
        if (bytes > share) bytes = share;
        if (bytes > AHEAD_BYTES) bytes = AHEAD_BYTES;
        return (mc_stretch){(const void *)((uintptr_t)next[i].begin + (uintptr_t)skip), bytes};
    }
    return (mc_stretch){0};
}

static void number_ahead(mc_pool *pool) {
    if (!atomic_load_explicit(&pool->told, memory_order_relaxed)) return;
    atomic_store_explicit(&pool->told, false, memory_order_relaxed);
    atomic_fetch_add_explicit(&pool->ahead, 1, memory_order_release);
}

static void find_part(const mc_pool *pool, prefetcher *p) {
    mc_stretch next[MC_MAX_STRETCHES];
    for (int i = 0; i < MC_MAX_STRETCHES; i++) {
        uintptr_t begin = atomic_load_explicit(&pool->stretches[i].begin, memory_order_relaxed);
        next[i].begin = (const void *)begin;
        next[i].bytes = atomic_load_explicit(&pool->stretches[i].bytes, memory_order_relaxed);
    }
    mc_stretch part = mc_pool_part(next, MC_MAX_STRETCHES, p->index, pool->threads);
    p->next = (uintptr_t)part.begin;
    p->left = part.bytes;
}

/* Prefetches some cache lines, or pauses if none are left. */
static void fetch_or_pause(const mc_pool *pool, prefetcher *p) {
    unsigned number = atomic_load_explicit(&pool->ahead, memory_order_acquire);
    if (number != p->number) {
        p->number = number;
        find_part(pool, p);
    }
    if (p->left <= 0) CPU_PAUSE();
    for (int i = 0; i < LINES_A_PAUSE && p->left > 0; i++) {
        __builtin_prefetch((const void *)p->next, 0, 2);
        p->next += CACHE_LINE;
        p->left -= CACHE_LINE;
    }
}

/* ---- waiting ---- */

/* Whether to spin on, until spin_us after the first call, whose *end is 0. The yield lets other
 * threads run if the machine is busy. */
static bool spins_on(const mc_pool *pool, uint64_t *end) {
    uint64_t now = mc_now_us();
    if (*end == 0) *end = now + pool->spin_us;
    if (now >= *end || atomic_load(&pool->stop)) return false;
    sched_yield();
    return true;
}

/* Spins until there is a region to join, for at most spin_us; -1: there is none. */
static int spin_for_region(worker *self) {
    uint64_t end = 0;
    do {
        for (int i = 0; i < PAUSES_A_LOOK; i++) {
            int slot = find_region(self);
            if (slot >= 0) return slot;
            fetch_or_pause(self->pool, &self->ahead);
        }
    } while (spins_on(self->pool, &end));
    return -1;
}

/* Spins until the slot's count is not `count`, for at most spin_us; false: it has not changed. */
static bool spin_while_count(mc_pool *pool, int slot, uint64_t count) {
    uint64_t end = 0;
    do {
        for (int i = 0; i < PAUSES_A_LOOK; i++) {
            if ((atomic_load(&pool->states[slot]) & COUNT_MASK) != count) return true;
            fetch_or_pause(pool, &pool->callers[slot]);
        }
    } while (spins_on(pool, &end));
    return false;
}

/* ---- workers ---- */

static void park(worker *self) {
    mc_pool *pool = self->pool;
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->parked, 1);
    while (!atomic_load(&pool->stop) && find_region(self) < 0)
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->parked, 1);
    pthread_mutex_unlock(&pool->lock);
}

/* Joins the slot's open region. False: it was closed meanwhile. */
static bool join(mc_pool *pool, int slot, uint64_t *number) {
    uint64_t state = atomic_load(&pool->states[slot]);
    do {
        *number = state & NUMBER_MASK;
        if (!is_open(state)) return false;
    } while (!atomic_compare_exchange_weak(&pool->states[slot], &state, state + 1));
    return true;
}

static void leave(mc_pool *pool, int slot) {
    uint64_t before = atomic_fetch_sub(&pool->states[slot], 1);
    bool last = count_of(before) == 1 && !is_open(before);
    if (!last || atomic_load(&pool->callers_waiting) == 0) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->left);
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *arg) {
    worker *self = arg;
    mc_pool *pool = self->pool;
    uint64_t number;
    while (!atomic_load(&pool->stop)) {
        int slot = spin_for_region(self);
        if (slot < 0) park(self);
        if (slot < 0 || !join(pool, slot, &number)) continue;
        if (run_tasks(pool, slot, self->index)) self->finished[slot] = number;
        self->last = slot;
        leave(pool, slot);
    }
    return NULL;
}

/* ---- callers ---- */

static void wake_workers(mc_pool *pool, int max) {
    if (atomic_load(&pool->parked) == 0) return;
    pthread_mutex_lock(&pool->lock);
    if (max >= pool->threads - 1) {
        pthread_cond_broadcast(&pool->wake);
    } else {
        for (int i = 0; i < max; i++)
            pthread_cond_signal(&pool->wake);
    }
    pthread_mutex_unlock(&pool->lock);
}

static void wait_until_empty(mc_pool *pool, int slot) {
    for (;;) {
        uint64_t count = atomic_load(&pool->states[slot]) & COUNT_MASK;
        if (count == 0) return;
        if (!spin_while_count(pool, slot, count)) break;
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->callers_waiting, 1);
    while (count_of(atomic_load(&pool->states[slot])) != 0)
        pthread_cond_wait(&pool->left, &pool->lock);
    atomic_fetch_sub(&pool->callers_waiting, 1);
    pthread_mutex_unlock(&pool->lock);
}

/* Claims the first free slot; -1: there is none. */
static int claim_slot(mc_pool *pool) {
    unsigned claimed = atomic_load(&pool->claimed);
    int slot;
    do {
        for (slot = 0; slot < MAX_REGIONS && (claimed & 1u << slot) != 0; slot++)
            continue;
        if (slot == MAX_REGIONS) return -1;
    } while (!atomic_compare_exchange_weak(&pool->claimed, &claimed, claimed | 1u << slot));
    return slot;
}

void mc_pool_run(mc_pool *pool, int n_tasks, mc_tasks_fn fn, void *context) {
    if (n_tasks <= 0) return;
    int slot = pool && pool->threads > 1 && n_tasks > 1 ? claim_slot(pool) : -1;
    if (slot < 0) {
        fn(context, 0, n_tasks, 0);
        return;
    }
    pool->work[slot] = (region_work){fn, context};
    deal_tasks(pool, slot, n_tasks);
    atomic_fetch_add(&pool->states[slot], NUMBER_ONE + OPEN_BIT);
    number_ahead(pool);
    wake_workers(pool, n_tasks - 1);
    run_tasks(pool, slot, 0);
    atomic_fetch_sub(&pool->states[slot], OPEN_BIT);
    wait_until_empty(pool, slot);
    atomic_fetch_and(&pool->claimed, ~(1u << slot));
}

/* ---- opening and closing ---- */

static void place_workers(mc_pool *pool, const mc_numa *numa) {
    for (int first = 0, after = 0; first < pool->threads; first = after) {
        int node = mc_numa_node_of_worker(numa, first, pool->threads);
        while (after < pool->threads && mc_numa_node_of_worker(numa, after, pool->threads) == node)
            after++;
        for (int i = first; i < after; i++) {
            worker *w = &pool->workers[i];
            w->pool = pool;
            w->index = w->ahead.index = i;
            w->first = first;
            w->after = after;
        }
    }
}

static mica_status start_workers(mc_pool *pool, const mc_numa *numa) {
    for (int i = 1; i < pool->threads; i++) {
        worker *w = &pool->workers[i];
        int error = mc_thread_start(&w->thread, worker_main, w);
        if (error) {
            return mc_fail(MICA_EDEVICE, "thread pool: cannot start thread %d of %d: %s", i + 1,
                           pool->threads, strerror(error));
        }
        pool->started++;
        if (numa->nodes == 1) continue;
        mc_bits cpus = mc_numa_cpus_of(numa, mc_numa_node_of_worker(numa, i, pool->threads));
        numa->bind(w->thread, &cpus);
    }
    return MICA_OK;
}

mica_status mc_pool_open(int threads, mc_pool **pool) {
    mc_numa numa;
    mc_numa_here(&numa);
    return mc_pool_open_on(threads, &numa, pool);
}

mica_status mc_pool_open_on(int threads, const mc_numa *numa, mc_pool **pool) {
    *pool = NULL;
    if (threads < 1 || threads > MAX_THREADS) {
        return mc_fail(MICA_EINVAL, "thread pool: want 1 to %d threads, not %d", MAX_THREADS,
                       threads);
    }
    size_t bytes = sizeof(mc_pool) + (size_t)threads * sizeof(worker);
    mc_pool *made = mc_aligned_alloc(CACHE_LINE, bytes);
    if (!made) return mc_fail_nomem("thread pool");
    memset(made, 0, bytes);
    made->process = getpid();
    made->threads = threads;
    /* With fewer CPUs than threads, a spinning thread may keep the one it waits for from
     * running. */
    made->spin_us = threads <= mc_cpu_count() ? SPIN_US : 0;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->wake, NULL);
    pthread_cond_init(&made->left, NULL);
    place_workers(made, numa);
    mica_status status = start_workers(made, numa);
    if (status != MICA_OK) {
        mc_pool_close(&made);
        return status;
    }
    *pool = made;
    return MICA_OK;
}

void mc_pool_close(mc_pool **pool) {
    mc_pool *p = *pool;
    if (!p) return;
    *pool = NULL;
    if (p->process != getpid()) { /* a fork has neither the workers nor who holds the lock */
        mc_free(p);
        return;
    }
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, true);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 1; i <= p->started; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->left);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    mc_free(p);
}

int mc_pool_threads(const mc_pool *pool) {
    return pool ? pool->threads : 1;
}
