/* What the next matmul reads, said while the one before it runs: threads wait at its end, and while
 * one of them goes through the rows between the two, and can prefetch it meanwhile
 * (base/pool.h). */
#ifndef CPU_PREFETCH_H
#define CPU_PREFETCH_H

#include "cpu/cpu.h"

/* Before the region of a matmul of m rows, `last` the last call of those in it: says what the next
 * matmul reads. Threads that wait then prefetch a part of it. */
void mc_cpu_prefetch(const mc_call *last, int64_t m);
/* What the next matmul reads, and how many stretches that is: of all calls that are one region. */
int mc_cpu_next(const mc_call *last, mc_stretch next[MC_MAX_JOINT]);

#endif
