/* Ops on c64 as plain ops on pairs of f32: what builders call where an operand is c64. */
#ifndef OP_COMPLEX_H
#define OP_COMPLEX_H

#include "op/build.h"

/* x c64 of n elements as f32 [n, 2], and such pairs as c64 of a shape. */
mica_array mc_complex_pairs(mica_scope *s, mica_array x);
mica_array mc_complex_of(mica_scope *s, mica_array pairs, const int64_t *shape, int ndim);

/* Of operands that are c64 and have one shape; for ops that _has_ says. */
bool mc_complex_has_binary(mc_op op);
mica_array mc_complex_binary(mica_scope *s, mc_op op, mica_array a, mica_array b);
bool mc_complex_has_unary(mc_op op);
mica_array mc_complex_unary(mica_scope *s, mc_op op, mica_array x);

mica_array mc_complex_sum(mica_scope *s, mica_array x, const int *axes, int n_axes, bool keepdims);
/* To c64 or from it: the real part. bool: whether a part is not 0. */
mica_array mc_complex_astype(mica_scope *s, mica_array x, mica_dtype dtype);

#endif
