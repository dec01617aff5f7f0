/* An op that goes row by row, ready to run alone or in a chain (cpu/chain.h). */
#ifndef CPU_STAGE_H
#define CPU_STAGE_H

#include "cpu/region.h"

/* An op that is ready to run. */
typedef struct mc_stage {
    mc_range_fn fn; /* takes ranges of the units: it may run on several threads */
    void *context;
    int64_t
        units; /* of the operand that leads, in logical order: elements, or rows of its last axis */
    int64_t grain;       /* units that are worth a thread */
    size_t bytes;        /* of memory */
    void *memory;        /* NULL while it is measured */
    int64_t outer, rows; /* units: [outer, rows, the same number each] */
} mc_stage;

/* Prepares an op. Called twice: first only mc_stage_memory is asked, and gives NULL; then memory is
 * there, the operands that do not go by rows are computed, and mc_stage_set ends it. */
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
