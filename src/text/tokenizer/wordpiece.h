/* WordPiece: a word becomes the longest token that it begins with, then the longest of those that
 * begin with the prefix of continuations ("##"), and so on. A word with a rest that is none of them
 * becomes one unknown token.
 *
 * source  Devlin et al. 2018 (arXiv:1810.04805); behaviour of `tokenizers`, models/wordpiece.
 * Immutable once loaded. */
#ifndef TEXT_TOKENIZER_WORDPIECE_H
#define TEXT_TOKENIZER_WORDPIECE_H

#include "base/buffer.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer/byte_tree.h"
#include "text/tokenizer/vocab.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct mc_wordpiece {
    mc_byte_tree tree;
    uint32_t inner; /* the node after the prefix of continuations */
    bool continues; /* there is that node */
    int32_t unk_id;
    size_t max_chars; /* of a word; longer ones are unknown */
} mc_wordpiece;

/* Reads the "model" object, whose vocabulary is loaded in v.
 * errors  MICA_EFORMAT; MICA_EUNSUPPORTED a token of more than 1,024 bytes; MICA_ENOMEM */
mica_status mc_wordpiece_load(mc_wordpiece *w, const mc_vocab *v, mc_json model);
void mc_wordpiece_deinit(mc_wordpiece *w);

/* Adds the int32 ids of a word to ids. O(n) for tokens of bounded length. errors  MICA_ENOMEM */
mica_status mc_wordpiece_encode(const mc_wordpiece *w, mc_str word, mc_buffer *ids);

#endif
