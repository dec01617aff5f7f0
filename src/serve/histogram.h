/* Counts of durations by their lengths, as Prometheus has histograms. Zero is empty.
 * Threads: any. */
#ifndef SERVE_HISTOGRAM_H
#define SERVE_HISTOGRAM_H

#include <stdatomic.h>
#include <stddef.h>

enum { MC_HISTOGRAM_BOUNDS = 14 };
extern const double mc_histogram_bounds[MC_HISTOGRAM_BOUNDS]; /* seconds */

typedef struct mc_histogram {
    atomic_uint_fast64_t counts[MC_HISTOGRAM_BOUNDS + 1]; /* up to each bound; beyond the last */
    atomic_uint_fast64_t sum_us;
} mc_histogram;

void mc_histogram_add(mc_histogram *histogram, double seconds);

#endif
