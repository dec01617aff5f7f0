#define _POSIX_C_SOURCE 200809L /* recursive mutexes */

#include "schedule/request.h"

#include "base/alloc.h"
#include "base/options.h"
#include "base/system.h"

#include <string.h>

enum { OVERTAKEN = 8 }; /* that many make a request's priority one higher */

/* ---- copies ---- */

/* A copy of n bytes, NULL for none; sets *ok to false without memory. */
static void *copy(mc_arena *arena, const void *from, size_t bytes, bool *ok) {
    if (!bytes) return NULL;
    void *into = mc_arena_alloc(arena, bytes);
    if (into)
        memcpy(into, from, bytes);
    else
        *ok = false;
    return into;
}

static const char *const *copy_texts(mc_arena *arena, const char *const *from, size_t n, bool *ok) {
    const char **into = copy(arena, from, n * sizeof *from, ok);
    for (size_t i = 0; into && i < n; i++)
        into[i] = copy(arena, from[i], strlen(from[i]) + 1, ok);
    return into;
}

/* Copies what r->generate points to. */
static bool copy_generate(mc_request *r) {
    mica_generate_options *o = &r->generate;
    bool ok = true;
    o->logit_bias =
        copy(&r->arena, o->logit_bias, o->logit_bias_count * sizeof *o->logit_bias, &ok);
    o->stop_ids = copy(&r->arena, o->stop_ids, o->stop_count * sizeof *o->stop_ids, &ok);
    o->stop_strings = copy_texts(&r->arena, o->stop_strings, o->stop_string_count, &ok);
    o->template_variables = o->tools = NULL; /* of mica_chat */
    o->continue_last = false;
    o->progress = NULL;
    o->cancel = NULL;
    o->constraint = MICA_CONSTRAINT_NONE; /* r->constraints are there */
    o->constraint_text = NULL;
    return ok;
}

static mica_status copy_options(mc_request *r, const mc_request_options *options) {
    bool ok = true;
    r->given = *options;
    MC_TRY(
        MC_OPTIONS_COPY(mica_generate_options, constraint_text, &r->generate, options->generate));
    r->given.generate = &r->generate;
    r->given.ids = copy(&r->arena, options->ids, options->n_ids * sizeof *options->ids, &ok);
    r->given.marks =
        copy(&r->arena, options->marks, options->n_marks * sizeof *options->marks, &ok);
    if (!options->salt) r->given.salt = "";
    r->given.salt = copy(&r->arena, r->given.salt, strlen(r->given.salt) + 1, &ok);
    if (!r->given.choices) r->given.choices = 1;
    r->choices = mc_arena_calloc(&r->arena, r->given.choices * sizeof *r->choices);
    if (!ok || !r->choices || !copy_generate(r)) return mc_fail_nomem("a request");
    if (!options->constraints) return MICA_OK;
    size_t bytes = r->given.choices * sizeof *r->constraints;
    r->constraints = copy(&r->arena, options->constraints, bytes, &ok);
    return ok ? MICA_OK : mc_fail_nomem("a request");
}

static bool init_lock(pthread_mutex_t *lock) {
    pthread_mutexattr_t recursive;
    if (pthread_mutexattr_init(&recursive) != 0) return false;
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    bool done = pthread_mutex_init(lock, &recursive) == 0;
    pthread_mutexattr_destroy(&recursive);
    return done;
}

static void free_request(mc_request *r) {
    mc_schedule *schedule = r->schedule;
    for (size_t i = 0; r->constraints && i < r->given.choices; i++)
        mc_constraint_close(&r->constraints[i]);
    pthread_mutex_destroy(&r->lock);
    mc_arena_deinit(&r->arena);
    mc_free(r);
    mc_schedule_release(schedule);
}

mica_status mc_request_new(mc_schedule *schedule, const mc_request_options *options,
                           mc_request **out) {
    mc_request *r = mc_calloc(1, sizeof *r);
    if (!r || !init_lock(&r->lock)) {
        mc_free(r);
        return mc_fail_nomem("a request");
    }
    r->schedule = mc_schedule_retain(schedule);
    mica_status status = copy_options(r, options);
    if (status != MICA_OK) {
        free_request(r);
        return status;
    }
    atomic_init(&r->count, 2u);
    atomic_init(&r->cancelled, false);
    r->left = r->given.choices;
    r->arrived = mc_now_us();
    if (options->max_seconds > 0)
        r->deadline = r->arrived + (uint64_t)(options->max_seconds * 1e6) + 1;
    *out = r;
    return MICA_OK;
}

void mc_request_release(mc_request *r) {
    if (atomic_fetch_sub_explicit(&r->count, 1u, memory_order_acq_rel) == 1u) free_request(r);
}

/* ---- states ---- */

bool mc_request_is_over(mc_request *r, uint64_t now, bool *timed_out) {
    *timed_out = r->deadline && now >= r->deadline;
    return *timed_out || atomic_load_explicit(&r->cancelled, memory_order_relaxed);
}

int64_t mc_request_priority(const mc_request *r) {
    return (int64_t)r->given.priority + r->overtaken / OVERTAKEN;
}

void mc_request_start(mc_request *r, size_t choice) {
    pthread_mutex_lock(&r->lock);
    uint64_t now = r->choices[choice].started = mc_now_us();
    pthread_mutex_unlock(&r->lock);
    mc_schedule_count_seconds(r->schedule, MC_QUEUE_TIME, now - r->arrived);
}

/* ---- callbacks ---- */

void mc_request_tell(mc_request *r, int64_t done, int64_t total, int64_t cached) {
    if (!r->given.prefill) return;
    pthread_mutex_lock(&r->lock);
    if (!r->closed) r->given.prefill(r->given.user, done, total, cached);
    pthread_mutex_unlock(&r->lock);
}

bool mc_request_give(mc_request *r, size_t choice, const mica_token *token) {
    pthread_mutex_lock(&r->lock);
    mc_choice *c = &r->choices[choice];
    bool go_on = !r->closed, computed = token->id >= 0 && !token->prompt;
    uint64_t now = mc_now_us(), since = c->first ? c->latest : r->arrived;
    mc_time which = c->first ? MC_TOKEN_TIME : MC_FIRST_TOKEN_TIME;
    if (computed) {
        c->generated++;
        c->latest = now;
        if (!c->first) c->first = now;
        mc_schedule_count_seconds(r->schedule, which, now - since);
    }
    if (go_on && r->given.token) go_on = r->given.token(r->given.user, choice, token);
    c->stopped = !go_on && !atomic_load_explicit(&r->cancelled, memory_order_relaxed);
    pthread_mutex_unlock(&r->lock);
    return go_on;
}

static double seconds(uint64_t from, uint64_t to) {
    return from && to > from ? (double)(to - from) * 1e-6 : 0.0;
}

/* Ends a choice that has not ended; the lock is held. */
static void end_choice(mc_request *r, size_t choice, mc_choice_end *end) {
    mc_choice *c = &r->choices[choice];
    uint64_t now = mc_now_us();
    if (c->ended) return;
    c->ended = true;
    end->queue_seconds = seconds(r->arrived, c->started ? c->started : now);
    end->first_token_seconds = c->first ? seconds(r->arrived, c->first) : 0.0;
    end->total_seconds = seconds(r->arrived, now);
    mc_schedule_count_seconds(r->schedule, MC_TOTAL_TIME, now - r->arrived);
    if (r->given.end) r->given.end(r->given.user, choice, end);
}

void mc_request_end(mc_request *r, size_t choice, mc_choice_end *end) {
    pthread_mutex_lock(&r->lock);
    end_choice(r, choice, end);
    pthread_mutex_unlock(&r->lock);
}

void mc_request_close(mc_request **request) {
    if (!request || !*request) return;
    mc_request *r = *request;
    *request = NULL;
    mc_request_cancel(r);
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->given.choices; i++) {
        mc_choice_end end = {
            .status = MICA_ECANCELLED,
            .error = "the request was closed",
            .finish = MICA_FINISH_CANCELLED,
            .metrics = {.prompt_tokens = (int64_t)r->given.n_ids,
                        .generated_tokens = r->choices[i].generated},
        };
        end_choice(r, i, &end);
    }
    r->closed = true;
    pthread_mutex_unlock(&r->lock);
    mc_request_release(r);
}
