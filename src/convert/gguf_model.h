/* What GGUF's metadata says of a model, as files of the Hugging Face layout.
 *
 * Source: the keys that ggml's docs/gguf.md lists, and what llama.cpp writes for these models. */
#ifndef CONVERT_GGUF_MODEL_H
#define CONVERT_GGUF_MODEL_H

#include "base/buffer.h"
#include "base/status.h"
#include "io/gguf.h"
#include "model/spec.h"

#include <stdbool.h>

typedef struct mc_gguf_arch {
    const char *name;         /* general.architecture */
    const char *model_type;   /* of config.json */
    const char *architecture; /* of config.json */
    bool gemma;               /* it has Gemma's keys, and Gemma's tokenizer */
    bool permuted; /* the rows of queries and keys are in the order of paired rotations */
    /* Keys of config.json for the number of experts and their width; NULL: it has none. */
    const char *experts, *width;
    bool renormalised; /* weights of experts are divided by their sum */
} mc_gguf_arch;

/* The architecture of a file. errors  MICA_EUNSUPPORTED naming it and those that mica knows */
mica_status mc_gguf_arch_find(const mc_gguf *gguf, const mc_gguf_arch **arch);

/* The architecture of a family of models. errors  MICA_EUNSUPPORTED GGUF has none for it */
mica_status mc_gguf_arch_of(const char *family, const mc_gguf_arch **arch);

/* The name of a tensor in the Hugging Face layout, in out [bytes], and its slot, whose layer is -1
 * outside the layers. false: the model has no such tensor. */
bool mc_gguf_tensor_name(const mc_decoder_spec *spec, const char *name, char *out, size_t bytes,
                         mc_spec_slot *slot);

/* The inverse, of a name without the decoder's prefix ("layers.0.mlp.up_proj.weight"). */
bool mc_gguf_name_of(const mc_decoder_spec *spec, mc_str name, char *out, size_t bytes,
                     mc_spec_slot *slot);

/* The heads whose rows GGUF has in the order of paired rotations; 0: none. */
int64_t mc_gguf_paired_heads(const mc_gguf_arch *arch, const mc_spec_slot *slot);

/* What GGUF has added to the values of a norm; 0 for other tensors. name: in the Hugging Face
 * layout. */
double mc_gguf_norm_offset(const mc_decoder_spec *spec, const mc_spec_slot *slot, const char *name);

/* Writes config.json's text.
 * errors  MICA_EFORMAT keys are missing; MICA_EUNSUPPORTED a RoPE that config.json cannot say */
mica_status mc_gguf_config(const mc_gguf *gguf, const mc_gguf_arch *arch, mc_buffer *out);

/* A kind of byte-level tokenizer, by tokenizer.ggml.pre. The patterns are those of the models'
 * tokenizer.json. */
typedef struct mc_gguf_pre {
    const char *name;
    const char *digits; /* how many digits are a word: "" for one */
    bool nfc, ignore_merges, bos;
} mc_gguf_pre;

/* The i-th kind; NULL past the end. */
const mc_gguf_pre *mc_gguf_pre_at(size_t i);

/* The pattern of a kind's words, in out [bytes]. */
void mc_gguf_pre_pattern(const mc_gguf_pre *pre, char *out, size_t bytes);

/* Types of tokens in tokenizer.ggml.token_type. */
enum {
    MC_GGUF_NORMAL = 1,
    MC_GGUF_UNKNOWN,
    MC_GGUF_CONTROL,
    MC_GGUF_USER_DEFINED,
    MC_GGUF_UNUSED,
    MC_GGUF_BYTE
};

/* Writes tokenizer.json, tokenizer_config.json and generation_config.json into a folder; nothing
 * for a file whose tokenizer.ggml.model is "none".
 * errors  MICA_EUNSUPPORTED a kind of tokenizer that mica does not know, by its name; MICA_EFORMAT
 *         tokens, merges or scores are missing, or two tokens are the same text */
mica_status mc_gguf_write_tokenizer(const mc_gguf *gguf, const mc_gguf_arch *arch,
                                    const char *folder);

#endif
