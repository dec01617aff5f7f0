#include "serve/jobs/completion.h"

#include "base/alloc.h"
#include "serve/jobs/state.h"

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
    size_t left;         /* its choices that have not ended */
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

/* Closes all requests: without the locks, which callbacks that are waited for take. Such a callback
 * may have submitted one more. */
static void close_requests(mc_completion *job) {
    atomic_store(&job->cancelled, true);
    for (size_t i = 0; i < atomic_load(&job->submitted); i++) {
        pthread_mutex_lock(&job->requests_lock);
        mc_request *request = job->requests[i].request;
        job->requests[i].request = NULL;
        pthread_mutex_unlock(&job->requests_lock);
        mc_request_close(&request);
    }
}

/* ---- submitting ---- */

/* What each choice of a prompt may say, for mc_schedule_submit: [choices], each may be NULL. Freed
 * with mc_free. */
static mica_status make_constraints(const mc_completion *job, mc_constraint ***out) {
    mc_constraint **constraints = mc_calloc(job->choices, sizeof *constraints);
    mica_status status = constraints ? MICA_OK : mc_fail_nomem("constraints");
    bool any = false;
    for (size_t i = 0; status == MICA_OK && i < job->choices; i++) {
        status = mc_answer_form_constrain(&job->form, job->served->model, job->http->key,
                                          &constraints[i]);
        any = any || constraints[i];
    }
    *out = status == MICA_OK && any ? constraints : NULL;
    if (*out) return MICA_OK;
    for (size_t i = 0; constraints && i < job->choices; i++)
        mc_constraint_close(&constraints[i]);
    mc_free(constraints);
    return status;
}

static void on_prefill(void *user, int64_t done, int64_t total, int64_t cached);
static bool on_token(void *user, size_t choice, const mica_token *token);
static void on_end(void *user, size_t choice, const mc_choice_end *end);

/* Who has another key must not see by the time of an answer what others have asked, also after a
 * restart with other keys: so the key itself, not its number, is what caches are found by. */
static const char *salt_of(const mc_exchange *http) {
    return http->key ? http->server->guard.keys[http->key - 1] : "";
}

/* A prompt as the scheduler wants it, without constraints. */
static mc_request_options request_of(mc_completion *job, size_t prompt) {
    return (mc_request_options){
        .ids = job->prompts[prompt].ids,
        .n_ids = job->prompts[prompt].n,
        .generate = &job->options,
        .choices = job->choices,
        .priority = job->priority - (job->http->background ? BACKGROUND : 0),
        .max_seconds = mc_models_left_seconds(job->http),
        .max_tokens = job->served->options.max_tokens,
        .salt = salt_of(job->http),
        .marks = job->prompts[prompt].marks,
        .n_marks = job->prompts[prompt].n_marks,
        .prefill = on_prefill,
        .token = on_token,
        .end = on_end,
    };
}

/* Submits the next prompt. follows: in place of one that has ended. Called with the lock held. */
static mica_status submit(mc_completion *job, bool follows) {
    mc_constraint **constraints;
    size_t i = job->next;
    mc_completion_request *at = &job->requests[i];
    MC_TRY(make_constraints(job, &constraints));
    mc_request_options request = request_of(job, i);
    *at = (mc_completion_request){.job = job, .first = i * job->choices, .left = job->choices};
    request.follows = follows;
    request.constraints = constraints;
    request.user = at;
    mica_status status = mc_schedule_submit(job->served->schedule, &request, &at->request);
    mc_free(constraints);
    if (status != MICA_OK) return status;
    job->next++;
    atomic_store(&job->submitted, i + 1);
    pthread_mutex_lock(&job->requests_lock);
    if (atomic_load(&job->cancelled)) mc_request_cancel(at->request);
    pthread_mutex_unlock(&job->requests_lock);
    return MICA_OK;
}

/* A prompt has ended: the next one follows. Once the job is cancelled none does, and the rest
 * counts as ended. Called with the lock held. */
static void follow(mc_completion *job) {
    if (job->next == job->count) return;
    if (!atomic_load(&job->cancelled)) {
        mica_status status = submit(job, true);
        if (status == MICA_OK) return;
        if (!job->failure.status) mc_failure_of(&job->failure, status, NULL);
        atomic_store(&job->cancelled, true);
    }
    job->left -= (job->count - job->next) * job->choices;
    job->next = job->count;
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

/* Whether an answer that is kept whole has room for the log-probabilities of one more token. Called
 * with the lock held. */
static bool has_room(mc_completion *job, const mica_token *token) {
    if (!job->whole || !job->options.logprobs || token->id < 0) return true;
    job->logprobs += 1 + (uint64_t)token->alternative_count;
    if (job->logprobs <= MC_COMPLETION_LOGPROBS) return true;
    return mc_failure_set(&job->failure, 400, "invalid_value", "top_logprobs",
                          "the answer has more than %d log-probabilities, with %d for each token "
                          "of %zu choices: ask for fewer tokens, choices or alternatives, or for a "
                          "stream",
                          MC_COMPLETION_LOGPROBS, 1 + job->options.top_logprobs,
                          job->count * job->choices);
}

static bool on_token(void *user, size_t choice, const mica_token *token) {
    mc_completion_request *at = user;
    mc_completion *job = at->job;
    if (atomic_load(&job->cancelled)) {
        cancel(job); /* before it ends: it has not stopped */
        return false;
    }
    pthread_mutex_lock(&job->lock);
    bool more = has_room(job, token) && job->ops->token(job, at->first + choice, token);
    bool stopped = !more && job->stopped;
    at->dropped = at->dropped || !more;
    pthread_mutex_unlock(&job->lock);
    if (!more && !stopped) cancel(job);
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

/* Called with the lock held. */
static void end_choice(mc_completion_request *at, size_t choice, const mc_choice_end *end,
                       bool failed) {
    mc_completion *job = at->job;
    count_end(job, at->first + choice, end);
    if (failed && !job->failure.status) note_failure(job, end);
    if (!failed && !at->dropped && !job->failure.status && end->finish != MICA_FINISH_STOP &&
        end->finish != MICA_FINISH_LENGTH)
        mc_failure_set(&job->failure, 499, "cancelled", NULL, "the request was cancelled");
    job->ops->end(job, at->first + choice, end);
    job->left--;
    if (--at->left == 0) follow(job);
    if (job->left > 0) return;
    job->http->prompt_tokens = job->prompt_tokens;
    job->http->answer_tokens = job->answer_tokens;
    job->ops->done(job);
}

static void on_end(void *user, size_t choice, const mc_choice_end *end) {
    mc_completion_request *at = user;
    mc_completion *job = at->job;
    bool failed = end->timed_out || (end->status != MICA_OK && end->status != MICA_ECANCELLED);
    if (failed) cancel(job);
    pthread_mutex_lock(&job->lock);
    if (!job->refused) end_choice(at, choice, end, failed);
    bool cancelled = job->left > 0 && job->next == job->count && atomic_load(&job->cancelled);
    pthread_mutex_unlock(&job->lock);
    if (cancelled) cancel(job);
}

/* ---- the request ---- */

void mc_completion_hangup(mc_completion *job) {
    cancel(job);
}

static void on_hangup(void *user) {
    mc_completion_hangup(user);
}

void mc_completion_close(mc_completion *job) {
    close_requests(job);
    for (size_t i = 0; i < job->count; i++)
        mica_free(job->prompts[i].ids);
    mc_free(job->prompts);
    mc_answer_form_deinit(&job->form);
    mc_arena_deinit(&job->arena);
    mc_free(job->requests);
    pthread_mutex_destroy(&job->requests_lock);
    pthread_mutex_destroy(&job->lock);
    job->ops->close(job);
}

static void on_close(void *user) {
    mc_completion_close(user);
}

static bool fail_submit(mc_completion *job, mica_status status) {
    mc_failure *failure = &job->http->failure;
    if (status == MICA_EBUSY) {
        mc_failure_set(failure, 503, "overloaded", NULL, "%s", mica_last_error());
        failure->retry_seconds = (int)mc_schedule_retry_seconds(job->served->schedule);
    } else {
        mc_failure_of(failure, status, NULL);
    }
    pthread_mutex_lock(&job->lock);
    job->refused = true;
    pthread_mutex_unlock(&job->lock);
    close_requests(job); /* those that were submitted already */
    return false;
}

void mc_completion_attach(mc_completion *job) {
    job->left = job->count * job->choices;
    pthread_mutex_init(&job->lock, NULL);
    pthread_mutex_init(&job->requests_lock, NULL);
    job->attached = true;
    mc_exchange_attach(job->http, &(mc_exchange_work){on_hangup, on_close, job});
}

/* What is wrong with one of the prompts, before any is computed. */
static mica_status check_all(mc_completion *job) {
    for (size_t i = 0; i < job->count; i++) {
        mc_request_options request = request_of(job, i);
        MC_TRY(mc_schedule_check(job->served->schedule, &request));
    }
    return MICA_OK;
}

/* How many prompts are under way at once: all, or half of what may wait, so that others find room,
 * but as many as are computed together. */
static size_t count_at_once(const mc_completion *job) {
    mc_schedule_stats stats;
    mc_schedule_get_stats(job->served->schedule, &stats);
    size_t half = (stats.queue + 1) / 2, rows = stats.rows < stats.queue ? stats.rows : stats.queue;
    if (job->count <= stats.queue) return job->count;
    return half > rows ? half : rows;
}

bool mc_completion_check(const mc_completion *job) {
    const mica_serving_options *limits = &job->served->options;
    mc_failure *failure = &job->http->failure;
    if (limits->max_tokens && job->asked_tokens > limits->max_tokens)
        return mc_failure_set(failure, 400, "invalid_value", job->asked_field,
                              "%s: %" PRId64 " tokens are asked for; the limit of an answer here "
                              "is %" PRId64,
                              job->asked_field, job->asked_tokens, limits->max_tokens);
    return job->priority <= limits->max_priority ||
           mc_failure_set(failure, 400, "invalid_value", "priority",
                          "priority: %d is asked for; the highest here is %d", job->priority,
                          limits->max_priority);
}

/* Sets the options of each choice. */
static void set_options(mc_completion *job, const mica_generate_options *options) {
    int64_t limit = job->served->options.max_tokens;
    job->options = *options;
    if (limit && options->max_tokens > limit) job->options.max_tokens = limit;
    if (mc_answer_form_is_forced(&job->form)) job->options.stop_string_count = 0;
}

bool mc_completion_start(mc_completion *job, const mica_generate_options *options) {
    if (!job->attached) mc_completion_attach(job);
    if (!mc_completion_check(job)) return false;
    size_t at_once = count_at_once(job);
    /* Once for all choices, and before the lock, which the scheduler's callbacks wait for. */
    if (!mc_answer_form_check(&job->form, job->served->model, job->http->key, &job->http->failure))
        return false;
    set_options(job, options);
    job->requests = mc_calloc(job->count, sizeof *job->requests);
    if (!job->requests) return mc_failure_of(&job->http->failure, mc_fail_nomem("a request"), NULL);
    mica_status status = at_once < job->count ? check_all(job) : MICA_OK;
    bool more = status == MICA_OK;
    for (size_t n = 0; more && n < at_once; n++) {
        pthread_mutex_lock(&job->lock);
        more = job->next < job->count; /* those that have ended already are followed by others */
        if (more) status = submit(job, false);
        more = more && status == MICA_OK;
        pthread_mutex_unlock(&job->lock);
    }
    return status == MICA_OK || fail_submit(job, status);
}

bool mc_completion_note(mc_completion *job, mica_status status) {
    if (status != MICA_OK && status != MICA_ECANCELLED && !job->failure.status)
        mc_failure_of(&job->failure, status, NULL);
    return status == MICA_OK;
}

void mc_completion_reply(mc_completion *job, bool written) {
    if (!written) mc_failure_of(&job->failure, mc_fail_nomem("an answer"), NULL);
    job->http->failure = job->failure;
    if (job->failure.status)
        mc_exchange_refuse(job->http);
    else
        mc_exchange_reply(job->http, 200, NULL);
}

void mc_completion_stream(mc_completion *job, const char *content_type) {
    mc_exchange_stream(job->http, content_type);
}
