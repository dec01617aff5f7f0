/* What the benchmarks share: clocks, medians, and ending at an error. */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Ends the program where something failed. */
static inline void must(mica_status status) {
    if (status == MICA_OK) return;
    fprintf(stderr, "%s\n", mica_last_error());
    exit(1);
}

#ifdef CLOCK_MONOTONIC /* with _POSIX_C_SOURCE */
/* A clock's time in seconds. */
static inline double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
#endif

static inline int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of n numbers, n odd; sorts them. */
static inline double median(double *x, size_t n) {
    qsort(x, n, sizeof *x, compare);
    return x[n / 2];
}

#endif
