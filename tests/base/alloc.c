/* base/alloc: sizes are checked, failures happen where they are asked for. */
#include "base/alloc.h"

#include "support/support.h"

#include <mica/status.h>

#include <string.h>

static void test_zero_bytes_is_memory(void **state) {
    (void)state;
    void *a = mc_alloc(0), *b = mc_calloc(0, 8), *c = mc_array_alloc(3, 0);
    assert_true(a && b && c);
    mc_free(a);
    mc_free(b);
    mica_free(c); /* the public name is the same door */
    mc_free(NULL);
    mica_free(NULL);
}

static void test_calloc_is_zeroed(void **state) {
    (void)state;
    unsigned char *p = mc_calloc(1000, 3);
    assert_non_null(p);
    for (size_t i = 0; i < 3000; i++)
        assert_int_equal(p[i], 0);
    mc_free(p);
}

static void test_overflow_is_no_memory(void **state) {
    (void)state;
    assert_null(mc_calloc(SIZE_MAX / 2 + 1, 2));
    assert_null(mc_array_alloc(SIZE_MAX / 8 + 1, 8));
    assert_null(mc_array_alloc(2, SIZE_MAX));
    assert_null(mc_strndup("", SIZE_MAX));
}

static void test_aligned(void **state) {
    (void)state;
    for (size_t align = 1; align <= 4096; align *= 2) {
        char *p = mc_aligned_alloc(align, 17);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % align, 0);
        memset(p, 1, 17);
        mc_free(p);
    }
}

static void test_strings(void **state) {
    (void)state;
    char *all = mc_strdup("weights"), *part = mc_strndup("weights", 3), *none = mc_strndup(NULL, 0);
    assert_string_equal(all, "weights");
    assert_string_equal(part, "wei");
    assert_string_equal(none, "");
    mc_free(all);
    mc_free(part);
    mc_free(none);
}

static void test_failures_come_at_n_and_stay(void **state) {
    (void)state;
    mc_alloc_fail_at(3);
    void *a = mc_alloc(8), *b = mc_alloc(8);
    void *failed[] = {mc_alloc(8), mc_calloc(1, 8), mc_aligned_alloc(64, 8), mc_strdup("x"),
                      mc_realloc(a, 100)};
    uint64_t count = mc_alloc_count();
    mc_alloc_fail_at(0);
    assert_true(a && b);
    for (size_t i = 0; i < sizeof failed / sizeof failed[0]; i++)
        assert_null(failed[i]);
    assert_int_equal(count, 7);
    assert_int_equal(mc_alloc_count(), 0);
    a = mc_realloc(a, 100); /* was valid all the time */
    assert_non_null(a);
    mc_free(a);
    mc_free(b);
    mc_alloc_fail_once(2);
    a = mc_alloc(8);
    b = mc_alloc(8);
    void *again = mc_alloc(8);
    mc_alloc_fail_at(0);
    assert_true(a && !b && again);
    mc_free(a);
    mc_free(again);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zero_bytes_is_memory),
        cmocka_unit_test(test_calloc_is_zeroed),
        cmocka_unit_test(test_overflow_is_no_memory),
        cmocka_unit_test(test_aligned),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_failures_come_at_n_and_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
