/* base/log: the hook gets lines, in any thread, and none once another is set. */
#define _POSIX_C_SOURCE 200809L

#include "base/log.h"
#include "base/status.h"
#include "support/support.h"

#include <mica/device.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct kept {
    atomic_int lines, inner;
    mica_log_level level;
    char text[1100];
} kept;

static void keep(void *user, mica_log_level level, const char *text) {
    kept *k = user;
    k->lines++;
    k->level = level;
    snprintf(k->text, sizeof k->text, "%s", text);
}

static void test_lines(void **state) {
    (void)state;
    kept k = {0};
    mc_log_line(MICA_LOG_NOTE, "nobody hears this");
    assert_int_equal(mica_log_hook_set(keep, &k), MICA_OK);
    assert_int_equal(mc_fail(MICA_ESHAPE, "matmul: %d by %d", 3, 4), MICA_ESHAPE);
    assert_string_equal(k.text, "matmul: 3 by 4");
    assert_int_equal(k.level, MICA_LOG_DEBUG);
    mc_log_line(MICA_LOG_NOTE, "%01100d", 7);
    assert_int_equal(strlen(k.text), 1023);
    assert_int_equal(k.level, MICA_LOG_NOTE);
    assert_string_equal(mica_last_error(), "matmul: 3 by 4");
    mica_device *device;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_string_equal(k.text, "opened the device cpu");
    mica_device_close(&device);
    assert_string_equal(k.text, "closed the device cpu");
    assert_int_equal(mica_log_hook_set(NULL, NULL), MICA_OK);
    int lines = k.lines;
    (void)mc_fail(MICA_EIO, "unheard");
    assert_int_equal(k.lines, lines);
}

/* A hook's own calls are not logged, and it cannot set another one. */
static void calls_mica(void *user, mica_log_level level, const char *text) {
    (void)level, (void)text;
    kept *k = user;
    k->lines++;
    k->inner += mica_log_hook_set(NULL, NULL) == MICA_EINVAL;
}

static void test_hook_that_calls(void **state) {
    (void)state;
    kept k = {0};
    assert_int_equal(mica_log_hook_set(calls_mica, &k), MICA_OK);
    (void)mc_fail(MICA_EIO, "once");
    assert_int_equal(mica_log_hook_set(NULL, NULL), MICA_OK);
    assert_int_equal(k.lines, 1);
    assert_int_equal(k.inner, 1);
}

static void count(void *user, mica_log_level level, const char *text) {
    (void)level, (void)text;
    ++*(int *)user; /* not atomic: a thread of its own hook's time only */
}

static void *fail_often(void *stop) {
    while (!atomic_load((atomic_bool *)stop))
        (void)mc_fail(MICA_EIO, "x");
    return NULL;
}

/* Once another hook is set, the one before is not called: its user may end. One thread fails, so
 * the counts need no lock of their own; ThreadSanitizer sees it if they do. */
static void test_change_under_way(void **state) {
    (void)state;
    enum { CHANGES = 200 };
    atomic_bool stop = false;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_often, &stop), 0);
    for (int i = 0; i < CHANGES; i++) {
        int *lines = calloc(1, sizeof *lines);
        assert_non_null(lines);
        assert_int_equal(mica_log_hook_set(count, lines), MICA_OK);
        assert_int_equal(mica_log_hook_set(NULL, NULL), MICA_OK);
        free(lines);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_hook_that_calls),
        cmocka_unit_test(test_change_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
