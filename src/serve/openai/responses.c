/* /v1/responses: answers to items, which may continue an earlier response. */
#include "base/alloc.h"
#include "serve/common/generation.h"
#include "serve/http/endpoint.h"
#include "serve/jobs/chat_prompt.h"
#include "serve/jobs/state.h"
#include "serve/openai/form.h"
#include "serve/openai/openai.h"
#include "serve/openai/response.h"
#include "serve/openai/response_input.h"
#include "serve/openai/response_items.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct response_values {
    mc_generation generation;
    mc_openai_wish wish;
    mc_json input, include, metadata, variables;
    mc_str instructions, previous, cache_key, safety, user;
    int64_t max_tokens, top_logprobs;
    int truncation, summary, older_summary, verbosity;
    bool stores;
} response_values;

#define AT(member) offsetof(response_values, member)

enum { NOT_GIVEN = -1 };

static const mc_field reasoning_fields[] = {
    MC_FIELD_AT(CHOICE, "effort", AT(wish.effort), .choices = mc_chat_efforts,
                .help = "as reasoning_effort of chats"),
    MC_FIELD_AT(INT, "max_tokens", AT(wish.budget), .max = INT32_MAX, .initial = -1,
                .help = "after so many tokens of thoughts these are ended, and the answer follows. "
                        "Refused above 0 where the chat template marks no thoughts"),
    MC_FIELD_AT(
        CHOICE, "summary", AT(summary), .choices = "auto concise detailed", .initial = NOT_GIVEN,
        .help = "thoughts stand whole in the summary of their item; without it, in its content"),
    MC_FIELD_AT(CHOICE, "generate_summary", AT(older_summary), .choices = "auto concise detailed",
                .initial = NOT_GIVEN, .help = "the same"),
    MC_FIELD(ONLY, "context", .choices = "\"auto\""),
    MC_FIELD(ONLY, "mode", .choices = "\"standard\""),
};

static const char verbosities[] = "low medium high";

static const mc_field text_fields[] = {
    MC_FIELD_AT(JSON, "format", AT(wish.format), .types = MC_FIELD_IS_OBJECT,
                .help =
                    "type text, json_object, json_schema with name and schema, regex with regex, "
                    "or grammar with grammar: the answer keeps to it, if it ends by itself; what "
                    "is not supported of schemas, expressions and grammars is refused"),
    MC_FIELD_AT(CHOICE, "verbosity", AT(verbosity), .choices = verbosities, .initial = 1,
                .help = "advice that no chat template has a place for; repeated in the answer"),
};

static const mc_field stream_fields[] = {
    MC_FIELD(ONLY, "include_obfuscation", .choices = "false", .help = "events are not padded"),
};

static const mc_field fields[] = {
    MC_FIELD_AT(TEXT, "model", AT(generation.model),
                .help = "the model; without it, the first one"),
    MC_FIELD_AT(JSON, "input", AT(input), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
                .required = true,
                .help = "a user's text, or items: message, reasoning, function_call, "
                        "function_call_output, item_reference to an item of a response that the "
                        "server remembers; contents are text or parts input_text, output_text, "
                        "refusal; other items and parts (images, files, audio) are refused"),
    MC_FIELD_AT(TEXT, "instructions", AT(instructions),
                .help = "a system message before all others, of this response only"),
    MC_FIELD_AT(
        TEXT, "previous_response_id", AT(previous),
        .help = "continue the conversation of that response, which the server must still remember"),
    MC_FIELD_AT(BOOL, "store", AT(stores), .initial = 1,
                .help = "remember the response, in memory: up to 1024 of them and 64 MiB, then "
                        "those used least recently are forgotten"),
    MC_FIELD_AT(INT, "max_output_tokens", AT(max_tokens), .min = 1, .max = INT32_MAX,
                .help = "limit of the answer's tokens; without it, the end of the context"),
    MC_FIELD_TEMPERATURE("temperature", AT(generation.temperature), 1, 100),
    MC_FIELD_TOP_P("top_p", AT(generation.top_p), 1),
    MC_FIELD_TOP_K("top_k", AT(generation.top_k), 0),
    MC_FIELD_MIN_P("min_p", AT(generation.min_p), 0),
    MC_FIELD_AT(SEED, "seed", AT(generation.seed), .help = "the same seed gives the same answer"),
    MC_FIELD_AT(INT, "priority", AT(generation.priority), .min = -MC_MAX_PRIORITY,
                .max = MC_MAX_PRIORITY,
                .help = "requests of a higher one are computed first; above 0 only as far as the "
                        "server allows"),
    MC_FIELD_AT(JSON, "include", AT(include), .types = MC_FIELD_IS_ARRAY,
                .help = "message.output_text.logprobs: also the tokens' log-probabilities; "
                        "reasoning.encrypted_content: thoughts also sealed, for clients that keep "
                        "the conversation and send it back: the server reads them until it is "
                        "ended (without OpenSSL's libcrypto they are not sealed); parts of items "
                        "of tools, of which there are none; nothing else"),
    MC_FIELD_AT(INT, "top_logprobs", AT(top_logprobs), .max = 20,
                .help = "and those of the likeliest tokens in their places"),
    MC_FIELD_AT(CHOICE, "truncation", AT(truncation), .choices = "disabled auto",
                .help =
                    "auto: cut the beginning of a prompt that is too long; disabled: refuse it"),
    MC_FIELD_AT(
        JSON, "metadata", AT(metadata), .types = MC_FIELD_IS_OBJECT,
        .help = "up to 16 texts of up to 512 bytes, by names of up to 64, kept with the response"),
    MC_FIELD_AT(BOOL, "stream", AT(generation.stream),
                .help = "send the answer piece by piece, as server-sent events"),
    MC_FIELD(OBJECT, "stream_options", .fields = stream_fields, .count = 1),
    MC_FIELD(OBJECT, "reasoning", .fields = reasoning_fields, .count = 6),
    MC_FIELD(OBJECT, "text", .fields = text_fields, .count = 2),
    MC_FIELD_AT(JSON, "chat_template_kwargs", AT(variables), .types = MC_FIELD_IS_OBJECT,
                .help = "variables of the chat template"),
    MC_FIELD_AT(
        JSON, "tools", AT(wish.tools), .types = MC_FIELD_IS_ARRAY,
        .help =
            "functions that the model may call: type function, name, description, parameters, "
            "strict (false if it is not given). Tools of other types (those that a server runs, "
            "namespaces, custom ones) are left out, which the header mica-left-out and the log "
            "tell. A chat template without a place for tools has them in its system message"),
    MC_FIELD(NOTED, "max_tool_calls", .help = "of tools that the server runs; there are none"),
    MC_FIELD_AT(TEXT, "user", AT(user), .help = "repeated in the answer"),
    MC_FIELD_AT(TEXT, "safety_identifier", AT(safety),
                .help = "up to 64 characters, repeated in the answer"),
    MC_FIELD_AT(TEXT, "prompt_cache_key", AT(cache_key),
                .help = "repeated in the answer; beginnings of prompts are found without it"),
    MC_FIELD(ONLY, "prompt_cache_retention", .choices = "\"in_memory\" \"in-memory\" \"24h\"",
             .help = "beginnings of prompts are kept until others need the room"),
    MC_FIELD(NOTED, "service_tier", .help = "there is one tier: default"),
    MC_FIELD(NOTED, "client_metadata", .help = "what a client says of itself"),
    MC_FIELD(ONLY, "background", .choices = "false"),
    MC_FIELD(REFUSED, "background_options", .help = "see background"),
    MC_FIELD(REFUSED, "conversation",
             .help = "conversations are continued by previous_response_id"),
    MC_FIELD(REFUSED, "prompt", .help = "there are no stored prompts"),
    MC_FIELD(NOTED, "prompt_cache_options", .help = "caching is automatic"),
    MC_FIELD(NOTED, "context_management",
             .help = "advice of when to compact a conversation, which is read whole"),
    MC_FIELD(REFUSED, "moderation", .help = "nothing is moderated"),
    MC_FIELD(REFUSED, "image", .help = "models read and write text only"),
    MC_FIELD(REFUSED, "access_programs", .help = "there are none"),
};

/* ---- checks ---- */

/* Parts of items that no answer of mica's has: nothing is left out where they are asked for. */
static bool is_of_others(mc_str what) {
    static const char *const known[] = {
        "code_interpreter_call.outputs",  "computer_call_output.output.image_url",
        "file_search_call.results",       "message.input_image.image_url",
        "web_search_call.action.sources", "web_search_call.results",
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (mc_str_is(what, known[i])) return true;
    return false;
}

static bool read_include(mc_json include, mc_response *r) {
    mc_str what;
    for (mc_json_iter it = mc_json_begin(include); mc_json_next(&it);) {
        bool text = mc_json_get_str(it.value, &what);
        if (text && mc_str_is(what, "message.output_text.logprobs"))
            r->logprobs = true;
        else if (text && mc_str_is(what, "reasoning.encrypted_content"))
            r->output.seal = mc_response_seal_of(r->job.http);
        else if (!text || !is_of_others(what))
            return mc_failure_set(&r->job.http->failure, 400, "unsupported_value", "include",
                                  "include: mica supports only message.output_text.logprobs and "
                                  "reasoning.encrypted_content here");
    }
    return true;
}

/* ---- the conversation ---- */

/* Whether a conversation keeps to the limit of a body, for a short body may continue a long one.
 * *rest receives how much is left. */
static bool check_bytes(mc_response *r, uint64_t *rest) {
    uint64_t max = r->job.http->server->options.max_body, bytes = r->messages.len;
    *rest = bytes < max ? max - bytes : 0;
    return bytes <= max ||
           mc_failure_set(
               &r->job.http->failure, 413, "body_too_large", "input",
               "input: with the responses before, it has more than the %llu bytes that a "
               "body may have",
               (unsigned long long)max);
}

/* Reads the conversation into response->messages. */
static bool read_messages(mc_response *r, const response_values *values) {
    mc_exchange *http = r->job.http;
    bool found = true;
    if (values->previous.ptr &&
        !mc_response_store_find(&http->server->responses, http->key, values->previous, NULL, NULL,
                                &r->messages, &found))
        return mc_failure_of(&http->failure, mc_fail_nomem("a conversation"), NULL);
    if (!found)
        return mc_failure_set(&http->failure, 400, "previous_response_not_found",
                              "previous_response_id", "there is no response %.*s, or no longer",
                              (int)(values->previous.len < 60 ? values->previous.len : 60),
                              values->previous.ptr);
    if (mc_json_get_type(values->input) == MC_JSON_ARRAY && !mc_json_count(values->input))
        return mc_failure_set(&http->failure, 400, "invalid_value", "input", "input is empty");
    mc_json_doc *resolved;
    uint64_t rest;
    if (!check_bytes(r, &rest) || !mc_response_input_resolve(http, values->input, rest, &resolved))
        return false;
    mc_json input = resolved ? mc_json_root(resolved) : values->input;
    const mc_response_seal seal = mc_response_seal_of(http);
    bool done =
        mc_response_items_read(input, &seal, &r->messages, &http->failure) && check_bytes(r, &rest);
    if (done && r->stores && !mc_response_input_keep(input, r->id, &r->input))
        done = mc_failure_of(&http->failure, mc_fail_nomem("a conversation"), NULL);
    mc_json_close(&resolved);
    return done;
}

/* Makes the conversation a prompt, behind the instructions, and what the answer to it may be. */
static bool prepare(mc_response *r, const response_values *values) {
    mc_failure *failure = &r->job.http->failure;
    mc_chat_prompt chat = {.variables = values->variables,
                           .effort = mc_chat_effort(values->wish.effort),
                           .field = "input"};
    mc_put put = mc_put_into(&chat.messages);
    mc_put_open(&put, NULL, '[');
    if (values->instructions.ptr) {
        mc_put_open(&put, NULL, '{');
        mc_put_text(&put, "role", "system");
        mc_put_str(&put, "content", values->instructions);
        mc_put_close(&put, '}');
    }
    mc_put_members(&put, &r->messages);
    mc_put_close(&put, ']');
    bool done = put.failed ? mc_failure_of(failure, mc_fail_nomem("a conversation"), NULL)
                           : mc_openai_form_read(&values->wish, &r->job.form, failure) &&
                                 mc_chat_prompt_prepare(&r->job, &chat);
    mc_buffer_deinit(&chat.messages);
    mica_status status = done ? mc_response_split(r) : MICA_OK;
    return status == MICA_OK ? done : mc_failure_of(failure, status, NULL);
}

/* ---- what the answer repeats ---- */

static void put_given(mc_put *put, const char *key, mc_str text) {
    if (text.ptr)
        mc_put_str(put, key, text);
    else
        mc_put_null(put, key);
}

static void put_value(mc_put *put, const char *key, mc_json value, const char *absent) {
    if (mc_json_exists(value))
        mc_put_value(put, key, value);
    else
        mc_put_json(put, key, absent);
}

static bool tells_summary(const response_values *values) {
    return values->summary != NOT_GIVEN || values->older_summary != NOT_GIVEN;
}

static bool put_echo(const response_values *values, const char *model, mc_buffer *out) {
    mc_put put = mc_put_into(out);
    put_given(&put, "instructions", values->instructions);
    if (values->max_tokens)
        mc_put_int(&put, "max_output_tokens", values->max_tokens);
    else
        mc_put_null(&put, "max_output_tokens");
    mc_put_text(&put, "model", model);
    mc_put_bool(&put, "parallel_tool_calls", values->wish.parallel);
    put_given(&put, "previous_response_id", values->previous);
    mc_put_open(&put, "reasoning", '{');
    put_given(&put, "effort", mc_chat_effort(values->wish.effort));
    mc_put_text(&put, "summary", tells_summary(values) ? "detailed" : NULL);
    mc_put_close(&put, '}');
    mc_put_text(&put, "service_tier", "default");
    mc_put_bool(&put, "store", values->stores);
    mc_put_real(&put, "temperature", values->generation.temperature);
    mc_put_open(&put, "text", '{');
    put_value(&put, "format", values->wish.format, "{\"type\":\"text\"}");
    mc_put_str(&put, "verbosity", mc_field_word(verbosities, values->verbosity));
    mc_put_close(&put, '}');
    put_value(&put, "tool_choice", values->wish.choice, "\"auto\"");
    put_value(&put, "tools", values->wish.tools, "[]");
    mc_put_int(&put, "top_logprobs", values->top_logprobs);
    mc_put_real(&put, "top_p", values->generation.top_p);
    mc_put_text(&put, "truncation", values->truncation ? "auto" : "disabled");
    if (values->user.ptr) mc_put_str(&put, "user", values->user);
    if (values->safety.ptr) mc_put_str(&put, "safety_identifier", values->safety);
    if (values->cache_key.ptr) mc_put_str(&put, "prompt_cache_key", values->cache_key);
    put_value(&put, "metadata", values->metadata, "{}");
    return !put.failed;
}

/* ---- the request ---- */

static bool check_identifier(mc_str id, mc_failure *failure) {
    enum { MAX_CHARACTERS = 64 };
    size_t n = 0;
    for (size_t i = 0; i < id.len; i++)
        n += ((unsigned char)id.ptr[i] & 0xc0) != 0x80;
    if (n <= MAX_CHARACTERS) return true;
    return mc_failure_set(failure, 400, "invalid_value", "safety_identifier",
                          "safety_identifier: want up to %d characters", MAX_CHARACTERS);
}

static mc_response *new_response(mc_exchange *http, const response_values *values) {
    mc_served *served = mc_models_take(&http->server->models, http, values->generation.model);
    if (!served) return NULL;
    mc_response *r = mc_calloc(1, sizeof *r);
    mc_completion_prompt *prompts = mc_calloc(1, sizeof *prompts);
    if (!r || !prompts) {
        mc_free(r);
        mc_free(prompts);
        mc_failure_of(&http->failure, mc_fail_nomem("a request"), NULL);
        return NULL;
    }
    *r = (mc_response){
        .job = {.ops = &mc_response_ops,
                .http = http,
                .served = served,
                .prompts = prompts,
                .count = 1,
                .choices = 1,
                .priority = (int)values->generation.priority,
                .asked_tokens = values->max_tokens,
                .asked_field = "max_output_tokens",
                .comments = values->generation.stream,
                .whole = true},
        .stream = values->generation.stream,
        .stores = values->stores,
        .summary = tells_summary(values),
        .logprobs = values->top_logprobs > 0,
        .created = (int64_t)time(NULL),
    };
    mc_response_name("resp", r->id);
    r->output.response = r->id;
    return r;
}

/* Sets the fields of generation that responses do not have. */
static void set_generation(response_values *values) {
    mc_generation *g = &values->generation;
    g->repetition = 1;
    g->penalty_window = INT32_MAX;
    g->n = 1;
    g->truncate = values->truncation == 1;
    values->wish.shape = MC_OPENAI_RESPONSES;
    values->wish.budget_field = "reasoning.max_tokens";
}

static bool respond(mc_exchange *http) {
    response_values values;
    mica_generate_options options;
    mc_arena arena = {0};
    memset(&values, 0, sizeof values);
    if (!mc_exchange_read(http, &values) || !check_identifier(values.safety, &http->failure) ||
        !mc_openai_check_metadata(values.metadata, &http->failure))
        return false;
    set_generation(&values);
    mc_response *r = new_response(http, &values);
    if (!r) return false;
    const mica_model *model = r->job.served->model;
    mc_completion_attach(&r->job);
    if (!read_include(values.include, r) || !read_messages(r, &values) || !prepare(r, &values))
        return false;
    if (!put_echo(&values, mc_models_name(r->job.http), &r->echo))
        return mc_failure_of(&http->failure, mc_fail_nomem("a request"), NULL);
    size_t vocab = mica_tokenizer_vocab_size(mica_model_tokenizer(model));
    bool done = mc_generation_options(&values.generation, vocab, &arena, &options, &http->failure);
    options.max_tokens = values.max_tokens;
    options.logprobs = r->logprobs;
    options.top_logprobs = (int)values.top_logprobs;
    if (done && r->stream) mc_response_begin(r);
    done = done && mc_completion_start(&r->job, &options);
    if (done && values.generation.stream) mc_completion_stream(&r->job, NULL);
    mc_arena_deinit(&arena);
    return done;
}

/* ---- responses that are remembered ---- */

static bool is_missing(mc_exchange *http) {
    return mc_failure_set(&http->failure, 404, "response_not_found", "id",
                          "there is no response %.60s, or no longer", http->tail);
}

static bool retrieve(mc_exchange *http) {
    bool found;
    mc_str id = mc_str_of(http->tail);
    const mc_str items = MC_STR("/input_items");
    if (mc_str_ends(id, items)) {
        id.len -= items.len;
        return mc_response_input_list(http, id);
    }
    for (size_t i = 0; i < MC_EXCHANGE_QUERY; i++)
        if (http->query[i])
            return mc_failure_set(&http->failure, 400, "unknown_query", NULL,
                                  "a query is of /v1/responses/ID/input_items");
    if (!mc_response_store_find(&http->server->responses, http->key, id, &http->out, NULL, NULL,
                                &found))
        return mc_failure_of(&http->failure, mc_fail_nomem("an answer"), NULL);
    if (!found) return is_missing(http);
    mc_exchange_reply(http, 200, NULL);
    return true;
}

static bool forget(mc_exchange *http) {
    if (!mc_response_store_remove(&http->server->responses, http->key, mc_str_of(http->tail)))
        return is_missing(http);
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "id", http->tail);
    mc_put_text(&put, "object", "response");
    mc_put_bool(&put, "deleted", true);
    mc_put_close(&put, '}');
    return mc_exchange_send(http, &put);
}

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT("POST", "/v1/responses", respond,
                .tables = {{fields, sizeof fields / sizeof *fields, 0},
                           {mc_openai_tool_fields, MC_OPENAI_TOOL_FIELDS, AT(wish)}},
                .help = "an answer to items"),
    MC_ENDPOINT("GET", "/v1/responses/*", retrieve, .query = "after limit order",
                .help =
                    "a response that the server remembers, by its id. "
                    "/v1/responses/ID/input_items: the items of its request's input, newest first "
                    "or in the order asc: up to limit (20) of those behind the one called after"),
    MC_ENDPOINT("DELETE", "/v1/responses/*", forget, .flags = MC_ENDPOINT_AT_ONCE,
                .help = "forgets one"),
};

const mc_endpoint_list mc_endpoints_responses = {"OpenAI: responses", endpoints,
                                                 sizeof endpoints / sizeof *endpoints};
