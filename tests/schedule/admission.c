/* What a schedule refuses, and what waits: the budget, the queue, draining. */
#include "schedule/prompts.h"

#include "device/device.h"

#include <stdlib.h>
#include <string.h>

/* For sanitizers: fewer rounds of the same. */

static void expect_refusal(mc_schedule *schedule, const mc_request_options *options,
                           mica_status status, const char *text) {
    client c;
    client_init(&c);
    assert_int_equal(client_submit(&c, schedule, *options), status);
    if (!strstr(mica_last_error(), text)) fail_msg("%s: no \"%s\"", mica_last_error(), text);
    assert_null(c.request);
    assert_int_equal(c.ended, 0);
    client_deinit(&c);
}

static void test_refusals(void **state) {
    (void)state;
    static const int32_t past[] = {2, 1000000};
    static const int64_t beyond = 11;
    uint64_t bytes = mica_model_cache_bytes(models[1], 512);
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.cache_bytes = bytes});
    mica_generate_options o = {.max_tokens = 200};
    int32_t *prompt = make_prompt(2100, 0);
    mc_request_options r = {.ids = prompt, .n_ids = 2100, .generate = &o};
    expect_refusal(schedule, &r, MICA_ECONTEXT, "2100 tokens, the model's context 2048");
    r.n_ids = 400;
    expect_refusal(schedule, &r, MICA_ECONTEXT, "400 tokens, the answer up to 200");
    r.n_ids = 0;
    expect_refusal(schedule, &r, MICA_EINVAL, "empty");
    expect_refusal(schedule, &(mc_request_options){.ids = past, .n_ids = 2}, MICA_EINVAL,
                   "1000000");
    r.n_ids = 10;
    o.temperature = -1.0f;
    expect_refusal(schedule, &r, MICA_EINVAL, "temperature");
    o = (mica_generate_options){.draft_tokens = 64};
    expect_refusal(schedule, &r, MICA_EINVAL, "draft_tokens");
    r.generate = NULL;
    r.max_seconds = -1.0;
    expect_refusal(schedule, &r, MICA_EINVAL, "max_seconds");
    r.max_seconds = 0.0;
    r.marks = &beyond;
    r.n_marks = 1;
    expect_refusal(schedule, &r, MICA_EINVAL, "mark 0 is at 11");
    r.n_marks = 0;
    r.choices = 257;
    expect_refusal(schedule, &r, MICA_EINVAL, "choices");
    assert_int_equal(stats_of(schedule).refused_context, 2);
    assert_int_equal(stats_of(schedule).refused_other, 7);
    mc_schedule_close(&schedule);
    assert_int_equal(mc_schedule_open(models[1], &(mc_schedule_options){.rows = 257}, &schedule),
                     MICA_EINVAL);
    assert_int_equal(
        mc_schedule_open(models[1], &(mc_schedule_options){.step_tokens = -1}, &schedule),
        MICA_EINVAL);
    assert_int_equal(
        mc_schedule_open(models[1], &(mc_schedule_options){.draft_tokens = 64}, &schedule),
        MICA_EINVAL);
    assert_null(schedule);
    free(prompt);
}

/* Long answers in a budget for two of them: rows pause and read their texts again, or, with memory
 * of the device's own, go on from copies of their caches. */
static void check_budget(const mica_model *model, const mica_generate_options *o, bool far) {
    enum { N = 4, PROMPT = 100 };
    const mc_schedule_options options = {.cache_bytes = mica_model_cache_bytes(model, 512) * 3 / 2};
    mc_schedule *schedule =
        far ? open_far_schedule(model, &options) : open_schedule(model, &options);
    int32_t *prompt = make_prompt(PROMPT + N, 5);
    client clients[N];
    for (int i = 0; i < N; i++) {
        client_init(&clients[i]);
        must_submit(&clients[i], schedule,
                    &(mc_request_options){.ids = prompt + i, .n_ids = PROMPT, .generate = o});
    }
    for (int i = 0; i < N; i++) {
        client_wait_ends(&clients[i], 1);
        client_choice want = generate_alone(model, prompt + i, PROMPT, o);
        choice_compare(&clients[i].choices[0], &want, "a row that may have paused");
        choice_free(&want);
    }
    client_wait_idle(schedule);
    const mc_schedule_stats stats = stats_of(schedule);
    assert_true(stats.pauses > 0);
    assert_int_equal(stats.paused, 0);
    assert_int_equal(stats.swaps > 0, far);
    assert_int_equal(stats.swapped_bytes, 0);
    assert_int_equal(stats.cache_bytes, 0);
    assert_int_equal(stats.prompt_tokens, N * PROMPT);
    assert_int_equal(stats.generated_tokens, N * o->max_tokens);
    assert_int_equal(stats.total_time.count, N);
    assert_int_equal(stats.first_token_time.count, N);
    assert_int_equal(stats.queue_time.count, N);
    assert_int_equal(stats.token_time.count, N * (o->max_tokens - 1));
    for (int i = 0; i < N; i++)
        client_deinit(&clients[i]);
    free(prompt);
    mc_schedule_close(&schedule);
}

static void test_budget(void **state) {
    (void)state;
    const mica_generate_options greedy = {.max_tokens = 300, .ignore_eos = true},
                                drawn = {.max_tokens = 300,
                                         .temperature = 1.0f,
                                         .frequency_penalty = 0.5f,
                                         .ignore_eos = true,
                                         .seed = 3};
    if (!test_is_brief()) {
        check_budget(models[0], &drawn, false);
        check_budget(models[1], &greedy, false);
    }
    check_budget(models[1], &(mica_generate_options){.max_tokens = 200, .ignore_eos = true}, true);
}

/* A context that slides: rows cannot read their texts again, so they wait instead of pausing. */
static void test_sliding_context(void **state) {
    (void)state;
    enum { N = 5, LENGTH = 90 };
    mica_model *model =
        open_model("default", &(mica_model_options){.threads = 2, .context_length = 64});
    uint64_t bytes = mica_model_cache_bytes(model, 2000) * 3 / 2;
    mc_schedule *schedule = open_schedule(model, &(mc_schedule_options){.cache_bytes = bytes});
    const mica_generate_options o = {.max_tokens = 150, .ignore_eos = true};
    int32_t *prompt = make_prompt(LENGTH + N, 8);
    client c[N];
    for (int i = 0; i < N; i++) {
        client_init(&c[i]);
        must_submit(&c[i], schedule,
                    &(mc_request_options){.ids = prompt + i, .n_ids = LENGTH, .generate = &o});
    }
    for (int i = 0; i < N; i++) {
        client_wait_ends(&c[i], 1);
        client_choice want = generate_alone(model, prompt + i, LENGTH, &o);
        choice_compare(&c[i].choices[0], &want, "a context that slides");
        choice_free(&want);
        client_deinit(&c[i]);
    }
    assert_int_equal(stats_of(schedule).pauses, 0);
    mc_schedule_close(&schedule);
    mica_model_close(&model);
    free(prompt);
}

/* A context that slides has no end, but an answer without a limit does. */
static void test_end_of_sliding_context(void **state) {
    (void)state;
    enum { CONTEXT = 24, LENGTH = 40 };
    mica_model *model =
        open_model("default", &(mica_model_options){.threads = 2, .context_length = CONTEXT});
    mc_schedule *schedule = open_schedule(model, NULL);
    mica_generate_options o = {.ignore_eos = true};
    int32_t *prompt = make_prompt(LENGTH, 8);
    mc_request_options r = {.ids = prompt, .n_ids = LENGTH, .generate = &o};
    for (int i = 0; i < 3; i++) { /* the request's limit, if that is smaller */
        client c;
        client_init(&c);
        r.max_tokens = i == 1 ? 10 : i * 1000;
        must_submit(&c, schedule, &r);
        client_wait_ends(&c, 1);
        assert_int_equal(c.choices[0].finish, MICA_FINISH_LENGTH);
        assert_int_equal(client_tokens(&c, 0), i == 1 ? 10 : CONTEXT);
        client_deinit(&c);
    }
    o.min_tokens = CONTEXT + 1;
    expect_refusal(schedule, &r, MICA_EINVAL, "min_tokens 25: want 0 to max_tokens, 24");
    mc_schedule_close(&schedule);
    mica_model_close(&model);
    free(prompt);
}

/* Where the budget has no room for the whole of a context that slides, the answer ends with it. */
static void test_budget_of_sliding_context(void **state) {
    (void)state;
    enum { CONTEXT = 1024, LENGTH = 10 };
    mica_model *model =
        open_model("default", &(mica_model_options){.threads = 2, .context_length = CONTEXT});
    uint64_t bytes = mica_model_cache_bytes(model, 64);
    assert_true(bytes < mica_model_cache_bytes(model, CONTEXT));
    mc_schedule *schedule = open_schedule(model, &(mc_schedule_options){.cache_bytes = bytes});
    mica_generate_options o = {.ignore_eos = true};
    int32_t *prompt = make_prompt(CONTEXT, 8);
    mc_request_options r = {.ids = prompt, .n_ids = LENGTH, .generate = &o};
    client c;
    client_init(&c);
    must_submit(&c, schedule, &r);
    client_wait_ends(&c, 1);
    assert_int_equal(c.choices[0].finish, MICA_FINISH_LENGTH);
    assert_true(client_tokens(&c, 0) > 50 && client_tokens(&c, 0) < CONTEXT - LENGTH);
    client_deinit(&c);
    o.max_tokens = CONTEXT; /* what was asked for is refused, not cut */
    expect_refusal(schedule, &r, MICA_ECONTEXT, "10 tokens, the answer up to 1024");
    o.max_tokens = 0;
    r.n_ids = CONTEXT;
    expect_refusal(schedule, &r, MICA_ECONTEXT, "1024 tokens, the answer up to 1024");
    mc_schedule_close(&schedule);
    mica_model_close(&model);
    free(prompt);
}

/* An answer without a limit ends where the budget does. */
static void test_end_of_budget(void **state) {
    (void)state;
    uint64_t bytes = mica_model_cache_bytes(models[1], 256) * 2;
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.cache_bytes = bytes});
    const mica_generate_options endless = {.ignore_eos = true};
    const int64_t last = test_is_brief() ? 0 : 2000; /* also one that the client did not ask for */
    int32_t *prompt = make_prompt(10, 5);
    for (int64_t max = 0; max <= last; max += 2000) {
        client c;
        client_init(&c);
        must_submit(&c, schedule,
                    &(mc_request_options){
                        .ids = prompt, .n_ids = 10, .generate = &endless, .max_tokens = max});
        client_wait_ends(&c, 1);
        assert_int_equal(c.choices[0].finish, MICA_FINISH_LENGTH);
        assert_true(client_tokens(&c, 0) > 250 && client_tokens(&c, 0) < 2000);
        client_deinit(&c);
    }
    free(prompt);
    mc_schedule_close(&schedule);
    assert_int_equal(
        mc_schedule_open(models[1], &(mc_schedule_options){.cache_bytes = 1}, &schedule),
        MICA_EINVAL);
}

static void test_full_queue(void **state) {
    (void)state;
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = 1, .queue = 2});
    const mica_generate_options o = {.max_tokens = 5};
    int32_t *prompt = make_prompt(10, 1);
    const mc_request_options r = {.ids = prompt, .n_ids = 10, .generate = &o};
    client a, b;
    gate g;
    client_init(&a);
    client_init(&b);
    gate_shut(&g, schedule);
    must_submit(&a, schedule, &r);
    must_submit(&b, schedule, &r);
    expect_refusal(schedule, &r, MICA_EBUSY, "2 requests wait already");
    assert_true(mc_schedule_retry_seconds(schedule) >= 1.0);
    assert_int_equal(stats_of(schedule).refused_busy, 1);
    assert_int_equal(stats_of(schedule).waiting, 2);
    gate_open(&g);
    client_wait_ends(&a, 1);
    client_wait_ends(&b, 1);
    client_deinit(&a);
    client_deinit(&b);
    free(prompt);
    mc_schedule_close(&schedule);
}

static uint64_t budget_of(const mica_model *model) {
    mc_schedule *schedule = open_schedule(model, &(mc_schedule_options){0});
    uint64_t bytes = stats_of(schedule).cache_budget;
    mc_schedule_close(&schedule);
    return bytes;
}

/* A share of the device's memory, not of the host's. */
static void test_default_budget(void **state) {
    (void)state;
    mica_device *device = mica_model_device(models[1]);
    uint64_t limit = mica_model_cache_bytes(models[1], 512) * 4;
    mc_storage *taken;
    mica_device_set_memory_limit(device, limit);
    assert_int_equal(budget_of(models[1]), limit / 4);
    assert_int_equal(mc_storage_new(device, limit / 4 * 3, &taken), MICA_OK);
    assert_int_equal(budget_of(models[1]), mc_device_free_bytes(device) / 4 * 3);
    mc_storage_release(taken);
    mica_device_set_memory_limit(device, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_sliding_context),
        cmocka_unit_test(test_end_of_sliding_context),
        cmocka_unit_test(test_budget_of_sliding_context),
        cmocka_unit_test(test_end_of_budget),
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_default_budget),
    };
    return cmocka_run_group_tests_name("schedule/admission", tests, open_models, close_models);
}
