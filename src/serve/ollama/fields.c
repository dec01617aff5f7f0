/* The fields of ollama's requests for answers. */
#include "serve/ollama/answer.h"

#include <inttypes.h>
#include <string.h>

#define AT(member) offsetof(mc_ollama_answer, member)

static const mc_field option_fields[] = {
    {.name = "num_predict",
     .kind = MC_FIELD_INT,
     .min = -2,
     .max = INT32_MAX,
     .initial = -1,
     .offset = AT(num_predict),
     .help = "limit of the answer's tokens; 0, -1 or -2: the end of the context"},
    {.name = "num_ctx",
     .kind = MC_FIELD_INT,
     .min = 1,
     .max = INT32_MAX,
     .offset = AT(num_ctx),
     .help = "limit of prompt and answer together, at most the model's context, which it is "
             "without"},
    MC_FIELD_TEMPERATURE("temperature", AT(generation.temperature), 0.8, 100),
    MC_FIELD_TOP_K("top_k", AT(generation.top_k), 40),
    MC_FIELD_TOP_P("top_p", AT(generation.top_p), 0.9),
    MC_FIELD_MIN_P("min_p", AT(generation.min_p), 0),
    MC_FIELD_ANY_SEED("seed", AT(generation.seed)),
    {.name = "stop",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
     .offset = AT(generation.stop),
     .help = "texts that end the answer, which are not part of it; they do not cut a document that "
             "is asked for"},
    MC_FIELD_REPETITION_PENALTY("repeat_penalty", AT(generation.repetition), 1.1),
    MC_FIELD_REPEAT_LAST_N("repeat_last_n", AT(generation.penalty_window)),
    MC_FIELD_PRESENCE_PENALTY("presence_penalty", AT(generation.presence)),
    MC_FIELD_FREQUENCY_PENALTY("frequency_penalty", AT(generation.frequency)),
    {.name = "penalize_newline", .kind = MC_FIELD_ONLY, .choices = "true"},
    {.name = "num_keep", .kind = MC_FIELD_REFUSED, .help = "contexts are not shifted"},
    {.name = "typical_p", .kind = MC_FIELD_ONLY, .choices = "1"},
    {.name = "tfs_z", .kind = MC_FIELD_ONLY, .choices = "1"},
    {.name = "mirostat", .kind = MC_FIELD_ONLY, .choices = "0"},
    {.name = "mirostat_tau", .kind = MC_FIELD_NOTED, .help = "of mirostat, which is off"},
    {.name = "mirostat_eta", .kind = MC_FIELD_NOTED, .help = "of mirostat, which is off"},
    {.name = "num_batch",
     .kind = MC_FIELD_NOTED,
     .help = "how prompts are read is said by --step-tokens"},
    {.name = "num_thread",
     .kind = MC_FIELD_NOTED,
     .help = "how many threads compute is said by --threads"},
    {.name = "num_gpu", .kind = MC_FIELD_NOTED, .help = "what computes is said by --device"},
    {.name = "main_gpu", .kind = MC_FIELD_NOTED, .help = "what computes is said by --device"},
    {.name = "low_vram",
     .kind = MC_FIELD_NOTED,
     .help = "how much memory there is for caches is said by --cache-memory"},
    {.name = "numa", .kind = MC_FIELD_NOTED, .help = "memory is placed where it is used"},
    {.name = "use_mmap",
     .kind = MC_FIELD_NOTED,
     .help = "whether weights are mapped is said by --no-mmap"},
    {.name = "use_mlock",
     .kind = MC_FIELD_NOTED,
     .help = "the system decides what stays in memory"},
    {.name = "f16_kv", .kind = MC_FIELD_REFUSED, .help = "caches have the model's dtype"},
    {.name = "logits_all", .kind = MC_FIELD_ONLY, .choices = "false"},
    {.name = "vocab_only", .kind = MC_FIELD_ONLY, .choices = "false"},
    {.name = "embedding_only", .kind = MC_FIELD_ONLY, .choices = "false"},
};

const mc_field mc_ollama_answer_fields[MC_OLLAMA_ANSWER_FIELDS] = {
    {.name = "model",
     .kind = MC_FIELD_TEXT,
     .required = true,
     .offset = AT(generation.model),
     .help = "the model's name, with or without :latest"},
    {.name = "options",
     .kind = MC_FIELD_OBJECT,
     .fields = option_fields,
     .count = sizeof option_fields / sizeof *option_fields},
    {.name = "stream",
     .kind = MC_FIELD_BOOL,
     .initial = 1,
     .offset = AT(generation.stream),
     .help = "send the answer piece by piece, a line of JSON for each"},
    {.name = "think",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_BOOL | MC_FIELD_IS_TEXT,
     .offset = AT(think),
     .help = "the chat template's enable_thinking; low, medium or high are also its "
             "reasoning_effort. Refused where the template marks no thoughts"},
    {.name = "logprobs",
     .kind = MC_FIELD_BOOL,
     .offset = AT(logprobs),
     .help = "also the tokens' log-probabilities"},
    {.name = "top_logprobs",
     .kind = MC_FIELD_INT,
     .max = 20,
     .offset = AT(top_logprobs),
     .help = "and those of the likeliest tokens in their places"},
    {.name = "truncate",
     .kind = MC_FIELD_BOOL,
     .offset = AT(generation.truncate),
     .help = "cut a prompt that is longer than the context instead of refusing it"},
    {.name = "shift",
     .kind = MC_FIELD_ONLY,
     .choices = "false",
     .help = "answers end with the context"},
    {.name = "format",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_OBJECT,
     .offset = AT(format),
     .help =
         "\"json\": the answer is an object of JSON; a schema: it satisfies that. What mica does "
         "not support of a schema is refused"},
    {.name = "keep_alive",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_NUMBER | MC_FIELD_IS_TEXT,
     .offset = AT(keep_alive),
     .help =
         "how long the model stays in memory after this: seconds, or a duration such as "
         "\"5m\"; negative: as long as there is room. 0: it is closed when it has no requests, "
         "at once if this has no prompt. Models that were named on the command line stay longer "
         "than any other time"},
};

const mc_field mc_ollama_chat_fields[MC_OLLAMA_CHAT_FIELDS] = {
    {.name = "messages",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_ARRAY,
     .offset = AT(messages),
     .help = "the conversation: role, content, thinking, tool_calls, tool_name, tool_call_id; "
             "images are refused. The answer continues a last message of the assistant. Without "
             "messages, the answer says that the model is loaded"},
    {.name = "tools",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_ARRAY,
     .offset = AT(tools),
     .help = "type function, function: name, description, parameters. A chat template without a "
             "place for tools has them in its system message"},
};

const mc_field mc_ollama_generate_fields[MC_OLLAMA_GENERATE_FIELDS] = {
    {.name = "prompt",
     .kind = MC_FIELD_TEXT,
     .offset = AT(prompt),
     .help = "what the user says. Without it, the answer says that the model is loaded"},
    {.name = "system", .kind = MC_FIELD_TEXT, .offset = AT(system), .help = "the system prompt"},
    {.name = "raw",
     .kind = MC_FIELD_BOOL,
     .offset = AT(raw),
     .help = "continue the prompt as it is, without the chat template"},
    {.name = "suffix",
     .kind = MC_FIELD_TEXT,
     .offset = AT(suffix),
     .help = "the answer fills in what is between the prompt and this text, without the chat "
             "template: for models whose vocabulary has marks for it"},
    {.name = "images", .kind = MC_FIELD_ONLY, .choices = "[]", .help = "models read text only"},
    {.name = "template",
     .kind = MC_FIELD_ONLY,
     .choices = "\"\"",
     .help = "a model has the chat template that it was opened with"},
    {.name = "context", .kind = MC_FIELD_ONLY, .choices = "[]", .help = "/api/chat has messages"},
    {.name = "width", .kind = MC_FIELD_REFUSED, .help = "models write text only"},
    {.name = "height", .kind = MC_FIELD_REFUSED, .help = "models write text only"},
    {.name = "steps", .kind = MC_FIELD_REFUSED, .help = "models write text only"},
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
