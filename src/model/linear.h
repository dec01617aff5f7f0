/* Weight matrices in place in the files: dense, or quantised as MLX packs them.
 *
 * Threads: a loaded matrix never changes. */
#ifndef MODEL_LINEAR_H
#define MODEL_LINEAR_H

#include "base/names.h"
#include "io/safetensors.h"
#include "model/packing.h"

#include <mica/ops.h>

/* A dense weight is [out, in] f32, f16 or bf16. A quantised one is codes [out, in * bits / 32] u32
 * with scales and biases [out, in / group_size]; biases is MICA_NONE for the fp modes. */
typedef struct mc_linear {
    mica_array weight, scales, biases;
    mica_array bias; /* [out] f32, added to the matmul; MICA_NONE: none */
    /* An adapter's factors, [in, r] and [r, out] f32, whose matmul is added to the transposed
     * weight; its scale is in them. MICA_NONE: none. */
    mica_array lora_a, lora_b;
    mica_quant quant;
    bool quantised;
    bool fast; /* matmuls may round x: mc_lm_set_arithmetic */
    int64_t out, in;
} mc_linear;

/* What loading needs, and what it finds out on the way. */
typedef struct mc_loader {
    const mc_weights *weights;
    mica_scope *scope; /* of the arrays; the mapped weights must outlive it */
    mc_packing packing;
    const char *prefix;  /* of the decoder's tensors, "model." */
    bool *used;          /* [tensors]: those that the model reads */
    mc_names missing;    /* tensors that are not there, for one error at the end */
    uint64_t parameters; /* logical: one a weight, however it is packed */
    uint64_t bytes;
    size_t dense[MICA_DTYPE_COUNT]; /* matrices and vectors of each dtype that are not quantised */
    mica_quant quant;               /* of the first quantised matrix */
    size_t quantised;               /* how many matrices are */
    bool mixed;                     /* they are not quantised alike */
} mc_loader;

/* Loads the matrix `module`.weight. out 0: as many rows as there are. A tensor that is not there is
 * noted in the loader and no error yet.
 * errors  MICA_ESHAPE, MICA_EDTYPE naming tensor, file, found and wanted */
mica_status mc_linear_load(mc_loader *loader, const char *module, int64_t out, int64_t in,
                           bool bias, mc_linear *linear);

/* Loads a vector [n] of floats as f32, `offset` added to each element. */
mica_status mc_vector_load(mc_loader *loader, const char *tensor, int64_t n, double offset,
                           mica_array *vector);

/* A factor as a file has it: [rows, columns] of what is wanted, or that transposed. */
typedef struct mc_factor {
    const mc_weight_tensor *tensor;
    bool turned;
} mc_factor;

/* Adds scale * (A B)^T to a weight, A being [in, rank] and B [rank, out]: the weight stays as it
 * is, the factors are copied to f32, in the scope.
 *
 * errors  MICA_ESHAPE, MICA_EDTYPE naming tensor, file, found and wanted; MICA_ENOMEM */
mica_status mc_linear_adapt(mica_scope *scope, mc_factor a, mc_factor b, int64_t rank, double scale,
                            mc_linear *linear);

/* x [..., in] f32 times the transposed weight, plus bias: [..., out] f32. The matmul with a fast
 * weight is what op/build.h's mc_quantized_matmul or mc_matmul_rows says. */
mica_array mc_linear_apply(mica_scope *s, const mc_linear *linear, mica_array x);

/* Rows of the weight: ids [...] i32 -> [..., in] f32. */
mica_array mc_linear_rows(mica_scope *s, const mc_linear *linear, mica_array ids);

#endif
