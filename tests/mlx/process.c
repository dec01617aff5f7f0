/* The device mlx and the process around it: what stays of closed devices, forks, the end of the
 * process while MLX computes, and a library that is unloaded. */
#define _GNU_SOURCE /* environ */
#include <mica/mica.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

extern char **environ;

static char *self; /* the program, which is started again for what ends a process */

static mica_device *open_device(void) {
    mica_device *device;
    if (mica_device_open("mlx:cpu", NULL, &device) != MICA_OK) fail_msg("%s", mica_last_error());
    return device;
}

/* So many products of n by n matrices, one of the other. */
static mica_array products(mica_scope *s, int64_t n, int count) {
    mica_array x = mica_divide(s, mica_arange(s, 0, (double)(n * n), 1, MICA_F32),
                               mica_f32(s, (float)(n * n * n)));
    x = mica_reshape(s, x, (const int64_t[]){n, n}, 2);
    mica_array y = x;
    for (int i = 0; i < count; i++)
        y = mica_matmul(s, y, x);
    return y;
}

/* Starts this program again, and returns how it ended. */
static int run_self(const char *what, const char *argument) {
    pid_t pid;
    int status = -1;
    char *const argv[] = {self, (char *)(uintptr_t)what, (char *)(uintptr_t)argument, NULL};
    assert_int_equal(posix_spawn(&pid, self, NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* ---- what stays ---- */

static size_t count_threads(void) {
    return test_count_entries("/proc/self/task");
}

/* MLX keeps the threads of streams: it must not get new ones each time. */
static void test_closed_devices_leave_no_threads(void **state) {
    (void)state;
    if (access("/proc/self/task", R_OK) != 0) skip();
    size_t settled = 0;
    for (int i = 0; i < 6; i++) {
        mica_device *device = open_device();
        mica_scope *s;
        assert_int_equal(mica_scope_open(device, &s), MICA_OK);
        assert_int_equal(mica_eval(s, products(s, 40, 2)), MICA_OK);
        mica_scope_close(&s);
        assert_int_equal(mica_device_active_bytes(device), 0);
        mica_device_close(&device);
        if (i == 0) settled = count_threads();
        assert_int_equal(count_threads(), settled);
    }
}

/* ---- forks ---- */

/* A fork is told what it cannot have. */
static void use_in_fork(mica_scope *s) {
    mica_device *device;
    alarm(60);                         /* instead of waiting for ever */
    mica_status status = mica_wait(s); /* it may have been over before the fork */
    bool right = (status == MICA_OK || status == MICA_EDEVICE) &&
                 mica_device_open("mlx:cpu", NULL, &device) == MICA_EDEVICE &&
                 strstr(mica_last_error(), "fork") &&
                 mica_device_available("mlx:cpu") == MICA_EDEVICE;
    _exit(right ? 0 : 1);
}

/* OpenBLAS waits for ever for a thread that multiplies while the process forks. */
static void test_forks_while_it_computes(void **state) {
    (void)state;
    mica_device *device = open_device();
    alarm(250);
    for (int i = 0; i < 3; i++) {
        mica_scope *s;
        int status = -1;
        double value;
        assert_int_equal(mica_scope_open(device, &s), MICA_OK);
        mica_array x = products(s, 400, 20);
        assert_int_equal(mica_eval_async(s, &x, 1), MICA_OK);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) use_in_fork(s);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_int_equal(mica_item_f64(mica_sum(s, x, NULL, 0, false), &value), MICA_OK);
        mica_scope_close(&s);
    }
    alarm(0);
    mica_device_close(&device);
}

/* MLX is loaded, and no device was opened: forks, and the end. */
static int look_and_fork(void) {
    int status = -1;
    alarm(60);
    if (mica_device_available("mlx:cpu") != MICA_OK) return 1;
    pid_t child = fork();
    if (child == 0) _exit(mica_device_available("mlx:cpu") == MICA_EDEVICE ? 0 : 2);
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 3;
}

static void test_a_look_at_the_device(void **state) {
    (void)state;
    assert_int_equal(run_self("look", ""), 0);
}

/* ---- the end ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int evaluations;
static bool failed;

static void *compute_for_ever(void *context) {
    mica_device *device = context;
    mica_status status = MICA_OK;
    while (status == MICA_OK) {
        mica_scope *s = NULL;
        status = mica_scope_open(device, &s);
        if (status == MICA_OK) status = mica_eval(s, products(s, 50, 30));
        mica_scope_close(&s);
        pthread_mutex_lock(&lock);
        evaluations++;
        failed = failed || status != MICA_OK;
        pthread_cond_signal(&more);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* Ends while three threads compute, after so many evaluations. */
static int end_meanwhile(const char *count) {
    pthread_t thread;
    mica_device *device = open_device();
    for (int i = 0; i < 3; i++)
        if (pthread_create(&thread, NULL, compute_for_ever, device) != 0) return 1;
    pthread_mutex_lock(&lock);
    while (evaluations < atoi(count) && !failed)
        pthread_cond_wait(&more, &lock);
    bool wrong = failed;
    pthread_mutex_unlock(&lock);
    return wrong;
}

static void test_the_process_ends_while_it_computes(void **state) {
    (void)state;
    const char *const modes[] = {"lazy", "compiled"};
    setenv("LSAN_OPTIONS", "detect_leaks=0", 1); /* what is at work when the process ends is none */
    for (int i = 0; i < 40; i++) {
        char after[16];
        snprintf(after, sizeof after, "%d", 1 + i / 2);
        setenv("MICA_MLX_MODE", modes[i % 2], 1);
        assert_int_equal(run_self("end", after), 0);
    }
    unsetenv("MICA_MLX_MODE");
    unsetenv("LSAN_OPTIONS");
}

/* ---- unloading ---- */

#define FUNCTION(name) \
    __typeof__(name) *p_##name = (__typeof__(name) *)(uintptr_t)dlsym(library, #name)

/* Loads the shared library, computes on MLX, and unloads it again. */
static int load_and_unload(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    mica_device *device;
    mica_scope *s;
    double value;
    if (!library) return 1;
    FUNCTION(mica_device_open);
    FUNCTION(mica_scope_open);
    FUNCTION(mica_arange);
    FUNCTION(mica_sum);
    FUNCTION(mica_item_f64);
    FUNCTION(mica_scope_close);
    FUNCTION(mica_device_close);
    if (p_mica_device_open("mlx:cpu", NULL, &device) != MICA_OK) return 2;
    if (p_mica_scope_open(device, &s) != MICA_OK) return 3;
    mica_array x = p_mica_arange(s, 0, 100, 1, MICA_F32);
    if (p_mica_item_f64(p_mica_sum(s, x, NULL, 0, false), &value) != MICA_OK) return 4;
    p_mica_scope_close(&s);
    p_mica_device_close(&device);
    dlclose(library);
    return value == 4950 ? 0 : 5;
}

/* The thread goes on: its code must stay. */
static int unload_twice(const char *path) {
    for (int i = 0; i < 2; i++) {
        int wrong = load_and_unload(path);
        if (wrong) return wrong;
        void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
        if (!library) return 6;
        dlclose(library);
    }
    return 0;
}

static void test_the_library_is_unloaded(void **state) {
    (void)state;
    assert_int_equal(run_self("unload", MICA_SHARED_LIBRARY), 0);
}

int main(int argc, char **argv) {
    self = argv[0];
    setenv("OPENBLAS_NUM_THREADS", "2", 1);
    if (argc == 3 && strcmp(argv[1], "end") == 0) return end_meanwhile(argv[2]);
    if (argc == 3 && strcmp(argv[1], "look") == 0) return look_and_fork();
    if (argc == 3 && strcmp(argv[1], "unload") == 0) return unload_twice(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_devices_leave_no_threads),
        cmocka_unit_test(test_forks_while_it_computes),
        cmocka_unit_test(test_a_look_at_the_device),
        cmocka_unit_test(test_the_process_ends_while_it_computes),
        cmocka_unit_test(test_the_library_is_unloaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
