/* /v1/chat/completions: answers to conversations. */
#include "serve/chance.h"
#include "serve/endpoint.h"
#include "serve/generation.h"
#include "serve/openai.h"
#include "serve/state.h"
#include "serve/talk.h"

#include "base/alloc.h"

#include <string.h>
#include <time.h>

typedef struct chat_values {
    mc_generation generation;
    mc_talk talk;
    int64_t max_tokens, max_completion_tokens, top_logprobs;
    bool logprobs;
} chat_values;

#define AT(member) offsetof(chat_values, member)

static const mc_field fields[] = {
    {.name = "max_tokens",
     .kind = MC_FIELD_INT,
     .min = 1,
     .max = INT32_MAX,
     .offset = AT(max_tokens),
     .help = "limit of the answer's tokens; without it, the end of the context"},
    {.name = "max_completion_tokens",
     .kind = MC_FIELD_INT,
     .min = 1,
     .max = INT32_MAX,
     .offset = AT(max_completion_tokens),
     .help = "the same"},
    {.name = "logprobs",
     .kind = MC_FIELD_BOOL,
     .offset = AT(logprobs),
     .help = "also the tokens' log-probabilities"},
    {.name = "top_logprobs",
     .kind = MC_FIELD_INT,
     .max = 20,
     .offset = AT(top_logprobs),
     .help = "and those of the likeliest tokens in their places"},
    {.name = "tool_choice", .kind = MC_FIELD_ONLY, .choices = "\"none\" \"auto\""},
    {.name = "parallel_tool_calls", .kind = MC_FIELD_ONLY, .choices = "true false"},
    {.name = "response_format",
     .kind = MC_FIELD_REFUSED,
     .help = "answers are not constrained yet"},
    {.name = "modalities", .kind = MC_FIELD_ONLY, .choices = "[\"text\"]"},
    {.name = "verbosity", .kind = MC_FIELD_ONLY, .choices = "\"medium\""},
    {.name = "audio", .kind = MC_FIELD_REFUSED, .help = "models write text only"},
    {.name = "prediction",
     .kind = MC_FIELD_REFUSED,
     .help = "tokens are drafted from the conversation itself"},
    {.name = "web_search_options", .kind = MC_FIELD_REFUSED, .help = "there is no search"},
    {.name = "functions", .kind = MC_FIELD_REFUSED, .help = "tools took their place"},
    {.name = "function_call", .kind = MC_FIELD_REFUSED, .help = "tool_choice took its place"},
};

/* ---- the job ---- */

typedef struct chat_choice {
    mc_buffer text;     /* of an answer that is not streamed */
    mc_buffer logprobs; /* elements of JSON, with commas between them */
    mica_finish finish;
} chat_choice;

typedef struct chat_job {
    mc_completion job;
    bool stream, usage, logprobs;
    int64_t created;
    char id[MC_NAME_BYTES];
    mc_buffer scratch, token; /* of the event that is being written */
    chat_choice *choices;     /* [job.choices] */
} chat_job;

static chat_job *chat_of(mc_completion *job) {
    return (chat_job *)(void *)job;
}

static void put_logprob(mc_put *put, chat_job *chat, const mica_token *token) {
    const mica_tokenizer *tok = mica_model_tokenizer(chat->job.served->model);
    mc_put_open(put, NULL, '{');
    mc_openai_put_token(put, tok, token->id, (double)token->logprob, &chat->token);
    mc_put_open(put, "top_logprobs", '[');
    for (size_t i = 0; i < token->alternative_count; i++) {
        const mica_alternative *other = &token->alternatives[i];
        mc_put_open(put, NULL, '{');
        mc_openai_put_token(put, tok, other->id, (double)other->logprob, &chat->token);
        mc_put_close(put, '}');
    }
    mc_put_close(put, ']');
    mc_put_close(put, '}');
}

/* ---- streamed ---- */

static mc_put begin_event(chat_job *chat) {
    mc_buffer_clear(&chat->scratch);
    mc_put put = mc_put_into(&chat->scratch);
    mc_put_open(&put, NULL, '{');
    mc_openai_put_head(&put, chat->id, "chat.completion.chunk", chat->created,
                       chat->job.served->name);
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

/* role: the first event of a choice. finish NULL: not the last one. */
static bool send_event(chat_job *chat, size_t choice, bool role, mc_str text,
                       const mica_token *logprob, const char *finish) {
    mc_put put = begin_event(chat);
    mc_put_open(&put, NULL, '{');
    mc_put_int(&put, "index", (int64_t)choice);
    mc_put_open(&put, "delta", '{');
    if (role) mc_put_text(&put, "role", "assistant");
    if (role || text.len || logprob) mc_put_str(&put, "content", text);
    mc_put_close(&put, '}');
    if (logprob) {
        mc_put_open(&put, "logprobs", '{');
        mc_put_open(&put, "content", '[');
        put_logprob(&put, chat, logprob);
        mc_put_close(&put, ']');
        mc_put_close(&put, '}');
    } else {
        mc_put_null(&put, "logprobs");
    }
    mc_put_text(&put, "finish_reason", finish);
    mc_put_close(&put, '}');
    return end_event(chat, &put);
}

static void end_stream(chat_job *chat) {
    mc_completion *job = &chat->job;
    if (job->failure.status) {
        mc_openai_stream_failure(job, &chat->scratch);
    } else if (chat->usage) {
        mc_buffer_clear(&chat->scratch);
        mc_put put = mc_put_into(&chat->scratch);
        mc_put_open(&put, NULL, '{');
        mc_openai_put_head(&put, chat->id, "chat.completion.chunk", chat->created,
                           job->served->name);
        mc_put_open(&put, "choices", '[');
        mc_put_close(&put, ']');
        mc_openai_put_usage(&put, job);
        mc_put_close(&put, '}');
        if (!put.failed) mc_exchange_event(job->http, NULL, chat->scratch.data, chat->scratch.len);
    }
    mc_exchange_event(job->http, NULL, "[DONE]", 6);
    mc_exchange_end(job->http);
}

/* ---- whole ---- */

static void put_choice(mc_put *put, chat_job *chat, size_t index) {
    const chat_choice *choice = &chat->choices[index];
    mc_put_open(put, NULL, '{');
    mc_put_int(put, "index", (int64_t)index);
    mc_put_open(put, "message", '{');
    mc_put_text(put, "role", "assistant");
    mc_put_str(put, "content", (mc_str){choice->text.data, choice->text.len});
    mc_put_null(put, "refusal");
    mc_put_close(put, '}');
    if (chat->logprobs) {
        mc_put_open(put, "logprobs", '{');
        mc_put_open(put, "content", '[');
        if (choice->logprobs.len && !put->failed)
            put->failed = !mc_buffer_add(put->out, choice->logprobs.data, choice->logprobs.len);
        mc_put_close(put, ']');
        mc_put_close(put, '}');
    } else {
        mc_put_null(put, "logprobs");
    }
    mc_put_text(put, "finish_reason", mc_openai_finish(choice->finish));
    mc_put_close(put, '}');
}

static void send_whole(chat_job *chat) {
    mc_completion *job = &chat->job;
    mc_exchange *http = job->http;
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_openai_put_head(&put, chat->id, "chat.completion", chat->created, job->served->name);
    mc_put_open(&put, "choices", '[');
    for (size_t i = 0; i < job->choices; i++)
        put_choice(&put, chat, i);
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

/* ---- its ops ---- */

static bool on_token(mc_completion *job, size_t choice, const mica_token *token) {
    chat_job *chat = chat_of(job);
    const mica_token *logprob = chat->logprobs && token->id >= 0 ? token : NULL;
    mc_str text = {token->text, token->len};
    if (chat->stream)
        return (!text.len && !logprob) || send_event(chat, choice, false, text, logprob, NULL);
    chat_choice *at = &chat->choices[choice];
    bool done = mc_buffer_add(&at->text, text.ptr, text.len);
    if (done && logprob) {
        mc_put put = mc_put_into(&at->logprobs);
        put.comma = at->logprobs.len > 0;
        put_logprob(&put, chat, logprob);
        done = !put.failed;
    }
    if (!done && !job->failure.status)
        mc_failure_of(&job->failure, mc_fail_nomem("an answer"), NULL);
    return done;
}

static void on_end(mc_completion *job, size_t choice, const mc_choice_end *end) {
    chat_job *chat = chat_of(job);
    const char *finish = mc_openai_finish(end->finish);
    chat->choices[choice].finish = end->finish;
    if (chat->stream && finish) send_event(chat, choice, false, MC_STR(""), NULL, finish);
}

static void on_done(mc_completion *job) {
    chat_job *chat = chat_of(job);
    if (chat->stream)
        end_stream(chat);
    else
        send_whole(chat);
}

static void on_close(mc_completion *job) {
    chat_job *chat = chat_of(job);
    for (size_t i = 0; chat->choices && i < job->choices; i++) {
        mc_buffer_deinit(&chat->choices[i].text);
        mc_buffer_deinit(&chat->choices[i].logprobs);
    }
    mc_buffer_deinit(&chat->scratch);
    mc_buffer_deinit(&chat->token);
    mc_free(chat->choices);
    mc_free(chat);
}

static const mc_completion_ops ops = {on_token, on_end, on_done, on_close};

/* ---- the request ---- */

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
                .comments = values->generation.stream},
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

static bool check(const chat_values *values, mc_failure *failure) {
    if (values->max_tokens && values->max_completion_tokens &&
        values->max_tokens != values->max_completion_tokens)
        return mc_failure_set(failure, 400, "invalid_value", "max_tokens",
                              "max_tokens and max_completion_tokens differ");
    if (values->top_logprobs && !values->logprobs)
        return mc_failure_set(failure, 400, "invalid_value", "top_logprobs",
                              "top_logprobs needs logprobs");
    if (mc_json_count(values->talk.tools) > 0)
        return mc_failure_set(failure, 400, "unsupported_field", "tools",
                              "tools are not supported yet: calls in an answer would stay text");
    return true;
}

static bool chat(mc_exchange *http) {
    chat_values values;
    mica_generate_options options;
    mc_arena arena = {0};
    mc_completion_prompt prompt = {0};
    if (!mc_exchange_read(http, &values) || !check(&values, &http->failure)) return false;
    const mc_generation *generation = &values.generation;
    mc_served *served = mc_models_find(&http->server->models, generation->model, &http->failure);
    if (!served || !mc_talk_ids(&values.talk, served->model, &http->cancel, &prompt.ids, &prompt.n,
                                &http->failure))
        return false;
    size_t vocab = mica_tokenizer_vocab_size(mica_model_tokenizer(served->model));
    bool done = mc_generation_options(generation, vocab, &arena, &options, &http->failure);
    options.max_tokens = values.max_tokens ? values.max_tokens : values.max_completion_tokens;
    options.logprobs = values.logprobs;
    options.top_logprobs = (int)values.top_logprobs;
    chat_job *job = done ? new_job(http, &values, served) : NULL;
    if (done && !job) done = mc_failure_of(&http->failure, mc_fail_nomem("a request"), NULL);
    if (!done) {
        mica_free(prompt.ids);
    } else {
        job->job.prompts[0] = prompt;
        for (size_t i = 0; generation->stream && i < job->job.choices; i++)
            send_event(job, i, true, MC_STR(""), NULL, NULL); /* waits until the stream begins */
        done = mc_completion_start(&job->job, &options);
        if (done && generation->stream) mc_completion_stream(&job->job, NULL);
    }
    mc_arena_deinit(&arena);
    return done;
}

static const mc_endpoint endpoints[] = {
    {.method = "POST",
     .path = "/v1/chat/completions",
     .handle = chat,
     .tables = {{fields, sizeof fields / sizeof *fields, 0},
                {mc_talk_fields, MC_TALK_FIELDS, AT(talk)},
                {mc_generation_fields, MC_GENERATION_FIELDS, AT(generation)}},
     .help = "an answer to a conversation"},
};

const mc_endpoint_list mc_endpoints_openai_chat = {"OpenAI: chats", endpoints,
                                                   sizeof endpoints / sizeof *endpoints};
