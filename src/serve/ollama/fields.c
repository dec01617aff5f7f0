/* The fields of ollama's requests for answers. */
#include "serve/ollama/answer.h"

#include <inttypes.h>
#include <string.h>

#define AT(member) offsetof(mc_ollama_answer, member)

static const mc_field option_fields[] = {
    MC_FIELD_AT(INT, "num_predict", AT(num_predict), .min = -2, .max = INT32_MAX, .initial = -1,
                .help = "limit of the answer's tokens; 0, -1 or -2: the end of the context"),
    MC_FIELD_AT(INT, "num_ctx", AT(num_ctx), .min = 1, .max = INT32_MAX,
                .help = "limit of prompt and answer together, at most the model's context, which "
                        "it is without"),
    MC_FIELD_TEMPERATURE("temperature", AT(generation.temperature), 0.8, 100),
    MC_FIELD_TOP_K("top_k", AT(generation.top_k), 40),
    MC_FIELD_TOP_P("top_p", AT(generation.top_p), 0.9),
    MC_FIELD_MIN_P("min_p", AT(generation.min_p), 0),
    MC_FIELD_ANY_SEED("seed", AT(generation.seed)),
    MC_FIELD_AT(JSON, "stop", AT(generation.stop), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
                .help = "texts that end the answer, which are not part of it; they do not cut a "
                        "document that is asked for"),
    MC_FIELD_REPETITION_PENALTY("repeat_penalty", AT(generation.repetition), 1.1),
    MC_FIELD_REPEAT_LAST_N("repeat_last_n", AT(generation.penalty_window)),
    MC_FIELD_PRESENCE_PENALTY("presence_penalty", AT(generation.presence)),
    MC_FIELD_FREQUENCY_PENALTY("frequency_penalty", AT(generation.frequency)),
    MC_FIELD(ONLY, "penalize_newline", .choices = "true"),
    MC_FIELD(REFUSED, "num_keep", .help = "contexts are not shifted"),
    MC_FIELD(ONLY, "typical_p", .choices = "1"),
    MC_FIELD(ONLY, "tfs_z", .choices = "1"),
    MC_FIELD(ONLY, "mirostat", .choices = "0"),
    MC_FIELD(NOTED, "mirostat_tau", .help = "of mirostat, which is off"),
    MC_FIELD(NOTED, "mirostat_eta", .help = "of mirostat, which is off"),
    MC_FIELD(NOTED, "num_batch", .help = "the server says how prompts are read"),
    MC_FIELD(NOTED, "num_thread", .help = "the server says how many threads compute"),
    MC_FIELD(NOTED, "num_gpu", .help = "the server says what computes"),
    MC_FIELD(NOTED, "main_gpu", .help = "the server says what computes"),
    MC_FIELD(NOTED, "low_vram", .help = "the server says how much memory there is for caches"),
    MC_FIELD(NOTED, "numa", .help = "memory is placed where it is used"),
    MC_FIELD(NOTED, "use_mmap", .help = "the server says whether weights are mapped"),
    MC_FIELD(NOTED, "use_mlock", .help = "the system decides what stays in memory"),
    MC_FIELD(REFUSED, "f16_kv", .help = "caches have the model's dtype"),
    MC_FIELD(ONLY, "logits_all", .choices = "false"),
    MC_FIELD(ONLY, "vocab_only", .choices = "false"),
    MC_FIELD(ONLY, "embedding_only", .choices = "false"),
};

const mc_field mc_ollama_answer_fields[MC_OLLAMA_ANSWER_FIELDS] = {
    MC_FIELD_AT(TEXT, "model", AT(generation.model), .required = true,
                .help = "the model's name, with or without :latest"),
    MC_FIELD(OBJECT, "options", .fields = option_fields,
             .count = sizeof option_fields / sizeof *option_fields),
    MC_FIELD_AT(BOOL, "stream", AT(generation.stream), .initial = 1,
                .help = "send the answer piece by piece, a line of JSON for each"),
    MC_FIELD_AT(JSON, "think", AT(think), .types = MC_FIELD_IS_BOOL | MC_FIELD_IS_TEXT,
                .help = "the chat template's enable_thinking; low, medium or high are also its "
                        "reasoning_effort. Refused where the template marks no thoughts"),
    MC_FIELD_AT(BOOL, "logprobs", AT(logprobs), .help = "also the tokens' log-probabilities"),
    MC_FIELD_AT(INT, "top_logprobs", AT(top_logprobs), .max = 20,
                .help = "and those of the likeliest tokens in their places"),
    MC_FIELD_AT(BOOL, "truncate", AT(generation.truncate),
                .help = "cut a prompt that is longer than the context instead of refusing it"),
    MC_FIELD(ONLY, "shift", .choices = "false", .help = "answers end with the context"),
    MC_FIELD_AT(JSON, "format", AT(format), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_OBJECT,
                .help = "\"json\": the answer is an object of JSON; a schema: it satisfies that. "
                        "What mica does not support of a schema is refused"),
    MC_FIELD_AT(JSON, "keep_alive", AT(keep_alive), .types = MC_FIELD_IS_NUMBER | MC_FIELD_IS_TEXT,
                .help = "how long the model stays in memory after this: seconds, or a duration "
                        "such as \"5m\"; negative: as long as there is room. 0: it is closed when "
                        "it has no requests, at once if this has no prompt. Models that were named "
                        "on the command line stay longer than any other time"),
};

const mc_field mc_ollama_chat_fields[MC_OLLAMA_CHAT_FIELDS] = {
    MC_FIELD_AT(JSON, "messages", AT(messages), .types = MC_FIELD_IS_ARRAY,
                .help =
                    "the conversation: role, content, thinking, tool_calls, tool_name, "
                    "tool_call_id; images are refused. The answer continues a last message of the "
                    "assistant. Without messages, the answer says that the model is loaded"),
    MC_FIELD_AT(JSON, "tools", AT(tools), .types = MC_FIELD_IS_ARRAY,
                .help = "type function, function: name, description, parameters. A chat template "
                        "without a place for tools has them in its system message"),
};

const mc_field mc_ollama_generate_fields[MC_OLLAMA_GENERATE_FIELDS] = {
    MC_FIELD_AT(TEXT, "prompt", AT(prompt),
                .help = "what the user says. Without it, the answer says that the model is loaded"),
    MC_FIELD_AT(TEXT, "system", AT(system), .help = "the system prompt"),
    MC_FIELD_AT(BOOL, "raw", AT(raw),
                .help = "continue the prompt as it is, without the chat template"),
    MC_FIELD_AT(TEXT, "suffix", AT(suffix),
                .help = "the answer fills in what is between the prompt and this text, without the "
                        "chat template: for models whose vocabulary has marks for it"),
    MC_FIELD(ONLY, "images", .choices = "[]", .help = "models read text only"),
    MC_FIELD(ONLY, "template", .choices = "\"\"",
             .help = "a model has the chat template that it was opened with"),
    MC_FIELD(ONLY, "context", .choices = "[]", .help = "/api/chat has messages"),
    MC_FIELD(REFUSED, "width", .help = "models write text only"),
    MC_FIELD(REFUSED, "height", .help = "models write text only"),
    MC_FIELD(REFUSED, "steps", .help = "models write text only"),
};

static bool check_context(const mc_ollama_answer *values, size_t n, int64_t context,
                          mc_failure *failure) {
    if (values->num_ctx > context)
        return mc_failure_set(failure, 400, "invalid_value", "options.num_ctx",
                              "options.num_ctx: the model's context is %" PRId64 " tokens",
                              context);
    if (values->num_ctx && (int64_t)n > values->num_ctx)
        return mc_failure_set(failure, 400, "context_length_exceeded", "options.num_ctx",
                              "the prompt has %zu tokens, options.num_ctx is %" PRId64, n,
                              values->num_ctx);
    return true;
}

bool mc_ollama_options(const mc_ollama_answer *values, size_t n, int64_t context, size_t vocab,
                       mc_arena *arena, mica_generate_options *options, mc_failure *failure) {
    mc_generation generation = values->generation;
    if (!check_context(values, n, context, failure)) return false;
    mc_generation_take_llama(&generation);
    if (!mc_generation_options(&generation, vocab, arena, options, failure)) return false;
    int64_t room = values->num_ctx ? values->num_ctx - (int64_t)n + 1 : 0;
    options->max_tokens = values->num_predict > 0 ? values->num_predict : 0;
    if (room && (!options->max_tokens || options->max_tokens > room)) options->max_tokens = room;
    options->logprobs = values->logprobs;
    options->top_logprobs = (int)values->top_logprobs;
    return true;
}

/* ---- options of a model that a request has made ---- */

enum { OPTIONS = sizeof option_fields / sizeof *option_fields };

static bool read_options(mc_json options, mc_ollama_answer *values, mc_failure *failure) {
    const mc_field_table tables[MC_FIELD_TABLES] = {{option_fields, OPTIONS, 0}};
    return mc_fields_read(tables, options, values, failure);
}

bool mc_ollama_check_parameters(mc_json parameters, mc_failure *failure) {
    mc_ollama_answer values = {0};
    return !mc_json_exists(parameters) || read_options(parameters, &values, failure);
}

/* The bytes of a field's member; 0: it has none. */
static size_t member_bytes(mc_field_kind kind) {
    switch (kind) {
    case MC_FIELD_BOOL:
        return sizeof(bool);
    case MC_FIELD_INT:
        return sizeof(int64_t);
    case MC_FIELD_REAL:
        return sizeof(double);
    case MC_FIELD_TEXT:
        return sizeof(mc_str);
    case MC_FIELD_CHOICE:
        return sizeof(int);
    case MC_FIELD_JSON:
        return sizeof(mc_json);
    default:
        return 0;
    }
}

bool mc_ollama_take_parameters(mc_json body, mc_json parameters, mc_ollama_answer *values,
                               mc_failure *failure) {
    mc_ollama_answer defaults = {0};
    mc_json given = mc_json_find(body, "options");
    if (!read_options(parameters, &defaults, failure)) return false;
    for (size_t i = 0; i < OPTIONS; i++) {
        const mc_field *field = &option_fields[i];
        mc_json asked = mc_json_find(given, field->name);
        if (mc_json_exists(asked) || !mc_json_exists(mc_json_find(parameters, field->name)))
            continue;
        memcpy((char *)values + field->offset, (const char *)&defaults + field->offset,
               member_bytes(field->kind));
    }
    return true;
}
