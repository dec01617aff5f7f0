/* Texts and pairs of texts as the ids that embedders and cross-encoders read. */
#ifndef TASK_ENCODE_TEXT_H
#define TASK_ENCODE_TEXT_H

#include "base/str.h"
#include "model/lm.h"

#include <mica/tokenizer.h>

/* How the texts of an embedder are read. */
typedef struct mc_text_reader {
    const mica_tokenizer *tok;
    const mc_lm *lm;
    mc_str prompt; /* put before texts. Borrowed */
    size_t skip;   /* its tokens, if they are not pooled */
    size_t max;    /* tokens of a text, special ones included */
    bool whole;    /* longer texts are refused: others are cut */
} mc_text_reader;

/* prompt_name: one of the model's; without a ptr its default, "" none (mc_sentence_prompt).
 * errors  MICA_EINVAL no such prompt; those of mc_sentence_check and mica_tokenizer_encode */
mica_status mc_text_reader_init(const mica_tokenizer *tok, const mc_lm *lm, mc_str prompt_name,
                                mc_text_reader *reader);

/* Puts another text before texts, which the reader borrows.
 * errors  those of mica_tokenizer_encode */
mica_status mc_text_reader_set_prompt(mc_text_reader *reader, mc_str prompt);

/* A text's ids, with the prompt before it. ids: freed with mica_free.
 * skip: the first tokens, which are not pooled.
 * errors  those of mica_tokenizer_encode; MICA_ECONTEXT longer than `max`, and `whole` is set */
mica_status mc_encode_ids(const mc_text_reader *reader, mc_str text, int32_t **ids, size_t *n,
                          size_t *skip);

/* The most tokens of a text or a pair, special ones included. */
size_t mc_encode_max_tokens(const mica_tokenizer *tok, const mc_lm *lm);

/* Two texts, without special tokens, as a pair's ids and types, freed with mica_free, cut to `max`
 * tokens; the longer one is cut first.
 * errors  those of mica_tokenizer_encode_pair */
mica_status mc_encode_pair(const mica_tokenizer *tok, const int32_t *a, size_t n_a,
                           const int32_t *b, size_t n_b, size_t max, int32_t **ids, int32_t **types,
                           size_t *n);

#endif
