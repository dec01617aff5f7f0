/* mica_matmul as model layers need it. */
#ifndef OP_MATMUL_H
#define OP_MATMUL_H

#include <mica/ops.h>

/* The matmul of activations x [..., M, K] and transposed weights w [..., N, K]: [..., M, N]. fast:
 * if the weights are bf16, a device may round x to bf16. */
mica_array mc_matmul_rows(mica_scope *s, mica_array x, mica_array w, bool fast);

/* mica_gather_mm of x and transposed weights w [..., N, K], with `fast` as above. */
mica_array mc_gather_rows(mica_scope *s, mica_array x, mica_array w, mica_array lhs_indices,
                          mica_array rhs_indices, bool fast);

#endif
