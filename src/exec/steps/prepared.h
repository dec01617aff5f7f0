/* What kernels made of constants (mc_step_ops.prepare): a list of the device's, so that executables
 * of one program, for whatever lengths, share it. It goes with the last one that uses it.
 *
 * Threads: any. */
#ifndef EXEC_STEPS_PREPARED_H
#define EXEC_STEPS_PREPARED_H

#include "exec/steps/step.h"

typedef struct mc_prepared mc_prepared;

/* Finds what a call wants of its operand, whose data is there and lies in `from`, or makes it where
 * `left` bytes of the device's memory remain. *prepared: NULL where they would not, so that kernels
 * do without.
 * errors  MICA_ENOMEM */
mica_status mc_prepared_get(mica_device *device, const mc_step_ops *ops, const mc_call *call,
                            const mc_prepare *want, mc_storage *from, uint64_t left,
                            mc_prepared **prepared);
void mc_prepared_put(mica_device *device, mc_prepared *prepared); /* takes NULL */

const void *mc_prepared_data(const mc_prepared *prepared); /* NULL of NULL */

#endif
