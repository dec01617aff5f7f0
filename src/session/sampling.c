#include "session/sampling.h"

#include "session/largest.h"

#include <math.h>

static mica_status check_penalties(const mica_generate_options *o) {
    if (!(o->repetition_penalty >= 0.0f) || isinf(o->repetition_penalty))
        return mc_fail(MICA_EINVAL, "repetition_penalty %g: want a number above 0, or 0 for none",
                       (double)o->repetition_penalty);
    if (!isfinite(o->presence_penalty))
        return mc_fail(MICA_EINVAL, "presence_penalty %g: want a finite number",
                       (double)o->presence_penalty);
    if (!isfinite(o->frequency_penalty))
        return mc_fail(MICA_EINVAL, "frequency_penalty %g: want a finite number",
                       (double)o->frequency_penalty);
    if (o->penalty_window < 0)
        return mc_fail(MICA_EINVAL, "penalty_window %d: want 1 or more, or 0 for %d",
                       o->penalty_window, MC_PENALTY_WINDOW);
    return MICA_OK;
}

static mica_status check_bias(const mica_generate_options *o, int64_t vocab) {
    if (o->logit_bias_count && !o->logit_bias)
        return mc_fail(MICA_EINVAL, "logit_bias is NULL, logit_bias_count %zu",
                       o->logit_bias_count);
    for (size_t i = 0; i < o->logit_bias_count; i++) {
        const mica_logit_bias *bias = &o->logit_bias[i];
        if (bias->id < 0 || bias->id >= vocab)
            return mc_fail(MICA_EINVAL,
                           "logit_bias[%zu] is of token %d; the vocabulary is 0 to %lld", i,
                           (int)bias->id, (long long)vocab - 1);
        if (!(bias->bias < INFINITY))
            return mc_fail(MICA_EINVAL, "logit_bias[%zu] is %g: want a finite number, or -infinity",
                           i, (double)bias->bias);
    }
    return MICA_OK;
}

mica_status mc_sampling_check(const mica_generate_options *o, int64_t vocab, mc_sampling *params) {
    if (!(o->temperature >= 0.0f) || isinf(o->temperature))
        return mc_fail(MICA_EINVAL, "temperature %g: want a number of 0 or more",
                       (double)o->temperature);
    if (o->top_k < 0) return mc_fail(MICA_EINVAL, "top_k %d: want 0 (all) or more", o->top_k);
    if (!(o->top_p >= 0.0f && o->top_p <= 1.0f))
        return mc_fail(MICA_EINVAL, "top_p %g: want 0 to 1", (double)o->top_p);
    if (!(o->min_p >= 0.0f && o->min_p <= 1.0f))
        return mc_fail(MICA_EINVAL, "min_p %g: want 0 to 1", (double)o->min_p);
    MC_TRY(check_penalties(o));
    MC_TRY(check_bias(o, vocab));
    *params = (mc_sampling){
        .temperature = o->temperature,
        .top_k = o->top_k,
        .top_p = o->top_p,
        .min_p = o->min_p,
        .repetition_penalty = o->repetition_penalty,
        .presence_penalty = o->presence_penalty,
        .frequency_penalty = o->frequency_penalty,
        .penalty_window = o->penalty_window,
        .bias = o->logit_bias,
        .bias_count = o->logit_bias_count,
        .seed = o->seed,
    };
    return MICA_OK;
}

bool mc_sampling_penalises(const mc_sampling *params) {
    return (params->repetition_penalty != 0.0f && params->repetition_penalty != 1.0f) ||
           params->presence_penalty != 0.0f || params->frequency_penalty != 0.0f;
}

bool mc_sampling_is_greedy(const mc_sampling *params) {
    return params->temperature == 0.0f && params->bias_count == 0 && !mc_sampling_penalises(params);
}

mica_status mc_sampling_check_best(float logit) {
    if (isfinite(logit)) return MICA_OK;
    return mc_fail(MICA_EINVAL,
                   "sampling: %s: the model's weights are broken, or a bias or a penalty is "
                   "too large",
                   isnan(logit) ? "a logit is not a number" : "the largest logit is infinite");
}

bool mc_sampling_takes_largest(const mc_sampling *params) {
    bool cuts = (params->top_p > 0.0f && params->top_p < 1.0f) || params->min_p > 0.0f;
    if (params->temperature == 0.0f || params->bias_count || mc_sampling_penalises(params))
        return false;
    return params->top_k ? params->top_k <= MC_LARGEST : cuts;
}
