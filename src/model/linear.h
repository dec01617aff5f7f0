/* Weight matrices, used in place in the mapped files: dense, or quantised as MLX packs them.
 *
 * Threads: a loaded matrix never changes. */
#ifndef MODEL_LINEAR_H
#define MODEL_LINEAR_H

#include "base/names.h"
#include "io/safetensors.h"
#include "model/packing.h"

#include <mica/ops.h>

/* A weight matrix. Dense: [out, in] f32, f16 or bf16. Quantised: codes [out, in * bits / 32] u32,
 * scales and biases [out, in / group_size]; biases is MICA_NONE for the fp modes. Experts' matrices
 * are one, with an axis before these. */
typedef struct mc_linear {
    mica_array weight, scales, biases;
    mica_array
        bias; /* [out] f32, or of experts [experts, out], added to the matmul; MICA_NONE: none */
    /* An adapter's factors, [in, r] and [r, out] f32: their matmul is added to the transposed
     * weight. The adapter's scale is in them. MICA_NONE: no adapter. */
    mica_array lora_a, lora_b;
    /* DoRA: [out] f32, factors of the results before the bias. MICA_NONE: none */
    mica_array dora;
    /* In training: a part of the adapter's input is dropped, by this key. MICA_NONE: none is */
    mica_array dropout_key;
    float dropout; /* the share that is dropped, in [0, 1) */
    mica_quant quant;
    bool quantised;
    bool fast; /* matmuls may round activations: mc_lm_set_arithmetic */
    int64_t out, in;
    bool transposed;   /* its file has rows and columns the other way: it is a copy */
    int64_t experts;   /* matrices in one; 0: no axis for them */
    mica_array places; /* i32 [experts]: where each of them lies; MICA_NONE: in order */
} mc_linear;

/* What loading needs, and what it collects. */
typedef struct mc_loader {
    const mc_weights *weights;
    mica_scope *scope; /* scope of the arrays; the mapped weights must outlive it */
    mc_packing packing;
    const char *prefix;  /* prefix of the decoder's tensors: "model." */
    bool *used;          /* [tensors]: which ones the model reads */
    mc_names missing;    /* absent tensors, for one error at the end */
    uint64_t parameters; /* numbers in the weights, not counting scales and biases */
    uint64_t bytes;
    size_t dense[MICA_DTYPE_COUNT]; /* matrices and vectors of each dtype that are not quantised */
    mica_quant quant;               /* of the first quantised matrix */
    size_t quantised;               /* number of quantised matrices */
    bool mixed;                     /* some are quantised differently */
    bool as_stated;                 /* some are as the config says of all */
} mc_loader;

/* Loads the matrix `module`.weight, or `module` if the files call it so, of linear->out rows (0:
 * any number), linear->in columns, and linear->experts, transposed or not; nothing else of it is
 * read. Where the config contradicts the shapes of a quantised matrix, the shapes are right. An
 * absent tensor is listed in the loader and is not an error yet. Experts that are tensors of their
 * own have no biases.
 *  errors  MICA_ESHAPE, MICA_EDTYPE naming tensor, file, found and wanted */
mica_status mc_linear_load(mc_loader *loader, const char *module, bool bias, mc_linear *linear);

/* The same of experts whose matrices are tensors of their own: the module's name has a '*' for
 * their numbers. They stay where they are mapped, if they lie in one file, one distance apart.
 *  errors  also MICA_EUNSUPPORTED they are quantised in several ways; those of mica_eval */
mica_status mc_linear_load_list(mc_loader *loader, const char *module, mc_linear *linear);

/* Loads a vector [n] of floats as f32, `offset` added to each element. */
mica_status mc_vector_load(mc_loader *loader, const char *tensor, int64_t n, double offset,
                           mica_array *vector);

/* Loads the kernel of a depthwise convolution, a tensor [channels, 1, taps] or [channels, taps, 1]
 * of floats, as f32 [channels, taps, 1]. */
mica_status mc_kernel_load(mc_loader *loader, const char *tensor, int64_t channels, int64_t taps,
                           mica_array *kernel);
mica_status mc_kernel_make(mica_scope *scope, const mc_weight_tensor *tensor, int64_t channels,
                           int64_t taps, mica_array *kernel);

/* Makes a vector [n] of floats f32, `offset` added to each element. */
mica_status mc_vector_make(mica_scope *scope, const mc_weight_tensor *tensor, int64_t n,
                           double offset, mica_array *vector);

/* Puts a dense weight in the place of a matrix's own, which may be quantised. The tensor's memory
 * must outlive the scope.
 *
 *  errors  MICA_ESHAPE, MICA_EDTYPE naming tensor, file, found and wanted */
mica_status mc_linear_replace(mica_scope *scope, const mc_weight_tensor *tensor, mc_linear *linear);

/* Puts the rows of a tensor [n, in] in the place of rows [n] of a matrix, of which a dense copy is
 * made, in its own dtype, or that of its scales.
 *
 *  errors  also MICA_EINVAL a row that the matrix lacks; those of mica_eval */
mica_status mc_linear_replace_rows(mica_scope *scope, const mc_weight_tensor *tensor,
                                   const int64_t *rows, size_t n, mc_linear *linear);

/* Adds scale times a vector [out] to a matrix's bias, or makes it one.
 *  errors  MICA_ESHAPE, MICA_EDTYPE naming tensor, file, found and wanted; MICA_ENOMEM */
mica_status mc_linear_add_bias(mica_scope *scope, const mc_weight_tensor *tensor, double scale,
                               mc_linear *linear);

/* A factor as the file holds it: [rows, columns] as wanted, or transposed. */
typedef struct mc_factor {
    const mc_weight_tensor *tensor;
    bool transposed;
} mc_factor;

/* Adds scale * (A B)^T to a weight, A being [in, rank] and B [rank, out]. The weight does not
 * change; the factors are copied to f32, in the scope.
 *
 *  errors  MICA_ESHAPE, MICA_EDTYPE naming tensor, file, found and wanted; MICA_EUNSUPPORTED the
 *          matrices of experts; MICA_ENOMEM */
mica_status mc_linear_adapt(mica_scope *scope, mc_factor a, mc_factor b, int64_t rank, double scale,
                            mc_linear *linear);

/* Makes a matrix with an adapter one of DoRA: m holds the norms of the rows of W + (A B)^T.
 *  errors  MICA_ESHAPE, MICA_EDTYPE naming tensor, file, found and wanted; those of mica_eval */
mica_status mc_linear_magnify(mica_scope *scope, const mc_weight_tensor *m, mc_linear *linear);

/* The matmul of activations x [..., in] f32 and the transposed weight, plus bias: [..., out] f32.
 * With a fast weight it is mc_quantized_matmul (op/quant.h) or mc_matmul_rows (op/matmul.h). */
mica_array mc_linear_apply(mica_scope *s, const mc_linear *linear, mica_array x);

/* The matmuls of rows with the experts that each picks.
 *
 *  x        [T, n, in] f32: n is 1, a row for all picks of its place; or k, one for each
 *  picks    [T, k] u32, below linear->experts
 *  returns  [T, k, out] f32 */
mica_array mc_linear_pick(mica_scope *s, const mc_linear *linear, mica_array x, mica_array picks);

/* The product with the weight alone, without bias and adapter. */
mica_array mc_linear_apply_weight(mica_scope *s, const mc_linear *linear, mica_array x);

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
