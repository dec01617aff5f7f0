/* Texts and pairs of texts as the ids that embedders and cross-encoders read. */
#ifndef TASK_ENCODE_TEXT_H
#define TASK_ENCODE_TEXT_H

#include "base/str.h"
#include "model/lm.h"

#include <mica/tokenizer.h>

/* A text's ids, with the prompt of that name before it (mc_sentence_prompt), cut to the model's
 * maximum. ids: freed with mica_free.
 * errors  those of mica_tokenizer_encode; MICA_EINVAL no such prompt */
mica_status mc_encode_ids(const mica_tokenizer *tok, const mc_lm *lm, const char *prompt_name,
                          mc_str text, int32_t **ids, size_t *n, size_t *skip);

/* A pair's ids and types, freed with mica_free, cut to `max` tokens, 0: the model's maximum; the
 * longer one is cut first.
 * errors  those of mica_tokenizer_encode_pair */
mica_status mc_encode_pair(const mica_tokenizer *tok, const mc_lm *lm, mc_str first, mc_str second,
                           size_t max, int32_t **ids, int32_t **types, size_t *n);

#endif
