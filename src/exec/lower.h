/* Lowering: a trace's graph with every op replaced, where the device has no kernel for it, by its
 * decomposition.
 *
 * In the lowered graph a LEAF stands for what is bound when the plan runs (its `value` is the
 * number of the trace's leaf), a scalar LEAF is a constant that a decomposition made. */
#ifndef EXEC_LOWER_H
#define EXEC_LOWER_H

#include "device/backend.h"
#include "exec/trace.h"

/* Lowers; *graph is a new scope, owned by the caller, and targets [n_targets] the trace's there.
 * errors  MICA_EUNSUPPORTED an op with neither kernel nor decomposition; MICA_ENOMEM;
 *         MICA_EINTERNAL a decomposition gives another shape or makes an array from data */
mica_status mc_lower_ops(mica_device *device, const mc_trace *trace, mica_scope **graph,
                         mica_array *targets);

#endif
