/* Control flow: nodes whose subgraphs the host runs, choosing by values.
 *
 * Each subgraph is compiled for the device as any other graph is. If runs one of its two; While and
 * Scan run theirs again and again. What one round leaves, the next one may write over: two sets of
 * buffers take turns. What a run needs in memory is kept, so that a replay allocates nothing.
 *
 * Threads: a compiled node never changes; any number may run it. */
#ifndef EXEC_CONTROL_H
#define EXEC_CONTROL_H

#include "base/cancel.h"
#include "device/backend.h"
#include "exec/trace.h"

/* What compiles and runs graphs: exec/compiled.c, which runs control flow itself. */
typedef struct mc_compiled mc_compiled;
typedef struct mc_graph_runner {
    mica_status (*make)(mica_device *device, const mc_trace *trace, mc_compiled **compiled);
    void (*free)(mc_compiled *compiled); /* takes NULL */
    /* adds the memory that it holds, about, and what passes changed [MC_PASS_COUNT] */
    void (*tell)(const mc_compiled *compiled, size_t *bytes, uint32_t *changed);
    mica_status (*measure)(const mc_compiled *compiled, mc_launch_memory *memory);
    mica_status (*run)(const mc_compiled *compiled, mc_binding *args, const uint64_t *scalars,
                       mc_result *results, const mica_cancel *cancel);
} mc_graph_runner;

typedef struct mc_control mc_control;

/* Compiles the subgraphs of a node of control flow of a lowered graph, behind the passes that are
 * not off there. runner: lives as long.
 * errors  those of runner->make and of mc_passes_run; MICA_ENOMEM */
mica_status mc_control_compile(mica_device *device, const mc_node *node, const mc_lowered *lowered,
                               const mc_graph_runner *runner, mc_control **control);
void mc_control_free(mc_control *control); /* takes NULL */

/* As mc_graph_runner.tell. */
void mc_control_tell(const mc_control *control, size_t *bytes, uint32_t *changed);

/* What a run takes at most. errors  those of the runner */
mica_status mc_control_measure(const mc_control *control, mc_launch_memory *memory);

/* Runs it, and waits for its end.
 *
 *  args     [operands of the node] dense, in memory of the device. Borrowed.
 *  results  [results of the node] receives storages, dense; nothing after an error.
 *  cancel   asked in each round; NULL: nobody cancels
 *  errors   MICA_ECANCELLED; those of the runner, with the round; MICA_EINVAL more than 2^31 - 1
 *           rounds */
mica_status mc_control_run(mc_control *control, const mc_binding *args, mc_result *results,
                           const mica_cancel *cancel);

#endif
