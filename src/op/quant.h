/* mica_quantized_matmul as model layers need it. */
#ifndef OP_QUANT_H
#define OP_QUANT_H

#include <mica/ops.h>

#include "graph/attr.h"
#include "graph/graph.h"

/* The matmul of activations x [..., K] and transposed weights with rows of K. fast: 0, or a device
 * may quantise x to 8 bits, by the weights' groups: each element to one code (1), or to one and
 * another for what that leaves (2). For mxfp8 weights it may round x to bf16 instead, with scales
 * clamped to 2^-100 to 2^100. Other devices ignore it. */
mica_array mc_quantized_matmul(mica_scope *s, mica_array x, mica_array codes, mica_array scales,
                               mica_array biases, mica_quant quant, int fast);

/* mica_gather_qmm of transposed weights, with `fast` as above. */
mica_array mc_gather_qmm(mica_scope *s, mica_array x, mica_array codes, mica_array scales,
                         mica_array biases, mica_quant quant, mica_array lhs_indices,
                         mica_array rhs_indices, int fast);

/* Whether codes, scales and biases (NULL where there are none) are weights, and fit the last axis
 * of x. *n: the elements of a row of the product.
 * errors  MICA_EINVAL, MICA_EDTYPE, MICA_ESHAPE, beginning with op */
mica_status mc_quant_check_product(const char *op, const mc_attr_quant *a, const mc_layout *x,
                                   const mc_layout *codes, const mc_layout *scales,
                                   const mc_layout *biases, int64_t *n);

#endif
