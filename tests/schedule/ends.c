/* Answers of a schedule that end before their end: cancelled, closed, out of time. */
#include "schedule/prompts.h"

#include <stdlib.h>
#include <string.h>

/* Nothing is computed for a cancelled request after the step that runs. */
static void test_cancel(void **state) {
    (void)state;
    mc_schedule *schedule = open_schedule(models[1], NULL);
    const mica_generate_options endless = {.ignore_eos = true}, o = {.max_tokens = 40};
    int32_t *prompt = make_prompt(600, 1);
    client a, b, c;
    client_init(&a);
    client_init(&b);
    client_init(&c);
    must_submit(
        &a, schedule,
        &(mc_request_options){.ids = prompt, .n_ids = 20, .generate = &endless, .choices = 2});
    b.stop_at = 3;
    must_submit(&b, schedule,
                &(mc_request_options){.ids = prompt, .n_ids = 600, .generate = &endless});
    must_submit(&c, schedule, &(mc_request_options){.ids = prompt, .n_ids = 9, .generate = &o});
    client_wait_ends(&b, 1);
    assert_int_equal(b.choices[0].status, MICA_ECANCELLED);
    assert_int_equal(b.choices[0].finish, MICA_FINISH_CANCELLED);
    assert_int_equal(client_tokens(&b, 0), 3);
    client_wait_tokens(&a, 1, 4);
    gate g;
    gate_shut(&g, schedule);
    size_t before = client_tokens(&a, 0);
    mc_request_cancel(a.request);
    gate_open(&g);
    client_wait_ends(&a, 2);
    assert_true(client_tokens(&a, 0) <= before + 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(a.choices[i].status, MICA_ECANCELLED);
        assert_false(a.choices[i].timed_out);
        assert_string_equal(a.choices[i].error, "the answer was cancelled");
    }
    client_wait_ends(&c, 1);
    client_choice want = generate_alone(models[1], prompt, 9, &o);
    choice_compare(&c.choices[0], &want, "the one that was not cancelled");
    choice_free(&want);
    mc_schedule_stats ends = stats_of(schedule);
    assert_int_equal(ends.cancelled, 2);
    assert_int_equal(ends.stopped + ends.length, 2); /* b, whose callback wanted no more, and c */
    client_deinit(&a);
    client_deinit(&b);
    client_deinit(&c);
    free(prompt);
    mc_schedule_close(&schedule);
}

/* While it waits, while its prompt is read, while it is decoded; and by the schedule's end. */
static void test_close(void **state) {
    (void)state;
    mc_schedule *schedule =
        open_schedule(models[1], &(mc_schedule_options){.rows = 2, .step_tokens = 8});
    const mica_generate_options endless = {.ignore_eos = true};
    int32_t *prompt = make_prompt(1500, 1);
    client c[5];
    gate g;
    gate_shut(&g, schedule);
    for (int i = 0; i < 5; i++) {
        client_init(&c[i]);
        must_submit(&c[i], schedule,
                    &(mc_request_options){.ids = prompt,
                                          .n_ids = i == 1 ? 1500 : 10,
                                          .generate = &endless,
                                          .choices = i == 4 ? 3 : 1});
    }
    gate_open(&g);
    client_wait_tokens(&c[0], 0, 2);
    for (int i = 0; i < 3; i++) {
        client_close(&c[i]);
        assert_int_equal(c[i].choices[0].ends, 1);
        assert_int_equal(c[i].choices[0].finish, MICA_FINISH_CANCELLED);
        assert_int_equal(c[i].choices[0].metrics.prompt_tokens, i == 1 ? 1500 : 10);
    }
    client_wait_tokens(&c[4], 0, 2); /* its other choices wait */
    mc_schedule_close(&schedule);
    assert_int_equal(c[3].ended, 1);
    assert_int_equal(c[4].ended, 3);
    for (int i = 0; i < 5; i++) {
        client_deinit(&c[i]);
        assert_int_equal(c[i].late, 0);
    }
    free(prompt);
}

/* One that computes and one that waits run out of time. */
static void test_max_seconds(void **state) {
    (void)state;
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = 1});
    const mica_generate_options endless = {.max_tokens = 2000, .ignore_eos = true};
    int32_t *prompt = make_prompt(10, 1);
    const mc_request_options r = {
        .ids = prompt, .n_ids = 10, .generate = &endless, .max_seconds = 0.05};
    client a, b;
    client_init(&a);
    client_init(&b);
    must_submit(&a, schedule, &r);
    must_submit(&b, schedule, &r);
    client_wait_ends(&a, 1);
    client_wait_ends(&b, 1);
    assert_true(a.choices[0].timed_out && b.choices[0].timed_out);
    assert_int_equal(a.choices[0].status, MICA_ECANCELLED);
    assert_non_null(strstr(a.choices[0].error, "0.05 seconds"));
    assert_non_null(strstr(b.choices[0].error, "0.05 seconds"));
    assert_true(a.choices[0].total_seconds >= 0.05);
    assert_int_equal(stats_of(schedule).timed_out, 2);
    client_deinit(&a);
    client_deinit(&b);
    free(prompt);
    mc_schedule_close(&schedule);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_close),
        cmocka_unit_test(test_max_seconds),
    };
    return cmocka_run_group_tests_name("schedule/ends", tests, open_models, close_models);
}
