/* The texts of a vocabulary's tokens as a tree, for masks.
 *
 * Special tokens, tokens without bytes and those longer than 255 bytes are left out: no grammar
 * allows them. But tokens that are a mark of some format (answer/format.h) have MC_MARK before
 * their text, and if they are not special they are there by their text alone, too.
 * Threads: an open one never changes. */
#ifndef GRAMMAR_TOKEN_TRIE_H
#define GRAMMAR_TOKEN_TRIE_H

#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"

#include <mica/tokenizer.h>

#include <stdint.h>

typedef struct mc_trie_node {
    uint32_t end;   /* the node behind those below this one, in order of the walk */
    uint32_t first; /* of its tokens, in `ids` */
    uint32_t count; /* tokens with the text up to here */
    uint8_t depth;  /* of the node's byte, from 0 */
    uint8_t byte;
} mc_trie_node;

typedef struct mc_trie { /* nodes in the order of a depth-first walk */
    mc_buffer nodes;     /* mc_trie_node */
    mc_buffer ids;       /* int32 */
} mc_trie;

typedef struct mc_token_trie {
    size_t vocab;
    mc_str *texts; /* [vocab], borrowed from the tokenizer; ptr NULL: none. Of marks with
                               MC_MARK, in `marks` */
    mc_buffer marks;
    mica_tokenizer *holder; /* held */
    mc_trie all;
    mc_trie others;  /* those of tokens that are not plain */
    uint32_t *plain; /* bits of the plain tokens */
    size_t words;    /* of `plain`, and of masks */
} mc_token_trie;

/* Builds the tree of a tokenizer, for models with `vocab` logits. It keeps the tokenizer open.
 * errors  MICA_EUNSUPPORTED its tokens' texts are not joined as they are; MICA_ENOMEM */
mica_status mc_token_trie_open(const mica_tokenizer *tok, size_t vocab, mc_token_trie **trie);
void mc_token_trie_close(mc_token_trie **trie);

#endif
