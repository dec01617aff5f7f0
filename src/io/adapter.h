/* Adapters: low-rank additions to a model's matrices, in folders as mlx-lm and PEFT write them, and
 * tensors that take the place of the model's own.
 *
 * mlx-lm: adapters.safetensors holds <module>.lora_a and .lora_b, adapter_config.json says which
 * modules of the last num_layers blocks have them; after full training it holds the trained tensors
 * by their own names. PEFT: adapter_model.safetensors holds base_model.model.<module>.lora_A.weight
 * and .lora_B.weight (or lora_embedding_A and _B), and beside them
 *
 *     <module>.weight, .bias              modules_to_save, and biases that were trained ("bias")
 *     <module>.base_layer.weight, .bias   copies of the model's own tensors: of embeddings that
 *                                         have factors, and of biases; without modules_to_save
 *                                         <module>.weight of an embedding or head is one, too
 *     <module>.lora_B.bias                lora_bias: of the second factor
 *     <module>.token_adapter.trainable_tokens_delta   trainable_token_indices: new rows of a table
 *
 * This file turns a folder into a list of pairs, each with its rank and scale, and a list of
 * substitutes. The model room checks whether a model has these modules and their shapes. PEFT's
 * other kinds are refused: they would be applied wrongly.
 *
 * Threads: an opened adapter may be read from any number of threads.
 * Source: mlx-lm 0.2x (tuner/utils.py, tuner/lora.py), PEFT 0.1x and 0.2x (tuners/lora,
 * tuners/trainable_tokens, utils/save_and_load.py). */
#ifndef IO_ADAPTER_H
#define IO_ADAPTER_H

#include "base/buffer.h"
#include "base/status.h"
#include "io/safetensors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mc_adapter mc_adapter;

typedef enum mc_adapter_kind {
    MC_ADAPTER_MLX,           /* a [in, r], b [r, out] of a matrix; [rows, r], [r, in] of a table */
    MC_ADAPTER_PEFT,          /* a [r, in], b [out, r] */
    MC_ADAPTER_PEFT_EMBEDDING /* a [r, rows], b [in, r] */
} mc_adapter_kind;

typedef struct mc_adapter_pair {
    const char *module; /* name in the file without "base_model.model.":
                           "model.layers.0.mlp.up_proj" */
    mc_adapter_kind kind;
    const mc_weight_tensor *a, *b;
    const mc_weight_tensor *m;    /* [out] DoRA: norms of the rows of the sum; NULL: plain LoRA */
    const mc_weight_tensor *bias; /* [out] added to x @ a @ b before the scale; NULL: none */
    int64_t rank;                 /* by the config */
    double scale;                 /* factor of x @ a @ b */
} mc_adapter_pair;

/* A tensor in the place of a model's own, or of some of its rows. */
typedef struct mc_adapter_substitute {
    const char *name; /* of the model's tensor: "model.norm.weight" */
    const mc_weight_tensor *tensor;
    /* A copy of the tensor of the model that was trained: a tied head is it, too. Otherwise it was
     * trained, apart from a tied head. */
    bool copy;
    const int64_t *rows; /* [row_count] those that the tensor's rows replace; NULL: all */
    size_t row_count;
} mc_adapter_substitute;

/* Opens an adapter's folder and matches its tensors to pairs.
 *
 * adapter  owned by the caller; NULL after an error.
 * errors   MICA_ENOENT no such folder or file; MICA_EINVAL it is a file; MICA_EFORMAT a malformed
 *          config, a tensor without its other half, no pairs at all; MICA_EUNSUPPORTED another kind
 *          of adapter, tensors that are not low-rank factors (the text lists them); MICA_EIO;
 *          MICA_ENOMEM */
mica_status mc_adapter_open(const char *folder, mc_adapter **adapter);

/* Closes *adapter, frees its tensors and sets it to NULL. Does nothing for NULL. */
void mc_adapter_close(mc_adapter **adapter);

/* The substitutes, in order of the file. */
size_t mc_adapter_substitute_count(const mc_adapter *adapter);
const mc_adapter_substitute *mc_adapter_substitute_at(const mc_adapter *adapter, size_t i);

/* Whether it is of mlx-lm's full training: substitutes only, and a tied head goes with the
 * embedding. */
bool mc_adapter_is_full(const mc_adapter *adapter);
bool mc_adapter_is_peft(const mc_adapter *adapter);

/* The pairs, in order of the file; none of full training. */
size_t mc_adapter_count(const mc_adapter *adapter);
const mc_adapter_pair *mc_adapter_at(const mc_adapter *adapter, size_t i); /* i < count */

/* Puts other pairs in the place of the adapter's: *pairs, of mc_adapter_pair, takes these. Their
 * names and tensors live as long as the adapter: they are its own, or lie in mc_adapter_room. */
void mc_adapter_set_pairs(mc_adapter *adapter, mc_buffer *pairs);

/* Zeroed memory that lives as long as the adapter; NULL: no memory. */
void *mc_adapter_room(mc_adapter *adapter, size_t bytes);

/* The adapter's folder; lives as long as the adapter. */
const char *mc_adapter_path(const mc_adapter *adapter);

/* The first of a model's n_layers blocks that may have adapters. mlx-lm's adapters are on the last
 * num_layers blocks, except for modules that the config lists by their whole names. */
int mc_adapter_first_layer(const mc_adapter *adapter, int n_layers);

/* Whether the config says that the module has an adapter. False if the config lists no names.
 *
 * layer   index of the module's block; -1: the module is in no block.
 * module  whole name: "model.layers.0.mlp.up_proj".
 * name    name within the block: "mlp.up_proj"; without a block the whole name. */
bool mc_adapter_expects(const mc_adapter *adapter, int layer, int n_layers, const char *module,
                        const char *name);

#endif
