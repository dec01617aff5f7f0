/* Conversions that builders apply to operands before they record an op. */
#ifndef OP_BUILD_H
#define OP_BUILD_H

#include <mica/ops.h>

#include "op/check.h"

/* x broadcast to shape; x itself where it has that shape. Records BROADCAST_TO. */
mica_array mc_broadcast(mica_scope *s, mica_array x, const int64_t *shape, int ndim);
/* mc_broadcast where shape is that of all operands of the elementwise op that reads it. */
mica_array mc_align(mica_scope *s, mica_array x, const int64_t *shape, int ndim);
/* mica_reshape where shape follows from that of x: without, or with more, axes of length 1; several
 * axes as one; one axis as several of given lengths, of which at least two are not 1. */
mica_array mc_reshape_derived(mica_scope *s, mica_array x, const int64_t *shape, int ndim);
/* A SLICE of x, or x, where the axes that it leaves whole are whole at any length. */
mica_array mc_slice_derived(mica_array slice, mica_array x);
/* x, which the builder has nothing to do for because of its lengths. */
mica_array mc_as_it_is(mica_scope *s, mica_array x);
/* x with dtype; x itself where it has it. Records ASTYPE. */
mica_array mc_cast(mica_scope *s, mica_array x, mica_dtype dtype);

#endif
