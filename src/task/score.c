#include "task/score.h"

#include "base/alloc.h"
#include "base/system.h"
#include "graph/graph.h"
#include "task/task.h"

#include <math.h>
#include <string.h>

/* A token whose logits are computed: that after a row of hidden states. */
typedef struct place {
    int32_t row, next;           /* next: the token */
    float *logprob;              /* receives its log-probability */
    mica_alternative *likeliest; /* receives [top] */
} place;

typedef struct scoring {
    const mc_lm *lm;
    const mica_cancel *cancel;
    mica_scope *s;
    int64_t rows;        /* rows of logits computed at a time */
    mc_buffer places;    /* place [rows] */
    mc_buffer index;     /* int32 [2, rows]: rows to gather, and tokens; then float: results */
    int64_t top;         /* alternatives of a token */
    mc_buffer likeliest; /* float [rows, top], u32 [rows, top] */
    /* Of a text that is computed alone. */
    mica_score_result *result;
    mica_alternative *alternatives; /* [n, top] */
} scoring;

/* Sets the alternatives of n places, whose logits [1, n, vocab] have the logarithms norm [n] of
 * their exponentials' sums. */
static mica_status find_likeliest(const scoring *w, mica_array logits, const float *norm,
                                  int64_t n) {
    if (!w->top) return MICA_OK;
    mica_array pair[2];
    size_t count = (size_t)(n * w->top);
    const place *places = MC_BUFFER_AT(&w->places, place);
    float *values = MC_BUFFER_AT(&w->likeliest, float);
    uint32_t *ids = MC_BUFFER_AT(&w->likeliest, uint32_t) + count;
    pair[0] = mica_topk_indices(w->s, logits, w->top, 2, &pair[1]);
    MC_TRY(mica_eval_n(w->s, pair, 2));
    MC_TRY(mica_read(pair[0], values, count * sizeof *values));
    MC_TRY(mica_read(pair[1], ids, count * sizeof *ids));
    for (int64_t i = 0; i < n * w->top; i++)
        places[i / w->top].likeliest[i % w->top] =
            (mica_alternative){(int32_t)ids[i], values[i] - norm[i / w->top]};
    return MICA_OK;
}

/* Fills the n places that are collected, from hidden [1, L, hidden]. The rows are gathered, not
 * sliced: their indices are then data, and every call runs one compiled plan. */
static mica_status fill_places(const scoring *w, mica_array hidden, int64_t n) {
    static const int last[] = {2};
    const int64_t index_shape[] = {n}, id_shape[] = {1, n, 1};
    size_t bytes = (size_t)n * sizeof(float);
    const place *places = MC_BUFFER_AT(&w->places, place);
    int32_t *index = MC_BUFFER_AT(&w->index, int32_t), *next = index + n;
    float *logit = MC_BUFFER_AT(&w->index, float), *norm = logit + n;
    for (int64_t i = 0; i < n; i++) {
        index[i] = places[i].row;
        next[i] = places[i].next;
    }
    mica_array states =
        mica_take(w->s, hidden, mica_from_data(w->s, index, MICA_I32, index_shape, 1), 1);
    mica_array ids = mica_from_data(w->s, next, MICA_I32, id_shape, 3);
    mica_array logits = mc_lm_head(w->s, w->lm, states);
    mica_array pair[] = {mica_take_along_axis(w->s, logits, ids, 2),
                         mica_logsumexp(w->s, logits, last, 1, true)};
    MC_TRY(mica_eval_n(w->s, pair, 2));
    MC_TRY(mica_read(pair[0], logit, bytes));
    MC_TRY(mica_read(pair[1], norm, bytes));
    for (int64_t i = 0; i < n; i++)
        *places[i].logprob = logit[i] - norm[i];
    return find_likeliest(w, logits, norm, n);
}

static mica_status score_places(scoring *w, mica_array hidden) {
    int64_t n = (int64_t)MC_BUFFER_COUNT(&w->places, place);
    if (!n) return MICA_OK;
    MC_TRY(mc_cancel_check(w->cancel));
    mica_status status = fill_places(w, hidden, n);
    mc_scope_reset(w->s);
    mc_buffer_clear(&w->places);
    return status;
}

/* Adds a place; if there are as many as are computed at a time, these are. */
static mica_status add_place(scoring *w, mica_array hidden, place p) {
    (void)MC_BUFFER_PUSH(&w->places, place, p); /* there is room: open_scoring */
    return (int64_t)MC_BUFFER_COUNT(&w->places, place) < w->rows ? MICA_OK
                                                                 : score_places(w, hidden);
}

/* Adds the places after tokens [at, at + n) of a text, whose states begin at `row`. */
static mica_status add_places(scoring *w, mica_array hidden, const mica_score_result *r, int64_t at,
                              int64_t n, int64_t row) {
    for (int64_t i = at; i < at + n && i + 1 < (int64_t)r->count; i++)
        MC_TRY(add_place(w, hidden,
                         (place){.row = (int32_t)(row + i - at),
                                 .next = r->ids[i + 1],
                                 .logprob = (float *)&r->logprobs[i + 1],
                                 .likeliest = w->top ? &w->alternatives[(i + 1) * w->top] : NULL}));
    return MICA_OK;
}

static mica_status score_chunk(void *context, const mica_array *results, int64_t at, int64_t n) {
    scoring *w = context;
    MC_TRY(add_places(w, results[0], w->result, at, n, 0));
    return score_places(w, results[0]);
}

static mica_status open_scoring(scoring *w, const mc_session_model *model,
                                const mica_task_options *options, int64_t top) {
    int64_t rows = MC_SCORE_BYTES / ((int64_t)sizeof(float) * model->lm->spec.vocab);
    *w = (scoring){
        .lm = model->lm, .cancel = options->cancel, .rows = rows > 1 ? rows : 1, .top = top};
    if (!mc_buffer_reserve(&w->places, (size_t)w->rows * sizeof(place)) ||
        !mc_buffer_reserve(&w->index, (size_t)w->rows * 2 * sizeof(float)) ||
        !mc_buffer_reserve(&w->likeliest, (size_t)(w->rows * w->top) * 2 * sizeof(float)))
        return mc_fail_nomem("a text's score");
    return mica_scope_open(model->device, &w->s);
}

static void close_scoring(scoring *w) {
    mica_scope_close(&w->s);
    mc_buffer_deinit(&w->places);
    mc_buffer_deinit(&w->index);
    mc_buffer_deinit(&w->likeliest);
}

static mica_status sum_up(mica_score_result *r) {
    for (size_t i = 1; i < r->count; i++)
        r->total += (double)r->logprobs[i];
    if (!isfinite(r->total)) return mc_task_broken("a logit");
    r->perplexity = exp(-r->total / (double)(r->count - 1));
    return MICA_OK;
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

static mica_status check_ids(const mc_session_model *model, const int32_t *ids, size_t n) {
    MC_TRY(mc_task_check_ids(model, ids, n));
    if (n >= 2) return MICA_OK;
    return mc_fail(MICA_EINVAL, "the text has one token: a score needs two or more, for nothing "
                                "comes before the first");
}

/* Scores the text of w->result alone. */
static mica_status score_alone(const mc_session_model *model, scoring *w,
                               const mica_task_options *options) {
    const mc_session_wish wish = {.wanted = MC_HIDDEN};
    mica_array hidden;
    mc_buffer_clear(&w->places);
    MC_TRY(mc_task_feed(model, w->result->ids, w->result->count, options, &wish, &hidden,
                        score_chunk, w));
    return sum_up(w->result);
}

mica_status mc_score_top(const mc_session_model *model, const int32_t *ids, size_t n, int64_t top,
                         const mica_task_options *options, mica_score_result **result,
                         mica_alternative **alternatives) {
    uint64_t start = mc_now_us();
    scoring w;
    *result = NULL;
    *alternatives = NULL;
    MC_TRY(check_ids(model, ids, n));
    mica_status status = open_scoring(&w, model, options, top);
    w.result = new_result(ids, n);
    if (top) w.alternatives = mc_calloc(n * (size_t)top, sizeof *w.alternatives);
    if (status == MICA_OK && (!w.result || (top && !w.alternatives)))
        status = mc_fail_nomem("a text's score");
    if (status == MICA_OK) status = score_alone(model, &w, options);
    close_scoring(&w);
    if (status != MICA_OK) {
        mc_free(w.alternatives);
        mica_score_free(&w.result);
        return status;
    }
    w.result->seconds = (double)(mc_now_us() - start) * 1e-6;
    *result = w.result;
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

/* ---- many texts ---- */

typedef struct scoring_texts {
    scoring scoring;
    mc_texts texts;
    const mica_task_options *options;
    mica_score_results *results;
    size_t done; /* rows */
} scoring_texts;

static void end_row(scoring_texts *w, size_t i, mica_status status) {
    mica_score_row *row = &w->results->rows[i];
    if (status != MICA_OK) {
        mica_score_free(&row->score);
        *row = (mica_score_row){.status = status, .error = mc_task_error(status)};
    }
    w->done++;
    if (w->options->progress)
        w->options->progress(w->options->progress_user, w->done, w->results->count);
}

/* Sets the log-probabilities of several texts, whose results are there. */
static mica_status score_together(scoring_texts *w, const size_t *indices, const mc_text *texts,
                                  size_t n) {
    mica_array hidden;
    mc_buffer_clear(&w->scoring.places);
    MC_TRY(mc_cancel_check(w->options->cancel));
    MC_TRY(mc_texts_compute(&w->texts, texts, n, MC_HIDDEN, &hidden));
    const int64_t length = mica_array_dim(hidden, 1);
    hidden = mica_expand_dims(w->texts.scope, mica_flatten(w->texts.scope, hidden, 0, 1), 0);
    MC_TRY(mica_eval(w->texts.scope, hidden));
    for (size_t i = 0; i < n; i++)
        MC_TRY(add_places(&w->scoring, hidden, w->results->rows[indices[i]].score, 0, texts[i].n,
                          (int64_t)i * length));
    return score_places(&w->scoring, hidden);
}

/* Within a long text. */
static void tell_progress(void *context, uint64_t done, uint64_t total) {
    const scoring_texts *w = context;
    (void)done, (void)total;
    if (w->options->progress)
        w->options->progress(w->options->progress_user, w->done, w->results->count);
}

static mica_status score_one(scoring_texts *w, size_t i) {
    const mica_task_options task = {
        .progress = tell_progress, .progress_user = w, .cancel = w->options->cancel};
    w->scoring.result = w->results->rows[i].score;
    return score_alone(w->texts.model, &w->scoring, &task);
}

/* Where a pass fails, each text is computed alone: one's failure is its own. */
static void score_group(void *context, const size_t *indices, const mc_text *texts, size_t n) {
    scoring_texts *w = context;
    bool together = n > 1 && score_together(w, indices, texts, n) == MICA_OK;
    for (size_t i = 0; i < n; i++) {
        mica_status status =
            together ? sum_up(w->results->rows[indices[i]].score) : score_one(w, indices[i]);
        end_row(w, indices[i], status);
    }
}

/* Gives the texts that can be computed results; the others end. */
static mica_status check_texts(scoring_texts *w, const mc_text *texts, mc_text **good) {
    size_t count = w->results->count;
    *good = mc_array_alloc(count + 1, sizeof **good);
    if (!*good) return mc_fail_nomem("texts");
    for (size_t i = 0; i < count; i++) {
        size_t n = (size_t)texts[i].n;
        mica_status status = check_ids(w->texts.model, texts[i].ids, n);
        (*good)[i] = (mc_text){0};
        if (status == MICA_OK) w->results->rows[i].score = new_result(texts[i].ids, n);
        if (status == MICA_OK && !w->results->rows[i].score)
            status = mc_fail_nomem("a text's score");
        if (status == MICA_OK)
            (*good)[i] = texts[i];
        else
            end_row(w, i, status);
    }
    return MICA_OK;
}

static mica_status score_all(scoring_texts *w, const mc_session_model *model,
                             const mc_text *texts) {
    mc_text *good = NULL;
    mica_status status = open_scoring(&w->scoring, model, w->options, 0);
    mica_status opened = mc_texts_init(&w->texts, model);
    if (status == MICA_OK) status = opened;
    if (status == MICA_OK) status = check_texts(w, texts, &good);
    if (status == MICA_OK) status = mc_texts_each(model, good, w->results->count, score_group, w);
    mc_free(good);
    mc_texts_deinit(&w->texts);
    close_scoring(&w->scoring);
    return status;
}

mica_status mc_score_texts(const mc_session_model *model, const mc_text *texts, size_t count,
                           const mica_task_options *options, mica_score_results **out) {
    uint64_t start = mc_now_us();
    scoring_texts w = {.options = options};
    *out = NULL;
    mica_score_results *results = mc_calloc(1, sizeof *results);
    if (!results) return mc_fail_nomem("the scores of texts");
    *results =
        (mica_score_results){.rows = mc_calloc(count + 1, sizeof *results->rows), .count = count};
    w.results = results;
    for (size_t i = 0; results->rows && i < count; i++)
        results->rows[i].error = "";
    mica_status status = results->rows ? MICA_OK : mc_fail_nomem("the scores of texts");
    if (status == MICA_OK) status = score_all(&w, model, texts);
    results->seconds = (double)(mc_now_us() - start) * 1e-6;
    if (status == MICA_OK)
        *out = results;
    else
        mica_score_texts_free(&results);
    return status;
}

void mica_score_texts_free(mica_score_results **results) {
    if (!results || !*results) return;
    for (size_t i = 0; (*results)->rows && i < (*results)->count; i++) {
        mc_task_error_free((*results)->rows[i].status, (*results)->rows[i].error);
        mica_score_free(&(*results)->rows[i].score);
    }
    mc_free((*results)->rows);
    mc_free(*results);
    *results = NULL;
}
