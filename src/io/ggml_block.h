/* ggml's types of tensor elements: blocks of weights with scales, and plain numbers.
 *
 * Source: the layouts of ggml's blocks (ggml-common.h) and their meaning (ggml-quants.c). */
#ifndef IO_GGML_BLOCK_H
#define IO_GGML_BLOCK_H

#include <mica/ops.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MC_GGML_BLOCK = 256, MC_GGML_GROUPS = 8 }; /* elements of a block, and groups: at most */

typedef struct mc_ggml_type {
    uint32_t id; /* in files */
    const char *name;
    unsigned block; /* elements of a block */
    unsigned bytes; /* of a block */
    /* Writes the elements of a block as floats. NULL: mica knows no more than the name. */
    void (*decode)(const uint8_t *block, float *out);
    /* If weights become MLX's quantisation: its mode and bits, in groups of 32; else bits 0. split
     * writes the codes of a block [block], the scale of each 32 of them, and, if the mode is
     * affine, the bias (f16). Types with `join`, and those of 2 bits, have the same weights; of
     * Q4_K and Q5_K scale and bias are rounded to f16; of others the 32 weights are quantised
     * anew, between the least and the largest of them. */
    mica_quant_mode mode;
    int bits;
    void (*split)(const uint8_t *block, uint8_t *codes, uint16_t *scales, uint16_t *biases);
    /* The inverse of split: writes a block of codes that fit its bits. The bias is not read where
     * the type has none of its own: the caller knows that split would give it back. */
    void (*join)(const uint8_t codes[32], uint16_t scale, uint16_t bias, uint8_t *block);
} mc_ggml_type;

/* The type of an id; NULL: mica does not know it. */
const mc_ggml_type *mc_ggml_type_find(uint32_t id);

/* The i-th type; NULL past the end. */
const mc_ggml_type *mc_ggml_type_at(size_t i);

#endif
