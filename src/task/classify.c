#include "task/classify.h"

#include "base/alloc.h"
#include "base/system.h"
#include "graph/graph.h"
#include "session/sampler.h"
#include "task/task.h"
#include "task/texts.h"

#include <math.h>
#include <string.h>

enum { SHARED = 8 }; /* max tokens of a row that are also the first of the one before */

/* A prompt that waits to be computed. */
typedef struct prompt {
    size_t row; /* of the results */
    int32_t *ids;
    int64_t n;
} prompt;

typedef struct classifying {
    const mc_classify_task *task;
    const mica_classify_options *options;
    mica_classify_results *results;
    size_t done;         /* rows */
    mc_session *session; /* of prompts that are computed one by one */
    mc_sampler sampler;
    mc_texts texts; /* of passes over several */
    prompt waiting[MC_TEXT_ROWS];
    size_t n_waiting;
    mc_buffer logits; /* float [n_waiting, vocab] */
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
static mica_status draw_token(classifying *w, float *logits, int32_t *token) {
    if (w->options->temperature == 0.0f) return MICA_OK;
    w->sampler.draws = 0;
    return mc_sampler_draw(&w->sampler, logits, w->task->model->lm->spec.vocab, NULL, 0, token);
}

static mica_status fill_row(classifying *w, float *logits, mica_classify_row *row) {
    const mc_classify_task *task = w->task;
    const mica_classify_options *options = w->options;
    size_t bytes = (size_t)task->model->lm->spec.vocab * sizeof *logits;
    double norm = 0.0;
    MC_TRY(find_best(logits, task->model->lm->spec.vocab, &row->token, &norm));
    norm += (double)logits[row->token]; /* now ln of the sum of all exp(logit) */
    MC_TRY(draw_token(w, logits, &row->token));
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

/* Ends row i of the results, with the thread's error text if `status` is an error. */
static void end_row(classifying *w, size_t i, mica_status status) {
    mica_classify_row *row = &w->results->rows[i];
    if (status != MICA_OK) {
        const char *error = mc_task_error(status);
        free_row(row);
        *row = (mica_classify_row){.status = status, .error = error};
    }
    w->done++;
    if (w->options->progress)
        w->options->progress(w->options->progress_user, w->done, w->results->count);
}

static mica_status compute_alone(classifying *w, const prompt *p) {
    const float *logits = NULL;
    MC_TRY(prefill(w->session, p->ids, p->n, w->options->cancel, &logits));
    return fill_row(w, mc_session_logits(w->session), &w->results->rows[p->row]);
}

/* ---- several prompts in one pass ---- */

/* Lists what waits, and `more`, if it is not NULL. Returns how many these are. */
static size_t list_texts(const classifying *w, const prompt *more, mc_text *texts) {
    size_t n = 0;
    for (; n < w->n_waiting; n++)
        texts[n] = (mc_text){.ids = w->waiting[n].ids, .n = w->waiting[n].n};
    if (more) texts[n++] = (mc_text){.ids = more->ids, .n = more->n};
    return n;
}

/* Computes the logits of all that wait. */
static mica_status compute_together(classifying *w) {
    mc_text texts[MC_TEXT_ROWS];
    size_t rows = list_texts(w, NULL, texts);
    size_t bytes = rows * (size_t)w->task->model->lm->spec.vocab * sizeof(float);
    mica_array logits;
    MC_TRY(mc_cancel_check(w->options->cancel));
    mc_buffer_clear(&w->logits);
    if (!mc_buffer_reserve(&w->logits, bytes)) return mc_fail_nomem("the logits of prompts");
    MC_TRY(mc_texts_compute(&w->texts, texts, rows, MC_LAST_LOGITS, &logits));
    return mica_read(logits, w->logits.data, bytes);
}

/* Computes what waits. Where that fails, each is computed alone: one's failure is its own. */
static void compute_waiting(classifying *w) {
    size_t vocab = (size_t)w->task->model->lm->spec.vocab;
    bool together = w->n_waiting > 1 && compute_together(w) == MICA_OK;
    for (size_t i = 0; i < w->n_waiting; i++) {
        const prompt *p = &w->waiting[i];
        mica_status status = mc_cancel_check(w->options->cancel);
        if (status == MICA_OK)
            status = together ? fill_row(w, MC_BUFFER_AT(&w->logits, float) + i * vocab,
                                         &w->results->rows[p->row])
                              : compute_alone(w, p);
        end_row(w, p->row, status);
        mc_free(p->ids);
    }
    w->n_waiting = 0;
}

/* Whether a prompt can be a row of the pass over those that wait. */
static bool can_join(const classifying *w, const prompt *p) {
    mc_text texts[MC_TEXT_ROWS + 1];
    int64_t same = 0;
    if (!mc_texts_fit(w->task->model, texts, list_texts(w, p, texts))) return false;
    const prompt *last = w->n_waiting ? &w->waiting[w->n_waiting - 1] : NULL;
    while (last && same < last->n && same < p->n && last->ids[same] == p->ids[same])
        same++;
    return same <= SHARED;
}

static void add_prompt(classifying *w, prompt p) {
    if (w->n_waiting && !can_join(w, &p)) compute_waiting(w);
    bool row = w->n_waiting || can_join(w, &p);
    w->waiting[w->n_waiting++] = p;
    if (!row) compute_waiting(w);
}

static void classify_rows(classifying *w) {
    const mc_classify_task *task = w->task;
    for (size_t i = 0; i < w->results->count; i++) {
        prompt p = {.row = i};
        size_t n;
        mica_status status = mc_cancel_check(w->options->cancel);
        if (status == MICA_OK) status = task->encode(task->context, i, &p.ids, &n);
        if (status == MICA_OK) status = mc_task_check_ids(task->model, p.ids, n);
        if (status == MICA_OK) {
            p.n = w->results->rows[i].prompt_tokens = (int64_t)n;
            add_prompt(w, p);
        } else {
            const char *error = mc_task_error(status);
            compute_waiting(w); /* rows end in their order */
            end_row(w, i, mc_fail(status, "%s", error));
            mc_task_error_free(status, error);
            mc_free(p.ids);
        }
    }
    compute_waiting(w);
}

static mica_status open_parts(classifying *w) {
    MC_TRY(mc_session_open(w->task->model, 0, &w->session));
    return mc_texts_init(&w->texts, w->task->model);
}

static void close_parts(classifying *w) {
    mc_session_close(&w->session);
    mc_texts_deinit(&w->texts);
    mc_buffer_deinit(&w->logits);
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
    if (status == MICA_OK) status = open_parts(&w);
    if (status != MICA_OK) {
        close_parts(&w);
        mica_classify_free(&results);
        return status;
    }
    w.results = results;
    mc_sampler_init(&w.sampler, &sampling);
    classify_rows(&w);
    mc_sampler_deinit(&w.sampler);
    close_parts(&w);
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
