#include "base/system.h"
#include "schedule/state.h"

#include <stdio.h>

/* ---- the queue ---- */

static void unlink_request(mc_schedule *s, mc_request *before, mc_request *request) {
    if (before)
        before->next = request->next;
    else
        s->first = request->next;
    if (s->last == request) s->last = before;
    request->next = NULL;
    s->stats.waiting--;
}

/* Whether a choice of a request may get a row now. The others wait until the first has read the
 * prompt. */
static bool may_enter(const mc_request *request) {
    return !request->entered || request->read;
}

/* The request that is next, and the one before it in the queue. */
static mc_request *find_next(mc_schedule *s, mc_request **before) {
    mc_request *best = NULL, *last = NULL;
    *before = NULL;
    for (mc_request *r = s->first; r; last = r, r = r->next) {
        if (!may_enter(r) || (best && mc_request_priority(r) <= mc_request_priority(best)))
            continue;
        best = r;
        *before = last;
    }
    return best;
}

/* Takes the choice that is next, if it fits. If not, *pause receives the row that must pause first;
 * NULL: none. */
static bool take_next(mc_schedule *s, mc_request **out, size_t *choice, mc_row **pause) {
    mc_request *before;
    *pause = NULL;
    pthread_mutex_lock(&s->lock);
    mc_request *request = find_next(s, &before);
    bool fits = request && (!s->local || mc_rows_admit(s, request, pause));
    if (fits) {
        *out = request;
        *choice = request->entered++;
        s->stats.running++;
        if (request->entered == request->given.choices) {
            for (mc_request *r = s->first; r != request; r = r->next)
                r->overtaken++;
            unlink_request(s, before, request);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return fits;
}

bool mc_schedule_take(mc_schedule *s, mc_request **out, size_t *choice) {
    mc_row *pause;
    while (!take_next(s, out, choice, &pause))
        if (!pause || !mc_rows_pause(s, pause)) return false;
    mc_request_start(*out, *choice);
    return true;
}

int64_t mc_schedule_next_priority(mc_schedule *s) {
    mc_request *before;
    pthread_mutex_lock(&s->lock);
    const mc_request *next = find_next(s, &before);
    int64_t priority = next ? mc_request_priority(next) : INT64_MIN;
    pthread_mutex_unlock(&s->lock);
    return priority;
}

void mc_schedule_set_read(mc_schedule *s, mc_request *request) {
    pthread_mutex_lock(&s->lock);
    request->read = true;
    pthread_mutex_unlock(&s->lock);
}

bool mc_schedule_is_over(mc_schedule *s, mc_request *request) {
    bool timed_out;
    if (mc_request_is_over(request, mc_now_us(), &timed_out)) return true;
    if (!atomic_load(&s->stop)) return false;
    s->cut_off = true;
    return true;
}

/* ---- ends ---- */

static uint64_t *count_of(mc_schedule_stats *stats, const mc_choice_end *end, bool stopped) {
    if (end->timed_out) return &stats->timed_out;
    if (stopped) return &stats->stopped;
    switch (end->finish) {
    case MICA_FINISH_STOP:
        return &stats->stopped;
    case MICA_FINISH_LENGTH:
        return &stats->length;
    case MICA_FINISH_CANCELLED:
        return &stats->cancelled;
    case MICA_FINISH_NONE:
    case MICA_FINISH_ERROR:
        break;
    }
    return &stats->failed;
}

/* Ends a choice, and lets go of the request with its last one. */
static void end_choice(mc_schedule *s, mc_request *request, size_t choice, bool ran,
                       mc_choice_end *end) {
    pthread_mutex_lock(&s->lock);
    *count_of(&s->stats, end, request->choices[choice].stopped) += 1;
    s->stats.generated_tokens += (uint64_t)end->metrics.generated_tokens;
    s->stats.drafted_tokens += (uint64_t)end->metrics.drafted_tokens;
    s->stats.accepted_tokens += (uint64_t)end->metrics.accepted_tokens;
    pthread_mutex_unlock(&s->lock);
    mc_request_end(request, choice, end);
    uint64_t started = request->choices[choice].started, now = mc_now_us();
    pthread_mutex_lock(&s->lock);
    if (ran) {
        s->stats.running--;
        s->choice_us = s->choice_us ? (7 * s->choice_us + now - started) / 8 : now - started;
    }
    bool last = --request->left == 0;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (last) mc_request_release(request);
}

/* Whether a request's time is over; then the thread's error text says so. */
static bool is_late(mc_request *request) {
    bool timed_out;
    (void)mc_request_is_over(request, mc_now_us(), &timed_out);
    if (timed_out)
        mc_fail(MICA_ECANCELLED, "the time is over: %g seconds were allowed",
                request->given.max_seconds);
    return timed_out;
}

void mc_schedule_end(mc_schedule *s, mc_request *request, size_t choice, mica_status status,
                     mica_finish finish, const mica_metrics *metrics) {
    char error[1024] = "";
    bool timed_out = status == MICA_ECANCELLED && is_late(request);
    if (status != MICA_OK) snprintf(error, sizeof error, "%s", mica_last_error());
    mc_choice_end end = {
        .status = status,
        .error = error,
        .finish = finish,
        .timed_out = timed_out,
        .metrics = *metrics,
    };
    end_choice(s, request, choice, true, &end);
}

/* Ends the choices of a request that has left the queue before they got a row. */
static void end_waiting(mc_schedule *s, mc_request *request) {
    char error[1024] = "the answer was cancelled";
    bool timed_out = is_late(request);
    if (timed_out) snprintf(error, sizeof error, "%s", mica_last_error());
    size_t i = request->entered, n = request->given.choices;
    request->entered = n;
    mc_session_close(&request->source);
    for (; i < n; i++) { /* the last one lets go of the request */
        mc_choice_end end = {
            .status = MICA_ECANCELLED,
            .error = error,
            .finish = MICA_FINISH_CANCELLED,
            .timed_out = timed_out,
            .metrics = {.prompt_tokens = (int64_t)request->given.n_ids},
        };
        end_choice(s, request, i, false, &end);
    }
}

void mc_schedule_sweep(mc_schedule *s) {
    mc_request *over = NULL, *before = NULL;
    pthread_mutex_lock(&s->lock);
    for (mc_request *r = s->first, *next; r; r = next) {
        next = r->next;
        if (!mc_schedule_is_over(s, r)) {
            before = r;
            continue;
        }
        unlink_request(s, before, r);
        r->next = over;
        over = r;
    }
    pthread_mutex_unlock(&s->lock);
    for (mc_request *next; over; over = next) {
        next = over->next;
        end_waiting(s, over);
    }
}

/* ---- the thread ---- */

/* Waits for something to do. false: it is to end, and nothing is left. */
static bool wait_for_work(mc_schedule *s) {
    pthread_mutex_lock(&s->lock);
    while (!s->first && !s->stats.running && !atomic_load(&s->stop))
        pthread_cond_wait(&s->changed, &s->lock);
    bool more = s->first || s->stats.running;
    pthread_mutex_unlock(&s->lock);
    return more;
}

void *mc_schedule_work(void *context) {
    mc_schedule *s = context;
    while (wait_for_work(s)) {
        mc_schedule_sweep(s);
        if (s->local)
            mc_rows_step(s);
        else
            mc_turns_step(s);
    }
    return NULL;
}
