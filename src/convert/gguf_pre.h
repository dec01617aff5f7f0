/* The byte-level tokenizers that tokenizer.ggml.pre names: how each splits a text into words.
 *
 * Threads: safe.
 * Source: the pre_tokenizer of the models' tokenizer.json; the names are llama.cpp's. */
#ifndef CONVERT_GGUF_PRE_H
#define CONVERT_GGUF_PRE_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct mc_gguf_pre {
    const char *names;         /* one or more, with blanks between; written is the first */
    const char *const *splits; /* patterns, one after the other; NULL behind the last */
    bool ignore_merges;        /* a word that is a token is not taken apart */
    bool bos;                  /* a text begins with the BOS token, if the file does not say it */
    bool sep;                  /* and ends with the EOS token */
    bool nfc;                  /* texts are in NFC; GGUF does not say this */
    bool blanks;               /* blanks become U+2581, and no bytes are spelt, as SentencePiece */
} mc_gguf_pre;

/* The i-th row; NULL past the end. */
const mc_gguf_pre *mc_gguf_pre_at(size_t i);

/* The row of a name; NULL: mica does not know it. */
const mc_gguf_pre *mc_gguf_pre_find(mc_str name);

/* The name that is written of a row. */
mc_str mc_gguf_pre_name(const mc_gguf_pre *pre);

/* Patterns that tokenizer.json has steps of their own for: Digits and ByteLevel with use_regex. */
#define MC_GGUF_DIGIT "\\p{N}"
#define MC_GGUF_GPT2 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

#endif
