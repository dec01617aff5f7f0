/* base/system and mc_cpu_count: what can be said on any machine. */
#include "base/system.h"

#include "base/pool.h"
#include "support/support.h"

static void test_clock_does_not_go_back(void **state) {
    (void)state;
    uint64_t before = mc_now_us();
    for (int i = 0; i < 10000; i++) {
        uint64_t now = mc_now_us();
        assert_true(now >= before);
        before = now;
    }
}

static void test_machine(void **state) {
    (void)state;
    assert_in_range(mc_cpu_count(), 1, 100000);
    assert_in_range(mc_memory_bytes(), 16u << 20, UINT64_C(1) << 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_does_not_go_back),
        cmocka_unit_test(test_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
