/* Element-wise ops as one loop each, or several as one: the kernels of kern/elem. */
#ifndef CPU_FUSE_H
#define CPU_FUSE_H

#include "cpu/cpu.h"

/* Steps that a call takes at most: it loads, computes and stores. */
#define MC_FUSE_STEPS 3

/* Calls that run as one loop over their elements. */
typedef struct mc_fused {
    void (*run)(int64_t begin, int64_t end, const mk_step *steps, int n_steps);
    const mk_step *steps;
    int n_steps;
} mc_fused;

/* What calls of a chain became. */
typedef struct mc_fusion {
    mk_step steps[MC_FUSE_STEPS * MC_MAX_CHAIN];
    mc_fused fused[MC_MAX_CHAIN];
    int n_steps, n_fused;
} mc_fusion;

/* Whether a call can be a part of such a loop: its operands are dense f32 or single numbers. */
bool mc_can_fuse(const mc_call *call);

/* The loop of calls [0, n), which all can, and in all chains of a fusion are MC_MAX_CHAIN at most.
 * Each has the bits that it has alone, but those of a NaN; a result is stored where somebody else
 * may read it. */
mc_fused *mc_fuse(mc_fusion *fusion, const mc_call *calls, int n);

/* Runs elements of the mc_fused that `context` points to: an mc_range_fn. */
void mc_run_fused(void *context, int64_t begin, int64_t end, int worker);

#endif
