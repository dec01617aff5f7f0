#include "task/classify.h"

#include "base/alloc.h"
#include "base/system.h"
#include "session/sampler.h"
#include "task/task.h"

#include <math.h>
#include <string.h>

typedef struct classifying {
    const mc_classify_task *task;
    const mica_classify_options *options;
    mc_session *session;
    mc_sampler sampler;
} classifying;

/* The logits after ids[n], valid until the session's next forward pass. */
static mica_status prefill(mc_session *session, const int32_t *ids, int64_t n,
                           const mica_cancel *cancel, const float **logits) {
    int64_t at = mc_session_reuse(session, ids, n);
    for (int64_t step; at < n; at += step) {
        step = n - at < session->chunk ? n - at : session->chunk;
        MC_TRY(mc_cancel_check(cancel));
        MC_TRY(mc_session_feed(session, ids + at, step, at + step == n ? logits : NULL));
    }
    return MICA_OK;
}

/* Finds the likeliest token of logits [vocab]. *norm is ln(sum_i exp(logits[i] - its logit)). */
static mica_status find_best(const float *logits, int64_t vocab, int32_t *best, double *norm) {
    int64_t at = 0;
    double sum = 0.0;
    for (int64_t i = 0; i < vocab; i++)
        if (logits[i] > logits[at] || isnan(logits[at])) at = i;
    for (int64_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - (double)logits[at]);
    if (!isfinite(sum)) return mc_task_broken("a logit");
    *best = (int32_t)at;
    *norm = log(sum);
    return MICA_OK;
}

static mica_status decode_token(const mc_session_model *model, int32_t token, const char **text) {
    char *decoded;
    size_t len;
    if (model->tokenizer) {
        MC_TRY(mica_tokenizer_decode(model->tokenizer, &token, 1, false, &decoded, &len));
    } else {
        decoded = mc_strdup("");
        if (!decoded) return mc_fail_nomem("a token's text");
    }
    *text = decoded;
    return MICA_OK;
}

static mica_status rate_labels(const mc_classify_task *task, size_t n, const float *logits,
                               double norm, mica_classify_row *row) {
    if (!n) return MICA_OK;
    double *labels = mc_array_alloc(n, sizeof *labels);
    if (!labels) return mc_fail_nomem("the labels' probabilities");
    row->labels = labels;
    for (size_t i = 0; i < n; i++) {
        labels[i] = exp((double)logits[task->labels[i]] - norm);
        if (labels[i] > labels[row->label]) row->label = i;
    }
    return MICA_OK;
}

/* Each row has the first draw of the seed, whatever rows there are. */
static mica_status draw_token(classifying *w, int32_t *token) {
    if (w->options->temperature == 0.0f) return MICA_OK;
    w->sampler.draws = 0;
    return mc_sampler_draw(&w->sampler, mc_session_logits(w->session),
                           w->task->model->lm->spec.vocab, NULL, 0, token);
}

static mica_status fill_row(classifying *w, const float *logits, mica_classify_row *row) {
    const mc_classify_task *task = w->task;
    const mica_classify_options *options = w->options;
    size_t bytes = (size_t)task->model->lm->spec.vocab * sizeof *logits;
    double norm = 0.0;
    MC_TRY(find_best(logits, task->model->lm->spec.vocab, &row->token, &norm));
    norm += (double)logits[row->token]; /* now ln of the sum of all exp(logit) */
    MC_TRY(draw_token(w, &row->token));
    row->probability = exp((double)logits[row->token] - norm);
    MC_TRY(rate_labels(task, options->label_count, logits, norm, row));
    if (options->logits) {
        row->logits = mc_alloc(bytes);
        if (!row->logits) return mc_fail_nomem("a row's logits");
        memcpy((void *)row->logits, logits, bytes);
    }
    return decode_token(task->model, row->token, &row->text);
}

static void free_row(const mica_classify_row *row) {
    mc_task_error_free(row->status, row->error);
    mc_free((void *)row->text);
    mc_free((void *)row->labels);
    mc_free((void *)row->logits);
}

static mica_status classify_row(classifying *w, size_t i, mica_classify_row *row) {
    const mc_classify_task *task = w->task;
    int32_t *ids;
    size_t n;
    const float *logits = NULL;
    MC_TRY(mc_cancel_check(w->options->cancel));
    MC_TRY(task->encode(task->context, i, &ids, &n));
    mica_status status = mc_task_check_ids(task->model, ids, n);
    if (status == MICA_OK)
        status = prefill(w->session, ids, (int64_t)n, w->options->cancel, &logits);
    mc_free(ids);
    row->prompt_tokens = (int64_t)n;
    return status == MICA_OK ? fill_row(w, logits, row) : status;
}

static void classify_rows(classifying *w, mica_classify_results *results) {
    const mica_classify_options *options = w->options;
    for (size_t i = 0; i < results->count; i++) {
        mica_classify_row *row = &results->rows[i];
        mica_status status = classify_row(w, i, row);
        if (status != MICA_OK) {
            const char *error = mc_task_error(status);
            free_row(row);
            *row = (mica_classify_row){.status = status, .error = error};
        }
        if (options->progress) options->progress(options->progress_user, i + 1, results->count);
    }
}

mica_status mc_classify(const mc_classify_task *task, const mica_classify_options *options,
                        mica_classify_results **out) {
    uint64_t start = mc_now_us();
    classifying w = {.task = task, .options = options};
    const mica_generate_options drawn = {
        .temperature = options->temperature, .top_k = options->top_k, .seed = options->seed};
    mc_sampling sampling;
    *out = NULL;
    MC_TRY(mc_sampling_check(&drawn, task->model->lm->spec.vocab, &sampling));
    mica_classify_results *results = mc_calloc(1, sizeof *results);
    if (!results) return mc_fail_nomem("the classes of prompts");
    *results = (mica_classify_results){.rows = mc_calloc(task->count, sizeof *results->rows),
                                       .count = task->count,
                                       .label_count = options->label_count,
                                       .vocab = (size_t)task->model->lm->spec.vocab};
    mica_status status = results->rows ? MICA_OK : mc_fail_nomem("the classes of prompts");
    for (size_t i = 0; status == MICA_OK && i < task->count; i++)
        results->rows[i].error = "";
    if (status == MICA_OK) status = mc_session_open(task->model, 0, &w.session);
    if (status != MICA_OK) {
        mica_classify_free(&results);
        return status;
    }
    mc_sampler_init(&w.sampler, &sampling);
    classify_rows(&w, results);
    mc_sampler_deinit(&w.sampler);
    mc_session_close(&w.session);
    results->seconds = (double)(mc_now_us() - start) * 1e-6;
    *out = results;
    return MICA_OK;
}

void mica_classify_free(mica_classify_results **results) {
    if (!results || !*results) return;
    for (size_t i = 0; (*results)->rows && i < (*results)->count; i++)
        free_row(&(*results)->rows[i]);
    mc_free((*results)->rows);
    mc_free(*results);
    *results = NULL;
}
