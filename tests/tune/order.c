/* Orders are numpy's: made by np.random.seed(s), then np.random.permutation(n) twice (numpy 2). */
#include "tune/order.h"
#include "support/support.h"

#include <stdlib.h>

static void test_numpy(void **state) {
    (void)state;
    static const uint32_t ten[] = {8, 5, 0, 2, 1, 9, 7, 3, 6, 4}, five[] = {3, 1, 0, 4, 2};
    static const uint32_t many[] = {993, 859, 298, 553, 672, 971, 27, 231},
                          again[] = {18, 939, 532, 671, 506, 276, 601, 845};
    static uint32_t got[1000];
    mc_order order;
    mc_order_seed(&order, 7);
    mc_order_next(&order, got, 10);
    assert_memory_equal(got, ten, sizeof ten);
    mc_order_next(&order, got, 5);
    assert_memory_equal(got, five, sizeof five);
    mc_order_seed(&order, 0);
    mc_order_next(&order, got, 1000);
    assert_memory_equal(got, many, sizeof many);
    mc_order_next(&order, got, 1000);
    assert_memory_equal(got, again, sizeof again);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numpy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
