#include "serve/openai/openai.h"

#include "base/utf8.h"
#include "serve/common/token_text.h"

#include <stdlib.h>
#include <string.h>

const char *mc_openai_finish(mica_finish finish) {
    bool done = finish == MICA_FINISH_STOP || finish == MICA_FINISH_LENGTH;
    return done ? mica_finish_name(finish) : NULL;
}

void mc_openai_put_usage(mc_put *put, const mc_completion *job) {
    mc_put_open(put, "usage", '{');
    mc_put_int(put, "prompt_tokens", job->prompt_tokens);
    mc_put_int(put, "completion_tokens", job->answer_tokens);
    mc_put_int(put, "total_tokens", job->prompt_tokens + job->answer_tokens);
    mc_put_open(put, "prompt_tokens_details", '{');
    mc_put_int(put, "cached_tokens", job->cached_tokens);
    mc_put_close(put, '}');
    mc_put_open(put, "completion_tokens_details", '{');
    mc_put_int(put, "reasoning_tokens", job->thought_tokens);
    mc_put_close(put, '}');
    mc_put_close(put, '}');
}

void mc_openai_put_head(mc_put *put, const char *id, const char *object, int64_t created,
                        const char *model) {
    mc_put_text(put, "id", id);
    mc_put_text(put, "object", object);
    mc_put_int(put, "created", created);
    mc_put_text(put, "model", model);
}

void mc_openai_stream_failure(mc_completion *job, mc_buffer *scratch) {
    mc_buffer_clear(scratch);
    mc_put put = mc_put_into(scratch);
    mc_failure_put(&job->failure, MC_API_OPENAI, job->http->request_id, &put);
    if (!put.failed) mc_exchange_event(job->http, NULL, scratch->data, scratch->len);
}

void mc_openai_end_stream(mc_completion *job, mc_buffer *scratch, bool usage, const char *id,
                          const char *object, int64_t created) {
    if (job->failure.status) {
        mc_openai_stream_failure(job, scratch);
    } else if (usage) {
        mc_buffer_clear(scratch);
        mc_put put = mc_put_into(scratch);
        mc_put_open(&put, NULL, '{');
        mc_openai_put_head(&put, id, object, created, mc_models_name(job->http));
        mc_put_open(&put, "choices", '[');
        mc_put_close(&put, ']');
        mc_openai_put_usage(&put, job);
        mc_put_close(&put, '}');
        if (!put.failed) mc_exchange_event(job->http, NULL, scratch->data, scratch->len);
    }
    mc_exchange_event(job->http, NULL, "[DONE]", 6);
    mc_exchange_end(job->http);
}

void mc_openai_put_token(mc_put *put, const mica_tokenizer *tok, int32_t id, double logprob,
                         mc_buffer *scratch) {
    if (!mc_token_text(tok, id, scratch)) put->failed = true;
    mc_put_str(put, "token", (mc_str){scratch->data, scratch->len});
    mc_put_real(put, "logprob", logprob);
    mc_put_open(put, "bytes", '[');
    for (size_t i = 0; i < scratch->len; i++)
        mc_put_int(put, NULL, (unsigned char)scratch->data[i]);
    mc_put_close(put, ']');
}

void mc_openai_put_logprob(mc_put *put, const mica_tokenizer *tok, const mica_token *token,
                           mc_buffer *scratch) {
    mc_put_open(put, NULL, '{');
    mc_openai_put_token(put, tok, token->id, (double)token->logprob, scratch);
    mc_put_open(put, "top_logprobs", '[');
    for (size_t i = 0; i < token->alternative_count; i++) {
        const mica_alternative *other = &token->alternatives[i];
        mc_put_open(put, NULL, '{');
        mc_openai_put_token(put, tok, other->id, (double)other->logprob, scratch);
        mc_put_close(put, '}');
    }
    mc_put_close(put, ']');
    mc_put_close(put, '}');
}

bool mc_openai_read_limit(const char *text, size_t max, size_t *limit, mc_failure *failure) {
    char *end;
    if (!text) return true;
    long value = strtol(text, &end, 10);
    if (*text == '\0' || *end || value < 1 || (size_t)value > max)
        return mc_failure_set(failure, 400, "invalid_value", "limit", "limit: want 1 to %zu", max);
    *limit = (size_t)value;
    return true;
}

bool mc_openai_check_metadata(mc_json metadata, mc_failure *failure) {
    size_t n = 0;
    mc_str value;
    for (mc_json_iter it = mc_json_begin(metadata); mc_json_next(&it); n++)
        if (n >= 16 || it.key.len > 64 || !mc_json_get_str(it.value, &value) || value.len > 512)
            return mc_failure_set(failure, 400, "invalid_value", "metadata",
                                  "metadata: want up to 16 texts of up to 512 bytes, by names of "
                                  "up to 64");
    return true;
}
