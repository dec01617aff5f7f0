/* Many threads at one schedule: they submit, cancel, close and look, all at once. Some answers are
 * constrained: their masks are computed in another thread. */
#include "schedule/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 64, ROUNDS = 3, PROMPT = 24 };

static const int32_t prompt[PROMPT] = {2,  31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41,
                                       42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53};

typedef struct worker {
    pthread_t thread;
    unsigned index;
    mc_schedule *schedule;
    const client_choice *want;        /* [PROMPT + 1], by the prompt's length */
    const client_choice *constrained; /* the same, under a constraint */
    atomic_int *open;                 /* constraints */
    size_t refused, wrong;
} worker;

static const mica_generate_options ten = {.max_tokens = 10, .ignore_eos = true};

static bool same(const client_choice *got, const client_choice *want) {
    return got->status == MICA_OK && got->ids.len == want->ids.len &&
           memcmp(got->ids.data, want->ids.data, got->ids.len) == 0;
}

/* The answer under a constraint, alone. */
static client_choice constrained_alone(mc_schedule *schedule, size_t n, atomic_int *open) {
    mc_constraint *constraint = open_thirds(open, 10);
    client c;
    client_init(&c);
    const mc_request_options r = {
        .ids = prompt, .n_ids = n, .generate = &ten, .constraints = &constraint};
    if (client_submit(&c, schedule, r) != MICA_OK) fail_msg("%s", mica_last_error());
    client_wait_ends(&c, 1);
    client_choice choice = c.choices[0];
    c.choices[0] = (client_choice){0};
    client_deinit(&c);
    const int32_t *ids = MC_BUFFER_AT(&choice.ids, int32_t);
    assert_int_equal(MC_BUFFER_COUNT(&choice.ids, int32_t), 10);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(ids[i] % 3, 0);
    return choice;
}

/* One request, which is cancelled, closed in its course or run to its end. */
static void ask(worker *w, unsigned round) {
    unsigned what = (w->index + round) % 5;
    size_t n = 1 + (w->index * 7 + round) % PROMPT;
    bool constrain = (w->index / 5 + round) % 2;
    mc_constraint *two[2] = {NULL, NULL};
    for (unsigned i = 0; constrain && i < 1 + what % 2; i++)
        two[i] = open_thirds(w->open, 10);
    client c;
    client_init(&c);
    const mc_request_options r = {.ids = prompt,
                                  .n_ids = n,
                                  .generate = &ten,
                                  .choices = 1 + what % 2,
                                  .priority = (int)(w->index % 3),
                                  .constraints = constrain ? two : NULL};
    if (client_submit(&c, w->schedule, r) != MICA_OK) {
        w->refused++;
        client_deinit(&c);
        return;
    }
    if (what == 1) mc_request_cancel(c.request);
    if (what == 2) client_wait_tokens(&c, 0, 2);
    if (what == 2 || what == 3) client_close(&c);
    client_wait_ends(&c, r.choices);
    if (what == 0 || what == 4)
        w->wrong += !same(&c.choices[0], &(constrain ? w->constrained : w->want)[n]);
    for (size_t i = 0; i < r.choices; i++)
        w->wrong += c.choices[i].ends != 1;
    client_deinit(&c);
    w->wrong += c.late;
}

static void *run(void *arg) {
    worker *w = arg;
    mc_schedule_stats stats;
    for (unsigned i = 0; i < ROUNDS; i++) {
        ask(w, i);
        mc_schedule_get_stats(w->schedule, &stats);
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    static worker workers[THREADS];
    client_choice want[PROMPT + 1], constrained[PROMPT + 1];
    atomic_int open = 0;
    size_t refused = 0;
    mica_model *model = open_model("default", &(mica_model_options){.threads = 2});
    mc_schedule *schedule;
    if (mc_schedule_open(model, &(mc_schedule_options){.rows = 8, .queue = 40}, &schedule) !=
        MICA_OK)
        fail_msg("%s", mica_last_error());
    for (size_t n = 1; n <= PROMPT; n++) {
        want[n] = generate_alone(model, prompt, n, &ten);
        constrained[n] = constrained_alone(schedule, n, &open);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (worker){.index = i,
                              .schedule = schedule,
                              .want = want,
                              .constrained = constrained,
                              .open = &open};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].wrong, 0);
        refused += workers[i].refused;
    }
    mc_schedule_stats stats;
    client_wait_idle(schedule);
    mc_schedule_get_stats(schedule, &stats);
    assert_int_equal(stats.refused_busy, refused);
    assert_int_equal(stats.running + stats.waiting, 0);
    assert_true(stats.mask_seconds > 0);
    printf("%d requests, %zu refused, %llu steps of %.1f rows\n", THREADS * ROUNDS, refused,
           (unsigned long long)stats.steps, (double)stats.step_rows / (double)stats.steps);
    mc_schedule_close(&schedule);
    mica_model_close(&model);
    assert_int_equal(atomic_load(&open), 0);
    for (size_t n = 1; n <= PROMPT; n++) {
        choice_free(&want[n]);
        choice_free(&constrained[n]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests_name("schedule/threads", tests, NULL, NULL);
}
