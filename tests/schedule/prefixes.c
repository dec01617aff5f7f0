/* Prompts of a schedule that begin alike: what they share is read once, also by the
 * next process. */
#include "schedule/prompts.h"

#include "base/alloc.h"
#include "session/prefix.h"

#include <dirent.h>
#include <stdio.h>
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

/* All at once: what they share is read once, also by the
 * next process. */
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

/* ---- recurrent layers ---- */

enum { SHARED = 150, WHOLE = 200 };

static void make_parting(int32_t ids[ALIKE][WHOLE]) {
    for (int i = 0; i < ALIKE; i++)
        for (int k = 0; k < WHOLE; k++)
            ids[i][k] = k < SHARED ? (k * 7 + 3) % 90 : (k * 11 + i * 5) % 90;
}

/* Submits all prompts at once, and compares the answers. */
static void ask_parting(mc_schedule *schedule, int32_t ids[ALIKE][WHOLE],
                        const client_choice *wants, const mica_generate_options *o) {
    client c[ALIKE];
    gate g;
    gate_shut(&g, schedule);
    for (int i = 0; i < ALIKE; i++) {
        client_init(&c[i]);
        must_submit(&c[i], schedule,
                    &(mc_request_options){.ids = ids[i], .n_ids = WHOLE, .generate = o});
    }
    gate_open(&g);
    for (int i = 0; i < ALIKE; i++) {
        client_wait_ends(&c[i], 1);
        choice_compare(&c[i].choices[0], &wants[i], "a prompt of a recurrent model");
        client_deinit(&c[i]);
    }
}

static void check_recurrent(const char *name) {
    static const mica_generate_options o = {.max_tokens = 5, .ignore_eos = true};
    char *dir = test_temp_dir();
    int32_t ids[ALIKE][WHOLE];
    client_choice wants[ALIKE];
    mica_model *model = open_family(dir, name, NULL);
    make_parting(ids);
    for (int i = 0; i < ALIKE; i++)
        wants[i] = generate_alone(model, ids[i], WHOLE, &o);
    mc_schedule *schedule =
        open_schedule(model, &(mc_schedule_options){.cache_bytes = 1 << 24, .rows = 4});
    ask_parting(schedule, ids, wants, &o);
    int64_t cached = (int64_t)stats_of(schedule).cached_tokens;
    if (mc_prefix_available()) assert_int_equal(cached, (ALIKE - 1) * (SHARED / 64 * 64));
    ask_parting(schedule, ids, wants, &o);
    cached = (int64_t)stats_of(schedule).cached_tokens - cached;
    if (mc_prefix_available()) assert_int_equal(cached, ALIKE * (WHOLE / 64 * 64));
    for (int i = 0; i < ALIKE; i++)
        choice_free(&wants[i]);
    mc_schedule_close(&schedule);
    mica_model_close(&model);
    test_temp_dir_remove(dir);
}

/* They go on from snapshots: where prompts part, and behind each. */
static void test_recurrent(void **state) {
    (void)state;
    static const char *const names[] = {"lfm2_hf", "lfm3_hf", "qwen3_next_hf", "granitehyb_moe_hf",
                                        "nemotron_h_hf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_recurrent(names[i]);
}

/* ---- memory ---- */

enum { SHORT = 70 };

static const mica_generate_options few = {.max_tokens = 6, .ignore_eos = true, .logprobs = 1};

/* Submits a prompt of a block that all share, and a few tokens more. */
static void ask_short(client *c, mc_schedule *schedule, const int32_t *prompt) {
    must_submit(c, schedule,
                &(mc_request_options){.ids = prompt, .n_ids = SHORT, .generate = &few});
}

/* One after those that failed. */
static void expect_short(mc_schedule *schedule, const int32_t *prompt, const client_choice *want) {
    client c;
    client_init(&c);
    ask_short(&c, schedule, prompt);
    client_wait_ends(&c, 1);
    choice_compare(&c.choices[0], want, "one that begins alike, later");
    client_deinit(&c);
}

/* Two answers with a common prefix, in which the n-th allocation after the first token of the
 * second one fails. Each is right, or ends with MICA_ENOMEM; one after them is right. Returns
 * whether one failed. */
static bool fail_together(uint64_t n, int32_t *const prompts[2], const client_choice wants[2]) {
    mc_schedule *schedule = open_schedule(models[1], &(mc_schedule_options){.rows = 2});
    client c[2];
    gate g;
    gate_shut(&g, schedule);
    for (int i = 0; i < 2; i++) {
        client_init(&c[i]);
        if (i) c[i].fail_at = n;
        ask_short(&c[i], schedule, prompts[i]);
    }
    gate_open(&g);
    for (int i = 0; i < 2; i++)
        client_wait_ends(&c[i], 1);
    bool failed = mc_alloc_count() >= n;
    mc_alloc_fail_at(0);
    for (int i = 1; i >= 0; i--) {
        const client_choice *got = &c[i].choices[0];
        if (got->status != MICA_ENOMEM || !failed) choice_compare(got, &wants[i], "one of two");
        client_deinit(&c[i]);
    }
    if (failed) expect_short(schedule, prompts[0], &wants[0]);
    mc_schedule_close(&schedule);
    return failed;
}

/* What fails for one answer does not harm another that has the same blocks. */
static void test_no_memory(void **state) {
    (void)state;
    int32_t *prompts[2];
    client_choice wants[2];
    uint64_t n = 1;
    for (unsigned i = 0; i < 2; i++) {
        prompts[i] = make_prompt(SHORT, 11);
        prompts[i][SHORT - 1] = 100 + (int32_t)i;
        wants[i] = generate_alone(models[1], prompts[i], SHORT, &few);
    }
    while (fail_together(n, prompts, wants))
        n++;
    printf("no memory: %llu allocations failed, one after the other\n", (unsigned long long)n - 1);
    assert_true(n > 2);
    for (int i = 0; i < 2; i++) {
        choice_free(&wants[i]);
        free(prompts[i]);
    }
}

/* ---- the file ---- */

/* What a schedule says of its file. */
typedef struct notices {
    char last[1200];
    int count;
} notices;

static void on_notice(void *user, const char *text) {
    notices *n = user;
    snprintf(n->last, sizeof n->last, "%s", text);
    n->count++;
}

static mc_schedule *open_with(const char *folder, notices *n) {
    *n = (notices){.count = 0};
    return open_schedule(
        models[1],
        &(mc_schedule_options){.prefix_folder = folder, .notice = on_notice, .notice_user = n});
}

/* The only file of a folder, to be freed. */
static char *find_file(const char *folder) {
    DIR *dir = opendir(folder);
    char *path = NULL;
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));)
        if (strstr(e->d_name, ".prefixes")) path = test_format("%s/%s", folder, e->d_name);
    closedir(dir);
    return path;
}

/* A schedule that is closed leaves what it knows to the next one. */
static void test_kept_prompts(void **state) {
    (void)state;
    notices n;
    if (!mc_prefix_available()) skip();
    char *dir = test_temp_dir(), *folder = test_format("%s/to/make", dir);
    mc_schedule *schedule = open_with(folder, &n);
    assert_int_equal(ask_alike(schedule, 0, NULL), 0);
    assert_int_equal(ask_alike(schedule, 2, "tenant"), 0);
    mc_schedule_close(&schedule);
    schedule = open_with(folder, &n);
    assert_true(stats_of(schedule).kept_bytes > 0);
    assert_int_equal(ask_alike(schedule, 1, ""), HEAD / 64 * 64);
    assert_int_equal(ask_alike(schedule, 1, "tenant"), HEAD / 64 * 64);
    assert_int_equal(ask_alike(schedule, 1, "another"), 0);
    mc_schedule_close(&schedule);
    schedule = open_with(folder, &n);
    assert_int_equal(ask_alike(schedule, 3, "another"), HEAD / 64 * 64);
    mc_schedule_close(&schedule);
    assert_int_equal(n.count, 0);
    schedule = open_with("/proc/none", &n);
    assert_non_null(strstr(n.last, "prompts are not kept"));
    mc_schedule_close(&schedule);
    assert_int_equal(n.count, 1);
    free(folder);
    test_temp_dir_remove(dir);
}

/* Asks a family's model; returns how many tokens were known. */
static int64_t ask_family(mc_schedule *schedule, const mica_model *model, const int32_t *ids) {
    static const mica_generate_options o = {.max_tokens = 5, .ignore_eos = true};
    client c;
    client_init(&c);
    must_submit(&c, schedule, &(mc_request_options){.ids = ids, .n_ids = WHOLE, .generate = &o});
    client_wait_ends(&c, 1);
    client_choice want = generate_alone(model, ids, WHOLE, &o);
    choice_compare(&c.choices[0], &want, "a prompt of a family");
    int64_t known = c.choices[0].metrics.reused_tokens;
    choice_free(&want);
    client_deinit(&c);
    return known;
}

/* Two schedules, one after the other, of a family's model: the second begins with the file of the
 * first, and knows as much. */
static void check_kept(const char *name, const char *folder) {
    notices n = {.count = 0};
    const mc_schedule_options options = {.cache_bytes = 1 << 24,
                                         .rows = 2,
                                         .prefix_folder = folder,
                                         .notice = on_notice,
                                         .notice_user = &n};
    char *dir = test_temp_dir();
    int32_t ids[ALIKE][WHOLE];
    int64_t known[2];
    make_parting(ids);
    mica_model *model = open_family(dir, name, NULL);
    mc_schedule *schedule = open_schedule(model, &options);
    assert_int_equal(ask_family(schedule, model, ids[0]), 0);
    for (int i = 0; i < 2; i++)
        known[i] = ask_family(schedule, model, ids[i]);
    mc_schedule_close(&schedule);
    schedule = open_schedule(model, &options);
    if (n.count) fail_msg("%s: %s", name, n.last);
    assert_true(known[0] > 0);
    for (int i = 0; i < 2; i++)
        assert_in_range(ask_family(schedule, model, ids[i]), known[i], WHOLE - 1);
    mc_schedule_close(&schedule);
    if (n.count) fail_msg("%s: %s", name, n.last);
    mica_model_close(&model);
    test_temp_dir_remove(dir);
}

static void test_kept_families(void **state) {
    (void)state;
    if (!mc_prefix_available()) skip();
    char *families = test_format("%s/families", test_cases_dir()), *folder = test_temp_dir();
    test_list names = test_list_folders(families);
    for (size_t i = 0; i < names.count; i++)
        check_kept(names.names[i], folder);
    assert_true(names.count > 20);
    test_list_free(&names);
    free(families);
    test_temp_dir_remove(folder);
}

/* A file that is damaged is not used, and replaced; one that cannot be written is told. */
static void test_bad_file(void **state) {
    (void)state;
    notices n;
    if (!mc_prefix_available()) skip();
    char *folder = test_temp_dir();
    mc_schedule *schedule = open_with(folder, &n);
    assert_int_equal(ask_alike(schedule, 0, NULL), 0);
    mc_schedule_close(&schedule);
    char *path = find_file(folder);
    assert_non_null(path);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -100, SEEK_END), 0);
    assert_int_equal(fwrite("damage", 1, 6, file), 6);
    assert_int_equal(fclose(file), 0);
    schedule = open_with(folder, &n);
    assert_int_equal(n.count, 1);
    assert_non_null(strstr(n.last, "altered"));
    assert_int_equal(ask_alike(schedule, 0, NULL), 0);
    mc_schedule_close(&schedule);
    schedule = open_with(folder, &n);
    assert_int_equal(n.count, 0);
    assert_true(ask_alike(schedule, 0, NULL) > 0);
    free(path);
    test_temp_dir_remove(folder);
    mc_schedule_close(&schedule);
    assert_int_equal(n.count, 1);
    assert_non_null(strstr(n.last, "prompts are not kept"));
}

/* A schedule that cuts requests off leaves nothing. */
static void test_cut_off(void **state) {
    (void)state;
    static const mica_generate_options endless = {.ignore_eos = true};
    notices n;
    client c;
    char *folder = test_temp_dir();
    int32_t *prompt = make_prompt(100, 1);
    mc_schedule *schedule = open_with(folder, &n);
    client_init(&c);
    must_submit(&c, schedule,
                &(mc_request_options){.ids = prompt, .n_ids = 100, .generate = &endless});
    client_wait_tokens(&c, 0, 2);
    mc_schedule_close(&schedule);
    assert_null(find_file(folder));
    assert_int_equal(n.count, 0);
    client_deinit(&c);
    free(prompt);
    test_temp_dir_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_prompts), cmocka_unit_test(test_alike_prompts),
        cmocka_unit_test(test_recurrent),     cmocka_unit_test(test_kept_prompts),
        cmocka_unit_test(test_kept_families), cmocka_unit_test(test_bad_file),
        cmocka_unit_test(test_cut_off),       cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("schedule/prefixes", tests, open_models, close_models);
}
