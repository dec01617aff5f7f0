/* Texts and pairs of texts as the ids that embedders and cross-encoders read. */
#ifndef TASK_ENCODE_TEXT_H
#define TASK_ENCODE_TEXT_H

#include "base/str.h"
#include "model/lm.h"

#include <mica/tokenizer.h>

/* The text before texts, by its name; NULL: the model's default (mc_sentence_prompt).
 * errors  MICA_EINVAL no such prompt; those of mc_sentence_check */
mica_status mc_encode_prompt(const mc_lm *lm, const char *name, mc_str *prompt);

/* A text's ids, with the prompt of that name before it (mc_sentence_prompt), cut to the model's
 * maximum. ids: freed with mica_free.
 * skip: the tokens of a prompt that is not pooled.
 * errors  those of mica_tokenizer_encode and mc_encode_prompt */
mica_status mc_encode_ids(const mica_tokenizer *tok, const mc_lm *lm, const char *prompt_name,
                          mc_str text, int32_t **ids, size_t *n, size_t *skip);

/* The most tokens of a text or a pair, special ones included. */
size_t mc_encode_max_tokens(const mica_tokenizer *tok, const mc_lm *lm);

/* Two texts, without special tokens, as a pair's ids and types, freed with mica_free, cut to `max`
 * tokens; the longer one is cut first.
 * errors  those of mica_tokenizer_encode_pair */
mica_status mc_encode_pair(const mica_tokenizer *tok, const int32_t *a, size_t n_a,
                           const int32_t *b, size_t n_b, size_t max, int32_t **ids, int32_t **types,
                           size_t *n);

#endif
