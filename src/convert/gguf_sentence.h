/* What stands behind an encoder in a GGUF file: pooling, dense modules, and the head of a
 * cross-encoder; in a folder the files of sentence-transformers.
 *
 * GGUF has the kind of pooling, and EmbeddingGemma's two matrices. What else sentence-transformers
 * knows (prompts, the longest text, whether vectors are normalised, the tokens by which a language
 * model ranks) is in keys of mica's own, which begin with "sentence_transformers."; other programs
 * leave them alone. */
#ifndef CONVERT_GGUF_SENTENCE_H
#define CONVERT_GGUF_SENTENCE_H

#include "base/buffer.h"
#include "convert/gguf_arch.h"
#include "convert/source.h"
#include "io/gguf_write.h"
#include "model/lm.h"

#define MC_GGUF_DENSE_2 "dense_2.weight"
#define MC_GGUF_DENSE_3 "dense_3.weight"
#define MC_GGUF_ANSWERS "cls.output.weight" /* of a language model that ranks: rows of its head */
enum { MC_GGUF_DENSE = 2 };                 /* so many matrices */

/* Writes modules.json and the files that it names into a folder; nothing for a file that says no
 * pooling. errors  MICA_EUNSUPPORTED a kind of pooling; MICA_ESHAPE; MICA_EIO; MICA_ENOMEM */
mica_status mc_gguf_write_sentence(const mc_gguf *gguf, const mc_gguf_arch *arch,
                                   const mc_decoder_spec *spec, const char *folder);

/* Adds what config.json says of a cross-encoder's head. false: no memory */
bool mc_gguf_ranker_config(const mc_gguf *gguf, const mc_gguf_arch *arch, mc_buffer *out);

/* Loads the modules behind the model of a folder. *behind: a model that has these alone; NULL: the
 * folder has none. mc_lm_close frees it.
 * errors  those of mc_sentence_load, and why the modules cannot be followed */
mica_status mc_gguf_open_sentence(const mc_source *source, const mc_decoder_spec *spec,
                                  mica_device *device, mc_lm **behind);

/* The number of matrices that it has for a file. */
size_t mc_gguf_count_dense(const mc_lm *behind);

/* Adds what stands behind a model as metadata.
 * errors  MICA_EUNSUPPORTED what GGUF cannot tell, by its name; MICA_ENOMEM */
mica_status mc_gguf_describe_sentence(const mc_source *source, const mc_gguf_arch *arch,
                                      const mc_lm *behind, mc_gguf_pairs *out);

#endif
