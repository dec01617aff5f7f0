#include "task/score.h"

#include "base/alloc.h"
#include "base/system.h"
#include "graph/graph.h"
#include "task/task.h"

#include <math.h>
#include <string.h>

typedef struct scoring {
    const mc_lm *lm;
    const mica_cancel *cancel;
    mica_scope *s;
    const int32_t *ids;
    int64_t n;
    int64_t rows;        /* rows of logits computed at a time */
    mc_buffer index;     /* int32 [rows]: hidden states to gather; then float [2, rows]: results */
    float *logprobs;     /* [n] */
    int64_t top;         /* alternatives of a token */
    mc_buffer likeliest; /* float [rows, top], u32 [rows, top] */
    mica_alternative *alternatives; /* [n, top] */
} scoring;

/* Sets the alternatives of the tokens after row `at`, whose logits [1, rows, vocab] have the
 * logarithms norm [rows] of their exponentials' sums. */
static mica_status find_likeliest(const scoring *w, mica_array logits, const float *norm,
                                  int64_t at, int64_t rows) {
    if (!w->top) return MICA_OK;
    mica_array pair[2];
    size_t count = (size_t)(rows * w->top);
    float *values = MC_BUFFER_AT(&w->likeliest, float);
    uint32_t *ids = MC_BUFFER_AT(&w->likeliest, uint32_t) + count;
    pair[0] = mica_topk_indices(w->s, logits, w->top, 2, &pair[1]);
    MC_TRY(mica_eval_n(w->s, pair, 2));
    MC_TRY(mica_read(pair[0], values, count * sizeof *values));
    MC_TRY(mica_read(pair[1], ids, count * sizeof *ids));
    for (int64_t i = 0; i < rows * w->top; i++)
        w->alternatives[(at + 1) * w->top + i] =
            (mica_alternative){(int32_t)ids[i], values[i] - norm[i / w->top]};
    return MICA_OK;
}

/* Sets the log-probabilities of the tokens after rows [from, from + rows) of hidden [1, L, hidden];
 * row 0 is token `at`. The rows are gathered, not sliced: their indices are then data, and every
 * call runs one compiled plan. */
static mica_status score_rows(const scoring *w, mica_array hidden, int64_t from, int64_t at,
                              int64_t rows) {
    static const int last[] = {2};
    const int64_t index_shape[] = {rows}, id_shape[] = {1, rows, 1};
    size_t bytes = (size_t)rows * sizeof(float);
    int32_t *index = MC_BUFFER_AT(&w->index, int32_t);
    float *logit = MC_BUFFER_AT(&w->index, float), *norm = logit + rows;
    for (int64_t i = 0; i < rows; i++)
        index[i] = (int32_t)(from + i);
    mica_array states =
        mica_take(w->s, hidden, mica_from_data(w->s, index, MICA_I32, index_shape, 1), 1);
    mica_array logits = mc_lm_head(w->s, w->lm, states);
    mica_array ids = mica_from_data(w->s, w->ids + at + 1, MICA_I32, id_shape, 3);
    mica_array pair[] = {mica_take_along_axis(w->s, logits, ids, 2),
                         mica_logsumexp(w->s, logits, last, 1, true)};
    MC_TRY(mica_eval_n(w->s, pair, 2));
    MC_TRY(mica_read(pair[0], logit, bytes));
    MC_TRY(mica_read(pair[1], norm, bytes));
    for (int64_t i = 0; i < rows; i++) {
        w->logprobs[at + 1 + i] = logit[i] - norm[i];
        if (!isfinite(w->logprobs[at + 1 + i])) return mc_task_broken("a logit");
    }
    return find_likeliest(w, logits, norm, at, rows);
}

static mica_status score_chunk(void *context, const mica_array *results, int64_t at, int64_t n) {
    const scoring *w = context;
    int64_t end = at + n < w->n ? n : n - 1; /* the last token predicts none */
    for (int64_t i = 0, rows; i < end; i += rows) {
        rows = end - i < w->rows ? end - i : w->rows;
        MC_TRY(mc_cancel_check(w->cancel));
        mica_status status = score_rows(w, results[0], i, at + i, rows);
        mc_scope_reset(w->s);
        if (status != MICA_OK) return status;
    }
    return MICA_OK;
}

static mica_status score(const mc_session_model *model, scoring *w,
                         const mica_task_options *options) {
    const mc_session_wish wish = {.wanted = MC_HIDDEN};
    mica_array hidden;
    if (!mc_buffer_reserve(&w->index, (size_t)w->rows * 2 * sizeof(float)) ||
        !mc_buffer_reserve(&w->likeliest, (size_t)(w->rows * w->top) * 2 * sizeof(float)))
        return mc_fail_nomem("a text's score");
    MC_TRY(mica_scope_open(model->device, &w->s));
    return mc_task_feed(model, w->ids, (size_t)w->n, options, &wish, &hidden, score_chunk, w);
}

static void sum_up(mica_score_result *r) {
    for (size_t i = 1; i < r->count; i++)
        r->total += (double)r->logprobs[i];
    r->perplexity = exp(-r->total / (double)(r->count - 1));
}

/* A result that has only the ids. */
static mica_score_result *new_result(const int32_t *ids, size_t n) {
    mica_score_result *r = mc_calloc(1, sizeof *r);
    int32_t *copy = mc_array_alloc(n, sizeof *copy);
    float *logprobs = mc_calloc(n, sizeof *logprobs);
    if (!r || !copy || !logprobs) {
        mc_free(r);
        mc_free(copy);
        mc_free(logprobs);
        return NULL;
    }
    memcpy(copy, ids, n * sizeof *copy);
    *r = (mica_score_result){.ids = copy, .logprobs = logprobs, .count = n};
    return r;
}

mica_status mc_score(const mc_session_model *model, const int32_t *ids, size_t n,
                     const mica_task_options *options, mica_score_result **result) {
    mica_alternative *none;
    return mc_score_top(model, ids, n, 0, options, result, &none);
}

mica_status mc_score_top(const mc_session_model *model, const int32_t *ids, size_t n, int64_t top,
                         const mica_task_options *options, mica_score_result **result,
                         mica_alternative **alternatives) {
    uint64_t start = mc_now_us();
    *result = NULL;
    *alternatives = NULL;
    MC_TRY(mc_task_check_ids(model, ids, n));
    if (n < 2)
        return mc_fail(MICA_EINVAL, "the text has one token: a score needs two or more, for "
                                    "nothing comes before the first");
    mica_score_result *r = new_result(ids, n);
    if (!r) return mc_fail_nomem("a text's score");
    int64_t rows = MC_SCORE_BYTES / ((int64_t)sizeof(float) * model->lm->spec.vocab);
    scoring w = {.lm = model->lm,
                 .cancel = options->cancel,
                 .ids = r->ids,
                 .n = (int64_t)n,
                 .rows = rows > 1 ? rows : 1,
                 .logprobs = (float *)r->logprobs,
                 .top = top,
                 .alternatives = top ? mc_calloc(n * (size_t)top, sizeof(mica_alternative)) : NULL};
    mica_status status =
        top && !w.alternatives ? mc_fail_nomem("a text's score") : score(model, &w, options);
    mica_scope_close(&w.s);
    mc_buffer_deinit(&w.index);
    mc_buffer_deinit(&w.likeliest);
    if (status != MICA_OK) {
        mc_free(w.alternatives);
        mica_score_free(&r);
        return status;
    }
    sum_up(r);
    r->seconds = (double)(mc_now_us() - start) * 1e-6;
    *result = r;
    *alternatives = w.alternatives;
    return MICA_OK;
}

void mica_score_free(mica_score_result **result) {
    if (!result || !*result) return;
    mc_free((void *)(*result)->ids);
    mc_free((void *)(*result)->logprobs);
    mc_free(*result);
    *result = NULL;
}
