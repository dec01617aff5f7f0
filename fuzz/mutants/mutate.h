/* Mutations of the files of a model folder, at random places. */
#ifndef MUTANTS_MUTATE_H
#define MUTANTS_MUTATE_H

#include "base/buffer.h"
#include "chance.h"

typedef void mutation(chance *c, mc_buffer *file);

mutation mutate_bytes;    /* bits, runs of bytes, the length */
mutation mutate_json;     /* a value, key or element; invalid JSON is parsed as far as possible */
mutation mutate_template; /* a word, a piece, or an added hostile expression */
mutation mutate_tensors;  /* safetensors: the header as JSON, its length, the numbers after it */
mutation mutate_gguf;     /* words and bytes, more of them near the beginning */
mutation mutate_program;  /* words and bytes; usually size and hash are corrected */
mutation mutate_session;  /* words and bytes; usually the checksum is corrected */

/* Replaces file[at, end) by `len` bytes of `text`; len 0 removes it. `text` must not be in the
 * file. */
void mutate_splice(mc_buffer *file, size_t at, size_t end, const void *text, size_t len);

/* Ends the program if memory is out. */
void mutate_must(bool truth);

#endif
