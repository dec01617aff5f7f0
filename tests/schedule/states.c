/* A schedule over a model of which some layers have a recurrence instead of keys and values:
 * answers are those of sessions of their own. */
#include "schedule/prompts.h"

#include "base/alloc.h"
#include "engine/model.h"
#include "session/decay.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_LAYERS = 64, LENGTH = 70, ROWS = 3 };

static mc_carried carried;
static mc_layer_state states[MAX_LAYERS];

static mc_session_model *shared_of(const mica_model *model) {
    const mc_session_model *local;
    if (mc_model_local(model, &local) != MICA_OK) fail_msg("%s", mica_last_error());
    return (mc_session_model *)(uintptr_t)local; /* it is no constant */
}

static int open_recurrent(void **state) {
    open_decay();
    if (open_models(state)) return 1;
    mc_session_model *shared = shared_of(models[1]);
    const mc_decoder_spec *spec = &shared->lm->spec;
    carried = (mc_carried){MICA_F32, 3, {spec->kv_heads, 1, spec->head_dim}};
    assert_in_range(spec->n_layers, 2, MAX_LAYERS);
    for (int i = 0; i < spec->n_layers; i++)
        states[i] =
            i % 3 == 1 ? (mc_layer_state){&decay, i, &carried, 1} : (mc_layer_state){.of = i};
    shared->states = states;
    return 0;
}

static int close_recurrent(void **state) {
    shared_of(models[1])->states = NULL;
    return close_models(state);
}

static const mica_generate_options few = {.max_tokens = 6, .ignore_eos = true, .logprobs = 1};

/* Prompts that begin alike, each with what it answers alone. */
typedef struct asked {
    int32_t *prompts[ROWS];
    client_choice wants[ROWS];
} asked;

static void make_asked(asked *a) {
    for (int i = 0; i < ROWS; i++) {
        a->prompts[i] = make_prompt(LENGTH, 11);
        a->prompts[i][LENGTH - 1] = 100 + i;
        a->wants[i] = generate_alone(models[1], a->prompts[i], LENGTH, &few);
        assert_int_equal(a->wants[i].status, MICA_OK);
    }
}

static void free_asked(asked *a) {
    for (int i = 0; i < ROWS; i++) {
        choice_free(&a->wants[i]);
        free(a->prompts[i]);
    }
}

/* All of them at once; the n-th allocation after the last one's first token fails, unless n is 0.
 * Each is right, or ends with MICA_ENOMEM. Returns whether one failed. */
static bool ask_all(const asked *a, uint64_t n) {
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = ROWS});
    client c[ROWS];
    gate g;
    gate_shut(&g, schedule);
    for (int i = 0; i < ROWS; i++) {
        client_init(&c[i]);
        if (i == ROWS - 1) c[i].fail_at = n;
        must_submit(&c[i], schedule,
                    &(mc_request_options){.ids = a->prompts[i], .n_ids = LENGTH, .generate = &few});
    }
    gate_open(&g);
    for (int i = 0; i < ROWS; i++)
        client_wait_ends(&c[i], 1);
    bool failed = n && mc_alloc_count() >= n;
    mc_alloc_fail_at(0);
    for (int i = 0; i < ROWS; i++) {
        const client_choice *got = &c[i].choices[0];
        if (got->status != MICA_ENOMEM || !failed) choice_compare(got, &a->wants[i], "a row");
        client_deinit(&c[i]);
    }
    mc_schedule_close(&schedule);
    return failed;
}

static void test_alike(void **state) {
    (void)state;
    asked a;
    make_asked(&a);
    assert_false(ask_all(&a, 0));
    free_asked(&a);
}

static void test_no_memory(void **state) {
    (void)state;
    asked a;
    uint64_t n = 1;
    make_asked(&a);
    while (ask_all(&a, n))
        n += test_is_brief() ? 17 : 1;
    printf("no memory: %llu allocations failed, one after the other\n", (unsigned long long)n - 1);
    assert_true(n > 2);
    free_asked(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("schedule/states", tests, open_recurrent, close_recurrent);
}
