/* Losses of pairs: an answer that is preferred to another one. */
#include "tune/loss.h"

/* The halves of x [2 B, ...]: the chosen and the rejected texts. */
static void split(mica_scope *s, mica_array x, mica_array half[2]) {
    int64_t n = mica_array_dim(x, 0) / 2;
    half[0] = mica_slice_axis(s, x, 0, 0, n);
    half[1] = mica_slice_axis(s, x, 0, n, 2 * n);
}

/* Log-probabilities of the answers, by their tokens' losses: [2 B] */
static mica_array answers(const mc_sequences *q, mica_array losses) {
    return mica_negative(q->s, mc_sum_last(q->s, mica_multiply(q->s, losses, q->mask)));
}

/* DPO: mean(-log sigmoid(beta ((c - c0) - (r - r0)))), c and r being the log-probabilities of the
 * chosen and the rejected answer, c0 and r0 those by the model before training. Source: Rafailov
 * et al. 2023 (arXiv:2305.18290), eq. 7. */
static mica_array dpo(mica_scope *s, const mica_array *in, const mica_loss_options *options) {
    mica_array policy = mica_subtract(s, in[0], in[1]), base = mica_subtract(s, in[2], in[3]);
    mica_array margin =
        mica_multiply(s, mica_subtract(s, policy, base), mica_f32(s, (float)options->beta));
    return mica_negative(s, mica_mean(s, mc_log_sigmoid(s, margin), NULL, 0, false));
}

static mica_array train_dpo(const mc_sequences *q, mica_array *weight) {
    mica_array in[4];
    split(q->s, answers(q, mc_token_losses(q, q->lm)), in);
    split(q->s, answers(q, mc_token_losses(q, q->base)), in + 2);
    *weight = mica_f32(q->s, (float)mica_array_dim(in[0], 0));
    return dpo(q->s, in, q->options);
}

/* log(p / (1 - p)) of log p, which is below 0. Nearer to 0 than 1e-7, p is 1 in f32, and the
 * gradient is not a number. */
static mica_array log_odds(mica_scope *s, mica_array logp) {
    logp = mica_minimum(s, logp, mica_f32(s, -1e-7f));
    mica_array rest = mica_log1p(s, mica_negative(s, mica_exp(s, logp)));
    return mica_subtract(s, logp, rest);
}

/* ORPO: nll - beta mean(log sigmoid(log odds(c) - log odds(r))), c and r being means of the
 * log-probabilities of the answers' tokens, and nll the cross-entropy of the chosen answers.
 * Source: Hong et al. 2024 (arXiv:2403.07691), eq. 6 and 7. */
static mica_array orpo(mica_scope *s, const mica_array *in, const mica_loss_options *options) {
    mica_array odds = mica_subtract(s, log_odds(s, in[0]), log_odds(s, in[1]));
    mica_array preferred = mica_mean(s, mc_log_sigmoid(s, odds), NULL, 0, false);
    return mica_subtract(s, in[2], mica_multiply(s, preferred, mica_f32(s, (float)options->beta)));
}

static mica_array train_orpo(const mc_sequences *q, mica_array *weight) {
    mica_scope *s = q->s;
    mica_array losses = mc_token_losses(q, q->lm), halves[2], masks[2], in[3];
    mica_array means = mica_divide(s, answers(q, losses), mc_sum_last(s, q->mask));
    split(s, means, in);
    split(s, losses, halves);
    split(s, q->mask, masks);
    in[2] = mc_masked_mean(s, halves[0], masks[0]);
    *weight = mica_f32(s, (float)mica_array_dim(in[0], 0));
    return orpo(s, in, q->options);
}

const mc_loss mc_loss_dpo = {
    .name = "dpo",
    .summary = "preference of chosen to rejected answers, against the model before training",
    .inputs = "chosen rejected base_chosen base_rejected",
    .n_inputs = 4,
    .formula = dpo,
    .data = MC_LOSS_PAIRS,
    .reference = true,
    .train = train_dpo,
};

const mc_loss mc_loss_orpo = {
    .name = "orpo",
    .summary = "cross-entropy of chosen answers and preference to rejected ones, in one",
    .inputs = "chosen rejected nll",
    .n_inputs = 3,
    .formula = orpo,
    .data = MC_LOSS_PAIRS,
    .train = train_orpo,
};
