/* Adapters: low-rank additions to a model's matrices, in folders as mlx-lm and PEFT write them.
 *
 * mlx-lm: adapters.safetensors holds <module>.lora_a and .lora_b, adapter_config.json says which
 * modules of the last num_layers blocks have them. PEFT: adapter_model.safetensors holds
 * base_model.model.<module>.lora_A.weight and .lora_B.weight (or lora_embedding_A and _B). Here a
 * folder becomes a list of pairs, each with its rank and scale; whether a model has such modules,
 * and of what shape, is for who knows the model.
 *
 * Other kinds than plain LoRA (DoRA, full weights, trained biases or modules saved whole) are
 * refused: they would be applied wrongly.
 *
 * Threads: an opened adapter may be read from any number of threads.
 * Source: mlx-lm 0.2x (tuner/utils.py, tuner/lora.py), PEFT 0.1x (tuners/lora). */
#ifndef IO_ADAPTER_H
#define IO_ADAPTER_H

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
    const char *module; /* as in the file, less "base_model.model.": "model.layers.0.mlp.up_proj" */
    mc_adapter_kind kind;
    const mc_weight_tensor *a, *b;
    int64_t rank; /* as the config says */
    double scale; /* of the product */
} mc_adapter_pair;

/* Opens an adapter's folder and matches its tensors in pairs.
 *
 * adapter  owned by the caller; NULL after an error.
 * errors   MICA_ENOENT no such folder or file; MICA_EINVAL it is a file; MICA_EFORMAT a malformed
 *          config, a tensor without its other half, no pairs at all; MICA_EUNSUPPORTED another kind
 *          of adapter, tensors that are no low-rank factors (the text lists them); MICA_EIO;
 *          MICA_ENOMEM */
mica_status mc_adapter_open(const char *folder, mc_adapter **adapter);

/* Closes *adapter and sets it to NULL; nothing for NULL. The tensors are gone then. */
void mc_adapter_close(mc_adapter **adapter);

/* The pairs, in order of the file. */
size_t mc_adapter_count(const mc_adapter *adapter);
const mc_adapter_pair *mc_adapter_at(const mc_adapter *adapter, size_t i); /* i < count */

/* The adapter's folder; lives as long as the adapter. */
const char *mc_adapter_path(const mc_adapter *adapter);

/* The first of a model's n_layers blocks that the config lets have adapters: those of mlx-lm are on
 * the last num_layers, but for modules whose whole names are listed. */
int mc_adapter_first_layer(const mc_adapter *adapter, int n_layers);

/* Whether the config says that the module has an adapter. False where it does not tell names.
 *
 * layer   of the module's block, -1: outside the blocks.
 * module  the whole name: "model.layers.0.mlp.up_proj".
 * name    what follows the block in it, else the same: "mlp.up_proj". */
bool mc_adapter_expects(const mc_adapter *adapter, int layer, int n_layers, const char *module,
                        const char *name);

#endif
