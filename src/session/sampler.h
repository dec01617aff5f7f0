/* Choosing the next token from the logits.
 *
 * The chain, in this order:
 *   repetition penalty  the logits of the last `penalty_window` tokens are divided by the
 *                       penalty where positive, multiplied where negative (once a token)
 *   top_p               the fewest tokens whose probabilities reach p, likeliest first
 *   min_p               of these, those with at least min_p times the best's probability
 *   top_k               of these, the k likeliest
 *   temperature         logits are divided by it
 *   draw                one of the survivors, by their renormalised probabilities
 * Probabilities of top_p and min_p are those before the temperature. Each of the three keeps the
 * beginning of the tokens in order of likelihood (equals: lower id first), so that only that
 * beginning is ever sorted.
 *
 * Draws come from a counter: the n-th of a seed is SplitMix64's output n (Steele, Lea & Flood 2014),
 * its upper 53 bits as a fraction of 1. So a draw depends on the seed and the token's number alone.
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
    int penalty_window;    /* 0: 20 */
    uint64_t seed;
} mc_sampling;

typedef struct mc_sampler {
    mc_sampling params;
    uint64_t draws;   /* so far */
    mc_buffer logits; /* float [V]: after the penalty */
    mc_buffer blocks; /* float: the largest logit of each 256 */
    mc_buffer order;  /* int32: tokens, the survivors first */
    mc_buffer probs;  /* double: of the survivors */
} mc_sampler;

/* Checks the options of an answer. errors MICA_EINVAL naming the option and its range */
mica_status mc_sampling_check(const mica_generate_options *options, mc_sampling *params);

void mc_sampler_init(mc_sampler *sampler, const mc_sampling *params);
void mc_sampler_deinit(mc_sampler *sampler);

/* The tokens that may be drawn, with their probabilities.
 *
 *  logits     [vocab], not changed.
 *  history    [n_history] tokens, the latest last.
 *  survivors  int32 [*count], likeliest first where anything was cut, else in order of ids; lives
 *             until the sampler's next call. Greedy: one.
 *  probs      double [*count], summing to 1.
 *  errors     MICA_EINVAL a logit is NaN or +infinity, or none is finite; MICA_ENOMEM */
mica_status mc_sampler_survivors(mc_sampler *sampler, const float *logits, int64_t vocab,
                                 const int32_t *history, size_t n_history,
                                 const int32_t **survivors, const double **probs, size_t *count);

/* Draws the next token. */
mica_status mc_sampler_draw(mc_sampler *sampler, const float *logits, int64_t vocab,
                            const int32_t *history, size_t n_history, int32_t *token);

#endif
