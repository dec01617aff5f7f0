/* Unigram: of all ways to cut a piece of text into tokens the one with the largest sum of
 * log-probabilities, found by Viterbi's algorithm. A character that is no token of its own may be
 * unknown, at 10 less than the least score of the vocabulary.
 *
 * source  Kudo 2018 (arXiv:1804.10959); behaviour of `tokenizers`, models/unigram.
 * Immutable once loaded. */
#ifndef TEXT_TOKENIZER_UNIGRAM_H
#define TEXT_TOKENIZER_UNIGRAM_H

#include "base/buffer.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer/byte_tree.h"
#include "text/tokenizer/vocab.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct mc_unigram {
    mc_byte_tree tree;
    double *scores;   /* one for each token of the model */
    double unk_score; /* of an unknown character */
    int32_t unk_id;
    int32_t byte_ids[256]; /* of "<0x00>".."<0xFF>"; -1: none. Read if byte_fallback is set */
    bool byte_fallback;
} mc_unigram;

typedef struct mc_unigram_scratch { /* reused from piece to piece; zero is empty */
    mc_buffer nodes;
    mc_buffer path;
} mc_unigram_scratch;

/* Reads the "model" object, whose vocabulary (an array of [token, score]) is loaded in v.
 * errors  MICA_EFORMAT; MICA_EUNSUPPORTED no unknown token, a token of more than 1,024 bytes;
 *         MICA_ENOMEM */
mica_status mc_unigram_load(mc_unigram *u, const mc_vocab *v, mc_json model);
void mc_unigram_deinit(mc_unigram *u);

/* Adds the int32 ids of a piece to ids. O(n) for tokens of bounded length. errors  MICA_ENOMEM */
mica_status mc_unigram_encode(const mc_unigram *u, const mc_vocab *v, mc_str piece,
                              mc_unigram_scratch *s, mc_buffer *ids);
void mc_unigram_scratch_deinit(mc_unigram_scratch *s);

#endif
