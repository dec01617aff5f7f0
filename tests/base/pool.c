/* base/pool: every task once, by workers that do not share an index, from any thread, in any
 * nesting. Worth running under ThreadSanitizer. */
#define _POSIX_C_SOURCE 200809L

#include "base/pool.h"

#include "support/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define MAX_TASKS 1000
#define MAX_WORKERS 16

typedef struct region {
    mc_pool *pool;
    int threads;
    int done[MAX_TASKS];             /* plain: written by one task each, read after the region */
    atomic_bool inside[MAX_WORKERS]; /* a worker index is used by one thread at a time */
    _Atomic int wrong;
} region;

static void count_tasks(void *context, int begin, int end, int worker) {
    region *r = context;
    if (worker < 0 || worker >= r->threads || begin < 0 || begin >= end || end > MAX_TASKS ||
        atomic_exchange(&r->inside[worker], true)) {
        atomic_fetch_add(&r->wrong, 1);
        return;
    }
    for (int task = begin; task < end; task++)
        r->done[task]++;
    atomic_store(&r->inside[worker], false);
}

static void check_region(mc_pool *pool, int threads, int n_tasks) {
    region r = {.pool = pool, .threads = threads};
    mc_pool_run(pool, n_tasks, count_tasks, &r);
    assert_int_equal(r.wrong, 0);
    for (int i = 0; i < MAX_TASKS; i++)
        assert_int_equal(r.done[i], i < n_tasks);
}

static void test_every_task_runs_once(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 3, 8, 16};
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        mc_pool *pool;
        assert_int_equal(mc_pool_open(threads[i], &pool), MICA_OK);
        assert_int_equal(mc_pool_threads(pool), threads[i]);
        for (int n = 0; n < 40; n++)
            check_region(pool, threads[i], n);
        check_region(pool, threads[i], MAX_TASKS);
        mc_pool_close(&pool);
        assert_null(pool);
        mc_pool_close(&pool);
    }
    check_region(NULL, 1, 10);
    assert_int_equal(mc_pool_threads(NULL), 1);
}

static void note_range(void *context, int begin, int end, int worker) {
    int *range = context;
    range[0]++;
    range[1] = begin;
    range[2] = end;
    range[3] = worker;
}

static void test_without_a_pool_tasks_run_at_once(void **state) {
    (void)state;
    int range[4] = {0};
    mc_pool_run(NULL, 100, note_range, range);
    assert_memory_equal(range, ((int[]){1, 0, 100, 0}), sizeof range);
    mc_pool_run(NULL, 0, note_range, range);
    assert_int_equal(range[0], 1);
}

static void nest(void *context, int begin, int end, int worker) {
    (void)worker;
    region *r = context, *inner = &r[1];
    for (int task = begin; task < end; task++) {
        region mine = {.pool = r->pool, .threads = r->threads};
        mc_pool_run(r->pool, 20, count_tasks, &mine);
        int sum = 0;
        for (int i = 0; i < 20; i++)
            sum += mine.done[i];
        if (sum != 20 || mine.wrong) atomic_fetch_add(&r->wrong, 1);
        atomic_fetch_add(&inner->wrong, sum);
    }
}

static void test_nested_regions(void **state) {
    (void)state;
    mc_pool *pool;
    assert_int_equal(mc_pool_open(3, &pool), MICA_OK);
    region both[2] = {{.pool = pool, .threads = 3}};
    mc_pool_run(pool, 50, nest, both);
    assert_int_equal(both[0].wrong, 0);
    assert_int_equal(both[1].wrong, 50 * 20);
    check_region(pool, 3, 100); /* and the pool is free again */
    mc_pool_close(&pool);
}

static void *many_regions(void *arg) {
    mc_pool *pool = arg;
    intptr_t wrong = 0;
    for (int round = 0; round < 300; round++) {
        region r = {.pool = pool, .threads = mc_pool_threads(pool)};
        mc_pool_run(pool, 1 + round % 30, count_tasks, &r);
        for (int i = 0; i < MAX_TASKS; i++)
            wrong += r.done[i] != (i < 1 + round % 30);
        wrong += r.wrong;
    }
    return (void *)wrong;
}

static void test_callers_in_many_threads(void **state) {
    (void)state;
    mc_pool *pool;
    pthread_t callers[4];
    assert_int_equal(mc_pool_open(3, &pool), MICA_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&callers[i], NULL, many_regions, pool), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *wrong;
        assert_int_equal(pthread_join(callers[i], &wrong), 0);
        assert_null(wrong);
    }
    mc_pool_close(&pool);
}

static void set_flag(void *context, int begin, int end, int worker) {
    (void)worker;
    (void)end;
    atomic_bool *ready = context;
    if (begin == 0) {
        while (!atomic_load(ready))
            continue; /* only another worker can end this */
    } else {
        atomic_store(ready, true);
    }
}

/* Two tasks that need each other: it ends only where two threads work, also after all have parked
 * and whichever of them takes the first task. */
static void test_workers_do_work(void **state) {
    (void)state;
    mc_pool *pool;
    assert_int_equal(mc_pool_open(2, &pool), MICA_OK);
    for (int i = 0; i < 200; i++) {
        atomic_bool ready = false;
        mc_pool_run(pool, 2, set_flag, &ready);
        assert_true(ready);
    }
    mc_pool_close(&pool);
}

/* The first task holds its worker until all others are done, those of its own share too. */
typedef struct hold {
    int n_tasks;
    _Atomic int done;
} hold;

static void hold_first(void *context, int begin, int end, int worker) {
    (void)worker;
    hold *h = context;
    for (int task = begin; task < end; task++) {
        if (task > 0) atomic_fetch_add(&h->done, 1);
        while (task == 0 && atomic_load(&h->done) < h->n_tasks - end)
            continue;
    }
}

static void test_a_slow_worker_is_relieved(void **state) {
    (void)state;
    mc_pool *pool;
    assert_int_equal(mc_pool_open(3, &pool), MICA_OK);
    for (int n = 3; n < 60; n++) {
        hold h = {.n_tasks = n};
        mc_pool_run(pool, n, hold_first, &h);
        assert_int_equal(h.done, n - 1);
    }
    mc_pool_close(&pool);
}

/* ---- several callers ---- */

/* A region of one of two callers. Who runs its first task holds it until the pair is over. */
typedef struct pair {
    mc_pool *pool;
    _Atomic int callers[2]; /* whether each region's caller runs a task */
    _Atomic int inside[2];  /* workers in each region */
    atomic_bool met;        /* there were a caller and a worker in both */
    _Atomic int visits;     /* pieces that workers took, */
    int visited[MAX_TASKS]; /* and of which region each was */
    atomic_bool alone;      /* the second region ran in its caller alone */
} pair;

typedef struct one_of_pair {
    pair *both;
    int which, n_tasks;
} one_of_pair;

static bool is_alone(const one_of_pair *one, int begin, int end) {
    if (one->which == 1 && begin == 0 && end == one->n_tasks) atomic_store(&one->both->alone, true);
    return atomic_load(&one->both->alone);
}

static void *run_one_of_pair(void *arg, mc_tasks_fn fn) {
    one_of_pair *one = arg;
    mc_pool_run(one->both->pool, one->n_tasks, fn, one);
    return NULL;
}

/* Holds each region's caller and one worker until there are both in both. Another worker goes on
 * when the caller is there, for whom it would leave no task. */
static void meet_in_pairs(void *context, int begin, int end, int worker) {
    one_of_pair *one = context;
    pair *both = one->both;
    _Atomic int *here = worker == 0 ? both->callers : both->inside;
    bool holds = atomic_fetch_add(&here[one->which], 1) == 0;
    while (holds && !is_alone(one, begin, end) && !atomic_load(&both->met)) {
        if (atomic_load(&both->callers[0]) && atomic_load(&both->callers[1]) &&
            atomic_load(&both->inside[0]) && atomic_load(&both->inside[1]))
            atomic_store(&both->met, true);
        sched_yield();
    }
    while (!holds && !atomic_load(&both->callers[one->which]) && !atomic_load(&both->met))
        sched_yield();
    atomic_fetch_sub(&here[one->which], 1);
}

static void *first_of_pairs(void *arg) {
    return run_one_of_pair(arg, meet_in_pairs);
}

/* Two callers and two workers: each region gets one of these. */
static void test_two_regions_have_a_worker_each(void **state) {
    (void)state;
    mc_pool *pool;
    pthread_t caller;
    assert_int_equal(mc_pool_open(3, &pool), MICA_OK);
    for (int i = 0; i < 20; i++) {
        pair both = {.pool = pool};
        one_of_pair first = {&both, 0, 9}, second = {&both, 1, 9}; /* three for each thread */
        assert_int_equal(pthread_create(&caller, NULL, first_of_pairs, &first), 0);
        while (!atomic_load(&both.callers[0]) || !atomic_load(&both.inside[0]))
            sched_yield();
        run_one_of_pair(&second, meet_in_pairs);
        assert_int_equal(pthread_join(caller, NULL), 0);
        assert_false(both.alone);
        assert_true(both.met);
    }
    mc_pool_close(&pool);
}

enum { VISITS = 10 };

/* The callers hold their first piece until the only worker has taken VISITS; it holds its first one
 * until both callers are there. */
static void visit(void *context, int begin, int end, int worker) {
    one_of_pair *one = context;
    pair *both = one->both;
    if (worker == 0) atomic_fetch_add(&both->inside[one->which], 1);
    int i = worker == 0 ? 0 : atomic_fetch_add(&both->visits, 1);
    if (worker > 0) both->visited[i] = one->which;
    while (!is_alone(one, begin, end) &&
           (worker == 0 ? atomic_load(&both->visits) < VISITS
                        : atomic_load(&both->inside[0]) < 1 || atomic_load(&both->inside[1]) < 1))
        sched_yield();
}

static void *first_to_visit(void *arg) {
    return run_one_of_pair(arg, visit);
}

/* One worker between two callers: it goes from one region to the other with every piece, for that
 * has none. */
static void test_a_single_worker_alternates(void **state) {
    (void)state;
    mc_pool *pool;
    pthread_t caller;
    assert_int_equal(mc_pool_open(2, &pool), MICA_OK);
    for (int round = 0; round < 100; round++) {
        pair both = {.pool = pool};
        one_of_pair first = {&both, 0, 60}, second = {&both, 1, 60};
        assert_int_equal(pthread_create(&caller, NULL, first_to_visit, &first), 0);
        while (atomic_load(&both.visits) < 1)
            sched_yield();
        run_one_of_pair(&second, visit);
        assert_int_equal(pthread_join(caller, NULL), 0);
        assert_false(both.alone);
        for (int i = 0; i < VISITS; i++)
            assert_int_equal(both.visited[i], i % 2);
    }
    mc_pool_close(&pool);
}

/* More callers than regions that the pool holds at once: those beyond run alone. */
static void hold_all(void *context, int begin, int end, int worker) {
    (void)end;
    (void)worker;
    atomic_int *missing = context;
    if (begin == 0) atomic_fetch_sub(missing, 1);
    while (atomic_load(missing) > 0)
        sched_yield();
}

typedef struct crowd {
    mc_pool *pool;
    atomic_int missing;
} crowd;

static void *run_in_crowd(void *arg) {
    crowd *c = arg;
    mc_pool_run(c->pool, 4, hold_all, &c->missing);
    return NULL;
}

static void test_more_callers_than_regions(void **state) {
    (void)state;
    enum { CALLERS = 20 };
    crowd c = {.missing = CALLERS};
    pthread_t callers[CALLERS];
    assert_int_equal(mc_pool_open(3, &c.pool), MICA_OK);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, run_in_crowd, &c), 0);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_join(callers[i], NULL), 0);
    assert_int_equal(c.missing, 0);
    check_region(c.pool, 3, 100);
    mc_pool_close(&c.pool);
}

/* Workers by a clock of their own: a task takes one of them `cost` units, and a worker goes on when
 * no other is behind it. */
typedef struct race {
    int threads, n_tasks, slow_cost; /* of worker 0; 1 of the others */
    _Atomic int taken, clock[MAX_WORKERS];
} race;

static bool is_ahead(race *r, int worker) {
    if (atomic_load(&r->taken) == r->n_tasks) return false; /* those behind may have left */
    for (int i = 0; i < r->threads; i++)
        if (atomic_load(&r->clock[i]) < atomic_load(&r->clock[worker])) return true;
    return false;
}

static void run_race(void *context, int begin, int end, int worker) {
    race *r = context;
    atomic_fetch_add(&r->clock[worker], (end - begin) * (worker == 0 ? r->slow_cost : 1));
    atomic_fetch_add(&r->taken, end - begin);
    while (is_ahead(r, worker))
        sched_yield();
}

/* A core slower than the others, with the eight tasks a thread that the cpu device makes: it holds
 * the region up by one of its tasks at most, against tasks dealt out by speed and in fractions. */
static void test_a_slow_core_does_not_hold_the_others(void **state) {
    (void)state;
    for (int threads = 2; threads <= 16; threads *= 2) {
        mc_pool *pool;
        assert_int_equal(mc_pool_open(threads, &pool), MICA_OK);
        for (int slow = 1; slow <= 4; slow++) {
            race r = {.threads = threads, .n_tasks = 8 * threads, .slow_cost = slow};
            mc_pool_run(pool, r.n_tasks, run_race, &r);
            int last = 0;
            for (int i = 0; i < threads; i++)
                if (r.clock[i] > last) last = r.clock[i];
            double best = r.n_tasks / (threads - 1 + 1.0 / slow);
            if (last > best + slow)
                fail_msg("%d threads, %d times slower: %d, best %.1f", threads, slow, last, best);
        }
        mc_pool_close(&pool);
    }
}

/* What is to be fetched ahead may be anywhere, and is never looked at. */
static void test_what_is_ahead_is_not_read(void **state) {
    (void)state;
    static const int threads[] = {2, 3, 16};
    const mc_stretch nowhere[MC_MAX_STRETCHES] = {{NULL, INT64_MAX / 8},
                                                  {(const void *)UINTPTR_MAX, 1 << 20},
                                                  {nowhere, 0},
                                                  {(const void *)1, 7}};
    mc_pool_prefetch(NULL, nowhere, 1);
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        mc_pool *pool;
        assert_int_equal(mc_pool_open(threads[i], &pool), MICA_OK);
        for (int n = 0; n < 200; n++) {
            mc_pool_prefetch(pool, nowhere + n % 4, n % (MC_MAX_STRETCHES - 3));
            check_region(pool, threads[i], n % 40);
        }
        mc_pool_close(&pool);
    }
}

static void check_part(const mc_stretch *next, int n, int worker, int threads, const void *begin,
                       int64_t bytes) {
    mc_stretch part = mc_pool_part(next, n, worker, threads);
    assert_int_equal(part.bytes, bytes);
    if (bytes > 0) assert_ptr_equal(part.begin, begin);
}

/* A worker's part is the beginning of its share, as far as that is in one stretch, and not more
 * than 128 KiB. */
static void test_parts_of_what_is_ahead(void **state) {
    (void)state;
    static const char a[2000], b[1000], c[1 << 20];
    const mc_stretch two[] = {{a, 2000}, {b, 1000}};
    check_part(two, 2, 0, 3, a, 1000);
    check_part(two, 2, 1, 3, a + 1000, 1000);
    check_part(two, 2, 2, 3, b, 1000);
    check_part(two, 2, 1, 2, a + 1500, 500);
    check_part(two, 2, 0, 1, a, 2000);
    check_part(two, 1, 3, 4, a + 1500, 500);
    check_part(two, 0, 0, 2, NULL, 0);
    const mc_stretch large = {c, 1 << 20};
    check_part(&large, 1, 0, 2, c, 128 * 1024);
    check_part(&large, 1, 1, 2, c + (1 << 19), 128 * 1024);
    check_part(&large, 1, 15, 16, c + (1 << 20) / 16 * 15, (1 << 20) / 16);
}

static void test_open_and_close_at_once(void **state) {
    (void)state;
    for (int i = 0; i < 100; i++) {
        mc_pool *pool;
        assert_int_equal(mc_pool_open(1 + i % 5, &pool), MICA_OK);
        if (i % 2) check_region(pool, 1 + i % 5, 7);
        mc_pool_close(&pool);
    }
}

static bool open_pool(void *arg) {
    (void)arg;
    mc_pool *pool;
    mica_status status = mc_pool_open(2, &pool);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    assert_true((pool != NULL) == (status == MICA_OK));
    mc_pool_close(&pool);
    return status == MICA_OK;
}

static void test_what_cannot_be_opened(void **state) {
    (void)state;
    mc_pool *pool;
    assert_int_equal(mc_pool_open(0, &pool), MICA_EINVAL);
    assert_int_equal(mc_pool_open(-3, &pool), MICA_EINVAL);
    assert_int_equal(mc_pool_open(1000000, &pool), MICA_EINVAL);
    assert_null(pool);
    test_fail_each_allocation(open_pool, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_task_runs_once),
        cmocka_unit_test(test_without_a_pool_tasks_run_at_once),
        cmocka_unit_test(test_nested_regions),
        cmocka_unit_test(test_callers_in_many_threads),
        cmocka_unit_test(test_workers_do_work),
        cmocka_unit_test(test_a_slow_worker_is_relieved),
        cmocka_unit_test(test_two_regions_have_a_worker_each),
        cmocka_unit_test(test_a_single_worker_alternates),
        cmocka_unit_test(test_more_callers_than_regions),
        cmocka_unit_test(test_a_slow_core_does_not_hold_the_others),
        cmocka_unit_test(test_what_is_ahead_is_not_read),
        cmocka_unit_test(test_parts_of_what_is_ahead),
        cmocka_unit_test(test_open_and_close_at_once),
        cmocka_unit_test(test_what_cannot_be_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
