/* The background thread of a device, and a fork, which has none. */
#define _POSIX_C_SOURCE 200809L
#include "device/worker.h"

#include <mica/status.h>

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

typedef struct counting {
    mc_job job; /* first */
    int *count, seen;
} counting;

static void count(mc_job *job) {
    counting *c = (counting *)(void *)job;
    c->seen = (*c->count)++;
}

static void test_jobs_run_in_order(void **state) {
    (void)state;
    enum { N = 50 };
    mc_worker w;
    counting jobs[N];
    int n = 0;
    assert_int_equal(mc_worker_init(&w), MICA_OK);
    for (int i = 0; i < N; i++) {
        jobs[i] = (counting){.job.run = count, .count = &n};
        assert_int_equal(mc_worker_submit(&w, &jobs[i].job), MICA_OK);
    }
    assert_int_equal(mc_worker_wait(&w, &jobs[N - 1].job), MICA_OK);
    for (int i = 0; i < N; i++) {
        assert_true(mc_worker_is_done(&w, &jobs[i].job));
        assert_int_equal(jobs[i].seen, i);
    }
    jobs[0] = (counting){.job.run = count, .count = &n};
    assert_int_equal(mc_worker_submit(&w, &jobs[0].job), MICA_OK);
    mc_worker_deinit(&w); /* finishes what waits */
    assert_int_equal(n, N + 1);
}

typedef struct reading {
    mc_job job; /* first */
    int fd;
} reading;

static void read_byte(mc_job *job) {
    char byte;
    while (read(((reading *)(void *)job)->fd, &byte, 1) < 0) {}
}

/* In the fork, while the parent's thread is at work. */
static void use_in_fork(mc_worker *w, mc_job *running) {
    mc_job another = {.run = read_byte};
    alarm(60); /* instead of waiting for ever */
    bool right = !mc_worker_is_done(w, running) && mc_worker_wait(w, running) == MICA_EDEVICE &&
                 strstr(mica_last_error(), "fork") != NULL &&
                 mc_worker_submit(w, &another) == MICA_EDEVICE;
    mc_worker_deinit(w);
    _exit(right ? 0 : 1);
}

static void test_a_fork_waits_for_nothing(void **state) {
    (void)state;
    int fds[2], status = -1;
    mc_worker w;
    assert_int_equal(pipe(fds), 0);
    reading r = {.job.run = read_byte, .fd = fds[0]};
    assert_int_equal(mc_worker_init(&w), MICA_OK);
    assert_int_equal(mc_worker_submit(&w, &r.job), MICA_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) use_in_fork(&w, &r.job);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(mc_worker_wait(&w, &r.job), MICA_OK); /* the thread is still there */
    mc_worker_deinit(&w);
    close(fds[0]);
    close(fds[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs_run_in_order),
        cmocka_unit_test(test_a_fork_waits_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
