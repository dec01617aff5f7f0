/* Prompts of a schedule that begin alike: what they share is read once. */
#include "schedule/prompts.h"

#include "session/prefix.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD = 500, TAIL = 30, ALIKE = 6 };

/* A prompt of HEAD tokens that all share, and TAIL of its own, to be freed. */
static int32_t *make_alike(unsigned i) {
    int32_t *head = make_prompt(HEAD + TAIL, 11), *tail = make_prompt(TAIL, 100 + i);
    memcpy(head + HEAD, tail, TAIL * sizeof *tail);
    head[HEAD] = 100 + (int32_t)i;
    free(tail);
    return head;
}

/* Asks for an answer to prompt i, and compares it; returns how many tokens were cached. */
static int64_t ask_alike(mc_schedule *schedule, unsigned i, const char *salt) {
    static const mica_generate_options o = {.max_tokens = 5, .ignore_eos = true};
    static const int64_t mark = HEAD;
    int32_t *prompt = make_alike(i);
    client c;
    client_init(&c);
    must_submit(&c, schedule,
                &(mc_request_options){.ids = prompt,
                                      .n_ids = HEAD + TAIL,
                                      .generate = &o,
                                      .salt = salt,
                                      .marks = &mark,
                                      .n_marks = 1});
    client_wait_ends(&c, 1);
    client_choice want = generate_alone(models[1], prompt, HEAD + TAIL, &o);
    choice_compare(&c.choices[0], &want, "a prompt with a known beginning");
    int64_t cached = c.choices[0].metrics.reused_tokens;
    assert_int_equal(c.cached, cached);
    choice_free(&want);
    client_deinit(&c);
    free(prompt);
    return cached;
}

/* One after another. Salts do not see each other. */
static void test_known_prompts(void **state) {
    (void)state;
    mc_schedule *schedule = open_schedule(models[1], NULL);
    const bool keeps = mc_prefix_available();
    assert_int_equal(ask_alike(schedule, 0, NULL), 0);
    assert_int_equal(ask_alike(schedule, 1, ""), keeps ? HEAD / 64 * 64 : 0);
    assert_int_equal(ask_alike(schedule, 2, "another"), 0);
    assert_int_equal(ask_alike(schedule, 3, "another"), keeps ? HEAD / 64 * 64 : 0);
    assert_int_equal(ask_alike(schedule, 0, NULL), keeps ? (HEAD + TAIL - 1) / 64 * 64 : 0);
    assert_int_equal(stats_of(schedule).kept_bytes > 0, keeps);
    mc_schedule_close(&schedule);
}

/* All at once: what they share is read once. */
static void test_alike_prompts(void **state) {
    (void)state;
    static const mica_generate_options o = {.max_tokens = 5, .ignore_eos = true};
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.step_tokens = 100});
    client c[ALIKE];
    int32_t *prompts[ALIKE];
    gate g;
    gate_shut(&g, schedule);
    for (unsigned i = 0; i < ALIKE; i++) {
        prompts[i] = make_alike(i);
        client_init(&c[i]);
        must_submit(&c[i], schedule,
                    &(mc_request_options){.ids = prompts[i], .n_ids = HEAD + TAIL, .generate = &o});
    }
    gate_open(&g);
    for (unsigned i = 0; i < ALIKE; i++) {
        client_wait_ends(&c[i], 1);
        client_choice want = generate_alone(models[1], prompts[i], HEAD + TAIL, &o);
        choice_compare(&c[i].choices[0], &want, "a prompt that waited for another");
        choice_free(&want);
        client_deinit(&c[i]);
        free(prompts[i]);
    }
    if (mc_prefix_available())
        assert_int_equal(stats_of(schedule).cached_tokens, (ALIKE - 1) * (HEAD / 64 * 64));
    mc_schedule_close(&schedule);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_prompts),
        cmocka_unit_test(test_alike_prompts),
    };
    return cmocka_run_group_tests_name("schedule/prefixes", tests, open_models, close_models);
}
