/* The fields of llama.cpp's server. */
#include "serve/llama_cpp/server.h"

#define AT(member) offsetof(mc_llama_values, member)

const mc_field mc_llama_completion_fields[MC_LLAMA_COMPLETION_FIELDS] = {
    MC_FIELD_AT(
        JSON, "prompt", AT(prompt), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY, .required = true,
        .help =
            "a text, or token ids; texts, or arrays of token ids: as many answers, in an array"),
};

const mc_field mc_llama_infill_fields[MC_LLAMA_INFILL_FIELDS] = {
    MC_FIELD_AT(TEXT, "input_prefix", AT(input_prefix), .help = "the text before the gap"),
    MC_FIELD_AT(TEXT, "input_suffix", AT(input_suffix), .help = "the text behind it"),
    MC_FIELD_AT(JSON, "input_extra", AT(input_extra), .types = MC_FIELD_IS_ARRAY,
                .help = "up to 256 other files, each with text and filename, which come first, "
                        "between the vocabulary's marks for files where it has some"),
    MC_FIELD_AT(TEXT, "prompt", AT(begun),
                .help = "what is in the gap already: the answer goes on behind it"),
};

const mc_field mc_llama_fields[MC_LLAMA_FIELDS] = {
    MC_FIELD_AT(TEXT, "model", AT(generation.model),
                .help = "the model; without it, the first one"),
    MC_FIELD_AT(INT, "n_predict", AT(n_predict), .min = -2, .max = INT32_MAX, .initial = -1,
                .help = "limit of the answer's tokens; -1 or -2: the end of the context; 0: the "
                        "prompt is read, for requests that begin with it, and the answer is empty"),
    MC_FIELD_TEMPERATURE("temperature", AT(generation.temperature), 0.8, 100),
    MC_FIELD_TOP_K("top_k", AT(generation.top_k), 40),
    MC_FIELD_TOP_P("top_p", AT(generation.top_p), 0.95),
    MC_FIELD_MIN_P("min_p", AT(generation.min_p), 0.05),
    MC_FIELD_REPETITION_PENALTY("repeat_penalty", AT(generation.repetition), 1),
    MC_FIELD_REPEAT_LAST_N("repeat_last_n", AT(generation.penalty_window)),
    MC_FIELD_PRESENCE_PENALTY("presence_penalty", AT(generation.presence)),
    MC_FIELD_FREQUENCY_PENALTY("frequency_penalty", AT(generation.frequency)),
    MC_FIELD_ANY_SEED("seed", AT(generation.seed)),
    MC_FIELD_AT(JSON, "stop", AT(generation.stop), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
                .help = "texts that end the answer, which are not part of it"),
    MC_FIELD_AT(BOOL, "ignore_eos", AT(generation.ignore_eos),
                .help = "the model's own stop tokens do not end the answer"),
    MC_FIELD_AT(JSON, "logit_bias", AT(generation.bias),
                .types = MC_FIELD_IS_OBJECT | MC_FIELD_IS_ARRAY,
                .help = "up to 1024 token ids and what is added to their logits, -100 to 100, or "
                        "false for never: as pairs, [[15, -1.5], [16, false]], or as an object"),
    MC_FIELD_AT(
        INT, "n_probs", AT(n_probs), .max = 20,
        .help = "also the tokens' log-probabilities, and those of so many of the likeliest tokens"),
    MC_FIELD_AT(TEXT, "grammar", AT(grammar),
                .help = "the answer is one of a grammar in GBNF, or Lark's notation"),
    MC_FIELD_AT(JSON, "json_schema", AT(schema), .types = MC_FIELD_IS_OBJECT,
                .help =
                    "the answer satisfies a schema. What mica does not support of one is refused"),
    MC_FIELD_AT(
        BOOL, "stream", AT(generation.stream),
        .help = "send the answer piece by piece, as server-sent events; the last one has the rest"),
    MC_FIELD_AT(BOOL, "return_tokens", AT(return_tokens), .help = "also the answer's token ids"),
    MC_FIELD(NOTED, "cache_prompt",
             .help = "beginnings of prompts are found without it, and give the same answers"),
    MC_FIELD(NOTED, "id_slot", .help = "an answer gets whatever row is free: none depends on it"),
    MC_FIELD(NOTED, "n_keep", .help = "contexts are not shifted"),
    MC_FIELD(NOTED, "timings_per_token", .help = "times come with the end of an answer"),
    MC_FIELD(ONLY, "return_progress", .choices = "false",
             .help = "how far a prompt was read is not told"),
    MC_FIELD(ONLY, "min_keep", .choices = "0 1"),
    MC_FIELD(ONLY, "n_indent", .choices = "0"),
    MC_FIELD(ONLY, "n_cmpl", .choices = "1", .help = "/v1/completions has n"),
    MC_FIELD(ONLY, "dynatemp_range", .choices = "0"),
    MC_FIELD(NOTED, "dynatemp_exponent", .help = "of a range of temperatures, which is 0"),
    MC_FIELD(ONLY, "typical_p", .choices = "1"),
    MC_FIELD(ONLY, "xtc_probability", .choices = "0"),
    MC_FIELD(NOTED, "xtc_threshold", .help = "of xtc, which is off"),
    MC_FIELD(ONLY, "dry_multiplier", .choices = "0"),
    MC_FIELD(NOTED, "dry_base", .help = "of dry, which is off"),
    MC_FIELD(NOTED, "dry_allowed_length", .help = "of dry, which is off"),
    MC_FIELD(NOTED, "dry_penalty_last_n", .help = "of dry, which is off"),
    MC_FIELD(ONLY, "mirostat", .choices = "0"),
    MC_FIELD(NOTED, "mirostat_tau", .help = "of mirostat, which is off"),
    MC_FIELD(NOTED, "mirostat_eta", .help = "of mirostat, which is off"),
    MC_FIELD(NOTED, "t_max_predict_ms",
             .help = "n_predict limits an answer, and the server the time of all"),
    MC_FIELD(NOTED, "samplers", .help = "they have one order here"),
    MC_FIELD(NOTED, "response_fields", .help = "an answer has all of its fields"),
    MC_FIELD(ONLY, "post_sampling_probs", .choices = "false"),
    MC_FIELD(ONLY, "lora", .choices = "[]", .help = "MODEL:NAME has an adapter"),
};

bool mc_llama_options(const mc_llama_values *values, size_t vocab, mc_arena *arena,
                      mica_generate_options *options, mc_failure *failure) {
    mc_generation generation = values->generation;
    mc_generation_take_llama(&generation);
    if (!mc_generation_options(&generation, vocab, arena, options, failure)) return false;
    options->max_tokens = values->n_predict > 0 ? values->n_predict : values->n_predict == 0;
    options->logprobs = values->n_probs > 0;
    options->top_logprobs = (int)values->n_probs;
    return true;
}
