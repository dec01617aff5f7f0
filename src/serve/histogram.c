#include "serve/histogram.h"

#include <stdint.h>

const double mc_histogram_bounds[MC_HISTOGRAM_BOUNDS] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                                         1,     2.5,  5,     10,   30,  60,   300};

void mc_histogram_add(mc_histogram *histogram, double seconds) {
    size_t i = 0;
    while (i < MC_HISTOGRAM_BOUNDS && seconds > mc_histogram_bounds[i])
        i++;
    atomic_fetch_add_explicit(&histogram->counts[i], 1u, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum_us, (uint64_t)(seconds * 1e6), memory_order_relaxed);
}
