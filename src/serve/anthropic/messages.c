/* /v1/messages: answers to conversations in Anthropic's form. */
#include "serve/anthropic/anthropic.h"
#include "serve/anthropic/blocks.h"
#include "serve/common/chance.h"
#include "serve/common/generation.h"
#include "serve/jobs/state.h"

#include "base/alloc.h"
#include "session/stop_text.h"

#include <float.h>
#include <string.h>

typedef struct message_values {
    mc_anthropic_prompt prompt; /* first: its table has no offset of its own */
    int64_t max_tokens, top_k;
    double temperature, top_p;
    mc_json stops;
    bool stream;
} message_values;

#define AT(member) offsetof(message_values, member)

const mc_field mc_anthropic_message_fields[MC_ANTHROPIC_MESSAGE_FIELDS] = {
    MC_FIELD_AT(INT, "max_tokens", AT(max_tokens), .required = true, .min = 1, .max = INT32_MAX,
                .help = "limit of the answer's tokens; the context is another one"),
    MC_FIELD_AT(JSON, "stop_sequences", AT(stops), .types = MC_FIELD_IS_ARRAY,
                .help = "texts that end the answer, which are not part of it; they do not cut a "
                        "document or a call that is asked for"),
    MC_FIELD_TEMPERATURE("temperature", AT(temperature), 1, 1),
    MC_FIELD_TOP_P("top_p", AT(top_p), 1),
    MC_FIELD_AT(INT, "top_k", AT(top_k), .max = 1e9, .help = "the likeliest tokens; 0: all"),
    MC_FIELD_AT(BOOL, "stream", AT(stream),
                .help = "send the answer piece by piece, as server-sent events"),
    MC_FIELD(NOTED, "metadata", .help = "names the client's user, of whom nothing is kept"),
    MC_FIELD(ONLY, "service_tier", .choices = "\"auto\" \"standard_only\""),
    MC_FIELD(REFUSED, "container", .help = "no code is run"),
    MC_FIELD(REFUSED, "diagnostics", .help = "requests are not kept"),
    MC_FIELD(REFUSED, "inference_geo", .help = "mica runs where it is"),
    MC_FIELD(ONLY, "fallbacks", .choices = "[]"),
    MC_FIELD(REFUSED, "workspace_id", .help = "there are no workspaces"),
    MC_FIELD(REFUSED, "fallback_credit_token", .help = "nothing is billed"),
};

/* ---- the job ---- */

typedef struct message_job {
    mc_completion job;
    bool stream;
    int64_t max_tokens;
    char id[MC_NAME_BYTES];
    mc_stop_text stops;
    const char *stop; /* the stop sequence that came; NULL: none has */
    mica_finish finish;
    mc_splitter *splitter; /* into the blocks */
    bool called;           /* a tool */
    bool broken;           /* a call that is not complete */
    mc_anthropic_blocks blocks;
} message_job;

static message_job *message_of(mc_completion *job) {
    return (message_job *)(void *)job;
}

/* Why the answer ended. */
static const char *stop_reason(const message_job *message) {
    if (message->stop) return "stop_sequence";
    if (message->finish != MICA_FINISH_LENGTH)
        return message->called && !message->broken ? "tool_use" : "end_turn";
    return message->job.answer_tokens >= message->max_tokens ? "max_tokens"
                                                             : "model_context_window_exceeded";
}

/* Tokens of the prompt that were in the caches are not among input_tokens. */
static void put_usage(mc_put *put, int64_t prompt, int64_t cached, int64_t answer) {
    mc_put_open(put, "usage", '{');
    mc_put_int(put, "input_tokens", prompt - cached);
    mc_put_int(put, "cache_creation_input_tokens", 0);
    mc_put_int(put, "cache_read_input_tokens", cached);
    mc_put_int(put, "output_tokens", answer);
    static const char *const none[] = {"cache_creation", "inference_geo", "output_tokens_details",
                                       "server_tool_use"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        mc_put_null(put, none[i]);
    mc_put_text(put, "service_tier", "standard");
    mc_put_close(put, '}');
}

/* Why the answer ended; reason NULL: it has not. */
static void put_stop(mc_put *put, const char *reason, const char *sequence) {
    mc_put_text(put, "stop_reason", reason);
    mc_put_text(put, "stop_sequence", sequence);
    mc_put_null(put, "stop_details");
    mc_put_null(put, "container");
}

/* The beginning of a message, up to its content. */
static void put_head(mc_put *put, const message_job *message) {
    mc_put_text(put, "id", message->id);
    mc_put_text(put, "type", "message");
    mc_put_text(put, "role", "assistant");
    mc_put_text(put, "model", mc_models_name(message->job.http));
    mc_put_open(put, "content", '[');
}

/* ---- streamed ---- */

/* What the caches have of the prompt is known only later: message_delta tells. */
static void begin_stream(message_job *message) {
    mc_exchange *http = message->job.http;
    mc_buffer *event = &message->blocks.event;
    mc_put put = mc_anthropic_event(event, "message_start");
    mc_put_open(&put, "message", '{');
    put_head(&put, message);
    mc_put_close(&put, ']');
    put_stop(&put, NULL, NULL);
    put_usage(&put, (int64_t)message->job.prompts[0].n, 0, 0);
    mc_put_close(&put, '}');
    mc_anthropic_send(http, "message_start", &put);
    put = mc_anthropic_event(event, "ping");
    mc_anthropic_send(http, "ping", &put);
}

static void send_failure(message_job *message) {
    mc_buffer *event = &message->blocks.event;
    mc_buffer_clear(event);
    mc_put put = mc_put_into(event);
    mc_failure_put(&message->job.failure, MC_API_ANTHROPIC, message->job.http->request_id, &put);
    if (!put.failed) mc_exchange_event(message->job.http, "error", event->data, event->len);
}

static void end_stream(message_job *message) {
    mc_completion *job = &message->job;
    if (!mc_anthropic_blocks_end(&message->blocks) || job->failure.status) {
        if (job->failure.status) send_failure(message);
        mc_exchange_end(job->http);
        return;
    }
    mc_put put = mc_anthropic_event(&message->blocks.event, "message_delta");
    mc_put_open(&put, "delta", '{');
    put_stop(&put, stop_reason(message), message->stop);
    mc_put_close(&put, '}');
    put_usage(&put, job->prompt_tokens, job->cached_tokens, job->answer_tokens);
    mc_anthropic_send(job->http, "message_delta", &put);
    put = mc_anthropic_event(&message->blocks.event, "message_stop");
    mc_anthropic_send(job->http, "message_stop", &put);
    mc_exchange_end(job->http);
}

/* ---- whole ---- */

static void send_whole(message_job *message) {
    mc_completion *job = &message->job;
    const mc_buffer *whole = &message->blocks.whole;
    bool done = mc_anthropic_blocks_end(&message->blocks);
    mc_put put = mc_put_into(&job->http->out);
    mc_put_open(&put, NULL, '{');
    put_head(&put, message);
    if (whole->len && !put.failed) put.failed = !mc_buffer_add(put.out, whole->data, whole->len);
    mc_put_close(&put, ']');
    put_stop(&put, stop_reason(message), message->stop);
    put_usage(&put, job->prompt_tokens, job->cached_tokens, job->answer_tokens);
    mc_put_close(&put, '}');
    mc_completion_reply(job, done && !put.failed);
}

/* ---- its ops ---- */

/* A part of the answer, by the splitter. */
static mica_status take_piece(void *user, const mc_piece *piece) {
    message_job *message = user;
    mc_anthropic_blocks *blocks = &message->blocks;
    bool done = false;
    switch (piece->kind) {
    case MC_PIECE_TEXT:
        done = mc_anthropic_blocks_add(blocks, MC_BLOCK_TEXT, piece->text);
        break;
    case MC_PIECE_THOUGHT:
        done = mc_anthropic_blocks_add(blocks, MC_BLOCK_THINKING, piece->text);
        break;
    case MC_PIECE_CALL: /* of a splitter that does not stream them */
        break;
    case MC_PIECE_CALL_BEGIN:
        message->called = true;
        done = mc_anthropic_blocks_begin_call(blocks, piece->name);
        break;
    case MC_PIECE_CALL_TEXT:
        done = mc_anthropic_blocks_add(blocks, MC_BLOCK_TOOL_USE, piece->text);
        break;
    case MC_PIECE_CALL_END:
        message->broken = message->broken || piece->broken;
        done = mc_anthropic_blocks_end(blocks);
        break;
    }
    if (done) return MICA_OK;
    return message->stream ? mc_fail(MICA_ECANCELLED, "the stream was cut off")
                           : mc_fail_nomem("an answer");
}

/* Takes some of the answer's text, of a token; id -1: of none. No stop sequence goes on behind a
 * mark. false: it ends here, by a stop sequence or because nobody can take it. */
static bool take_text(message_job *message, int32_t id, mc_str piece, mc_stop_mode mode) {
    mc_completion *job = &message->job;
    mc_str text = {NULL, 0};
    bool found = false, special, mark = mc_answer_mark_of(&job->form.format, id, &special).len > 0;
    if (mc_answer_form_is_forced(&job->form) && mode == MC_STOPS_ON) mode = MC_STOPS_IGNORED;
    mica_status status = mc_stop_text_push(&message->stops, piece.ptr, piece.len, mode, &text.ptr,
                                           &text.len, &found);
    if (status == MICA_OK && !found && mark)
        status = mc_stop_text_break(&message->stops, &text.ptr, &text.len);
    if (status == MICA_OK)
        status = mc_splitter_push_token(message->splitter, found ? -1 : id, text.ptr, text.len);
    bool done = mc_completion_note(job, status);
    if (found) message->stop = mc_stop_text_found(&message->stops);
    job->stopped = found;
    return done && !found;
}

static bool on_token(mc_completion *job, size_t choice, const mica_token *token) {
    (void)choice;
    return take_text(message_of(job), token->id, (mc_str){token->text, token->len}, MC_STOPS_ON);
}

static void on_end(mc_completion *job, size_t choice, const mc_choice_end *end) {
    message_job *message = message_of(job);
    (void)choice;
    message->finish = end->finish;
    if (!message->stop && !take_text(message, -1, MC_STR(""), MC_STOPS_LAST)) return;
    mc_completion_note(job, mc_splitter_end(message->splitter));
}

static void on_done(mc_completion *job) {
    message_job *message = message_of(job);
    if (message->stream)
        end_stream(message);
    else
        send_whole(message);
}

static void on_close(mc_completion *job) {
    message_job *message = message_of(job);
    mc_anthropic_blocks_deinit(&message->blocks);
    mc_stop_text_deinit(&message->stops);
    mc_splitter_close(&message->splitter);
    mc_free(message);
}

static const mc_completion_ops ops = {on_token, on_end, on_done, on_close};

/* ---- the request ---- */

enum { MAX_STOPS = 64 };

/* Answers end at stop sequences here rather than in the engine, because an answer tells which. */
static bool read_stops(mc_json array, mc_stop_text *stops, mc_failure *failure) {
    const char *texts[MAX_STOPS];
    mc_arena arena = {0};
    size_t n = 0;
    mica_status status = MICA_OK;
    bool done = true;
    for (mc_json_iter it = mc_json_begin(array); done && mc_json_next(&it); n++) {
        mc_str text;
        if (n == MAX_STOPS || !mc_json_get_str(it.value, &text) || !text.len ||
            memchr(text.ptr, '\0', text.len)) {
            done = mc_failure_set(failure, 400, "invalid_value", "stop_sequences",
                                  "stop_sequences[%zu]: want strings, neither empty nor with NUL "
                                  "characters, %d at most",
                                  n, MAX_STOPS);
        } else {
            texts[n] = mc_arena_strndup(&arena, text.ptr, text.len);
            if (!texts[n]) status = mc_fail_nomem("a request");
        }
    }
    if (done && status == MICA_OK) status = mc_stop_text_init(stops, texts, n);
    mc_arena_deinit(&arena);
    if (status != MICA_OK) return mc_failure_of(failure, status, "stop_sequences");
    return done;
}

/* Frees a job that was not started. */
static void discard(message_job *message) {
    if (message->job.prompts) mica_free(message->job.prompts[0].ids);
    mc_free(message->job.prompts);
    mc_answer_form_deinit(&message->job.form);
    on_close(&message->job);
}

/* Renders the conversation into the job, and makes what splits and ends its answer. */
static bool prepare(message_job *message, const message_values *values) {
    mc_completion *job = &message->job;
    mc_failure *failure = &job->http->failure;
    mc_chat_prompt chat = {.field = NULL};
    if (values->prompt.thinking_budget >= values->max_tokens)
        return mc_failure_set(failure, 400, "invalid_value", "thinking.budget_tokens",
                              "thinking.budget_tokens: want less than max_tokens");
    bool done = mc_anthropic_read(&values->prompt, &job->form, &chat, failure) &&
                mc_chat_prompt_prepare(job, &chat) &&
                read_stops(values->stops, &message->stops, failure);
    mc_buffer_deinit(&chat.messages);
    if (!done) return false;
    mica_status status = mc_answer_form_split(&job->form, take_piece, message, &message->splitter);
    if (status == MICA_OK) mc_splitter_stream_calls(message->splitter);
    return status == MICA_OK || mc_failure_of(failure, status, NULL);
}

/* NULL: http->failure says why. */
static message_job *new_job(mc_exchange *http, const message_values *values, mc_served *served) {
    message_job *message = mc_calloc(1, sizeof *message);
    if (!message) {
        mc_failure_of(&http->failure, mc_fail_nomem("a request"), NULL);
        return NULL;
    }
    message->job = (mc_completion){.ops = &ops,
                                   .http = http,
                                   .served = served,
                                   .prompts = mc_calloc(1, sizeof(mc_completion_prompt)),
                                   .count = 1,
                                   .choices = 1,
                                   .asked_tokens = values->max_tokens,
                                   .asked_field = "max_tokens",
                                   .comments = values->stream};
    message->stream = values->stream;
    message->max_tokens = values->max_tokens;
    message->blocks.stream = values->stream ? http : NULL;
    mc_chance_name("msg", message->id);
    bool done = message->job.prompts
                    ? prepare(message, values)
                    : mc_failure_of(&http->failure, mc_fail_nomem("a request"), NULL);
    if (done) return message;
    discard(message);
    return NULL;
}

bool mc_anthropic_messages(mc_exchange *http) {
    message_values values;
    if (!mc_exchange_read(http, &values)) return false;
    mc_served *served = mc_models_take(&http->server->models, http, values.prompt.model);
    message_job *message = served ? new_job(http, &values, served) : NULL;
    if (!message) return false;
    const mica_generate_options options = {
        .struct_bytes = sizeof options,
        .max_tokens = values.max_tokens,
        .temperature = (float)values.temperature,
        .top_k = (int)values.top_k,
        .top_p = values.top_p > 0 ? (float)values.top_p : FLT_MIN, /* 0 stands for all there */
        .seed = mc_chance(),
    };
    if (message->stream) begin_stream(message); /* it waits until the stream begins */
    bool done = mc_completion_start(&message->job, &options);
    if (done && values.stream) mc_completion_stream(&message->job, NULL);
    return done;
}
