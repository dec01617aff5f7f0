/* Weight matrices, used in place in the mapped files: dense, or quantised as MLX packs them.
 *
 * Threads: a loaded matrix never changes. */
#ifndef MODEL_LINEAR_H
#define MODEL_LINEAR_H

#include <mica/ops.h>

/* A weight matrix. Dense: [out, in] f32, f16 or bf16. Quantised: codes [out, in * bits / 32] u32,
 * scales and biases [out, in / group_size]; biases is MICA_NONE for the fp modes. Experts' matrices
 * are one, with an axis before these. */
typedef struct mc_linear {
    mica_array weight, scales, biases;
    mica_array
        bias; /* [out] f32, or of experts [experts, out], added to the matmul; MICA_NONE: none */
    mica_array gains; /* [out] f32, or of experts [experts, out]: factors of the rows of a quantised
                         weight; MICA_NONE: none */
    mica_array order; /* i32 [in]: the element of x that each column is multiplied by, where the
                         columns are in the order of their groups; MICA_NONE: in their own */
    /* An adapter's factors, [in, r] and [r, out] f32: their matmul is added to the transposed
     * weight; of experts [experts, r, in] and [experts, out, r]. The adapter's scale is in them.
     * MICA_NONE: no adapter. */
    mica_array lora_a, lora_b;
    /* DoRA: [out] f32, or of experts [experts, out]: factors of the results before the bias.
     * MICA_NONE: none */
    mica_array dora;
    /* In training: a part of the adapter's input is dropped, by this key. MICA_NONE: none is */
    mica_array dropout_key;
    float dropout; /* the share that is dropped, in [0, 1) */
    mica_quant quant;
    bool quantised;
    int fast; /* not 0: matmuls may round activations, see op/quant.h (mc_lm_set_arithmetic) */
    int64_t out, in;
    /* Of a part of its rows (model/split.h): whose ranks have the others; whether its input is a
     * part, too; and how many rows there are, if results are gathered. NULL: it is all rows. */
    struct mica_group *group;
    bool joins;
    int64_t whole;
    bool transposed;   /* its file has rows and columns the other way: it is a copy */
    int64_t experts;   /* matrices in one; 0: no axis for them */
    mica_array places; /* i32 [experts]: where each of them lies; MICA_NONE: in order */
} mc_linear;

/* The matmul of activations x [..., in] f32 and the transposed weight, plus bias: [..., out] f32.
 * With a fast weight it is mc_quantized_matmul (op/quant.h) or mc_matmul_rows (op/matmul.h). */
mica_array mc_linear_apply(mica_scope *s, const mc_linear *linear, mica_array x);

/* The matmuls of rows with the experts that each picks.
 *
 *  x        [T, n, in] f32: n is 1, a row for all picks of its place; or k, one for each
 *  picks    [T, k] u32, below linear->experts
 *  returns  [T, k, out] f32 */
mica_array mc_linear_pick(mica_scope *s, const mc_linear *linear, mica_array x, mica_array picks);

/* Each of the experts' matrices with rows of its own: x [experts, T, in] -> [experts, T, out]. */
mica_array mc_linear_each(mica_scope *s, const mc_linear *linear, mica_array x);

/* The same with matrices that are not transposed: x [experts, T, out] -> [experts, T, in]. The
 * results are factors of the adapter's input, then: dropout drops elements of what the adapter adds
 * to them. */
mica_array mc_linear_each_back(mica_scope *s, const mc_linear *linear, mica_array x);

/* A matrix without experts as n of them: each has rows [from, to) of an nth of its rows. Of an
 * adapter's factors one is common. Nothing is copied. */
mc_linear mc_linear_part(mica_scope *s, const mc_linear *linear, int64_t n, int64_t from,
                         int64_t to);

/* The squares of the norms of the weight's rows: [out] f32. */
mica_array mc_linear_row_squares(mica_scope *s, const mc_linear *linear);

/* DoRA's factors of the results: m / norm of each row of W + (A B)^T, A and B being in `linear`.
 * The square of the norm is that of W's row, plus 2 W A B and B^T A^T A B, so the sum of
 * the matrices is never made. No gradient goes through the norm (Liu et al. 2024,
 * arXiv:2402.09353, section 4.3).
 *
 *  m, squares  [out] f32: magnitudes, and mc_linear_row_squares */
mica_array mc_linear_dora(mica_scope *s, const mc_linear *linear, mica_array m, mica_array squares);

/* Rows `ids` of the weight: ids [...] integers -> [..., in] f32. */
mica_array mc_linear_rows(mica_scope *s, const mc_linear *linear, mica_array ids);

#endif
