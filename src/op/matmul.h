/* MATMUL as model layers want it. */
#ifndef OP_MATMUL_H
#define OP_MATMUL_H

#include <mica/ops.h>

/* mica_matmul of x [..., M, K] with rows of weights [N, K]: [..., M, N]. fast: where the weights
 * are bf16, a device that multiplies such numbers faster may round x to them. */
mica_array mc_matmul_rows(mica_scope *s, mica_array x, mica_array w, bool fast);

#endif
