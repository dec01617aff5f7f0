/* Parallel regions: how kernels split work over the device's pool. */
#ifndef CPU_REGION_H
#define CPU_REGION_H

#include "cpu/cpu.h"

/* Splits [0, n) into runs of at least `grain` and calls fn(context, begin, end, worker) on the
 * pool. A single run is computed by the caller alone. */
typedef void (*mc_range_fn)(void *context, int64_t begin, int64_t end, int worker);
void mc_cpu_for(const mc_call *call, int64_t n, int64_t grain, mc_range_fn fn, void *context);

#endif
