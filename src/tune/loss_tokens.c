/* Losses of single texts: cross-entropy, and the mean square error as a formula. */
#include "tune/loss.h"

static mica_array mean(mica_scope *s, mica_array x) {
    return mica_mean(s, x, NULL, 0, false);
}

/* mean over positions of logsumexp(logits) - logits[target] */
static mica_array cross_entropy(mica_scope *s, const mica_array *in,
                                const mica_loss_options *options) {
    (void)options;
    return mean(s, mica_cross_entropy(s, in[0], in[1]));
}

/* sum(mask (logsumexp(logits) - logits[target])) / sum(mask) */
static mica_array masked(mica_scope *s, const mica_array *in, const mica_loss_options *options) {
    (void)options;
    return mc_masked_mean(s, mica_cross_entropy(s, in[0], in[1]), in[2]);
}

/* mean((x - y)^2) */
static mica_array mse(mica_scope *s, const mica_array *in, const mica_loss_options *options) {
    (void)options;
    return mean(s, mica_square(s, mica_subtract(s, in[0], in[1])));
}

static mica_array train(const mc_sequences *q, mica_array *weight) {
    *weight = mica_sum(q->s, q->mask, NULL, 0, false);
    return mc_masked_mean(q->s, mc_token_losses(q, q->lm), q->mask);
}

const mc_loss mc_loss_cross_entropy = {
    .name = "cross_entropy",
    .summary = "of every token of a text",
    .inputs = "logits targets",
    .n_inputs = 2,
    .formula = cross_entropy,
    .data = MC_LOSS_TEXTS,
    .prompts = true,
    .train = train,
};

const mc_loss mc_loss_masked_cross_entropy = {
    .name = "masked_cross_entropy",
    .summary = "of the tokens of the answer",
    .inputs = "logits targets mask",
    .n_inputs = 3,
    .formula = masked,
    .data = MC_LOSS_TEXTS,
    .train = train,
};

const mc_loss mc_loss_mse = {
    .name = "mse",
    .summary = "mean square error of arrays",
    .inputs = "values targets",
    .n_inputs = 2,
    .formula = mse,
    .data = MC_LOSS_ARRAYS,
};
