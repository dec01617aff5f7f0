/* Times a parallel region.
 *
 *     pool [THREADS]
 *
 * Each thread has one task, which only waits until the others' tasks begin. Regions follow each
 * other at once, or after pauses in which workers spin or park. Then it measures the CPU time of
 * idle workers. THREADS: default all usable CPUs. */
#define _POSIX_C_SOURCE 200809L

#include "base/pool.h"
#include "base/system.h"
#include "timing.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 2001, IDLE_MS = 500 };

static void meet(void *context, int begin, int end, int worker) {
    (void)worker;
    atomic_int *missing = context;
    atomic_fetch_sub(missing, end - begin);
    while (atomic_load(missing) > 0)
        continue;
}

static void time_regions(mc_pool *pool, int threads, double pause_us) {
    static double us[ROUNDS];
    int rounds = pause_us > 1000 ? ROUNDS / 10 : ROUNDS;
    for (int i = 0; i < rounds; i++) {
        double start = seconds_of(CLOCK_MONOTONIC), begin = start;
        while (begin - start < pause_us * 1e-6)
            begin = seconds_of(CLOCK_MONOTONIC);
        atomic_int missing = threads;
        mc_pool_run(pool, threads, meet, &missing);
        us[i] = (seconds_of(CLOCK_MONOTONIC) - begin) * 1e6;
    }
    qsort(us, (size_t)rounds, sizeof *us, compare);
    printf("%8.0f  %8.2f  %8.2f  %8.2f\n", pause_us, us[0], us[rounds / 2], us[rounds * 9 / 10]);
}

int main(int argc, char **argv) {
    static const double pauses_us[] = {0, 3, 10, 30, 100, 2000};
    int threads = argc > 1 ? atoi(argv[1]) : mc_core_count();
    mc_pool *pool;
    if (mc_pool_open(threads, &pool) != MICA_OK) {
        fprintf(stderr, "pool: %s\n", mica_last_error());
        return EXIT_FAILURE;
    }
    printf("a region of %d threads, us\n   after     least    median  9 of 10\n", threads);
    for (size_t i = 0; i < sizeof pauses_us / sizeof pauses_us[0]; i++)
        time_regions(pool, threads, pauses_us[i]);
    double before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    nanosleep(&(struct timespec){.tv_nsec = IDLE_MS * 1000000L}, NULL);
    double used = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before;
    printf("CPU time of %d idle ms after a region: %.3f ms\n", IDLE_MS, used * 1e3);
    mc_pool_close(&pool);
    return EXIT_SUCCESS;
}
