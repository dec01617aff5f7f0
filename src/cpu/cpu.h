/* The state of the CPU device, as kernels use it. */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include "base/pool.h"
#include "cpu/kern/kern.h"
#include "exec/steps/step.h"

typedef struct mc_cpu {
    mc_pool *pool;
    const mk_kernels *kern; /* the kernels chosen for this machine */
    int threads;
    struct mc_fft_cache *fft;
    char description[160];
} mc_cpu;

/* The device's kernels, for the planner, and for tests that change some. */
extern const mc_step_ops mc_cpu_steps;

static inline mc_cpu *mc_cpu_of(const mc_call *call) {
    return (mc_cpu *)call->state;
}

#endif
