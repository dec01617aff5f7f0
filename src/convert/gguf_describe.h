/* What config.json and the tokenizer's files say of a model, as GGUF's metadata. The inverse of
 * convert/gguf_model.h. */
#ifndef CONVERT_GGUF_DESCRIBE_H
#define CONVERT_GGUF_DESCRIBE_H

#include "base/status.h"
#include "convert/gguf_model.h"
#include "convert/source.h"
#include "io/gguf_write.h"

/* Finds the first architecture that can tell a model.
 * errors  MICA_EUNSUPPORTED none holds the family, or can say what the config does: the text names
 *         it */
mica_status mc_gguf_arch_of(const mc_decoder_spec *spec, const mc_gguf_arch **arch);

/* Adds sizes, layers, RoPE, windows, soft-caps, factors. errors  MICA_ENOMEM */
mica_status mc_gguf_describe(const mc_gguf_arch *arch, const mc_decoder_spec *spec,
                             mc_gguf_pairs *out);

/* A tensor that holds RoPE's divisors of frequencies, [n]. */
typedef struct mc_gguf_divisors {
    const char *name;
    int64_t n;
    float *values;
} mc_gguf_divisors;

/* Finds such tensors, of which a model has two at most. values  in the arena
 * errors  MICA_ENOMEM */
enum { MC_GGUF_DIVISORS = 2 };
mica_status mc_gguf_find_divisors(const mc_gguf_arch *arch, const mc_decoder_spec *spec,
                                  mc_arena *arena, mc_gguf_divisors out[MC_GGUF_DIVISORS],
                                  size_t *count);

/* Adds the tokenizer of a folder, its special tokens and the chat template; "none" if there is no
 * tokenizer.json.
 * rows    number of the embedding's
 * errors  MICA_EUNSUPPORTED a kind of tokenizer that GGUF does not have; MICA_EFORMAT */
mica_status mc_gguf_describe_tokenizer(const mc_source *source, int64_t rows, mc_gguf_pairs *out);

#endif
