/* Changes to the files of a model folder, each somewhere that the random numbers choose. */
#ifndef MUTANTS_MUTATE_H
#define MUTANTS_MUTATE_H

#include "base/buffer.h"
#include "chance.h"

typedef void mutation(chance *c, mc_buffer *file);

mutation mutate_bytes;    /* bits, runs of bytes, the length */
mutation mutate_json;     /* a value, key or element; text that is no JSON is taken for some */
mutation mutate_template; /* a word, a piece, or a hostile expression more */
mutation mutate_tensors;  /* safetensors: the header as JSON, its length, numbers behind it */
mutation mutate_session;  /* words and bytes; most often the checksum is set anew */

/* Puts `len` bytes of `text` where file[at, end) was; len 0 removes. `text` is not the file's. */
void mutate_splice(mc_buffer *file, size_t at, size_t end, const void *text, size_t len);

/* Ends the program where memory does. */
void mutate_must(bool truth);

#endif
