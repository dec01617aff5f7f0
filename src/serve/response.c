#include "serve/response.h"

#include "base/alloc.h"
#include "serve/openai.h"
#include "serve/response_items.h"
#include "serve/state.h"

#include <stdio.h>
#include <time.h>

static mc_response *response_of(mc_completion *job) {
    return (mc_response *)(void *)job;
}

/* ---- objects ---- */

/* The answer's text; whole: all of it, else it has just begun. */
static void put_part(mc_put *put, const char *key, const mc_response *r, bool whole) {
    mc_put_open(put, key, '{');
    mc_put_text(put, "type", "output_text");
    mc_put_open(put, "annotations", '[');
    mc_put_close(put, ']');
    mc_put_open(put, "logprobs", '[');
    if (whole) mc_put_members(put, &r->logprob_elements);
    mc_put_close(put, ']');
    mc_put_str(put, "text", whole ? (mc_str){r->text.data, r->text.len} : MC_STR(""));
    mc_put_close(put, '}');
}

/* status: of a message that is there whole; NULL: it has just begun. */
static void put_message(mc_put *put, const char *key, const mc_response *r, const char *status) {
    mc_put_open(put, key, '{');
    mc_put_text(put, "id", r->item);
    mc_put_text(put, "type", "message");
    mc_put_text(put, "status", status ? status : "in_progress");
    mc_put_open(put, "content", '[');
    if (status) put_part(put, NULL, r, true);
    mc_put_close(put, ']');
    mc_put_text(put, "role", "assistant");
    mc_put_close(put, '}');
}

static void put_usage(mc_put *put, const mc_completion *job) {
    mc_put_open(put, "usage", '{');
    mc_put_int(put, "input_tokens", job->prompt_tokens);
    mc_put_open(put, "input_tokens_details", '{');
    mc_put_int(put, "cached_tokens", job->cached_tokens);
    mc_put_int(put, "cache_write_tokens", 0);
    mc_put_close(put, '}');
    mc_put_int(put, "output_tokens", job->answer_tokens);
    mc_put_open(put, "output_tokens_details", '{');
    mc_put_int(put, "reasoning_tokens", 0);
    mc_put_close(put, '}');
    mc_put_int(put, "total_tokens", job->prompt_tokens + job->answer_tokens);
    mc_put_close(put, '}');
}

static void put_error(mc_put *put, const mc_failure *failure) {
    mc_put_open(put, "error", '{');
    mc_put_text(put, "code", "server_error");
    mc_put_text(put, "message", failure->message);
    mc_put_close(put, '}');
}

/* status: "in_progress", or how it ended. */
static void put_response(mc_put *put, const char *key, const mc_response *r, const char *status) {
    bool begun = status[0] == 'i' && status[2] == '_', failed = status[0] == 'f';
    bool cut = !begun && status[0] == 'i';
    mc_put_open(put, key, '{');
    mc_put_text(put, "id", r->id);
    mc_put_text(put, "object", "response");
    mc_put_int(put, "created_at", r->created);
    mc_put_text(put, "status", status);
    mc_put_bool(put, "background", false);
    if (failed)
        put_error(put, &r->job.failure);
    else
        mc_put_null(put, "error");
    mc_put_json(put, "incomplete_details", cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    if (!begun && !failed) mc_put_int(put, "completed_at", (int64_t)time(NULL));
    mc_put_members(put, &r->echo);
    mc_put_open(put, "output", '[');
    if (!begun && !failed) put_message(put, NULL, r, status);
    mc_put_close(put, ']');
    if (begun)
        mc_put_null(put, "usage");
    else
        put_usage(put, &r->job);
    mc_put_close(put, '}');
}

static void put_logprob(mc_put *put, mc_response *r, const mica_token *token) {
    const mica_tokenizer *tok = mica_model_tokenizer(r->job.served->model);
    mc_put_open(put, NULL, '{');
    mc_openai_put_token(put, tok, token->id, (double)token->logprob, &r->token);
    mc_put_open(put, "top_logprobs", '[');
    for (size_t i = 0; i < token->alternative_count; i++) {
        const mica_alternative *other = &token->alternatives[i];
        mc_put_open(put, NULL, '{');
        mc_openai_put_token(put, tok, other->id, (double)other->logprob, &r->token);
        mc_put_close(put, '}');
    }
    mc_put_close(put, ']');
    mc_put_close(put, '}');
}

/* ---- events ---- */

static mc_put begin_event(mc_response *r, const char *type) {
    mc_buffer_clear(&r->scratch);
    mc_put put = mc_put_into(&r->scratch);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "type", type);
    mc_put_int(&put, "sequence_number", r->sequence++);
    return put;
}

/* The place of the message, and of its part. */
static void put_place(mc_put *put, const mc_response *r, bool part) {
    if (part) mc_put_text(put, "item_id", r->item);
    mc_put_int(put, "output_index", 0);
    if (part) mc_put_int(put, "content_index", 0);
}

static bool send_event(mc_response *r, mc_put *put, const char *type) {
    mc_put_close(put, '}');
    return !put->failed && mc_exchange_event(r->job.http, type, r->scratch.data, r->scratch.len);
}

static bool send_response(mc_response *r, const char *type, const char *status) {
    mc_put put = begin_event(r, type);
    put_response(&put, "response", r, status);
    return send_event(r, &put, type);
}

static bool send_message(mc_response *r, const char *type, const char *status) {
    mc_put put = begin_event(r, type);
    put_place(&put, r, false);
    put_message(&put, "item", r, status);
    return send_event(r, &put, type);
}

static bool send_part(mc_response *r, const char *type, bool whole) {
    mc_put put = begin_event(r, type);
    put_place(&put, r, true);
    put_part(&put, "part", r, whole);
    return send_event(r, &put, type);
}

static bool send_delta(mc_response *r, mc_str text, const mica_token *logprob) {
    static const char type[] = "response.output_text.delta";
    mc_put put = begin_event(r, type);
    put_place(&put, r, true);
    mc_put_str(&put, "delta", text);
    mc_put_open(&put, "logprobs", '[');
    if (logprob) put_logprob(&put, r, logprob);
    mc_put_close(&put, ']');
    return send_event(r, &put, type);
}

static bool send_text(mc_response *r) {
    static const char type[] = "response.output_text.done";
    mc_put put = begin_event(r, type);
    put_place(&put, r, true);
    mc_put_str(&put, "text", (mc_str){r->text.data, r->text.len});
    mc_put_open(&put, "logprobs", '[');
    mc_put_members(&put, &r->logprob_elements);
    mc_put_close(&put, ']');
    return send_event(r, &put, type);
}

void mc_response_begin(mc_response *r) {
    send_response(r, "response.created", "in_progress");
    send_response(r, "response.in_progress", "in_progress");
    send_message(r, "response.output_item.added", NULL);
    send_part(r, "response.content_part.added", false);
}

/* ---- its end ---- */

static const char *status_of(const mc_response *r) {
    if (r->job.failure.status) return "failed";
    return r->finish == MICA_FINISH_LENGTH ? "incomplete" : "completed";
}

/* Remembers the response, which is in `json`. */
static void store(mc_response *r, const mc_buffer *json) {
    mc_buffer copy = {0};
    bool done =
        mc_buffer_add(&copy, json->data, json->len) &&
        mc_response_items_add(&r->messages, "assistant", (mc_str){r->text.data, r->text.len}) &&
        mc_response_store_add(&r->job.http->server->responses, r->id, &copy, &r->messages);
    mc_buffer_deinit(&copy);
    if (!done)
        mc_failure_set(&r->job.failure, 503, "out_of_memory", "store",
                       "the response cannot be stored");
}

/* Ends without an answer that could be stored. */
static void check_end(mc_response *r) {
    mc_failure *failure = &r->job.failure;
    if (!failure->status && r->finish != MICA_FINISH_STOP && r->finish != MICA_FINISH_LENGTH)
        mc_failure_set(failure, 499, "cancelled", NULL, "the request was cancelled");
}

/* Writes the object, and remembers it if that is asked for. false: job.failure says why. */
static bool write_whole(mc_response *r, mc_buffer *json) {
    mc_put put = mc_put_into(json);
    put_response(&put, NULL, r, status_of(r));
    if (put.failed) return mc_failure_of(&r->job.failure, mc_fail_nomem("an answer"), NULL);
    if (r->stores) store(r, json);
    return !r->job.failure.status;
}

static void end_stream(mc_response *r) {
    mc_buffer json = {0};
    check_end(r);
    if (!r->job.failure.status && r->stores) write_whole(r, &json);
    mc_buffer_deinit(&json);
    const char *status = status_of(r);
    if (!r->job.failure.status) {
        send_text(r);
        send_part(r, "response.content_part.done", true);
        send_message(r, "response.output_item.done", status);
    }
    char type[40];
    snprintf(type, sizeof type, "response.%s", status);
    send_response(r, type, status);
    mc_exchange_end(r->job.http);
}

static void send_whole(mc_response *r) {
    mc_exchange *http = r->job.http;
    check_end(r);
    if (!r->job.failure.status) write_whole(r, &http->out);
    http->failure = r->job.failure;
    if (http->failure.status)
        mc_exchange_refuse(http);
    else
        mc_exchange_reply(http, 200, NULL);
}

/* ---- ops ---- */

static bool add_logprob(mc_response *r, const mica_token *token) {
    mc_put put = mc_put_into(&r->logprob_elements);
    put.comma = r->logprob_elements.len > 0;
    put_logprob(&put, r, token);
    return !put.failed;
}

static bool on_token(mc_completion *job, size_t choice, const mica_token *token) {
    mc_response *r = response_of(job);
    const mica_token *logprob = r->logprobs && token->id >= 0 ? token : NULL;
    (void)choice;
    if (!token->len && !logprob) return true;
    if (!mc_buffer_add(&r->text, token->text, token->len) ||
        (logprob && !add_logprob(r, logprob))) {
        if (!job->failure.status) mc_failure_of(&job->failure, mc_fail_nomem("an answer"), NULL);
        return false;
    }
    return !r->stream || send_delta(r, (mc_str){token->text, token->len}, logprob);
}

static void on_end(mc_completion *job, size_t choice, const mc_choice_end *end) {
    (void)choice;
    response_of(job)->finish = end->finish;
}

static void on_done(mc_completion *job) {
    mc_response *r = response_of(job);
    if (r->stream)
        end_stream(r);
    else
        send_whole(r);
}

static void on_close(mc_completion *job) {
    mc_response *r = response_of(job);
    mc_buffer_deinit(&r->echo);
    mc_buffer_deinit(&r->messages);
    mc_buffer_deinit(&r->text);
    mc_buffer_deinit(&r->logprob_elements);
    mc_buffer_deinit(&r->scratch);
    mc_buffer_deinit(&r->token);
    mc_free(r);
}

const mc_completion_ops mc_response_ops = {on_token, on_end, on_done, on_close};
