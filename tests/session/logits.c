/* Sums and bounds over rows of logits, compared with the C library and plain loops. */
#include "session/logits.h"

#include "support/support.h"

#include <math.h>

enum { MAX = 130 };

static float row[MAX];

/* Logits from 0 down to `deepest`; the last ones are -infinity. */
static void fill(int n, float deepest) {
    for (int i = 0; i < n; i++)
        row[i] = i == n - 1 && n > 3 ? -INFINITY : deepest * (float)(i * 37 % n) / (float)n;
}

static void test_weights(void **state) {
    (void)state;
    static const double pers[] = {1.4426950408889634, 0.1, 40.0};
    double weights[MAX];
    for (int n = 0; n < MAX; n++)
        for (int k = 0; k < 3; k++) {
            double sum = 0.0, total;
            fill(n, -90.0f);
            total = mc_logits_weigh(row, n, 0.5f, pers[k], weights);
            for (int i = 0; i < n; i++) {
                double power = ((double)row[i] - 0.5) * pers[k], want = exp2(power);
                assert_true(power < -1000.0 ? weights[i] <= 0x1p-999
                                            : fabs(weights[i] - want) <= 1e-11 * want);
                sum += want;
            }
            assert_true(fabs(total - sum) <= 1e-11 * sum + 1e-290);
        }
}

static void test_sums(void **state) {
    (void)state;
    for (int n = 0; n < MAX; n++) {
        double want = 0.0;
        fill(n, -30.0f);
        for (int i = 0; i < n; i++)
            want += exp((double)row[i]);
        assert_true(fabs(mc_logits_exp_sum(row, n, 0.0f) - want) <= 2e-6 * want);
    }
}

static void test_smallest(void **state) {
    (void)state;
    assert_true(mc_logits_smallest(row, 0) == INFINITY);
    for (int n = 1; n < MAX; n++) {
        float want = INFINITY;
        fill(n, -30.0f);
        for (int i = 0; i < n; i++)
            if (row[i] < want && row[i] != -INFINITY) want = row[i];
        assert_true(mc_logits_smallest(row, n) == want);
    }
}

/* Places rise as logits fall, from 0 to the last. */
static void test_places(void **state) {
    (void)state;
    static const float scales[] = {0.0f, 0.5f, 1e30f};
    int32_t places[MAX];
    for (int n = 4; n < MAX; n++)
        for (int k = 0; k < 3; k++) {
            fill(n, -30.0f);
            mc_logits_places(row, n, 0.0f, scales[k], 9, places);
            assert_int_equal(places[n - 1], 9); /* that of -infinity */
            for (int i = 0; i < n - 1; i++) {
                double want = -(double)row[i] * (double)scales[k];
                assert_int_equal(places[i], want < 9.0 ? (int)want : 9);
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_smallest),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests_name("session/logits", tests, NULL, NULL);
}
