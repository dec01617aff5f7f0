/* Byte pair encoding: a piece of text becomes the ids of its characters. Then the pair of least
 * rank (merged first in training) is merged, again and again, until no pair is left.
 *
 * source  Sennrich, Haddow & Birch 2016 (arXiv:1508.07909); behaviour of `tokenizers`, models/bpe.
 * Immutable once loaded. */
#ifndef TEXT_TOKENIZER_BPE_H
#define TEXT_TOKENIZER_BPE_H

#include "base/buffer.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer/pairs.h"
#include "text/tokenizer/vocab.h"

#include <stdbool.h>
#include <stdint.h>

enum { MC_BPE_CHARS = 0x10000 };

typedef struct mc_bpe {
    mc_pairs merges;        /* (left id, right id) to rank << 32 | merged id */
    int32_t *char_ids;      /* [MC_BPE_CHARS] ids of one-character tokens; -1: none */
    uint64_t *joins;        /* bit set of adjacent characters in tokens: see bpe_joins.c */
    int32_t byte_ids[256];  /* ids of "<0x00>".."<0xFF>"; -1: none. Read if byte_fallback is set */
    int32_t level_ids[256]; /* ids of bytes in ByteLevel's spelling; -1: none */
    int32_t unk_id;         /* -1: unknown characters are left out */
    bool byte_fallback;
    bool fuse_unk;      /* one unknown token for a run of unknown characters */
    bool ignore_merges; /* a piece that equals a token becomes that token, without merging */
    bool takes_bytes;   /* pieces are raw bytes: ByteLevel's spelling is done here */
} mc_bpe;

enum { MC_BPE_KEY = 22, MC_BPE_IDS = 10 };

typedef struct mc_bpe_known { /* a piece that was encoded before; a cache line */
    char key[MC_BPE_KEY];     /* zero from len on */
    uint8_t len;              /* 0: empty */
    uint8_t n;
    int32_t ids[MC_BPE_IDS];
} mc_bpe_known;

typedef struct mc_bpe_scratch { /* reused from piece to piece; zero is empty */
    mc_buffer ids;              /* of int32: the symbols of the piece */
    mc_buffer symbols;
    mc_buffer heap;
    mc_buffer spelled;
    mc_bpe_known *known; /* NULL: nothing is remembered */
    size_t known_mask;
} mc_bpe_scratch;

/* Checks that mica supports the options of the "model" object.
 * errors  MICA_EUNSUPPORTED an option that mica lacks */
mica_status mc_bpe_check(mc_json model);

/* Reads the "model" object, which was checked and whose vocabulary is loaded in v. ends_in_bytes:
 * the pre-tokenizer's last step is ByteLevel's spelling of bytes. If then the vocabulary has all
 * bytes, takes_bytes is set, and the pre-tokenizer must leave out that step.
 * errors  MICA_EFORMAT, MICA_ENOMEM */
mica_status mc_bpe_load(mc_bpe *bpe, const mc_vocab *v, mc_json model, bool ends_in_bytes);
void mc_bpe_deinit(mc_bpe *bpe);

/* Makes room to remember the pieces of a text of text_len bytes. errors  MICA_ENOMEM */
mica_status mc_bpe_remember(mc_bpe_scratch *s, size_t text_len);

/* Adds the int32 ids of a piece to ids. The piece is valid UTF-8; any bytes if takes_bytes is set.
 * O(n log n) in the piece's length. errors  MICA_ENOMEM */
mica_status mc_bpe_encode(const mc_bpe *bpe, const mc_vocab *v, mc_str piece, mc_bpe_scratch *s,
                          mc_buffer *ids);

void mc_bpe_scratch_deinit(mc_bpe_scratch *s);

/* Merges ids[0..*n) in place. errors  MICA_ENOMEM */
mica_status mc_bpe_merge(const mc_bpe *bpe, int32_t *ids, size_t *n, mc_bpe_scratch *s);

/* Records which characters are adjacent in some token. A merge of two tokens is a token, so no
 * merge crosses two characters that are never adjacent: text can be cut between them.
 * errors  MICA_ENOMEM */
mica_status mc_bpe_learn_joins(mc_bpe *bpe, const mc_vocab *v);
/* The length of a piece's first part that can be encoded alone. */
size_t mc_bpe_first_part(const mc_bpe *bpe, const mc_vocab *v, mc_str piece);

/* The id of a character, -1: none. */
static inline int32_t mc_bpe_char_id(const mc_bpe *bpe, const mc_vocab *v, uint32_t codepoint,
                                     mc_str spelled) {
    if (codepoint < MC_BPE_CHARS) return bpe->char_ids[codepoint];
    return mc_vocab_find_model(v, spelled, mc_vocab_hash(spelled.ptr, spelled.len));
}

#endif
