/* What builders share where they look at operands before they record. */
#ifndef OP_BUILD_H
#define OP_BUILD_H

#include <mica/ops.h>

#include "graph/graph.h"

/* Keeps an error whose text is set as the scope's first one; returns the invalid array. */
static inline mica_array mc_fail_in(mica_scope *s, mica_status status) {
    mc_scope_set_status(s, status);
    return mc_invalid(s);
}

/* mc_axis. false: the error is in s. */
static inline bool mc_find_axis(mica_scope *s, const char *op, const mc_layout *l, int axis,
                                int *out) {
    mica_status status = mc_axis(op, l, axis, out);
    if (status != MICA_OK) mc_scope_set_status(s, status);
    return status == MICA_OK;
}

/* mc_layout_init of an op's result; the error names the op. */
static inline mica_status mc_set_result(const char *op, mc_layout *out, mica_dtype dtype,
                                        const int64_t *shape, int ndim) {
    mica_status status = mc_layout_init(out, dtype, shape, ndim);
    return status == MICA_OK ? status : mc_fail_context(status, "%s", op);
}

/* x broadcast to shape; x itself where it has that shape. Records BROADCAST_TO. */
mica_array mc_broadcast(mica_scope *s, mica_array x, const int64_t *shape, int ndim);
/* x with dtype; x itself where it has it. Records ASTYPE. */
mica_array mc_cast(mica_scope *s, mica_array x, mica_dtype dtype);

/* mica_matmul of x [..., M, K] with rows of weights [N, K]: [..., M, N]. fast: where the weights are
 * bf16, a device that multiplies such numbers faster may round x to them. */
mica_array mc_matmul_rows(mica_scope *s, mica_array x, mica_array w, bool fast);

/* mica_quantized_matmul of x [..., K] with rows of K weights (its transpose is true). fast: a device
 * that can may quantise x to 8 bits, by the weights' groups, or where these are mxfp8 round it to
 * bf16, scales beyond 2^-100 to 2^100 clamped; others compute as without. */
mica_array mc_quantized_matmul(mica_scope *s, mica_array x, mica_array codes, mica_array scales,
                               mica_array biases, mica_quant quant, bool fast);

#endif
