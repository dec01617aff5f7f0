/* Children of the engine mlx_lm that fail, hang and flood, and what is left of them: nothing. */
#define _DEFAULT_SOURCE
#include "support/support.h"

#include "base/system.h"
#include "engine/fake_bridge.h"
#include "engine/mlx_lm_child.h"
#include "engine/orphan.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *folder;  /* of the default model */
static char *program; /* this one, which plays Python */
static const int32_t ids[] = {305, 306, 307};

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

/* No child is left, a zombie neither. */
static void expect_no_child(void) {
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

enum { LONG_SECONDS = 100 };

/* A child that is silent for so long has failed: while it starts and loads, where it plays a
 * failure of these, and afterwards. */
static mica_status open_as(const char *mode, double seconds, mica_model **model) {
    bool fails = strncmp(mode, "check-", 6) == 0 || strncmp(mode, "load-", 5) == 0;
    double first = fails ? seconds : LONG_SECONDS;
    const mica_mlx_lm_options limits = {
        .start_seconds = first, .load_seconds = first, .silence_seconds = seconds};
    const mica_model_options options = {.engine = "mlx_lm", .mlx_lm = &limits};
    setenv("FAKE_BRIDGE", mode, 1);
    mica_status status = mica_model_open(folder, &options, model);
    unsetenv("FAKE_BRIDGE");
    return status;
}

/* Generates with a session of its own; returns how it ended. */
static mica_status generate(const mica_model *model, int64_t max_tokens, int *tokens) {
    mica_session *session;
    mica_stream *stream;
    *tokens = 0;
    must(mica_session_open(model, NULL, &session));
    must(mica_generate_ids(session, ids, 3, &(mica_generate_options){.max_tokens = max_tokens},
                           &stream));
    for (mica_token token; mica_stream_next(stream, &token);)
        *tokens += token.id >= 0;
    mica_status status = mica_stream_status(stream);
    mica_stream_close(&stream);
    mica_session_close(&session);
    return status;
}

/* A new child works after any that failed. */
static void expect_fresh(void) {
    mica_model *model;
    int tokens;
    must(open_as("", LONG_SECONDS, &model));
    must(generate(model, 5, &tokens));
    assert_int_equal(tokens, 5);
    mica_model_close(&model);
}

/* ---- failures ---- */

typedef struct failure {
    const char *mode;
    mica_status status;
    const char *text;
} failure;

static void expect_failure(const failure *f, mica_status status) {
    if (status != f->status || !strstr(mica_last_error(), f->text))
        fail_msg("%s: status %d, %s", f->mode, status, mica_last_error());
}

/* Those that end by themselves get all the time that they want, the others almost none. */
static double limit_of(const char *mode) {
    if (strstr(mode, "wails")) return 3; /* it has to have said something */
    return strstr(mode, "silent") || strstr(mode, "repeats") ? 1 : LONG_SECONDS;
}

static void test_loading(void **state) {
    (void)state;
    static const failure failures[] = {
        {"check-dies", MICA_EIO, "Python ended with status 3; it said: it hurts ?[1m?"},
        {"check-killed", MICA_EIO, "Python was killed by signal 9"},
        {"check-silent", MICA_EIO, "silent for longer than it may"},
        {"check-rubbish", MICA_EFORMAT, "printed what is not a reply: Hello ?[1m?!"},
        {"check-half", MICA_EFORMAT, "ended with status 0 in the middle of a line"},
        {"check-error", MICA_ENOENT, "no such thing"},
        {"check-babbles", MICA_EFORMAT, "a line of more than a megabyte"},
        {"check-wails", MICA_EIO, "silent for longer than it may; it said: xxxx"},
        {"load-dies", MICA_EIO, "Python ended with status 3; it said: it hurts ?[1m?"},
        {"load-killed", MICA_EIO, "Python was killed by signal 9"},
        {"load-silent", MICA_EIO, "silent for longer than it may"},
        {"load-rubbish", MICA_EFORMAT, "printed what is not a reply: Hello ?[1m?!"},
        {"load-half", MICA_EFORMAT, "ended with status 0 in the middle of a line"},
        {"load-error", MICA_ENOENT, "engine mlx_lm: no such thing"},
        {"load-babbles", MICA_EFORMAT, "a line of more than a megabyte"},
        {"load-wails", MICA_EIO, "silent for longer than it may; it said: xxxx"},
        {"load-strange", MICA_EFORMAT, "replied neither ok nor an error"},
    };
    mica_model *model;
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        const failure *f = &failures[i];
        expect_failure(f, open_as(f->mode, limit_of(f->mode), &model));
        assert_null(model);
        expect_no_child();
    }
    expect_fresh();
    expect_no_child();
}

static void test_answering(void **state) {
    (void)state;
    static const failure failures[] = {
        {"answer-dies", MICA_EIO, "Python ended with status 3; it said: it hurts ?[1m?"},
        {"answer-killed", MICA_EIO, "Python was killed by signal 9"},
        {"answer-silent", MICA_EIO, "silent for longer than it may"},
        {"answer-rubbish", MICA_EFORMAT, "printed what is not a reply: Hello ?[1m?!"},
        {"answer-half", MICA_EFORMAT, "ended with status 0 in the middle of a line"},
        {"answer-babbles", MICA_EFORMAT, "a line of more than a megabyte"},
        {"answer-wails", MICA_EIO, "silent for longer than it may; it said: xxxx"},
        {"answer-repeats", MICA_EIO, "for longer than it may"},
        {"answer-strange", MICA_EFORMAT, "replied to what it was not asked"},
        {"answer-gives", MICA_EFORMAT, "gave more alternatives than it may"},
        {"answer-hurries", MICA_EFORMAT, "has computed more tokens than the prompt has"},
    };
    mica_model *model;
    int tokens;
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        const failure *f = &failures[i];
        must(open_as(f->mode, limit_of(f->mode), &model));
        expect_failure(f, generate(model, 5, &tokens));
        assert_int_equal(tokens, 2);
        expect_no_child(); /* it was ended at once */
        expect_failure(f, generate(model, 5, &tokens));
        assert_int_equal(tokens, 0);
        mica_model_close(&model);
    }
    expect_fresh();
    expect_no_child();
}

/* An error of one answer is not one of the others. */
static void test_refused_answer(void **state) {
    (void)state;
    mica_model *model;
    int tokens;
    const failure f = {"answer-error", MICA_ENOENT, "engine mlx_lm: no such thing"};
    must(open_as(f.mode, LONG_SECONDS, &model));
    for (int i = 0; i < 3; i++) {
        expect_failure(&f, generate(model, 5, &tokens));
        assert_int_equal(tokens, 2);
        must(generate(model, 2, &tokens));
        assert_int_equal(tokens, 2);
    }
    mica_model_close(&model);
    expect_no_child();
}

/* A child that dies while nobody asks it. */
static void test_killed_meanwhile(void **state) {
    (void)state;
    mc_mlx_lm_settings settings;
    mc_mlx_lm *child;
    mc_mlx_lm_answer *answer;
    mc_json_doc *reply;
    mica_token token;
    mica_finish finish = MICA_FINISH_NONE;
    mc_buffer load = {0}, ask = {0};
    assert_true(mc_buffer_add_text(&load, "{\"cmd\": \"load\""));
    assert_true(mc_buffer_add_text(&ask, "{\"cmd\": \"generate\", \"prompt\": [3]"));
    must(mc_mlx_lm_settle(NULL, &settings));
    must(mc_mlx_lm_open(&settings, &load, NULL, &child, &reply));
    mc_json_close(&reply);
    must(mc_mlx_lm_ask(child, &ask, 1, &(mica_generate_options){.max_tokens = 2}, &answer));
    assert_int_equal(kill(-1 * (pid_t)mc_mlx_lm_process_id(child), SIGKILL), 0);
    const failure f = {"killed", MICA_EIO, "Python was killed by signal 9"};
    expect_failure(&f, mc_mlx_lm_next(answer, &token, &finish));
    expect_failure(&f, mc_mlx_lm_next(answer, &token, &finish));
    expect_no_child();
    mc_mlx_lm_drop(answer);
    mc_mlx_lm_close(&child);
}

/* ---- cancelling ---- */

typedef struct canceller {
    pthread_t thread;
    mica_stream *stream;
} canceller;

static void *cancel_soon(void *arg) {
    canceller *c = arg;
    (void)poll(NULL, 0, 50);
    mica_stream_cancel(c->stream);
    return NULL;
}

/* Cancels an endless answer after `first` tokens. */
static void cancel(const mica_model *model, int first) {
    mica_session *session;
    mica_token token;
    canceller c;
    must(mica_session_open(model, NULL, &session));
    must(mica_generate_ids(session, ids, 3, NULL, &c.stream));
    for (int i = 0; i < first; i++)
        assert_true(mica_stream_next(c.stream, &token));
    assert_int_equal(pthread_create(&c.thread, NULL, cancel_soon, &c), 0);
    while (mica_stream_next(c.stream, &token)) {}
    assert_int_equal(pthread_join(c.thread, NULL), 0);
    assert_int_equal(mica_stream_finish(c.stream), MICA_FINISH_CANCELLED);
    assert_int_equal(mica_stream_status(c.stream), MICA_ECANCELLED);
    mica_stream_close(&c.stream);
    mica_session_close(&session);
}

/* The answer, which has no end of its own, ends; and the child drains: it answers the next. */
static void test_cancel(void **state) {
    (void)state;
    mica_model *model;
    must(open_as("endless", LONG_SECONDS, &model));
    for (int i = 0; i < 6; i++)
        cancel(model, i);
    mica_model_close(&model);
    expect_no_child();
}

/* An answer is cancelled while it waits for its turn. */
static void test_cancel_waiting(void **state) {
    (void)state;
    mica_model *model;
    mica_session *session;
    mica_stream *stream;
    mica_token token;
    must(open_as("endless", LONG_SECONDS, &model));
    must(mica_session_open(model, NULL, &session));
    must(mica_generate_ids(session, ids, 3, NULL, &stream));
    assert_true(mica_stream_next(stream, &token));
    cancel(model, 0);
    assert_true(mica_stream_next(stream, &token));
    mica_stream_cancel(stream);
    assert_false(mica_stream_next(stream, &token));
    assert_int_equal(mica_stream_status(stream), MICA_ECANCELLED);
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
    expect_no_child();
}

/* A child that does not hear of it: the answer ends, the next one waits for as long as it may. */
static void test_cancel_unheard(void **state) {
    (void)state;
    mica_model *model;
    int tokens;
    const failure f = {"deaf", MICA_EIO, "for longer than it may"};
    must(open_as("deaf", 2, &model));
    (void)cancel(model, 3);
    expect_failure(&f, generate(model, 5, &tokens));
    expect_no_child();
    mica_model_close(&model);
}

/* Time in which nobody reads does not count as silence. */
static void test_pause_after_cancel(void **state) {
    (void)state;
    mica_model *model;
    mica_session *session;
    mica_stream *stream;
    mica_token token;
    must(open_as("endless", 2, &model));
    for (int i = 0; i < 2; i++) {
        must(mica_session_open(model, NULL, &session));
        must(mica_generate_ids(session, ids, 3, NULL, &stream));
        if (!mica_stream_next(stream, &token)) fail_msg("%s", mica_last_error());
        (void)poll(NULL, 0, 100); /* more tokens come, which nobody reads */
        mica_stream_close(&stream);
        mica_session_close(&session);
        if (i == 0) (void)poll(NULL, 0, 2500);
    }
    mica_model_close(&model);
    expect_no_child();
}

static void *set_soon(void *flag) {
    (void)poll(NULL, 0, 50);
    mica_cancel_set(flag);
    return NULL;
}

static void test_cancel_loading(void **state) {
    (void)state;
    static const char *const modes[] = {"check-silent", "load-silent"};
    for (size_t i = 0; i < 2; i++) {
        mica_cancel *flag;
        mica_model *model;
        pthread_t thread;
        must(mica_cancel_open(&flag));
        assert_int_equal(pthread_create(&thread, NULL, set_soon, flag), 0);
        setenv("FAKE_BRIDGE", modes[i], 1);
        mica_status status = mica_model_open(
            folder, &(mica_model_options){.engine = "mlx_lm", .cancel = flag}, &model);
        unsetenv("FAKE_BRIDGE");
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(status, MICA_ECANCELLED);
        mica_cancel_close(&flag);
        expect_no_child();
    }
}

/* ---- what is left ---- */

static void test_nothing_is_left(void **state) {
    (void)state;
    bool counts = access("/proc/self/fd", R_OK) == 0;
    size_t before = counts ? test_count_entries("/proc/self/fd") : 0;
    for (int i = 0; i < LOADS; i++) {
        mc_mlx_lm_settings settings;
        mc_mlx_lm *child;
        mc_json_doc *reply;
        mc_buffer load = {0};
        setenv("FAKE_BRIDGE", i % 5 == 0 ? "load-dies" : "", 1);
        must(mc_mlx_lm_settle(NULL, &settings));
        assert_true(mc_buffer_add_text(&load, "{\"cmd\": \"load\""));
        mica_status status = mc_mlx_lm_open(&settings, &load, NULL, &child, &reply);
        unsetenv("FAKE_BRIDGE");
        assert_int_equal(status, i % 5 == 0 ? MICA_EIO : MICA_OK);
        mc_json_close(&reply);
        mc_mlx_lm_close(&child);
        expect_no_child();
    }
    assert_int_equal(counts ? test_count_entries("/proc/self/fd") : 0, before);
}

/* One that does not end when it is told to, and one that still computes. */
static void test_closing(void **state) {
    (void)state;
    mica_model *model;
    mica_session *session;
    mica_stream *stream;
    mica_token token;
    int tokens;
    must(open_as("stubborn", LONG_SECONDS, &model));
    must(generate(model, 2, &tokens));
    mica_model_close(&model);
    expect_no_child();
    must(open_as("endless", LONG_SECONDS, &model));
    must(mica_session_open(model, NULL, &session));
    must(mica_generate_ids(session, ids, 3, NULL, &stream));
    assert_true(mica_stream_next(stream, &token));
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
    expect_no_child();
}

static void test_parent_dies(void **state) {
    (void)state;
    setenv("FAKE_BRIDGE", "endless", 1);
    char *dir = orphan_make("nowhere");
    unsetenv("FAKE_BRIDGE");
    test_list left = test_list_folders(dir);
    assert_int_equal(left.count, 0);
    test_list_free(&left);
    test_temp_dir_remove(dir);
}

/* ---- memory ---- */

static bool try_all(void *arg) {
    mc_mlx_lm_settings settings;
    mc_mlx_lm *child = NULL;
    mc_mlx_lm_answer *answer = NULL;
    mc_json_doc *reply = NULL;
    mica_token token;
    mica_finish finish = MICA_FINISH_NONE;
    mc_buffer load = {0}, ask = {0};
    (void)arg;
    must(mc_mlx_lm_settle(NULL, &settings));
    bool filled = mc_buffer_add_text(&load, "{\"cmd\": \"load\"") &&
                  mc_buffer_add_text(&ask, "{\"cmd\": \"generate\", \"prompt\": [3]");
    mica_status status = filled ? mc_mlx_lm_check(&settings, NULL) : MICA_ENOMEM;
    if (status == MICA_OK) status = mc_mlx_lm_open(&settings, &load, NULL, &child, &reply);
    if (status == MICA_OK)
        status = mc_mlx_lm_ask(child, &ask, 1, &(mica_generate_options){.max_tokens = 2}, &answer);
    while (status == MICA_OK && finish == MICA_FINISH_NONE)
        status = mc_mlx_lm_next(answer, &token, &finish);
    if (answer) mc_mlx_lm_drop(answer);
    mc_mlx_lm_close(&child);
    mc_json_close(&reply);
    mc_buffer_deinit(&load);
    mc_buffer_deinit(&ask);
    if (status != MICA_OK) assert_int_equal(status, MICA_ENOMEM);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    test_fail_each_allocation(try_all, NULL);
    expect_no_child();
}

static int find_files(void **state) {
    (void)state;
    folder = test_format("%s/default", test_models_dir());
    return setenv("MICA_MLX_LM_PYTHON", program, 1);
}

static int free_files(void **state) {
    (void)state;
    free(folder);
    free(program);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loading),
        cmocka_unit_test(test_answering),
        cmocka_unit_test(test_refused_answer),
        cmocka_unit_test(test_killed_meanwhile),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_waiting),
        cmocka_unit_test(test_cancel_unheard),
        cmocka_unit_test(test_cancel_loading),
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_closing),
        cmocka_unit_test(test_pause_after_cancel),
        cmocka_unit_test(test_parent_dies),
        cmocka_unit_test(test_no_memory),
    };
    if (fake_bridge_is(argc, argv)) return fake_bridge_run(argc, argv);
    program = test_program(argv[0]);
    return cmocka_run_group_tests_name("engine/mlx_lm_child", tests, find_files, free_files);
}
