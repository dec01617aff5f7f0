/* The fields of a request that say how an answer is generated, the same in OpenAI's endpoints.
 * Threads: any. */
#ifndef SERVE_COMMON_GENERATION_H
#define SERVE_COMMON_GENERATION_H

#include "base/arena.h"
#include "serve/common/fields.h"

#include <mica/model.h>

typedef struct mc_generation {
    mc_str model;
    double temperature, top_p, min_p, frequency, presence, repetition;
    int64_t top_k, min_tokens, penalty_window, n, priority;
    int64_t best_of; /* 0: not given */
    mc_seed seed;
    mc_json stop, stop_ids, bias;
    bool ignore_eos, truncate, stream, include_usage;
} mc_generation;

enum { MC_GENERATION_FIELDS = 34, MC_MAX_PRIORITY = 100000 };
extern const mc_field mc_generation_fields[MC_GENERATION_FIELDS];

/* ---- what requests say of sampling ----
 *
 * A row of a table of fields each, by the name that an API has for it, at `at` in the struct that
 * the table describes. What stands for a field that is not given, and how large it may be, differ
 * from API to API; what it means does not. */

#define MC_FIELD_TEMPERATURE(called, at, start, most)            \
    MC_FIELD_AT(REAL, called, at, .max = most, .initial = start, \
                .help = "sampling temperature; 0: always the likeliest token")
#define MC_FIELD_TOP_P(called, at, start)                     \
    MC_FIELD_AT(REAL, called, at, .max = 1, .initial = start, \
                .help = "the fewest tokens whose probabilities reach it")
#define MC_FIELD_TOP_K(called, at, start)                                 \
    MC_FIELD_AT(INT, called, at, .min = -1, .max = 1e9, .initial = start, \
                .help = "the likeliest tokens; 0 or -1: all")
#define MC_FIELD_MIN_P(called, at, start)                     \
    MC_FIELD_AT(REAL, called, at, .max = 1, .initial = start, \
                .help = "tokens of at least this share of the likeliest one's probability")
#define MC_FIELD_FREQUENCY_PENALTY(called, at)         \
    MC_FIELD_AT(REAL, called, at, .min = -2, .max = 2, \
                .help = "taken from a token's logit for each time that the answer has it")
#define MC_FIELD_PRESENCE_PENALTY(called, at)          \
    MC_FIELD_AT(REAL, called, at, .min = -2, .max = 2, \
                .help = "taken from a token's logit if the answer has it")
#define MC_FIELD_REPETITION_PENALTY(called, at, start)                       \
    MC_FIELD_AT(REAL, called, at, .min = 0.01, .max = 100, .initial = start, \
                .help = "divides the logit of a token that prompt or answer have, if above 0")
#define MC_FIELD_REPEAT_LAST_N(called, at)                                                       \
    MC_FIELD_AT(INT, called, at, .min = -1, .max = INT32_MAX, .initial = 64,                     \
                .help = "the last tokens, of prompt and answer, that penalties count; 0: none, " \
                        "-1: all")
#define MC_FIELD_ANY_SEED(called, at) \
    MC_FIELD_AT(SEED, called, at,     \
                .help = "the same seed gives the same answer; -1: another one each time")

/* llama.cpp's and ollama's numbers, made OpenAI's: a seed of -1, windows of 0 and -1. */
void mc_generation_take_llama(mc_generation *values);

/* The options of an answer. max_tokens, logprobs and echo are the endpoint's.
 *
 *  vocab    ids are below it.
 *  arena    holds what the options point to.
 *  returns  false: *failure says why */
bool mc_generation_options(const mc_generation *values, size_t vocab, mc_arena *arena,
                           mica_generate_options *options, mc_failure *failure);

#endif
