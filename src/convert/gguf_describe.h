/* What config.json and the tokenizer's files say of a model, as GGUF's metadata. The inverse of
 * convert/gguf_model.h.
 *
 * Source: the keys that ggml's docs/gguf.md lists, and what llama.cpp reads for these models. */
#ifndef CONVERT_GGUF_DESCRIBE_H
#define CONVERT_GGUF_DESCRIBE_H

#include "base/status.h"
#include "convert/gguf_model.h"
#include "convert/source.h"
#include "io/gguf_write.h"
#include "model/spec.h"

/* Adds sizes, RoPE, windows and soft-caps.
 * errors  MICA_EUNSUPPORTED GGUF's architecture cannot say what the config does: the text names
 *         it */
mica_status mc_gguf_describe(const mc_gguf_arch *arch, const mc_decoder_spec *spec,
                             mc_gguf_pairs *out);

/* Llama 3's RoPE is a tensor: writes the divisor of each frequency.
 * out  [head_dim / 2] */
void mc_gguf_rope_divisors(const mc_decoder_spec *spec, float *out);

/* Adds the tokenizer of a folder, its special tokens and the chat template; "none" if there is no
 * tokenizer.json.
 * rows    number of the embedding's
 * errors  MICA_EUNSUPPORTED a kind of tokenizer that GGUF does not have; MICA_EFORMAT */
mica_status mc_gguf_describe_tokenizer(const mc_gguf_arch *arch, const mc_source *source,
                                       int64_t rows, mc_gguf_pairs *out);

#endif
