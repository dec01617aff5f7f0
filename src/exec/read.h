/* Values out of arrays, for what mica/array.h has no function for. */
#ifndef EXEC_READ_H
#define EXEC_READ_H

#include "base/status.h"

#include <mica/array.h>

/* mica_read of a part of an evaluated array, which is dense: `bytes` from an offset in it on. Not
 * for an array that a launch left which nobody has waited for (mc_program_launch): those that came
 * behind the array's own are not waited for.
 *  errors  MICA_EINVAL x is not like that, or has not so much; those of mc_backend.copy */
mica_status mc_read_part(mica_array x, size_t offset_bytes, void *out, size_t bytes);

#endif
