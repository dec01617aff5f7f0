/* Child processes: what they get and give, how they end, and that nothing of them is left. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "support/support.h"

#include "base/process.h"
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECOND = 1000000, LINE = 1000 };

static uint64_t after(uint64_t us) {
    return mc_now_us() + us;
}

static mc_process *start(const char *script) {
    mc_process *process;
    const char *const argv[] = {"sh", "-c", script, NULL};
    const mc_process_options options = {.argv = argv, .max_line_bytes = LINE};
    if (mc_process_start(&options, &process) != MICA_OK) fail_msg("%s", mica_last_error());
    return process;
}

static void expect(mc_process *process, mc_process_got want, const char *text) {
    mc_str line;
    mc_process_got got;
    if (mc_process_read(process, after(20 * SECOND), &line, &got) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_int_equal(got, want);
    assert_int_equal(line.len, strlen(text));
    assert_memory_equal(line.ptr, text, line.len);
}

/* No child is left, a zombie neither. */
static void expect_no_child(void) {
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void finish(mc_process **process) {
    mc_process_close(process, 20 * SECOND);
    assert_null(*process);
    mc_process_close(process, 0);
    expect_no_child();
}

static void expect_death(long pid) {
    while (test_process_lives(pid)) /* for as long as a busy machine takes */
        (void)poll(NULL, 0, 1);
}

/* ---- lines ---- */

static void test_lines(void **state) {
    (void)state;
    mc_process *p = start("printf 'one\\n\\ntwo and a half\\nrest'");
    expect(p, MC_PROCESS_LINE, "one");
    expect(p, MC_PROCESS_LINE, "");
    expect(p, MC_PROCESS_LINE, "two and a half");
    expect(p, MC_PROCESS_END, "rest");
    expect(p, MC_PROCESS_END, "");
    assert_string_equal(mc_process_describe_end(p), "ended with status 0");
    finish(&p);
}

static void test_conversation(void **state) {
    (void)state;
    mc_process *p = start("while read -r line; do echo \"<$line>\"; done; echo bye");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mc_process_write(p, "ahoy\n", 5, after(SECOND)), MICA_OK);
        expect(p, MC_PROCESS_LINE, "<ahoy>");
    }
    finish(&p);
}

/* More lines than fit a read, and a write larger than a socket's buffer. */
static void test_many(void **state) {
    (void)state;
    enum { BYTES = 4000000 };
    mc_process *p = start("i=0; while [ $i -lt 20000 ]; do echo \"line $i\"; i=$((i+1)); done; "
                          "wc -c");
    char text[32], *data = calloc(1, BYTES);
    assert_non_null(data);
    for (int i = 0; i < 20000; i++) {
        snprintf(text, sizeof text, "line %d", i);
        expect(p, MC_PROCESS_LINE, text);
    }
    assert_int_equal(mc_process_write(p, data, BYTES, after(20 * SECOND)), MICA_OK);
    free(data);
    finish(&p);
}

static void test_long_lines(void **state) {
    (void)state;
    mc_str line;
    mc_process_got got;
    mc_process *p = start("printf '%01000d\\n%01001d\\n' 1 2");
    assert_int_equal(mc_process_read(p, after(20 * SECOND), &line, &got), MICA_OK);
    assert_int_equal(line.len, LINE);
    assert_int_equal(mc_process_read(p, after(20 * SECOND), &line, &got), MICA_EFORMAT);
    assert_non_null(strstr(mica_last_error(), "1000 bytes"));
    finish(&p);
    p = start("while :; do printf xxxxxxxxxxxxxxxx; done"); /* never a line feed */
    assert_int_equal(mc_process_read(p, after(20 * SECOND), &line, &got), MICA_EFORMAT);
    mc_process_close(&p, 0);
    expect_no_child();
}

static void test_errors(void **state) {
    (void)state;
    mc_process *p = start("echo 'it hurts' >&2; echo done");
    assert_string_equal(mc_process_errors(p), "");
    expect(p, MC_PROCESS_LINE, "done");
    expect(p, MC_PROCESS_END, "");
    assert_string_equal(mc_process_errors(p), "it hurts\n");
    finish(&p);
    p = start("i=0; while [ $i -lt 5000 ]; do echo \"error $i\" >&2; i=$((i+1)); done; echo done");
    expect(p, MC_PROCESS_LINE, "done");
    expect(p, MC_PROCESS_END, "");
    const char *text = mc_process_errors(p);
    assert_int_equal(strlen(text), 4096);
    assert_string_equal(text + 4096 - 11, "error 4999\n");
    finish(&p);
}

static void test_deadlines(void **state) {
    (void)state;
    mc_process *p = start("read -r x; exec sleep 1000");
    char *data = calloc(1, 8000000);
    assert_non_null(data);
    mc_str line;
    mc_process_got got;
    uint64_t begin = mc_now_us();
    assert_int_equal(mc_process_read(p, begin + 20000, &line, &got), MICA_OK);
    assert_int_equal(got, MC_PROCESS_LATER);
    assert_true(mc_now_us() >= begin + 20000);
    assert_int_equal(mc_process_read(p, 0, &line, &got), MICA_OK);
    assert_int_equal(got, MC_PROCESS_LATER);
    assert_int_equal(mc_process_write(p, data, 8000000, after(20000)), MICA_EIO);
    assert_non_null(strstr(mica_last_error(), "does not read"));
    free(data);
    mc_process_close(&p, 1000);
    expect_no_child();
}

/* Shares one CPU with its children to be, if the system lets it. */
static void take_one_cpu(void) {
#ifdef __linux__
    cpu_set_t set;
    size_t cpu = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return;
    while (!CPU_ISSET(cpu, &set))
        cpu++;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
#endif
}

/* Lets all others run first. */
static void go_last(void) {
#ifdef __linux__
    (void)sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
#endif
}

/* Reads from a child that fills its standard error faster than this process can read it: each time
 * that there is room, the child runs first. */
static void read_flood(void) {
    mc_str line;
    mc_process_got got;
    bool right = true;
    take_one_cpu();
    mc_process *p = start("cat /dev/zero >&2");
    go_last();
    alarm(100); /* it would wait for ever */
    for (int i = 0; i < 5; i++) {
        (void)poll(NULL, 0, 20);
        right = mc_process_read(p, after(20000), &line, &got) == MICA_OK && right;
        right = right && got == MC_PROCESS_LATER;
    }
    mc_process_close(&p, 20000);
    _exit(right ? 0 : 1);
}

/* Endless standard error holds up no deadline. */
static void test_endless_errors(void **state) {
    (void)state;
    int status = -1;
    pid_t reader = fork();
    assert_true(reader >= 0);
    if (reader == 0) read_flood();
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
}

/* ---- what a child gets ---- */

static void test_start(void **state) {
    (void)state;
    mc_process *p;
    const char *const nothing[] = {"mica-has-no-such-program", NULL};
    if (!test_spawn_tells()) skip();
    mc_process_options options = {.argv = nothing, .max_line_bytes = LINE};
    assert_int_equal(mc_process_start(&options, &p), MICA_ENOENT);
    assert_null(p);
    assert_non_null(strstr(mica_last_error(), "mica-has-no-such-program"));
    const char *const argv[] = {"sh", "-c", "echo \"$MICA_A|$MICA_B|$MICA_C\"", NULL};
    const char *const env[] = {"MICA_B=new", "MICA_C=three", NULL};
    setenv("MICA_A", "one", 1);
    setenv("MICA_B", "old", 1);
    options = (mc_process_options){.argv = argv, .env = env, .max_line_bytes = LINE};
    assert_int_equal(mc_process_start(&options, &p), MICA_OK);
    expect(p, MC_PROCESS_LINE, "one|new|three");
    finish(&p);
    unsetenv("MICA_A");
    unsetenv("MICA_B");
    expect_no_child();
}

/* Descriptors of this process, closed on exec or not, are not the child's. */
static void test_descriptors(void **state) {
    (void)state;
    if (access("/proc/self/fd", R_OK) != 0) skip();
    int open_fd = open("/dev/null", O_RDONLY);
    assert_true(open_fd >= 0 && fcntl(open_fd, F_DUPFD, 100) >= 0);
    mc_process *first = start("read -r x"), *p = start("exec ls /proc/self/fd");
    expect(p, MC_PROCESS_LINE, "0");
    expect(p, MC_PROCESS_LINE, "1");
    expect(p, MC_PROCESS_LINE, "2");
    expect(p, MC_PROCESS_LINE, "3"); /* the folder that ls reads */
    expect(p, MC_PROCESS_END, "");
    mc_process_close(&first, 20 * SECOND);
    finish(&p);
    close(100);
    close(open_fd);
}

/* With its own three closed, this process still gives the child others. */
static void test_closed_descriptors(void **state) {
    (void)state;
    int kept[3];
    for (int i = 0; i < 3; i++)
        kept[i] = fcntl(i, F_DUPFD, 50), close(i);
    mc_process *p = start("read -r x; echo $x; echo $x >&2");
    mica_status status = mc_process_write(p, "hello\n", 6, after(SECOND));
    mc_str line = {"", 0};
    mc_process_got got = MC_PROCESS_END;
    if (status == MICA_OK) status = mc_process_read(p, after(20 * SECOND), &line, &got);
    bool same = mc_str_is(line, "hello"), taken = false;
    for (int i = 0; i < 3; i++)
        taken = taken || fcntl(i, F_GETFD) >= 0;
    mc_process_close(&p, SECOND);
    for (int i = 0; i < 3; i++)
        dup2(kept[i], i), close(kept[i]);
    assert_true(status == MICA_OK && same && !taken);
}

static void test_signals(void **state) {
    (void)state;
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    mc_process *p = start("kill -PIPE $$; echo alive"), *q = start("kill -USR1 $$; echo alive");
    expect(p, MC_PROCESS_END, "");
    expect(q, MC_PROCESS_END, "");
    char *want = test_format("was killed by signal %d", SIGUSR1);
    assert_string_equal(mc_process_describe_end(p), "was killed by signal 13");
    assert_string_equal(mc_process_describe_end(q), want);
    free(want);
    mc_process_close(&p, 0);
    mc_process_close(&q, 0);
    sigprocmask(SIG_UNBLOCK, &usr1, NULL);
    signal(SIGPIPE, before);
    expect_no_child();
}

/* ---- the end ---- */

static void test_ends(void **state) {
    (void)state;
    mc_process *p = start("exit 3");
    expect(p, MC_PROCESS_END, "");
    assert_string_equal(mc_process_describe_end(p), "ended with status 3");
    /* SIGPIPE would end this test. */
    for (int i = 0; i < 3; i++)
        assert_int_equal(mc_process_write(p, "more\n", 5, after(SECOND)), MICA_EIO);
    finish(&p);
    p = start("exec >&-; sleep 1000");
    expect(p, MC_PROCESS_END, "");
    assert_string_equal(mc_process_describe_end(p), "closed its output");
    mc_process_close(&p, 0);
    expect_no_child();
}

/* A child that does not want to end, and what it has started. */
static void test_killing(void **state) {
    (void)state;
    mc_str line;
    mc_process_got got;
    mc_process *p = start("trap '' TERM HUP INT; sleep 1000 & echo $!; while :; do wait; done");
    assert_int_equal(mc_process_read(p, after(20 * SECOND), &line, &got), MICA_OK);
    long child = (long)mc_process_id(p), grandchild = strtol(line.ptr, NULL, 10);
    assert_true(test_process_lives(child) && test_process_lives(grandchild));
    mc_process_close(&p, 1000);
    expect_no_child();
    expect_death(grandchild);
}

/* A program that ignores the ends of its children, and one that waits for all of them. */
static void test_others_wait(void **state) {
    (void)state;
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    mc_process *p = start("echo one");
    expect(p, MC_PROCESS_LINE, "one");
    expect(p, MC_PROCESS_END, "");
    mc_process_close(&p, SECOND);
    signal(SIGCHLD, before);
    p = start("echo two");
    expect(p, MC_PROCESS_LINE, "two");
    expect(p, MC_PROCESS_END, "");
    assert_true(waitpid(-1, NULL, 0) > 0);
    assert_string_equal(mc_process_describe_end(p), "ended");
    finish(&p);
}

/* If this process dies without a word, its child sees the end of its input. */
static void test_orphan(void **state) {
    (void)state;
    int pipe_fds[2];
    long pid = 0;
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        mc_process *p = start("read -r x");
        pid = (long)mc_process_id(p);
        if (write(pipe_fds[1], &pid, sizeof pid) != sizeof pid) _exit(1);
        raise(SIGKILL);
    }
    assert_int_equal(read(pipe_fds[0], &pid, sizeof pid), sizeof pid);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    expect_death(pid);
}

/* What a fork of this process does with a child that is not its own; exits with 0 if that is
 * right. */
static void meddle(mc_process *p) {
    mc_str line;
    mc_process_got got;
    bool right = mc_process_write(p, "from the fork\n", 14, after(SECOND)) == MICA_EIO &&
                 mc_process_read(p, after(SECOND), &line, &got) == MICA_EIO &&
                 strstr(mica_last_error(), "fork");
    mc_process_close(&p, 20 * SECOND);
    _exit(right ? 0 : 1);
}

/* A fork of this process neither talks to its child nor ends it. */
static void test_fork(void **state) {
    (void)state;
    int status = -1;
    mc_process *p = start("while read -r x; do echo \"$x\"; done");
    pid_t fork_of_this = fork();
    assert_true(fork_of_this >= 0);
    if (fork_of_this == 0) meddle(p);
    assert_int_equal(waitpid(fork_of_this, &status, 0), fork_of_this);
    assert_int_equal(status, 0);
    assert_int_equal(mc_process_write(p, "one\n", 4, after(20 * SECOND)), MICA_OK);
    expect(p, MC_PROCESS_LINE, "one");
    finish(&p);
}

/* If this process dies, its child sees the end of its input though a fork of this one lives on. */
static void test_orphan_of_a_fork(void **state) {
    (void)state;
    int pids[2], end[2];
    long pid = 0;
    char byte;
    assert_int_equal(pipe(pids), 0);
    assert_int_equal(pipe(end), 0);
    pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        mc_process *p = start("read -r x");
        pid = (long)mc_process_id(p);
        close(end[1]);
        if (fork() == 0) _exit((int)read(end[0], &byte, 1)); /* until the test is over */
        if (write(pids[1], &pid, sizeof pid) != sizeof pid) _exit(1);
        raise(SIGKILL);
    }
    assert_int_equal(read(pids[0], &pid, sizeof pid), sizeof pid);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    expect_death(pid);
    for (int i = 0; i < 2; i++) {
        close(pids[i]);
        close(end[i]);
    }
}

static void test_nothing_is_left(void **state) {
    (void)state;
    if (access("/proc/self/fd", R_OK) != 0) skip();
    size_t before = test_count_entries("/proc/self/fd");
    for (int i = 0; i < 200; i++) {
        mc_process *p = start(i % 2 ? "exit 1" : "read -r x");
        mc_process_close(&p, i % 4 ? 20 * SECOND : 0);
    }
    assert_int_equal(test_count_entries("/proc/self/fd"), before);
    expect_no_child();
}

static bool try_start(void *arg) {
    mc_process *p = NULL;
    mc_str line;
    mc_process_got got;
    const char *const argv[] = {"sh", "-c", "echo one", NULL};
    const mc_process_options options = {.argv = argv, .max_line_bytes = LINE};
    (void)arg;
    mica_status status = mc_process_start(&options, &p);
    if (status == MICA_OK) status = mc_process_read(p, after(20 * SECOND), &line, &got);
    mc_process_close(&p, SECOND);
    if (status != MICA_OK) assert_int_equal(status, MICA_ENOMEM);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    test_fail_each_allocation(try_start, NULL);
    expect_no_child();
}

/* Of the first 64. */
static int count_open(void) {
    int n = 0;
    for (int fd = 0; fd < 64; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

typedef struct forking {
    int open; /* descriptors that a fork is to have */
    atomic_bool stop;
    int forks, wrong;
} forking;

static void *fork_and_count(void *context) {
    forking *f = context;
    for (; !atomic_load(&f->stop); f->forks++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) _exit(count_open() == f->open ? 0 : 1);
        f->wrong += child < 0 || waitpid(child, &status, 0) != child || status != 0;
    }
    return NULL;
}

/* Forks of another thread, at any moment, keep no descriptor and lose none of their own. */
static void test_forks_meanwhile(void **state) {
    (void)state;
    pthread_t thread;
    forking f = {.open = count_open()};
    mc_process *first = start("exit 0"); /* forks are watched from here on */
    mc_process_close(&first, 20 * SECOND);
    assert_int_equal(pthread_create(&thread, NULL, fork_and_count, &f), 0);
    for (int i = 0; i < 100; i++) {
        mc_process *p = start("echo one");
        expect(p, MC_PROCESS_LINE, "one");
        expect(p, MC_PROCESS_END, "");
        mc_process_close(&p, 20 * SECOND);
    }
    atomic_store(&f.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(f.forks > 0);
    assert_int_equal(f.wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_conversation),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_endless_errors),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_closed_descriptors),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_killing),
        cmocka_unit_test(test_others_wait),
        cmocka_unit_test(test_orphan),
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_orphan_of_a_fork),
        cmocka_unit_test(test_forks_meanwhile),
    };
    return cmocka_run_group_tests_name("base/process", tests, NULL, NULL);
}
