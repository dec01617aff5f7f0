/* base/map: keys find what was put, and the hash spreads. */
#include "base/map.h"

#include "support/support.h"

#include <stdio.h>
#include <string.h>

#define COUNT 20000

static void test_put_and_find(void **state) {
    (void)state;
    static char keys[COUNT][16];
    mc_map map = {0};
    uint64_t value;
    assert_false(mc_map_find(&map, MC_STR("absent"), &value));
    for (uint64_t i = 0; i < COUNT; i++) {
        snprintf(keys[i], sizeof keys[i], "key.%u", (unsigned)i);
        assert_true(mc_map_put(&map, mc_str_of(keys[i]), i));
    }
    assert_int_equal(map.count, COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        char copy[16]; /* another address, the same bytes */
        memcpy(copy, keys[i], sizeof copy);
        assert_true(mc_map_find(&map, mc_str_of(copy), &value));
        assert_int_equal(value, i);
    }
    assert_false(mc_map_find(&map, MC_STR("key.20000"), &value));
    assert_true(mc_map_put(&map, MC_STR("key.7"), 99));
    assert_int_equal(map.count, COUNT);
    assert_true(mc_map_find(&map, MC_STR("key.7"), &value));
    assert_int_equal(value, 99);
    mc_map_deinit(&map);
    assert_int_equal(map.count, 0);
}

static void test_keys_are_bytes(void **state) {
    (void)state;
    mc_map map = {0};
    uint64_t value;
    assert_true(mc_map_put(&map, (mc_str){NULL, 0}, 1)); /* the empty key, however it is written */
    assert_true(mc_map_put(&map, (mc_str){"a\0b", 3}, 2));
    assert_true(mc_map_put(&map, (mc_str){"a\0c", 3}, 3));
    assert_true(mc_map_put(&map, (mc_str){"a", 1}, 4));
    assert_true(mc_map_find(&map, MC_STR(""), &value));
    assert_int_equal(value, 1);
    assert_true(mc_map_find(&map, (mc_str){NULL, 0}, &value));
    assert_int_equal(value, 1);
    assert_true(mc_map_find(&map, (mc_str){"a\0c", 3}, &value));
    assert_int_equal(value, 3);
    assert_int_equal(map.count, 4);
    mc_map_deinit(&map);
}

static void test_reserve(void **state) {
    (void)state;
    mc_map map = {0};
    assert_true(mc_map_reserve(&map, 1000));
    mc_alloc_fail_at(1);
    bool all = true;
    static char keys[1000][8];
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(keys[i], sizeof keys[i], "%u", i);
        all = all && mc_map_put(&map, mc_str_of(keys[i]), i);
    }
    mc_alloc_fail_at(0);
    assert_true(all);
    assert_false(mc_map_reserve(&map, SIZE_MAX));
    mc_map_deinit(&map);
}

static bool fill(void *arg) {
    const char *keys = arg;
    mc_map map = {0};
    bool good = true;
    size_t put = 0;
    while (good && put < 100) {
        good = mc_map_put(&map, (mc_str){keys, put}, put);
        put += good;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < put; i++) { /* what is in it stays in it */
        assert_true(mc_map_find(&map, (mc_str){keys, i}, &value));
        assert_int_equal(value, i);
    }
    mc_map_deinit(&map);
    return good;
}

static void test_no_memory(void **state) {
    (void)state;
    char keys[100];
    memset(keys, 'k', sizeof keys);
    assert_true(test_fail_each_allocation(fill, keys) >= 3);
}

/* Flipping any bit of the input flips about half of the output's: between 16 and 48 of 64, which
 * for a random function fails with probability below 1e-4 a trial and is fixed by the constants. */
static void test_hash_spreads(void **state) {
    (void)state;
    unsigned char bytes[24] = "model.layers.0.q_proj";
    uint64_t total = 0, trials = 0;
    for (size_t n = 1; n <= sizeof bytes; n++) {
        uint64_t base = mc_hash(bytes, n, 0);
        assert_int_equal(base, mc_hash(bytes, n, 0));
        assert_int_not_equal(base, mc_hash(bytes, n, 1));
        assert_int_not_equal(base, mc_hash(bytes, n - 1, 0));
        for (size_t bit = 0; bit < n * 8; bit++, trials++) {
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
            uint64_t changed = base ^ mc_hash(bytes, n, 0);
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
            uint64_t flipped = 0;
            for (; changed; changed &= changed - 1)
                flipped++;
            assert_in_range(flipped, 12, 52);
            total += flipped;
        }
    }
    assert_in_range(total * 100 / trials, 3100, 3300);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_and_find), cmocka_unit_test(test_keys_are_bytes),
        cmocka_unit_test(test_reserve),      cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_hash_spreads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
