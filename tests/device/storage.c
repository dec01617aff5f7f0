/* Storages over memory of the host: read where it lies, or copied to the device in pieces. */
#include "device/device.h"

#include "exec/program.h"
#include "support/support.h"
#include "support/witness.h"

#include <mica/ops.h>

#include <string.h>

enum { BYTES = 3 * WITNESS_STAGING + 1003, ROUNDED = (BYTES + 63) / 64 * 64 };

static unsigned char bytes[BYTES];
static int released;

static void count_release(void *owner) {
    assert_ptr_equal(owner, bytes);
    released++;
}

static mica_device *open_witness(void) {
    mica_device *device;
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    released = 0;
    assert_int_equal(mc_device_open_backend(&witness_backend, "", NULL, &device), MICA_OK);
    return device;
}

/* What the device has, whatever the host still sees. */
static void check_copy(mica_device *device, const mc_storage *storage) {
    static unsigned char got[BYTES];
    mc_storage device_only = *storage;
    device_only.host = NULL;
    memset(got, 0, sizeof got);
    assert_int_equal(mc_storage_read(device, &device_only, 0, got, BYTES), MICA_OK);
    assert_memory_equal(got, bytes, BYTES);
}

static void test_read_where_it_lies(void **state) {
    (void)state;
    mica_device *device;
    mc_storage *a;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    released = 0;
    assert_int_equal(mc_storage_adopt(device, bytes, BYTES, count_release, bytes, &a), MICA_OK);
    assert_ptr_equal(a->address, bytes);
    assert_int_equal(mica_device_active_bytes(device), 0);
    assert_int_equal(released, 0);
    mc_storage_release(a);
    assert_int_equal(released, 1);
    mica_device_close(&device);
}

/* Memory of an application's, which is shared, and given back once. */
static void test_from_host(void **state) {
    (void)state;
    static const float values[4] = {1, 2, 3, 4};
    const void *at;
    float twice[4];
    mica_device *device;
    mica_scope *s, *other;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    assert_int_equal(mica_scope_open(device, &other), MICA_OK);
    released = 0;
    memcpy(bytes, values, sizeof values);
    mica_array x = mica_from_host(s, bytes, MICA_F32, (int64_t[]){2, 2}, 2, count_release, bytes);
    assert_int_equal(mica_array_host(x, &at), MICA_OK);
    assert_ptr_equal(at, bytes);
    assert_int_equal(mica_read(mica_add(s, x, x), twice, sizeof twice), MICA_OK);
    assert_true(twice[3] == 8);
    mica_array kept = mica_detach(other, x);
    mica_scope_close(&s);
    assert_int_equal(released, 0);
    assert_int_equal(mica_array_host(kept, &at), MICA_OK);
    assert_ptr_equal(at, bytes);
    mica_scope_close(&other);
    assert_int_equal(released, 1);
    mica_device_close(&device);
}

/* What cannot be an array is given back, too; the scope's error is forgotten when that is asked. */
static void test_from_host_refused(void **state) {
    (void)state;
    const int64_t shape[] = {2}, negative[] = {-2};
    mica_device *device;
    mica_scope *s;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array before = mica_from_host(s, bytes, MICA_U8, shape, 1, NULL, NULL);
    released = 0;
    assert_false(mica_valid(mica_from_host(NULL, bytes, MICA_F32, shape, 1, count_release, bytes)));
    assert_int_equal(released, 1);
    for (int i = 0; i < 3; i++) {
        mica_array x = mica_from_host(s, i == 0 ? NULL : bytes + (i == 1), MICA_F32,
                                      i == 2 ? negative : shape, 1, count_release, bytes);
        assert_false(mica_valid(x));
        assert_int_equal(released, 2 + i);
        assert_int_equal(mica_scope_status(s), MICA_EINVAL);
        assert_int_equal(mica_eval(s, before), MICA_EINVAL);
        mica_scope_clear_error(s);
        assert_int_equal(mica_scope_status(s), MICA_OK);
        assert_int_equal(mica_eval(s, before), MICA_OK);
        assert_int_equal(mica_eval(s, mica_negative(s, x)), MICA_EINVAL); /* still invalid */
        mica_scope_clear_error(s);
    }
    mica_scope_clear_error(NULL);
    mica_scope_close(&s);
    mica_device_close(&device);
}

/* A file stays for the host to read; memory of the caller's goes once it is copied. */
static void test_copied_in_pieces(void **state) {
    (void)state;
    for (int owned = 0; owned < 2; owned++) {
        mica_device *device = open_witness();
        mc_storage *a;
        uint64_t copies = witness_count(device, WITNESS_COPY);
        assert_int_equal(
            mc_storage_adopt(device, bytes, BYTES, owned ? count_release : NULL, bytes, &a),
            MICA_OK);
        assert_int_equal(witness_count(device, WITNESS_COPY) - copies, 4);
        assert_int_equal(released, owned);
        assert_ptr_equal(a->host, owned ? NULL : bytes);
        assert_true(a->read_only);
        check_copy(device, a);
        assert_int_equal(mica_device_active_bytes(device), ROUNDED);
        assert_int_equal(mica_device_peak_bytes(device), ROUNDED);
        mc_storage_release(a);
        assert_int_equal(mica_device_active_bytes(device), 0);
        assert_int_equal(released, owned);
        mica_device_close(&device);
    }
}

/* What was copied exactly is kept for others only where it is as large as they are. */
static void test_exact_sizes_are_not_kept(void **state) {
    (void)state;
    mica_device *device = open_witness();
    mc_storage *a;
    assert_int_equal(mc_storage_adopt(device, bytes, BYTES, NULL, NULL, &a), MICA_OK);
    mc_storage_release(a);
    assert_int_equal(mica_device_cached_bytes(device), 0);
    assert_int_equal(mc_storage_adopt(device, bytes, 1 << 15, NULL, NULL, &a), MICA_OK);
    mc_storage_release(a);
    assert_int_equal(mica_device_cached_bytes(device), 1 << 15);
    assert_int_equal(mc_storage_adopt(device, bytes, 0, NULL, NULL, &a), MICA_OK);
    mc_storage_release(a);
    mica_device_close(&device);
}

static void test_the_limit_holds(void **state) {
    (void)state;
    mica_device *device = open_witness();
    mc_storage *a;
    mica_device_set_memory_limit(device, ROUNDED - 1);
    assert_int_equal(mc_storage_adopt(device, bytes, BYTES, count_release, bytes, &a), MICA_ENOMEM);
    assert_non_null(strstr(mica_last_error(), "memory limit"));
    assert_null(a);
    assert_int_equal(released, 1);
    mica_device_set_memory_limit(device, ROUNDED);
    assert_int_equal(mc_storage_adopt(device, bytes, BYTES, NULL, NULL, &a), MICA_OK);
    mc_storage_release(a);
    mica_device_close(&device);
}

static void test_each_piece_fails(void **state) {
    (void)state;
    mica_device *device = open_witness();
    mc_storage *a;
    for (uint64_t n = 1; n <= 4; n++) {
        released = 0;
        witness_fail(device, WITNESS_COPY, n);
        assert_int_equal(mc_storage_adopt(device, bytes, BYTES, count_release, bytes, &a),
                         MICA_EDEVICE);
        assert_int_equal(released, 1);
        assert_int_equal(mica_device_active_bytes(device), 0);
    }
    witness_fail(device, WITNESS_COPY, 0);
    mica_device_close(&device);
}

static bool adopt_once(void *device) {
    mc_storage *a;
    released = 0;
    mica_device_clear_cache(device);
    mica_status status = mc_storage_adopt(device, bytes, BYTES, count_release, bytes, &a);
    assert_int_equal(released, 1);
    if (status == MICA_OK) mc_storage_release(a);
    return status == MICA_OK;
}

static void test_each_allocation_fails(void **state) {
    (void)state;
    mica_device *device = open_witness();
    test_fail_each_allocation(adopt_once, device);
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
}

/* ---- a device that computes late, over memory that is the host's, too ---- */

enum { N = 1000 };

static float numbers[N];

/* What was mapped is something else now. */
static void overwrite(void *owner) {
    assert_ptr_equal(owner, numbers);
    for (int i = 0; i < N; i++)
        numbers[i] = -1000.0f;
    released++;
}

/* Launches y = 2 x + 1 over x, adopted or copied; the program is closed behind its end. */
typedef struct launched {
    mica_device *device;
    mica_scope *s;
    mica_program *program;
    mica_array y;
    mc_fence fence;
} launched;

static void launch(launched *l, bool adopted) {
    const int64_t n = N;
    released = 0;
    for (int i = 0; i < N; i++)
        numbers[i] = (float)i;
    assert_int_equal(mc_device_open_backend(&witness_unified_backend, "unified", NULL, &l->device),
                     MICA_OK);
    assert_int_equal(mica_scope_open(l->device, &l->s), MICA_OK);
    mica_array p = mica_program_param(l->s, MICA_F32, &n, 1);
    mica_array y = mica_add(l->s, mica_multiply(l->s, p, mica_f32(l->s, 2)), mica_f32(l->s, 1));
    assert_int_equal(
        mica_program_build(l->s, &(mica_param){.array = p}, 1, &y, 1, NULL, &l->program), MICA_OK);
    mica_scope *arrays;
    assert_int_equal(mica_scope_open(l->device, &arrays), MICA_OK);
    mica_array x = adopted ? mc_leaf_memory(arrays, numbers, MICA_F32, &n, 1, overwrite, numbers)
                           : mica_from_data(arrays, numbers, MICA_F32, &n, 1);
    assert_int_equal(mc_program_launch(l->program, l->s, &x, &l->y, &l->fence), MICA_OK);
    assert_true(l->fence != 0);
    mica_scope_close(&arrays); /* its array goes while the launch has not begun */
    assert_int_equal(released, adopted);
}

static void expect_result(const launched *l) {
    static float got[N];
    assert_int_equal(mica_read(l->y, got, sizeof got), MICA_OK);
    for (int i = 0; i < N; i++)
        assert_true(got[i] == 2.0f * (float)i + 1.0f);
}

static void end_launch(launched *l) {
    assert_int_equal(mc_device_wait(l->device, l->fence), MICA_OK);
    expect_result(l);
    mica_program_close(&l->program);
    mica_scope_close(&l->s);
    mica_device_close(&l->device);
}

/* Memory of the host is let go of when no launch reads it any more. */
static void test_released_behind_launches(void **state) {
    (void)state;
    launched l;
    launch(&l, true);
    end_launch(&l);
}

/* What a launch is about to write is read when it has. */
static void test_read_behind_launches(void **state) {
    (void)state;
    launched l;
    launch(&l, false);
    expect_result(&l); /* before anybody waits */
    end_launch(&l);
}

/* Memory that a launch is about to read is freed, and written by the host when it was read. */
static void test_written_behind_launches(void **state) {
    (void)state;
    launched l;
    static const float others[N];
    const int64_t n = N;
    launch(&l, false);
    mica_array z = mica_from_data(l.s, others, MICA_F32, &n, 1); /* in the place of x */
    assert_true(mica_valid(z));
    end_launch(&l);
}

/* How much freed memory is kept is the device's to say, and the caller's before it. */
static void test_what_is_kept(void **state) {
    (void)state;
    mica_device *device = open_witness();
    assert_int_equal(mica_device_set_cache_limit(device, 5), WITNESS_CACHE);
    mica_device_close(&device);
    const mica_device_options options = {.cache_limit_bytes = 7};
    assert_int_equal(mc_device_open_backend(&witness_backend, "", &options, &device), MICA_OK);
    assert_int_equal(mica_device_set_cache_limit(device, 5), 7);
    mica_device_close(&device);
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_int_equal(mica_device_set_cache_limit(device, 5), 32 << 20);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_where_it_lies),
        cmocka_unit_test(test_from_host),
        cmocka_unit_test(test_from_host_refused),
        cmocka_unit_test(test_copied_in_pieces),
        cmocka_unit_test(test_exact_sizes_are_not_kept),
        cmocka_unit_test(test_the_limit_holds),
        cmocka_unit_test(test_each_piece_fails),
        cmocka_unit_test(test_each_allocation_fails),
        cmocka_unit_test(test_what_is_kept),
        cmocka_unit_test(test_released_behind_launches),
        cmocka_unit_test(test_read_behind_launches),
        cmocka_unit_test(test_written_behind_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
