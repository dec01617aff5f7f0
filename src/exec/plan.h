/* The planner: a graph to steps over planned memory, and the cache of plans.
 *
 * A plan is made once for a structure (mc_trace: ops, attributes, dtypes, shapes, strides of the
 * leaves and which of them may be overwritten; never the values) and replayed for every later graph
 * of the same structure, with that graph's leaves bound. It is immutable once made and shared
 * between threads.
 *
 * Memory: each value has a root, a run of memory that it lies in, perhaps together with others
 * (views, results written in place). A root is a leaf that is bound, a constant of the plan, a
 * place in the plan's one block of temporary memory, or a storage of its own where the value is
 * asked for or may take over a moved leaf. */
#ifndef EXEC_PLAN_H
#define EXEC_PLAN_H

#include "device/backend.h"
#include "exec/trace.h"

typedef enum mc_root_kind { MC_ROOT_LEAF, MC_ROOT_CONST, MC_ROOT_TEMP, MC_ROOT_OWN } mc_root_kind;

typedef struct mc_root {
    mc_root_kind kind;
    uint32_t index; /* LEAF: which leaf; OWN: the leaf it may take over, or MC_ABSENT */
    uint64_t value; /* CONST: the element's bytes */
    int64_t bytes;  /* TEMP, OWN */
    int64_t offset; /* TEMP: in the block */
    uint32_t last;  /* the last step that touches it */
    bool target;    /* holds a value that is asked for */
    bool movable;   /* LEAF: may be overwritten by the op that reads it last */
    bool placed;    /* TEMP: offset is set */
} mc_root;

typedef struct mc_value {
    mc_layout layout;
    uint32_t root;
    int64_t offset_bytes; /* of the first element in the root */
} mc_value;

typedef struct mc_step {
    mc_op op;
    mc_kernel kernel;
    const void *attr;
    uint32_t n_in;
    const uint32_t *in; /* values, or MC_ABSENT */
    uint32_t out;
    uint32_t joint; /* steps from this one on that are joint; 0: an earlier one's */
    uint32_t span;  /* steps from this one on that its kernel runs; 0: an earlier one's */
    mc_row_form form;
    int axis; /* in a chain: the one that its rows lie along */
} mc_step;

typedef struct mc_plan mc_plan;
struct mc_plan {
    mc_arena arena;    /* everything below */
    mica_scope *graph; /* the lowered graph, which holds the attributes */
    uint32_t n_values, n_roots, n_steps, n_targets, n_leaves, n_operands;
    mc_value *values;
    mc_root *roots;
    mc_step *steps;
    uint32_t *targets; /* [n_targets] values */
    int64_t temp_bytes;
};

/* Makes a plan for a trace: lowers it to ops that the device has kernels for, resolves views,
 * finds what can be written in place, and places temporaries.
 * errors  MICA_EUNSUPPORTED an op with neither kernel nor decomposition; MICA_ENOMEM */
mica_status mc_plan_make(mica_device *device, const mc_trace *trace, mc_plan **plan);
void mc_plan_free(mc_plan *plan);

#endif
