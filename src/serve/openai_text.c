/* /v1/completions: raw texts that are continued. */
#include "serve/chance.h"
#include "serve/endpoint.h"
#include "serve/generation.h"
#include "serve/openai.h"
#include "serve/openai_form.h"
#include "serve/openai_logprobs.h"
#include "serve/prompts.h"
#include "serve/state.h"

#include "base/alloc.h"
#include "task/model.h"
#include "task/score.h"

#include <string.h>
#include <time.h>

typedef struct text_values {
    mc_generation generation;
    mc_openai_wish wish;
    mc_json prompt;
    int64_t max_tokens, logprobs; /* logprobs -1: none */
    bool echo;
} text_values;

#define AT(member) offsetof(text_values, member)

static const mc_field fields[] = {
    {.name = "prompt",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
     .required = true,
     .offset = AT(prompt),
     .help = "a text, texts, token ids, or arrays of token ids; up to 2048 prompts"},
    {.name = "max_tokens",
     .kind = MC_FIELD_INT,
     .max = INT32_MAX,
     .initial = 16,
     .offset = AT(max_tokens),
     .help = "limit of the answer's tokens; 0: none, with echo"},
    {.name = "logprobs",
     .kind = MC_FIELD_INT,
     .min = 0,
     .max = 20,
     .initial = -1,
     .offset = AT(logprobs),
     .help = "also the tokens' log-probabilities, and those of so many of the likeliest tokens in "
             "their places"},
    {.name = "echo",
     .kind = MC_FIELD_BOOL,
     .offset = AT(echo),
     .help = "the prompt comes first, with logprobs also those of its tokens; what "
             "is longer than a stream holds (4 MiB) is refused with stream"},
    {.name = "response_format",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_OBJECT,
     .offset = AT(wish.format),
     .help = "as that of chats"},
    {.name = "suffix", .kind = MC_FIELD_REFUSED, .help = "texts are continued, not filled in"},
};

typedef struct text_choice {
    mc_buffer text;
    mc_logprobs logprobs;
    mica_finish finish;
} text_choice;

typedef struct text_job {
    mc_completion job;
    bool stream, usage, logprobs;
    int64_t created;
    char id[MC_NAME_BYTES];
    mc_buffer scratch;    /* the event that is being written */
    text_choice *choices; /* [count * choices] */
} text_job;

static text_job *text_of(mc_completion *job) {
    return (text_job *)(void *)job;
}

static size_t count_choices(const text_job *text) {
    return text->job.count * text->job.choices;
}

/* ---- what is sent ---- */

/* Writes a choice, and forgets what it has said. */
static void put_choice(mc_put *put, text_job *text, size_t index, const char *finish) {
    text_choice *choice = &text->choices[index];
    mc_put_open(put, NULL, '{');
    mc_put_int(put, "index", (int64_t)index);
    mc_put_str(put, "text", (mc_str){choice->text.data, choice->text.len});
    if (text->logprobs)
        mc_logprobs_put(&choice->logprobs, put);
    else
        mc_put_null(put, "logprobs");
    mc_put_text(put, "finish_reason", finish);
    mc_put_close(put, '}');
    mc_buffer_clear(&choice->text);
    mc_logprobs_clear(&choice->logprobs);
}

static bool send_event(text_job *text, size_t choice, const char *finish) {
    mc_buffer_clear(&text->scratch);
    mc_put put = mc_put_into(&text->scratch);
    mc_put_open(&put, NULL, '{');
    mc_openai_put_head(&put, text->id, "text_completion", text->created, text->job.served->name);
    mc_put_open(&put, "choices", '[');
    put_choice(&put, text, choice, finish);
    mc_put_close(&put, ']');
    if (text->usage) mc_put_null(&put, "usage");
    mc_put_close(&put, '}');
    return !put.failed &&
           mc_exchange_event(text->job.http, NULL, text->scratch.data, text->scratch.len);
}

static void end_stream(text_job *text) {
    mc_completion *job = &text->job;
    if (job->failure.status) {
        mc_openai_stream_failure(job, &text->scratch);
    } else if (text->usage) {
        mc_buffer_clear(&text->scratch);
        mc_put put = mc_put_into(&text->scratch);
        mc_put_open(&put, NULL, '{');
        mc_openai_put_head(&put, text->id, "text_completion", text->created, job->served->name);
        mc_put_open(&put, "choices", '[');
        mc_put_close(&put, ']');
        mc_openai_put_usage(&put, job);
        mc_put_close(&put, '}');
        if (!put.failed) mc_exchange_event(job->http, NULL, text->scratch.data, text->scratch.len);
    }
    mc_exchange_event(job->http, NULL, "[DONE]", 6);
    mc_exchange_end(job->http);
}

static void send_whole(text_job *text) {
    mc_completion *job = &text->job;
    mc_exchange *http = job->http;
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_openai_put_head(&put, text->id, "text_completion", text->created, job->served->name);
    mc_put_open(&put, "choices", '[');
    for (size_t i = 0; i < count_choices(text); i++)
        put_choice(&put, text, i, mc_openai_finish(text->choices[i].finish));
    mc_put_close(&put, ']');
    mc_openai_put_usage(&put, job);
    mc_put_close(&put, '}');
    if (put.failed) mc_failure_of(&job->failure, mc_fail_nomem("an answer"), NULL);
    http->failure = job->failure;
    if (http->failure.status)
        mc_exchange_refuse(http);
    else
        mc_exchange_reply(http, 200, NULL);
}

/* ---- the job ---- */

static bool on_token(mc_completion *job, size_t choice, const mica_token *token) {
    text_job *text = text_of(job);
    text_choice *at = &text->choices[choice];
    bool done = mc_buffer_add(&at->text, token->text, token->len);
    if (done && text->logprobs && token->id >= 0)
        done = mc_logprobs_add(&at->logprobs, mica_model_tokenizer(job->served->model), token->id,
                               &token->logprob, token->alternatives, token->alternative_count);
    if (!done) {
        mc_failure_of(&job->failure, mc_fail_nomem("an answer"), NULL);
        return false;
    }
    if (!text->stream || (!at->text.len && !at->logprobs.tokens.len)) return true;
    return send_event(text, choice, NULL);
}

static void on_end(mc_completion *job, size_t choice, const mc_choice_end *end) {
    text_job *text = text_of(job);
    const char *finish = mc_openai_finish(end->finish);
    text->choices[choice].finish = end->finish;
    if (text->stream && finish) send_event(text, choice, finish);
}

static void on_done(mc_completion *job) {
    text_job *text = text_of(job);
    if (text->stream)
        end_stream(text);
    else
        send_whole(text);
}

static void on_close(mc_completion *job) {
    text_job *text = text_of(job);
    for (size_t i = 0; text->choices && i < count_choices(text); i++) {
        mc_buffer_deinit(&text->choices[i].text);
        mc_logprobs_deinit(&text->choices[i].logprobs);
    }
    mc_buffer_deinit(&text->scratch);
    mc_free(text->choices);
    mc_free(text);
}

static const mc_completion_ops ops = {on_token, on_end, on_done, on_close};

/* ---- the prompts' own log-probabilities ---- */

typedef struct scoring {
    const mc_session_model *model;
    const mc_completion_prompt *prompt;
    const mica_cancel *cancel;
    int64_t top;
    mica_score_result *result;
    mica_alternative *alternatives;
} scoring;

static mica_status score(void *context) {
    scoring *w = context;
    mica_task_options options = {.struct_bytes = sizeof options, .cancel = w->cancel};
    return mc_score_top(w->model, w->prompt->ids, w->prompt->n, w->top, &options, &w->result,
                        &w->alternatives);
}

/* Adds the tokens of a prompt with what the model makes of them, in the scheduler's turn. */
static bool add_scores(text_job *text, size_t prompt, int64_t top, mc_logprobs *logprobs) {
    mc_completion *job = &text->job;
    const mc_completion_prompt *at = &job->prompts[prompt];
    const mica_tokenizer *tok = mica_model_tokenizer(job->served->model);
    scoring w = {.prompt = at, .cancel = &job->http->cancel, .top = top};
    mica_status status = mc_model_local(job->served->model, &w.model);
    if (status == MICA_OK && at->n > 1) status = mc_schedule_run(job->served->schedule, score, &w);
    if (status == MICA_OK && !mc_logprobs_add(logprobs, tok, at->ids[0], NULL, NULL, 0))
        status = mc_fail_nomem("log-probabilities");
    for (size_t i = 1; status == MICA_OK && i < at->n; i++)
        if (!mc_logprobs_add(logprobs, tok, at->ids[i], &w.result->logprobs[i],
                             top ? w.alternatives + i * (size_t)top : NULL, (size_t)top))
            status = mc_fail_nomem("log-probabilities");
    mica_score_free(&w.result);
    mc_free(w.alternatives);
    return status == MICA_OK || mc_failure_of(&job->http->failure, status, "prompt");
}

/* The prompts come first in their choices. */
static bool echo_prompts(text_job *text, int64_t top) {
    mc_completion *job = &text->job;
    const mica_tokenizer *tok = mica_model_tokenizer(job->served->model);
    for (size_t i = 0; i < count_choices(text); i++) {
        const mc_completion_prompt *prompt = &job->prompts[i / job->choices];
        text_choice *at = &text->choices[i];
        char *said;
        size_t len;
        mica_status status = mica_tokenizer_decode(tok, prompt->ids, prompt->n, true, &said, &len);
        if (status == MICA_OK && !mc_buffer_add(&at->text, said, len))
            status = mc_fail_nomem("an answer");
        if (status != MICA_OK) return mc_failure_of(&job->http->failure, status, "prompt");
        mica_free(said);
        if (!text->logprobs) continue;
        if (i % job->choices == 0) {
            if (!add_scores(text, i / job->choices, top, &at->logprobs)) return false;
        } else if (!mc_logprobs_copy(&at->logprobs, &at[-1].logprobs)) {
            return mc_failure_of(&job->http->failure, mc_fail_nomem("an answer"), NULL);
        }
    }
    return true;
}

/* Whether a stream holds the prompts, which it gets at once. */
static bool check_echo(text_job *text) {
    enum { ESCAPED = 6, AROUND = 1024 }; /* bytes, at most, of a byte in JSON; of an event's rest */
    size_t bytes = 0;
    for (size_t i = 0; i < count_choices(text); i++) {
        const mc_logprobs *logprobs = &text->choices[i].logprobs;
        bytes += text->choices[i].text.len * ESCAPED + AROUND;
        bytes += logprobs->tokens.len + logprobs->values.len;
        bytes += logprobs->offsets.len + logprobs->likeliest.len;
    }
    return bytes <= MC_EXCHANGE_BEHIND ||
           mc_failure_set(&text->job.http->failure, 400, "invalid_value", "stream",
                          "stream: the prompts that echo repeats are too long for a stream, which "
                          "holds %d bytes; ask for less, or without stream",
                          MC_EXCHANGE_BEHIND);
}

/* ---- the request ---- */

/* Takes over the prompts. NULL: no memory. */
static text_job *new_job(mc_exchange *http, const text_values *values, mc_served *served,
                         mc_completion_prompt *prompts, size_t count) {
    text_job *text = mc_calloc(1, sizeof *text);
    if (!text) return NULL;
    *text = (text_job){
        .job = {.ops = &ops,
                .http = http,
                .served = served,
                .prompts = prompts,
                .count = count,
                .choices = (size_t)values->generation.n,
                .priority = (int)values->generation.priority,
                .comments = values->generation.stream},
        .stream = values->generation.stream,
        .usage = values->generation.include_usage,
        .logprobs = values->logprobs >= 0,
        .created = (int64_t)time(NULL),
        .choices = mc_calloc(count * (size_t)values->generation.n, sizeof(text_choice)),
    };
    mc_chance_name("cmpl", text->id);
    if (text->choices) return text;
    on_close(&text->job);
    return NULL;
}

/* Nothing is generated: the answer is the prompts. */
static void answer_echo(text_job *text) {
    mc_completion *job = &text->job;
    for (size_t i = 0; i < job->count; i++)
        job->prompt_tokens += (int64_t)job->prompts[i].n;
    for (size_t i = 0; i < count_choices(text); i++) {
        text->choices[i].finish = MICA_FINISH_LENGTH;
        if (text->stream) send_event(text, i, "length");
    }
    on_done(job);
    if (text->stream) mc_completion_stream(job, NULL);
}

/* Compiles what the answers may be. */
static bool read_form(text_job *text, const text_values *values) {
    const mc_openai_wish *asked = &values->wish;
    const mc_openai_wish wish = {.format = asked->format,
                                 .json = asked->json,
                                 .choices = asked->choices,
                                 .regex = asked->regex,
                                 .grammar = asked->grammar,
                                 .object = asked->object,
                                 .budget = -1};
    mc_completion *job = &text->job;
    return mc_openai_form_read(&wish, &job->form, &job->http->failure) &&
           mc_answer_form_compile(&job->form, job->served->model, NULL, 0, &job->http->failure);
}

static bool start(text_job *text, const text_values *values, mica_generate_options *options) {
    mc_completion *job = &text->job;
    options->max_tokens = values->max_tokens;
    options->logprobs = text->logprobs;
    options->top_logprobs = values->logprobs > 0 ? (int)values->logprobs : 0;
    mc_completion_attach(job);
    if (!read_form(text, values)) return false;
    if (values->echo && !echo_prompts(text, options->top_logprobs)) return false;
    if (values->echo && text->stream && !check_echo(text)) return false;
    if (!values->max_tokens) {
        answer_echo(text);
        return true;
    }
    if (!mc_completion_start(job, options)) return false;
    if (text->stream) mc_completion_stream(job, NULL);
    return true;
}

static bool complete(mc_exchange *http) {
    text_values values;
    mica_generate_options options;
    mc_completion_prompt *prompts;
    size_t count;
    if (!mc_exchange_read(http, &values)) return false;
    if (!values.max_tokens && !values.echo)
        return mc_failure_set(&http->failure, 400, "invalid_value", "max_tokens",
                              "max_tokens 0 needs echo: nothing else is answered");
    mc_served *served = mc_models_take(&http->server->models, http, values.generation.model);
    if (!served) return false;
    const mica_tokenizer *tok = mica_model_tokenizer(served->model);
    size_t vocab = mica_tokenizer_vocab_size(tok);
    if (!mc_prompts_read(values.prompt, "prompt", tok, vocab, &prompts, &count, &http->failure))
        return false;
    bool done = count * (size_t)values.generation.n <= MC_PROMPTS ||
                mc_failure_set(&http->failure, 400, "invalid_value", "n",
                               "n: want %d answers or fewer to all prompts", MC_PROMPTS);
    mc_arena arena = {0};
    done =
        done && mc_generation_options(&values.generation, vocab, &arena, &options, &http->failure);
    text_job *text = done ? new_job(http, &values, served, prompts, count) : NULL;
    if (text) {
        text->job.arena = arena; /* later prompts need the options, too */
        return start(text, &values, &options);
    }
    if (done) mc_failure_of(&http->failure, mc_fail_nomem("a request"), NULL);
    mc_prompts_free(prompts, count);
    mc_arena_deinit(&arena);
    return false;
}

static const mc_endpoint endpoints[] = {
    {.method = "POST",
     .path = "/v1/completions",
     .handle = complete,
     .tables = {{fields, sizeof fields / sizeof *fields, 0},
                {mc_openai_structured_fields, MC_OPENAI_STRUCTURED_FIELDS, AT(wish)},
                {mc_generation_fields, MC_GENERATION_FIELDS, AT(generation)}},
     .help = "the continuation of raw texts"},
};

const mc_endpoint_list mc_endpoints_openai_text = {"OpenAI: texts", endpoints,
                                                   sizeof endpoints / sizeof *endpoints};
