/* Whose turn it is in a schedule: priorities, and short prompts beside long ones. */
#include "schedule/prompts.h"

#include <stdlib.h>

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
        cmocka_unit_test(test_priorities),
        cmocka_unit_test(test_long_prompt),
    };
    return cmocka_run_group_tests_name("schedule/order", tests, open_models, close_models);
}
