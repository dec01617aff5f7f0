/* A compiled graph: the executables of a trace, and running them.
 *
 * Mostly it is one executable of the device. Where the device has no kernel for some ops, and these
 * have no decomposition, it is several that run in turn: the device's own, and between them those
 * of its fallback device, with copies around them.
 *
 * Threads: it never changes; any number may run it. */
#ifndef EXEC_COMPILED_H
#define EXEC_COMPILED_H

#include "device/backend.h"
#include "exec/trace.h"

/* An executable, and where its parameters and results are: slots. Slots [0, n_params) are the
 * parameters of the whole, the others hold what goes from one segment to another or out. */
typedef struct mc_segment {
    mica_device *device;
    mc_executable *executable;
    uint32_t n_args, n_scalars, n_results;
    uint32_t *args;    /* [n_args] slots */
    uint32_t *scalars; /* [n_scalars] of the whole's */
    uint32_t *results; /* [n_results] slots */
} mc_segment;

typedef struct mc_compiled {
    mica_device *device;
    mc_arena arena; /* the lists below */
    uint32_t n_params, n_scalars, n_results;
    mc_lowered_param *params; /* [n_params] */
    mc_layout *results;       /* [n_results] */
    uint32_t n_slots;
    mc_layout *layouts;     /* [n_slots], of those behind the parameters from the executables */
    uint32_t *result_slots; /* [n_results] */
    uint32_t n_segments;
    mc_segment *segments;
    uint32_t n_fallback; /* ops that run on the fallback device */
    size_t bytes;        /* of memory that it holds, about */
} mc_compiled;

/* Compiles a trace for a device; its leaves are the parameters.
 * errors  those of mc_lower_ops and of mc_backend.compile */
mica_status mc_compiled_make(mica_device *device, const mc_trace *trace, mc_compiled **compiled);
void mc_compiled_free(mc_compiled *compiled); /* takes NULL */

/* Runs it and waits for its end. args, scalars, results as mc_backend.launch says; results have the
 * layouts of compiled->results.
 * errors  those of mc_backend.launch and wait */
mica_status mc_compiled_run(const mc_compiled *compiled, mc_binding *args, const uint64_t *scalars,
                            mc_result *results);

#endif
