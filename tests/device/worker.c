/* The background thread of a device, and a fork, which has none. */
#define _POSIX_C_SOURCE 200809L
#include "device/worker.h"

#include "device/device.h"

#include <mica/mica.h>

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

/* In the fork: a run that never ends gives errors, and can be closed around. */
static void close_in_fork(mica_device *device, mica_scope *s, mica_array x) {
    alarm(60);
    bool right = mica_wait(s) == MICA_EDEVICE && mica_wait(s) == MICA_EDEVICE &&
                 mica_eval(s, x) == MICA_EDEVICE;
    mica_scope_close(&s);
    mica_device_close(&device);
    _exit(right && !s && !device ? 0 : 1);
}

/* A program that doubles its parameter "x". */
static mica_executable *open_doubler(mica_device *device) {
    mica_scope *s;
    mica_program *p;
    mica_executable *x;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array param = mica_program_param(s, MICA_F32, (const int64_t[]){1}, 1);
    mica_array y = mica_add(s, param, param);
    const mica_param params[] = {{.name = "x", .array = param}};
    assert_int_equal(mica_program_build(s, params, 1, &y, 1, NULL, &p), MICA_OK);
    assert_int_equal(mica_executable_open(p, NULL, &x), MICA_OK);
    mica_program_close(&p);
    mica_scope_close(&s);
    return x;
}

/* In the fork: neither another run nor the one that is queued. */
static void run_in_fork(mica_executable *x, const mica_input *input, mica_ticket *ticket) {
    const void *slots[] = {input->data};
    alarm(60);
    bool right = mica_executable_run(x, input, 1, NULL, NULL) == MICA_EDEVICE &&
                 mica_executable_run_slots(x, slots, 1) == MICA_EDEVICE &&
                 mica_ticket_wait(&ticket, NULL, NULL) == MICA_EDEVICE &&
                 mica_executable_run(x, input, 1, NULL, NULL) == MICA_EDEVICE;
    mica_executable_close(&x);
    _exit(right && !ticket && !x ? 0 : 1);
}

static void test_a_fork_runs_nothing(void **state) {
    (void)state;
    int fds[2], status = -1;
    mica_device *device;
    mica_ticket *ticket;
    const float data[] = {2};
    const mica_input input = {.name = "x", .data = data, .bytes = sizeof data, .dtype = MICA_F32};
    assert_int_equal(pipe(fds), 0);
    reading r = {.job.run = read_byte, .fd = fds[0]};
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    mica_executable *x = open_doubler(device);
    assert_int_equal(mc_worker_submit(&device->worker, &r.job), MICA_OK);
    assert_int_equal(mica_executable_run_async(x, &input, 1, &ticket), MICA_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) run_in_fork(x, &input, ticket);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(mc_worker_wait(&device->worker, &r.job), MICA_OK);
    assert_int_equal(mica_ticket_wait(&ticket, NULL, NULL), MICA_OK);
    mica_executable_close(&x);
    mica_device_close(&device);
    close(fds[0]);
    close(fds[1]);
}

static void test_a_fork_closes_a_device(void **state) {
    (void)state;
    int fds[2], status = -1;
    double sum = 0;
    mica_device *device;
    mica_scope *s;
    const mica_device_options options = {.threads = 3};
    assert_int_equal(pipe(fds), 0);
    reading r = {.job.run = read_byte, .fd = fds[0]};
    assert_int_equal(mica_device_open("cpu", &options, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array x = mica_sum(s, mica_arange(s, 0, 100, 1, MICA_F32), NULL, 0, false);
    assert_int_equal(mc_worker_submit(&device->worker, &r.job), MICA_OK);
    assert_int_equal(mica_eval_async(s, &x, 1), MICA_OK); /* behind the one that reads */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) close_in_fork(device, s, x);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(mc_worker_wait(&device->worker, &r.job), MICA_OK);
    assert_int_equal(mica_item_f64(x, &sum), MICA_OK);
    assert_float_equal(sum, 4950, 0);
    mica_scope_close(&s);
    mica_device_close(&device);
    close(fds[0]);
    close(fds[1]);
}

/* A fork from before the first job, too: it may happen while the thread starts. */
static void test_a_fork_before_the_thread(void **state) {
    (void)state;
    int status = -1;
    mc_worker w;
    assert_int_equal(mc_worker_init(&w), MICA_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        mc_job job = {.run = read_byte};
        alarm(60);
        bool right = mc_worker_submit(&w, &job) == MICA_EDEVICE;
        mc_worker_deinit(&w);
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    mc_worker_deinit(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs_run_in_order),
        cmocka_unit_test(test_a_fork_waits_for_nothing),
        cmocka_unit_test(test_a_fork_before_the_thread),
        cmocka_unit_test(test_a_fork_runs_nothing),
        cmocka_unit_test(test_a_fork_closes_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
