/* /v1/completions: raw texts that are continued. */
#include "serve/common/chance.h"
#include "serve/common/generation.h"
#include "serve/http/endpoint.h"
#include "serve/jobs/evaluation.h"
#include "serve/jobs/fim.h"
#include "serve/jobs/prompts.h"
#include "serve/jobs/state.h"
#include "serve/openai/form.h"
#include "serve/openai/logprobs.h"
#include "serve/openai/openai.h"

#include "base/alloc.h"
#include "engine/model.h"
#include "task/score.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum { DEFAULT_TOKENS = 16 };

typedef struct text_values {
    mc_generation generation;
    mc_openai_wish wish;
    mc_json prompt;
    mc_str suffix;
    int64_t max_tokens, logprobs; /* -1: not given */
    bool echo;
} text_values;

#define AT(member) offsetof(text_values, member)

static const mc_field fields[] = {
    MC_FIELD_AT(JSON, "prompt", AT(prompt), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
                .required = true,
                .help = "a text, texts, token ids, or arrays of token ids; up to 2048 prompts"),
    MC_FIELD_AT(INT, "max_tokens", AT(max_tokens), .max = INT32_MAX, .initial = -1,
                .help = "limit of the answer's tokens, 16 without it; 0: no answer, with echo"),
    MC_FIELD_AT(INT, "logprobs", AT(logprobs), .min = 0, .max = 20, .initial = -1,
                .help = "also the tokens' log-probabilities, and those of so many of the likeliest "
                        "tokens in their places"),
    MC_FIELD_AT(BOOL, "echo", AT(echo),
                .help = "the prompt comes first, with logprobs also those of its tokens: tokens of "
                        "all prompts, times n, times 1 + logprobs may be 1048576. What is longer "
                        "than a stream holds (1 MiB) is refused with stream"),
    MC_FIELD_AT(JSON, "response_format", AT(wish.format), .types = MC_FIELD_IS_OBJECT,
                .help = "as that of chats"),
    MC_FIELD_AT(TEXT, "suffix", AT(suffix),
                .help = "the answer fills in what is between a prompt, which is a text then, and "
                        "this one: for models whose vocabulary has marks for it"),
};

typedef struct text_choice {
    mc_buffer text;
    mc_logprobs logprobs;
    mica_finish finish;
} text_choice;

typedef struct text_job {
    mc_completion job;
    mc_evaluation scoring; /* of the prompts, where they are told with their log-probabilities */
    mica_generate_options options; /* of each answer; max_tokens 0: there are none */
    bool stream, usage, echo, logprobs;
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
    mc_openai_put_head(&put, text->id, "text_completion", text->created,
                       mc_models_name(text->job.http));
    mc_put_open(&put, "choices", '[');
    put_choice(&put, text, choice, finish);
    mc_put_close(&put, ']');
    if (text->usage) mc_put_null(&put, "usage");
    mc_put_close(&put, '}');
    return !put.failed &&
           mc_exchange_event(text->job.http, NULL, text->scratch.data, text->scratch.len);
}

static void send_whole(text_job *text) {
    mc_completion *job = &text->job;
    mc_put put = mc_put_into(&job->http->out);
    mc_put_open(&put, NULL, '{');
    mc_openai_put_head(&put, text->id, "text_completion", text->created, mc_models_name(job->http));
    mc_put_open(&put, "choices", '[');
    for (size_t i = 0; i < count_choices(text); i++)
        put_choice(&put, text, i, mc_openai_finish(text->choices[i].finish));
    mc_put_close(&put, ']');
    mc_openai_put_usage(&put, job);
    mc_put_close(&put, '}');
    mc_completion_reply(job, !put.failed);
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
        mc_openai_end_stream(job, &text->scratch, text->usage, text->id, "text_completion",
                             text->created);
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

/* ---- prompts that are told ---- */

/* MAX_ECHOED: log-probabilities and texts of tokens, with echo, of about 30 bytes each.
 * MAX_ECHOED_BYTES: of the texts, before JSON spells them. */
enum { MAX_ECHOED = 1 << 20, MAX_ECHOED_BYTES = 16 << 20 };

/* Whether the model could read the prompts, whether it is asked to or not. */
static bool check_contexts(const text_job *text) {
    const mc_completion *job = &text->job;
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_model_get_info(job->served->model, &info);
    for (size_t i = 0; i < job->count; i++)
        if (info.context_length && job->prompts[i].n > (uint64_t)info.context_length)
            return mc_failure_of(&job->http->failure,
                                 mc_fail(MICA_ECONTEXT,
                                         "the prompt has %zu tokens, the model's context is "
                                         "%" PRId64 ": what echo repeats is not cut",
                                         job->prompts[i].n, info.context_length),
                                 "prompt");
    return true;
}

/* Whether an answer holds the prompts: before any is computed. */
static bool check_size(const text_job *text) {
    const mc_completion *job = &text->job;
    uint64_t tokens = 0, each = 1 + (uint64_t)text->options.top_logprobs;
    for (size_t i = 0; i < job->count; i++)
        tokens += job->prompts[i].n;
    return tokens * job->choices * each <= MAX_ECHOED ||
           mc_failure_set(&job->http->failure, 400, "invalid_value", "echo",
                          "echo: the prompts have %" PRIu64 " tokens, for %zu choices with %d "
                          "logprobs: %" PRIu64 " * %zu * %" PRIu64 " is above the limit, %d; ask "
                          "for fewer prompts, choices or logprobs",
                          tokens, job->choices, text->options.top_logprobs, tokens, job->choices,
                          each, MAX_ECHOED);
}

/* The prompts come first in their choices. */
static bool echo_prompts(text_job *text) {
    mc_completion *job = &text->job;
    const mica_tokenizer *tok = mica_model_tokenizer(job->served->model);
    size_t bytes = 0;
    for (size_t i = 0; i < count_choices(text); i++) {
        const mc_completion_prompt *prompt = &job->prompts[i / job->choices];
        char *said;
        size_t len;
        mica_status status = mica_tokenizer_decode(tok, prompt->ids, prompt->n, true, &said, &len);
        if (status == MICA_OK && !mc_buffer_add(&text->choices[i].text, said, len))
            status = mc_fail_nomem("an answer");
        mica_free(said);
        bytes += text->choices[i].text.len;
        if (bytes > MAX_ECHOED_BYTES)
            return mc_failure_set(&job->http->failure, 400, "invalid_value", "echo",
                                  "echo: the prompts of %zu choices have more than %d bytes",
                                  count_choices(text), MAX_ECHOED_BYTES);
        if (status != MICA_OK) return mc_failure_of(&job->http->failure, status, "prompt");
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

/* Nothing is generated: the answer is the prompts. */
static void answer_echo(text_job *text) {
    mc_completion *job = &text->job;
    for (size_t i = 0; i < job->count; i++)
        job->prompt_tokens += (int64_t)job->prompts[i].n;
    job->http->prompt_tokens = job->prompt_tokens;
    for (size_t i = 0; i < count_choices(text); i++) {
        text->choices[i].finish = MICA_FINISH_LENGTH;
        if (text->stream) send_event(text, i, "length");
    }
    on_done(job);
    if (text->stream) mc_completion_stream(job, NULL);
}

/* Begins the answers, behind the prompts where these are told. */
static bool begin_answers(text_job *text) {
    mc_completion *job = &text->job;
    if (text->stream && text->echo && !check_echo(text)) return false;
    if (!text->options.max_tokens) {
        answer_echo(text);
        return true;
    }
    if (!mc_completion_start(job, &text->options)) return false;
    if (text->stream) mc_completion_stream(job, NULL);
    return true;
}

/* ---- the prompts' own log-probabilities ---- */

static text_job *text_of_scoring(mc_evaluation *scoring) {
    return (text_job *)(void *)((char *)scoring - offsetof(text_job, scoring));
}

/* Adds the tokens of a prompt with what the model makes of them. */
static mica_status add_scores(text_job *text, const mc_completion_prompt *prompt,
                              mc_logprobs *logprobs) {
    const mica_task_options options = {.struct_bytes = sizeof options,
                                       .progress = mc_evaluation_progress,
                                       .progress_user = &text->scoring,
                                       .cancel = &text->scoring.cancel};
    const mica_tokenizer *tok = mica_model_tokenizer(text->job.served->model);
    const int64_t top = text->options.top_logprobs;
    const mc_session_model *model;
    mica_score_result *result = NULL;
    mica_alternative *alternatives = NULL;
    mica_status status = mc_model_local(text->job.served->model, &model);
    if (status == MICA_OK && prompt->n > 1)
        status = mc_score_top(model, prompt->ids, prompt->n, top, &options, &result, &alternatives);
    if (status == MICA_OK && !mc_logprobs_add(logprobs, tok, prompt->ids[0], NULL, NULL, 0))
        status = mc_fail_nomem("log-probabilities");
    for (size_t i = 1; status == MICA_OK && i < prompt->n; i++)
        if (!mc_logprobs_add(logprobs, tok, prompt->ids[i], &result->logprobs[i],
                             top ? alternatives + i * (size_t)top : NULL, (size_t)top))
            status = mc_fail_nomem("log-probabilities");
    mica_score_free(&result);
    mc_free(alternatives);
    return status;
}

static bool run_scoring(mc_evaluation *scoring) {
    text_job *text = text_of_scoring(scoring);
    const mc_completion *job = &text->job;
    mica_status status = MICA_OK;
    for (size_t i = 0; status == MICA_OK && i < count_choices(text); i++) {
        const mc_completion_prompt *prompt = &job->prompts[i / job->choices];
        mc_logprobs *logprobs = &text->choices[i].logprobs;
        if (i % job->choices == 0) {
            status = add_scores(text, prompt, logprobs);
            job->http->prompt_tokens += (int64_t)prompt->n;
        } else if (!mc_logprobs_copy(logprobs, &text->choices[i - 1].logprobs)) {
            status = mc_fail_nomem("an answer");
        }
    }
    return status == MICA_OK || mc_evaluation_fail(scoring, status, "prompt");
}

static bool follow_scoring(mc_evaluation *scoring) {
    return begin_answers(text_of_scoring(scoring));
}

static void hang_up_scoring(mc_evaluation *scoring) {
    mc_completion_hangup(&text_of_scoring(scoring)->job);
}

static void close_scoring(mc_evaluation *scoring) {
    mc_completion_close(&text_of_scoring(scoring)->job);
}

static const mc_evaluation_ops scoring_ops = {.kind = MC_EVALUATION_SCORE,
                                              .run = run_scoring,
                                              .close = close_scoring,
                                              .follow = follow_scoring,
                                              .hangup = hang_up_scoring};

/* Has the prompts scored, and the answers begun behind that. */
static bool start_scoring(text_job *text) {
    mc_completion *job = &text->job;
    mc_exchange *http = job->http;
    /* What may take long is done here, and kept: others wait for the evaluator's thread. */
    if (!mc_answer_form_check(&job->form, job->served->model, http->key, &http->failure))
        return false;
    text->scoring = (mc_evaluation){.ops = &scoring_ops, .http = http, .served = job->served};
    return mc_evaluation_start(&text->scoring, &http->server->evaluator);
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
                .asked_tokens = values->max_tokens > 0 ? values->max_tokens : 0,
                .asked_field = "max_tokens",
                .comments = values->generation.stream,
                .whole = !values->generation.stream},
        .stream = values->generation.stream,
        .usage = values->generation.include_usage,
        .echo = values->echo,
        .logprobs = values->logprobs >= 0,
        .created = (int64_t)time(NULL),
        .choices = mc_calloc(count * (size_t)values->generation.n, sizeof(text_choice)),
    };
    mc_chance_name("cmpl", text->id);
    if (text->choices) return text;
    on_close(&text->job);
    return NULL;
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

static bool start(text_job *text, const text_values *values) {
    mica_generate_options *options = &text->options;
    options->max_tokens = values->max_tokens >= 0 ? values->max_tokens : DEFAULT_TOKENS;
    options->logprobs = text->logprobs;
    options->top_logprobs = values->logprobs > 0 ? (int)values->logprobs : 0;
    mc_completion_attach(&text->job);
    if (!mc_completion_check(&text->job) || !read_form(text, values)) return false;
    if (text->echo && (!check_contexts(text) || !check_size(text) || !echo_prompts(text)))
        return false;
    return text->echo && text->logprobs ? start_scoring(text) : begin_answers(text);
}

/* The prompts of texts that are filled in up to the suffix, and what ends the answers.
 * returns  false: http->failure says why, and *prompts is NULL */
static bool read_gaps(mc_exchange *http, const text_values *values, const mica_tokenizer *tok,
                      mc_arena *arena, mica_generate_options *options,
                      mc_completion_prompt **prompts, size_t *count) {
    mc_failure *failure = &http->failure;
    mc_json all = values->prompt;
    bool one = mc_json_get_type(all) == MC_JSON_STRING;
    mc_json_iter it = mc_json_begin(all);
    size_t n = one ? 1 : mc_json_count(all), i = 0;
    mc_fim fim;
    mc_str text;
    *prompts = NULL;
    if (values->echo)
        return mc_failure_set(failure, 400, "invalid_value", "echo",
                              "echo: prompts with a suffix are not repeated");
    if (!mc_fim_find(tok, "suffix", &fim, failure)) return false;
    if (n == 0 || n > MC_PROMPTS)
        return mc_failure_set(failure, 400, "invalid_value", "prompt", "prompt: want 1 to %d texts",
                              MC_PROMPTS);
    mc_completion_prompt *made = mc_calloc(n, sizeof *made);
    bool done = (made && mc_fim_stops(tok, &fim, arena, options)) ||
                mc_failure_of(failure, mc_fail_nomem("prompts"), NULL);
    for (; done && (one ? i == 0 : mc_json_next(&it)); i++)
        done = mc_json_get_str(one ? all : it.value, &text)
                   ? mc_fim_encode(tok, &fim, text, values->suffix, (mc_str){NULL, 0}, NULL, 0,
                                   "prompt", &made[i], failure)
                   : mc_failure_set(failure, 400, "invalid_type", "prompt",
                                    "prompt: with a suffix, want a text, or texts");
    if (!done) {
        mc_prompts_free(made, n);
        return false;
    }
    *prompts = made;
    *count = n;
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
    mc_arena arena = {0};
    bool done = mc_generation_options(&values.generation, vocab, &arena, &options, &http->failure);
    if (done && values.suffix.len)
        done = read_gaps(http, &values, tok, &arena, &options, &prompts, &count);
    else if (done)
        done = mc_prompts_read(values.prompt, "prompt", tok, vocab, NULL, &prompts, &count,
                               &http->failure);
    if (!done) {
        mc_arena_deinit(&arena);
        return false;
    }
    done = count * (size_t)values.generation.n <= MC_PROMPTS ||
           mc_failure_set(&http->failure, 400, "invalid_value", "n",
                          "n: want %d answers or fewer to all prompts", MC_PROMPTS);
    text_job *text = done ? new_job(http, &values, served, prompts, count) : NULL;
    if (text) {
        text->job.arena = arena; /* later prompts need the options, too */
        text->options = options;
        return start(text, &values);
    }
    if (done) mc_failure_of(&http->failure, mc_fail_nomem("a request"), NULL);
    mc_prompts_free(prompts, count);
    mc_arena_deinit(&arena);
    return false;
}

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT("POST", "/v1/completions", complete,
                .tables = {{fields, sizeof fields / sizeof *fields, 0},
                           {mc_openai_structured_fields, MC_OPENAI_STRUCTURED_FIELDS, AT(wish)},
                           {mc_generation_fields, MC_GENERATION_FIELDS, AT(generation)}},
                .help = "the continuation of raw texts"),
};

const mc_endpoint_list mc_endpoints_openai_text = {"OpenAI: texts", endpoints,
                                                   sizeof endpoints / sizeof *endpoints};
