/* What kernels make once of constants, such as panels of weights: the bits are those without, sizes
 * of one program and executables share it, it counts as the device's memory and goes with the last
 * one; where there is no memory for it kernels do without. */
#include <mica/mica.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "exec/expect.h"

enum { C = 20, N = 40, ROWS = 18 };
#define SHAPE(...) (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8

static mica_device *device;
static mica_scope *s;

static int open_all(void **state) {
    (void)state;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &device), 0);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    mica_scope_close(&s);
    assert_int_equal(mica_device_active_bytes(device), 0);
    assert_null(device->prepared);
    mica_device_close(&device);
    return 0;
}

static mica_array numbers(mica_scope *to, uint32_t seed, const int64_t *shape, int ndim) {
    size_t n = 1;
    for (int k = 0; k < ndim; k++)
        n *= (size_t)shape[k];
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 16) / 65536 - 0.5f;
    }
    mica_array made = mica_from_data(to, x, MICA_F32, shape, ndim);
    free(x);
    return made;
}

/* Filters of 3 x 3, of each channel, of groups and of 1 x 1. */
static mica_array net(mica_scope *to, mica_array x) {
    const mica_conv_options same = {.padding_lo = {1, 1}, .padding_hi = {1, 1}};
    mica_conv_options own = same, two = same;
    own.groups = N;
    two.groups = 2;
    x = mica_conv_general(to, x, numbers(to, 1, SHAPE(N, 3, 3, C)), &same);
    x = mica_conv_general(to, x, numbers(to, 2, SHAPE(N, 3, 3, 1)), &own);
    x = mica_conv_general(to, x, numbers(to, 3, SHAPE(N, 3, 3, N / 2)), &two);
    x = mica_maximum(to, x, mica_f32(to, 0));
    return mica_conv_general(to, x, numbers(to, 4, SHAPE(C, 1, 1, N)), NULL);
}

/* The net, of any number of images. */
static mica_program *record(void) {
    mica_scope *to;
    mica_program *p;
    must(mica_scope_open(device, &to));
    const int64_t n = mica_program_dim(to, "n");
    mica_array x = mica_program_param(to, MICA_F32, SHAPE(n, ROWS, ROWS, C)), y = net(to, x);
    const mica_param param = {.name = "x", .array = x};
    must(mica_program_build(to, &param, 1, &y, 1, NULL, &p));
    mica_scope_close(&to);
    return p;
}

static mica_array run(mica_executable *x, int64_t images) {
    mica_array y;
    const mica_input in = {.name = "x", .array = numbers(s, 9, SHAPE(images, ROWS, ROWS, C))};
    must(mica_executable_run(x, &in, 1, s, &y));
    return y;
}

static void expect_bits(mica_array x, mica_array y) {
    size_t bytes = (size_t)mica_array_bytes(x);
    char *a = malloc(bytes), *b = malloc(bytes);
    assert_true(a && b && bytes == (size_t)mica_array_bytes(y));
    must(mica_read(x, a, bytes));
    must(mica_read(y, b, bytes));
    assert_memory_equal(a, b, bytes);
    free(a);
    free(b);
}

static mica_executable *open(const mica_program *p) {
    mica_executable *x;
    must(mica_executable_open(p, &(mica_executable_options){.mode = MICA_MODE_COMPILED}, &x));
    return x;
}

static void bits_are_those_without(void **state) {
    (void)state;
    mica_program *p = record();
    mica_executable *x = open(p);
    for (int64_t images = 1; images < 4; images++) {
        mica_array y = run(x, images);
        assert_non_null(device->prepared);
        expect_bits(y, net(s, numbers(s, 9, SHAPE(images, ROWS, ROWS, C))));
    }
    mica_executable_close(&x);
    mica_program_close(&p);
}

enum { SIZES = 3, THREADS = 4, RUNS = 6 };

typedef struct runner {
    pthread_t thread;
    const mica_program *program;
    mica_executable *clone;
    float *const *want; /* [SIZES] */
    int number;
    bool is_same;
} runner;

static bool gives(mica_executable *x, int64_t images, const float *want) {
    mica_scope *to;
    mica_array y;
    const size_t bytes = (size_t)(images * ROWS * ROWS * C) * sizeof *want;
    float *got = malloc(bytes);
    bool same = got && mica_scope_open(device, &to) == MICA_OK;
    if (!same) abort();
    const mica_input in = {.name = "x", .array = numbers(to, 9, SHAPE(images, ROWS, ROWS, C))};
    same = mica_executable_run(x, &in, 1, to, &y) == MICA_OK &&
           mica_read(y, got, bytes) == MICA_OK && memcmp(got, want, bytes) == 0;
    mica_scope_close(&to);
    free(got);
    return same;
}

/* Runs a clone of an executable that others have clones of, and some of its own, which go
 * meanwhile. */
static void *run_sizes(void *context) {
    runner *r = context;
    r->is_same = true;
    for (int i = 0; i < RUNS; i++) {
        const int64_t images = 1 + (i + r->number) % SIZES;
        mica_executable *own = NULL;
        r->is_same = r->is_same && mica_executable_open(r->program, NULL, &own) == MICA_OK &&
                     gives(own, images, r->want[images - 1]) &&
                     gives(r->clone, images, r->want[images - 1]);
        mica_executable_close(&own);
    }
    return NULL;
}

static void threads_share_it(void **state) {
    (void)state;
    mica_program *p = record();
    mica_executable *x = open(p);
    float *want[SIZES];
    runner runners[THREADS];
    for (int64_t n = 1; n <= SIZES; n++) {
        size_t bytes = (size_t)(n * ROWS * ROWS * C) * sizeof(float);
        want[n - 1] = malloc(bytes);
        assert_non_null(want[n - 1]);
        must(mica_read(net(s, numbers(s, 9, SHAPE(n, ROWS, ROWS, C))), want[n - 1], bytes));
    }
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (runner){.program = p, .want = want, .number = i};
        must(mica_executable_clone(x, &runners[i].clone));
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run_sizes, &runners[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(runners[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        mica_executable_close(&runners[i].clone);
        assert_true(runners[i].is_same);
    }
    for (int i = 0; i < SIZES; i++)
        free(want[i]);
    mica_executable_close(&x);
    mica_program_close(&p);
}

/* What is active beyond before, without the result, which is gone. */
static uint64_t more(uint64_t before) {
    must(mica_scope_collect(s, NULL, 0));
    return mica_device_active_bytes(device) - before;
}

static void sizes_share_it(void **state) {
    (void)state;
    mica_program *p = record();
    uint64_t before = mica_device_active_bytes(device);
    mica_executable *x = open(p), *other = open(p);
    assert_int_equal(more(before), 0);
    (void)run(x, 1);
    uint64_t once = more(before);
    assert_true(once >= (16 * N * C + 9 * N + 9 * N * N / 2 + C * N) * sizeof(float));
    (void)run(x, 2);
    assert_int_equal(more(before), once);
    (void)run(other, 3);
    assert_int_equal(more(before), once);
    mica_executable_close(&x);
    assert_int_equal(more(before), once);
    mica_executable_close(&other);
    assert_int_equal(more(before), 0);
    mica_program_close(&p);
}

/* The limit is what arrays have already: there is room for no more. */
static void without_memory_kernels_do_without(void **state) {
    (void)state;
    mica_program *open_one = record(), *p;
    must(mica_program_bind(open_one, &(mica_length){"n", 1}, 1, &p));
    (void)numbers(s, 5, SHAPE(1 << 20));
    uint64_t old = mica_device_set_memory_limit(device, mica_device_active_bytes(device));
    mica_executable *x = open(p);
    assert_null(device->prepared);
    mica_device_set_memory_limit(device, old);
    expect_bits(run(x, 1), net(s, numbers(s, 9, SHAPE(1, ROWS, ROWS, C))));
    assert_null(device->prepared);
    mica_executable_close(&x);
    mica_program_close(&p);
    mica_program_close(&open_one);
}

/* Whether the program, opened under one limit of what is active and more, runs under another. */
static bool runs_under(const mica_program *p, uint64_t open_more, uint64_t run_more) {
    const uint64_t active = mica_device_active_bytes(device);
    mica_scope *to;
    mica_array y;
    must(mica_scope_open(device, &to));
    const mica_input in = {.name = "x", .array = numbers(to, 9, SHAPE(1, ROWS, ROWS, C))};
    uint64_t old = mica_device_set_memory_limit(device, active + open_more);
    mica_executable *x = open(p);
    mica_device_set_memory_limit(device, active + run_more);
    mica_status status = mica_executable_run(x, &in, 1, to, &y);
    mica_device_set_memory_limit(device, old);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    mica_executable_close(&x);
    mica_scope_close(&to);
    return status == MICA_OK;
}

/* Where a run has its memory without what kernels make, it has it with that. */
static void runs_keep_their_memory(void **state) {
    (void)state;
    mica_program *open_one = record(), *p;
    must(mica_program_bind(open_one, &(mica_length){"n", 1}, 1, &p));
    (void)numbers(s, 5, SHAPE(1 << 20)); /* by itself a run fits into each limit */
    int without = 0, before = 0;
    for (uint64_t more = 1 << 16; more < 1 << 21; more += 1 << 14) {
        bool had = runs_under(p, 0, more);
        assert_true(!had || runs_under(p, more, more));
        without += had;
        before += !had;
    }
    assert_true(without > 0 && before > 0);
    mica_program_close(&p);
    mica_program_close(&open_one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bits_are_those_without, open_all, close_all),
        cmocka_unit_test_setup_teardown(threads_share_it, open_all, close_all),
        cmocka_unit_test_setup_teardown(sizes_share_it, open_all, close_all),
        cmocka_unit_test_setup_teardown(without_memory_kernels_do_without, open_all, close_all),
        cmocka_unit_test_setup_teardown(runs_keep_their_memory, open_all, close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
