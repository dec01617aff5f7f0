/* mica_quantized_matmul as model layers need it. */
#ifndef OP_QUANT_H
#define OP_QUANT_H

#include <mica/ops.h>

/* The matmul of activations x [..., K] and transposed weights with rows of K. fast: a device may
 * quantise x to 8 bits, by the weights' groups. For mxfp8 weights it may round x to bf16 instead,
 * with scales clamped to 2^-100 to 2^100. Other devices ignore it. */
mica_array mc_quantized_matmul(mica_scope *s, mica_array x, mica_array codes, mica_array scales,
                               mica_array biases, mica_quant quant, bool fast);

#endif
