/* The model of a tokenizer: what makes ids of a piece of text. One of the kinds of model.c. */
#ifndef TEXT_TOKENIZER_MODEL_H
#define TEXT_TOKENIZER_MODEL_H

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/wordpiece.h"

typedef struct mc_token_model { /* the members of other kinds are zero */
    const struct mc_token_kind *kind;
    mc_bpe bpe;
    mc_wordpiece wordpiece;
    mc_unigram unigram;
} mc_token_model;

typedef struct mc_token_scratch { /* one thread's, for one text; zero is empty */
    mc_bpe_scratch bpe;
    mc_unigram_scratch unigram;
} mc_token_scratch;

/* Finds the kind of the "model" object, and checks that mica supports it.
 * vocab   receives what its vocabulary is: an object or an array.
 * errors  MICA_EUNSUPPORTED another kind of model, or an option that mica lacks; MICA_EFORMAT */
mica_status mc_token_model_check(mc_token_model *m, mc_json model, mc_json_type *vocab);

/* Reads the "model" object, which was checked and whose vocabulary is loaded in v. ends_in_bytes:
 * as of mc_bpe_load. errors  MICA_EFORMAT, MICA_EUNSUPPORTED, MICA_ENOMEM */
mica_status mc_token_model_load(mc_token_model *m, const mc_vocab *v, mc_json model,
                                bool ends_in_bytes);
void mc_token_model_deinit(mc_token_model *m);

/* Makes room to remember the pieces of a text of text_len bytes. errors  MICA_ENOMEM */
mica_status mc_token_model_begin(const mc_token_model *m, mc_token_scratch *s, size_t text_len);

/* Adds the int32 ids of a piece to ids. errors  MICA_ENOMEM */
mica_status mc_token_model_encode(const mc_token_model *m, const mc_vocab *v, mc_str piece,
                                  mc_token_scratch *s, mc_buffer *ids);
void mc_token_scratch_deinit(mc_token_scratch *s);

#endif
