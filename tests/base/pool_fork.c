/* base/pool in a fork. */
#define _POSIX_C_SOURCE 200809L

#include "base/pool.h"

#include "support/support.h"

#include <sys/wait.h>
#include <unistd.h>

static void add_one(void *context, int begin, int end, int worker) {
    (void)worker;
    for (int *done = context; begin < end; begin++)
        done[begin]++;
}

/* It has no workers to wait for. */
static void test_a_fork_closes(void **state) {
    (void)state;
    int status = -1, done[7] = {0};
    mc_pool *pool;
    assert_int_equal(mc_pool_open(3, &pool), MICA_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60); /* instead of waiting for ever */
        mc_pool_close(&pool);
        _exit(pool ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    mc_pool_run(pool, 7, add_one, done);
    for (int i = 0; i < 7; i++)
        assert_int_equal(done[i], 1);
    mc_pool_close(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_fork_closes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
