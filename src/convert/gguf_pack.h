/* Weights that MLX has quantised as blocks of a GGUF file.
 *
 * Threads: safe. */
#ifndef CONVERT_GGUF_PACK_H
#define CONVERT_GGUF_PACK_H

#include "io/ggml_block.h"

#include <mica/array.h>
#include <mica/ops.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A quantised matrix [rows, columns] in memory, in MLX's layout. */
typedef struct mc_packed {
    mica_quant quant;
    mica_dtype dtype; /* of affine scales and biases */
    int64_t rows, columns;
    const uint32_t *codes;
    const void *scales, *biases; /* biases NULL: the mode has none */
} mc_packed;

/* Whether GGUF has blocks for what mica_quantize makes, whose biases are any: affine of 2 to 5
 * bits, and mxfp4. */
bool mc_gguf_packs(const mica_quant *quant);

/* The type of blocks that hold exactly the weights of a matrix; NULL: there is none. Affine scales
 * and biases must be numbers of f16, and of 8 bits symmetric ones, bias = -128 * scale. */
const mc_ggml_type *mc_gguf_pack_type(const mc_packed *x);

/* Writes the blocks of one row, which mc_gguf_pack_type has found a type for. */
void mc_gguf_pack_row(const mc_packed *x, const mc_ggml_type *type, int64_t row, uint8_t *out);

#endif
