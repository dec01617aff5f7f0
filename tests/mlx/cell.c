/* Memory of the device mlx: bytes of the host that become arrays, and arrays that become bytes. */
#include "device/device.h"

#include <mica/mica.h>

#include <string.h>

#include "mlx/cell.h"
#include "support/support.h"

enum { N = 64 };

static mica_device *device;
static mica_scope *s;

static int open_device(void **state) {
    (void)state;
    return mica_device_open("mlx:cpu", NULL, &device) || mica_scope_open(device, &s);
}

static int close_device(void **state) {
    (void)state;
    mica_scope_close(&s);
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
    return 0;
}

static mc_storage *new_storage(size_t bytes) {
    mc_storage *storage;
    assert_int_equal(mc_storage_new(device, bytes, &storage), MICA_OK);
    return storage;
}

/* n f32 of a storage, which is retained, as an array. */
static mica_array array_of(mc_storage *storage, int64_t n) {
    mc_layout layout;
    assert_int_equal(mc_layout_init(&layout, MICA_F32, &n, 1), MICA_OK);
    return mc_leaf(s, &layout, mc_storage_retain(storage), 0);
}

static void compute_with(mica_array x) {
    if (mica_eval(s, mica_square(s, x)) != MICA_OK) fail_msg("%s", mica_last_error());
}

static void fill(float *x, float first) {
    for (int i = 0; i < N; i++)
        x[i] = first + (float)i;
}

/* Where an array was computed with, a part of it can be written, and the rest stays. */
static void test_a_part_of_an_array_is_written(void **state) {
    (void)state;
    float x[N], got[N];
    const float part[2] = {-1, -2};
    mc_storage *storage = new_storage(sizeof x);
    fill(x, 0);
    assert_int_equal(mc_storage_write(device, storage, 0, x, sizeof x), MICA_OK);
    mica_array a = array_of(storage, N);
    compute_with(a);
    assert_int_equal(mc_storage_write(device, storage, 3 * sizeof *x, part, sizeof part), MICA_OK);
    memcpy(x + 3, part, sizeof part);
    assert_int_equal(mc_storage_read(device, storage, 0, got, sizeof got), MICA_OK);
    assert_memory_equal(got, x, sizeof x);
    mica_array squares = mica_square(s, a);
    assert_int_equal(mica_read(squares, got, sizeof got), MICA_OK);
    for (int i = 0; i < N; i++)
        assert_true(got[i] == x[i] * x[i]);
    mc_storage_release(storage);
}

static void test_nothing_outside_is_touched(void **state) {
    (void)state;
    float x[N];
    mc_storage *storage = new_storage(sizeof x);
    fill(x, 0);
    assert_int_equal(mc_storage_write(device, storage, sizeof x, x, 4), MICA_EINTERNAL);
    assert_int_equal(mc_storage_write(device, storage, SIZE_MAX, x, 4), MICA_EINTERNAL);
    assert_int_equal(mc_storage_write(device, storage, 0, x, sizeof x), MICA_OK);
    assert_int_equal(mc_storage_read(device, storage, 4, x, sizeof x), MICA_EINTERNAL);
    compute_with(array_of(storage, N));
    assert_int_equal(mc_storage_write(device, storage, 4, x, sizeof x), MICA_EINTERNAL);
    assert_int_equal(mc_storage_read(device, storage, 4, x, sizeof x), MICA_EINTERNAL);
    assert_int_equal(mica_eval(s, mica_square(s, array_of(storage, N + 1))), MICA_EINTERNAL);
    mc_storage_release(storage);
}

/* Nobody wrote it: the values may be anything, and computing with them is no error. */
static void test_unwritten_memory_is_an_array(void **state) {
    (void)state;
    float x[N];
    mc_storage *storage = new_storage(sizeof x);
    compute_with(array_of(storage, N));
    mc_storage_release(storage);
    storage = new_storage(sizeof x); /* half of it is written */
    fill(x, 5);
    assert_int_equal(mc_storage_write(device, storage, 0, x, sizeof x / 2), MICA_OK);
    mica_array y = mica_square(s, array_of(storage, N));
    assert_int_equal(mica_read(y, x, sizeof x), MICA_OK);
    assert_true(x[0] == 25 && x[N / 2 - 1] == (4 + N / 2) * (4 + N / 2));
    mc_storage_release(storage);
}

/* Roots of n bf16 of a storage, from element `first` on. */
static void check_roots(mc_storage *storage, int64_t first, int64_t n, const float *want) {
    float got[N];
    mc_layout layout;
    assert_int_equal(mc_layout_init(&layout, MICA_BF16, &n, 1), MICA_OK);
    mica_array x = mc_leaf(s, &layout, mc_storage_retain(storage), 2 * first);
    mica_array y = mica_astype(s, mica_sqrt(s, x), MICA_F32);
    assert_int_equal(mica_read(y, got, (size_t)n * sizeof *got), MICA_OK);
    for (int64_t i = 0; i < n; i++)
        assert_true(got[i] == want[first + i]);
}

/* MLX's CPU computes bf16 in f32: the cast is kept for the next launch, for the same view and until
 * the array is written. */
static void test_a_kept_cast_is_of_what_is_there(void **state) {
    (void)state;
    mc_storage *storage = new_storage(N * sizeof(uint16_t));
    for (int round = 0; round < 2; round++) {
        uint16_t bits[N];
        float roots[N];
        for (int i = 0; i < N; i++) {
            const float root = (float)((i * 7 + round) % 15), square = root * root;
            uint32_t all;
            memcpy(&all, &square, sizeof all);
            bits[i] = (uint16_t)(all >> 16); /* up to 196: exact */
            roots[i] = root;
        }
        assert_int_equal(mc_storage_write(device, storage, 0, bits, sizeof bits), MICA_OK);
        for (int time = 0; time < 2; time++) {
            check_roots(storage, 0, N, roots);
            check_roots(storage, 3, N - 3, roots);
        }
        const mc_mlx_cell *cell = storage->address;
        assert_non_null(cell->cast.ctx);
    }
    mc_storage_release(storage);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_part_of_an_array_is_written, open_device,
                                        close_device),
        cmocka_unit_test_setup_teardown(test_nothing_outside_is_touched, open_device, close_device),
        cmocka_unit_test_setup_teardown(test_unwritten_memory_is_an_array, open_device,
                                        close_device),
        cmocka_unit_test_setup_teardown(test_a_kept_cast_is_of_what_is_there, open_device,
                                        close_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
