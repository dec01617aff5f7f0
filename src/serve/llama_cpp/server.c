/* llama.cpp's server: /completion, /infill, /props and /slots. */
#include "serve/llama_cpp/server.h"

#include "engine/model.h"
#include "serve/http/endpoint.h"
#include "serve/jobs/fim.h"
#include "serve/jobs/prompts.h"
#include "serve/jobs/state.h"
#include "serve/openai/form.h"
#include "serve/openai/openai.h"

#include "base/alloc.h"

#include <mica/version.h>
#include <string.h>

typedef struct llama_choice {
    mc_buffer text;          /* that was not sent yet */
    mc_buffer ids;           /* int32: of the whole answer */
    size_t sent;             /* ids that were sent */
    mc_buffer probabilities; /* elements of completion_probabilities that were not sent */
    mc_choice_end end;
} llama_choice;

typedef struct llama_job {
    mc_completion job;
    mica_generate_options options;
    bool stream, many, tokens, probabilities;
    bool reads_only; /* the prompt, and an answer of one token that nobody gets */
    mc_buffer scratch, token;
    llama_choice *choices; /* [job.count] */
} llama_job;

static llama_job *job_of(mc_completion *job) {
    return (llama_job *)(void *)job;
}

/* ---- what is sent ---- */

static double each(double sum, int64_t count) {
    return count > 0 ? sum / (double)count : 0;
}

static double rate(int64_t count, double seconds) {
    return seconds > 0 ? (double)count / seconds : 0;
}

static void put_timings(mc_put *put, const mica_metrics *m) {
    int64_t read = m->prompt_tokens - m->reused_tokens;
    mc_put_open(put, "timings", '{');
    mc_put_int(put, "cache_n", m->reused_tokens);
    mc_put_int(put, "prompt_n", read);
    mc_put_real(put, "prompt_ms", m->prefill_seconds * 1e3);
    mc_put_real(put, "prompt_per_token_ms", each(m->prefill_seconds * 1e3, read));
    mc_put_real(put, "prompt_per_second", rate(read, m->prefill_seconds));
    mc_put_int(put, "predicted_n", m->generated_tokens);
    mc_put_real(put, "predicted_ms", m->decode_seconds * 1e3);
    mc_put_real(put, "predicted_per_token_ms", each(m->decode_seconds * 1e3, m->generated_tokens));
    mc_put_real(put, "predicted_per_second", rate(m->generated_tokens, m->decode_seconds));
    mc_put_close(put, '}');
}

static void put_settings(mc_put *put, const mica_generate_options *options) {
    mc_put_open(put, "generation_settings", '{');
    mc_put_int(put, "n_predict", options->max_tokens ? options->max_tokens : -1);
    mc_put_int(put, "seed", (int64_t)options->seed);
    mc_put_real(put, "temperature", (double)options->temperature);
    mc_put_int(put, "top_k", options->top_k);
    mc_put_real(put, "top_p", (double)options->top_p);
    mc_put_real(put, "min_p", (double)options->min_p);
    mc_put_int(put, "repeat_last_n", options->penalty_window);
    mc_put_real(put, "repeat_penalty", (double)options->repetition_penalty);
    mc_put_real(put, "presence_penalty", (double)options->presence_penalty);
    mc_put_real(put, "frequency_penalty", (double)options->frequency_penalty);
    mc_put_open(put, "stop", '[');
    for (size_t i = 0; i < options->stop_string_count; i++)
        mc_put_text(put, NULL, options->stop_strings[i]);
    mc_put_close(put, ']');
    mc_put_bool(put, "ignore_eos", options->ignore_eos);
    mc_put_int(put, "n_probs", options->top_logprobs);
    mc_put_close(put, '}');
}

/* The stop string that an answer's tokens spell, which its text is without; "": none does. */
static const char *find_stop(const llama_job *at, const llama_choice *choice, bool *failed) {
    const mica_tokenizer *tok = mica_model_tokenizer(at->job.served->model);
    const char *found = "";
    char *text;
    size_t len;
    if (choice->end.finish != MICA_FINISH_STOP || !at->options.stop_string_count) return found;
    if (mica_tokenizer_decode(tok, MC_BUFFER_AT(&choice->ids, int32_t),
                              MC_BUFFER_COUNT(&choice->ids, int32_t), true, &text, &len) != MICA_OK)
        return *failed = true, found;
    for (size_t i = 0; i < at->options.stop_string_count && !*found; i++)
        if (strstr(text, at->options.stop_strings[i])) found = at->options.stop_strings[i];
    mica_free(text);
    return found;
}

/* The text of a prompt, as its tokens spell it. */
static void put_prompt(mc_put *put, const llama_job *at, size_t index) {
    const mc_completion_prompt *prompt = &at->job.prompts[index];
    char *text;
    size_t len;
    if (mica_tokenizer_decode(mica_model_tokenizer(at->job.served->model), prompt->ids, prompt->n,
                              false, &text, &len) != MICA_OK) {
        put->failed = true;
        return;
    }
    mc_put_str(put, "prompt", (mc_str){text, len});
    mica_free(text);
}

/* Why it ended, and the numbers. */
static void put_end(mc_put *put, const llama_job *at, size_t index) {
    const llama_choice *choice = &at->choices[index];
    const mica_metrics *m = &choice->end.metrics;
    const char *stop = find_stop(at, choice, &put->failed);
    bool length = choice->end.finish == MICA_FINISH_LENGTH;
    mc_put_text(put, "model", mc_models_name(at->job.http));
    put_settings(put, &at->options);
    put_prompt(put, at, index);
    mc_put_bool(put, "truncated", m->truncated_tokens > 0);
    mc_put_text(put, "stop_type", length ? "limit" : *stop ? "word" : "eos");
    mc_put_text(put, "stopping_word", stop);
    mc_put_int(put, "tokens_cached", m->prompt_tokens + m->generated_tokens);
    put_timings(put, m);
}

/* What there is of a choice, and forgets it. */
static void put_choice(mc_put *put, llama_job *at, size_t index, bool last) {
    llama_choice *choice = &at->choices[index];
    const int32_t *ids = MC_BUFFER_AT(&choice->ids, int32_t);
    size_t n = MC_BUFFER_COUNT(&choice->ids, int32_t);
    mc_put_open(put, NULL, '{');
    mc_put_int(put, "index", (int64_t)index);
    mc_put_str(put, "content", (mc_str){choice->text.data, choice->text.len});
    mc_put_open(put, "tokens", '[');
    for (; choice->sent < n; choice->sent++)
        if (at->tokens || at->stream) mc_put_int(put, NULL, ids[choice->sent]);
    mc_put_close(put, ']');
    mc_put_int(put, "id_slot", -1);
    mc_put_bool(put, "stop", last);
    mc_put_int(put, "tokens_predicted", (int64_t)n);
    mc_put_int(put, "tokens_evaluated", (int64_t)at->job.prompts[index].n);
    if (at->probabilities && (choice->probabilities.len || !at->stream)) {
        mc_put_open(put, "completion_probabilities", '[');
        mc_put_members(put, &choice->probabilities);
        mc_put_close(put, ']');
    }
    if (last) put_end(put, at, index);
    mc_put_close(put, '}');
    mc_buffer_clear(&choice->text);
    mc_buffer_clear(&choice->probabilities);
}

static bool send_event(llama_job *at, size_t index, bool last) {
    mc_buffer_clear(&at->scratch);
    mc_put put = mc_put_into(&at->scratch);
    put_choice(&put, at, index, last);
    return !put.failed && mc_exchange_event(at->job.http, NULL, at->scratch.data, at->scratch.len);
}

static void send_whole(llama_job *at) {
    mc_put put = mc_put_into(&at->job.http->out);
    if (at->many) mc_put_open(&put, NULL, '[');
    for (size_t i = 0; i < at->job.count; i++)
        put_choice(&put, at, i, true);
    if (at->many) mc_put_close(&put, ']');
    mc_completion_reply(&at->job, !put.failed);
}

/* ---- the job ---- */

static void put_probability(mc_put *put, llama_job *at, int32_t id, float logprob) {
    mc_put_int(put, "id", id);
    mc_openai_put_token(put, mica_model_tokenizer(at->job.served->model), id, (double)logprob,
                        &at->token);
}

static bool add_probabilities(llama_job *at, llama_choice *choice, const mica_token *token) {
    mc_put put = mc_put_into(&choice->probabilities);
    put.comma = choice->probabilities.len > 0;
    mc_put_open(&put, NULL, '{');
    put_probability(&put, at, token->id, token->logprob);
    mc_put_open(&put, "top_logprobs", '[');
    for (size_t i = 0; i < token->alternative_count; i++) {
        mc_put_open(&put, NULL, '{');
        put_probability(&put, at, token->alternatives[i].id, token->alternatives[i].logprob);
        mc_put_close(&put, '}');
    }
    mc_put_close(&put, ']');
    mc_put_close(&put, '}');
    return !put.failed;
}

static bool on_token(mc_completion *job, size_t index, const mica_token *token) {
    llama_job *at = job_of(job);
    llama_choice *choice = &at->choices[index];
    if (at->reads_only) return true;
    bool done = mc_buffer_add(&choice->text, token->text, token->len);
    if (done && token->id >= 0) {
        done = mc_buffer_add(&choice->ids, &token->id, sizeof token->id);
        if (done && at->probabilities) done = add_probabilities(at, choice, token);
    }
    if (!done) return mc_completion_note(job, mc_fail_nomem("an answer"));
    if (!at->stream || (!choice->text.len && !choice->probabilities.len)) return true;
    return send_event(at, index, false);
}

static void on_end(mc_completion *job, size_t index, const mc_choice_end *end) {
    llama_job *at = job_of(job);
    at->choices[index].end = *end;
    at->choices[index].end.error = NULL; /* valid during the call */
    if (at->stream && mc_openai_finish(end->finish)) send_event(at, index, true);
}

static void on_done(mc_completion *job) {
    llama_job *at = job_of(job);
    if (!at->stream) {
        send_whole(at);
        return;
    }
    if (job->failure.status) mc_openai_stream_failure(job, &at->scratch);
    mc_exchange_end(job->http);
}

static void on_close(mc_completion *job) {
    llama_job *at = job_of(job);
    for (size_t i = 0; at->choices && i < job->count; i++) {
        mc_buffer_deinit(&at->choices[i].text);
        mc_buffer_deinit(&at->choices[i].ids);
        mc_buffer_deinit(&at->choices[i].probabilities);
    }
    mc_buffer_deinit(&at->scratch);
    mc_buffer_deinit(&at->token);
    mc_free(at->choices);
    mc_free(at);
}

static const mc_completion_ops ops = {on_token, on_end, on_done, on_close};

/* ---- requests ---- */

/* Takes over the prompts and the arena. NULL: no memory. */
static llama_job *new_job(mc_exchange *http, const mc_llama_values *values, mc_served *served,
                          mc_completion_prompt *prompts, size_t count) {
    llama_job *at = mc_calloc(1, sizeof *at);
    if (!at) return NULL;
    *at = (llama_job){
        .job = {.ops = &ops,
                .http = http,
                .served = served,
                .prompts = prompts,
                .count = count,
                .choices = 1,
                .asked_tokens = values->n_predict > 0 ? values->n_predict : 0,
                .asked_field = "n_predict",
                .comments = values->generation.stream,
                .whole = !values->generation.stream},
        .stream = values->generation.stream,
        .many = count > 1,
        .tokens = values->return_tokens,
        .probabilities = values->n_probs > 0,
        .reads_only = values->n_predict == 0,
        .choices = mc_calloc(count, sizeof(llama_choice)),
    };
    if (at->choices) return at;
    on_close(&at->job);
    return NULL;
}

static bool start(llama_job *at, const mc_llama_values *values) {
    mc_completion *job = &at->job;
    mc_failure *failure = &job->http->failure;
    const mc_openai_wish wish = {.json = values->schema,
                                 .grammar =
                                     values->grammar.len ? values->grammar : (mc_str){NULL, 0},
                                 .budget = -1};
    mc_completion_attach(job);
    if (mc_json_exists(values->schema) && values->grammar.len)
        return mc_failure_set(failure, 400, "invalid_value", "grammar",
                              "grammar: there is a json_schema, too: want one of them");
    if (!mc_completion_check(job) || !mc_openai_form_read(&wish, &job->form, failure)) return false;
    job->form.fields[2] = mc_json_exists(values->schema) ? "json_schema" : "grammar";
    if (!mc_answer_form_compile(&job->form, job->served->model, NULL, 0, failure) ||
        !mc_completion_start(job, &at->options))
        return false;
    if (at->stream) mc_completion_stream(job, NULL);
    return true;
}

/* Begins the answers to prompts, which it takes over with the arena. */
static bool answer(mc_exchange *http, const mc_llama_values *values, mc_served *served,
                   const mica_generate_options *options, mc_arena *arena,
                   mc_completion_prompt *prompts, size_t count) {
    llama_job *at = new_job(http, values, served, prompts, count);
    if (!at) {
        mc_prompts_free(prompts, count);
        mc_arena_deinit(arena);
        return mc_failure_of(&http->failure, mc_fail_nomem("a request"), NULL);
    }
    at->job.arena = *arena; /* later prompts need the options, too */
    at->options = *options;
    return start(at, values);
}

static bool complete(mc_exchange *http) {
    mc_llama_values values = {0};
    mica_generate_options options;
    mc_completion_prompt *prompts;
    mc_arena arena = {0};
    size_t count;
    if (!mc_exchange_read(http, &values)) return false;
    mc_served *served = mc_models_take(&http->server->models, http, values.generation.model);
    if (!served) return false;
    const mica_tokenizer *tok = mica_model_tokenizer(served->model);
    size_t vocab = mica_tokenizer_vocab_size(tok);
    if (mc_llama_options(&values, vocab, &arena, &options, &http->failure) &&
        mc_prompts_read(values.prompt, "prompt", tok, vocab, NULL, &prompts, &count,
                        &http->failure))
        return answer(http, &values, served, &options, &arena, prompts, count);
    mc_arena_deinit(&arena);
    return false;
}

/* ---- /infill ---- */

enum { MAX_FILES = 256 };

static bool read_files(mc_json list, mc_arena *arena, mc_fim_file **files, size_t *count,
                       mc_failure *failure) {
    *count = mc_json_count(list);
    if (*count > MAX_FILES)
        return mc_failure_set(failure, 400, "invalid_value", "input_extra",
                              "input_extra: want %d files or fewer", MAX_FILES);
    *files = mc_arena_calloc(arena, (*count + 1) * sizeof **files);
    if (!*files) return mc_failure_of(failure, mc_fail_nomem("files"), NULL);
    size_t i = 0;
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it); i++) {
        mc_fim_file *file = &(*files)[i];
        file->name = MC_STR("file");
        mc_json name = mc_json_find(it.value, "filename");
        if (!mc_json_get_str(mc_json_find(it.value, "text"), &file->text) ||
            (mc_json_exists(name) && !mc_json_get_str(name, &file->name)))
            return mc_failure_set(failure, 400, "invalid_type", "input_extra",
                                  "input_extra[%zu]: want an object with text and filename", i);
    }
    return true;
}

static bool infill(mc_exchange *http) {
    mc_llama_values values = {0};
    mica_generate_options options;
    mc_arena arena = {0};
    mc_fim_file *files = NULL;
    size_t count = 0;
    mc_fim fim;
    if (!mc_exchange_read(http, &values)) return false;
    mc_served *served = mc_models_take(&http->server->models, http, values.generation.model);
    if (!served) return false;
    const mica_tokenizer *tok = mica_model_tokenizer(served->model);
    mc_failure *failure = &http->failure;
    mc_completion_prompt *prompt = mc_calloc(1, sizeof *prompt);
    if (!prompt) return mc_failure_of(failure, mc_fail_nomem("a prompt"), NULL);
    if (mc_fim_find(tok, "input_suffix", &fim, failure) &&
        mc_llama_options(&values, mica_tokenizer_vocab_size(tok), &arena, &options, failure) &&
        read_files(values.input_extra, &arena, &files, &count, failure) &&
        (mc_fim_stops(tok, &fim, &arena, &options) ||
         mc_failure_of(failure, mc_fail_nomem("a request"), NULL)) &&
        mc_fim_encode(tok, &fim, values.input_prefix, values.input_suffix, values.begun, files,
                      count, "input_prefix", prompt, failure))
        return answer(http, &values, served, &options, &arena, prompt, 1);
    mc_prompts_free(prompt, 1);
    mc_arena_deinit(&arena);
    return false;
}

/* ---- what the server is ---- */

static mc_served *take_model(mc_exchange *http, const char *name) {
    return mc_models_take(&http->server->models, http, (mc_str){name, name ? strlen(name) : 0});
}

static int row_count(const mc_served *served) {
    enum { DEFAULT_ROWS = 16 };
    return served->options.rows ? served->options.rows : DEFAULT_ROWS;
}

static void put_special(mc_put *put, const char *key, const mica_tokenizer *tok, int32_t id) {
    size_t len = 0;
    const char *text = id >= 0 ? mica_tokenizer_token(tok, id, &len) : "";
    mc_put_str(put, key, (mc_str){text ? text : "", text ? len : 0});
}

static bool tell_properties(mc_exchange *http) {
    mc_served *served = take_model(http, http->query[0]);
    if (!served) return false;
    const mica_tokenizer *tok = mica_model_tokenizer(served->model);
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_model_get_info(served->model, &info);
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_put_open(&put, "default_generation_settings", '{');
    mc_put_int(&put, "n_ctx", info.context_length);
    mc_put_close(&put, '}');
    mc_put_int(&put, "total_slots", row_count(served));
    mc_put_text(&put, "model_alias", served->name);
    mc_put_text(&put, "model_path", served->name);
    mc_put_open(&put, "modalities", '{');
    mc_put_bool(&put, "vision", false);
    mc_put_bool(&put, "audio", false);
    mc_put_close(&put, '}');
    mc_put_str(&put, "chat_template", mc_model_template(served->model));
    put_special(&put, "bos_token", tok, mica_tokenizer_bos(tok));
    put_special(&put, "eos_token", tok, mica_tokenizer_eos(tok));
    char build[64];
    snprintf(build, sizeof build, "mica %s", mica_version());
    mc_put_text(&put, "build_info", build);
    mc_put_close(&put, '}');
    return mc_exchange_send(http, &put);
}

static bool tell_slots(mc_exchange *http) {
    enum { QUERY_MODEL, QUERY_FAIL };
    mc_served *served = take_model(http, http->query[QUERY_MODEL]);
    if (!served) return false;
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_model_get_info(served->model, &info);
    mc_schedule_stats stats;
    mc_schedule_get_stats(served->schedule, &stats);
    size_t rows = (size_t)row_count(served);
    if (http->query[QUERY_FAIL] && stats.running >= rows)
        return mc_failure_set(&http->failure, 503, "no_slot", NULL, "all %zu rows compute", rows);
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '[');
    for (size_t i = 0; i < rows; i++) {
        mc_put_open(&put, NULL, '{');
        mc_put_int(&put, "id", (int64_t)i);
        mc_put_int(&put, "n_ctx", info.context_length);
        mc_put_bool(&put, "speculative", served->options.draft_tokens > 0);
        mc_put_bool(&put, "is_processing", i < stats.running);
        mc_put_close(&put, '}');
    }
    mc_put_close(&put, ']');
    return mc_exchange_send(http, &put);
}

#define COMPLETION_TABLES                                              \
    {                                                                  \
        {mc_llama_completion_fields, MC_LLAMA_COMPLETION_FIELDS, 0}, { \
            mc_llama_fields, MC_LLAMA_FIELDS, 0                        \
        }                                                              \
    }

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT("POST", "/completion", complete, .tables = COMPLETION_TABLES,
                .help = "the continuation of a raw text"),
    MC_ENDPOINT("POST", "/completions", complete, .tables = COMPLETION_TABLES,
                .help = "the same, as older clients call it"),
    MC_ENDPOINT(
        "POST", "/infill", infill,
        .tables = {{mc_llama_infill_fields, MC_LLAMA_INFILL_FIELDS, 0},
                   {mc_llama_fields, MC_LLAMA_FIELDS, 0}},
        .help = "what is in a gap between two texts, for models whose vocabulary has marks for it"),
    MC_ENDPOINT("GET", "/props", tell_properties, .query = "model",
                .help =
                    "the context, the rows (total_slots), the chat template and the special tokens "
                    "of the model that the query names, or of the first one; its path is its name"),
    MC_ENDPOINT("GET", "/slots", tell_slots, .query = "model fail_on_no_slot",
                .help = "how many rows there are, and how many of them compute: answers have no "
                        "place of their own, and are not told"),
};

const mc_endpoint_list mc_endpoints_llama_server = {"llama.cpp's server", endpoints,
                                                    sizeof endpoints / sizeof *endpoints};
