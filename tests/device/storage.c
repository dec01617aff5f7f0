/* Storages over memory of the host: read where it lies, or copied to the device in pieces. */
#include "device/device.h"

#include "support/support.h"
#include "support/witness.h"

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
        cmocka_unit_test(test_copied_in_pieces),
        cmocka_unit_test(test_exact_sizes_are_not_kept),
        cmocka_unit_test(test_the_limit_holds),
        cmocka_unit_test(test_each_piece_fails),
        cmocka_unit_test(test_each_allocation_fails),
        cmocka_unit_test(test_what_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
