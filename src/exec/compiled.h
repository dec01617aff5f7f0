/* A compiled graph: the executables of a trace, and running them.
 *
 * Mostly it is one executable of the device. Where the device has no kernel for some ops, and these
 * have no decomposition, or where leaves lie with its fallback device, it is several that run in
 * turn: the device's own, and between them those of the fallback, with copies around them. Nodes of
 * control flow are segments, too.
 *
 * Threads: it never changes; any number may run it. */
#ifndef EXEC_COMPILED_H
#define EXEC_COMPILED_H

#include <pthread.h>

#include "device/backend.h"
#include "exec/control.h"
#include "exec/split.h"
#include "exec/trace.h"

/* An executable, and where its parameters and results are: slots. Slots [0, n_params) are the
 * parameters of the whole, the others hold what goes from one segment to another or out. */
typedef struct mc_segment {
    mica_device *device;
    mc_executable *executable;    /* NULL: control flow */
    mc_control *control;          /* NULL: an executable */
    mc_control_arg *control_args; /* [n_args] of control */
    uint32_t n_args, n_scalars, n_results;
    uint32_t *args;    /* [n_args] slots */
    uint32_t *scalars; /* [n_scalars] of the whole's */
    uint32_t *results; /* [n_results] slots; of control MC_ABSENT where nothing reads one */
} mc_segment;

typedef struct mc_frame mc_frame; /* what a run of several segments needs in memory */

struct mc_compiled {
    mica_device *device;
    mc_arena arena; /* the lists below */
    uint32_t n_params, n_scalars, n_results;
    mc_lowered_param *params; /* [n_params] */
    mc_layout *results;       /* [n_results] */
    uint32_t n_slots;
    mc_layout *layouts;     /* [n_slots], of those behind the parameters from the executables */
    uint32_t *result_slots; /* [n_results] */
    bool *stays;            /* [n_results] with the fallback, as mc_lowered has it */
    uint32_t n_segments;
    mc_segment *segments;
    bool falls_back;                 /* some ops run on the fallback device */
    uint32_t n_fallback;             /* of these, how many the device has no kernel for */
    size_t bytes;                    /* of memory that it holds, about */
    uint32_t changed[MC_PASS_COUNT]; /* by passes */
    bool whole;                      /* one executable, whose parameters and results are these */
    pthread_mutex_t lock;            /* of one that is not whole */
    mc_frame *spare;                 /* guarded by lock */
};

/* Compiles a trace for a device; its leaves are the parameters.
 * errors  those of mc_lower_ops and of mc_backend.compile */
mica_status mc_compiled_make(mica_device *device, const mc_trace *trace, mc_compiled **compiled);
void mc_compiled_free(mc_compiled *compiled); /* takes NULL */
/* Bytes of memory that it holds, about: with what devices note of its launches. */
size_t mc_compiled_bytes(const mc_compiled *compiled);

/* Starts it, and leaves its results before they are computed; what is split into segments is
 * computed at once. args, scalars, results and fence as mc_backend.launch says; results have the
 * layouts of compiled->results.
 *
 *  cancel  asked by control flow; NULL: nobody cancels
 *  errors  those of mc_backend.launch; of what is computed at once, those of wait and of
 *          mc_control_run */
mica_status mc_compiled_launch(const mc_compiled *compiled, mc_binding *args,
                               const uint64_t *scalars, mc_result *results,
                               const mica_cancel *cancel, mc_fence *fence);

/* Starts it and waits for its end. errors  those of mc_compiled_launch and of mc_backend.wait */
mica_status mc_compiled_run(const mc_compiled *compiled, mc_binding *args, const uint64_t *scalars,
                            mc_result *results, const mica_cancel *cancel);

/* What a run takes; of several segments, and of control flow, no less than that.
 * errors  MICA_EUNSUPPORTED the device cannot tell, or another one runs some of the ops;
 *         MICA_ENOMEM */
mica_status mc_compiled_measure(const mc_compiled *compiled, mc_launch_memory *memory);

#endif
