/* The vocabulary: every token's text, and the id of a text.
 *
 * All texts are in one block of memory, so that looking up costs few cache misses. Immutable once
 * loaded. */
#ifndef TEXT_TOKENIZER_VOCAB_H
#define TEXT_TOKENIZER_VOCAB_H

#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer/byte_tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MC_VOCAB_MAX_IDS (1 << 22)

/* Tables have an entry for each id. Therefore the ids of n tokens must be below SPARSE + FACTOR *
 * n. */
#define MC_VOCAB_SPARSE (1 << 20)
#define MC_VOCAB_SPARSE_FACTOR 16

enum {
    MC_TOKEN_MODEL = 1, /* BPE may make it */
    MC_TOKEN_ADDED = 2,
    MC_TOKEN_SPECIAL = 4,
    MC_TOKEN_RESPELLED = 8, /* decoded as its normalised text: see mica_tokenizer.respelled */
    MC_TOKEN_MORE = 16      /* added by tokenizer_config.json alone */
};

typedef struct mc_token {
    const char *text; /* NUL-terminated; NULL: no token has this id */
    uint32_t len;
    uint32_t flags;
} mc_token;

typedef struct mc_vocab_slot {
    uint32_t tag; /* the upper half of the hash: compared before the text */
    int32_t id;   /* -1: empty */
} mc_vocab_slot;

typedef struct mc_vocab {
    mc_token *tokens; /* [size] */
    size_t size;      /* largest id + 1 */
    size_t bytes;     /* room for all texts, with a NUL after each */
    mc_vocab_slot *slots;
    size_t mask;
    char *texts;
} mc_vocab;

/* Reads model.vocab and added_tokens (an array; may be NONE). The vocabulary is of the given type:
 * an object of texts and ids, or an array of [text, score] whose ids are their indices.
 * An added token that the model's vocabulary has, too, keeps its id there, and one that is there
 * twice its first; the other id is nobody's and counts for nothing, as in Hugging Face's tokenizers
 * (which number all others anew; here they have the file's ids). So do those of
 * added_tokens_decoder of tokenizer_config.json (an object: id to token; may be NONE), which are
 * marked; one whose id another token has is left out.
 * errors  MICA_EFORMAT, MICA_ENOMEM; mc_vocab_deinit frees v also after an error */
mica_status mc_vocab_load(mc_vocab *v, mc_json vocab, mc_json_type type, mc_json added,
                          mc_json more);
void mc_vocab_deinit(mc_vocab *v);

uint64_t mc_vocab_hash(const char *text, size_t len);
int32_t mc_vocab_find_hashed(const mc_vocab *v, mc_str text, uint64_t hash); /* -1: none */
/* Finds only tokens of the model, which BPE may make, not added tokens. */
int32_t mc_vocab_find_model(const mc_vocab *v, mc_str text, uint64_t hash);

/* The ids of the model's tokens "<0x00>" to "<0xFF>"; -1: none. */
void mc_vocab_byte_ids(const mc_vocab *v, int32_t ids[256]);

/* Fills an empty tree with the model's tokens and their ids. A token without bytes is left out.
 * errors  MICA_EUNSUPPORTED a token of more than 1,024 bytes; MICA_ENOMEM */
mica_status mc_vocab_fill_tree(const mc_vocab *v, mc_byte_tree *t);

static inline int32_t mc_vocab_find(const mc_vocab *v, mc_str text) {
    return mc_vocab_find_hashed(v, text, mc_vocab_hash(text.ptr, text.len));
}

/* mc_vocab_find_model for n <= MC_VOCAB_BATCH texts, with overlapping cache misses. */
#define MC_VOCAB_BATCH 192
void mc_vocab_find_batch(const mc_vocab *v, const mc_str *texts, size_t n, int32_t *ids);

static inline const mc_token *mc_vocab_token(const mc_vocab *v, int64_t id) {
    return id >= 0 && (uint64_t)id < v->size && v->tokens[id].text ? &v->tokens[id] : NULL;
}

static inline mc_str mc_token_str(const mc_token *token) {
    return (mc_str){token->text, token->len};
}

#endif
