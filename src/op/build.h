/* Conversions that builders apply to operands before they record an op. */
#ifndef OP_BUILD_H
#define OP_BUILD_H

#include <mica/ops.h>

#include "op/check.h"

/* x broadcast to shape; x itself where it has that shape. Records BROADCAST_TO. */
mica_array mc_broadcast(mica_scope *s, mica_array x, const int64_t *shape, int ndim);
/* x with dtype; x itself where it has it. Records ASTYPE. */
mica_array mc_cast(mica_scope *s, mica_array x, mica_dtype dtype);

#endif
