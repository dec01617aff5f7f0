/* Logs: event files by the bytes that TensorBoard's own writer gives (tools/make_tune_goldens.py),
 * lines of JSON, and what happens where nothing can be written. */
#define _POSIX_C_SOURCE 200809L
#include "tune/log.h"
#include "support/support.h"
#include "tune/events.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_events(void **state) {
    (void)state;
    char *path = test_format("%s/tune/events.tfevents", test_cases_dir());
    size_t n;
    char *want = test_read_file(path, &n);
    const mc_scalar valid = {"loss/valid", 3.25};
    const mc_scalar train[] = {{"loss/train", 1.1},
                               {"learning_rate", 1e-5},
                               {"grad_norm", 123456.0},
                               {"tokens_per_second", 0.0}};
    mc_buffer got = {0};
    assert_true(mc_events_put_version(&got, 1700000000.0));
    assert_true(mc_events_put_scalars(&got, 1700000001.5, 0, &valid, 1));
    assert_true(mc_events_put_scalars(&got, 1700000002.25, 300, train, 4));
    assert_int_equal(got.len, n);
    assert_memory_equal(got.data, want, n);
    mc_buffer_deinit(&got);
    free(want);
    free(path);
}

static const mica_tune_report train_report = {.event = MICA_TUNE_TRAIN,
                                              .iteration = 20,
                                              .loss = 1.5,
                                              .rate = 0.001,
                                              .norm = (double)INFINITY,
                                              .tokens_per_second = 64,
                                              .iterations_per_second = 2,
                                              .trained_tokens = 640,
                                              .memory_bytes = 1000,
                                              .text = ""};
static const mica_tune_report note_report = {
    .event = MICA_TUNE_NOTE, .iteration = 20, .text = "a \"note\""};

/* What is there stays: lines are added. */
static void test_lines(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/log", dir);
    static const char want[] =
        "{\"event\": \"train\", \"iteration\": 20, \"loss\": 1.5, \"learning_rate\": 0.001, "
        "\"grad_norm\": null, \"tokens_per_second\": 64, \"iterations_per_second\": 2, "
        "\"trained_tokens\": 640, \"memory_bytes\": 1000}\n"
        "{\"event\": \"note\", \"iteration\": 20, \"text\": \"a \\\"note\\\"\"}\n";
    const mica_tune_report *const reports[] = {&train_report, &note_report};
    for (int i = 0; i < 2; i++) {
        mc_log log;
        assert_int_equal(mc_log_open(&log, path, NULL), MICA_OK);
        assert_int_equal(mc_log_report(&log, reports[i]), MICA_OK);
        mc_log_close(&log);
    }
    size_t n;
    char *got = test_read_file(path, &n);
    assert_int_equal(n, sizeof want - 1);
    assert_memory_equal(got, want, n);
    free(got);
    free(path);
    test_temp_dir_remove(dir);
}

/* A line that was cut off is ended before others follow. */
static void test_cut_line(void **state) {
    (void)state;
    static const char cut[] = "{\"event\": \"tr";
    char *dir = test_temp_dir(), *path = test_format("%s/log", dir);
    test_write_file(path, cut, sizeof cut - 1);
    for (int i = 0; i < 2; i++) {
        mc_log log;
        assert_int_equal(mc_log_open(&log, path, NULL), MICA_OK);
        if (i) assert_int_equal(mc_log_report(&log, &note_report), MICA_OK);
        mc_log_close(&log);
    }
    size_t n;
    char *got = test_read_file(path, &n);
    assert_memory_equal(got, cut, sizeof cut - 1);
    assert_memory_equal(got + sizeof cut - 1, "\n{\"event\": \"note\"", 17);
    free(got);
    free(path);
    test_temp_dir_remove(dir);
}

/* A full disk ends one log, and the other goes on. */
static void test_full_disk(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    mc_log log;
    size_t n = 0, m = 0;
    if (mc_log_open(&log, "/dev/full", dir) != MICA_OK) skip(); /* not Linux */
    assert_int_equal(mc_log_report(&log, &train_report), MICA_EIO);
    assert_non_null(strstr(mica_last_error(), "/dev/full: "));
    free(test_read_file(log.events_path, &n));
    assert_int_equal(mc_log_report(&log, &train_report), MICA_OK);
    free(test_read_file(log.events_path, &m));
    assert_true(n > 0 && m > n);
    mc_log_close(&log);
    test_temp_dir_remove(dir);
}

/* What is written last may fail when the file is closed. */
static void test_close(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/log", dir);
    mc_log log;
    for (int which = 0; which < 3; which++) { /* the lines, the events, none */
        assert_int_equal(mc_log_open(&log, path, dir), MICA_OK);
        if (which < 2) assert_int_equal(close(fileno(which ? log.events : log.lines)), 0);
        assert_int_equal(mc_log_close(&log), which < 2 ? EBADF : 0);
        assert_int_equal(mc_log_close(&log), 0);
    }
    free(path);
    test_temp_dir_remove(dir);
}

static void test_no_file(void **state) {
    (void)state;
    mc_log log;
    assert_int_equal(mc_log_open(&log, "/nowhere/log", NULL), MICA_ENOENT);
    mc_log_close(&log);
    assert_int_not_equal(mc_log_open(&log, NULL, "/proc/nowhere"), MICA_OK);
    mc_log_close(&log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),   cmocka_unit_test(test_lines),
        cmocka_unit_test(test_cut_line), cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_close),    cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
