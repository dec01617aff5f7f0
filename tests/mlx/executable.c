/* Launches of the device mlx: what is taken. */
#define _POSIX_C_SOURCE 200809L
#include <mica/mica.h>

#include <stdlib.h>

#include "support/support.h"

static mica_device *open_in(const char *mode) {
    mica_device *device;
    setenv("MICA_MLX_MODE", mode, 1);
    if (mica_device_open("mlx:cpu", NULL, &device) != MICA_OK) fail_msg("%s", mica_last_error());
    return device;
}

/* A launch that the memory limit refuses leaves a moved array as it is. */
static void test_a_refused_launch_takes_nothing(void **state) {
    (void)state;
    enum { N = 1 << 16 };
    const int64_t n = N;
    static float got[N];
    mica_device *device = open_in("lazy");
    mica_scope *s;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array x = mica_arange(s, 0, N, 1, MICA_F32);
    assert_int_equal(mica_eval(s, x), MICA_OK);
    mica_array y = mica_add(s, mica_move(s, x), mica_f32(s, 1));
    mica_device_set_memory_limit(device, N * sizeof *got + 100);
    assert_int_equal(mica_eval(s, y), MICA_ENOMEM);
    mica_device_set_memory_limit(device, 0);
    if (mica_read(y, got, sizeof got) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_true(got[0] == 1 && got[N - 1] == N);
    assert_int_equal(mica_device_active_bytes(device), n * (int64_t)sizeof *got);
    mica_scope_close(&s);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_refused_launch_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
