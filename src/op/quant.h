/* QUANTIZED_MATMUL as model layers want it. */
#ifndef OP_QUANT_H
#define OP_QUANT_H

#include <mica/ops.h>

/* mica_quantized_matmul of x [..., K] with rows of K weights (its transpose is true). fast: a
 * device that can may quantise x to 8 bits, by the weights' groups, or where these are mxfp8 round
 * it to bf16, scales beyond 2^-100 to 2^100 clamped; others compute as without. */
mica_array mc_quantized_matmul(mica_scope *s, mica_array x, mica_array codes, mica_array scales,
                               mica_array biases, mica_quant quant, bool fast);

#endif
