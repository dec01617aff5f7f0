/* The parts of an open tokenizer. Immutable once open, except for its count. */
#ifndef TEXT_TOKENIZER_TOKENIZER_H
#define TEXT_TOKENIZER_TOKENIZER_H

#include <mica/tokenizer.h>

#include "text/tokenizer/added.h"
#include "text/tokenizer/decode.h"
#include "text/tokenizer/model.h"
#include "text/tokenizer/normalize.h"
#include "text/tokenizer/pretokenize.h"
#include "text/tokenizer/store.h"
#include "text/tokenizer/template.h"
#include "text/tokenizer/vocab.h"

#include <stdatomic.h>

struct mica_tokenizer {
    atomic_uint count; /* its handle and its decoder streams */
    mc_store store;    /* memory of the steps */
    mc_vocab vocab;
    mc_added added_raw;        /* matched in the raw text */
    mc_added added_normalized; /* matched in the normalised text */
    mc_pairs respelled;        /* id to an index in spellings: the text it is decoded to */
    mc_buffer spellings;       /* of mc_str */
    mc_normalizer normalizer;
    mc_pretokenizer pretokenizer;
    mc_token_model model;
    mc_template around;
    mc_decoder decoder;
    int32_t bos, eos, pad, unk; /* of tokenizer_config.json; -1: none */
    int32_t max_tokens;         /* its model_max_length: of a text, special ones too; 0: none */
};

/* mica_tokenizer_open from memory. Error texts contain `name`; `text` may be freed afterwards. */
mica_status mc_tokenizer_parse(const char *text, size_t len, const char *name,
                               mica_tokenizer **tok);

/* What a folder says of its tokenizer beside tokenizer.json. */
typedef struct mc_tokenizer_config {
    mc_json_doc *config; /* tokenizer_config.json; NULL: there is none */
    mc_json_doc *map;    /* special_tokens_map.json; NULL: there is none */
} mc_tokenizer_config;

/* Reads the files. Closed in any case. errors  MICA_EFORMAT, MICA_EIO, MICA_ENOMEM */
mica_status mc_tokenizer_config_open(const char *folder, mc_tokenizer_config *config);
void mc_tokenizer_config_close(mc_tokenizer_config *config);

/* added_tokens_decoder; NONE: there is none. */
mc_json mc_tokenizer_config_added(const mc_tokenizer_config *config);

/* Takes special tokens and edges into an open tokenizer: special tokens that are in the vocabulary
 * become added ones, as in transformers. folder: for errors.
 * errors  MICA_EFORMAT, MICA_ENOMEM */
mica_status mc_tokenizer_read_config(mica_tokenizer *tok, const char *folder,
                                     const mc_tokenizer_config *config);

/* Keeps a tokenizer open until mica_tokenizer_close is called once more. */
mica_tokenizer *mc_tokenizer_retain(const mica_tokenizer *tok);

/* The text of an id before any decoder step; ptr NULL: the id has no token. */
mc_str mc_tokenizer_spelled(const mica_tokenizer *tok, int32_t id);

#endif
