/* What OpenAI's endpoints for answers share: how numbers of tokens, ends and log-probabilities are
 * written. Threads: any. */
#ifndef SERVE_OPENAI_OPENAI_H
#define SERVE_OPENAI_OPENAI_H

#include "serve/common/put.h"
#include "serve/jobs/completion.h"

/* "stop" or "length"; NULL for MICA_FINISH_NONE. */
const char *mc_openai_finish(mica_finish finish);

/* "usage": of all that has ended. */
void mc_openai_put_usage(mc_put *put, const mc_completion *job);

/* The beginning of an answer or of an event: id, object, created, model. */
void mc_openai_put_head(mc_put *put, const char *id, const char *object, int64_t created,
                        const char *model);

/* The rest of a failed stream: the failure as an event. */
void mc_openai_stream_failure(mc_completion *job, mc_buffer *scratch);

/* The last events of a stream: with `usage` one of the numbers of tokens. */
void mc_openai_end_stream(mc_completion *job, mc_buffer *scratch, bool usage, const char *id,
                          const char *object, int64_t created);

/* "token", "logprob", "bytes" of a token, as chats have them. scratch is overwritten. */
void mc_openai_put_token(mc_put *put, const mica_tokenizer *tok, int32_t id, double logprob,
                         mc_buffer *scratch);
/* A token with those that might have come in its place, as an object. */
void mc_openai_put_logprob(mc_put *put, const mica_tokenizer *tok, const mica_token *token,
                           mc_buffer *scratch);

/* Whether "metadata" is what OpenAI's API allows. false: *failure says why */
bool mc_openai_check_metadata(mc_json metadata, mc_failure *failure);

/* The argument `limit` of a list's query, 1 to max; NULL leaves it as it is. false: *failure says
 * why. */
bool mc_openai_read_limit(const char *text, size_t max, size_t *limit, mc_failure *failure);

#endif
