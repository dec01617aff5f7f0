/* The planner: a lowered graph to steps over planned memory.
 *
 * A plan is immutable once made and shared between threads.
 *
 * Memory: each value has a root, a run of memory that it lies in, perhaps together with others
 * (views, results written in place). A root is a parameter, a scalar, a place in the plan's one
 * block of temporary memory, or a storage of its own where the value is asked for or may take over
 * a donated parameter. The scalars of a run lie in one block too, which a device can copy at once:
 * those that a launch brings, and behind them the plan's constants. */
#ifndef EXEC_STEPS_PLAN_H
#define EXEC_STEPS_PLAN_H

#include "base/arena.h"
#include "device/pass.h"
#include "exec/steps/step.h"

typedef enum mc_root_kind { MC_ROOT_PARAM, MC_ROOT_SCALAR, MC_ROOT_TEMP, MC_ROOT_OWN } mc_root_kind;

typedef struct mc_root {
    mc_root_kind kind;
    uint32_t index; /* PARAM, SCALAR: which; OWN: the parameter it may take over, or MC_ABSENT */
    uint64_t value; /* SCALAR: the element's bytes, where it is a constant */
    int64_t bytes;  /* TEMP, OWN */
    int64_t offset; /* TEMP: in the block */
    uint32_t last;  /* the last step that touches it */
    bool target;    /* holds a value that is asked for */
    bool movable;   /* PARAM: donated: may be overwritten by the op that reads it last */
    bool placed;    /* TEMP: offset is set */
    bool untouched; /* TEMP: no kernel reads or writes it: offset is of an address without memory */
    bool fixed;     /* PARAM: a constant of the graph */
    struct mc_storage *constant; /* PARAM: what every launch brings; NULL: that is not known */
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
    const uint32_t *in;  /* values, or MC_ABSENT */
    uint32_t out, n_out; /* the first of its results, which are values one after the other */
    uint32_t joint;      /* steps from this one on that are joint; 0: an earlier one's */
    uint32_t span;       /* steps from this one on that its kernel runs; 0: an earlier one's */
    mc_row_form form;
    struct mc_prepared *prepared; /* what its kernel made of a constant; NULL: nothing */
    int axis;   /* in a chain: the one that its rows lie along, or MC_BY_ELEMENT */
    bool inner; /* only steps of its span read its first result */
} mc_step;

typedef struct mc_plan {
    mc_arena arena;      /* everything below but the graph */
    mc_lowered *lowered; /* whose nodes hold the attributes */
    const mc_step_ops *ops;
    uint32_t n_values, n_roots, n_steps, n_targets;
    uint32_t n_scalars;  /* those of a launch, which come first, and constants */
    uint32_t n_operands; /* of all steps, results behind the first with them */
    mc_value *values;
    mc_root *roots;
    mc_step *steps;
    uint32_t *targets; /* [n_targets] values */
    int64_t temp_bytes;
    bool fills_cache;                /* a step writes at a place that is told in each run */
    bool trains;                     /* a step is the gradient of a language model's loss */
    bool fast;                       /* a product may be rounded */
    uint32_t changed[MC_PASS_COUNT]; /* the spans that each pass found */
} mc_plan;

/* Makes the plan of a graph, which it takes over, after an error too: resolves views, finds steps
 * that run together and what can be written in place, and places temporaries.
 * errors  MICA_ENOMEM; MICA_EINTERNAL the graph is none that the device supports */
mica_status mc_plan_make(mica_device *device, const mc_step_ops *ops, mc_lowered *lowered,
                         mc_plan **plan);
void mc_plan_free(mc_plan *plan); /* takes NULL */

/* Places the temporaries again, but those that are untouched. errors  MICA_ENOMEM */
mica_status mc_plan_place(mc_plan *plan);

/* Checks that every value is made once, before it is read, and that what lies in the block of
 * temporaries lies alone as long as a step of it is still to run (exec/steps/plan_check.c).
 * errors  MICA_EINTERNAL naming the step; MICA_ENOMEM */
mica_status mc_plan_verify(const mc_plan *plan);

#endif
