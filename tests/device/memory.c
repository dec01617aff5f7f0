/* The caching allocator and its accounts. */
#include "device/device.h"

#include "base/system.h"
#include "support/support.h"
#include "support/witness.h"

static mica_device *device;

static int open_device(void **state) {
    (void)state;
    return (int)mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device);
}

static int close_device(void **state) {
    (void)state;
    mica_device_close(&device);
    return 0;
}

static void test_sizes_are_rounded_by_an_eighth_at_most(void **state) {
    (void)state;
    for (size_t bytes = 1; bytes < (size_t)1 << 26; bytes += bytes / 7 + 1) {
        mc_storage *storage;
        assert_int_equal(mc_storage_new(device, bytes, &storage), MICA_OK);
        assert_true(storage->bytes >= bytes);
        assert_true(storage->bytes <= bytes + bytes / 8 + 64);
        assert_int_equal((uintptr_t)storage->address % 64, 0);
        mc_storage_release(storage);
    }
    assert_int_equal(mica_device_active_bytes(device), 0);
}

static void test_freed_blocks_come_back(void **state) {
    (void)state;
    mc_storage *a, *b;
    assert_int_equal(mc_storage_new(device, 1000, &a), MICA_OK);
    uint64_t active = mica_device_active_bytes(device);
    assert_true(active >= 1000 && active <= 1200);
    void *data = a->address;
    mc_storage_release(a);
    assert_int_equal(mica_device_active_bytes(device), 0);
    assert_int_equal(mica_device_cached_bytes(device), active);
    assert_int_equal(mc_storage_new(device, 1010, &b), MICA_OK);
    assert_ptr_equal(b->address, data);
    assert_int_equal(mica_device_cached_bytes(device), 0);
    mc_storage_release(b);
    mica_device_clear_cache(device);
    assert_int_equal(mica_device_cached_bytes(device), 0);
}

static void test_the_peak_is_kept_and_reset(void **state) {
    (void)state;
    mc_storage *a;
    assert_int_equal(mc_storage_new(device, 1 << 16, &a), MICA_OK);
    mc_storage_release(a);
    assert_int_equal(mica_device_peak_bytes(device), 1 << 16);
    mica_device_reset_peak(device);
    assert_int_equal(mica_device_peak_bytes(device), 0);
}

static void test_limits_hold(void **state) {
    (void)state;
    mc_storage *a, *b;
    assert_int_equal(mica_device_set_memory_limit(device, 4096), 0);
    assert_int_equal(mc_storage_new(device, 4096, &a), MICA_OK);
    assert_int_equal(mc_storage_new(device, 1, &b), MICA_ENOMEM);
    assert_null(b);
    mica_device_set_cache_limit(device, 0);
    mc_storage_release(a);
    assert_int_equal(mica_device_cached_bytes(device), 0);
    assert_int_equal(mica_device_set_memory_limit(device, 0), 4096);
    assert_int_equal(mc_storage_new(device, SIZE_MAX - 5, &b), MICA_ENOMEM);
    /* More than the machine has: the system refuses, nobody dies. */
    assert_int_equal(mc_storage_new(device, (size_t)1 << 60, &b), MICA_ENOMEM);
    assert_int_equal(mica_device_active_bytes(NULL), 0);
    assert_int_equal(mica_device_set_wired_limit(device, 1 << 20), 0); /* the cpu has none */
    assert_int_equal(mica_device_set_wired_limit(device, 0), 0);
}

/* What is freed last is kept; sizes that nobody asks for again make room. */
static void test_old_blocks_make_room(void **state) {
    (void)state;
    mc_storage *sizes[3];
    mica_device_set_cache_limit(device, 6 << 20);
    for (int i = 0; i < 3; i++)
        assert_int_equal(mc_storage_new(device, (size_t)(i + 1) << 20, &sizes[i]), MICA_OK);
    mc_storage_release(sizes[0]);
    mc_storage_release(sizes[1]);
    mc_storage_release(sizes[2]);
    assert_int_equal(mica_device_cached_bytes(device), 6 << 20);
    mc_storage *large, *larger;
    assert_int_equal(mc_storage_new(device, 4 << 20, &large), MICA_OK);
    assert_int_equal(mc_storage_new(device, 7 << 20, &larger), MICA_OK);
    mc_storage_release(large);
    assert_int_equal(mica_device_cached_bytes(device), 4 << 20);
    mc_storage_release(larger); /* never fits: what is kept stays */
    assert_int_equal(mica_device_cached_bytes(device), 4 << 20);
    assert_int_equal(mica_device_active_bytes(device), 0);
}

/* Budgets are shares of what arrays may have at most. */
static void test_what_arrays_may_have(void **state) {
    (void)state;
    mica_device *witness;
    mc_storage *a;
    assert_int_equal(mc_device_memory_bytes(device), mc_memory_bytes());
    assert_int_equal(mc_device_open_backend(&witness_backend, "", NULL, &witness), MICA_OK);
    assert_int_equal(mc_device_memory_bytes(witness), WITNESS_WORKING_SET);
    mica_device_set_memory_limit(witness, UINT64_C(1) << 60);
    assert_int_equal(mc_device_memory_bytes(witness), WITNESS_WORKING_SET);
    mica_device_set_memory_limit(witness, 1 << 20);
    assert_int_equal(mc_device_memory_bytes(witness), 1 << 20);
    assert_int_equal(mc_storage_new(witness, 1 << 18, &a), MICA_OK);
    assert_int_equal(mc_device_free_bytes(witness), 3 << 18);
    mica_device_set_memory_limit(witness, 1 << 16);
    assert_int_equal(mc_device_free_bytes(witness), 0);
    mc_storage_release(a);
    mica_device_close(&witness);
}

/* ---- the lock ---- */

static int frees, frees_under_lock, allocs_to_fail;

static void *alloc_some(void *state, size_t bytes) {
    (void)state;
    return allocs_to_fail-- > 0 ? NULL : mc_aligned_alloc(64, bytes);
}

static void free_and_look(void *state, void *address, size_t bytes) {
    mc_memory *m = state;
    (void)bytes;
    frees++;
    if (pthread_mutex_trylock(&m->lock) == 0)
        pthread_mutex_unlock(&m->lock);
    else
        frees_under_lock++;
    mc_free(address);
}

/* Giving memory back takes long, and a backend may ask for its accounts meanwhile. */
static void test_memory_is_given_back_outside_of_the_lock(void **state) {
    (void)state;
    const mc_backend backend = {
        .name = "test", .host_memory = true, .alloc = alloc_some, .free = free_and_look};
    mc_memory m = {0};
    mc_storage *a, *b;
    assert_int_equal(mc_memory_init(&m, &backend, &m, 0, 4096), MICA_OK);
    assert_int_equal(mc_memory_get(&m, 1024, &a), MICA_OK);
    assert_int_equal(mc_memory_get(&m, 4096, &b), MICA_OK);
    mc_memory_put(&m, a);
    mc_memory_put(&m, b); /* makes room by what is kept */
    assert_int_equal(frees, 1);
    mc_memory_clear(&m);
    assert_int_equal(frees, 2);
    assert_int_equal(mc_memory_get(&m, 1024, &a), MICA_OK);
    assert_int_equal(mc_memory_get(&m, 8192, &b), MICA_OK);
    mc_memory_put(&m, a);
    mc_memory_put(&m, b); /* too large to be kept */
    assert_int_equal(frees, 3);
    allocs_to_fail = 1; /* what is kept is given back, and then there is enough */
    assert_int_equal(mc_memory_get(&m, 2048, &a), MICA_OK);
    assert_int_equal(frees, 4);
    mc_memory_put(&m, a);
    mc_memory_deinit(&m);
    assert_int_equal(frees, 5);
    assert_int_equal(frees_under_lock, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sizes_are_rounded_by_an_eighth_at_most, open_device,
                                        close_device),
        cmocka_unit_test_setup_teardown(test_freed_blocks_come_back, open_device, close_device),
        cmocka_unit_test_setup_teardown(test_the_peak_is_kept_and_reset, open_device, close_device),
        cmocka_unit_test_setup_teardown(test_old_blocks_make_room, open_device, close_device),
        cmocka_unit_test_setup_teardown(test_limits_hold, open_device, close_device),
        cmocka_unit_test_setup_teardown(test_what_arrays_may_have, open_device, close_device),
        cmocka_unit_test(test_memory_is_given_back_outside_of_the_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
