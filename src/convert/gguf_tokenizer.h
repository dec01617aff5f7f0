/* A GGUF file's tokenizer as files of the Hugging Face layout.
 *
 * Source: the keys that ggml's docs/gguf.md lists, and what llama.cpp reads of them. */
#ifndef CONVERT_GGUF_TOKENIZER_H
#define CONVERT_GGUF_TOKENIZER_H

#include "base/status.h"
#include "io/gguf.h"

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
mica_status mc_gguf_write_tokenizer(const mc_gguf *gguf, const char *folder);

#endif
