/* A row-by-row op, ready to run alone or in a chain (cpu/chain.h). */
#ifndef CPU_STAGE_H
#define CPU_STAGE_H

#include "cpu/region.h"

/* An op that is ready to run. */
typedef struct mc_stage {
    mc_range_fn fn; /* runs a range of units; may run on several threads */
    void *context;
    int64_t
        units; /* of the leading operand, in logical order: elements, or rows of its last axis */
    int64_t grain;       /* min units worth a thread */
    size_t bytes;        /* size of memory */
    void *memory;        /* NULL while it is measured */
    int64_t outer, rows; /* units are [outer, rows, the rest], the same number in each row */
} mc_stage;

/* Prepares an op, in two calls. In the first mc_stage_memory gives NULL, and only measures. In the
 * second there is memory: the function computes the operands that do not go by rows, and ends with
 * mc_stage_set. */
typedef mica_status (*mc_stage_fn)(const mc_call *call, mc_stage *stage);

static inline void *mc_stage_memory(mc_stage *stage, size_t bytes) {
    stage->bytes = bytes;
    return stage->memory;
}

static inline void mc_stage_set(mc_stage *stage, mc_range_fn fn, void *context, int64_t units,
                                int64_t grain) {
    stage->fn = fn;
    stage->context = context;
    stage->units = units;
    stage->grain = grain < 1 ? 1 : grain;
}

#endif
