/* Choosing the next token from the logits.
 *
 * The chain, in this order:
 *   bias                is added to the logits of its tokens
 *   penalties           of the last `penalty_window` tokens: logits are divided by the repetition
 *                       penalty where positive, multiplied where negative (once a token), and
 *                       lowered by the presence penalty (once) and the frequency penalty (for each
 *                       time that the token is there)
 *   bans                banned tokens are never drawn
 *   top_p               the fewest tokens whose probabilities reach p, likeliest first
 *   min_p               of these, those with at least min_p times the best's probability
 *   top_k               of these, the k likeliest
 *   temperature         logits are divided by it
 *   draw                one of the survivors, by their renormalised probabilities
 * Probabilities of top_p and min_p are those before the temperature. Each of the three keeps the
 * beginning of the tokens in order of likelihood (equals: lower id first), so that only that
 * beginning is ever sorted, and of a long one only the part where it ends and that where the draw
 * falls: which part that is, tokens tell in buckets by their logits.
 *
 * Bias, penalties and bans touch the logits of their tokens alone, in place, and are undone before
 * a function returns: no copy is made of a row.
 *
 * Draws come from a counter: the n-th of a seed is SplitMix64's output n (Steele, Lea & Flood
 * 2014), its upper 53 bits as a fraction of 1. So a draw depends on the seed and the token's number
 * alone.
 *
 * Threads: a sampler belongs to one thread at a time. */
#ifndef SESSION_SAMPLER_H
#define SESSION_SAMPLER_H

#include "base/buffer.h"
#include "base/status.h"

#include <mica/model.h>

typedef struct mc_sampling {
    float temperature;        /* 0: greedy */
    int top_k;                /* 0: all */
    float top_p;              /* 0 or 1: all */
    float min_p;              /* 0: all */
    float repetition_penalty; /* 0 or 1: none */
    float presence_penalty;
    float frequency_penalty;
    int penalty_window;          /* 0: 20 */
    const mica_logit_bias *bias; /* [bias_count]. Borrowed by the sampler */
    size_t bias_count;
    uint64_t seed;
} mc_sampling;

typedef struct mc_sampler {
    mc_sampling params;
    const int32_t
        *banned; /* [banned_count] for now: the owner may set it between draws. Borrowed */
    size_t banned_count;
    uint64_t draws;         /* so far */
    mc_buffer edits;        /* logits that were changed, and what they were */
    mc_buffer counts;       /* uint32 [V]: how often a token was seen; zero between draws */
    mc_buffer blocks;       /* float: the largest logit of each 256 */
    mc_buffer order;        /* int32: tokens, the survivors first */
    mc_buffer buckets;      /* of tokens whose logits are close */
    mc_buffer runs;         /* of survivors */
    bool sorted;            /* within the runs, too */
    mc_buffer weights;      /* double: of the survivors */
    mc_buffer alternatives; /* mica_alternative */
} mc_sampler;

/* Checks the options of an answer to a model with `vocab` logits; borrows options->logit_bias.
 * errors  MICA_EINVAL naming the option and its range */
mica_status mc_sampling_check(const mica_generate_options *options, int64_t vocab,
                              mc_sampling *params);

/* Whether the best of the logits as they are is what is drawn, unless tokens are banned. */
bool mc_sampling_is_greedy(const mc_sampling *params);

/* errors  MICA_EINVAL the largest logit, which is NaN where any is, is not finite */
mica_status mc_sampling_check_best(float logit);

void mc_sampler_init(mc_sampler *sampler, const mc_sampling *params);
void mc_sampler_deinit(mc_sampler *sampler);

/* The tokens that may be drawn, with their probabilities.
 *
 *  logits     [vocab], afterwards as before.
 *  history    [n_history] tokens, the latest last.
 *  survivors  int32 [*count], likeliest first where anything was cut, else in order of ids; lives
 *             until the sampler's next call. Greedy: one.
 *  probs      double [*count], summing to 1.
 *  errors     MICA_EINVAL a logit is NaN or +infinity, or none is finite; MICA_ENOMEM */
mica_status mc_sampler_survivors(mc_sampler *sampler, float *logits, int64_t vocab,
                                 const int32_t *history, size_t n_history,
                                 const int32_t **survivors, const double **probs, size_t *count);

/* Draws the next token. */
mica_status mc_sampler_draw(mc_sampler *sampler, float *logits, int64_t vocab,
                            const int32_t *history, size_t n_history, int32_t *token);

/* The natural logarithms of probabilities under the softmax of the logits as they are.
 *
 *  logprob       receives that of `token`.
 *  alternatives  [*count], the `max` likeliest tokens or as many as have a finite logit; lives
 *                until the sampler's next call.
 *  errors        as mc_sampler_survivors */
mica_status mc_sampler_logprobs(mc_sampler *sampler, const float *logits, int64_t vocab,
                                int32_t token, size_t max, float *logprob,
                                const mica_alternative **alternatives, size_t *count);

#endif
