/* Splitting a lowered graph where ops in it have to run on another device.
 *
 * Ops are dealt out in levels that run in turn, of three kinds: on the device, on the fallback, and
 * nodes of control flow, each a part of its own. An op is on the first level where all that it
 * reads is there. What one level makes and another reads, a result of an op, dense, goes from one
 * to the other: of an op of several results a PART. Views move no data: each level makes its own.
 * But a view that control flow reads is made before it, and goes there as other results do. */
#ifndef EXEC_SPLIT_H
#define EXEC_SPLIT_H

#include "base/arena.h"
#include "device/backend.h"

/* Where an operand of control flow is. */
typedef struct mc_control_arg {
    enum { MC_ARG_SLOT, MC_ARG_SCALAR, MC_ARG_NUMBER } kind;
    mica_dtype dtype;
    uint32_t index; /* of the slot, or of the run's scalar */
    uint64_t value; /* of the number */
} mc_control_arg;

/* A part of the graph. Slots are as in mc_segment. */
typedef struct mc_part {
    mc_lowered *lowered; /* owned by whoever asked for the split, until it hands it to a device;
                            NULL: a node of control flow */
    bool fallback;
    uint32_t *args, *scalars, *results; /* as mc_segment has them */
    const mc_node *control;             /* of the graph that was split */
    mc_control_arg *control_args;       /* [operands of control] */
} mc_part;

/* Whether the graph has control flow. */
bool mc_has_control(const mc_lowered *lowered);

/* Splits; parts [*n_parts] and what they point to live in `arena`, but for the graphs.
 *
 * fallback      [n_fallback] nodes that the fallback device runs.
 * result_slots  [n_results] receives the slots of the results.
 * errors        MICA_ENOMEM: no part is left behind */
mica_status mc_split(mica_device *device, const mc_lowered *lowered, const uint32_t *fallback,
                     uint32_t n_fallback, mc_arena *arena, mc_part **parts, uint32_t *n_parts,
                     uint32_t *result_slots, uint32_t *n_slots);

#endif
