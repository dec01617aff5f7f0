/* Answers of a schedule with drafts: the same as without, in fewer steps. */
#include "schedule/prompts.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH = 60, MANY = 5 };

/* A prompt that repeats itself, to be freed; another one for each seed. */
static int32_t *make_refrain(unsigned seed) {
    int32_t *prompt = make_prompt(LENGTH, seed);
    for (int i = 7; i < LENGTH; i++)
        prompt[i] = prompt[i - 7];
    return prompt;
}

static void ask(client *c, mc_schedule *schedule, unsigned seed, const mica_generate_options *o) {
    int32_t *prompt = make_refrain(seed);
    client_init(c);
    must_submit(c, schedule, &(mc_request_options){.ids = prompt, .n_ids = LENGTH, .generate = o});
    free(prompt);
}

/* Waits for the answer, and compares it with one without drafts; returns its metrics. */
static mica_metrics expect_same(client *c, const mica_model *model, unsigned seed,
                                mica_generate_options o) {
    int32_t *prompt = make_refrain(seed);
    client_wait_ends(c, 1);
    o.draft_tokens = 0;
    client_choice want = generate_alone(model, prompt, LENGTH, &o);
    choice_compare(&c->choices[0], &want, "with drafts");
    mica_metrics metrics = c->choices[0].metrics;
    assert_true(metrics.accepted_tokens <= metrics.drafted_tokens);
    assert_true(o.max_tokens < 2 || metrics.decode_rate > 0.0);
    choice_free(&want);
    client_deinit(c);
    free(prompt);
    return metrics;
}

static void test_alone(void **state) {
    (void)state;
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.draft_tokens = 6});
    const mica_generate_options o = {.max_tokens = 40, .ignore_eos = true};
    client c;
    ask(&c, schedule, 0, &o);
    assert_true(expect_same(&c, models[1], 0, o).accepted_tokens > 0);
    assert_true(stats_of(schedule).steps < 39);
    mc_schedule_close(&schedule);
}

/* Greedy and drawn ones, some of which draft, in one schedule. */
static void check_together(const mica_model *model, const mc_schedule_options *options) {
    mc_schedule *schedule = open_schedule(model, options);
    mica_generate_options o[MANY];
    client c[MANY];
    int64_t drafted = 0, accepted = 0;
    gate g;
    gate_shut(&g, schedule);
    for (unsigned i = 0; i < MANY; i++) {
        o[i] = (mica_generate_options){.max_tokens = 60,
                                       .ignore_eos = true,
                                       .temperature = i == 1 ? 0.7f : 0.0f,
                                       .seed = i,
                                       .logprobs = i == 2,
                                       .top_logprobs = i == 2 ? 2 : 0,
                                       .draft_tokens = i == 4 ? 0 : 3 + (int)i};
        ask(&c[i], schedule, i, &o[i]);
    }
    gate_open(&g);
    for (unsigned i = 0; i < MANY; i++) {
        mica_metrics m = expect_same(&c[i], model, i, o[i]);
        drafted += m.drafted_tokens;
        accepted += m.accepted_tokens;
        if (i == 4) assert_int_equal(m.drafted_tokens, 0);
    }
    assert_true(drafted > 0 && accepted > 0);
    const mc_schedule_stats stats = stats_of(schedule);
    assert_int_equal(stats.drafted_tokens, drafted);
    assert_int_equal(stats.accepted_tokens, accepted);
    /* each row has a token of each of its steps, and those that were guessed right */
    assert_int_equal((int64_t)stats.step_rows + accepted, MANY * 59);
    assert_true(stats.step_rows > stats.steps);
    mc_schedule_close(&schedule);
}

static void test_together(void **state) {
    (void)state;
    check_together(models[0], NULL);
    check_together(models[1], NULL);
}

/* Rows of all kinds beside each other, with drafts, and choices that share a prompt. */
static void test_far_memory(void **state) {
    (void)state;
    static const mica_generate_options kinds[MANY] = {
        {.temperature = 0.7f, .top_k = 20, .draft_tokens = 4},
        {.temperature = 1.0f, .top_p = 0.7f},
        {.temperature = 1.5f, .top_p = 0.99f, .draft_tokens = 3},
        {.temperature = 0.0f, .draft_tokens = 3},
        {.temperature = 0.5f, .top_k = 40, .repetition_penalty = 1.1f}};
    mc_schedule *schedule = open_far_schedule(models[0], NULL);
    mica_generate_options o[MANY];
    client c[MANY];
    gate g;
    gate_shut(&g, schedule);
    for (unsigned i = 0; i < MANY; i++) {
        int32_t *prompt = make_refrain(i);
        o[i] = kinds[i];
        o[i].max_tokens = 40;
        o[i].ignore_eos = true;
        o[i].seed = 10 * i;
        client_init(&c[i]);
        must_submit(&c[i], schedule,
                    &(mc_request_options){
                        .ids = prompt, .n_ids = LENGTH, .generate = &o[i], .choices = 1 + i % 3});
        free(prompt);
    }
    gate_open(&g);
    for (unsigned i = 0; i < MANY; i++) {
        int32_t *prompt = make_refrain(i);
        client_wait_ends(&c[i], 1 + i % 3);
        for (unsigned k = 0; k < 1 + i % 3; k++) {
            mica_generate_options alone = o[i];
            alone.draft_tokens = 0;
            alone.seed += k;
            client_choice want = generate_alone(models[0], prompt, LENGTH, &alone);
            choice_compare(&c[i].choices[k], &want, "of the largest logits");
            choice_free(&want);
        }
        client_deinit(&c[i]);
        free(prompt);
    }
    mc_schedule_close(&schedule);
}

/* In a budget for two of them: rows pause, and guesses take only blocks that are there. */
static void test_pauses(void **state) {
    (void)state;
    mc_schedule *schedule = open_schedule(
        models[1],
        &(mc_schedule_options){.cache_bytes = mica_model_cache_bytes(models[1], 256) * 3 / 2});
    const mica_generate_options o = {.max_tokens = 130, .ignore_eos = true, .draft_tokens = 8};
    client c[MANY];
    gate g;
    gate_shut(&g, schedule);
    for (unsigned i = 0; i < MANY; i++)
        ask(&c[i], schedule, i, &o);
    gate_open(&g);
    for (unsigned i = 0; i < MANY; i++)
        (void)expect_same(&c[i], models[1], i, o);
    assert_true(stats_of(schedule).pauses > 0);
    client_wait_idle(schedule);
    assert_int_equal(stats_of(schedule).cache_bytes, 0);
    mc_schedule_close(&schedule);
}

/* Memory fails once, after the first token: what fails for guesses, which grow a table before the
 * tokens do, leaves the answer as it is. */
static void test_no_memory(void **state) {
    (void)state;
    const mica_generate_options o = {.max_tokens = 9, .ignore_eos = true, .draft_tokens = 8};
    enum { ROUNDS = 20 }; /* blocks are reserved first */
    for (uint64_t n = 1; n <= ROUNDS; n++) {
        mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = 2});
        client c[2];
        gate g;
        gate_shut(&g, schedule);
        for (unsigned i = 0; i < 2; i++)
            ask(&c[i], schedule, i, &o);
        c[1].fail_at = n;
        gate_open(&g);
        for (unsigned i = 0; i < 2; i++)
            client_wait_ends(&c[i], 1);
        assert_true(mc_alloc_count() >= n);
        mc_alloc_fail_at(0);
        for (unsigned i = 0; i < 2; i++) {
            const client_choice *got = &c[i].choices[0];
            if (got->status == MICA_OK) {
                (void)expect_same(&c[i], models[1], i, o);
                continue;
            }
            assert_int_equal(got->status, MICA_ENOMEM);
            assert_null(strstr(got->error, "a session's caches"));
            client_deinit(&c[i]);
        }
        mc_schedule_close(&schedule);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),    cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_together), cmocka_unit_test(test_far_memory),
        cmocka_unit_test(test_pauses),
    };
    return cmocka_run_group_tests_name("schedule/drafts", tests, open_models, close_models);
}
