#include "serve/completion.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* How much lower the priority of background requests is than all that requests may have. */
enum { BACKGROUND = 1 << 22 };

/* A prompt on its way: the user of its callbacks. */
struct mc_completion_request {
    mc_completion *job;
    size_t first;        /* its first choice */
    mc_request *request; /* guarded by requests_lock once it is submitted; NULL: closed */
    bool dropped;        /* the job's op wanted no more tokens */
};

static void cancel(mc_completion *job) {
    atomic_store(&job->cancelled, true);
    size_t n = atomic_load(&job->submitted);
    pthread_mutex_lock(&job->requests_lock);
    for (size_t i = 0; i < n; i++)
        mc_request_cancel(job->requests[i].request);
    pthread_mutex_unlock(&job->requests_lock);
}

/* Closes the first n requests: without the lock, which callbacks that are waited for take. */
static void close_requests(mc_completion *job, size_t n) {
    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&job->requests_lock);
        mc_request *request = job->requests[i].request;
        job->requests[i].request = NULL;
        pthread_mutex_unlock(&job->requests_lock);
        mc_request_close(&request);
    }
}

/* ---- the scheduler's callbacks ---- */

static void on_prefill(void *user, int64_t done, int64_t total, int64_t cached) {
    const mc_completion_request *at = user;
    char comment[96];
    (void)cached;
    if (!at->job->comments || atomic_load(&at->job->cancelled)) return;
    int n = snprintf(comment, sizeof comment, ": prompt %" PRId64 " of %" PRId64 " tokens\n\n",
                     done, total);
    mc_exchange_write(at->job->http, comment, (size_t)n);
}

static bool on_token(void *user, size_t choice, const mica_token *token) {
    mc_completion_request *at = user;
    mc_completion *job = at->job;
    if (atomic_load(&job->cancelled)) return false;
    pthread_mutex_lock(&job->lock);
    bool more = job->ops->token(job, at->first + choice, token);
    pthread_mutex_unlock(&job->lock);
    at->dropped = at->dropped || !more;
    if (!more) cancel(job);
    return more;
}

static void count_end(mc_completion *job, size_t choice, const mc_choice_end *end) {
    const mica_metrics *metrics = &end->metrics;
    if (choice % job->choices == 0) {
        job->prompt_tokens += metrics->prompt_tokens;
        job->cached_tokens += metrics->reused_tokens;
    }
    job->answer_tokens += metrics->generated_tokens;
}

static void note_failure(mc_completion *job, const mc_choice_end *end) {
    if (end->timed_out) {
        mc_failure_set(&job->failure, 504, "timeout", NULL, "the request took too long");
    } else {
        mica_status status = mc_fail(end->status, "%s", end->error);
        mc_failure_of(&job->failure, status, NULL);
    }
}

static void on_end(void *user, size_t choice, const mc_choice_end *end) {
    const mc_completion_request *at = user;
    mc_completion *job = at->job;
    bool failed = end->timed_out || (end->status != MICA_OK && end->status != MICA_ECANCELLED);
    if (failed) cancel(job);
    pthread_mutex_lock(&job->lock);
    count_end(job, at->first + choice, end);
    if (failed && !job->failure.status) note_failure(job, end);
    if (!failed && !at->dropped && !job->failure.status && end->finish != MICA_FINISH_STOP &&
        end->finish != MICA_FINISH_LENGTH)
        mc_failure_set(&job->failure, 499, "cancelled", NULL, "the request was cancelled");
    job->ops->end(job, at->first + choice, end);
    if (--job->left == 0) {
        job->http->prompt_tokens = job->prompt_tokens;
        job->http->answer_tokens = job->answer_tokens;
        job->ops->done(job);
    }
    pthread_mutex_unlock(&job->lock);
}

/* ---- the request ---- */

static void on_hangup(void *user) {
    cancel(user);
}

static void on_close(void *user) {
    mc_completion *job = user;
    close_requests(job, atomic_load(&job->submitted));
    for (size_t i = 0; i < job->count; i++)
        mica_free(job->prompts[i].ids);
    mc_free(job->prompts);
    mc_answer_form_deinit(&job->form);
    mc_free(job->requests);
    pthread_mutex_destroy(&job->requests_lock);
    pthread_mutex_destroy(&job->lock);
    job->ops->close(job);
}

static bool fail_submit(mc_completion *job, mica_status status) {
    mc_failure *failure = &job->http->failure;
    if (status == MICA_EBUSY) {
        mc_failure_set(failure, 503, "overloaded", NULL, "%s", mica_last_error());
        failure->retry_seconds = (int)mc_schedule_retry_seconds(job->served->schedule);
    } else {
        mc_failure_of(failure, status, NULL);
    }
    /* Those that were submitted already: no callback runs once they are closed. */
    atomic_store(&job->cancelled, true);
    close_requests(job, atomic_load(&job->submitted));
    return false;
}

void mc_completion_attach(mc_completion *job) {
    job->left = job->count * job->choices;
    pthread_mutex_init(&job->lock, NULL);
    pthread_mutex_init(&job->requests_lock, NULL);
    job->attached = true;
    mc_exchange_attach(job->http, &(mc_exchange_work){on_hangup, on_close, job});
}

/* What each choice of a prompt may say, for mc_schedule_submit: [choices], each may be NULL. Freed
 * with mc_free. */
static mica_status make_constraints(const mc_completion *job, mc_constraint ***out) {
    mc_constraint **constraints = mc_calloc(job->choices, sizeof *constraints);
    mica_status status = constraints ? MICA_OK : mc_fail_nomem("constraints");
    bool any = false;
    for (size_t i = 0; status == MICA_OK && i < job->choices; i++) {
        status = mc_answer_form_constrain(&job->form, job->served->grammars, &constraints[i]);
        any = any || constraints[i];
    }
    *out = status == MICA_OK && any ? constraints : NULL;
    if (*out) return MICA_OK;
    for (size_t i = 0; constraints && i < job->choices; i++)
        mc_constraint_close(&constraints[i]);
    mc_free(constraints);
    return status;
}

/* Submits a prompt. */
static mica_status submit(mc_completion *job, mc_completion_request *at, size_t prompt,
                          const mica_generate_options *options) {
    mc_constraint **constraints;
    MC_TRY(make_constraints(job, &constraints));
    /* Who has another key must not see by the time of an answer what others have asked. */
    char salt[32];
    snprintf(salt, sizeof salt, "key %zu", job->http->key);
    mc_request_options request = {
        .ids = job->prompts[prompt].ids,
        .n_ids = job->prompts[prompt].n,
        .generate = options,
        .choices = job->choices,
        .priority = job->priority - (job->http->background ? BACKGROUND : 0),
        .max_seconds = job->served->options.max_seconds,
        .salt = salt,
        .marks = job->prompts[prompt].marks,
        .n_marks = job->prompts[prompt].n_marks,
        .constraints = constraints,
        .prefill = on_prefill,
        .token = on_token,
        .end = on_end,
        .user = at,
    };
    mica_status status = mc_schedule_submit(job->served->schedule, &request, &at->request);
    mc_free(constraints);
    return status;
}

/* More prompts than may wait would never all find a place in the queue. */
static bool check_count(const mc_completion *job) {
    mc_schedule_stats stats;
    mc_schedule_get_stats(job->served->schedule, &stats);
    return job->count == 1 || job->count <= stats.queue ||
           mc_failure_set(&job->http->failure, 400, "invalid_value", "prompt",
                          "prompt: %zu prompts, and no more than %zu may wait for this model",
                          job->count, stats.queue);
}

bool mc_completion_start(mc_completion *job, const mica_generate_options *options) {
    if (!job->attached) mc_completion_attach(job);
    if (!check_count(job)) return false;
    mica_generate_options own = *options;
    if (mc_answer_form_is_forced(&job->form)) own.stop_string_count = 0;
    job->requests = mc_calloc(job->count, sizeof *job->requests);
    if (!job->requests) return mc_failure_of(&job->http->failure, mc_fail_nomem("a request"), NULL);
    for (size_t i = 0; i < job->count; i++) {
        mc_completion_request *at = &job->requests[i];
        at->job = job;
        at->first = i * job->choices;
        mica_status status = submit(job, at, i, &own);
        if (status != MICA_OK) return fail_submit(job, status);
        atomic_store(&job->submitted, i + 1);
        if (atomic_load(&job->cancelled)) mc_request_cancel(at->request);
    }
    return true;
}

bool mc_completion_note(mc_completion *job, mica_status status) {
    if (status != MICA_OK && status != MICA_ECANCELLED && !job->failure.status)
        mc_failure_of(&job->failure, status, NULL);
    return status == MICA_OK;
}

void mc_completion_stream(mc_completion *job, const char *content_type) {
    mc_exchange_stream(job->http, content_type);
}
