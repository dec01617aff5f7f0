/* Steps that are launched over tokens that nobody has read yet, on devices that launch late: they
 * change no token, whoever comes, goes and fails meanwhile. */
#include "schedule/prompts.h"

#include "base/alloc.h"
#include "device/device.h"
#include "schedule/state.h"
#include "support/witness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mica_device *device;
static mica_model *model;
static char *dir; /* of a family's model */

/* family NULL: the default model. */
static void open_on(const mc_backend *backend, const char *variant, const char *family) {
    const mica_device_options options = {.threads = 1};
    assert_int_equal(mc_device_open_backend(backend, variant, &options, &device), MICA_OK);
    const mica_model_options on_it = {.device = device};
    dir = family ? test_temp_dir() : NULL;
    model = family ? open_family(dir, family, &on_it) : open_model("default", &on_it);
}

static void close_model(void) {
    mica_model_close(&model);
    mica_device_close(&device);
    if (dir) test_temp_dir_remove(dir);
}

/* A prompt of ids that every family has, to be freed. */
static int32_t *make_ids(size_t n, unsigned seed) {
    int32_t *ids = make_prompt(n, seed);
    for (size_t i = 0; i < n && dir; i++)
        ids[i] %= 90;
    return ids;
}

/* Waits until the schedule's thread has nothing to do. */
static void check_follows(mc_schedule *schedule, bool late, uint64_t min) {
    gate g;
    gate_shut(&g, schedule);
    assert_true(late ? schedule->rows.batch.follows > min : schedule->rows.batch.follows == 0);
    assert_null(schedule->rows.batch.program);
    gate_open(&g);
}

static void ask(client *c, mc_schedule *schedule, const int32_t *ids, size_t n,
                const mica_generate_options *options) {
    client_init(c);
    must_submit(c, schedule, &(mc_request_options){.ids = ids, .n_ids = n, .generate = options});
}

/* How requests draw: the fourth takes the best tokens. */
static void set_draws(mica_generate_options *options, int i) {
    if (i != 3) options->temperature = 0.8f;
    options->seed = (uint64_t)i;
    if (i == 0) options->min_p = 0.05f;
    if (i == 1) options->top_k = 8;
    if (i == 2) options->repetition_penalty = 1.2f;
    if (i == 5) options->top_p = 0.5f;
}

/* Requests of several lengths, some of which come later; draws: most of them draw. late: steps have
 * no part that the cpu computes meanwhile, after which there would be nothing to follow. */
static void check_answers(bool draws, bool late) {
    enum { N = 6, PROMPT = 20 };
    mc_schedule *schedule = open_schedule(model, &(mc_schedule_options){.rows = 4});
    int32_t *prompt = make_ids(PROMPT + N, 3);
    mica_generate_options options[N];
    client clients[N];
    for (int i = 0; i < N; i++) {
        options[i] =
            (mica_generate_options){.max_tokens = 6 + 9 * ((i * 5) % N), .ignore_eos = i % 2 == 0};
        if (draws) set_draws(&options[i], i);
        ask(&clients[i], schedule, prompt + i, (size_t)(PROMPT - i), &options[i]);
        if (i == 2) client_wait_tokens(&clients[1], 0, 4);
    }
    for (int i = 0; i < N; i++) {
        client_wait_ends(&clients[i], 1);
        client_choice want = generate_alone(model, prompt + i, (size_t)(PROMPT - i), &options[i]);
        choice_compare(&clients[i].choices[0], &want, "an answer of steps that follow");
        choice_free(&want);
    }
    check_follows(schedule, late, 20);
    for (int i = 0; i < N; i++)
        client_deinit(&clients[i]);
    mc_schedule_close(&schedule);
    free(prompt);
}

/* A row that stops early, and rows that pause for want of blocks. */
static void check_leaving(void) {
    enum { N = 3, PROMPT = 60 };
    const mica_generate_options options = {.max_tokens = 90, .ignore_eos = true};
    const mc_schedule_options small = {
        .rows = N, .cache_bytes = mica_model_cache_bytes(model, 256) * (dir ? N + 1 : 1) * 5 / 4};
    mc_schedule *schedule = open_schedule(model, &small);
    int32_t *prompt = make_ids(PROMPT + N, 8);
    client clients[N];
    for (int i = 0; i < N; i++) {
        client_init(&clients[i]);
        if (i == 1) clients[i].stop_at = 7;
        must_submit(
            &clients[i], schedule,
            &(mc_request_options){.ids = prompt + i, .n_ids = PROMPT, .generate = &options});
    }
    for (int i = 0; i < N; i++)
        client_wait_ends(&clients[i], 1);
    for (int i = 0; i < N; i += 2) {
        client_choice want = generate_alone(model, prompt + i, PROMPT, &options);
        choice_compare(&clients[i].choices[0], &want, "an answer beside one that left");
        choice_free(&want);
    }
    for (int i = 0; i < N; i++)
        client_deinit(&clients[i]);
    mc_schedule_close(&schedule);
    free(prompt);
}

/* Rows of low priority that pause for others of a higher one, of which one is cancelled. */
static void check_priorities(void) {
    enum { N = 4, PROMPT = 30 };
    const mica_generate_options options = {.max_tokens = 60, .ignore_eos = true};
    mc_schedule *schedule = open_schedule(model, &(mc_schedule_options){.rows = 2});
    int32_t *prompt = make_ids(PROMPT + N, 5);
    client clients[N];
    uint64_t under_way = 0;
    gate g;
    for (int i = 0; i < N; i++) {
        if (i == 2) {
            client_wait_tokens(&clients[0], 0, 5);
            gate_shut(&g, schedule);
            for (int k = 0; k < 2; k++) { /* one that still reads its prompt does not pause */
                size_t n = client_tokens(&clients[k], 0);
                under_way += n > 0 && n + 10 < (size_t)options.max_tokens;
            }
        }
        client_init(&clients[i]);
        must_submit(
            &clients[i], schedule,
            &(mc_request_options){
                .ids = prompt + i, .n_ids = PROMPT, .generate = &options, .priority = i / 2});
    }
    gate_open(&g);
    client_wait_tokens(&clients[2], 0, 3);
    mc_request_cancel(clients[2].request);
    for (int i = 0; i < N; i++) {
        client_wait_ends(&clients[i], 1);
        if (i == 2) continue;
        client_choice want = generate_alone(model, prompt + i, PROMPT, &options);
        choice_compare(&clients[i].choices[0], &want, "an answer that paused");
        choice_free(&want);
    }
    assert_true(stats_of(schedule).pauses >= under_way);
    check_follows(schedule, true, 20);
    for (int i = 0; i < N; i++)
        client_deinit(&clients[i]);
    mc_schedule_close(&schedule);
    free(prompt);
}

/* A row ends while the step behind its last token is under way: nobody waits for that. */
static void check_idle(const int32_t *prompt) {
    const mica_generate_options options = {.max_tokens = 30, .ignore_eos = true};
    mc_schedule *schedule = open_schedule(model, &(mc_schedule_options){.rows = 2});
    client c;
    client_init(&c);
    c.stop_at = 7;
    must_submit(&c, schedule,
                &(mc_request_options){.ids = prompt, .n_ids = 9, .generate = &options});
    client_wait_ends(&c, 1);
    check_follows(schedule, true, 3);
    client_deinit(&c);
    mc_schedule_close(&schedule);
}

/* One copy fails: an answer ends with that after right tokens, or it was a copy for a step that
 * nobody has asked for, and the answer is whole. */
static void check_copies(const int32_t *prompt) {
    const mica_generate_options options = {.max_tokens = 5, .ignore_eos = true};
    client_choice want = generate_alone(model, prompt, 9, &options);
    int whole = 0;
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        mc_schedule *schedule = open_schedule(model, &(mc_schedule_options){.rows = 2});
        client c;
        witness_fail(device, WITNESS_COPY, n);
        ask(&c, schedule, prompt, 9, &options);
        client_wait_ends(&c, 1);
        failed = witness_has_failed(device, WITNESS_COPY);
        witness_fail(device, WITNESS_COPY, 0);
        if (c.choices[0].status == MICA_OK)
            choice_compare(&c.choices[0], &want, "an answer beside a failed copy");
        whole += failed && c.choices[0].status == MICA_OK;
        client_deinit(&c);
        mc_schedule_close(&schedule);
    }
    assert_true(whole > 0);
    choice_free(&want);
}

/* The n-th launch fails: answers end with that, or are right, and later ones are right. Whether it
 * came. */
static bool check_failure(uint64_t n, const int32_t *prompt, const client_choice *want) {
    enum { N = 3, PROMPT = 9 };
    const mica_generate_options options = {.max_tokens = 8, .ignore_eos = true};
    mc_schedule *schedule = open_schedule(model, &(mc_schedule_options){.rows = 4});
    client clients[N];
    witness_fail(device, WITNESS_LAUNCH, n);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++)
            ask(&clients[i], schedule, prompt + i, PROMPT, &options);
        for (int i = 0; i < N; i++) {
            client_wait_ends(&clients[i], 1);
            const client_choice *got = &clients[i].choices[0];
            if (round == 0 && got->status == MICA_EDEVICE) continue;
            choice_compare(got, &want[i], "an answer beside a failure");
        }
        for (int i = 0; i < N; i++)
            client_deinit(&clients[i]);
        if (round == 0 && !witness_has_failed(device, WITNESS_LAUNCH)) break;
    }
    bool failed = witness_has_failed(device, WITNESS_LAUNCH);
    witness_fail(device, WITNESS_LAUNCH, 0);
    mc_schedule_close(&schedule);
    return failed;
}

static void check_failures(void) {
    enum { N = 3, PROMPT = 9 };
    const mica_generate_options options = {.max_tokens = 8, .ignore_eos = true};
    int32_t *prompt = make_ids(PROMPT + N, 1);
    client_choice want[N];
    for (int i = 0; i < N; i++)
        want[i] = generate_alone(model, prompt + i, PROMPT, &options);
    uint64_t n = 1;
    while (check_failure(n, prompt, want))
        n += 3;
    assert_true(n > 10);
    for (int i = 0; i < N; i++)
        choice_free(&want[i]);
    free(prompt);
}

/* The device is lost at the n-th launch: answers end with that behind right tokens, and so does
 * each that is asked for later. Nothing is left of them. Whether it came. */
static bool check_loss(uint64_t n, const mc_backend *backend, const int32_t *prompt,
                       const client_choice *want) {
    enum { N = 3, PROMPT = 9 };
    const mica_generate_options options = {.max_tokens = 8, .ignore_eos = true};
    open_on(backend, "", NULL);
    mc_schedule *schedule = open_schedule(model, &(mc_schedule_options){.rows = 4});
    client clients[N];
    witness_lose(device, n);
    for (int round = 0; round < 2; round++) {
        bool before = witness_is_lost(device);
        for (int i = 0; i < N; i++)
            ask(&clients[i], schedule, prompt + i, PROMPT, &options);
        for (int i = 0; i < N; i++) {
            client_wait_ends(&clients[i], 1);
            const client_choice *got = &clients[i].choices[0];
            if (!before && got->status == MICA_OK) {
                choice_compare(got, &want[i], "an answer before a loss");
                continue;
            }
            assert_true(got->status == MICA_EDEVICE || got->status == MICA_ENOMEM);
            assert_true(got->error[0] != '\0');
            assert_true(got->ids.len <= want[i].ids.len);
            if (before) assert_int_equal(got->ids.len, 0);
            if (got->ids.len) assert_memory_equal(got->ids.data, want[i].ids.data, got->ids.len);
        }
        for (int i = 0; i < N; i++)
            client_deinit(&clients[i]);
    }
    bool lost = witness_is_lost(device);
    mc_schedule_close(&schedule);
    mica_model_close(&model);
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
    return lost;
}

/* Whenever the device is lost; one that is opened then computes what it did before. */
static void check_losses(const mc_backend *backend) {
    enum { N = 3, PROMPT = 9 };
    const mica_generate_options options = {.max_tokens = 8, .ignore_eos = true};
    client_choice want[N];
    uint64_t n = 1;
    open_on(backend, "", NULL);
    int32_t *prompt = make_ids(PROMPT + N, 1);
    for (int i = 0; i < N; i++)
        want[i] = generate_alone(model, prompt + i, PROMPT, &options);
    close_model();
    while (check_loss(n, backend, prompt, want))
        n += 1 + n / 2;
    assert_true(n > 10);
    for (int i = 0; i < N; i++)
        choice_free(&want[i]);
    free(prompt);
}

static void test_a_lost_device(void **state) {
    (void)state;
    check_losses(&witness_backend);
    check_losses(&witness_steps_backend);
}

/* Two answers, in which an allocation after the first token of the second one fails. Each is right,
 * or ends with MICA_ENOMEM. Whether one failed. */
static bool check_allocation(uint64_t n, const int32_t *prompt, const client_choice *want) {
    enum { N = 2, PROMPT = 9 };
    const mica_generate_options options = {.max_tokens = 8, .ignore_eos = true};
    mc_schedule *schedule = open_schedule(model, &(mc_schedule_options){.rows = 2});
    client clients[N];
    gate g;
    gate_shut(&g, schedule);
    for (int i = 0; i < N; i++) {
        ask(&clients[i], schedule, prompt + i, PROMPT, &options);
        if (i) clients[i].fail_at = n;
    }
    gate_open(&g);
    for (int i = 0; i < N; i++)
        client_wait_ends(&clients[i], 1);
    bool failed = mc_alloc_count() >= n;
    mc_alloc_fail_at(0);
    for (int i = 0; i < N; i++) {
        const client_choice *got = &clients[i].choices[0];
        if (got->status != MICA_ENOMEM || !failed) choice_compare(got, &want[i], "one of two");
        client_deinit(&clients[i]);
    }
    mc_schedule_close(&schedule);
    return failed;
}

static void check_memory(void) {
    enum { N = 2, PROMPT = 9, EACH = 7 };
    const mica_generate_options options = {.max_tokens = 8, .ignore_eos = true};
    int32_t *prompt = make_ids(PROMPT + N, 1);
    client_choice want[N];
    uint64_t n = 1;
    for (int i = 0; i < N; i++)
        want[i] = generate_alone(model, prompt + i, PROMPT, &options);
    while (check_allocation(n, prompt, want))
        n += EACH;
    printf("no memory: %llu allocations failed, one in %d\n", (unsigned long long)n, EACH);
    assert_true(n > 30);
    for (int i = 0; i < N; i++)
        choice_free(&want[i]);
    free(prompt);
}

static void test_witness(void **state) {
    (void)state;
    open_on(&witness_backend, "fused", NULL);
    check_answers(false, false);
    check_answers(true, false);
    check_leaving();
    close_model();
}

/* On a device that ends launches as late as may be. */
static void check_steps(const char *family) {
    open_on(&witness_steps_backend, "", family);
    check_answers(false, true);
    check_answers(true, true);
    check_priorities();
    check_leaving();
    check_failures();
    check_memory();
    int32_t *prompt = make_ids(9, 1);
    check_idle(prompt);
    check_copies(prompt);
    free(prompt);
    close_model();
}

static void test_steps(void **state) {
    (void)state;
    check_steps(NULL);
}

/* Layers that carry arrays, some beside windows: a step in vain has changed them. */
static void test_recurrent(void **state) {
    (void)state;
    check_steps("lfm2_hf");
    check_steps("qwen3_next_hf");
}

static void test_windows(void **state) {
    (void)state;
    check_steps("gpt_oss_hf_mxfp4");
}

static void test_every_family(void **state) {
    (void)state;
    char *families = test_format("%s/families", test_cases_dir());
    test_list names = test_list_folders(families);
    const size_t step = MICA_TEST_EMULATED_TIMES > 1 ? 12 : 1; /* all take ten minutes there */
    for (size_t i = 0; i < names.count; i += step) {
        open_on(&witness_steps_backend, "", names.names[i]);
        check_answers(false, true);
        check_priorities();
        close_model();
    }
    assert_true(names.count > 20);
    test_list_free(&names);
    free(families);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_witness), cmocka_unit_test(test_a_lost_device),
        cmocka_unit_test(test_steps),   cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_windows), cmocka_unit_test(test_every_family),
    };
    return cmocka_run_group_tests_name("schedule/follow", tests, open_models, close_models);
}
