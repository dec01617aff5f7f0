/* Executables of a device that runs steps: its mc_backend.compile, discard, measure and
 * launch.
 *
 * A launch computes at once, in the calling thread, and its fence is 0; or its kernels only start
 * what they do, and the device ends it later (mc_step_ops.begin). What a run needs (where
 * everything lies, the calls of its kernels) is kept with the executable between launches, so that
 * a replay allocates nothing. */
#ifndef EXEC_STEPS_STEPS_H
#define EXEC_STEPS_STEPS_H

#include "exec/steps/step.h"

/* ops must outlive the executable; lowered and *executable as mc_backend.compile says. */
mica_status mc_steps_compile(mica_device *device, const mc_step_ops *ops, mc_lowered *lowered,
                             mc_executable **executable);
void mc_steps_discard(mc_executable *executable);
mica_status mc_steps_measure(const mc_executable *executable, mc_launch_memory *memory);
mica_status mc_steps_launch(mc_executable *executable, mc_binding *args, const uint64_t *scalars,
                            mc_result *results, mc_fence *fence);

#endif
