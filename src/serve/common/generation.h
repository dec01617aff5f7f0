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

enum { MC_GENERATION_FIELDS = 33, MC_MAX_PRIORITY = 100000 };
extern const mc_field mc_generation_fields[MC_GENERATION_FIELDS];

/* The options of an answer. max_tokens, logprobs and echo are the endpoint's.
 *
 *  vocab    ids are below it.
 *  arena    holds what the options point to.
 *  returns  false: *failure says why */
bool mc_generation_options(const mc_generation *values, size_t vocab, mc_arena *arena,
                           mica_generate_options *options, mc_failure *failure);

#endif
