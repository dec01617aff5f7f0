/* Chooses the next token from the logits.
 *
 * The chain, in this order:
 *   bias                is added to the logits of its tokens
 *   penalties           for the last `penalty_window` tokens: the repetition penalty divides
 *                       positive logits and multiplies negative ones, once a token; of those that
 *                       the answer has, the presence penalty is subtracted once a token, the
 *                       frequency penalty for each occurrence
 *   bans                banned tokens are never drawn
 *   allowed             nor are those that a constraint does not allow
 *   top_p               the fewest tokens whose probabilities sum to p, likeliest first
 *   min_p               of these, those with at least min_p times the best's probability
 *   top_k               of these, the k likeliest
 *   temperature         logits are divided by it
 *   draw                one of the survivors, by their renormalised probabilities
 * top_p and min_p use the probabilities before the temperature. Each of top_p, min_p and top_k
 * keeps the beginning of the tokens in order of likelihood, of equals the lower id first. So only
 * that beginning is sorted. If it is long, tokens are put into buckets by their logits, and only
 * two parts are sorted: where it ends and where the draw falls.
 *
 * Bias, penalties and bans change the logits of their tokens in place, and are undone before a
 * function returns. The row is never copied. Under a constraint that allows few tokens, what
 * follows sees the logits of these only; if it allows most, the others are banned.
 *
 * Where the row is in a device's own memory, the largest of its logits may be enough
 * (session/largest.h). The chain runs over these as it does over few allowed tokens. top_p takes
 * the weight of the whole row from its logsumexp, which the device adds up in an order of its own:
 * if that error could change the survivors, the row itself is read. Log-probabilities, which are
 * that weight, always come from the row. So what is drawn does not depend on where it was drawn
 * from.
 *
 * Draws come from a counter: draw n of a seed is output n of SplitMix64 (Steele, Lea & Flood 2014),
 * its upper 53 bits as a fraction of 1. So a draw depends only on the seed and on its number.
 *
 * Threads: a sampler belongs to one thread at a time. */
#ifndef SESSION_SAMPLER_H
#define SESSION_SAMPLER_H

#include "base/buffer.h"
#include "session/largest.h"
#include "session/sampling.h"

typedef struct mc_sampler {
    mc_sampling params;
    const int32_t *banned; /* [banned_count]. The owner may change it between draws. Borrowed */
    size_t banned_count;
    /* How many of the last tokens of the history are the answer's, as the owner says before a draw:
     * presence and frequency penalties count these only, as OpenAI defines them. */
    size_t generated;
    /* Bits [vocab / 32, rounded up]: the tokens that a constraint allows (session/constraint.h).
     * NULL: all. The owner may change it between draws. Borrowed */
    const uint32_t *allowed;
    /* While these are drawn from, the largest logits of a row; unsure: they are not enough. */
    const mc_largest *largest;
    bool unsure;
    uint64_t draws;         /* draws made so far */
    mc_buffer edits;        /* logits that were changed, with their old values */
    mc_buffer counts;       /* uint32 [V]: occurrences of a token; zero between draws */
    mc_buffer few;          /* float: the logits of the allowed tokens, if these are few */
    mc_buffer few_ids;      /* int32: these tokens, ascending */
    mc_buffer blocks;       /* float: the largest of each 256 logits */
    mc_buffer order;        /* int32: tokens, the survivors first */
    mc_buffer buckets;      /* tokens with similar logits */
    mc_buffer runs;         /* parts of the survivors */
    bool sorted;            /* whether tokens are sorted within each run */
    mc_buffer weights;      /* double: one for each survivor */
    mc_buffer alternatives; /* mica_alternative */
} mc_sampler;

void mc_sampler_init(mc_sampler *sampler, const mc_sampling *params);
void mc_sampler_deinit(mc_sampler *sampler);

/* The tokens that may be drawn, with their probabilities.
 *
 *  logits     [vocab]; restored on return.
 *  history    [n_history] tokens, the latest last.
 *  survivors  int32 [*count]; sorted, the likeliest first, with top_k or top_p, else in order of
 *             ids. Greedy: one. Valid until the sampler's next call.
 *  probs      double [*count], summing to 1.
 *  errors     MICA_EINVAL a logit is NaN or +infinity, or none is finite; no token is allowed;
 *             MICA_ENOMEM */
mica_status mc_sampler_survivors(mc_sampler *sampler, float *logits, int64_t vocab,
                                 const int32_t *history, size_t n_history,
                                 const int32_t **survivors, const double **probs, size_t *count);

/* Draws the next token; the arguments and errors of mc_sampler_survivors. */
mica_status mc_sampler_draw(mc_sampler *sampler, float *logits, int64_t vocab,
                            const int32_t *history, size_t n_history, int32_t *token);

/* Draws the next token from the largest logits of a row: the one that mc_sampler_draw draws from
 * all of them, to the bit. *enough is false, and nothing is drawn, if that may depend on others:
 * top_p or min_p may let more tokens through, what top_p keeps depends on the error of the row's
 * total, tokens are banned or not allowed, or the options want all logits
 * (mc_sampling_takes_largest).
 *  errors  as mc_sampler_survivors */
mica_status mc_sampler_draw_largest(mc_sampler *sampler, const mc_largest *largest, int32_t *token,
                                    bool *enough);

/* Output n of SplitMix64 for a seed, as a fraction in [0, 1): what draw n goes by. */
double mc_sampler_uniform(uint64_t seed, uint64_t n);

/* Natural logarithms of probabilities, from the softmax of the unchanged logits.
 *
 *  logprob       receives that of `token`.
 *  alternatives  [*count]: the `max` likeliest tokens, fewer if fewer logits are finite. Valid
 *                until the sampler's next call.
 *  errors        as mc_sampler_survivors */
mica_status mc_sampler_logprobs(mc_sampler *sampler, const float *logits, int64_t vocab,
                                int32_t token, size_t max, float *logprob,
                                const mica_alternative **alternatives, size_t *count);

#endif
