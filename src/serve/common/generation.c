#include "serve/common/generation.h"

#include "serve/common/chance.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define AT(member) offsetof(mc_generation, member)

enum { MAX_STOPS = 64, MAX_TOKENS = 1024 };

static const mc_field stream_fields[] = {
    MC_FIELD_AT(BOOL, "include_usage", AT(include_usage),
                .help = "a last event with the numbers of tokens"),
    MC_FIELD(ONLY, "include_obfuscation", .choices = "false", .help = "events are not padded"),
};

const mc_field mc_generation_fields[MC_GENERATION_FIELDS] = {
    MC_FIELD_AT(TEXT, "model", AT(model), .help = "the model; without it, the first one"),
    MC_FIELD_TEMPERATURE("temperature", AT(temperature), 1, 100),
    MC_FIELD_TOP_P("top_p", AT(top_p), 1),
    MC_FIELD_TOP_K("top_k", AT(top_k), 0),
    MC_FIELD_MIN_P("min_p", AT(min_p), 0),
    MC_FIELD_FREQUENCY_PENALTY("frequency_penalty", AT(frequency)),
    MC_FIELD_PRESENCE_PENALTY("presence_penalty", AT(presence)),
    MC_FIELD_REPETITION_PENALTY("repetition_penalty", AT(repetition), 1),
    MC_FIELD_AT(
        INT, "penalty_window", AT(penalty_window), .min = 1, .max = INT32_MAX, .initial = INT32_MAX,
        .help = "the last tokens, of prompt and answer, that penalties count; all by default"),
    MC_FIELD_AT(SEED, "seed", AT(seed),
                .help = "the same seed gives the same answer; choice i draws with seed + i"),
    MC_FIELD_AT(
        JSON, "stop", AT(stop), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
        .help = "texts that end the answer, which are not part of it. An answer that is made to be "
                "a JSON document, one of some texts, or calls ends where these are whole: they do "
                "not cut it. They do end a regex, and what is left may not match it"),
    MC_FIELD_AT(JSON, "stop_token_ids", AT(stop_ids), .types = MC_FIELD_IS_ARRAY,
                .help = "tokens that end the answer, up to 1024"),
    MC_FIELD_AT(
        JSON, "logit_bias", AT(bias), .types = MC_FIELD_IS_OBJECT,
        .help = "up to 1024 token ids, each once, and what is added to their logits, -100 to 100"),
    MC_FIELD_AT(INT, "n", AT(n), .min = 1, .max = 128, .initial = 1, .help = "number of answers"),
    MC_FIELD_AT(INT, "min_tokens", AT(min_tokens), .max = INT32_MAX,
                .help = "before so many tokens, nothing ends the answer"),
    MC_FIELD_AT(BOOL, "ignore_eos", AT(ignore_eos),
                .help = "the model's own stop tokens do not end the answer"),
    MC_FIELD_AT(BOOL, "truncate", AT(truncate),
                .help = "cut a prompt that is too long instead of refusing it"),
    MC_FIELD_AT(INT, "priority", AT(priority), .min = -MC_MAX_PRIORITY, .max = MC_MAX_PRIORITY,
                .help = "requests of a higher one are computed first; above 0 only as far as the "
                        "server allows"),
    MC_FIELD_AT(BOOL, "stream", AT(stream),
                .help = "send the answer piece by piece, as server-sent events"),
    MC_FIELD(OBJECT, "stream_options", .fields = stream_fields, .count = 2),
    MC_FIELD(NOTED, "user", .help = "names the client's user, of whom nothing is kept"),
    MC_FIELD(NOTED, "safety_identifier", .help = "another name for user"),
    MC_FIELD(NOTED, "metadata", .help = "of what is stored, and nothing is; /v1/responses has it"),
    MC_FIELD(NOTED, "prompt_cache_key", .help = "beginnings of prompts are found without it"),
    MC_FIELD(NOTED, "cache_prompt", .help = "the same; llama-server's name"),
    MC_FIELD(ONLY, "prompt_cache_retention", .choices = "\"in_memory\" \"in-memory\" \"24h\"",
             .help = "beginnings of prompts are kept until others need the room"),
    MC_FIELD(NOTED, "store", .help = "nothing is stored"),
    MC_FIELD(NOTED, "service_tier", .help = "there is one tier"),
    MC_FIELD_AT(INT, "best_of", AT(best_of), .min = 1, .max = 128,
                .help = "the same as n: no answers are made that are not given"),
    MC_FIELD(ONLY, "use_beam_search", .choices = "false"),
    MC_FIELD(ONLY, "length_penalty", .choices = "1"),
    MC_FIELD(ONLY, "include_stop_str_in_output", .choices = "false"),
    MC_FIELD(ONLY, "skip_special_tokens", .choices = "true"),
    MC_FIELD(ONLY, "spaces_between_special_tokens", .choices = "true false"),
};

static bool no_memory(mc_failure *failure) {
    return mc_failure_of(failure, mc_fail_nomem("a request"), NULL);
}

/* Lists of tokens are looked through for every token that is computed. */
static bool check_count(mc_json list, const char *name, mc_failure *failure) {
    return mc_json_count(list) <= MAX_TOKENS ||
           mc_failure_set(failure, 400, "invalid_value", name, "%s: want %d tokens or fewer", name,
                          MAX_TOKENS);
}

/* ---- stops ---- */

static bool read_stops(mc_json stop, mc_arena *arena, mica_generate_options *options,
                       mc_failure *failure) {
    const char *texts[MAX_STOPS];
    size_t n = 0;
    mc_json_iter it = mc_json_begin(stop);
    bool one = mc_json_get_type(stop) == MC_JSON_STRING;
    while (one ? n == 0 : mc_json_next(&it)) {
        mc_str text;
        if (!mc_json_get_str(one ? stop : it.value, &text))
            return mc_failure_set(failure, 400, "invalid_type", "stop",
                                  "stop: want a string, or an array of strings");
        if (!text.len || memchr(text.ptr, '\0', text.len))
            return mc_failure_set(failure, 400, "invalid_value", "stop",
                                  "stop[%zu] is empty, or has a NUL character", n);
        if (n == MAX_STOPS)
            return mc_failure_set(failure, 400, "invalid_value", "stop",
                                  "stop: want %d texts or fewer", MAX_STOPS);
        texts[n] = mc_arena_strndup(arena, text.ptr, text.len);
        if (!texts[n++]) return no_memory(failure);
    }
    const char **kept = mc_arena_alloc(arena, (n + 1) * sizeof *kept);
    if (!kept) return no_memory(failure);
    memcpy(kept, texts, n * sizeof *kept);
    options->stop_strings = kept;
    options->stop_string_count = n;
    return true;
}

static bool read_stop_ids(mc_json array, size_t vocab, mc_arena *arena,
                          mica_generate_options *options, mc_failure *failure) {
    size_t n = 0;
    if (!check_count(array, "stop_token_ids", failure)) return false;
    int32_t *ids = mc_arena_alloc(arena, (mc_json_count(array) + 1) * sizeof *ids);
    if (!ids) return no_memory(failure);
    for (mc_json_iter it = mc_json_begin(array); mc_json_next(&it); n++) {
        int64_t id;
        if (!mc_json_get_int(it.value, &id) || id < 0 || (uint64_t)id >= vocab)
            return mc_failure_set(failure, 400, "invalid_value", "stop_token_ids",
                                  "stop_token_ids[%zu]: want a token id, 0 to %zu", n, vocab - 1);
        ids[n] = (int32_t)id;
    }
    options->stop_ids = ids;
    options->stop_count = n;
    return true;
}

/* ---- biases ---- */

/* The id that a key spells in digits; -1: none below the vocabulary's size. */
static int32_t id_of(mc_str key, size_t vocab) {
    uint64_t id = 0;
    for (size_t i = 0; i < key.len; i++) {
        if (key.ptr[i] < '0' || key.ptr[i] > '9' || id >= vocab) return -1;
        id = id * 10 + (uint64_t)(key.ptr[i] - '0');
    }
    return key.len && id < vocab ? (int32_t)id : -1;
}

static bool has_bias(const mica_logit_bias *biases, size_t n, int32_t id) {
    for (size_t i = 0; i < n; i++)
        if (biases[i].id == id) return true;
    return false;
}

/* A member of an object, "15": -1.5. */
static bool read_member(const mc_json_iter *it, size_t vocab, mica_logit_bias *bias,
                        mc_failure *failure) {
    double value;
    bias->id = id_of(it->key, vocab);
    if (bias->id < 0)
        return mc_failure_set(failure, 400, "invalid_value", "logit_bias",
                              "logit_bias: %.*s is no token id, 0 to %zu",
                              (int)(it->key.len < 40 ? it->key.len : 40), it->key.ptr, vocab - 1);
    if (!mc_json_get_float(it->value, &value) || fabs(value) > 100)
        return mc_failure_set(failure, 400, "invalid_value", "logit_bias",
                              "logit_bias: want numbers, -100 to 100");
    bias->bias = (float)value;
    return true;
}

/* An element of llama.cpp's array, [15, -1.5], or [15, false]: never. */
static bool read_pair(mc_json pair, size_t vocab, mica_logit_bias *bias, mc_failure *failure) {
    int64_t id = -1;
    double value = 0;
    bool truth = true;
    mc_json_iter it = mc_json_begin(pair);
    bool good = mc_json_get_type(pair) == MC_JSON_ARRAY && mc_json_count(pair) == 2 &&
                mc_json_next(&it) && mc_json_get_int(it.value, &id) && id >= 0 &&
                (uint64_t)id < vocab && mc_json_next(&it);
    if (good && mc_json_get_bool(it.value, &truth)) value = -INFINITY;
    if (!good || (truth && (!mc_json_get_float(it.value, &value) || fabs(value) > 100)))
        return mc_failure_set(failure, 400, "invalid_value", "logit_bias",
                              "logit_bias: want pairs of a token id, 0 to %zu, and a number, "
                              "-100 to 100, or false",
                              vocab - 1);
    *bias = (mica_logit_bias){(int32_t)id, (float)value};
    return true;
}

static bool read_biases(mc_json list, size_t vocab, mc_arena *arena, mica_generate_options *options,
                        mc_failure *failure) {
    size_t n = 0;
    bool pairs = mc_json_get_type(list) == MC_JSON_ARRAY;
    if (!check_count(list, "logit_bias", failure)) return false;
    mica_logit_bias *biases = mc_arena_alloc(arena, (mc_json_count(list) + 1) * sizeof *biases);
    if (!biases) return no_memory(failure);
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it); n++) {
        if (!(pairs ? read_pair(it.value, vocab, &biases[n], failure)
                    : read_member(&it, vocab, &biases[n], failure)))
            return false;
        if (has_bias(biases, n, biases[n].id))
            return mc_failure_set(failure, 400, "repeated_field", "logit_bias",
                                  "logit_bias: token %d is given twice", (int)biases[n].id);
    }
    options->logit_bias = biases;
    options->logit_bias_count = n;
    return true;
}

void mc_generation_take_llama(mc_generation *values) {
    if (values->seed.value == UINT64_MAX) values->seed.given = false; /* -1: drawn */
    if (values->penalty_window == -1) values->penalty_window = INT32_MAX;
    if (values->penalty_window == 0) {
        values->penalty_window = 1;
        values->repetition = 1;
        values->presence = values->frequency = 0;
    }
}

bool mc_generation_options(const mc_generation *values, size_t vocab, mc_arena *arena,
                           mica_generate_options *options, mc_failure *failure) {
    *options = (mica_generate_options){
        .struct_bytes = sizeof *options,
        .min_tokens = values->min_tokens,
        .temperature = (float)values->temperature,
        .top_k = values->top_k > 0 ? (int)values->top_k : 0,
        .top_p = values->top_p > 0 ? (float)values->top_p : FLT_MIN, /* 0 stands for all there */
        .min_p = (float)values->min_p,
        .repetition_penalty = (float)values->repetition,
        .presence_penalty = (float)values->presence,
        .frequency_penalty = (float)values->frequency,
        .penalty_window = (int)values->penalty_window,
        .seed = values->seed.given ? values->seed.value : mc_chance(),
        .ignore_eos = values->ignore_eos,
        .truncate = values->truncate,
    };
    if (values->best_of && values->best_of != values->n)
        return mc_failure_set(failure, 400, "unsupported_value", "best_of",
                              "best_of: only as many as n are supported");
    return read_stops(values->stop, arena, options, failure) &&
           read_stop_ids(values->stop_ids, vocab, arena, options, failure) &&
           read_biases(values->bias, vocab, arena, options, failure);
}
