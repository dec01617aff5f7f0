/* Added tokens: they are cut out of the input before the other steps see it.
 *
 * The leftmost match comes first, of several at one position the longest. A single_word token
 * inside a longer word is skipped. One set is matched in the raw text and one (tokens with
 * "normalized") in the normalised text. Immutable once loaded. */
#ifndef TEXT_TOKENIZER_ADDED_H
#define TEXT_TOKENIZER_ADDED_H

#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer/byte_tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MC_ADDED_LSTRIP = 1, MC_ADDED_RSTRIP = 2, MC_ADDED_WORD = 4 };

typedef struct mc_added {
    mc_byte_tree tree; /* of the tokens' texts, to their index */
    mc_buffer tokens;  /* of mc_added_token */
    bool starts[256];  /* first bytes of tokens */
} mc_added;

typedef struct mc_added_token {
    int32_t id;
    uint32_t flags;
} mc_added_token;

/* A token found in a text, with the white space that it includes. */
typedef struct mc_added_match {
    size_t start, end;
    int32_t id;
} mc_added_match;

/* Adds a token. errors  MICA_EUNSUPPORTED longer than 1,024 bytes; MICA_ENOMEM */
mica_status mc_added_put(mc_added *a, mc_str text, int32_t id, uint32_t flags);
void mc_added_deinit(mc_added *a);

/* Finds the next token at or after `from`; false: there is none. */
bool mc_added_find(const mc_added *a, mc_str text, size_t from, mc_added_match *match);

#endif
