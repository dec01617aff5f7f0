#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "schedule/client.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void client_init(client *c) {
    *c = (client){.stop_at = 0};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
}

void choice_free(client_choice *choice) {
    mc_buffer_deinit(&choice->ids);
    mc_buffer_deinit(&choice->text);
    mc_buffer_deinit(&choice->logprobs);
}

void client_deinit(client *c) {
    client_close(c);
    for (size_t i = 0; i < CLIENT_CHOICES; i++)
        choice_free(&c->choices[i]);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
}

/* ---- callbacks ---- */

static void on_prefill(void *user, int64_t done, int64_t total, int64_t cached) {
    client *c = user;
    pthread_mutex_lock(&c->lock);
    c->late += c->closed;
    c->prefills++;
    c->done = done;
    c->total = total;
    c->cached = cached;
    pthread_mutex_unlock(&c->lock);
}

static void take_token(client_choice *choice, const mica_token *token) {
    bool ok = mc_buffer_add(&choice->text, token->text, token->len);
    if (token->prompt) choice->prompt++;
    if (token->id >= 0 && !token->prompt) {
        ok = ok && MC_BUFFER_PUSH(&choice->ids, int32_t, token->id) &&
             MC_BUFFER_PUSH(&choice->logprobs, float, token->logprob);
        for (size_t i = 0; i < token->alternative_count; i++)
            ok = ok && MC_BUFFER_PUSH(&choice->logprobs, float, token->alternatives[i].logprob);
    }
    if (!ok) choice->lost = true;
}

static bool on_token(void *user, size_t i, const mica_token *token) {
    client *c = user;
    pthread_mutex_lock(&c->lock);
    client_choice *choice = &c->choices[i];
    c->late += c->closed || choice->ends;
    take_token(choice, token);
    bool go_on = !c->stop_at || MC_BUFFER_COUNT(&choice->ids, int32_t) < c->stop_at;
    if (c->fail_at) mc_alloc_fail_once(c->fail_at);
    c->fail_at = 0;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return go_on;
}

static atomic_uint all_ends;

static void on_end(void *user, size_t i, const mc_choice_end *end) {
    client *c = user;
    pthread_mutex_lock(&c->lock);
    client_choice *choice = &c->choices[i];
    c->late += c->closed;
    choice->ends++;
    choice->order = atomic_fetch_add(&all_ends, 1u) + 1u;
    choice->status = choice->lost ? MICA_ENOMEM : end->status;
    choice->finish = end->finish;
    choice->timed_out = end->timed_out;
    choice->metrics = end->metrics;
    choice->queue_seconds = end->queue_seconds;
    choice->first_token_seconds = end->first_token_seconds;
    choice->total_seconds = end->total_seconds;
    snprintf(choice->error, sizeof choice->error, "%s", end->error);
    c->ended++;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

mica_status client_submit(client *c, mc_schedule *schedule, mc_request_options options) {
    options.prefill = on_prefill;
    options.token = on_token;
    options.end = on_end;
    options.user = c;
    return mc_schedule_submit(schedule, &options, &c->request);
}

void client_wait_ends(client *c, size_t n) {
    pthread_mutex_lock(&c->lock);
    while (c->ended < n)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

void client_wait_tokens(client *c, size_t choice, size_t n) {
    pthread_mutex_lock(&c->lock);
    while (MC_BUFFER_COUNT(&c->choices[choice].ids, int32_t) < n && !c->choices[choice].ends)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

size_t client_tokens(client *c, size_t choice) {
    pthread_mutex_lock(&c->lock);
    size_t n = MC_BUFFER_COUNT(&c->choices[choice].ids, int32_t);
    pthread_mutex_unlock(&c->lock);
    return n;
}

void client_close(client *c) {
    mc_request_close(&c->request);
    pthread_mutex_lock(&c->lock);
    c->closed = true;
    pthread_mutex_unlock(&c->lock);
}

/* ---- alone ---- */

mica_model *open_model(const char *name, const mica_model_options *options) {
    mica_model *model;
    char *path = test_format("%s/%s", test_models_dir(), name);
    if (mica_model_open(path, options, &model) != MICA_OK) fail_msg("%s", mica_last_error());
    free(path);
    return model;
}

client_choice generate_alone(const mica_model *model, const int32_t *ids, size_t n,
                             const mica_generate_options *options) {
    client_choice choice = {.ends = 1};
    mica_session *session;
    mica_stream *stream = NULL;
    mica_token token;
    if (mica_session_open(model, NULL, &session) != MICA_OK ||
        mica_generate_ids(session, ids, n, options, &stream) != MICA_OK)
        fail_msg("%s", mica_last_error());
    while (mica_stream_next(stream, &token))
        take_token(&choice, &token);
    choice.status = mica_stream_status(stream);
    choice.finish = mica_stream_finish(stream);
    mica_stream_close(&stream);
    mica_session_close(&session);
    return choice;
}

void choice_compare(const client_choice *got, const client_choice *want, const char *what) {
    if (got->status != want->status) fail_msg("%s: %s", what, got->error);
    assert_int_equal(got->finish, want->finish);
    assert_int_equal(got->prompt, want->prompt);
    if (got->ids.len != want->ids.len ||
        (got->ids.len && memcmp(got->ids.data, want->ids.data, got->ids.len) != 0))
        fail_msg("%s: other tokens than alone", what);
    assert_int_equal(got->text.len, want->text.len);
    if (got->text.len) assert_memory_equal(got->text.data, want->text.data, got->text.len);
    assert_int_equal(got->logprobs.len, want->logprobs.len);
    if (got->logprobs.len)
        assert_memory_equal(got->logprobs.data, want->logprobs.data, got->logprobs.len);
}

/* ---- a constraint ---- */

typedef struct thirds {
    mc_constraint base;
    size_t taken, n;
    bool fails;
    atomic_int *open;
} thirds;

static mica_status mask_thirds(mc_constraint *constraint, mc_token_mask *mask) {
    const thirds *t = (const thirds *)constraint;
    if (t->fails && t->taken >= t->n) return mc_fail(MICA_EFORMAT, "no mask %zu", t->taken);
    memset(mask->allowed, 0, (mask->vocab + 31) / 32 * sizeof *mask->allowed);
    for (size_t id = 0; id < mask->vocab && t->taken < t->n; id += 3)
        mask->allowed[id / 32] |= 1u << id % 32;
    mask->all = false;
    mask->may_end = t->taken >= t->n;
    return MICA_OK;
}

static mica_status accept_third(mc_constraint *constraint, int32_t id) {
    ((thirds *)constraint)->taken++;
    return id % 3 == 0 ? MICA_OK : mc_fail(MICA_EINVAL, "token %d", (int)id);
}

static void close_thirds(mc_constraint *constraint) {
    atomic_fetch_sub(((thirds *)constraint)->open, 1);
    free(constraint);
}

static mc_constraint *open_one(atomic_int *open, size_t n, bool fails) {
    static const mc_constraint_ops ops = {mask_thirds, accept_third, close_thirds};
    thirds *t = malloc(sizeof *t);
    assert_non_null(t);
    *t = (thirds){{&ops}, 0, n, fails, open};
    atomic_fetch_add(open, 1);
    return &t->base;
}

mc_constraint *open_thirds(atomic_int *open, size_t n) {
    return open_one(open, n, false);
}

mc_constraint *open_broken(atomic_int *open, size_t n) {
    return open_one(open, n, true);
}

void client_wait_idle(mc_schedule *schedule) {
    mc_schedule_stats stats;
    do {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        mc_schedule_get_stats(schedule, &stats);
    } while (stats.running + stats.waiting > 0);
}

/* ---- the gate ---- */

static void stand(void *user, size_t choice, const mc_choice_end *end) {
    gate *g = user;
    (void)choice;
    assert_true(end->timed_out);
    pthread_mutex_lock(&g->lock);
    g->entered = true;
    pthread_cond_broadcast(&g->changed);
    while (!g->open)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

void gate_shut(gate *g, mc_schedule *schedule) {
    const mc_request_options late = {.ids = &(int32_t){1},
                                     .n_ids = 1,
                                     .generate = &(mica_generate_options){.max_tokens = 1},
                                     .max_seconds = 1e-9,
                                     .end = stand,
                                     .user = g};
    *g = (gate){0};
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    if (mc_schedule_submit(schedule, &late, &g->request) != MICA_OK)
        fail_msg("%s", mica_last_error());
    pthread_mutex_lock(&g->lock);
    while (!g->entered)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

void gate_open(gate *g) {
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    mc_request_close(&g->request); /* waits for its callback */
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
}
