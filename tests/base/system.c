/* base/system and mc_cpu_count: what can be said on any machine. */
#define _POSIX_C_SOURCE 200809L

#include "base/system.h"

#include "base/alloc.h"
#include "base/pool.h"
#include "support/support.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_clock_does_not_go_back(void **state) {
    (void)state;
    uint64_t before = mc_now_us();
    for (int i = 0; i < 10000; i++) {
        uint64_t now = mc_now_us();
        assert_true(now >= before);
        before = now;
    }
}

static void test_calendar(void **state) {
    (void)state;
    struct tm now;
    time_t before = time(NULL);
    assert_true(mc_local_time(&now));
    time_t told = mktime(&now);
    assert_true(told >= before && told <= time(NULL));
}

static void test_machine(void **state) {
    (void)state;
    assert_in_range(mc_cpu_count(), 1, 100000);
    assert_in_range(mc_core_count(), 1, mc_cpu_count());
    assert_in_range(mc_memory_bytes(), 16u << 20, UINT64_C(1) << 50);
}

static long wanted_page; /* bytes; 0: any */

static void test_page(void **state) {
    (void)state;
    long page = sysconf(_SC_PAGESIZE);
    assert_true(page >= 4096 && (page & (page - 1)) == 0);
    if (wanted_page > 0) assert_int_equal(page, wanted_page);
}

static void *get_blocked(void *context) {
    pthread_sigmask(SIG_SETMASK, NULL, context);
    return NULL;
}

/* All of it can be written, with any page size, and a failure gives NULL. */
static void test_tables(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 4096, ((size_t)2 << 20) - 1, (size_t)2 << 20, 5000001};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *table = mc_table_alloc(sizes[i]);
        assert_non_null(table);
        memset(table, 0xA5, sizes[i]);
        assert_int_equal(table[sizes[i] - 1], 0xA5);
        mc_free(table);
        mc_alloc_fail_at(1);
        table = mc_table_alloc(sizes[i]);
        mc_alloc_fail_at(0);
        assert_null(table);
    }
}

/* Only the pages change, wherever the memory begins. */
static void test_large_pages(void **state) {
    (void)state;
    enum { BYTES = 7 << 20 };
    unsigned char *memory = mc_alloc(BYTES);
    assert_non_null(memory);
    memset(memory, 0x5A, BYTES);
    static const size_t begins[] = {0, 1, 4096, 3000001, BYTES - 1};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        mc_prefer_large_pages(memory + begins[i], BYTES - begins[i]);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(memory[i], 0x5A);
    mc_free(memory);
}

/* But those of their own faults, which would end the program without its handler. */
static void test_threads_leave_signals_to_the_program(void **state) {
    static const int left[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGALRM, SIGCHLD};
    static const int faults[] = {SIGBUS, SIGSEGV, SIGILL, SIGFPE};
    (void)state;
    pthread_t thread;
    sigset_t blocked;
    sigemptyset(&blocked);
    assert_int_equal(mc_thread_start(&thread, get_blocked, &blocked), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        assert_int_equal(sigismember(&blocked, left[i]), 1);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        assert_int_equal(sigismember(&blocked, faults[i]), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    assert_int_equal(sigismember(&blocked, SIGINT), 0); /* the caller's are as they were */
}

/* ---- stacks ---- */

static const char *program;
enum { OTHER_MACHINE = 77 };

/* As deep as JSON and patterns may ask for: 4 kB a level. */
static int descend(int levels) {
    volatile char room[4096];
    room[0] = (char)levels;
    room[4095] = levels > 0 ? (char)descend(levels - 1) : 0;
    return room[0] + room[4095];
}

static void *use_stack(void *context) {
    *(int *)context = descend(500);
    return context;
}

static int run_deep_thread(void) {
    pthread_t thread;
    int sum;
    return mc_thread_start(&thread, use_stack, &sum) != 0 || pthread_join(thread, NULL) != 0;
}

/* A program whose limit is as low as that of threads on other systems, which its own take over. */
static void test_threads_have_room(void **state) {
    (void)state;
    int status = -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit;
        getrlimit(RLIMIT_STACK, &limit);
        limit.rlim_cur = 512 << 10;
        setrlimit(RLIMIT_STACK, &limit);
        execl(program, program, "system", "deep", (char *)NULL);
        _exit(errno == ENOEXEC ? OTHER_MACHINE : 2);
    }
    assert_true(waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == OTHER_MACHINE) skip(); /* an emulator runs us, and starts no other */
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* page BYTES: the system's pages must have as many. deep: a part of a test. */
int main(int argc, char **argv) {
    program = argv[0];
    if (argc == 2 && strcmp(argv[1], "deep") == 0) return run_deep_thread();
    if (argc == 3 && strcmp(argv[1], "page") == 0) wanted_page = strtol(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_does_not_go_back),
        cmocka_unit_test(test_calendar),
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_page),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_large_pages),
        cmocka_unit_test(test_threads_leave_signals_to_the_program),
        cmocka_unit_test(test_threads_have_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
