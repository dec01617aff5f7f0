/* Loading: the tensors of a model's folder, and of its adapter, as what a pass computes with. */
#ifndef MODEL_LOAD_LOAD_H
#define MODEL_LOAD_LOAD_H

#include "base/names.h"
#include "model/lm.h"
#include "model/sentence.h"

#include <mica/group.h>

/* Opens the model in a folder for a device, which must outlive it.
 *
 *  options  of its weights; NULL: the defaults. If weights are neither read nor prefetched,
 *           progress is reported as tensors are found. Used until this returns.
 *  lm       owned by the caller; NULL after an error.
 *  errors   those of io/config.h and io/safetensors.h; MICA_EUNSUPPORTED an unknown family or kind;
 *           MICA_ENOENT tensors are missing (the text lists them); MICA_ESHAPE, MICA_EDTYPE a
 *           tensor is not as the config says; MICA_ENOMEM */
mica_status mc_lm_open(const char *folder, mica_device *device, const mc_weights_options *options,
                       mc_lm **lm);

/* Which layers a device computes: the last ones. The others lie with its fallback device, weights
 * and caches, and run there. */
typedef struct mc_lm_places {
    /* How many; -1: none; 0: as are fastest with the memory that it has. Of further layers the
     * experts may lie with the fallback. */
    int layers;
    int64_t tokens;       /* that caches are to have room for; 0: 8,192, or the context */
    double element_bytes; /* of a cache's elements */
} mc_lm_places;

/* mc_lm_open of which the device may have a part. places: NULL: it has all. */
mica_status mc_lm_open_placed(const char *folder, mica_device *device,
                              const mc_weights_options *options, const mc_lm_places *places,
                              mc_lm **lm);

/* Decides lm->far_layers and lm->far_experts, from the spec and the tensors, but those that it
 * ignores. A device that is complete has all. Where not all fits, the devices are measured
 * (mica_device_calibrate), and a token of an answer is to take the least time; with
 * MICA_CALIBRATION=off, or where that fails, the fallback is to read the fewest bytes for it.
 * errors  MICA_ENOMEM */
typedef bool (*mc_lm_ignore)(const mc_decoder_spec *spec, const char *name);
mica_status mc_lm_place(mc_lm *lm, const mc_weights *weights, mica_device *device,
                        const mc_lm_places *places, mc_lm_ignore ignores);

/* Whether a block's weights lie with the device's fallback, so that it runs there: those of a layer
 * that does (mc_lm_layer_falls_back), or its experts. */
bool mc_lm_block_falls_back(const mc_lm *lm, int layer, int block);

/* Adds the low-rank adapter in a folder, mlx-lm's or PEFT's, to the matrices that it names, and
 * puts the tensors that were trained whole in the place of the model's own. Allowed once, before
 * the model's first pass; after an error the model can only be closed. With a tied head, mlx-lm's
 * adapter of the embedding also applies to the head. PEFT's does not, nor does an embedding of its
 * modules_to_save; rows of trainable_token_indices do. It is as in those programs.
 *
 *  errors  those of io/adapter.h; MICA_ENOENT it names modules that the model lacks, or lacks some
 *          that its config names (the text lists them); MICA_EFORMAT it has more layers than its
 *          config says; MICA_ESHAPE, MICA_EDTYPE a tensor is not as the model and the config say;
 *          MICA_EUNSUPPORTED full training of a quantised matrix; MICA_EINVAL the model has an
 *          adapter; MICA_ENOMEM */
mica_status mc_lm_adapt(mc_lm *lm, const char *folder);

/* Makes what an adapter has of experts pairs of the matrices that the model has, whatever names and
 * layouts they came in.
 *  errors  MICA_ESHAPE, MICA_EDTYPE naming the tensor; MICA_EUNSUPPORTED DoRA; MICA_ENOMEM */
struct mc_adapter;
mica_status mc_adapter_fit(struct mc_adapter *adapter, const mc_decoder_spec *spec);

/* Gives a model with a spec.long_context that context, before the first pass: its RoPE takes the
 * divisors for long texts, for all texts. errors  MICA_ENOMEM; those of mica_from_data */
mica_status mc_lm_stretch(mc_lm *lm);

/* Leaves a rank its part of an open model (model/split.h), before the first pass. The group is
 * kept until the model is closed; one of one rank changes nothing. All ranks call it together.
 *
 *  tensor, pipeline  ranks of a stage, which are neighbours in the group, and stages; 0: what the
 *                    other one leaves, and of both all ranks and 1
 *  errors  MICA_EUNSUPPORTED the model is no decoder with a head; MICA_EINVAL the two do not make
 *          the group's ranks; MICA_EDEVICE a rank is gone; MICA_ENOMEM; those of mica_eval */
mica_status mc_lm_split(mc_lm *lm, mica_group *group, int tensor, int pipeline);

/* Whether a tensor or module is one that no decoder has: of parts for images, sound, or tokens
 * ahead; or what is computed from the config. spec NULL: it is not known */
bool mc_lm_ignores(const mc_decoder_spec *spec, const char *name);

/* Whether a tensor is of keys or values in a layer that reads those of another. */
bool mc_lm_spares(const mc_decoder_spec *spec, const char *name);

/* Whether two modules have the same weights in the files: tensors, scales and biases. */
bool mc_lm_same_matrix(const mc_weights *weights, const char *a, const char *b);

/* ---- one tensor ---- */

/* What loading needs, and what it collects. */
typedef struct mc_loader {
    const mc_weights *weights;
    mica_scope *scope; /* scope of the arrays; the mapped weights must outlive it */
    mc_packing packing;
    const char *prefix;  /* prefix of the decoder's tensors: "model." */
    const char *layers;  /* in front of a layer's number: "layers" */
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

/* A tensor's data as an array: where it lies in the files, or made of what lies there.
 * errors  those of mc_made_fill */
mica_status mc_weight_leaf(mica_scope *scope, const mc_weight_tensor *tensor, mica_array *array);

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

/* Loads the modules of sentence-transformers, if the folder has them. What is wrong with them, such
 * as a module that mica does not know, is kept for mc_sentence_check.
 *  errors  MICA_ENOMEM */
mica_status mc_sentence_load(mc_lm *lm, const char *folder);

/* Loads the head of a cross-encoder, if the files have one.
 *  errors  MICA_EUNSUPPORTED an activation (the text lists those that mica knows); those of the
 *          config readers and of mc_linear_load */
mica_status mc_ranker_load(mc_loader *loader, mc_lm *lm, const char *folder);

/* Reads what makes scores of the logits of a cross-encoder: ranker->sigmoid.
 *  root    config.json
 *  errors  MICA_EUNSUPPORTED another activation; those of the config readers */
mica_status mc_ranker_scores(const mc_config_scope *root, const char *folder, mc_ranker *ranker);

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

/* Makes a tensor [out], of experts [experts, out], a matrix's bias, as f32.
 *  errors  MICA_ESHAPE, MICA_EDTYPE naming tensor, file, found and wanted; MICA_ENOMEM */
mica_status mc_linear_set_bias(mica_scope *scope, const mc_weight_tensor *tensor,
                               mc_linear *linear);

/* Adds scale times a vector [out] to a matrix's bias, or makes it one.
 *  errors  MICA_ESHAPE, MICA_EDTYPE naming tensor, file, found and wanted; MICA_ENOMEM */
mica_status mc_linear_add_bias(mica_scope *scope, const mc_weight_tensor *tensor, double scale,
                               mc_linear *linear);

/* A factor as the file holds it: [rows, columns] as wanted, or transposed. */
typedef struct mc_factor {
    const mc_weight_tensor *tensor;
    bool transposed;
} mc_factor;

/* Adds scale * (A B)^T to a weight, A being [in, rank] and B [rank, out]; of experts A^T and B^T,
 * [experts, rank, in] and [experts, out, rank], are as the files have them. The weight does not
 * change; the factors are copied to f32, in the scope.
 *
 *  errors  MICA_ESHAPE, MICA_EDTYPE naming tensor, file, found and wanted; MICA_ENOMEM */
mica_status mc_linear_adapt(mica_scope *scope, mc_factor a, mc_factor b, int64_t rank, double scale,
                            mc_linear *linear);

/* Makes a matrix with an adapter one of DoRA: m holds the norms of the rows of W + (A B)^T.
 *  errors  MICA_ESHAPE, MICA_EDTYPE naming tensor, file, found and wanted; those of mica_eval */
mica_status mc_linear_magnify(mica_scope *scope, const mc_weight_tensor *m, mc_linear *linear);

#endif
