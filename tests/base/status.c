/* base/status: the thread's text. */
#define _POSIX_C_SOURCE 200809L

#include "base/status.h"

#include "base/utf8.h"
#include "support/support.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void test_names(void **state) {
    (void)state;
    assert_string_equal(mica_status_name(MICA_OK), "MICA_OK");
    assert_string_equal(mica_status_name(MICA_EINTERNAL), "MICA_EINTERNAL");
    assert_string_equal(mica_status_name((mica_status)999), "unknown status");
    for (int i = MICA_OK; i <= MICA_EBUSY; i++) {
        assert_memory_equal(mica_status_name((mica_status)i), "MICA_", 5);
    }
}

static void test_text_and_context(void **state) {
    (void)state;
    assert_int_equal(mc_fail(MICA_ESHAPE, "matmul: %d by %d", 3, 4), MICA_ESHAPE);
    assert_string_equal(mica_last_error(), "matmul: 3 by 4");
    assert_int_equal(mc_fail_context(MICA_ESHAPE, "layer %d", 7), MICA_ESHAPE);
    assert_string_equal(mica_last_error(), "layer 7: matmul: 3 by 4");
    assert_int_equal(mc_fail(MICA_EIO, "again: %s", mica_last_error()), MICA_EIO);
    assert_string_equal(mica_last_error(), "again: layer 7: matmul: 3 by 4");
    assert_int_equal(mc_fail_nomem("a plan"), MICA_ENOMEM);
    assert_string_equal(mica_last_error(), "out of memory: a plan");
}

static void test_errno(void **state) {
    (void)state;
    assert_int_equal(mc_fail_errno(ENOENT, "a/b"), MICA_ENOENT);
    assert_string_equal(mica_last_error(), "a/b: No such file or directory");
    assert_int_equal(mc_fail_errno(ENOMEM, "a/b"), MICA_ENOMEM);
    assert_int_equal(mc_fail_errno(EACCES, "a/b"), MICA_EIO);
    assert_string_equal(mica_last_error(), "a/b: Permission denied");
}

static void test_long_text_is_cut_between_characters(void **state) {
    (void)state;
    char text[3001];
    for (int shift = 0; shift < 3; shift++) {
        memset(text, 'x', (size_t)shift);
        for (size_t i = (size_t)shift; i + 3 < sizeof text; i += 3) {
            text[i] = '\xE2', text[i + 1] = '\x82', text[i + 2] = '\xAC';
            text[i + 3] = 0;
        }
        mc_fail(MICA_EINVAL, "%s", text);
        size_t len = strlen(mica_last_error());
        assert_in_range(len, 1021, 1023);
        assert_true(mc_utf8_valid(mica_last_error(), len));
        assert_memory_equal(mica_last_error(), text, len);
    }
}

/* A list is longer than what a call makes; so are contexts before it. */
static void test_list_is_long(void **state) {
    (void)state;
    char text[20001];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    mc_fail_text(MICA_EINVAL, text);
    assert_int_equal(strlen(mica_last_error()), (1 << 14) - 1);
    text[12000] = 0;
    mc_fail_text(MICA_EINVAL, text);
    assert_string_equal(mica_last_error(), text);
    mc_fail_context(MICA_EINVAL, "a.onnx");
    assert_int_equal(strncmp(mica_last_error(), "a.onnx: xxx", 11), 0);
    assert_string_equal(mica_last_error() + strlen("a.onnx: "), text);
}

static void test_broken_utf8_becomes_question_marks(void **state) {
    (void)state;
    mc_fail(MICA_ENOENT, "a\xFF\xC3(b\xE2\x82: %s", "caf\xC3\xA9");
    assert_string_equal(mica_last_error(), "a\?\?(b\?\?: caf\xC3\xA9");
}

/* Texts that come from elsewhere, such as file names, give a terminal no orders. */
static void test_control_characters_become_question_marks(void **state) {
    (void)state;
    mc_fail(MICA_EIO, "a\n\tb: %s", "\x1b[31m\x7f\xC2\x9B\r\xC2\xA0");
    assert_string_equal(mica_last_error(), "a\n\tb: ?[31m\?\?\?\?\xC2\xA0");
}

static void *other_thread(void *arg) {
    (void)arg;
    char *before = mc_strdup(mica_last_error());
    mc_fail(MICA_EINVAL, "theirs");
    return before;
}

static void test_text_belongs_to_the_thread(void **state) {
    (void)state;
    mc_fail(MICA_EINVAL, "mine");
    pthread_t thread;
    void *before;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &before), 0);
    assert_string_equal(before, "");
    assert_string_equal(mica_last_error(), "mine");
    mc_free(before);
}

/* The text is copied as far as it fits, whole characters only, and the thread keeps its own. */
static void test_text_is_copied(void **state) {
    (void)state;
    static const struct {
        size_t bytes;
        const char *want;
    } cases[] = {{100, "a\u20acb"}, {6, "a\u20acb"}, {5, "a\u20ac"}, {4, "a"}, {2, "a"}, {1, ""}};
    char buffer[100];
    mc_fail(MICA_EINVAL, "a\u20acb");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(buffer, 'x', sizeof buffer);
        assert_int_equal(mica_error_text(buffer, cases[i].bytes), 5);
        assert_string_equal(buffer, cases[i].want);
        if (cases[i].bytes < sizeof buffer) assert_int_equal(buffer[cases[i].bytes], 'x');
    }
    memset(buffer, 'x', sizeof buffer);
    assert_int_equal(mica_error_text(buffer, 0), 5);
    assert_int_equal(buffer[0], 'x');
    assert_int_equal(mica_error_text(NULL, 0), 5);
    assert_int_equal(mica_error_text(NULL, 7), 5);
    assert_string_equal(mica_last_error(), "a\u20acb");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_text_and_context),
        cmocka_unit_test(test_errno),
        cmocka_unit_test(test_long_text_is_cut_between_characters),
        cmocka_unit_test(test_list_is_long),
        cmocka_unit_test(test_broken_utf8_becomes_question_marks),
        cmocka_unit_test(test_control_characters_become_question_marks),
        cmocka_unit_test(test_text_belongs_to_the_thread),
        cmocka_unit_test(test_text_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
