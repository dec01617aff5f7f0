/* A schedule over a model whose layers have heads of two widths, some of which share those of
 * others: answers are those of sessions of their own, also where memory is short. */
#include "schedule/prompts.h"

#include "model/own_heads.h"

#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 150, ROWS = 4 };

static mica_model *model;
static char *folder;

static int open_all(void **state) {
    (void)state;
    folder = own_model(&own_heads, OWN_HEADS_CONFIG("true"));
    const mica_model_options options = {.threads = 2, .arithmetic = MICA_ARITHMETIC_EXACT};
    if (mica_model_open(folder, &options, &model) != MICA_OK) fail_msg("%s", mica_last_error());
    return 0;
}

static int close_all(void **state) {
    (void)state;
    mica_model_close(&model);
    test_temp_dir_remove(folder);
    return 0;
}

static void ask_all(uint64_t cache_bytes) {
    const mica_generate_options options = {.max_tokens = 200, .ignore_eos = true, .logprobs = 1};
    mc_schedule *schedule =
        open_schedule(model, &(mc_schedule_options){.rows = ROWS, .cache_bytes = cache_bytes});
    client c[ROWS];
    client_choice wants[ROWS];
    int32_t ids[ROWS][LENGTH];
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < LENGTH; k++)
            ids[i][k] = (k < 80 ? k * 7 + 3 : k * (i + 5)) % 448; /* they begin alike */
        wants[i] = generate_alone(model, ids[i], LENGTH, &options);
        assert_int_equal(wants[i].status, MICA_OK);
    }
    gate g;
    gate_shut(&g, schedule); /* all of them come at once */
    for (int i = 0; i < ROWS; i++) {
        client_init(&c[i]);
        must_submit(&c[i], schedule,
                    &(mc_request_options){.ids = ids[i], .n_ids = LENGTH, .generate = &options});
    }
    gate_open(&g);
    for (int i = 0; i < ROWS; i++) {
        client_wait_ends(&c[i], 1);
        choice_compare(&c[i].choices[0], &wants[i], "a row");
        client_deinit(&c[i]);
        choice_free(&wants[i]);
    }
    mc_schedule_stats stats = stats_of(schedule);
    printf("%llu bytes of caches: %llu pauses\n", (unsigned long long)cache_bytes,
           (unsigned long long)stats.pauses);
    if (cache_bytes) assert_true(stats.pauses > 0);
    mc_schedule_close(&schedule);
}

static void test_alike(void **state) {
    (void)state;
    ask_all(0);
}

/* So little that answers wait for each other's blocks. */
static void test_short_memory(void **state) {
    (void)state;
    ask_all(1000000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_short_memory),
    };
    return cmocka_run_group_tests_name("schedule/heads", tests, open_all, close_all);
}
