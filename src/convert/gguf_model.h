/* What GGUF's metadata says of a model, as files of the Hugging Face layout.
 *
 * Source: the keys that ggml's docs/gguf.md lists, and what llama.cpp writes for these models. */
#ifndef CONVERT_GGUF_MODEL_H
#define CONVERT_GGUF_MODEL_H

#include "base/buffer.h"
#include "base/status.h"
#include "io/gguf.h"

#include <stdbool.h>

typedef struct mc_gguf_arch {
    const char *name;         /* general.architecture */
    const char *model_type;   /* of config.json */
    const char *architecture; /* of config.json */
    bool gemma;               /* norms are stored with 1 added, and there are four in a layer */
    bool permuted; /* the rows of queries and keys are in the order of paired rotations */
} mc_gguf_arch;

/* The architecture of a file. errors  MICA_EUNSUPPORTED naming it and those that mica knows */
mica_status mc_gguf_arch_find(const mc_gguf *gguf, const mc_gguf_arch **arch);

/* "arch.key" as an integer or number; `fallback` if it is absent. */
int64_t mc_gguf_arch_int(const mc_gguf *gguf, const mc_gguf_arch *arch, const char *key,
                         int64_t fallback);

/* The name of a tensor in the Hugging Face layout, in out [bytes]. false: there is none. */
bool mc_gguf_tensor_name(const mc_gguf_arch *arch, const char *name, char *out, size_t bytes);

/* Writes config.json's text.
 * errors  MICA_EFORMAT keys are missing; MICA_EUNSUPPORTED a RoPE that config.json cannot say */
mica_status mc_gguf_config(const mc_gguf *gguf, const mc_gguf_arch *arch, mc_buffer *out);

/* Writes tokenizer.json, tokenizer_config.json and generation_config.json into a folder; nothing
 * for a file without a tokenizer.
 * errors  MICA_EUNSUPPORTED a kind of tokenizer that mica does not know, by its name */
mica_status mc_gguf_write_tokenizer(const mc_gguf *gguf, const mc_gguf_arch *arch,
                                    const char *folder);

#endif
