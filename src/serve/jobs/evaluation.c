#include "serve/jobs/evaluation.h"

#include "base/system.h"
#include "serve/models/models.h"

/* Takes an evaluation out of the queue. Called with the lock held. */
static void take_out(mc_evaluator *evaluator, mc_evaluation *evaluation) {
    mc_evaluation **link = &evaluator->first;
    while (*link != evaluation)
        link = &(*link)->next;
    *link = evaluation->next;
    evaluation->next = NULL;
    evaluation->waits = false;
    evaluator->stats.waiting--;
}

static bool is_late(const mc_evaluation *evaluation) {
    return evaluation->deadline_us && mc_now_us() >= evaluation->deadline_us;
}

static mc_evaluation_end end_of(const mc_evaluation *evaluation, bool done) {
    if (done) return MC_EVALUATION_DONE;
    if (evaluation->http->failure.status == 504) return MC_EVALUATION_TIMED_OUT;
    if (mc_cancel_check(&evaluation->cancel) != MICA_OK) return MC_EVALUATION_CANCELLED;
    return MC_EVALUATION_FAILED;
}

/* Counts one that has run, before its answer is sent. */
static void count_end(mc_evaluation *evaluation, bool done, uint64_t began_us) {
    mc_evaluator *evaluator = evaluation->evaluator;
    pthread_mutex_lock(&evaluator->lock);
    mc_evaluation_kind kind = evaluation->ops->kind;
    evaluator->stats.kinds[kind].ended[end_of(evaluation, done)]++;
    evaluator->stats.kinds[kind].seconds +=
        (double)(mc_now_us() - began_us - evaluation->others_us) / 1e6;
    if (done) evaluator->stats.kinds[kind].tokens += (uint64_t)evaluation->http->prompt_tokens;
    pthread_mutex_unlock(&evaluator->lock);
}

static void compute(mc_evaluation *evaluation) {
    mc_exchange *http = evaluation->http;
    uint64_t began_us = mc_now_us();
    mc_evaluation_progress(evaluation, 0, 1);
    bool done = mc_cancel_check(&evaluation->cancel) == MICA_OK
                    ? evaluation->ops->run(evaluation)
                    : mc_evaluation_fail(evaluation, MICA_ECANCELLED, NULL);
    count_end(evaluation, done, began_us);
    if (done && evaluation->ops->follow) {
        http->evaluated_us = mc_now_us() - evaluation->started_us;
        if (evaluation->ops->follow(evaluation)) return;
        done = false;
    }
    if (done)
        mc_exchange_reply(http, 200, NULL);
    else
        mc_exchange_refuse(http);
}

/* Runs the first one of the queue. Called with the lock held, which it lets go meanwhile. */
static void run_first(mc_evaluator *evaluator) {
    mc_evaluation *evaluation = evaluator->first;
    take_out(evaluator, evaluation);
    evaluation->runs = true;
    evaluator->stats.running++;
    pthread_mutex_unlock(&evaluator->lock);
    compute(evaluation);
    pthread_mutex_lock(&evaluator->lock);
    evaluation->runs = false;
    evaluator->stats.running--;
    pthread_cond_broadcast(&evaluator->changed);
}

static void *work(void *context) {
    mc_evaluator *evaluator = context;
    pthread_mutex_lock(&evaluator->lock);
    for (;;) {
        while (!evaluator->first && !evaluator->ending)
            pthread_cond_wait(&evaluator->changed, &evaluator->lock);
        if (!evaluator->first) break;
        run_first(evaluator);
    }
    pthread_mutex_unlock(&evaluator->lock);
    return NULL;
}

/* Between two parts of a background evaluation, which may have thousands: runs what clients wait
 * for. None of that gives way itself, so that two are computed at most, one within the other. */
static void give_way(mc_evaluation *evaluation) {
    mc_evaluator *evaluator = evaluation->evaluator;
    uint64_t start = mc_now_us();
    pthread_mutex_lock(&evaluator->lock);
    while (evaluator->first && !evaluator->first->http->background)
        run_first(evaluator);
    pthread_mutex_unlock(&evaluator->lock);
    evaluation->others_us += mc_now_us() - start;
}

mica_status mc_evaluator_open(mc_evaluator *evaluator) {
    *evaluator = (mc_evaluator){.first = NULL};
    pthread_mutex_init(&evaluator->lock, NULL);
    pthread_cond_init(&evaluator->changed, NULL);
    if (mc_thread_start(&evaluator->thread, work, evaluator) == 0) return MICA_OK;
    pthread_cond_destroy(&evaluator->changed);
    pthread_mutex_destroy(&evaluator->lock);
    return mc_fail_nomem("a thread of the server");
}

void mc_evaluator_close(mc_evaluator *evaluator) {
    pthread_mutex_lock(&evaluator->lock);
    evaluator->ending = true;
    pthread_cond_broadcast(&evaluator->changed);
    pthread_mutex_unlock(&evaluator->lock);
    pthread_join(evaluator->thread, NULL);
    pthread_cond_destroy(&evaluator->changed);
    pthread_mutex_destroy(&evaluator->lock);
}

void mc_evaluator_get_stats(mc_evaluator *evaluator, mc_evaluation_stats *stats) {
    pthread_mutex_lock(&evaluator->lock);
    *stats = evaluator->stats;
    pthread_mutex_unlock(&evaluator->lock);
}

/* ---- evaluations ---- */

/* The flag of the exchange is set already, and `cancel` looks at it. */
static void on_hangup(void *user) {
    mc_evaluation *evaluation = user;
    if (evaluation->ops->hangup) evaluation->ops->hangup(evaluation);
}

static void on_close(void *user) {
    mc_evaluation *evaluation = user;
    mc_evaluator *evaluator = evaluation->evaluator;
    pthread_mutex_lock(&evaluator->lock);
    if (evaluation->waits) take_out(evaluator, evaluation);
    while (evaluation->runs)
        pthread_cond_wait(&evaluator->changed, &evaluator->lock);
    pthread_mutex_unlock(&evaluator->lock);
    evaluation->ops->close(evaluation);
}

/* Puts it into the queue, behind those that came before, but background requests. */
static bool add(mc_evaluator *evaluator, mc_evaluation *evaluation) {
    pthread_mutex_lock(&evaluator->lock);
    bool fits = evaluator->stats.waiting < MC_EVALUATIONS;
    if (fits) {
        mc_evaluation **link = &evaluator->first;
        bool background = evaluation->http->background;
        while (*link && (background || !(*link)->http->background))
            link = &(*link)->next;
        evaluation->next = *link;
        *link = evaluation;
        evaluation->waits = true;
        evaluator->stats.waiting++;
        pthread_cond_broadcast(&evaluator->changed);
    } else {
        evaluator->stats.refused++;
    }
    pthread_mutex_unlock(&evaluator->lock);
    return fits;
}

bool mc_evaluation_start(mc_evaluation *evaluation, mc_evaluator *evaluator) {
    mc_exchange *http = evaluation->http;
    double seconds = mc_models_left_seconds(http);
    evaluation->started_us = mc_now_us();
    if (seconds > 0.0) evaluation->deadline_us = evaluation->started_us + (uint64_t)(seconds * 1e6);
    evaluation->evaluator = evaluator;
    mc_cancel_init_either(&evaluation->cancel, &http->cancel, NULL);
    mc_exchange_attach(http, &(mc_exchange_work){on_hangup, on_close, evaluation});
    if (evaluation->served->lead)
        return mc_failure_set(&http->failure, 400, "unsupported", "model",
                              "the model is computed by several processes together: it answers "
                              "prompts, and makes no vectors and no scores");
    if (add(evaluator, evaluation)) return true;
    return mc_failure_set(&http->failure, 503, "overloaded", NULL,
                          "%d requests wait already, as many as may: try again later",
                          MC_EVALUATIONS);
}

void mc_evaluation_progress(void *user, uint64_t done, uint64_t total) {
    mc_evaluation *evaluation = user;
    (void)done, (void)total;
    if (evaluation->http->background) give_way(evaluation);
    if (is_late(evaluation)) mica_cancel_set(&evaluation->cancel);
}

bool mc_evaluation_fail(mc_evaluation *evaluation, mica_status status, const char *param) {
    mc_failure *failure = &evaluation->http->failure;
    if (status == MICA_ECANCELLED && is_late(evaluation))
        return mc_failure_set(failure, 504, "timeout", NULL, "the request took too long");
    return mc_failure_of(failure, status, param);
}
