/* The tokens of a text, of which the oldest may be forgotten. */
#include "session/tokens.h"

#include "base/integer.h"
#include "support/support.h"

#include <string.h>

enum { N = 200 };

/* Texts that differ from token `from` on. */
static void make_ids(int32_t *ids, int64_t from) {
    for (int32_t i = 0; i < N; i++)
        ids[i] = i * i % 7 + (i >= from);
}

/* Adds the first n of ids, `step` at a time. */
static mc_tokens make_tokens(const int32_t *ids, int64_t n, int64_t step, int64_t limit) {
    mc_tokens t = {.limit = limit};
    for (int64_t at = 0; at < n; at += step)
        assert_true(mc_tokens_add(&t, ids + at, mc_min(step, n - at)));
    return t;
}

static void test_the_last_ones_stay(void **state) {
    (void)state;
    int32_t ids[N];
    make_ids(ids, N);
    for (int64_t limit = 0; limit < 40; limit += 13) {
        for (int64_t step = 1; step < 20; step += 6) {
            mc_tokens t = make_tokens(ids, N, step, limit);
            int64_t kept = N - t.start;
            assert_int_equal(mc_tokens_count(&t), N);
            assert_int_equal(mc_tokens_last(&t), ids[N - 1]);
            assert_int_equal((int64_t)MC_BUFFER_COUNT(&t.ids, int32_t), kept);
            assert_memory_equal(t.ids.data, ids + t.start, (size_t)kept * sizeof *ids);
            if (limit)
                assert_true(kept >= limit && kept <= 2 * limit);
            else
                assert_int_equal(kept, N);
            mc_tokens_cut(&t, N - 5);
            assert_int_equal(mc_tokens_count(&t), N - 5);
            mc_tokens_clear(&t);
            assert_int_equal(mc_tokens_count(&t), 0);
            assert_int_equal(t.limit, limit);
            mc_tokens_deinit(&t);
        }
    }
}

/* The common prefix of two texts is found as long as both still have its end. */
static void test_common(void **state) {
    (void)state;
    int32_t ids[N], other[N];
    make_ids(ids, N);
    for (int64_t from = 0; from <= N; from += 5) {
        make_ids(other, from);
        for (int64_t limit = 0; limit < 60; limit += 29) {
            for (int64_t n = 0; n <= N; n += 20) {
                mc_tokens a = make_tokens(ids, N, 1, limit),
                          b = make_tokens(other, n, 3, limit / 2);
                int64_t common = mc_min(from, n), first = mc_max(a.start, b.start);
                int64_t want = common >= first ? common : 0;
                assert_int_equal(mc_tokens_common(&a, &b), want);
                assert_int_equal(mc_tokens_common(&b, &a), want);
                mc_tokens_deinit(&a);
                mc_tokens_deinit(&b);
            }
        }
    }
}

static bool grow(void *arg) {
    mc_tokens t = {.limit = 50};
    bool done = true;
    for (int i = 0; done && i < N; i++)
        done = mc_tokens_add(&t, (const int32_t *)arg + i, 1);
    mc_tokens_deinit(&t);
    return done;
}

static void test_no_memory(void **state) {
    (void)state;
    int32_t ids[N];
    make_ids(ids, N);
    assert_true(test_fail_each_allocation(grow, ids) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_ones_stay),
        cmocka_unit_test(test_common),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
