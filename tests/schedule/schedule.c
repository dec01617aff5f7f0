/* Requests that share a schedule: each gets, bit for bit, what it gets alone. */
#include "schedule/prompts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For sanitizers: fewer rounds of the same. */

/* Options of all kinds; those of `kind` 0 are greedy. */
static mica_generate_options make_options(unsigned kind, unsigned seed) {
    static const char *const stops[] = {"the", "\n\n"};
    static const mica_logit_bias bias[] = {{300, 2.0f}, {17, -3.0f}};
    mica_generate_options o = {.max_tokens = 2 + seed % 40, .ignore_eos = true, .seed = seed};
    if (kind == 1) o.temperature = 1.0f;
    if (kind == 2)
        o = (mica_generate_options){
            .max_tokens = 30, .temperature = 0.8f, .top_p = 0.9f, .top_k = 40, .seed = seed};
    if (kind == 3) {
        o.logprobs = true;
        o.top_logprobs = 3;
    }
    if (kind == 4) {
        o.stop_strings = stops;
        o.stop_string_count = 2;
        o.echo = true;
    }
    if (kind == 5) {
        o.temperature = 1.2f;
        o.logit_bias = bias;
        o.logit_bias_count = 2;
        o.repetition_penalty = 1.2f;
        o.min_tokens = 2;
    }
    if (kind == 6) o.draft_tokens = 5;
    return o;
}

enum { MANY = 28, KINDS = 7 };

/* Requests of lengths 1 to 700 that come at random steps, more than there are rows. */
static void check_mixture(const mica_model *model, const mc_schedule_options *options,
                          unsigned seed) {
    client clients[MANY];
    int32_t *prompts[MANY];
    size_t lengths[MANY];
    mica_generate_options generate[MANY];
    mc_schedule *schedule = open_schedule(model, options);
    for (unsigned i = 0; i < MANY; i++) {
        lengths[i] = 1 + (draw(&seed, 4) ? draw(&seed, 60) : draw(&seed, 700));
        prompts[i] = make_prompt(lengths[i], draw(&seed, 1000));
        generate[i] = make_options(draw(&seed, KINDS), draw(&seed, 1000));
        client_init(&clients[i]);
        if (i && draw(&seed, 2)) client_wait_tokens(&clients[draw(&seed, i)], 0, draw(&seed, 8));
        must_submit(&clients[i], schedule,
                    &(mc_request_options){.ids = prompts[i],
                                          .n_ids = lengths[i],
                                          .generate = &generate[i],
                                          .priority = (int)draw(&seed, 3)});
    }
    for (unsigned i = 0; i < MANY; i++) {
        char what[32];
        client_wait_ends(&clients[i], 1);
        client_choice want = generate_alone(model, prompts[i], lengths[i], &generate[i]);
        snprintf(what, sizeof what, "request %u", i);
        choice_compare(&clients[i].choices[0], &want, what);
        assert_int_equal(clients[i].choices[0].metrics.prompt_tokens, lengths[i]);
        choice_free(&want);
        client_deinit(&clients[i]);
        free(prompts[i]);
    }
    client_wait_idle(schedule);
    const mc_schedule_stats stats = stats_of(schedule);
    assert_int_equal(stats.stopped + stats.length, MANY);
    assert_int_equal(stats.running + stats.waiting, 0);
    assert_int_equal(stats.cache_bytes, 0);
    assert_true(stats.step_rows > stats.steps); /* some were computed together */
    mc_schedule_close(&schedule);
}

static void test_mixtures(void **state) {
    (void)state;
    static const mc_schedule_options small = {.rows = 3, .step_tokens = 50};
    check_mixture(models[1], &small, 3);
    if (test_is_brief()) return;
    check_mixture(models[0], &small, 1);
    check_mixture(models[1], NULL, 2);
}

/* Whether what a cancelled one got is the beginning of what it would have got. */
static void expect_beginning(const client_choice *got, const client_choice *want) {
    assert_int_equal(got->status, MICA_ECANCELLED);
    assert_true(got->ids.len <= want->ids.len);
    if (got->ids.len) assert_memory_equal(got->ids.data, want->ids.data, got->ids.len);
}

/* Requests that come, are cancelled and closed at random, in a budget for few of them. */
static void check_chaos(const mica_model *model, unsigned seed) {
    enum { N = 30 };
    client clients[N];
    unsigned length[N], prompt_seed[N], fate[N];
    mica_generate_options generate[N];
    const mc_schedule_options options = {
        .rows = 5, .step_tokens = 70, .cache_bytes = mica_model_cache_bytes(model, 256) * 3};
    mc_schedule *schedule = open_schedule(model, &options);
    for (unsigned i = 0; i < N; i++) {
        length[i] = 1 + draw(&seed, 250);
        prompt_seed[i] = draw(&seed, 4); /* many begin alike */
        fate[i] = draw(&seed, 5);        /* 0: cancelled, 1: closed, 2: stops itself, else: ends */
        generate[i] = make_options(draw(&seed, KINDS), draw(&seed, 1000));
        int32_t *prompt = make_prompt(length[i], prompt_seed[i]);
        client_init(&clients[i]);
        if (fate[i] == 2) clients[i].stop_at = 1 + draw(&seed, 4);
        must_submit(&clients[i], schedule,
                    &(mc_request_options){.ids = prompt,
                                          .n_ids = length[i],
                                          .generate = &generate[i],
                                          .priority = (int)draw(&seed, 2)});
        free(prompt);
        unsigned other = draw(&seed, i + 1);
        if (draw(&seed, 2)) client_wait_tokens(&clients[other], 0, draw(&seed, 5));
        if (fate[other] == 0) mc_request_cancel(clients[other].request);
        if (fate[other] == 1) client_close(&clients[other]);
    }
    for (unsigned i = 0; i < N; i++) {
        int32_t *prompt = make_prompt(length[i], prompt_seed[i]);
        client_wait_ends(&clients[i], 1);
        client_choice want = generate_alone(model, prompt, length[i], &generate[i]);
        if (clients[i].choices[0].finish == MICA_FINISH_CANCELLED) {
            assert_true(fate[i] < 3);
            expect_beginning(&clients[i].choices[0], &want);
        } else {
            choice_compare(&clients[i].choices[0], &want, "one that nobody cancelled");
        }
        choice_free(&want);
        client_deinit(&clients[i]);
        assert_int_equal(clients[i].late, 0);
        assert_int_equal(clients[i].choices[0].ends, 1);
        free(prompt);
    }
    client_wait_idle(schedule);
    assert_int_equal(stats_of(schedule).cache_bytes, 0);
    mc_schedule_close(&schedule);
}

static void test_chaos(void **state) {
    (void)state;
    if (!test_is_brief()) check_chaos(models[0], 1);
    for (unsigned seed = 2; seed < (test_is_brief() ? 3 : 4); seed++)
        check_chaos(models[1], seed);
}

/* Choice i draws with seed + i. */
static void test_choices(void **state) {
    (void)state;
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = 3});
    mica_generate_options options = {.max_tokens = 20, .temperature = 1.0f, .seed = 7};
    int32_t *prompt = make_prompt(40, 3);
    client c;
    client_init(&c);
    must_submit(&c, schedule,
                &(mc_request_options){
                    .ids = prompt, .n_ids = 40, .generate = &options, .choices = CLIENT_CHOICES});
    client_wait_ends(&c, CLIENT_CHOICES);
    const mc_schedule_stats stats = stats_of(schedule);
    assert_int_equal(stats.prompt_tokens, 40 * CLIENT_CHOICES);
    assert_int_equal(stats.cached_tokens, 39 * (CLIENT_CHOICES - 1)); /* it was read once */
    for (size_t i = 0; i < CLIENT_CHOICES; i++, options.seed++) {
        client_choice want = generate_alone(models[1], prompt, 40, &options);
        choice_compare(&c.choices[i], &want, "a choice");
        assert_int_equal(c.choices[i].ends, 1);
        choice_free(&want);
    }
    client_deinit(&c);
    free(prompt);
    mc_schedule_close(&schedule);
}

/* A constrained choice beside a free one; constraints are closed, whatever becomes of requests. */
static void test_constraints(void **state) {
    (void)state;
    atomic_int open = 0;
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = 1});
    const mica_generate_options o = {.max_tokens = 20, .temperature = 1.0f}, bad = {.top_k = -1};
    int32_t *prompt = make_prompt(10, 3);
    client c, waits;
    client_init(&c);
    client_init(&waits);
    mc_constraint *two[] = {NULL, open_thirds(&open, 4)};
    must_submit(&c, schedule,
                &(mc_request_options){
                    .ids = prompt, .n_ids = 10, .generate = &o, .choices = 2, .constraints = two});
    two[0] = open_thirds(&open, 4);
    two[1] = open_thirds(&open, 4);
    must_submit(&waits, schedule,
                &(mc_request_options){
                    .ids = prompt, .n_ids = 10, .generate = &o, .choices = 2, .constraints = two});
    client_close(&waits);
    client_wait_ends(&c, 2);
    const int32_t *ids = MC_BUFFER_AT(&c.choices[1].ids, int32_t);
    assert_int_equal(c.choices[1].finish, MICA_FINISH_STOP);
    assert_int_equal(client_tokens(&c, 1), 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ids[i] % 3, 0);
    two[0] = two[1] = NULL;
    two[0] = open_thirds(&open, 4);
    assert_int_equal(
        client_submit(
            &waits, schedule,
            (mc_request_options){.ids = prompt, .n_ids = 10, .generate = &bad, .constraints = two}),
        MICA_EINVAL);
    client_deinit(&c);
    client_deinit(&waits);
    mc_schedule_close(&schedule);
    assert_int_equal(atomic_load(&open), 0);
    free(prompt);
}

/* A constraint that fails, in the thread that computes masks, ends its own answer. */
static void test_broken_constraints(void **state) {
    (void)state;
    atomic_int open = 0;
    mc_schedule *schedule = open_schedule(models[1], NULL);
    const mica_generate_options o = {.max_tokens = 12, .ignore_eos = true};
    int32_t *prompt = make_prompt(10, 3);
    client_choice want = generate_alone(models[1], prompt, 10, &o);
    client c;
    client_init(&c);
    mc_constraint *all[] = {NULL, open_broken(&open, 0), open_broken(&open, 5),
                            open_thirds(&open, 12)};
    must_submit(&c, schedule,
                &(mc_request_options){
                    .ids = prompt, .n_ids = 10, .generate = &o, .choices = 4, .constraints = all});
    client_wait_ends(&c, 4);
    choice_compare(&c.choices[0], &want, "a free answer");
    assert_int_equal(c.choices[1].status, MICA_EFORMAT);
    assert_non_null(strstr(c.choices[1].error, "no mask 0"));
    assert_int_equal(client_tokens(&c, 1), 0);
    assert_int_equal(c.choices[2].status, MICA_EFORMAT);
    assert_non_null(strstr(c.choices[2].error, "no mask 5"));
    assert_int_equal(client_tokens(&c, 2), 5);
    assert_int_equal(c.choices[3].status, MICA_OK);
    assert_int_equal(client_tokens(&c, 3), 12);
    client_deinit(&c);
    mc_schedule_close(&schedule);
    assert_int_equal(atomic_load(&open), 0);
    choice_free(&want);
    free(prompt);
}

/* ---- memory ---- */

typedef struct small_room {
    int32_t *prompt;
    client_choice want;
} small_room;

static const mica_generate_options eight = {.max_tokens = 8, .ignore_eos = true};

/* Two requests. Each is right, or ends with MICA_ENOMEM. */
static bool run_two(void *arg) {
    const small_room *room = arg;
    const mc_request_options r = {.ids = room->prompt, .n_ids = 12, .generate = &eight};
    mc_schedule *schedule;
    bool good = true;
    test_forget_plans(mica_model_device(models[1]));
    if (mc_schedule_open(models[1], &(mc_schedule_options){.rows = 2}, &schedule) != MICA_OK)
        return false;
    for (int i = 0; i < 2; i++) {
        client c;
        client_init(&c);
        if (client_submit(&c, schedule, r) == MICA_OK) {
            client_wait_ends(&c, 1);
            if (c.choices[0].status == MICA_OK)
                choice_compare(&c.choices[0], &room->want, "a request");
            else
                assert_int_equal(c.choices[0].status, MICA_ENOMEM);
            good = good && c.choices[0].status == MICA_OK;
        } else {
            good = false;
        }
        client_deinit(&c);
    }
    mc_schedule_close(&schedule);
    return good;
}

static void test_no_memory(void **state) {
    (void)state;
    small_room room = {.prompt = make_prompt(12, 2)};
    room.want = generate_alone(models[1], room.prompt, 12, &eight);
    uint64_t rounds = test_fail_each_allocation(run_two, &room);
    printf("no memory: %llu allocations failed, one after the other\n", (unsigned long long)rounds);
    choice_free(&room.want);
    free(room.prompt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixtures),
        cmocka_unit_test(test_chaos),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_constraints),
        cmocka_unit_test(test_broken_constraints),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("schedule/schedule", tests, open_models, close_models);
}
