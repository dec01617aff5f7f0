#include "serve/openai/response.h"

#include "base/alloc.h"
#include "serve/jobs/state.h"
#include "serve/openai/openai.h"
#include "serve/openai/response_items.h"
#include "text/space.h"

#include <stdio.h>
#include <time.h>

static mc_response *response_of(mc_completion *job) {
    return (mc_response *)(void *)job;
}

/* ---- objects ---- */

static void put_usage(mc_put *put, const mc_response *r) {
    const mc_completion *job = &r->job;
    mc_put_open(put, "usage", '{');
    mc_put_int(put, "input_tokens", job->prompt_tokens);
    mc_put_open(put, "input_tokens_details", '{');
    mc_put_int(put, "cached_tokens", job->cached_tokens);
    mc_put_int(put, "cache_write_tokens", 0);
    mc_put_close(put, '}');
    mc_put_int(put, "output_tokens", job->answer_tokens);
    mc_put_open(put, "output_tokens_details", '{');
    mc_put_int(put, "reasoning_tokens", r->job.thought_tokens);
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
    if (!begun && !failed && !cut) mc_put_int(put, "completed_at", (int64_t)time(NULL));
    mc_put_members(put, &r->echo);
    mc_put_open(put, "output", '[');
    if (!begun && !failed) mc_put_members(put, &r->output.items);
    mc_put_close(put, ']');
    if (begun)
        mc_put_null(put, "usage");
    else
        put_usage(put, r);
    mc_put_close(put, '}');
}

/* ---- events ---- */

static bool send_response(mc_response *r, const char *type, const char *status) {
    mc_put put = mc_response_event(&r->output, type);
    put_response(&put, "response", r, status);
    return mc_response_send(&r->output, type, &put);
}

void mc_response_begin(mc_response *r) {
    r->output.stream = r->job.http;
    send_response(r, "response.created", "in_progress");
    send_response(r, "response.in_progress", "in_progress");
}

/* ---- parts of the answer ---- */

/* Why a part could not be added. */
static mica_status lost(const mc_response *r) {
    return r->stream ? mc_fail(MICA_ECANCELLED, "the client is gone") : mc_fail_nomem("an answer");
}

static mica_status take_piece(void *user, const mc_piece *piece) {
    mc_response *r = user;
    mc_response_output *output = &r->output;
    bool done = false;
    if (piece->kind != MC_PIECE_TEXT) mc_buffer_clear(&r->pending);
    r->gap = piece->kind != MC_PIECE_TEXT;
    switch (piece->kind) {
    case MC_PIECE_TEXT:
        done = mc_response_output_add(output, MC_OUTPUT_MESSAGE, piece->text, &r->pending);
        break;
    case MC_PIECE_THOUGHT:
        done = mc_response_output_add(output, r->summary ? MC_OUTPUT_SUMMARY : MC_OUTPUT_REASONING,
                                      piece->text, &r->pending);
        break;
    case MC_PIECE_CALL: /* of a splitter that does not stream them */
        break;
    case MC_PIECE_CALL_BEGIN:
        done = mc_response_output_begin_call(output, piece->name);
        break;
    case MC_PIECE_CALL_TEXT:
        done = mc_response_output_more(output, piece->text);
        break;
    case MC_PIECE_CALL_END:
        done = mc_response_output_end(output, piece->broken);
        break;
    }
    return done ? MICA_OK : lost(r);
}

mica_status mc_response_split(mc_response *r) {
    MC_TRY(mc_answer_form_split(&r->job.form, take_piece, r, &r->splitter));
    mc_splitter_stream_calls(r->splitter); /* broken calls are the same, whole */
    return MICA_OK;
}

/* ---- its end ---- */

static const char *status_of(const mc_response *r) {
    if (r->job.failure.status) return "failed";
    return r->finish == MICA_FINISH_LENGTH ? "incomplete" : "completed";
}

/* Adds the output to the conversation, as if the client had sent it back. */
static bool add_output(mc_response *r) {
    mc_json_doc *doc = NULL;
    mc_buffer items = {0};
    mc_put put = mc_put_into(&items);
    mc_put_open(&put, NULL, '[');
    mc_put_members(&put, &r->output.items);
    mc_put_close(&put, ']');
    mica_status status = put.failed ? mc_fail_nomem("the output")
                                    : mc_json_parse(items.data, items.len, "the output", &doc);
    bool done = status == MICA_OK ? mc_response_items_read(mc_json_root(doc), &r->output.seal,
                                                           &r->messages, &r->job.failure)
                                  : mc_failure_of(&r->job.failure, status, "store");
    mc_json_close(&doc);
    mc_buffer_deinit(&items);
    return done;
}

/* Remembers the response, which is in `json`. */
static void store(mc_response *r, const mc_buffer *json) {
    mc_exchange *http = r->job.http;
    mc_buffer copy = {0};
    if (!add_output(r)) return;
    bool done = mc_buffer_add(&copy, json->data, json->len) &&
                mc_response_store_add(&http->server->responses, http->key, r->id, &copy, &r->input,
                                      &r->messages);
    mc_buffer_deinit(&copy);
    if (!done)
        mc_failure_set(&r->job.failure, 503, "out_of_memory", "store",
                       "the response cannot be stored");
}

/* Ends the output: an answer without a word is an empty message. */
static void end_output(mc_response *r) {
    mc_response_output *output = &r->output;
    bool none = !output->count && output->open == MC_OUTPUT_NONE;
    if (output->open == MC_OUTPUT_MESSAGE || none)
        mc_completion_note(&r->job, take_piece(r, &(mc_piece){.kind = MC_PIECE_TEXT}));
    if (!mc_response_output_end(output, r->finish == MICA_FINISH_LENGTH))
        mc_completion_note(&r->job, lost(r));
}

/* Ends that leave no answer have failed. */
static void check_end(mc_response *r) {
    mc_failure *failure = &r->job.failure;
    if (!failure->status && r->finish != MICA_FINISH_STOP && r->finish != MICA_FINISH_LENGTH)
        mc_failure_set(failure, 499, "cancelled", NULL, "the request was cancelled");
    if (!failure->status) end_output(r);
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
    char type[40];
    snprintf(type, sizeof type, "response.%s", status);
    send_response(r, type, status);
    mc_exchange_end(r->job.http);
}

static void send_whole(mc_response *r) {
    check_end(r);
    if (!r->job.failure.status) write_whole(r, &r->job.http->out);
    mc_completion_reply(&r->job, true);
}

/* ---- ops ---- */

/* The log-probability of a token goes with the text that the token is of, or begins to be of. */
static mica_status add_logprob(mc_response *r, const mica_token *token) {
    bool blank = mc_space_at_start(token->text, token->len) == token->len;
    if (!r->logprobs || token->id < 0 || (r->gap && token->len && blank)) return MICA_OK;
    mc_put put = mc_put_into(&r->pending);
    put.comma = r->pending.len > 0;
    mc_openai_put_logprob(&put, mica_model_tokenizer(r->job.served->model), token, &r->token);
    return put.failed ? mc_fail_nomem("an answer") : MICA_OK;
}

static mica_status add_token(mc_response *r, const mica_token *token) {
    bool thought = mc_splitter_is_thinking(r->splitter);
    MC_TRY(add_logprob(r, token));
    MC_TRY(mc_splitter_push_token(r->splitter, token->id, token->text, token->len));
    if (!thought && !mc_splitter_is_thinking(r->splitter)) return MICA_OK;
    r->job.thought_tokens++;
    r->gap = true;
    mc_buffer_clear(&r->pending);
    return MICA_OK;
}

static bool on_token(mc_completion *job, size_t choice, const mica_token *token) {
    (void)choice;
    return mc_completion_note(job, add_token(response_of(job), token));
}

static void on_end(mc_completion *job, size_t choice, const mc_choice_end *end) {
    mc_response *r = response_of(job);
    (void)choice;
    r->finish = end->finish;
    if (end->status == MICA_OK) mc_completion_note(job, mc_splitter_end(r->splitter));
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
    mc_buffer_deinit(&r->input);
    mc_buffer_deinit(&r->messages);
    mc_buffer_deinit(&r->pending);
    mc_buffer_deinit(&r->token);
    mc_response_output_deinit(&r->output);
    mc_splitter_close(&r->splitter);
    mc_free(r);
}

const mc_completion_ops mc_response_ops = {on_token, on_end, on_done, on_close};
