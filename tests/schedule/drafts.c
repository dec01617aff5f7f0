/* Answers of a schedule with drafts. */
#include "schedule/prompts.h"

#include <stdlib.h>

/* A request that is alone drafts, and gets what it gets without. */
static void test_drafts(void **state) {
    (void)state;
    enum { N = 60 };
    mc_schedule *schedule = open_schedule(models[1], NULL);
    mica_generate_options o = {.max_tokens = 40, .ignore_eos = true, .draft_tokens = 6};
    int32_t prompt[N], *refrain = make_prompt(7, 0);
    for (int i = 0; i < N; i++)
        prompt[i] = refrain[i % 7];
    free(refrain);
    client c;
    client_init(&c);
    must_submit(&c, schedule, &(mc_request_options){.ids = prompt, .n_ids = N, .generate = &o});
    client_wait_ends(&c, 1);
    o.draft_tokens = 0;
    client_choice want = generate_alone(models[1], prompt, N, &o);
    choice_compare(&c.choices[0], &want, "with drafts");
    assert_true(c.choices[0].metrics.drafted_tokens > 0);
    assert_true(c.choices[0].metrics.decode_rate > 0.0);
    choice_free(&want);
    client_deinit(&c);
    mc_schedule_close(&schedule);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drafts),
    };
    return cmocka_run_group_tests_name("schedule/drafts", tests, open_models, close_models);
}
