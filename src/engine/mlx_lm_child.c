#define _DEFAULT_SOURCE /* clock_gettime */

#include "engine/mlx_lm_child.h"

#include "base/alloc.h"
#include "base/system.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    WRITE_US = 5000000, /* a child's time to read a request */
    QUIT_US = 2000000,  /* to end when it is told to */
    GONE_US = 200000,   /* to end behind a closed input */
    MAX_TOKENS = 1 << 24
};

typedef enum answer_state {
    ANSWER_NEW,
    ANSWER_WAITING, /* for its turn */
    ANSWER_RUNNING,
    ANSWER_OVER
} answer_state;

typedef struct reply_token {
    int32_t id;
    float logprob;
    size_t alternatives; /* number of them, behind those of the tokens before */
} reply_token;

struct mc_mlx_lm {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mc_process *process; /* NULL: it has failed */
    uint64_t silence_us;
    uint64_t last_id;  /* of a request */
    uint64_t orphan;   /* id of a running request whose answer is not wanted any more; 0: none */
    uint64_t deadline; /* for the next reply that is a step forward */
    uint64_t idle;     /* since when nobody reads; that time does not count */
    int readers;       /* threads in next */
    mc_mlx_lm_answer *current; /* the running request's; NULL: none */
    mc_mlx_lm_answer *waiting; /* in order */
    bool busy;                 /* a thread writes or reads, without the lock */
    mica_status failed;        /* of all answers from now on */
    char why[1024];
};

struct mc_mlx_lm_answer {
    mc_mlx_lm *child;
    mc_mlx_lm_answer *next; /* in child->waiting */
    mc_buffer request;
    uint64_t id;
    answer_state state;
    atomic_bool cancelled;
    mc_buffer tokens, alternatives; /* reply_token, mica_alternative: those to be handed out */
    size_t taken, taken_alternatives;
    int64_t count, max; /* tokens received; maximum number */
    size_t top;         /* alternatives that a token may have */
    uint64_t prompt;    /* tokens */
    mica_finish finish;
    mica_status status;
    char error[1024];
    mica_metrics metrics;
    /* Its reader's own: what it was given last. */
    mc_buffer given;
    mica_metrics given_metrics;
    uint64_t done, total, told; /* tokens of the prefill; those that progress was told of */
    mica_progress progress;
    void *progress_user;
};

/* ---- opening and closing ---- */

/* Ends a request with its id and writes it. */
static mica_status send_request(mc_process *process, mc_buffer *request, uint64_t id) {
    if (!mc_buffer_printf(request, ", \"id\": %llu}\n", (unsigned long long)id))
        return mc_fail_nomem("a request");
    mica_status status =
        mc_process_write(process, request->data, request->len, mc_now_us() + WRITE_US);
    mc_buffer_deinit(request);
    return status;
}

static mica_status load(mc_mlx_lm *child, const mc_mlx_lm_settings *settings, mc_buffer *request,
                        const mica_cancel *cancel, mc_json_doc **reply) {
    uint64_t deadline = mc_now_us() + (uint64_t)(settings->load_seconds * 1e6);
    MC_TRY(mc_mlx_lm_start(settings, NULL, &child->process));
    child->last_id = 1;
    mica_status status = send_request(child->process, request, child->last_id);
    if (status == MICA_ENOMEM) return status;
    /* Of a child that is gone, reading tells more. */
    return mc_mlx_lm_read_ok(child->process, deadline, cancel, reply);
}

mica_status mc_mlx_lm_open(const mc_mlx_lm_settings *settings, mc_buffer *request,
                           const mica_cancel *cancel, mc_mlx_lm **out, mc_json_doc **reply) {
    *out = NULL;
    *reply = NULL;
    mc_mlx_lm *child = mc_calloc(1, sizeof *child);
    mica_status status = child ? MICA_OK : mc_fail_nomem("a process");
    if (child) {
        pthread_mutex_init(&child->lock, NULL);
        pthread_cond_init(&child->changed, NULL);
        child->silence_us = (uint64_t)(settings->silence_seconds * 1e6);
        status = load(child, settings, request, cancel, reply);
        child->failed = status;
        if (status != MICA_OK) mc_mlx_lm_close(&child);
    }
    mc_buffer_deinit(request);
    *out = child;
    return status;
}

void mc_mlx_lm_close(mc_mlx_lm **child) {
    static const char quit[] = "{\"cmd\": \"quit\"}\n";
    mc_mlx_lm *c = *child;
    if (!c) return;
    *child = NULL;
    bool works = c->failed == MICA_OK;
    if (works) (void)mc_process_write(c->process, quit, sizeof quit - 1, 0);
    mc_process_close(&c->process, works ? QUIT_US : 0);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    mc_free(c);
}

int64_t mc_mlx_lm_process_id(const mc_mlx_lm *child) {
    return mc_process_id(child->process);
}

/* ---- replies ---- */

/* Ends the child and all its answers with the thread's error. */
static void fail(mc_mlx_lm *child, mica_status status) {
    child->failed = status;
    mica_error_text(child->why, sizeof child->why);
    mc_process_close(&child->process, 0);
}

static void end_answer(mc_mlx_lm_answer *answer, mica_status status, mica_finish finish) {
    answer->state = ANSWER_OVER;
    answer->status = status;
    answer->finish = finish;
    if (status != MICA_OK) mica_error_text(answer->error, sizeof answer->error);
}

static double number(mc_json reply, const char *key) {
    double value = 0.0;
    (void)mc_json_get_float(mc_json_find(reply, key), &value);
    return value > 0.0 && value < 1e15 ? value : 0.0;
}

static void take_done(mc_mlx_lm_answer *answer, mc_json reply) {
    mc_str finish = {"", 0};
    (void)mc_json_get_str(mc_json_find(reply, "finish"), &finish);
    answer->metrics = (mica_metrics){
        .reused_tokens = (int64_t)number(reply, "reused_tokens"),
        .prefill_seconds = number(reply, "prefill_seconds"),
        .decode_seconds = number(reply, "decode_seconds"),
        .active_bytes = (uint64_t)number(reply, "active_bytes"),
        .peak_bytes = (uint64_t)number(reply, "peak_bytes"),
    };
    end_answer(answer, MICA_OK, mc_str_is(finish, "stop") ? MICA_FINISH_STOP : MICA_FINISH_LENGTH);
}

/* A token and its probability: [id, logprob]. */
static bool read_alternative(mc_json pair, mica_alternative *out) {
    mc_json_iter it = mc_json_begin(pair);
    int64_t id;
    double logprob;
    if (mc_json_count(pair) != 2 || !mc_json_next(&it) || !mc_json_get_int(it.value, &id) ||
        !mc_json_next(&it) || !mc_json_get_float(it.value, &logprob))
        return false;
    if (id < 0 || id > INT32_MAX) return false;
    *out = (mica_alternative){(int32_t)id, (float)logprob};
    return true;
}

static mica_status nonsense(const mc_mlx_lm_answer *answer, const char *what) {
    return mc_mlx_lm_blame(answer->child->process, MICA_EFORMAT, what);
}

static mica_status take_token(mc_mlx_lm_answer *answer, mc_json reply, int64_t id) {
    double logprob = 0.0;
    (void)mc_json_get_float(mc_json_find(reply, "logprob"), &logprob);
    if (id < 0 || id > INT32_MAX) return nonsense(answer, "gave a token that is none");
    if (++answer->count > answer->max) return nonsense(answer, "gave more tokens than it may");
    reply_token token = {.id = (int32_t)id, .logprob = (float)logprob};
    for (mc_json_iter it = mc_json_begin(mc_json_find(reply, "top")); mc_json_next(&it);) {
        mica_alternative alternative;
        if (token.alternatives == answer->top)
            return nonsense(answer, "gave more alternatives than it may");
        if (!read_alternative(it.value, &alternative))
            return nonsense(answer, "gave an alternative that is none");
        if (!MC_BUFFER_PUSH(&answer->alternatives, mica_alternative, alternative))
            return mc_fail_nomem("an answer");
        token.alternatives++;
    }
    return MC_BUFFER_PUSH(&answer->tokens, reply_token, token) ? MICA_OK
                                                               : mc_fail_nomem("an answer");
}

/* Takes a reply for the running answer; *forward: whether it is a step forward. An error is the
 * child's. */
static mica_status take_reply(mc_mlx_lm_answer *answer, mc_json reply, bool *forward) {
    int64_t value;
    bool done;
    mica_status refused = mc_mlx_lm_refusal(reply);
    *forward = true;
    if (refused != MICA_OK) {
        end_answer(answer, refused, MICA_FINISH_ERROR);
    } else if (mc_json_get_bool(mc_json_find(reply, "done"), &done)) {
        take_done(answer, reply);
    } else if (mc_json_get_int(mc_json_find(reply, "token_id"), &value)) {
        return take_token(answer, reply, value);
    } else if (mc_json_get_int(mc_json_find(reply, "progress"), &value)) {
        if (value > 0 && (uint64_t)value > answer->prompt)
            return nonsense(answer, "has computed more tokens than the prompt has");
        *forward = value > 0 && (uint64_t)value > answer->done;
        if (*forward) answer->done = (uint64_t)value;
        answer->total = (uint64_t)number(reply, "total");
    } else {
        return nonsense(answer, "replied neither a token nor an error");
    }
    return MICA_OK;
}

static mica_status give_reply(mc_mlx_lm *child, mc_json reply) {
    int64_t id = -1;
    uint64_t want = child->current ? child->current->id : child->orphan;
    mica_status status = MICA_OK;
    bool forward = false;
    if (!mc_json_get_int(mc_json_find(reply, "id"), &id) || id < 1 || (uint64_t)id != want)
        return mc_mlx_lm_blame(child->process, MICA_EFORMAT, "replied to what it was not asked");
    if (child->current)
        status = take_reply(child->current, reply, &forward);
    else if (mc_json_exists(mc_json_find(reply, "done")) ||
             mc_json_exists(mc_json_find(reply, "error")))
        child->orphan = 0;
    if (child->current && child->current->state == ANSWER_OVER) child->current = NULL;
    if (forward) child->deadline = mc_now_us() + child->silence_us;
    return status;
}

/* Waits a moment for a reply and takes it. */
static void read_reply(mc_mlx_lm *child) {
    mc_json_doc *reply;
    uint64_t deadline = child->deadline;
    child->busy = true;
    pthread_mutex_unlock(&child->lock);
    mica_status status = mc_mlx_lm_poll(child->process, deadline, &reply);
    pthread_mutex_lock(&child->lock);
    child->busy = false;
    if (reply) {
        status = give_reply(child, mc_json_root(reply));
        if (status == MICA_OK && (child->current || child->orphan) &&
            mc_now_us() >= child->deadline)
            status = mc_mlx_lm_blame(child->process, MICA_EIO,
                                     "has made no progress for longer than it may");
    }
    mc_json_close(&reply);
    if (status != MICA_OK) fail(child, status);
    pthread_cond_broadcast(&child->changed);
}

/* ---- answers ---- */

mica_status mc_mlx_lm_ask(mc_mlx_lm *child, mc_buffer *request, size_t prompt_tokens,
                          const mica_generate_options *options, mc_mlx_lm_answer **out) {
    mc_mlx_lm_answer *answer = mc_calloc(1, sizeof *answer);
    if (!answer) {
        mc_buffer_deinit(request);
        return mc_fail_nomem("an answer");
    }
    answer->child = child;
    answer->request = *request;
    *request = (mc_buffer){0};
    atomic_init(&answer->cancelled, false);
    answer->max = options->max_tokens;
    if (answer->max < 1 || answer->max > MAX_TOKENS) answer->max = MAX_TOKENS;
    answer->top = options->top_logprobs > 0 ? (size_t)options->top_logprobs : 0;
    answer->prompt = prompt_tokens;
    answer->progress = options->progress;
    answer->progress_user = options->progress_user;
    *out = answer;
    return MICA_OK;
}

/* Begins an answer whose turn it is. Only its own thread may: it could be dropped meanwhile. */
static void begin(mc_mlx_lm_answer *answer) {
    mc_mlx_lm *child = answer->child;
    child->waiting = answer->next;
    child->current = answer;
    answer->id = ++child->last_id;
    answer->state = ANSWER_RUNNING;
    child->busy = true;
    pthread_mutex_unlock(&child->lock);
    mica_status status = send_request(child->process, &answer->request, answer->id);
    pthread_mutex_lock(&child->lock);
    child->busy = false;
    child->deadline = mc_now_us() + child->silence_us;
    if (status == MICA_ENOMEM) { /* nothing was written */
        end_answer(answer, status, MICA_FINISH_ERROR);
        child->current = NULL;
    } else if (status != MICA_OK) { /* it is gone, of which reading tells more, or hangs */
        child->deadline = mc_now_us() + GONE_US;
    }
}

static void wait_turn(mc_mlx_lm_answer *answer) {
    mc_mlx_lm_answer **at = &answer->child->waiting;
    while (*at)
        at = &(*at)->next;
    *at = answer;
    answer->state = ANSWER_WAITING;
}

/* Ends an answer that is not wanted any more: the child is told, and what it still replies is
 * dropped by who reads next. */
static void stop(mc_mlx_lm_answer *answer) {
    mc_mlx_lm *child = answer->child;
    char line[96];
    if (answer->state == ANSWER_WAITING) {
        mc_mlx_lm_answer **at = &child->waiting;
        while (*at != answer)
            at = &(*at)->next;
        *at = answer->next;
    } else if (answer->state == ANSWER_RUNNING && child->failed == MICA_OK) {
        int n = snprintf(line, sizeof line, "{\"cmd\": \"cancel\", \"target\": %llu}\n",
                         (unsigned long long)answer->id);
        bool told = mc_process_write(child->process, line, (size_t)n, 0) == MICA_OK;
        child->orphan = answer->id;
        child->idle = mc_now_us();
        child->deadline = child->idle + (told ? child->silence_us : GONE_US);
    }
    if (child->current == answer) child->current = NULL;
    answer->state = ANSWER_OVER;
    pthread_cond_broadcast(&child->changed);
}

static bool has_token(const mc_mlx_lm_answer *answer) {
    return answer->taken < MC_BUFFER_COUNT(&answer->tokens, reply_token);
}

/* Whether next can return. The last token waits for the end of the answer, which brings the
 * metrics: nobody asks again after it. */
static bool is_decided(const mc_mlx_lm_answer *answer) {
    if (atomic_load(&answer->cancelled) || answer->state == ANSWER_OVER ||
        answer->child->failed != MICA_OK)
        return true;
    size_t left = MC_BUFFER_COUNT(&answer->tokens, reply_token) - answer->taken;
    return left > 1 || (left == 1 && answer->count < answer->max);
}

/* Waits for another thread that reads or writes. */
static void wait_change(mc_mlx_lm *child) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += MC_MLX_LM_POLL_US * 1000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&child->changed, &child->lock, &until);
}

static void tell_progress(mc_mlx_lm_answer *answer) {
    if (answer->told == answer->done || !answer->progress) return;
    uint64_t total = answer->total;
    answer->told = answer->done;
    pthread_mutex_unlock(&answer->child->lock);
    answer->progress(answer->progress_user, answer->told, total);
    pthread_mutex_lock(&answer->child->lock);
}

/* Copies the alternatives: others may add to the answer while its reader looks at them. */
static mica_status hand_out(mc_mlx_lm_answer *answer, mica_token *token) {
    const reply_token *t = &MC_BUFFER_AT(&answer->tokens, reply_token)[answer->taken++];
    const mica_alternative *from =
        MC_BUFFER_AT(&answer->alternatives, mica_alternative) + answer->taken_alternatives;
    mc_buffer_clear(&answer->given);
    if (t->alternatives && !mc_buffer_add(&answer->given, from, t->alternatives * sizeof *from))
        return mc_fail_nomem("an answer");
    token->id = t->id;
    token->logprob = t->logprob;
    token->alternatives = MC_BUFFER_AT(&answer->given, mica_alternative);
    token->alternative_count = t->alternatives;
    answer->taken_alternatives += t->alternatives;
    return MICA_OK;
}

/* Forgets what was handed out, if that is all. */
static void forget_taken(mc_mlx_lm_answer *answer) {
    if (has_token(answer)) return;
    mc_buffer_clear(&answer->tokens);
    mc_buffer_clear(&answer->alternatives);
    answer->taken = answer->taken_alternatives = 0;
}

/* What a decided answer has. */
static mica_status decide(mc_mlx_lm_answer *answer, mica_token *token, mica_finish *finish) {
    if (atomic_load(&answer->cancelled)) {
        stop(answer);
        return mc_fail(MICA_ECANCELLED, "the answer was cancelled");
    }
    answer->given_metrics = answer->metrics;
    if (has_token(answer)) return hand_out(answer, token);
    if (answer->state != ANSWER_OVER)
        return mc_fail(answer->child->failed, "%s", answer->child->why);
    if (answer->status != MICA_OK) return mc_fail(answer->status, "%s", answer->error);
    *finish = answer->finish;
    return MICA_OK;
}

static void begin_reading(mc_mlx_lm *child) {
    if (child->readers++ == 0) child->deadline += mc_now_us() - child->idle;
}

static void end_reading(mc_mlx_lm *child) {
    if (--child->readers == 0) child->idle = mc_now_us();
}

mica_status mc_mlx_lm_next(mc_mlx_lm_answer *answer, mica_token *token, mica_finish *finish) {
    mc_mlx_lm *child = answer->child;
    pthread_mutex_lock(&child->lock);
    begin_reading(child);
    forget_taken(answer);
    if (answer->state == ANSWER_NEW) wait_turn(answer);
    while (tell_progress(answer), !is_decided(answer)) {
        if (child->busy)
            wait_change(child);
        else if (child->current || child->orphan)
            read_reply(child);
        else if (child->waiting == answer)
            begin(answer);
        else
            wait_change(child);
    }
    mica_status status = decide(answer, token, finish);
    end_reading(child);
    pthread_mutex_unlock(&child->lock);
    return status;
}

void mc_mlx_lm_cancel(mc_mlx_lm_answer *answer) {
    atomic_store(&answer->cancelled, true);
}

const mica_metrics *mc_mlx_lm_metrics(const mc_mlx_lm_answer *answer) {
    return &answer->given_metrics;
}

void mc_mlx_lm_drop(mc_mlx_lm_answer *answer) {
    mc_mlx_lm *child = answer->child;
    pthread_mutex_lock(&child->lock);
    stop(answer);
    pthread_mutex_unlock(&child->lock);
    mc_buffer_deinit(&answer->request);
    mc_buffer_deinit(&answer->tokens);
    mc_buffer_deinit(&answer->alternatives);
    mc_buffer_deinit(&answer->given);
    mc_free(answer);
}
