#include "task/compare.h"

#include "base/alloc.h"
#include "graph/graph.h"
#include "task/score.h"
#include "task/task.h"

#include <math.h>

/* One of the two models. */
typedef struct side {
    const mc_session_model *model;
    mc_session *session;
    mica_scope *s;      /* scope of the head's matmuls */
    mica_array hidden;  /* [1, L, hidden] f32 of the chunk */
    float *logits;      /* [rows, vocab] */
    const float *logit; /* [vocab] of the current row */
    double norm;        /* ln sum_i exp(logit[i]) */
    size_t top;         /* likeliest token of the current row */
} side;

typedef struct comparing {
    side sides[2]; /* the reference, the model */
    const int32_t *ids;
    int64_t n, rows; /* number of tokens, and of rows of logits computed at a time */
    size_t vocab;
    int32_t *index; /* [rows] indices of hidden states to gather */
    mica_comparison sums;
} comparing;

/* Computes the logits of rows [from, from + rows) of the chunk. Rows are gathered, not sliced, for
 * the reason given in score.c. */
static mica_status read_logits(const comparing *c, side *a, int64_t from, int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
        c->index[i] = (int32_t)(from + i);
    mica_array index = mica_from_data(a->s, c->index, MICA_I32, &rows, 1);
    mica_array logits = mc_lm_head(a->s, a->model->lm, mica_take(a->s, a->hidden, index, 1));
    mica_status status = mica_eval(a->s, logits);
    if (status == MICA_OK)
        status = mica_read(logits, a->logits, (size_t)rows * c->vocab * sizeof *a->logits);
    mc_scope_reset(a->s);
    return status;
}

static mica_status look(side *a, const float *logit, size_t vocab) {
    double sum = 0;
    a->logit = logit;
    a->top = 0;
    for (size_t i = 1; i < vocab; i++)
        if (logit[i] > logit[a->top]) a->top = i;
    double max = (double)logit[a->top];
    for (size_t i = 0; i < vocab; i++)
        sum += exp((double)logit[i] - max);
    a->norm = max + log(sum);
    return isfinite(a->norm) ? MICA_OK : mc_task_broken("a logit");
}

/* Adds the current rows' predictions of the token `next` to the sums. */
static void add_row(comparing *c, int32_t next) {
    const side *p = &c->sides[0], *q = &c->sides[1];
    double divergence = 0;
    for (size_t i = 0; i < c->vocab; i++) {
        double log_p = (double)p->logit[i] - p->norm, log_q = (double)q->logit[i] - q->norm;
        /* p ln(p / q) is 0 for p = 0, whatever q is. */
        if (log_p > -INFINITY) divergence += exp(log_p) * (log_p - log_q);
    }
    c->sums.count++;
    c->sums.same += p->top == q->top;
    c->sums.divergence += divergence;
    c->sums.max = fmax(c->sums.max, divergence);
    c->sums.reference_logprob += (double)p->logit[next] - p->norm;
    c->sums.model_logprob += (double)q->logit[next] - q->norm;
}

/* Adds the predictions of tokens [at, at + n), which were fed. The text's last token predicts
 * none. */
static mica_status compare_chunk(comparing *c, int64_t at, int64_t n, const mica_cancel *cancel) {
    int64_t end = at + n < c->n ? n : n - 1;
    for (int64_t i = 0, rows; i < end; i += rows) {
        rows = end - i < c->rows ? end - i : c->rows;
        MC_TRY(mc_cancel_check(cancel));
        for (int k = 0; k < 2; k++)
            MC_TRY(read_logits(c, &c->sides[k], i, rows));
        for (int64_t row = 0; row < rows; row++) {
            for (int k = 0; k < 2; k++)
                MC_TRY(look(&c->sides[k], c->sides[k].logits + (size_t)row * c->vocab, c->vocab));
            add_row(c, c->ids[at + i + row + 1]);
        }
    }
    return MICA_OK;
}

static mica_status open_sides(comparing *c) {
    c->index = mc_array_alloc((size_t)c->rows, sizeof *c->index);
    if (!c->index) return mc_fail_nomem("a comparison");
    for (int k = 0; k < 2; k++) {
        side *a = &c->sides[k];
        MC_TRY(mc_session_open(a->model, 0, &a->session));
        MC_TRY(mica_scope_open(a->model->device, &a->s));
        a->logits = mc_array_alloc((size_t)c->rows * c->vocab, sizeof *a->logits);
        if (!a->logits) return mc_fail_nomem("a comparison");
    }
    return MICA_OK;
}

static void close_sides(comparing *c) {
    for (int k = 0; k < 2; k++) {
        mica_scope_close(&c->sides[k].s);
        mc_session_close(&c->sides[k].session);
        mc_free(c->sides[k].logits);
    }
    mc_free(c->index);
}

static mica_status compare(comparing *c, const mica_task_options *options) {
    const mc_session_wish wish = {.wanted = MC_HIDDEN};
    MC_TRY(open_sides(c));
    int64_t chunk = c->sides[0].session->chunk;
    for (int k = 0; k < 2; k++)
        c->sides[k].session->to_come = c->n;
    for (int64_t at = 0, step; at < c->n; at += step) {
        step = c->n - at < chunk ? c->n - at : chunk;
        for (int k = 0; k < 2; k++) {
            side *a = &c->sides[k];
            MC_TRY(mc_cancel_check(options->cancel));
            MC_TRY(mc_session_pass(a->session, c->ids + at, step, &wish, &a->hidden));
        }
        MC_TRY(compare_chunk(c, at, step, options->cancel));
        if (options->progress)
            options->progress(options->progress_user, (uint64_t)(at + step), (uint64_t)c->n);
    }
    return MICA_OK;
}

mica_status mc_compare(const mc_session_model *reference, const mc_session_model *model,
                       const int32_t *ids, size_t n, const mica_task_options *options,
                       mica_comparison *sums) {
    int64_t vocab = reference->lm->spec.vocab, rows = MC_SCORE_BYTES / (4 * vocab);
    if (model->lm->spec.vocab != vocab)
        return mc_fail(MICA_EINVAL,
                       "the models cannot be compared: the reference's vocabulary has %lld tokens, "
                       "the other's %lld",
                       (long long)vocab, (long long)model->lm->spec.vocab);
    MC_TRY(mc_task_check_ids(reference, ids, n));
    MC_TRY(mc_task_check_ids(model, ids, n));
    if (n < 2)
        return mc_fail(MICA_EINVAL, "the text has one token: a comparison needs two or more, for "
                                    "nothing predicts the first");
    comparing c = {.sides = {{.model = reference}, {.model = model}},
                   .ids = ids,
                   .n = (int64_t)n,
                   .rows = rows > 1 ? rows : 1,
                   .vocab = (size_t)vocab,
                   .sums = *sums};
    mica_status status = compare(&c, options);
    close_sides(&c);
    if (status == MICA_OK) *sums = c.sums;
    return status;
}
