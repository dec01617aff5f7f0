#include "serve/ollama/answer.h"

#include "serve/common/put_time.h"
#include "serve/jobs/chat_prompt.h"
#include "serve/jobs/fim.h"
#include "serve/jobs/state.h"
#include "serve/ollama/ollama.h"
#include "serve/openai/openai.h"
#include "text/chat/prompt.h"

#include "base/alloc.h"

/* ---- the job ---- */

typedef struct ollama_job {
    mc_completion job;
    bool chat, stream, logprobs;
    mc_buffer line; /* that is being written */
    /* Of the line, or of the whole: what is said, what is thought, elements of tool_calls, elements
     * of logprobs. */
    mc_buffer text, thoughts, calls, numbers;
    mc_splitter *splitter; /* into these */
    mc_buffer token;       /* the text of a token */
    mica_finish finish;
    mica_metrics metrics;
    double seconds;
} ollama_job;

static ollama_job *job_of(mc_completion *job) {
    return (ollama_job *)(void *)job;
}

static mc_str str_of(const mc_buffer *buffer) {
    return (mc_str){buffer->data ? buffer->data : "", buffer->len};
}

/* Begins a line, or the whole, with what there is of an answer. at NULL: nothing. */
static void put_answer(mc_put *put, bool chat, const char *model, const ollama_job *at) {
    static const mc_buffer empty;
    const mc_buffer *text = at ? &at->text : &empty, *thoughts = at ? &at->thoughts : &empty;
    const mc_buffer *calls = at ? &at->calls : &empty;
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "model", model);
    mc_put_time(put, "created_at", -1);
    if (chat) {
        mc_put_open(put, "message", '{');
        mc_put_text(put, "role", "assistant");
    }
    mc_put_str(put, chat ? "content" : "response", str_of(text));
    if (thoughts->len) mc_put_str(put, "thinking", str_of(thoughts));
    if (calls->len) mc_put_list(put, "tool_calls", calls);
    if (chat) mc_put_close(put, '}');
}

static void put_ns(mc_put *put, const char *key, double seconds) {
    mc_put_int(put, key, (int64_t)(seconds * 1e9));
}

/* Why it ended, and the numbers. */
static void put_end(mc_put *put, const ollama_job *at) {
    mc_put_bool(put, "done", true);
    mc_put_text(put, "done_reason", mc_openai_finish(at->finish));
    double load = (double)at->job.http->load_us / 1e6;
    put_ns(put, "total_duration", at->seconds + load);
    put_ns(put, "load_duration", load);
    mc_put_int(put, "prompt_eval_count", at->job.prompt_tokens);
    put_ns(put, "prompt_eval_duration", at->metrics.prefill_seconds);
    mc_put_int(put, "eval_count", at->job.answer_tokens);
    put_ns(put, "eval_duration", at->metrics.decode_seconds);
}

/* ---- streamed ---- */

static mc_put begin_line(ollama_job *at) {
    mc_buffer_clear(&at->line);
    return mc_put_into(&at->line);
}

static bool send_line(ollama_job *at, mc_put *put) {
    return !put->failed && mc_buffer_add_byte(&at->line, '\n') &&
           mc_exchange_write(at->job.http, at->line.data, at->line.len);
}

/* Sends what has come since the last line. */
static bool send_pieces(ollama_job *at) {
    mc_put put = begin_line(at);
    put_answer(&put, at->chat, mc_models_name(at->job.http), at);
    mc_put_bool(&put, "done", false);
    if (at->logprobs && at->numbers.len) mc_put_list(&put, "logprobs", &at->numbers);
    mc_put_close(&put, '}');
    mc_buffer_clear(&at->text);
    mc_buffer_clear(&at->thoughts);
    mc_buffer_clear(&at->calls);
    mc_buffer_clear(&at->numbers);
    return send_line(at, &put);
}

static bool has_pieces(const ollama_job *at) {
    return at->text.len || at->thoughts.len || at->calls.len || at->numbers.len;
}

static void end_stream(ollama_job *at) {
    if (has_pieces(at) && !at->job.failure.status) send_pieces(at);
    mc_put put = begin_line(at);
    if (at->job.failure.status) {
        mc_failure_put(&at->job.failure, MC_API_OLLAMA, NULL, &put);
    } else {
        put_answer(&put, at->chat, mc_models_name(at->job.http), NULL);
        put_end(&put, at);
        mc_put_close(&put, '}');
    }
    send_line(at, &put);
    mc_exchange_end(at->job.http);
}

/* ---- whole ---- */

static void send_whole(ollama_job *at) {
    mc_put put = mc_put_into(&at->job.http->out);
    put_answer(&put, at->chat, mc_models_name(at->job.http), at);
    put_end(&put, at);
    if (at->logprobs) mc_put_list(&put, "logprobs", &at->numbers);
    mc_put_close(&put, '}');
    mc_completion_reply(&at->job, !put.failed);
}

/* ---- its ops ---- */

/* A part of the answer, by the splitter. */
static mica_status take_piece(void *user, const mc_piece *piece) {
    ollama_job *at = user;
    mc_put put = mc_put_into(&at->calls);
    bool done = false;
    switch (piece->kind) {
    case MC_PIECE_TEXT:
        done = mc_buffer_add(&at->text, piece->text.ptr, piece->text.len);
        break;
    case MC_PIECE_THOUGHT:
        done = mc_buffer_add(&at->thoughts, piece->text.ptr, piece->text.len);
        break;
    default: /* calls come whole */
        put.comma = at->calls.len > 0;
        mc_put_open(&put, NULL, '{');
        mc_put_open(&put, "function", '{');
        mc_put_str(&put, "name", piece->name);
        mc_put_raw(&put, "arguments", piece->text);
        mc_put_close(&put, '}');
        mc_put_close(&put, '}');
        done = !put.failed;
        break;
    }
    return done ? MICA_OK : mc_fail_nomem("an answer");
}

static bool on_token(mc_completion *job, size_t choice, const mica_token *token) {
    ollama_job *at = job_of(job);
    (void)choice;
    mica_status status = mc_splitter_push_token(at->splitter, token->id, token->text, token->len);
    if (!mc_completion_note(job, status)) return false;
    if (at->logprobs && token->id >= 0) {
        mc_put put = mc_put_into(&at->numbers);
        put.comma = at->numbers.len > 0;
        mc_openai_put_logprob(&put, mica_model_tokenizer(at->job.served->model), token, &at->token);
        if (put.failed) return mc_completion_note(job, mc_fail_nomem("an answer"));
    }
    return !at->stream || !has_pieces(at) || send_pieces(at);
}

static void on_end(mc_completion *job, size_t choice, const mc_choice_end *end) {
    ollama_job *at = job_of(job);
    (void)choice;
    at->finish = end->finish;
    at->metrics = end->metrics;
    at->seconds = end->total_seconds;
    mc_completion_note(job, mc_splitter_end(at->splitter));
}

static void on_done(mc_completion *job) {
    ollama_job *at = job_of(job);
    if (at->stream)
        end_stream(at);
    else
        send_whole(at);
}

static void on_close(mc_completion *job) {
    ollama_job *at = job_of(job);
    mc_buffer_deinit(&at->line);
    mc_buffer_deinit(&at->text);
    mc_buffer_deinit(&at->thoughts);
    mc_buffer_deinit(&at->calls);
    mc_buffer_deinit(&at->numbers);
    mc_buffer_deinit(&at->token);
    mc_splitter_close(&at->splitter);
    mc_free(at);
}

static const mc_completion_ops ops = {on_token, on_end, on_done, on_close};

/* ---- prompts ---- */

/* What the answer may be, and the effort of thinking. */
static bool read_form(const mc_ollama_answer *values, mc_answer_form *form, mc_str *effort,
                      mc_failure *failure) {
    bool think = true;
    mc_str word;
    *form = (mc_answer_form){.fields = {"tools", "think", "format"}};
    if (mc_json_get_str(values->think, effort)) {
        if (!mc_str_is(*effort, "low") && !mc_str_is(*effort, "medium") &&
            !mc_str_is(*effort, "high"))
            return mc_failure_set(failure, 400, "invalid_value", "think",
                                  "think: want true, false, low, medium or high");
    } else {
        mc_json_get_bool(values->think, &think);
    }
    if (mc_json_exists(values->think))
        form->thinking = think ? MC_PROMPT_THINKING_ON : MC_PROMPT_THINKING_OFF;
    if (mc_json_get_str(values->format, &word)) {
        bool object = mc_str_is(word, "json");
        if (object) form->kind = MICA_CONSTRAINT_JSON_OBJECT;
        if (word.len && !object)
            return mc_failure_set(failure, 400, "invalid_value", "format",
                                  "format: want json, or a schema");
    } else {
        form->schema = values->format;
    }
    if (mc_json_count(values->tools) == 0) return true;
    mc_put put = mc_put_into(&form->tools_text);
    mc_put_value(&put, NULL, values->tools);
    return !put.failed || mc_failure_of(failure, mc_fail_nomem("tools"), NULL);
}

static void put_message(mc_put *put, const char *role, mc_str content) {
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "role", role);
    mc_put_str(put, "content", content);
    mc_put_close(put, '}');
}

/* The messages of a chat, or of /api/generate: what the user says. */
static bool read_messages(const mc_ollama_answer *values, bool is_chat, mc_chat_prompt *chat,
                          mc_failure *failure) {
    if (is_chat)
        return mc_ollama_messages(values->messages, &chat->messages, &chat->continues, failure);
    mc_put put = mc_put_into(&chat->messages);
    mc_put_open(&put, NULL, '[');
    if (values->system.len) put_message(&put, "system", values->system);
    put_message(&put, "user", values->prompt);
    mc_put_close(&put, ']');
    return !put.failed || mc_failure_of(failure, mc_fail_nomem("a prompt"), NULL);
}

/* A prompt as it is, or what is to be filled in between it and the suffix. */
static bool encode_raw(mc_exchange *http, const mc_ollama_answer *values, const mica_model *model,
                       mc_completion_prompt *prompt) {
    const mica_tokenizer *tok = mica_model_tokenizer(model);
    mc_fim fim;
    if (values->system.len)
        return mc_failure_set(&http->failure, 400, "invalid_value", "system",
                              "system: a prompt that is raw, or has a suffix, has none");
    if (values->suffix.len)
        return mc_fim_find(tok, "suffix", &fim, &http->failure) &&
               mc_fim_encode(tok, &fim, values->prompt, values->suffix, (mc_str){NULL, 0}, NULL, 0,
                             "prompt", prompt, &http->failure);
    mica_status status =
        mc_prompt_encode(tok, values->prompt.ptr, values->prompt.len, &prompt->ids, &prompt->n);
    return status == MICA_OK || mc_failure_of(&http->failure, status, "prompt");
}

/* ---- requests ---- */

/* Without a prompt, clients only want the model to be loaded, or to go. */
static bool reply_empty(mc_exchange *http, bool chat, const char *model, const char *reason) {
    mc_put put = mc_put_into(&http->out);
    put_answer(&put, chat, model, NULL);
    mc_put_bool(&put, "done", true);
    mc_put_text(&put, "done_reason", reason);
    mc_put_close(&put, '}');
    return mc_exchange_send(http, &put);
}

/* Has a model closed when it has no requests, without loading it for that. */
static bool unload(mc_exchange *http, bool chat, mc_str name) {
    mc_arena arena = {0};
    mc_model_row row;
    bool done = mc_ollama_row(http, name, &arena, &row) &&
                mc_models_unload(&http->server->models, mc_str_of(row.name), &http->failure) &&
                reply_empty(http, chat, row.name, "unload");
    mc_arena_deinit(&arena);
    return done;
}

/* Frees a job that was not started. */
static void discard(ollama_job *at) {
    if (at->job.prompts) mica_free(at->job.prompts[0].ids);
    mc_free(at->job.prompts);
    mc_answer_form_deinit(&at->job.form);
    on_close(&at->job);
}

/* A prompt as it is, and an answer that is text alone. */
static bool prepare_raw(ollama_job *at, const mc_ollama_answer *values) {
    mc_exchange *http = at->job.http;
    bool think = true;
    if (mc_json_exists(values->think) && (!mc_json_get_bool(values->think, &think) || think))
        return mc_failure_set(&http->failure, 400, "unsupported_value", "think",
                              "think: with raw or suffix only false is supported: the chat "
                              "template, which has the model think, is not used");
    const mica_model *model = at->job.served->model;
    mc_answer_form *form = &at->job.form;
    mc_completion_prompt *prompt = at->job.prompts;
    if (!mc_answer_form_prepare(form, model, &http->failure)) return false;
    form->format.think_begin = form->format.think_end = NULL;
    return encode_raw(http, values, model, prompt) &&
           mc_answer_form_compile(form, model, prompt->ids, prompt->n, &http->failure);
}

/* Renders the prompt, and makes what splits the answer. */
static bool prepare(ollama_job *at, const mc_ollama_answer *values) {
    mc_failure *failure = &at->job.http->failure;
    mc_chat_prompt chat = {.field = NULL};
    bool done = read_form(values, &at->job.form, &chat.effort, failure);
    if (done && (values->raw || values->suffix.len))
        done = prepare_raw(at, values);
    else if (done)
        done = read_messages(values, at->chat, &chat, failure) &&
               mc_chat_prompt_prepare(&at->job, &chat);
    mc_buffer_deinit(&chat.messages);
    if (!done) return false;
    mica_status status = mc_answer_form_split(&at->job.form, take_piece, at, &at->splitter);
    return status == MICA_OK || mc_failure_of(failure, status, NULL);
}

/* NULL: http->failure says why. */
static ollama_job *new_job(mc_exchange *http, bool chat, const mc_ollama_answer *values,
                           mc_served *served) {
    ollama_job *at = mc_calloc(1, sizeof *at);
    if (!at) {
        mc_failure_of(&http->failure, mc_fail_nomem("a request"), NULL);
        return NULL;
    }
    at->job = (mc_completion){.ops = &ops,
                              .http = http,
                              .served = served,
                              .prompts = mc_calloc(1, sizeof(mc_completion_prompt)),
                              .count = 1,
                              .choices = 1,
                              .asked_tokens = values->num_predict > 0 ? values->num_predict : 0,
                              .asked_field = "options.num_predict",
                              .whole = !values->generation.stream};
    at->chat = chat;
    at->stream = values->generation.stream;
    at->logprobs = values->logprobs;
    bool done = at->job.prompts ? prepare(at, values)
                                : mc_failure_of(&http->failure, mc_fail_nomem("a request"), NULL);
    if (done) return at;
    discard(at);
    return NULL;
}

static bool start(ollama_job *at, const mc_ollama_answer *values) {
    mica_generate_options options;
    mc_arena arena = {0};
    mica_model_info info = {.struct_bytes = sizeof info};
    const mica_model *model = at->job.served->model;
    mica_model_get_info(model, &info);
    size_t vocab = mica_tokenizer_vocab_size(mica_model_tokenizer(model));
    bool done = mc_ollama_options(values, at->job.prompts[0].n, info.context_length, vocab, &arena,
                                  &options, &at->job.http->failure);
    mc_fim fim;
    if (done && values->suffix.len)
        done = mc_fim_find(mica_model_tokenizer(model), "suffix", &fim, &at->job.http->failure) &&
               (mc_fim_stops(mica_model_tokenizer(model), &fim, &arena, &options) ||
                mc_failure_of(&at->job.http->failure, mc_fail_nomem("a request"), NULL));
    if (!done) {
        discard(at);
    } else {
        done = mc_completion_start(&at->job, &options);
        if (done && values->generation.stream)
            mc_completion_stream(&at->job, "application/x-ndjson");
    }
    mc_arena_deinit(&arena);
    return done;
}

static bool answer(mc_exchange *http, bool chat) {
    mc_ollama_answer values = {0};
    if (!mc_exchange_read(http, &values)) return false;
    if (values.top_logprobs && !values.logprobs)
        return mc_failure_set(&http->failure, 400, "invalid_value", "top_logprobs",
                              "top_logprobs needs logprobs");
    int64_t keep_us;
    bool keeps, empty = chat ? mc_json_count(values.messages) == 0
                             : !values.prompt.len && !values.suffix.len;
    if (!mc_ollama_read_keep(values.keep_alive, &keep_us, &keeps, &http->failure)) return false;
    if (empty && keep_us == 0) return unload(http, chat, values.generation.model);
    mc_served *served = mc_ollama_take(http, values.generation.model);
    if (!served || (keeps && !mc_models_keep(http, keep_us))) return false;
    if (http->made &&
        !mc_ollama_take_parameters(mc_json_root(http->doc), mc_json_root(http->made->doc), &values,
                                   &http->failure))
        return false;
    if (empty) return reply_empty(http, chat, mc_models_name(http), "load");
    ollama_job *at = new_job(http, chat, &values, served);
    return at && start(at, &values);
}

bool mc_ollama_chat(mc_exchange *http) {
    return answer(http, true);
}

bool mc_ollama_generate(mc_exchange *http) {
    return answer(http, false);
}
