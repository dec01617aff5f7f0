/* Log-probabilities as OpenAI's completions have them: four lists, which grow token by token.
 * Threads: one at a time. */
#ifndef SERVE_OPENAI_LOGPROBS_H
#define SERVE_OPENAI_LOGPROBS_H

#include "serve/common/put.h"

#include <mica/model.h>

typedef struct mc_logprobs {                      /* zero is empty */
    mc_buffer tokens, values, likeliest, offsets; /* elements of JSON, with commas between them */
    int64_t offset; /* characters of the text before the next token, but the one of `part` */
    char part[4];   /* what that token may complete */
    size_t part_bytes;
    mc_buffer text; /* of the token that is being added */
} mc_logprobs;

/* Adds a token. Its offset counts the characters that begin before it, as the text has them: U+FFFD
 * in place of bytes that are not UTF-8.
 *
 *  logprob       NULL: nothing predicts it.
 *  alternatives  [count] the likeliest tokens in its place, likeliest first. The token itself is
 *                added if it is not among them.
 *  returns       false: no memory */
bool mc_logprobs_add(mc_logprobs *logprobs, const mica_tokenizer *tok, int32_t id,
                     const float *logprob, const mica_alternative *alternatives, size_t count);

/* Adds what another one holds, and begins at its offset. */
bool mc_logprobs_copy(mc_logprobs *logprobs, const mc_logprobs *from);

/* Writes "logprobs": {...}. */
void mc_logprobs_put(const mc_logprobs *logprobs, mc_put *put);

void mc_logprobs_clear(mc_logprobs *logprobs); /* keeps the offset */
void mc_logprobs_deinit(mc_logprobs *logprobs);

#endif
