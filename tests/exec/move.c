/* Handles, and single values that are freed before their scope closes. */
#include <mica/mica.h>

#include <stdlib.h>

#include "exec/expect.h"

enum { N = 1 << 14 };

static mica_device *device;
static mica_scope *s;
static const int64_t shape = N;

static int open_scope(void **state) {
    (void)state;
    assert_int_equal(test_device_open(&(mica_device_options){.threads = 1}, &device), 0);
    return (int)mica_scope_open(device, &s);
}

static int close_scope(void **state) {
    (void)state;
    mica_scope_close(&s);
    assert_int_equal(test_active_bytes(device), 0);
    mica_device_close(&device);
    return 0;
}

static mica_array counting(mica_scope *scope) {
    mica_array x = mica_arange(scope, 0, N, 1, MICA_F32);
    must(mica_eval(scope, x));
    return x;
}

static void expect_last(mica_array x, double want) {
    double last;
    must(mica_item_f64(mica_slice_axis(x.scope, x, 0, -1, MICA_END_OF_AXIS), &last));
    assert_true(last == want);
}

static void test_a_handle_is_plain_data(void **state) {
    (void)state;
    mica_array x = counting(s), same = x;
    assert_true(mica_valid(same));
    x = mica_negative(s, x); /* the handle is another's; the array stays */
    expect_last(same, N - 1);
    expect_last(x, 1 - N);
    same = MICA_NONE;
    assert_false(mica_valid(same));
    expect_last(x, 1 - N);
}

static void test_bytes(void **state) {
    (void)state;
    for (mica_dtype dtype = MICA_BOOL; dtype < MICA_DTYPE_COUNT; dtype++) {
        mica_array x = mica_zeros(s, (const int64_t[]){3, 5}, 2, dtype);
        assert_int_equal(mica_array_bytes(x), 15 * mica_dtype_bytes(dtype));
        assert_int_equal(mica_array_bytes(mica_slice_axis(s, x, 1, 0, 2)),
                         6 * mica_dtype_bytes(dtype));
    }
    assert_int_equal(mica_array_bytes(mica_f32(s, 1)), 4);
    assert_int_equal(mica_array_bytes(mica_zeros(s, (const int64_t[]){0, 9}, 2, MICA_F32)), 0);
    assert_int_equal(mica_array_bytes(MICA_NONE), 0);
}

static void test_what_is_contiguous(void **state) {
    (void)state;
    const float numbers[15] = {0};
    mica_array x = mica_from_data(s, numbers, MICA_F32, (const int64_t[]){3, 5}, 2);
    const mica_array arrays[] = {x,
                                 mica_f32(s, 1),
                                 mica_exp(s, x),
                                 mica_slice_axis(s, x, 0, 1, 3),
                                 mica_flatten(s, x, 0, 1),
                                 mica_contiguous(s, mica_transpose(s, x, NULL)),
                                 mica_transpose(s, x, NULL),
                                 mica_slice_axis(s, x, 1, 0, 2),
                                 mica_flip(s, x, 0),
                                 MICA_NONE};
    enum { N_ARRAYS = sizeof arrays / sizeof *arrays, CONTIGUOUS = 6 };
    /* Another device may give what is a view here as memory of its own. */
    for (int i = 0; i < (test_device_is_other() ? CONTIGUOUS : N_ARRAYS); i++) {
        if (mica_valid(arrays[i])) must(mica_eval(s, arrays[i]));
        assert_int_equal(mica_array_is_contiguous(arrays[i]), i < CONTIGUOUS);
        const void *host;
        if (test_device_is_other() || !mica_valid(arrays[i])) continue;
        assert_int_equal(mica_array_host(arrays[i], &host), i < CONTIGUOUS ? MICA_OK : MICA_EINVAL);
    }
    assert_false(mica_array_is_contiguous(mica_exp(s, x))); /* it has no value yet */
    assert_false(mica_array_is_contiguous(MICA_NONE));
}

static void test_a_value_is_freed_at_once(void **state) {
    (void)state;
    mica_array x = counting(s), y = mica_negative(s, x);
    uint64_t before = test_active_bytes(device);
    assert_int_equal(mica_array_release(y), 0); /* not computed: it takes nothing, and stays */
    must(mica_eval(s, y));
    assert_true(test_active_bytes(device) >= before + N * sizeof(float));
    size_t freed = mica_array_release(x);
    assert_true(freed >= N * sizeof(float));
    assert_true(test_active_bytes(device) < before + N * sizeof(float));
    assert_int_equal(mica_array_release(x), 0);
    expect_refused(mica_eval(s, x), MICA_EINVAL, "released");
    expect_last(y, 1 - N);
    assert_int_equal(mica_array_release(MICA_NONE), 0);
    assert_int_equal(mica_array_release(mica_f32(s, 1)), 0);
}

static void test_what_is_still_to_be_computed_is_an_error(void **state) {
    (void)state;
    mica_array x = counting(s), y = mica_negative(s, x);
    assert_true(mica_array_release(x) > 0);
    expect_refused(mica_eval(s, y), MICA_EINVAL, "moved away, overwritten or released");
    assert_int_equal(mica_scope_status(s), MICA_OK);
    assert_false(mica_valid(mica_exp(s, x)));
    expect_refused(mica_scope_status(s), MICA_EINVAL, "released");
}

/* Others that share the memory keep it. */
static void test_shared_memory_stays(void **state) {
    (void)state;
    mica_scope *other;
    must(mica_scope_open(device, &other));
    mica_array x = counting(s), view = mica_slice_axis(s, x, 0, 1, MICA_END_OF_AXIS);
    must(mica_eval(s, view));
    mica_array kept = mica_detach(other, x), pending = mica_negative(other, x);
    assert_int_equal(mica_array_release(x), 0);
    expect_last(view, N - 1);
    (void)mica_array_release(view);
    expect_last(kept, N - 1);
    expect_last(pending, 1 - N); /* of another scope, which has a share */
    mica_scope_close(&other);
}

/* What runs is waited for. */
static void test_an_evaluation_ends_first(void **state) {
    (void)state;
    mica_array x = counting(s), y = x;
    for (int i = 0; i < 50; i++)
        y = mica_sin(s, y);
    mica_array total = mica_sum(s, y, NULL, 0, false);
    must(mica_eval_async(s, &total, 1));
    (void)mica_array_release(x);
    double value;
    must(mica_item_f64(total, &value));
    assert_true(value > -N && value < N);
}

static void test_a_parameter_stays(void **state) {
    (void)state;
    mica_program *p;
    mica_array x = mica_program_param(s, MICA_F32, &shape, 1), y = mica_negative(s, x);
    assert_int_equal(mica_array_release(x), 0);
    must(mica_program_build(s, &(mica_param){.array = x}, 1, &y, 1, NULL, &p));
    mica_array given = counting(s), result;
    must(mica_program_run(p, s, &given, &result));
    assert_true(mica_array_release(given) > 0);
    expect_last(result, 1 - N);
    mica_program_close(&p);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, open_scope, close_scope)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_handle_is_plain_data),
        TEST(test_bytes),
        TEST(test_what_is_contiguous),
        TEST(test_a_value_is_freed_at_once),
        TEST(test_what_is_still_to_be_computed_is_an_error),
        TEST(test_shared_memory_stays),
        TEST(test_an_evaluation_ends_first),
        TEST(test_a_parameter_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
