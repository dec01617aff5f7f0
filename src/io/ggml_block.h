/* ggml's types of tensor elements: blocks of weights with scales, and plain numbers.
 *
 * Source: the layouts of ggml's blocks (ggml-common.h) and their meaning (ggml-quants.c). */
#ifndef IO_GGML_BLOCK_H
#define IO_GGML_BLOCK_H

#include <mica/ops.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mc_ggml_type {
    uint32_t id; /* in files */
    const char *name;
    unsigned block; /* elements of a block */
    unsigned bytes; /* of a block */
    /* Writes the elements of a block as floats. */
    void (*decode)(const uint8_t *block, float *out);
    /* If MLX's quantisation has the same weights: its mode and bits, in groups of 32; else bits 0.
     * split writes the codes of a block, its scale, and, if the mode is affine, its bias (f16). */
    mica_quant_mode mode;
    int bits;
    void (*split)(const uint8_t *block, uint8_t codes[32], uint16_t *scale, uint16_t *bias);
    /* The inverse of split: writes a block of codes that fit its bits. The bias is not read where
     * the type has none of its own: the caller knows that split would give it back. */
    void (*join)(const uint8_t codes[32], uint16_t scale, uint16_t bias, uint8_t *block);
} mc_ggml_type;

/* The type of an id; NULL: mica does not know it. */
const mc_ggml_type *mc_ggml_type_find(uint32_t id);

/* The i-th type; NULL past the end. */
const mc_ggml_type *mc_ggml_type_at(size_t i);

#endif
