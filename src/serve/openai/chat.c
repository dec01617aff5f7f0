/* /v1/chat/completions: answers to conversations. */
#include "serve/common/chance.h"
#include "serve/common/generation.h"
#include "serve/http/endpoint.h"
#include "serve/jobs/chat_prompt.h"
#include "serve/jobs/state.h"
#include "serve/openai/delta.h"
#include "serve/openai/form.h"
#include "serve/openai/openai.h"

#include "base/alloc.h"

#include <string.h>
#include <time.h>

typedef struct chat_values {
    mc_generation generation;
    mc_chat_values chat;
    mc_openai_wish wish;
    int64_t max_tokens, max_completion_tokens, top_logprobs;
    int64_t budget, other_budget, reasoning_budget; /* of thoughts; -1: not given */
    int effort;                                     /* as chat.effort */
    bool logprobs;
} chat_values;

#define AT(member) offsetof(chat_values, member)

static const mc_field reasoning_fields[] = {
    MC_FIELD_AT(CHOICE, "effort", AT(effort), .choices = mc_chat_efforts,
                .help = "as reasoning_effort"),
    MC_FIELD_AT(INT, "max_tokens", AT(reasoning_budget), .max = INT32_MAX, .initial = -1,
                .help = "as thinking_token_budget"),
    MC_FIELD(ONLY, "exclude", .choices = "false", .help = "thoughts are told"),
};

static const mc_field fields[] = {
    MC_FIELD_AT(
        INT, "thinking_token_budget", AT(budget), .min = -1, .max = INT32_MAX, .initial = -1,
        .help = "after so many tokens of thoughts these are ended, and the answer follows; -1: no "
                "limit. vLLM's name. Refused above 0 where the chat template marks no thoughts"),
    MC_FIELD_AT(INT, "reasoning_budget_tokens", AT(other_budget), .min = -1, .max = INT32_MAX,
                .initial = -1, .help = "the same; llama-server's name"),
    MC_FIELD(OBJECT, "reasoning", .fields = reasoning_fields, .count = 3),
    MC_FIELD_AT(INT, "max_tokens", AT(max_tokens), .min = 1, .max = INT32_MAX,
                .help = "limit of the answer's tokens; without it, the end of the context"),
    MC_FIELD_AT(INT, "max_completion_tokens", AT(max_completion_tokens), .min = 1, .max = INT32_MAX,
                .help = "the same"),
    MC_FIELD_AT(BOOL, "logprobs", AT(logprobs), .help = "also the tokens' log-probabilities"),
    MC_FIELD_AT(INT, "top_logprobs", AT(top_logprobs), .max = 20,
                .help = "and those of the likeliest tokens in their places"),
    MC_FIELD_AT(JSON, "tools", AT(wish.tools), .types = MC_FIELD_IS_ARRAY,
                .help = "functions that the model may call. Tools of other types are left out, "
                        "which the header mica-left-out and the log tell. A chat template without "
                        "a place for tools has them in its system message"),
    MC_FIELD_AT(JSON, "response_format", AT(wish.format), .types = MC_FIELD_IS_OBJECT,
                .help = "text, json_object, json_schema, regex with regex, or grammar with grammar "
                        "(Lark's notation or GBNF): answers keep to it; what is not supported of "
                        "schemas, expressions and grammars is refused by its place"),
    MC_FIELD(ONLY, "modalities", .choices = "[\"text\"]"),
    MC_FIELD(ONLY, "verbosity", .choices = "\"low\" \"medium\" \"high\"",
             .help = "advice that no chat template has a place for"),
    MC_FIELD(REFUSED, "audio", .help = "models write text only"),
    MC_FIELD(NOTED, "prediction",
             .help = "advice of what the answer will be, which makes none faster here: "
                     "the server drafts from the conversation itself"),
    MC_FIELD(REFUSED, "web_search_options", .help = "there is no search"),
    MC_FIELD(REFUSED, "functions", .help = "tools took their place"),
    MC_FIELD(REFUSED, "function_call", .help = "tool_choice took its place"),
};

/* ---- the job ---- */

typedef struct chat_job chat_job;

typedef struct chat_choice {
    chat_job *chat;
    size_t index;
    mc_splitter *splitter;     /* NULL: the answer has no parts */
    size_t calls;              /* of tools, so far */
    bool broken;               /* one of them is not complete */
    mc_buffer text;            /* of an answer that is not streamed */
    mc_buffer thoughts;        /* the same */
    mc_buffer name, arguments; /* of the call that comes */
    mc_buffer tools;           /* calls of tools: elements of JSON, with commas between them */
    mc_buffer logprobs;        /* elements of JSON, with commas between them */
    mica_finish finish;
} chat_choice;

struct chat_job {
    mc_completion job;
    bool stream, usage, logprobs;
    int64_t created;
    char id[MC_NAME_BYTES];
    mc_buffer scratch, token; /* of the event that is being written */
    chat_choice *choices;     /* [job.choices] */
};

static chat_job *chat_of(mc_completion *job) {
    return (chat_job *)(void *)job;
}

/* ---- streamed ---- */

static mc_put begin_event(chat_job *chat) {
    mc_buffer_clear(&chat->scratch);
    mc_put put = mc_put_into(&chat->scratch);
    mc_put_open(&put, NULL, '{');
    mc_openai_put_head(&put, chat->id, "chat.completion.chunk", chat->created,
                       mc_models_name(chat->job.http));
    mc_put_open(&put, "choices", '[');
    return put;
}

static bool end_event(chat_job *chat, mc_put *put) {
    mc_put_close(put, ']');
    if (chat->usage) mc_put_null(put, "usage");
    mc_put_close(put, '}');
    return !put->failed &&
           mc_exchange_event(chat->job.http, NULL, chat->scratch.data, chat->scratch.len);
}

/* What an event says of its choice; zero is nothing. */
typedef struct delta {
    bool role; /* the first event */
    const mc_piece *piece;
    const mica_token *logprob;
    const char *finish; /* the last event */
} delta;

static bool send_event(chat_choice *choice, const delta *d) {
    chat_job *chat = choice->chat;
    mc_put put = begin_event(chat);
    mc_put_open(&put, NULL, '{');
    mc_put_int(&put, "index", (int64_t)choice->index);
    mc_openai_put_delta(&put, &(mc_openai_delta){d->role, d->logprob != NULL, d->piece},
                        &choice->calls);
    if (d->logprob) {
        mc_put_open(&put, "logprobs", '{');
        mc_put_open(&put, "content", '[');
        mc_openai_put_logprob(&put, mica_model_tokenizer(chat->job.served->model), d->logprob,
                              &chat->token);
        mc_put_close(&put, ']');
        mc_put_null(&put, "refusal");
        mc_put_close(&put, '}');
    } else {
        mc_put_null(&put, "logprobs");
    }
    mc_put_text(&put, "finish_reason", d->finish);
    mc_put_close(&put, '}');
    return end_event(chat, &put);
}

/* ---- whole ---- */

static const char *finish_of(const chat_choice *choice) {
    bool calls = choice->calls && !choice->broken; /* which are to be run */
    if (calls && choice->finish == MICA_FINISH_STOP) return "tool_calls";
    return mc_openai_finish(choice->finish);
}

static void put_choice(mc_put *put, chat_job *chat, size_t index) {
    const chat_choice *choice = &chat->choices[index];
    mc_put_open(put, NULL, '{');
    mc_put_int(put, "index", (int64_t)index);
    mc_put_open(put, "message", '{');
    mc_put_text(put, "role", "assistant");
    if (choice->calls && !choice->text.len)
        mc_put_null(put, "content");
    else
        mc_put_str(put, "content", (mc_str){choice->text.data, choice->text.len});
    if (choice->thoughts.len)
        mc_put_str(put, "reasoning_content", (mc_str){choice->thoughts.data, choice->thoughts.len});
    if (choice->calls) mc_put_list(put, "tool_calls", &choice->tools);
    mc_put_null(put, "refusal");
    mc_put_close(put, '}');
    if (chat->logprobs) {
        mc_put_open(put, "logprobs", '{');
        mc_put_list(put, "content", &choice->logprobs);
        mc_put_null(put, "refusal");
        mc_put_close(put, '}');
    } else {
        mc_put_null(put, "logprobs");
    }
    mc_put_text(put, "finish_reason", finish_of(choice));
    mc_put_close(put, '}');
}

static void send_whole(chat_job *chat) {
    mc_completion *job = &chat->job;
    mc_put put = mc_put_into(&job->http->out);
    mc_put_open(&put, NULL, '{');
    mc_openai_put_head(&put, chat->id, "chat.completion", chat->created, mc_models_name(job->http));
    mc_put_open(&put, "choices", '[');
    for (size_t i = 0; i < job->choices; i++)
        put_choice(&put, chat, i);
    mc_put_close(&put, ']');
    mc_openai_put_usage(&put, job);
    mc_put_close(&put, '}');
    mc_completion_reply(job, !put.failed);
}

/* ---- its ops ---- */

/* Adds the call that has come, complete or not. */
static bool add_call(chat_choice *choice) {
    mc_put put = mc_put_into(&choice->tools);
    put.comma = choice->calls++ > 0;
    mc_openai_put_call(&put, -1, (mc_str){choice->name.data, choice->name.len},
                       (mc_str){choice->arguments.data, choice->arguments.len});
    mc_buffer_clear(&choice->name);
    mc_buffer_clear(&choice->arguments);
    return !put.failed;
}

static mica_status send_part(chat_choice *choice, const mc_piece *piece) {
    if (piece->kind == MC_PIECE_CALL_END || send_event(choice, &(delta){.piece = piece}))
        return MICA_OK;
    return mc_fail(MICA_ECANCELLED, "the client is gone");
}

/* Takes a part of an answer. */
static mica_status take_piece(void *user, const mc_piece *piece) {
    chat_choice *choice = user;
    bool done = false;
    choice->broken = choice->broken || piece->broken;
    if (choice->chat->stream) return send_part(choice, piece);
    switch (piece->kind) {
    case MC_PIECE_TEXT:
        done = mc_buffer_add(&choice->text, piece->text.ptr, piece->text.len);
        break;
    case MC_PIECE_THOUGHT:
        done = mc_buffer_add(&choice->thoughts, piece->text.ptr, piece->text.len);
        break;
    case MC_PIECE_CALL_BEGIN:
        done = mc_buffer_add(&choice->name, piece->name.ptr, piece->name.len);
        break;
    case MC_PIECE_CALL_TEXT:
        done = mc_buffer_add(&choice->arguments, piece->text.ptr, piece->text.len);
        break;
    default:
        done = add_call(choice);
        break;
    }
    return done ? MICA_OK : mc_fail_nomem("an answer");
}

static mica_status add_logprob(chat_choice *choice, const mica_token *token) {
    mc_put put = mc_put_into(&choice->logprobs);
    if (choice->chat->stream) return MICA_OK;
    put.comma = choice->logprobs.len > 0;
    mc_openai_put_logprob(&put, mica_model_tokenizer(choice->chat->job.served->model), token,
                          &choice->chat->token);
    return put.failed ? mc_fail_nomem("an answer") : MICA_OK;
}

static mica_status add_token(chat_choice *choice, const mica_token *token) {
    chat_job *chat = choice->chat;
    bool logprob = chat->logprobs && token->id >= 0;
    const mc_piece text = {.kind = MC_PIECE_TEXT, .text = {token->text, token->len}};
    if (logprob) MC_TRY(add_logprob(choice, token));
    if (choice->splitter) {
        bool thought = mc_splitter_is_thinking(choice->splitter);
        MC_TRY(mc_splitter_push_token(choice->splitter, token->id, token->text, token->len));
        if (thought || mc_splitter_is_thinking(choice->splitter)) chat->job.thought_tokens++;
    }
    if (!chat->stream || (!logprob && (choice->splitter || !token->len)))
        return choice->splitter || !token->len ? MICA_OK : take_piece(choice, &text);
    const delta d = {.piece = choice->splitter || !token->len ? NULL : &text,
                     .logprob = logprob ? token : NULL};
    return send_event(choice, &d) ? MICA_OK : mc_fail(MICA_ECANCELLED, "the client is gone");
}

static bool on_token(mc_completion *job, size_t choice, const mica_token *token) {
    return mc_completion_note(job, add_token(&chat_of(job)->choices[choice], token));
}

static void on_end(mc_completion *job, size_t choice, const mc_choice_end *end) {
    chat_choice *at = &chat_of(job)->choices[choice];
    at->finish = end->finish;
    if (at->splitter && end->status == MICA_OK)
        mc_completion_note(job, mc_splitter_end(at->splitter));
    const char *finish = finish_of(at);
    if (at->chat->stream && finish) send_event(at, &(delta){.finish = finish});
}

static void on_done(mc_completion *job) {
    chat_job *chat = chat_of(job);
    if (chat->stream)
        mc_openai_end_stream(job, &chat->scratch, chat->usage, chat->id, "chat.completion.chunk",
                             chat->created);
    else
        send_whole(chat);
}

static void on_close(mc_completion *job) {
    chat_job *chat = chat_of(job);
    for (size_t i = 0; chat->choices && i < job->choices; i++) {
        mc_splitter_close(&chat->choices[i].splitter);
        mc_buffer_deinit(&chat->choices[i].text);
        mc_buffer_deinit(&chat->choices[i].thoughts);
        mc_buffer_deinit(&chat->choices[i].name);
        mc_buffer_deinit(&chat->choices[i].arguments);
        mc_buffer_deinit(&chat->choices[i].tools);
        mc_buffer_deinit(&chat->choices[i].logprobs);
    }
    mc_buffer_deinit(&chat->scratch);
    mc_buffer_deinit(&chat->token);
    mc_free(chat->choices);
    mc_free(chat);
}

static const mc_completion_ops ops = {on_token, on_end, on_done, on_close};

/* ---- the request ---- */

/* What the answer may have at most, by either field; 0: neither is given. */
static int64_t tokens_of(const chat_values *values) {
    return values->max_tokens ? values->max_tokens : values->max_completion_tokens;
}

static chat_job *new_job(mc_exchange *http, const chat_values *values, mc_served *served) {
    chat_job *chat = mc_calloc(1, sizeof *chat);
    if (!chat) return NULL;
    *chat = (chat_job){
        .job = {.ops = &ops,
                .http = http,
                .served = served,
                .prompts = mc_calloc(1, sizeof(mc_completion_prompt)),
                .count = 1,
                .choices = (size_t)values->generation.n,
                .priority = (int)values->generation.priority,
                .asked_tokens = tokens_of(values),
                .asked_field = values->max_tokens ? "max_tokens" : "max_completion_tokens",
                .comments = values->generation.stream,
                .whole = !values->generation.stream},
        .stream = values->generation.stream,
        .usage = values->generation.include_usage,
        .logprobs = values->logprobs,
        .created = (int64_t)time(NULL),
        .choices = mc_calloc((size_t)values->generation.n, sizeof(chat_choice)),
    };
    mc_chance_name("chatcmpl", chat->id);
    if (chat->job.prompts && chat->choices) return chat;
    mc_free(chat->job.prompts);
    on_close(&chat->job);
    return NULL;
}

/* Sets what has several names. */
static bool read_reasoning(chat_values *values, mc_failure *failure) {
    static const char *const fields_of[] = {"thinking_token_budget", "reasoning_budget_tokens",
                                            "reasoning.max_tokens"};
    const int64_t budgets[] = {values->budget, values->other_budget, values->reasoning_budget};
    mc_openai_wish *wish = &values->wish;
    wish->budget = -1;
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        if (budgets[i] < 0) continue;
        if (wish->budget >= 0 && wish->budget != budgets[i])
            return mc_failure_set(failure, 400, "invalid_value", "thinking_token_budget",
                                  "thinking_token_budget, reasoning_budget_tokens and "
                                  "reasoning.max_tokens differ");
        wish->budget = budgets[i];
        wish->budget_field = fields_of[i];
    }
    if (values->effort && values->chat.effort && values->effort != values->chat.effort)
        return mc_failure_set(failure, 400, "invalid_value", "reasoning_effort",
                              "reasoning_effort and reasoning.effort differ");
    if (values->effort) values->chat.effort = values->effort;
    wish->effort = values->chat.effort;
    wish->shape = MC_OPENAI_CHAT;
    return true;
}

static bool check(const chat_values *values, mc_failure *failure) {
    if (values->max_tokens && values->max_completion_tokens &&
        values->max_tokens != values->max_completion_tokens)
        return mc_failure_set(failure, 400, "invalid_value", "max_tokens",
                              "max_tokens and max_completion_tokens differ");
    if (values->top_logprobs && !values->logprobs)
        return mc_failure_set(failure, 400, "invalid_value", "top_logprobs",
                              "top_logprobs needs logprobs");
    return true;
}

/* Each choice of an answer that may have parts splits its own. */
static mica_status open_choices(chat_job *chat) {
    const mc_answer_form *form = &chat->job.form;
    bool parts = form->tools_text.len || form->format.think_end;
    for (size_t i = 0; i < chat->job.choices; i++) {
        chat_choice *at = &chat->choices[i];
        at->chat = chat;
        at->index = i;
        if (parts) MC_TRY(mc_answer_form_split(form, take_piece, at, &at->splitter));
        if (parts) mc_splitter_stream_calls(at->splitter); /* broken ones are the same, whole */
    }
    return MICA_OK;
}

/* Renders the prompt, and makes what constrains and splits its answers. */
static bool prepare(chat_job *chat, chat_values *values) {
    mc_completion *job = &chat->job;
    mc_failure *failure = &job->http->failure;
    mc_chat_prompt prompt = {.field = NULL};
    bool done = mc_openai_form_read(&values->wish, &job->form, failure) &&
                mc_chat_prompt_set(&prompt, &values->chat, failure) &&
                mc_chat_prompt_prepare(job, &prompt);
    mc_buffer_deinit(&prompt.messages);
    mica_status status = done ? open_choices(chat) : MICA_OK;
    return status == MICA_OK ? done : mc_failure_of(failure, status, NULL);
}

static bool start(chat_job *chat, chat_values *values, const mica_generate_options *options) {
    mc_completion *job = &chat->job;
    mc_completion_attach(job);
    if (!prepare(chat, values)) return false;
    for (size_t i = 0; chat->stream && i < job->choices; i++)
        send_event(&chat->choices[i], &(delta){.role = true}); /* waits until the stream begins */
    if (!mc_completion_start(job, options)) return false;
    if (chat->stream) mc_completion_stream(job, NULL);
    return true;
}

static bool chat(mc_exchange *http) {
    chat_values values;
    mica_generate_options options;
    mc_arena arena = {0};
    if (!mc_exchange_read(http, &values) || !check(&values, &http->failure) ||
        !read_reasoning(&values, &http->failure))
        return false;
    const mc_generation *generation = &values.generation;
    mc_served *served = mc_models_take(&http->server->models, http, generation->model);
    if (!served) return false;
    size_t vocab = mica_tokenizer_vocab_size(mica_model_tokenizer(served->model));
    bool done = mc_generation_options(generation, vocab, &arena, &options, &http->failure);
    options.max_tokens = tokens_of(&values);
    options.logprobs = values.logprobs;
    options.top_logprobs = (int)values.top_logprobs;
    chat_job *job = done ? new_job(http, &values, served) : NULL;
    if (done && !job) done = mc_failure_of(&http->failure, mc_fail_nomem("a request"), NULL);
    done = done && start(job, &values, &options);
    mc_arena_deinit(&arena);
    return done;
}

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT("POST", "/v1/chat/completions", chat,
                .tables = {{fields, sizeof fields / sizeof *fields, 0},
                           {mc_chat_fields, MC_CHAT_FIELDS, AT(chat)},
                           {mc_openai_tool_fields, MC_OPENAI_TOOL_FIELDS, AT(wish)},
                           {mc_openai_structured_fields, MC_OPENAI_STRUCTURED_FIELDS, AT(wish)},
                           {mc_generation_fields, MC_GENERATION_FIELDS, AT(generation)}},
                .help = "an answer to a conversation"),
};

const mc_endpoint_list mc_endpoints_openai_chat = {"OpenAI: chats", endpoints,
                                                   sizeof endpoints / sizeof *endpoints};
