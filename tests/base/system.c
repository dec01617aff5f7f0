/* base/system and mc_cpu_count: what can be said on any machine. */
#define _POSIX_C_SOURCE 200809L

#include "base/system.h"

#include "base/pool.h"
#include "support/support.h"

#include <signal.h>

static void test_clock_does_not_go_back(void **state) {
    (void)state;
    uint64_t before = mc_now_us();
    for (int i = 0; i < 10000; i++) {
        uint64_t now = mc_now_us();
        assert_true(now >= before);
        before = now;
    }
}

static void test_machine(void **state) {
    (void)state;
    assert_in_range(mc_cpu_count(), 1, 100000);
    assert_in_range(mc_memory_bytes(), 16u << 20, UINT64_C(1) << 50);
}

static void *find_open_signal(void *context) {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    *(int *)context = sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGTERM) ? 0 : SIGINT;
    return NULL;
}

static void test_threads_leave_signals_to_the_program(void **state) {
    (void)state;
    pthread_t thread;
    int open = -1;
    assert_int_equal(mc_thread_start(&thread, find_open_signal, &open), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(open, 0);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    assert_int_equal(sigismember(&blocked, SIGINT), 0); /* the caller's are as they were */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_does_not_go_back),
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_threads_leave_signals_to_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
