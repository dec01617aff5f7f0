/* The device cuda on the emulated driver (emulated.cpp): opening it, faults of kernels, and calls
 * of the driver that fail. */
#define _POSIX_C_SOURCE 200809L
#include <mica/mica.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "exec/cache.h"
#include "exec/program.h"
#include "exec/read.h"
#include "support/support.h"

static uint64_t (*emulated_calls)(void);
static int64_t (*emulated_living)(void);
static void (*emulated_fail_at)(uint64_t n);
static uint64_t (*emulated_graphs)(void);
static uint64_t (*emulated_pending)(void);

static void expect_refused(const char *name, const char *part) {
    mica_device *device;
    assert_int_equal(mica_device_open(name, NULL, &device), MICA_EDEVICE);
    assert_null(device);
    if (!strstr(mica_last_error(), part))
        fail_msg("\"%s\" does not say \"%s\"", mica_last_error(), part);
    assert_int_equal(mica_device_available(name), MICA_EDEVICE);
}

/* The first test: a driver that was found stays loaded. */
static void test_what_is_missing_is_said(void **state) {
    (void)state;
    setenv("MICA_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
    expect_refused("cuda", "there is no driver of NVIDIA's here (/nowhere/libcuda.so.1)");
    setenv("MICA_CUDA_LIBRARY", MICA_OTHER_LIBRARY, 1);
    expect_refused("cuda", "the driver has no cuInit");
    setenv("MICA_CUDA_LIBRARY", MICA_EMULATED_DRIVER, 1);
    expect_refused("cuda:1", "there is no \"cuda:1\"; there are 1");
    expect_refused("cuda:x", "there is no \"cuda:x\"");
}

static int find_functions(void **state) {
    (void)state;
    void *handle = dlopen(MICA_EMULATED_DRIVER, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return -1;
    *(void **)&emulated_calls = dlsym(handle, "emulated_calls");
    *(void **)&emulated_living = dlsym(handle, "emulated_living");
    *(void **)&emulated_fail_at = dlsym(handle, "emulated_fail_at");
    *(void **)&emulated_graphs = dlsym(handle, "emulated_graphs");
    *(void **)&emulated_pending = dlsym(handle, "emulated_pending");
    return emulated_calls && emulated_living && emulated_fail_at && emulated_graphs &&
                   emulated_pending
               ? 0
               : -1;
}

static void test_a_device_is_described(void **state) {
    (void)state;
    mica_device *device;
    mica_device_info info = {.struct_bytes = sizeof info};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mica_device_open("cuda", NULL, &device), MICA_OK);
        mica_device_get_info(device, &info);
        assert_string_equal(info.name, "cuda:0");
        assert_string_equal(info.architecture, "sm_90");
        assert_int_equal(info.unified_memory, 0);
        assert_int_equal(info.memory_bytes, UINT64_C(8) << 30);
        mica_device_close(&device);
    }
    assert_int_equal(emulated_living(), 0);
}

/* 1 + 2 + 3 + 4 of an array that was uploaded, and a row of it. */
static mica_status compute(mica_device *device, int32_t row, float *sum, float *picked) {
    static const float data[] = {1, 2, 3, 4};
    static const int64_t shape[] = {2, 2}, none[] = {1};
    mica_scope *s;
    mica_status status = mica_scope_open(device, &s);
    if (status != MICA_OK) return status;
    mica_array x = mica_from_data(s, data, MICA_F32, shape, 2);
    mica_array all = mica_sum(s, x, NULL, 0, false);
    mica_array one = mica_take(s, x, mica_from_data(s, &row, MICA_I32, none, 1), 0);
    status = mica_read(all, sum, sizeof *sum);
    if (status == MICA_OK) status = mica_read(one, picked, 2 * sizeof *picked);
    mica_scope_close(&s);
    return status;
}

static void test_faults_are_told_at_the_wait(void **state) {
    (void)state;
    mica_device *device;
    float sum, picked[2];
    assert_int_equal(mica_device_open("cuda", NULL, &device), MICA_OK);
    assert_int_equal(compute(device, -1, &sum, picked), MICA_OK);
    assert_true(sum == 10 && picked[0] == 3 && picked[1] == 4);
    assert_int_equal(compute(device, 2, &sum, picked), MICA_EINVAL);
    assert_string_equal(mica_last_error(), "take: index 2 is outside axis 0, which has 2 elements");
    assert_int_equal(compute(device, 0, &sum, picked), MICA_OK);
    assert_true(picked[0] == 1);
    assert_int_equal(mica_device_fallback_ops(device), 0);
    mica_device_close(&device);
    assert_int_equal(emulated_living(), 0);
}

/* Of x = {1, 2, 3, 4}: the sum of sqrt(((x - x + x) * by)^2) + by, and row `row` of that. */
static mica_status compute_more(mica_device *device, float by, int32_t row, float *sum,
                                float *picked) {
    static const float data[] = {1, 2, 3, 4};
    static const int64_t shape[] = {2, 2}, one[] = {1};
    mica_scope *s;
    mica_status status = mica_scope_open(device, &s);
    if (status != MICA_OK) return status;
    mica_array x = mica_from_data(s, data, MICA_F32, shape, 2), y = x, k = mica_f32(s, by);
    for (int i = 0; i < 2; i++)
        y = mica_add(s, mica_subtract(s, y, x), x);
    y = mica_add(s, mica_sqrt(s, mica_square(s, mica_multiply(s, y, k))), k);
    mica_array results[] = {
        mica_sum(s, y, NULL, 0, false),
        mica_take(s, y, mica_from_data(s, &row, MICA_I32, one, 1), 0),
    };
    status = mica_eval_n(s, results, 2);
    if (status == MICA_OK) status = mica_read(results[0], sum, sizeof *sum);
    if (status == MICA_OK) status = mica_read(results[1], picked, 2 * sizeof *picked);
    mica_scope_close(&s);
    return status;
}

/* A launch that is repeated is a graph, which has each launch's numbers and addresses, and tells
 * its faults. */
static void test_repeated_launches_are_graphs(void **state) {
    (void)state;
    mica_device *device;
    float sum, picked[2];
    const uint64_t before = emulated_graphs();
    assert_int_equal(mica_device_open("cuda", NULL, &device), MICA_OK);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(compute_more(device, (float)i, i % 2, &sum, picked), MICA_OK);
        assert_true(sum == (float)(14 * i));
        assert_true(picked[0] == (float)((i % 2 ? 4 : 2) * i));
        if (i == 5) {
            assert_int_equal(compute_more(device, 1, 2, &sum, picked), MICA_EINVAL);
            assert_string_equal(mica_last_error(),
                                "take: index 2 is outside axis 0, which has 2 elements");
        }
    }
    assert_int_equal(emulated_graphs() - before, 7);
    mica_device_close(&device);
    assert_int_equal(emulated_living(), 0);
}

/* y = x + x of 4 numbers. */
static mica_program *doubling(mica_device *device) {
    static const int64_t shape[] = {4};
    mica_program *program;
    mica_scope *s;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_param x = {.name = "x", .array = mica_program_param(s, MICA_F32, shape, 1)};
    mica_array y = mica_add(s, x.array, x.array);
    assert_int_equal(mica_program_build(s, &x, 1, &y, 1, NULL, &program), MICA_OK);
    mica_scope_close(&s);
    return program;
}

/* What a launch left that is over is read while those behind it are not begun; whatever else is
 * read comes behind all of them. */
static void test_reads_do_not_wait_for_later_launches(void **state) {
    (void)state;
    static const float data[] = {1, 2, 3, 4};
    static const int64_t shape[] = {4};
    float got[4];
    mica_device *device;
    mica_scope *s;
    assert_int_equal(mica_device_open("cuda", NULL, &device), MICA_OK);
    mica_program *program = doubling(device);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    for (int i = 0; i < 5; i++) { /* the later ones are graphs */
        mica_array x = mica_from_data(s, data, MICA_F32, shape, 1), y, z;
        mc_fence first, second;
        assert_int_equal(mc_program_launch(program, s, &x, &y, &first), MICA_OK);
        assert_int_equal(mc_program_launch(program, s, &y, &z, &second), MICA_OK);
        assert_int_equal(mc_device_wait(device, first), MICA_OK);
        uint64_t left = emulated_pending();
        assert_true(left > 0);
        assert_int_equal(mc_read_part(y, 4, got, 12), MICA_OK);
        assert_true(got[0] == 4 && got[1] == 6 && got[2] == 8);
        assert_int_equal(emulated_pending(), left);
        assert_int_equal(mica_read(z, got, sizeof got), MICA_OK);
        assert_true(got[0] == 4 && got[3] == 16);
        assert_int_equal(emulated_pending(), 0);
        assert_int_equal(mc_device_wait(device, second), MICA_OK);
        x = mica_from_data(s, got, MICA_F32, shape, 1); /* that a copy left */
        assert_int_equal(mc_read_part(x, 0, got, sizeof got), MICA_OK);
        assert_true(got[0] == 4 && got[3] == 16);
    }
    mica_scope_close(&s);
    mica_program_close(&program);
    mica_device_close(&device);
    assert_int_equal(emulated_living(), 0);
}

static mica_status read_back(mica_device *device, float *picked) {
    static const float data[] = {1, 2};
    static const int64_t shape[] = {2};
    mica_scope *s;
    mica_status status = mica_scope_open(device, &s);
    if (status != MICA_OK) return status;
    mica_array x = mica_from_data(s, data, MICA_F32, shape, 1);
    status = mica_scope_status(s);
    if (status == MICA_OK) status = mc_read_part(x, 0, picked, sizeof data);
    mica_scope_close(&s);
    return status;
}

/* Whichever call of the driver fails, it is a status, and nothing is left. */
static void test_calls_that_fail(void **state) {
    (void)state;
    uint64_t failed = 0;
    for (uint64_t n = 1;; n++) {
        mica_device *device;
        float sum, picked[2];
        emulated_fail_at(n);
        mica_status status = mica_device_open("cuda", NULL, &device);
        if (status == MICA_OK) status = compute(device, 0, &sum, picked);
        if (status == MICA_OK) status = read_back(device, picked);
        for (int i = 0; i < 4 && status == MICA_OK; i++)
            status = compute_more(device, (float)i, 0, &sum, picked);
        mica_device_close(&device);
        uint64_t calls = emulated_calls();
        emulated_fail_at(0);
        assert_int_equal(emulated_living(), 0);
        if (calls < n) break;
        if (status == MICA_OK) continue; /* the end of something */
        assert_true(status == MICA_EDEVICE || status == MICA_ENOMEM);
        assert_true(mica_last_error()[0] != '\0');
        failed++;
    }
    assert_true(failed > 20);
}

/* Sums of rows of n numbers, in enough steps for a graph. */
static void sum_rows(mica_device *device, int64_t n) {
    mica_scope *s;
    float sum;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array x = mica_full(s, &n, 1, mica_f32(s, 1.0f));
    assert_int_equal(mica_eval(s, x), MICA_OK);
    for (int i = 0; i < 6; i++) {
        mica_array all = mica_sum(s, x, NULL, 0, true);
        x = mica_multiply(s, x, mica_rsqrt(s, mica_multiply(s, all, all)));
    }
    x = mica_sum(s, x, NULL, 0, false);
    assert_int_equal(mica_read(x, &sum, sizeof sum), MICA_OK);
    mica_scope_close(&s);
}

/* What is noted of launches counts against the limit of the cache of graphs: those that run no
 * more go with their notes. */
static void test_notes_of_launches_are_bounded(void **state) {
    enum { LENGTHS = 40, LAUNCHES = 5, KEPT = 8 };
    (void)state;
    mica_device *device;
    assert_int_equal(mica_device_open("cuda", NULL, &device), MICA_OK);
    uint64_t before = emulated_graphs();
    mc_graph_cache *cache = mc_graph_cache_of(device);
    sum_rows(device, 9);
    size_t bare = cache->bytes;
    for (int i = 0; i < LAUNCHES; i++)
        sum_rows(device, 9);
    assert_true(emulated_graphs() > before);
    sum_rows(device, 10);
    size_t noted = cache->bytes - bare; /* of the first with its graph, and of another */
    assert_true(noted > 2 * bare);
    mc_graph_cache_set_limit(cache, KEPT * (noted + bare));
    for (int64_t n = 11; n < 11 + LENGTHS; n++)
        for (int i = 0; i < LAUNCHES; i++)
            sum_rows(device, n);
    sum_rows(device, 11 + LENGTHS);
    assert_true(cache->bytes <= cache->limit_bytes);
    assert_true(cache->count < LENGTHS);
    mica_device_close(&device);
    assert_int_equal(emulated_living(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_missing_is_said),
        cmocka_unit_test(test_a_device_is_described),
        cmocka_unit_test(test_faults_are_told_at_the_wait),
        cmocka_unit_test(test_repeated_launches_are_graphs),
        cmocka_unit_test(test_reads_do_not_wait_for_later_launches),
        cmocka_unit_test(test_notes_of_launches_are_bounded),
        cmocka_unit_test(test_calls_that_fail),
    };
    return cmocka_run_group_tests(tests, find_functions, NULL);
}
