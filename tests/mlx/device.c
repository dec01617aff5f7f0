/* The device mlx: opening it, modes, errors that depend on data, memory. */
#define _POSIX_C_SOURCE 200809L
#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

#ifndef HAVE_MLX
#define HAVE_MLX 0
#endif

static mica_device *open_in(const char *mode) {
    mica_device *device;
    setenv("MICA_MLX_MODE", mode, 1);
    if (mica_device_open("mlx:cpu", NULL, &device) != MICA_OK) fail_msg("%s", mica_last_error());
    return device;
}

static void expect_refused(const char *name, mica_status status, const char *part) {
    mica_device *device;
    assert_int_equal(mica_device_open(name, NULL, &device), status);
    assert_null(device);
    if (status == MICA_EDEVICE) assert_int_equal(mica_device_available(name), status);
    if (!strstr(mica_last_error(), part))
        fail_msg("\"%s\" does not say \"%s\"", mica_last_error(), part);
    /* So does a model that is to be computed on it. */
    char *path = test_format("%s/default", test_models_dir());
    mica_model *model;
    const mica_model_options options = {.device_name = name};
    assert_int_equal(mica_model_open(path, &options, &model), status);
    assert_null(model);
    if (!strstr(mica_last_error(), part))
        fail_msg("\"%s\" does not say \"%s\"", mica_last_error(), part);
    free(path);
}

/* The first test: a library that was found stays loaded. */
static void test_what_is_missing_is_said(void **state) {
    (void)state;
    setenv("MICA_MLX_LIBRARY", "/nowhere/libmlxc.so", 1);
    expect_refused("mlx", MICA_EDEVICE, "tools/setup-mlx");
    unsetenv("MICA_MLX_LIBRARY");
}

static void test_names_and_modes(void **state) {
    (void)state;
    if (!HAVE_MLX) skip();
    expect_refused("mlx:tpu", MICA_EDEVICE, "mlx:gpu and mlx:cpu");
    setenv("MICA_MLX_MODE", "hasty", 1);
    expect_refused("mlx:cpu", MICA_EINVAL, "lazy, eager or compiled");
    for (int i = 0; i < 20; i++) {
        mica_device *device = open_in("Lazy");
        mica_device_info info = {.struct_bytes = sizeof info};
        mica_device_get_info(device, &info);
        assert_string_equal(info.name, "mlx:cpu");
        assert_true(info.architecture[0] != '\0');
        assert_int_equal(info.unified_memory, 1);
        assert_int_equal(mica_device_set_wired_limit(device, 1 << 20), 0); /* Metal's alone */
        mica_device_close(&device);
    }
}

/* Asking opens nothing, and says what opening would. */
static void test_availability(void **state) {
    (void)state;
    assert_int_equal(mica_device_available(NULL), MICA_OK);
    assert_int_equal(mica_device_available("cpu"), MICA_OK);
    expect_refused("cpu:2", MICA_EDEVICE, "no variants");
    expect_refused("abacus", MICA_EDEVICE, "there are: cpu, mlx, cuda");
    expect_refused("", MICA_EDEVICE, "there are: cpu, mlx, cuda");
    const char *const names[] = {"mlx", "mlx:cpu", "mlx:gpu"};
    for (int i = 0; i < 3; i++) {
        char text[256];
        mica_device *device;
        mica_status status = mica_device_available(names[i]);
        (void)mica_error_text(text, sizeof text);
        assert_int_equal(mica_device_open(names[i], NULL, &device), status);
        if (status != MICA_OK) assert_string_equal(mica_last_error(), text);
        if (HAVE_MLX && i < 2) assert_int_equal(status, MICA_OK);
        mica_device_close(&device);
    }
}

static void test_indices_out_of_range(void **state) {
    (void)state;
    const char *const modes[] = {"lazy", "eager", "compiled"};
    const int32_t bad[2] = {1, -6};
    if (!HAVE_MLX) skip();
    for (int m = 0; m < 3; m++) {
        mica_device *device = open_in(modes[m]);
        mica_scope *s;
        assert_int_equal(mica_scope_open(device, &s), MICA_OK);
        mica_array x = mica_arange(s, 0, 5, 1, MICA_F32);
        mica_array at = mica_from_data(s, bad, MICA_I32, (const int64_t[]){2}, 1);
        assert_int_equal(mica_eval(s, mica_take(s, x, at, 0)), MICA_EINVAL);
        assert_string_equal(mica_last_error(),
                            "take: index -6 is outside axis 0, which has 5 elements");
        mica_scope_close(&s);
        mica_device_close(&device);
    }
}

/* x + 1 a thousand times, each run over the result of the last one. */
static void test_steps_keep_memory_flat(void **state) {
    (void)state;
    const char *const modes[] = {"lazy", "compiled"};
    enum { N = 4096, STEPS = 1000 };
    if (!HAVE_MLX) skip();
    for (int m = 0; m < 2; m++) {
        mica_device *device = open_in(modes[m]);
        mica_scope *s;
        mica_program *p;
        const int64_t shape = N;
        assert_int_equal(mica_scope_open(device, &s), MICA_OK);
        mica_array x = mica_program_param(s, MICA_F32, &shape, 1);
        mica_array y = mica_add(s, x, mica_f32(s, 1));
        const mica_param param = {.array = x, .donate = true};
        assert_int_equal(mica_program_build(s, &param, 1, &y, 1, NULL, &p), MICA_OK);
        x = mica_zeros(s, &shape, 1, MICA_F32);
        assert_int_equal(mica_eval(s, x), MICA_OK);
        mica_device_reset_peak(device);
        for (int i = 0; i < STEPS; i++) {
            if (mica_program_run(p, s, &x, &y) != MICA_OK) fail_msg("%s", mica_last_error());
            x = y;
        }
        float got[N];
        assert_int_equal(mica_read(x, got, sizeof got), MICA_OK);
        assert_true(got[0] == STEPS && got[N - 1] == STEPS);
        assert_true(mica_device_peak_bytes(device) < 8 * sizeof got);
        mica_program_close(&p);
        mica_scope_close(&s);
        mica_device_clear_cache(device);
        assert_int_equal(mica_device_cached_bytes(device), 0);
        mica_device_close(&device);
    }
}

/* The peak begins again at what is live, not at 0, and falls no lower when that is freed. */
static void test_the_peak_begins_at_the_active_bytes(void **state) {
    (void)state;
    const int64_t large = 1 << 20, small = 1 << 10;
    mica_scope *s, *t;
    if (!HAVE_MLX) skip();
    mica_device *device = open_in("lazy"), *other = open_in("eager");
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    assert_int_equal(mica_scope_open(device, &t), MICA_OK);
    assert_int_equal(mica_eval(s, mica_arange(s, 0, (double)large, 1, MICA_F32)), MICA_OK);
    mica_array more = mica_arange(t, 0, 2 * (double)large, 1, MICA_F32);
    assert_int_equal(mica_eval(t, more), MICA_OK);
    uint64_t both = mica_device_active_bytes(device);
    assert_true(both >= 12 * (uint64_t)large);
    assert_true(mica_device_peak_bytes(device) >= both);
    mica_scope_close(&t);
    assert_true(mica_device_peak_bytes(device) >= both);
    mica_device_reset_peak(device);
    uint64_t active = mica_device_active_bytes(device);
    assert_true(active >= 4 * (uint64_t)large && active < both);
    assert_int_equal(mica_device_peak_bytes(device), active);
    assert_int_equal(mica_device_peak_bytes(other), active); /* of the process */
    assert_int_equal(mica_eval(s, mica_arange(s, 0, (double)small, 1, MICA_F32)), MICA_OK);
    uint64_t grown = mica_device_peak_bytes(device);
    assert_true(grown >= active + 4 * (uint64_t)small && grown < both);
    mica_scope_close(&s);
    assert_int_equal(mica_device_peak_bytes(device), grown);
    mica_device_reset_peak(device);
    assert_int_equal(mica_device_peak_bytes(device), mica_device_active_bytes(device));
    mica_device_close(&other);
    mica_device_close(&device);
}

static void test_the_memory_limit_holds(void **state) {
    (void)state;
    if (!HAVE_MLX) skip();
    mica_device *device = open_in("lazy");
    mica_scope *s;
    const int64_t shape = 1 << 20;
    assert_int_equal(mica_device_set_memory_limit(device, 1 << 20), 0);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array x = mica_arange(s, 0, (double)shape, 1, MICA_F32);
    assert_int_equal(mica_eval(s, x), MICA_ENOMEM);
    static const float values[1 << 20]; /* what is uploaded counts, too */
    assert_false(mica_valid(mica_from_data(s, values, MICA_F32, &shape, 1)));
    assert_int_equal(mica_scope_status(s), MICA_ENOMEM);
    mica_scope_close(&s);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    x = mica_arange(s, 0, (double)shape, 1, MICA_F32);
    assert_int_equal(mica_device_set_memory_limit(device, 0), 1 << 20);
    assert_int_equal(mica_eval(s, x), MICA_OK);
    assert_int_equal(mica_device_active_bytes(device), shape * 4);
    mica_scope_close(&s);
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
}

/* Each device is refused by its own limit, by the order of opening and closing neither. */
static void test_devices_have_limits_of_their_own(void **state) {
    (void)state;
    if (!HAVE_MLX) skip();
    mica_device *devices[2] = {open_in("lazy"), open_in("eager")};
    for (int limited = 0; limited < 2; limited++) {
        assert_int_equal(mica_device_set_memory_limit(devices[limited], 1 << 20), 0);
        assert_int_equal(mica_device_set_memory_limit(devices[!limited], UINT64_C(1) << 40), 0);
        for (int i = 0; i < 2; i++) {
            mica_scope *s;
            assert_int_equal(mica_scope_open(devices[i], &s), MICA_OK);
            mica_array x = mica_arange(s, 0, 1 << 20, 1, MICA_F32);
            assert_int_equal(mica_eval(s, x), i == limited ? MICA_ENOMEM : MICA_OK);
            mica_scope_close(&s);
        }
        assert_int_equal(mica_device_set_memory_limit(devices[limited], 0), 1 << 20);
        assert_int_equal(mica_device_set_memory_limit(devices[!limited], 0), UINT64_C(1) << 40);
    }
    mica_device_set_memory_limit(devices[0], 1 << 20);
    mica_device_close(&devices[0]);
    mica_scope *s;
    assert_int_equal(mica_scope_open(devices[1], &s), MICA_OK);
    assert_int_equal(mica_eval(s, mica_arange(s, 0, 1 << 20, 1, MICA_F32)), MICA_OK);
    mica_scope_close(&s);
    mica_device_close(&devices[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_missing_is_said),
        cmocka_unit_test(test_availability),
        cmocka_unit_test(test_names_and_modes),
        cmocka_unit_test(test_indices_out_of_range),
        cmocka_unit_test(test_steps_keep_memory_flat),
        cmocka_unit_test(test_the_peak_begins_at_the_active_bytes),
        cmocka_unit_test(test_the_memory_limit_holds),
        cmocka_unit_test(test_devices_have_limits_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
