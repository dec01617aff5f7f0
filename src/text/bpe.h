/* Byte pair encoding: a piece of text is spelled as characters, and the pair that the training
 * merged first is merged until none is left.
 *
 * source  Sennrich, Haddow & Birch 2016 (arXiv:1508.07909); behaviour of `tokenizers`, models/bpe.
 * Immutable once loaded. */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include "base/buffer.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include "text/pairs.h"
#include "text/vocab.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct mc_bpe {
    mc_pairs merges;        /* (left id, right id) to rank << 32 | merged id */
    int32_t byte_ids[256];  /* of "<0x00>".."<0xFF>"; -1: none. Read where byte_fallback */
    int32_t ascii_ids[128]; /* of the one-character tokens; -1: none */
    int32_t unk_id;         /* -1: what is unknown is left out */
    bool byte_fallback;
    bool fuse_unk;      /* one unknown token for a run of unknown characters */
    bool ignore_merges; /* a piece that is a token as a whole is that token */
} mc_bpe;

typedef struct mc_bpe_scratch { /* reused from piece to piece */
    mc_buffer symbols;
    mc_buffer heap;
} mc_bpe_scratch;

/* Looks whether the "model" object is one that mica knows.
 * errors  MICA_EUNSUPPORTED another kind of model, or an option of it; MICA_EFORMAT */
mica_status mc_bpe_check(mc_json model);

/* Reads the "model" object, which was checked and whose vocabulary is loaded in v.
 * errors  MICA_EFORMAT, MICA_ENOMEM */
mica_status mc_bpe_load(mc_bpe *bpe, const mc_vocab *v, mc_json model);
void mc_bpe_deinit(mc_bpe *bpe);

/* Adds the int32 ids of a piece (valid UTF-8) to ids. errors  MICA_ENOMEM
 * O(n log n) in the piece's length. */
mica_status mc_bpe_encode(const mc_bpe *bpe, const mc_vocab *v, mc_str piece, mc_bpe_scratch *s,
                          mc_buffer *ids);

void mc_bpe_scratch_deinit(mc_bpe_scratch *s);

#endif
