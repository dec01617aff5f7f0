/* How the tokens of an answer are drawn: what the sampler (session/sampler.h) goes by.
 *
 * Threads: any. */
#ifndef SESSION_SAMPLING_H
#define SESSION_SAMPLING_H

#include "base/status.h"

#include <mica/model.h>

#include <stdbool.h>

enum { MC_PENALTY_WINDOW = 20 }; /* the default */

typedef struct mc_sampling {
    float temperature;        /* 0: greedy */
    int top_k;                /* 0: all */
    float top_p;              /* 0 or 1: all */
    float min_p;              /* 0: all */
    float repetition_penalty; /* 0 or 1: none */
    float presence_penalty;
    float frequency_penalty;
    int penalty_window;          /* 0: MC_PENALTY_WINDOW */
    const mica_logit_bias *bias; /* [bias_count]. Borrowed by the sampler */
    size_t bias_count;
    uint64_t seed;
} mc_sampling;

/* Checks the options of an answer, for a model with `vocab` logits. Borrows options->logit_bias.
 *  errors  MICA_EINVAL naming the option and its range */
mica_status mc_sampling_check(const mica_generate_options *options, int64_t vocab,
                              mc_sampling *params);

/* Whether the token of the largest unchanged logit is drawn, unless it is banned. */
bool mc_sampling_is_greedy(const mc_sampling *params);

/* Checks the largest logit of a row, which is NaN if any of the row is.
 *  errors  MICA_EINVAL it is not finite */
mica_status mc_sampling_check_best(float logit);

/* Whether the largest logits of a row (session/largest.h) may be enough to draw from: nothing
 * changes logits, and top_k, top_p or min_p keeps the beginning of the tokens' order. */
bool mc_sampling_takes_largest(const mc_sampling *params);

/* Whether a penalty is set. */
bool mc_sampling_penalises(const mc_sampling *params);

#endif
