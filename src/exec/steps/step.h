/* The lower layer: what a device implements whose kernels are C functions over addresses.
 *
 * Such a device is a table of kernels (mc_step_ops). exec/steps/steps.h makes its executables: a
 * plan of steps, each an op with its operands in planned memory (exec/steps/plan.h), and runs of
 * it. Steps that go well together are run by one kernel call: joint ones, which share an operand or
 * lie near each other, and chains, which go row by row, or, as regions, element by element. */
#ifndef EXEC_STEPS_STEP_H
#define EXEC_STEPS_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "device/backend.h"

typedef struct mc_operand {
    void *data;              /* the first element; NULL where the operand is absent */
    const mc_layout *layout; /* NULL where the operand is absent */
} mc_operand;

typedef struct mc_run mc_run;

/* One op with its operands, as a kernel sees it. Inputs may have any strides; results are dense,
 * unless the first takes over an input's memory (then that input's data pointer equals out's). A
 * result that nobody reads has memory, too. */
typedef struct mc_call {
    mc_op op;
    const void *attr;
    int n_in;
    const mc_operand *in;
    mc_operand out;
    const mc_operand *more; /* [n_out - 1] the other results; NULL: there is one */
    const void *prepared;   /* what mc_step_ops.prepare made; NULL: nothing */
    void *state;            /* the backend's (mc_backend_state) */
    mc_run *run;            /* for mc_run_scratch */
    int span;   /* calls from this one on that the kernel runs: joint ones, or a chain */
    int joint;  /* calls from this one on that are joint: mc_step_ops.joint; 0: an earlier one's */
    int axis;   /* in a chain: the one that its rows lie along, or MC_BY_ELEMENT */
    int left;   /* calls of the run from this one on */
    bool inner; /* only calls of its span read its result: it need not be written if they have it */
} mc_call;

#define MC_MAX_JOINT 8
#define MC_MAX_CHAIN 32
#define MC_BY_ELEMENT (-1) /* the axis of a region: its rows are elements, in logical order */

/* How an op goes row by row. Rows are the places along one axis, not the last, of the operands
 * `by_row`; these have one shape but for the last axis, and so has the result where `result` says
 * that row r of it is computed from row r of these operands, and from the whole of the others.
 * Where it does not, row r of the operands is written somewhere into the result. */
typedef struct mc_row_form {
    uint32_t by_row; /* a bit an operand; 0: the op does not go row by row */
    bool result;
    bool ends; /* takes x, its first operand, row by row, but needs all of it before it goes on */
    bool by_element; /* element i of the result, in logical order, is computed from elements i */
    bool begins; /* makes its result in parts, which its kernel then takes through the steps behind
                    it that go by element, in any order: calls [1, span), whose axis is that of a
                    region, as its own is; at most MC_MAX_CHAIN */
} mc_row_form;

typedef mica_status (*mc_kernel)(const mc_call *call);

/* What a kernel makes of an operand that is a constant, such as weights in the order in which it
 * reads them. */
typedef struct mc_prepare {
    int operand;
    uint64_t form; /* of all that the op's kernel makes of such an operand this one: a number */
    size_t bytes;  /* 0: nothing */
    size_t scratch_bytes; /* needed while it is made */
} mc_prepare;

/* Of a device whose kernels only start what they do (mc_step_ops.begin): what begin gave the launch
 * that a kernel is called for; and whether an operand is a number, whose data is the host's, and
 * another launch's when the kernel has returned: it is read before. */
void *mc_run_launched(const mc_run *run);
bool mc_run_is_number(const mc_run *run, const mc_operand *operand);

/* The numbers that a launch brought, *n of them; and which of them an operand is, -1: none, as a
 * number of the plan is the same in each launch. */
const uint64_t *mc_run_numbers(const mc_run *run, uint32_t *n);
int mc_run_number(const mc_run *run, const mc_operand *operand);

/* What the device keeps with a run from launch to launch, for these bring other numbers and
 * addresses to the same kernels: NULL at first, and the device's to free (mc_step_ops.forget). */
void **mc_run_own(mc_run *run);
/* The steps of the run's plan; whether one writes to a cache: it computes the tokens of a session
 * or of a batch that is decoded; and whether one is a loss's gradient, and products may be
 * rounded: it trains a model in fast arithmetic. */
uint32_t mc_run_steps(const mc_run *run);
bool mc_run_fills_cache(const mc_run *run);
bool mc_run_trains(const mc_run *run);

/* Whether operand k of a call was there before the launch, and no step of it writes to it. */
bool mc_run_is_given(const mc_call *call, int k);
/* How many steps of the run write to the memory that operand k of a call lies in. */
int mc_run_writers(const mc_call *call, int k);

/* Memory for the duration of a kernel, aligned to 64 bytes; valid until the kernel returns. One
 * block a call. errors: NULL, with the text set (MICA_ENOMEM); NULL in a run that is measured */
void *mc_run_scratch(mc_run *run, size_t bytes);

/* Whether a run is only to find out how much memory kernels take (mc_step_ops.takes_memory).
 * Operands other than scalars have no data then, so a kernel asks for its scratch before it reads
 * any, and returns where it did not need to ask. Its status does not matter. */
bool mc_run_is_measured(const mc_run *run);

/* Notes that the kernel of a span, whose first call is given, reads or writes the operands and
 * results that lie there (mc_step_ops.touch). */
void mc_run_touch(const mc_call *call, const void *data);
/* The same of all operands and results of calls [from, to) of the span. */
void mc_run_touch_calls(const mc_call *call, int from, int to);

/* Memory that stays until the run ends, for what several steps need alike: found again under the
 * same key, which is copied. *found: it was there, filled by an earlier step. NULL: there is no
 * more room for such things; use scratch. Aligned as scratch. */
void *mc_run_keep(mc_run *run, const void *key, size_t key_bytes, size_t bytes, bool *found);

typedef enum mc_joint {
    MC_JOINT_NONE,
    MC_JOINT_FIRST, /* those that read the same first operand */
    MC_JOINT_ANY    /* those that lie near each other */
} mc_joint;

/* The kernels of a device. `state` is the backend's. */
typedef struct mc_step_ops {
    /* Around the kernels of a launch that goes on when these have returned. They have started what
     * they do, in order, on memory that is freed, or handed to others, before it is done: what uses
     * that next comes later in this order. NULL: kernels compute before they return.
     *
     *  run      that is launched
     *  launch   receives what is kept until the wait, such as where errors that depend on data go
     *  status   of begin's launch: not MICA_OK: a kernel failed, or end does, and nobody will wait
     *  returns  what to wait for
     *  errors   MICA_ENOMEM, MICA_EDEVICE */
    mica_status (*begin)(void *state, mc_run *run, void **launch);
    mc_fence (*end)(void *state, void *launch, mica_status *status);

    /* Of a launch that has begun, and brings other numbers to where all lies as in the last one:
     * whether what the kernels started then is started again by end, so that none is called. Such a
     * device's kernels ask for scratch that one launch has at once, and keep nothing (mc_run_keep).
     * NULL: kernels are called. */
    bool (*repeat)(void *state, void *launch);

    /* Frees what mc_run_own has: nothing of it is launched again. NULL: nothing is kept. */
    void (*forget)(void *state, void *own);

    /* Bytes of memory of the host that mc_run_own has, about. NULL: nothing is kept. */
    size_t (*kept_bytes)(const void *own);

    /* What the op's kernel would make of an operand once, if that is a constant, and how; it is
     * made when an executable is compiled, and kept as long as some executable has it. Operands of
     * `prepares` have no data, those of `prepare` but the one that it names neither; `to` and
     * `scratch` are aligned as scratch is. NULL: nothing. */
    mc_prepare (*prepares)(const mc_call *call);
    void (*prepare)(const mc_call *call, const mc_prepare *what, void *scratch, void *to);

    /* The kernel for an op that the backend supports, over layouts that it supports. */
    mc_kernel (*find)(const void *state, mc_op op, const void *attr, const mc_layout *const *in,
                      int n_in, const mc_layout *out, int n_out);

    /* Whether the op's kernel calls mc_run_scratch or mc_run_keep, as `chain` is taken to. NULL:
     * no op's does. */
    bool (*takes_memory)(const void *state, mc_op op);

    /* Tells mc_run_touch which operands and results of calls [0, span), that run together, their
     * kernel reads or writes. Results that no kernel touches get an address, but no memory. All
     * have addresses here, which are the same as those of a launch as far as one lies in another,
     * and no data but numbers. NULL: kernels touch all. */
    void (*touch)(const mc_call *call);

    /* Which calls the op's kernel takes at once: calls [0, joint), MC_MAX_JOINT at most, none of
     * which reads what another of them writes. Not asked of ops of several results. NULL: no op's
     * does. */
    mc_joint (*joint)(const void *state, mc_op op);

    /* Chains: the form in which an op over these layouts goes row by row, and the kernel of calls
     * [0, span) that do: all their operands that go by rows and are written in the chain are
     * written along the same rows, the others before it; results have memory of their own, or that
     * of an operand along the same rows. At most MC_MAX_CHAIN, then joint ones that end it. In a
     * region all calls go by element, and have as many. Not asked of ops of several results. NULL:
     * none. So many rows are enough for all threads: an axis
     * of more is no better. */
    mc_row_form (*rows)(const void *state, mc_op op, const void *attr, const mc_layout *const *in,
                        int n_in);
    int64_t (*enough_rows)(const void *state);
    mc_kernel chain;

    /* Of a device where a kernel costs more than what is in it: chains are of as many steps as can
     * be, by axes of any number of rows, also one; but rows of more than so many numbers want
     * enough rows. 0: chains are by an axis of many rows. */
    int64_t long_row;
} mc_step_ops;

#endif
