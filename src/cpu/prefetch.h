/* Prefetches the weights of the next matmul. Threads wait at the end of a matmul, and while one of
 * them computes the row-by-row ops before the next one. While they wait they prefetch
 * (base/pool.h). */
#ifndef CPU_PREFETCH_H
#define CPU_PREFETCH_H

#include "cpu/cpu.h"

/* Says what the next matmul reads, before the region of a matmul of m rows begins; `last` is the
 * last call in that region. Threads that wait then prefetch a part of it. */
void mc_cpu_prefetch(const mc_call *last, int64_t m);
/* The memory that the next matmul reads, for all calls of its region. Returns the number of
 * stretches. */
int mc_cpu_next(const mc_call *last, mc_stretch next[MC_MAX_JOINT]);

#endif
