/* Launches of the device mlx: what is taken, and what is kept. */
#define _POSIX_C_SOURCE 200809L
#include "mlx/executable.h"

#include <mica/mica.h>

#include <stdlib.h>

#include "device/device.h"
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

/* ---- memory that a result shares with an argument ---- */

static float lent[64];
static bool given_back;

static void give_back(void *owner) {
    (void)owner;
    given_back = true;
}

static const uint8_t *read_lent(const mlx_array array) {
    (void)array;
    return (const uint8_t *)lent;
}

/* Metal computes in memory of the host, and an op that copies nothing gives a result in it: the
 * memory must stay until the result is freed. MLX's CPU copies, so the test says that the result is
 * there. */
static void test_memory_is_kept_for_a_result_in_it(void **state) {
    (void)state;
    mica_device *device = open_in("lazy");
    mica_scope *s, *outer;
    const int64_t n = sizeof lent / sizeof *lent;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    assert_int_equal(mica_scope_open(device, &outer), MICA_OK);
    given_back = false;
    mica_array x = mc_leaf_memory(s, lent, MICA_F32, &n, 1, give_back, NULL);
    mica_array y = mica_square(s, x);
    __typeof__(mc_mlx.array_data_uint8) own = mc_mlx.array_data_uint8;
    mc_mlx.array_data_uint8 = read_lent;
    assert_int_equal(mica_eval(s, y), MICA_OK);
    mc_mlx.array_data_uint8 = own;
    mica_array kept = mica_materialize(outer, y);
    assert_true(mica_valid(kept));
    mica_scope_close(&s);
    assert_false(given_back);
    mica_scope_close(&outer);
    assert_true(given_back);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_refused_launch_takes_nothing),
        cmocka_unit_test(test_memory_is_kept_for_a_result_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
