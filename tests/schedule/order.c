/* Whose turn it is in a schedule: priorities, and short prompts beside long ones. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include "schedule/prompts.h"
#include "schedule/state.h"

#include "device/device.h"

#include <stdlib.h>
#include <time.h>

/* Those of higher priority go first, but a request is overtaken by few. */
static void test_priorities(void **state) {
    (void)state;
    enum { HIGH = 24, LOW = 2, ALL = HIGH + LOW };
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = 1});
    const mica_generate_options o = {.max_tokens = 2, .ignore_eos = true};
    int32_t *prompt = make_prompt(5, 1);
    client c[ALL];
    gate g;
    gate_shut(&g, schedule);
    for (int i = 0; i < ALL; i++) {
        client_init(&c[i]);
        must_submit(&c[i], schedule,
                    &(mc_request_options){
                        .ids = prompt, .n_ids = 5, .generate = &o, .priority = i < LOW ? 0 : 1});
    }
    gate_open(&g);
    for (int i = 0; i < ALL; i++)
        client_wait_ends(&c[i], 1);
    for (int i = 0; i < LOW; i++) { /* 8 overtake it, then it is the oldest */
        unsigned at = c[i].choices[0].order;
        assert_true(at > c[LOW + 7].choices[0].order);
        assert_true(at < c[LOW + 8].choices[0].order);
    }
    for (int i = LOW; i + 1 < ALL; i++)
        assert_true(c[i].choices[0].order < c[i + 1].choices[0].order);
    for (int i = 0; i < ALL; i++)
        client_deinit(&c[i]);
    free(prompt);
    mc_schedule_close(&schedule);
}

/* As many tokens as are read in half a second, by halves; 64 are few enough. */
static void test_step_tokens(void **state) {
    (void)state;
    assert_int_equal(mc_rows_step_tokens(512, 0.0), 512);
    assert_int_equal(mc_rows_step_tokens(512, 1430.0), 256);
    assert_int_equal(mc_rows_step_tokens(512, 1e9), 64);
    for (double us = 1.0; us < 1e6; us *= 1.3) {
        int64_t n = mc_rows_step_tokens(512, us);
        assert_true(n == 64 || (double)n * us <= 500000.0);
        assert_true(n == 512 || (double)(2 * n) * us > 500000.0);
    }
}

/* ---- rows that pause for others ---- */

static void ask(client *c, mc_schedule *schedule, const int32_t *prompt, size_t n,
                const mica_generate_options *o, int priority) {
    client_init(c);
    must_submit(
        c, schedule,
        &(mc_request_options){.ids = prompt, .n_ids = n, .generate = o, .priority = priority});
}

/* Waits for the answer, which is the same as alone; returns which it was of all. */
static unsigned expect_same(client *c, const int32_t *prompt, size_t n,
                            const mica_generate_options *o) {
    client_wait_ends(c, 1);
    client_choice want = generate_alone(models[1], prompt, n, o);
    choice_compare(&c->choices[0], &want, "one of several priorities");
    choice_free(&want);
    unsigned order = c->choices[0].order;
    client_deinit(c);
    return order;
}

/* All rows are taken by long answers of low priority: the latest of them pause. */
static void test_no_row(void **state) {
    (void)state;
    enum { LOW = 2, LENGTH = 70 };
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = LOW});
    const mica_generate_options tall = {.max_tokens = 120, .ignore_eos = true, .temperature = 1.0f},
                                few = {.max_tokens = 3, .ignore_eos = true};
    int32_t *prompt = make_prompt(LENGTH + 4, 4);
    client low[LOW], high, same;
    for (int i = 0; i < LOW; i++)
        ask(&low[i], schedule, prompt + i, LENGTH, &tall, 0);
    for (int i = 0; i < LOW; i++)
        client_wait_tokens(&low[i], 0, 5);
    ask(&same, schedule, prompt + 3, LENGTH, &few, 0);
    ask(&high, schedule, prompt + 2, LENGTH, &few, 1);
    unsigned first = expect_same(&high, prompt + 2, LENGTH, &few), order[LOW];
    for (int i = 0; i < LOW; i++)
        order[i] = expect_same(&low[i], prompt + i, LENGTH, &tall);
    assert_true(first < order[0] && order[0] < order[1]); /* the latest has paused */
    /* one of the same priority waits for a row, behind the one that has paused */
    assert_true(expect_same(&same, prompt + 3, LENGTH, &few) > order[0]);
    client_wait_idle(schedule);
    assert_int_equal(stats_of(schedule).pauses, 1);
    assert_int_equal(stats_of(schedule).paused, 0);
    assert_int_equal(stats_of(schedule).prompt_tokens, (LOW + 2) * LENGTH);
    free(prompt);
    mc_schedule_close(&schedule);
}

/* There are rows, but the caches of low answers take all blocks. */
static void test_no_blocks(void **state) {
    (void)state;
    enum { LENGTH = 300 };
    uint64_t bytes = mica_model_cache_bytes(models[1], 512) * 3 / 2;
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.cache_bytes = bytes});
    const mica_generate_options tall = {.max_tokens = 200, .ignore_eos = true},
                                few = {.max_tokens = 3, .ignore_eos = true};
    int32_t *prompt = make_prompt(LENGTH + 5, 4);
    client low, high;
    ask(&low, schedule, prompt, LENGTH, &tall, -1);
    client_wait_tokens(&low, 0, 5);
    ask(&high, schedule, prompt + 5, LENGTH, &few, 2);
    unsigned first = expect_same(&high, prompt + 5, LENGTH, &few);
    assert_true(first < expect_same(&low, prompt, LENGTH, &tall));
    assert_true(stats_of(schedule).pauses > 0);
    free(prompt);
    mc_schedule_close(&schedule);
}

/* ---- the schedule's lock ---- */

static mc_schedule *watched;
static const mc_backend *real;
static atomic_int launches, under_lock;

/* Whether a lock is free some time soon: nobody else keeps it for long. */
static bool is_free(pthread_mutex_t *lock) {
    enum { TRIES = 2000 };
    for (int i = 0; i < TRIES; i++) {
        if (pthread_mutex_trylock(lock) == 0) {
            pthread_mutex_unlock(lock);
            return true;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

static mica_status watch_launch(mc_executable *executable, mc_binding *args,
                                const uint64_t *scalars, mc_result *results, mc_fence *fence) {
    atomic_fetch_add(&launches, 1);
    if (!atomic_load(&under_lock) && !is_free(&watched->lock)) atomic_store(&under_lock, 1);
    return real->launch(executable, args, scalars, results, fence);
}

/* The device computes, and copies caches, while others may take the schedule's lock: for a request
 * of a higher priority rows pause, and their caches are copied to the host's memory. */
static void test_pauses_without_lock(void **state) {
    (void)state;
    enum { LENGTH = 70 };
    mica_device *device = mica_model_device(models[1]);
    mc_backend watching = *device->backend;
    mc_schedule *schedule = open_far_schedule(models[1], &(mc_schedule_options){.rows = 1});
    const mica_generate_options tall = {.max_tokens = 60, .ignore_eos = true},
                                few = {.max_tokens = 3, .ignore_eos = true};
    int32_t *prompt = make_prompt(LENGTH + 2, 4);
    client low, high;
    gate g;
    gate_shut(&g, schedule);
    watched = schedule;
    real = device->backend;
    watching.launch = watch_launch;
    device->backend = &watching;
    ask(&low, schedule, prompt, LENGTH, &tall, 0);
    gate_open(&g);
    client_wait_tokens(&low, 0, 3);
    ask(&high, schedule, prompt + 2, LENGTH, &few, 1);
    client_wait_ends(&high, 1);
    client_wait_ends(&low, 1);
    client_wait_idle(schedule);
    assert_int_equal(stats_of(schedule).pauses, 1);
    mc_schedule_close(&schedule);
    device->backend = real;
    assert_true(atomic_load(&launches) > 60);
    assert_int_equal(atomic_load(&under_lock), 0);
    unsigned first = expect_same(&high, prompt + 2, LENGTH, &few);
    assert_true(first < expect_same(&low, prompt, LENGTH, &tall));
    free(prompt);
}

/* Requests of a higher priority keep coming: the low one is overtaken by 8, then it goes on. */
static void test_overtaken_row(void **state) {
    (void)state;
    enum { HIGH = 24 };
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = 1});
    const mica_generate_options tall = {.max_tokens = 60, .ignore_eos = true},
                                few = {.max_tokens = 2, .ignore_eos = true};
    int32_t *prompt = make_prompt(20, 4);
    client low, high[HIGH];
    ask(&low, schedule, prompt, 20, &tall, 0);
    client_wait_tokens(&low, 0, 2);
    gate g;
    gate_shut(&g, schedule);
    for (int i = 0; i < HIGH; i++)
        ask(&high[i], schedule, prompt, 10, &few, 1);
    gate_open(&g);
    unsigned order = expect_same(&low, prompt, 20, &tall);
    for (int i = 0; i < HIGH; i++)
        assert_true((expect_same(&high[i], prompt, 10, &few) < order) == (i < 8));
    assert_int_equal(stats_of(schedule).pauses, 1);
    free(prompt);
    mc_schedule_close(&schedule);
}

/* A request is overtaken once by another, however many of its choices pause. */
static void test_overtaken_choices(void **state) {
    (void)state;
    enum { HIGH = 16, CHOICES = 2 };
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = CHOICES});
    const mica_generate_options tall = {.max_tokens = 60, .ignore_eos = true},
                                few = {.max_tokens = 2, .ignore_eos = true};
    int32_t *prompt = make_prompt(20, 4);
    client low, high[HIGH];
    int before = 0;
    client_init(&low);
    must_submit(
        &low, schedule,
        &(mc_request_options){.ids = prompt, .n_ids = 20, .generate = &tall, .choices = CHOICES});
    for (size_t i = 0; i < CHOICES; i++)
        client_wait_tokens(&low, i, 2);
    gate g;
    gate_shut(&g, schedule);
    for (int i = 0; i < HIGH; i++)
        ask(&high[i], schedule, prompt, 10, &few, 1);
    gate_open(&g);
    client_wait_ends(&low, CHOICES);
    for (int i = 0; i < HIGH; i++)
        before += expect_same(&high[i], prompt, 10, &few) < low.choices[0].order;
    assert_int_equal(before, 8);
    client_deinit(&low);
    free(prompt);
    mc_schedule_close(&schedule);
}

/* While a long prompt is read in 16 parts, the others get a token a part; and a short prompt that
 * comes later need not wait for it. */
static void test_long_prompt(void **state) {
    (void)state;
    enum { LONG = 1600, PART = 100 };
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.step_tokens = PART});
    const mica_generate_options endless = {.max_tokens = 400, .ignore_eos = true},
                                few = {.max_tokens = 3};
    int32_t *prompt = make_prompt(LONG, 1);
    client first, tall_one, last;
    client_init(&first);
    client_init(&tall_one);
    client_init(&last);
    must_submit(&first, schedule,
                &(mc_request_options){.ids = prompt, .n_ids = 10, .generate = &endless});
    client_wait_tokens(&first, 0, 1);
    gate g;
    gate_shut(&g, schedule);
    size_t before = client_tokens(&first, 0);
    must_submit(&tall_one, schedule,
                &(mc_request_options){.ids = prompt, .n_ids = LONG, .generate = &few});
    must_submit(&last, schedule,
                &(mc_request_options){.ids = prompt + 7, .n_ids = 40, .generate = &few});
    gate_open(&g);
    client_wait_ends(&last, 1);
    assert_true(tall_one.done < LONG);
    client_wait_tokens(&tall_one, 0, 1);
    gate_shut(&g, schedule);
    size_t after = client_tokens(&first, 0);
    gate_open(&g);
    assert_true(tall_one.prefills >= LONG / PART);
    assert_true(after - before >= LONG / PART - 1);
    client_deinit(&first);
    client_deinit(&tall_one);
    client_deinit(&last);
    free(prompt);
    mc_schedule_close(&schedule);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_priorities),    cmocka_unit_test(test_step_tokens),
        cmocka_unit_test(test_no_row),        cmocka_unit_test(test_no_blocks),
        cmocka_unit_test(test_overtaken_row), cmocka_unit_test(test_overtaken_choices),
        cmocka_unit_test(test_long_prompt),   cmocka_unit_test(test_pauses_without_lock),
    };
    return cmocka_run_group_tests_name("schedule/order", tests, open_models, close_models);
}
