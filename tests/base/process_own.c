/* Child processes on every system: this test starts itself, and plays what a child may do. What
 * POSIX has besides is in process.c. */
#define _POSIX_C_SOURCE 200809L
#include "support/support.h"

#include "base/process.h"
#include "base/system.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECOND = 1000000, LINE = 1000 };

static char *program; /* this one */

static uint64_t after(uint64_t us) {
    return mc_now_us() + us;
}

/* ---- what a child does ---- */

/* By bytes: a stream's line feeds may become more on the way. */
static void say(int fd, const char *text) {
    for (size_t n = strlen(text); n > 0;) {
        ssize_t some = write(fd, text, (unsigned)n);
        if (some <= 0) exit(9); /* nobody reads */
        text += some;
        n -= (size_t)some;
    }
}

static void sleep_long(void) {
    (void)poll(NULL, 0, 1000000);
}

static int play_say(char **arguments) {
    for (; *arguments; arguments++) {
        say(1, *arguments);
        say(1, "\n");
    }
    return 0;
}

static int play_part(char **arguments) {
    say(1, *arguments);
    return 3;
}

static int play_echo(char **arguments) {
    char byte;
    (void)arguments;
    while (read(0, &byte, 1) == 1)
        if (byte != '\r') say(1, (char[]){byte, '\0'});
    say(1, "bye\n");
    return 0;
}

static int play_many(char **arguments) {
    char text[32];
    bool errors = strcmp(*arguments, "errors") == 0;
    for (int i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "line %d\n", i);
        say(errors ? 2 : 1, text);
    }
    if (errors) say(1, "done\n");
    return 0;
}

static int play_endless(char **arguments) {
    int fd = atoi(*arguments);
    while (fd > 0) /* until nobody reads */
        say(fd, "xxxxxxxxxxxxxxxx");
    return 0;
}

static int play_variable(char **arguments) {
    const char *value = getenv(*arguments);
    return play_say((char *[]){(char *)(value ? value : "none"), NULL});
}

static int play_deaf(char **arguments) {
    (void)arguments;
    say(1, "here\n");
    sleep_long();
    return 0;
}

static mc_process *start(const char *part, const char *a, const char *b);

/* Starts another that ends with its input, tells its number, and sleeps. */
static int play_parent(char **arguments) {
    char text[32];
    (void)arguments;
    mc_process *p = start("echo", NULL, NULL);
    snprintf(text, sizeof text, "%lld\n", (long long)mc_process_id(p));
    say(1, text);
    sleep_long();
    return 0;
}

static const struct {
    const char *part;
    int (*play)(char **arguments);
} parts[] = {{"say", play_say},           {"part", play_part},    {"echo", play_echo},
             {"many", play_many},         {"deaf", play_deaf},    {"endless", play_endless},
             {"variable", play_variable}, {"parent", play_parent}};

static int play(char **argv) {
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i].part, argv[0]) == 0) return parts[i].play(argv + 1);
    return 8;
}

/* ---- talking to one ---- */

static mica_status try_start(const char *part, const char *a, const char *b, mc_process **process) {
    const char *const argv[] = {program, "--play", part, a, b, NULL};
    const char *const env[] = {"MICA_TEST_NEW=\xc3\xa4 new", "MICA_TEST_OLD=newer", NULL};
    const mc_process_options options = {.argv = argv, .env = env, .max_line_bytes = LINE};
    return mc_process_start(&options, process);
}

static mc_process *start(const char *part, const char *a, const char *b) {
    mc_process *process;
    if (try_start(part, a, b, &process) != MICA_OK) fail_msg("%s", mica_last_error());
    return process;
}

static void expect(mc_process *process, mc_process_got want, const char *text) {
    mc_str line;
    mc_process_got got;
    if (mc_process_read(process, after(60 * SECOND), &line, &got) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_int_equal(got, want);
    if (line.len != strlen(text) || memcmp(line.ptr, text, line.len) != 0)
        fail_msg("%.*s is not %s", (int)line.len, line.ptr, text);
}

static void expect_death(int64_t pid) {
    while (test_process_lives(pid)) /* for as long as a busy machine takes */
        (void)poll(NULL, 0, 1);
}

static void finish(mc_process **process) {
    int64_t pid = mc_process_id(*process);
    mc_process_close(process, 60 * SECOND);
    assert_null(*process);
    expect_death(pid);
}

/* Arguments arrive as they are, whatever a command line makes of blanks, quotes and backslashes. */
static void test_arguments(void **state) {
    (void)state;
    static const char *const odd[] = {"plain",
                                      "a b",
                                      "",
                                      "\"",
                                      "\\",
                                      "a\\\"b",
                                      "c:\\a b\\",
                                      "\\\\\"",
                                      "tab\there",
                                      "%PATH%",
                                      "\xe6\xa8\xa1\xe5\x9e\x8b",
                                      "^&|<>*"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        mc_process *p = start("say", odd[i], "last");
        expect(p, MC_PROCESS_LINE, odd[i]);
        expect(p, MC_PROCESS_LINE, "last");
        expect(p, MC_PROCESS_END, "");
        finish(&p);
    }
}

static void test_conversation(void **state) {
    (void)state;
    mc_process *p = start("echo", NULL, NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mc_process_write(p, "ahoy\n", 5, after(60 * SECOND)), MICA_OK);
        expect(p, MC_PROCESS_LINE, "ahoy");
    }
    finish(&p);
}

static void test_many(void **state) {
    (void)state;
    char text[32];
    mc_process *p = start("many", "lines", NULL);
    for (int i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "line %d", i);
        expect(p, MC_PROCESS_LINE, text);
    }
    expect(p, MC_PROCESS_END, "");
    finish(&p);
}

static void test_errors(void **state) {
    (void)state;
    mc_process *p = start("many", "errors", NULL);
    expect(p, MC_PROCESS_LINE, "done");
    expect(p, MC_PROCESS_END, "");
    const char *text = mc_process_errors(p);
    assert_int_equal(strlen(text), 4096);
    assert_string_equal(text + 4096 - 10, "line 4999\n");
    finish(&p);
}

static void test_ends(void **state) {
    (void)state;
    mc_process *p = start("part", "rest", NULL);
    expect(p, MC_PROCESS_END, "rest");
    assert_string_equal(mc_process_describe_end(p), "ended with status 3");
    finish(&p);
    p = start("deaf", NULL, NULL);
    assert_string_equal(mc_process_describe_end(p), "closed its output"); /* it has not ended */
    mc_process_close(&p, 0);
    mc_process_close(&p, 0);
}

static void test_long_lines(void **state) {
    (void)state;
    mc_str line;
    mc_process_got got;
    mc_process *p = start("endless", "1", NULL); /* never a line feed */
    assert_int_equal(mc_process_read(p, after(60 * SECOND), &line, &got), MICA_EFORMAT);
    assert_non_null(strstr(mica_last_error(), "1000 bytes"));
    mc_process_close(&p, 0);
}

/* Endless standard error holds up no deadline. */
static void test_endless_errors(void **state) {
    (void)state;
    mc_str line;
    mc_process_got got;
    mc_process *p = start("endless", "2", NULL);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(mc_process_read(p, after(20000), &line, &got), MICA_OK);
        assert_int_equal(got, MC_PROCESS_LATER);
    }
    mc_process_close(&p, 20000);
}

static void test_deadlines(void **state) {
    (void)state;
    enum { BYTES = 8000000 };
    mc_process *p = start("deaf", NULL, NULL);
    char *data = calloc(1, BYTES);
    mc_str line;
    mc_process_got got;
    assert_non_null(data);
    expect(p, MC_PROCESS_LINE, "here");
    uint64_t begin = mc_now_us();
    assert_int_equal(mc_process_read(p, begin + 20000, &line, &got), MICA_OK);
    assert_int_equal(got, MC_PROCESS_LATER);
    assert_true(mc_now_us() >= begin + 20000);
    assert_int_equal(mc_process_read(p, 0, &line, &got), MICA_OK);
    assert_int_equal(got, MC_PROCESS_LATER);
    assert_int_equal(mc_process_write(p, data, BYTES, after(20000)), MICA_EIO);
    assert_non_null(strstr(mica_last_error(), "does not read"));
    free(data);
    mc_process_close(&p, 1000);
}

static void test_gone(void **state) {
    (void)state;
    mc_process *p = start("say", "last words", NULL);
    expect(p, MC_PROCESS_LINE, "last words");
    expect(p, MC_PROCESS_END, "");
    assert_string_equal(mc_process_describe_end(p), "ended with status 0");
    for (int i = 0; i < 3; i++)
        assert_int_equal(mc_process_write(p, "more\n", 5, after(SECOND)), MICA_EIO);
    finish(&p);
}

static void test_variables(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"MICA_TEST_NEW", "\xc3\xa4 new"}, {"MICA_TEST_OLD", "newer"}, {"MICA_TEST_KEPT", "kept"}};
    setenv("MICA_TEST_OLD", "old", 1);
    setenv("MICA_TEST_KEPT", "kept", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mc_process *p = start("variable", rows[i][0], NULL);
        expect(p, MC_PROCESS_LINE, rows[i][1]);
        finish(&p);
    }
}

static void test_no_program(void **state) {
    (void)state;
    mc_process *p;
    if (!test_spawn_tells()) skip();
    static const char *const names[] = {"mica-has-no-such-program", "./no/such/program"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *const argv[] = {names[i], NULL};
        const mc_process_options options = {.argv = argv, .max_line_bytes = LINE};
        assert_int_equal(mc_process_start(&options, &p), MICA_ENOENT);
        assert_null(p);
        assert_non_null(strstr(mica_last_error(), names[i]));
    }
}

/* A child that does not end ends, and what it has started. */
static void test_killing(void **state) {
    (void)state;
    mc_str line;
    mc_process_got got;
    mc_process *p = start("parent", NULL, NULL);
    assert_int_equal(mc_process_read(p, after(60 * SECOND), &line, &got), MICA_OK);
    assert_int_equal(got, MC_PROCESS_LINE);
    int64_t child = mc_process_id(p), grandchild = strtoll(line.ptr, NULL, 10);
    assert_true(test_process_lives(child) && test_process_lives(grandchild));
    mc_process_close(&p, 1000);
    expect_death(child);
    expect_death(grandchild);
}

static void test_nothing_is_left(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) { /* what a first one opens stays */
        mc_process *p = start("say", "a", NULL);
        mc_process_close(&p, 60 * SECOND);
    }
    size_t before = test_count_handles();
    for (int i = 0; i < 40; i++) {
        mc_process *p = start(i % 2 ? "say" : "deaf", "a", NULL);
        mc_process_close(&p, i % 4 == 1 ? 60 * SECOND : 0);
    }
    assert_int_equal(test_count_handles(), before);
}

static bool try_once(void *arg) {
    mc_process *p = NULL;
    mc_str line;
    mc_process_got got;
    (void)arg;
    mica_status status = try_start("say", "one", NULL, &p);
    if (status == MICA_OK) status = mc_process_read(p, after(60 * SECOND), &line, &got);
    mc_process_close(&p, SECOND);
    if (status != MICA_OK) assert_int_equal(status, MICA_ENOMEM);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    test_fail_each_allocation(try_once, NULL);
}

int main(int argc, char **argv) {
    test_set_binary();
    argv = test_utf8_arguments(argv);
    program = test_program(argv[0]);
    if (argc > 2 && strcmp(argv[1], "--play") == 0) return play(argv + 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_conversation),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_endless_errors),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_no_program),
        cmocka_unit_test(test_killing),
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("base/process_own", tests, NULL, NULL);
}
