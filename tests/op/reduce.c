/* Reductions: axes, empty arrays, NaN, long rows, compositions, softmax. */
#include "graph/attr.h"
#include "graph/graph.h"
#include "op/floats.h"

#define LONG 5003 /* several blocks and a part of one */

static const int last = -1;

static void axes(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = counting(b.s, SHAPE(2, 3, 4));
    expect_i32(mica_sum(b.s, x, NULL, 0, false), (int32_t[]){276}, NULL, 0);
    expect_i32(mica_sum(b.s, x, (int[]){0, -1}, 2, false), (int32_t[]){60, 92, 124}, SHAPE(3));
    expect_i32(mica_sum(b.s, x, (int[]){2, 0}, 2, true), (int32_t[]){60, 92, 124}, SHAPE(1, 3, 1));
    expect_i32(mica_max(b.s, x, (int[]){1}, 1, false), (int32_t[]){8, 9, 10, 11, 20, 21, 22, 23},
               SHAPE(2, 4));
    mica_array t = mica_transpose(b.s, x, NULL); /* [4, 3, 2] */
    expect_i32(mica_sum(b.s, t, (int[]){0, 2}, 2, false), (int32_t[]){60, 92, 124}, SHAPE(3));
    expect_i32(mica_sum(b.s, mica_flip(b.s, x, 1), (int[]){0, 2}, 2, false),
               (int32_t[]){124, 92, 60}, SHAPE(3));
    expect_i32(mica_sum(b.s, mica_i32(b.s, 7), NULL, 0, false), (int32_t[]){7}, NULL, 0);
    expect_failure(&b, mica_sum(b.s, counting(b.s, SHAPE(2, 3)), (int[]){1, -1}, 2, false),
                   MICA_EINVAL, "twice");
    expect_failure(&b, mica_sum(b.s, counting(b.s, SHAPE(2, 3)), (int[]){2}, 1, false), MICA_EINVAL,
                   "sum");
    expect_failure(&b, mica_mean(b.s, MICA_NONE, NULL, 0, false), MICA_EINVAL, "mean");
    bench_close(&b);
}

static void of_nothing(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = mica_zeros(b.s, SHAPE(2, 0), MICA_F32);
    expect_f32(mica_sum(b.s, x, &last, 1, false), (float[]){0, 0}, SHAPE(2), 0);
    expect_f32(mica_prod(b.s, x, &last, 1, false), (float[]){1, 1}, SHAPE(2), 0);
    expect_f32(mica_logsumexp(b.s, x, &last, 1, false), (float[]){-INFINITY, -INFINITY}, SHAPE(2),
               0);
    expect_f32(mica_mean(b.s, x, &last, 1, false), (float[]){NAN, NAN}, SHAPE(2), 0);
    expect_same(mica_all(b.s, x, &last, 1, false), mica_ones(b.s, SHAPE(2), MICA_BOOL));
    expect_same(mica_any(b.s, x, &last, 1, false), mica_zeros(b.s, SHAPE(2), MICA_BOOL));
    assert_int_equal(mica_array_size(mica_max(b.s, x, (int[]){0}, 1, false)), 0);
    assert_int_equal(mica_eval(b.s, mica_softmax(b.s, x, -1)), MICA_OK);
    expect_failure(&b, mica_max(b.s, x, NULL, 0, false), MICA_EINVAL, "max: f32[2,0]");
    x = mica_zeros(b.s, SHAPE(2, 0), MICA_F32);
    expect_failure(&b, mica_argmin(b.s, x, 1, false), MICA_EINVAL, "argmin: f32[2,0]");
    x = mica_zeros(b.s, SHAPE(2), MICA_F32);
    expect_failure(&b, mica_softmax(b.s, x, 1), MICA_EINVAL,
                   "softmax: there is no axis 1 in f32[2]");
    bench_close(&b);
}

static void extremes_and_nan(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = f32s(b.s, (float[]){1, NAN, 3, -INFINITY, NAN, NAN}, SHAPE(2, 3));
    expect_f32(mica_max(b.s, x, &last, 1, false), (float[]){NAN, NAN}, SHAPE(2), 0);
    uint32_t index[2];
    assert_int_equal(mica_read(mica_argmax(b.s, x, -1, false), index, sizeof index), MICA_OK);
    assert_int_equal(index[0], 2);
    assert_int_equal(index[1], 0);
    mica_array nan = mica_full(b.s, SHAPE(LONG), mica_f32(b.s, NAN));
    assert_int_equal(mica_read(mica_argmax(b.s, nan, 0, false), index, 4), MICA_OK);
    assert_int_equal(index[0], 0);
    const uint64_t big[2] = {1, UINT64_MAX};
    mica_array u = mica_from_data(b.s, big, MICA_U64, SHAPE(2));
    assert_int_equal(mica_read(mica_argmax(b.s, u, 0, false), index, 4), MICA_OK);
    assert_int_equal(index[0], 1);
    uint64_t min;
    assert_int_equal(mica_read(mica_min(b.s, u, NULL, 0, false), &min, 8), MICA_OK);
    assert_true(min == 1);
    bench_close(&b);
}

/* The first of equals is found, in any block. */
static void argmax_finds_the_first(void **state) {
    (void)state;
    static const int places[] = {0, 1, 15, 16, 511, 512, 513, 1024, 4000, LONG - 1};
    bench b = bench_open();
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        float x[LONG];
        fill(x, LONG, (uint32_t)p);
        x[places[p]] = 9;
        x[LONG - 1] = 9;
        mica_array a = f32s(b.s, x, SHAPE(LONG));
        int64_t at;
        assert_int_equal(mica_item_i64(mica_argmax(b.s, a, 0, false), &at), MICA_OK);
        assert_int_equal(at, places[p]);
        mica_array low = mica_negative(b.s, a);
        assert_int_equal(mica_item_i64(mica_argmin(b.s, low, 0, true), &at), MICA_OK);
        assert_int_equal(at, places[p]);
        mica_array ints = mica_astype(b.s, mica_floor(b.s, a), MICA_I32);
        assert_int_equal(mica_item_i64(mica_argmax(b.s, ints, 0, false), &at), MICA_OK);
        assert_int_equal(at, places[p]);
    }
    bench_close(&b);
}

static int64_t place_of(mica_scope *s, mica_array x, bool min) {
    int64_t at = -1;
    assert_int_equal(
        mica_item_i64(min ? mica_argmin(s, x, 0, false) : mica_argmax(s, x, 0, false), &at),
        MICA_OK);
    return at;
}

static double best_of(mica_scope *s, mica_array x, bool min) {
    double best = 0;
    assert_int_equal(
        mica_item_f64(min ? mica_min(s, x, NULL, 0, false) : mica_max(s, x, NULL, 0, false), &best),
        MICA_OK);
    return best;
}

/* A row that threads share, with its best number at `place` and once more after it. */
static void best_of_a_long_row(bench *b, float *x, int64_t n, int64_t place) {
    fill(x, n, (uint32_t)place);
    x[place] = x[n - 1] = 9;
    for (int min = 0; min <= 1; min++) {
        for (int64_t i = 0; i < n; i++)
            x[i] = min ? -x[i] : x[i];
        mica_array a = f32s(b->s, x, SHAPE(n));
        assert_int_equal(place_of(b->s, a, min), place);
        assert_true(best_of(b->s, a, min) == (min ? -9 : 9));
        mica_array whole = mica_astype(b->s, mica_floor(b->s, a), MICA_I32);
        assert_int_equal(place_of(b->s, whole, min), place);
        assert_true(best_of(b->s, whole, min) == (min ? -9 : 9));
        for (int64_t nan = 0; nan < n; nan += n - 1) { /* before it and after it */
            if (nan == place) continue;
            float kept = x[nan];
            x[nan] = NAN;
            a = f32s(b->s, x, SHAPE(n));
            assert_int_equal(place_of(b->s, a, min), place);
            assert_true(isnan(best_of(b->s, a, min)));
            x[nan] = kept;
        }
    }
    for (int64_t i = 0; i < n; i++)
        x[i] = i == place ? -5 : NAN;
    assert_int_equal(place_of(b->s, f32s(b->s, x, SHAPE(n)), false), place);
    assert_int_equal(place_of(b->s, f32s(b->s, x, SHAPE(n)), true), place);
}

static void long_rows_are_shared(void **state) {
    (void)state;
    const int64_t n = 100003, places[] = {0, 24999, 25000, 25001, 50001, 75001, 75002, n - 1};
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    for (int threads = 1; threads <= 4; threads += 3) {
        bench b = bench_open_with(&(mica_device_options){.threads = threads});
        for (size_t p = 0; p < sizeof places / sizeof *places; p++)
            best_of_a_long_row(&b, x, n, places[p]);
        bench_close(&b);
    }
    free(x);
}

#define FOUND 4 /* max, min, argmax, argmin */

/* What is found in rows of x, as bits. */
static void find_all(bench *b, mica_array x, int64_t bits[FOUND][2]) {
    mica_array found[FOUND] = {mica_max(b->s, x, &last, 1, false),
                               mica_min(b->s, x, &last, 1, false), mica_argmax(b->s, x, -1, false),
                               mica_argmin(b->s, x, -1, false)};
    memset(bits, 0, FOUND * sizeof *bits);
    for (int i = 0; i < FOUND; i++)
        assert_int_equal(
            mica_read(found[i], bits[i], 2 * mica_dtype_bytes(mica_array_dtype(found[i]))),
            MICA_OK);
}

/* Rows shared by threads: of several dtypes, not contiguous, with zeros of both signs, of NaN
 * alone. */
static void shared_rows_agree(void **state) {
    (void)state;
    const int64_t n = 40010;
    const mica_dtype dtypes[] = {MICA_F32, MICA_BF16, MICA_I8, MICA_U64, MICA_BOOL};
    float *x = malloc(2 * (size_t)n * sizeof *x);
    assert_non_null(x);
    for (int content = 0; content < 4; content++) {
        fill(x, 2 * n, 11);
        for (int64_t i = 0; i < 2 * n; i++)
            if (content > 0) x[i] = content == 1 ? -1 : content == 2 ? NAN : -INFINITY;
        if (content == 1) x[20005] = 0, x[20032] = -0.0f;
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            for (int view = 0; view < 3; view++) {
                int64_t bits[2][FOUND][2];
                for (int i = 0; i < 2; i++) {
                    bench b = bench_open_with(&(mica_device_options){.threads = 1 + 3 * i});
                    mica_array a = f32s(b.s, x, SHAPE(2, n));
                    if (dtypes[d] == MICA_U64 && content == 0)
                        a = mica_multiply(b.s, mica_abs(b.s, a), mica_f32(b.s, 0x1p61f));
                    a = mica_astype(b.s, a, dtypes[d]);
                    if (view == 1) a = mica_flip(b.s, a, 1);
                    if (view == 2) a = mica_materialize(b.s, mica_transpose(b.s, a, NULL));
                    if (view == 2) a = mica_transpose(b.s, a, NULL);
                    find_all(&b, a, bits[i]);
                    bench_close(&b);
                }
                assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
            }
    }
    free(x);
}

/* Sums over the first axes, and over those before the last, have the bits of the same sums where
 * their elements are neighbours; by any number of threads. */
static void sums_of_columns(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 49, 1280}, {2, 1100, 24}, {3, 7, 16}, {1, 513, 130},
                                        {2, 2, 65},    {1, 600, 17},  {2, 5, 3}};
    if (!test_device_keeps_order()) skip(); /* it compares the cpu with itself */
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (int threads = 1; threads < 4; threads++) {
            bench b = bench_open_cpu(&(mica_device_options){.threads = threads});
            mica_array x = noise(b.s, shapes[k], 3, 5);
            mica_array near =
                mica_detach(b.s, mica_contiguous(b.s, mica_transpose(b.s, x, (int[]){0, 2, 1})));
            expect_same(mica_sum(b.s, x, (int[]){1}, 1, false),
                        mica_sum(b.s, near, (int[]){2}, 1, false));
            near = mica_detach(b.s, mica_contiguous(b.s, mica_transpose(b.s, x, (int[]){2, 0, 1})));
            expect_same(mica_sum(b.s, x, (int[]){0, 1}, 2, false),
                        mica_sum(b.s, near, (int[]){1, 2}, 2, false));
            bench_close(&b);
        }
}

static void long_sums(void **state) {
    (void)state;
    bench b = bench_open();
    int64_t n = 1000003;
    mica_array x = noise(b.s, &n, 1, 21);
    float *v = read_f32(x);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)v[i];
    double got;
    assert_int_equal(mica_item_f64(mica_sum(b.s, x, NULL, 0, false), &got), MICA_OK);
    assert_true(fabs(got - sum) < 0.01);
    free(v);
    mica_array tenths = mica_full(b.s, &n, 1, mica_f32(b.s, 0.1f));
    assert_int_equal(mica_item_f64(mica_mean(b.s, tenths, NULL, 0, false), &got), MICA_OK);
    /* Added up one by one, each of n sums may be rounded. */
    double slack = test_device_keeps_order() ? 1e-7 : 0.1 * (double)n * 0x1p-24;
    assert_true(fabs(got - 0.1) < slack);
    /* small integers are widened */
    mica_array ones = mica_full(b.s, &n, 1, mica_scalar(b.s, 127, MICA_I8));
    int64_t whole;
    assert_int_equal(mica_item_i64(mica_sum(b.s, ones, NULL, 0, false), &whole), MICA_OK);
    assert_int_equal(whole, 127 * n);
    bench_close(&b);
}

static void spread(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = f32s(b.s, (float[]){1, 2, 3, 4, 10000, 10001, 10002, 10003}, SHAPE(2, 4));
    expect_f32(mica_var(b.s, x, &last, 1, false, 0), (float[]){1.25f, 1.25f}, SHAPE(2), 1e-6);
    expect_f32(mica_var(b.s, x, &last, 1, true, 1), (float[]){5.0f / 3, 5.0f / 3}, SHAPE(2, 1),
               1e-6);
    float root = sqrtf(1.25f);
    expect_f32(mica_std(b.s, x, &last, 1, false, 0), (float[]){root, root}, SHAPE(2), 1e-6);
    expect_f32(mica_var(b.s, mica_f32(b.s, 3), NULL, 0, false, 1), (float[]){NAN}, NULL, 0, 0);
    bench_close(&b);
}

/* Kernels compared with their decompositions, over axes, strides and dtypes. */
static void fused_agree(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = noise(b.s, SHAPE(7, 3, 600), 4);
    mica_array views[3] = {x, mica_transpose(b.s, x, (int[]){2, 0, 1}), mica_flip(b.s, x, 2)};
    for (int v = 0; v < 3; v++) {
        mica_array soft = mica_softmax(b.s, views[v], -1);
        float *a = read_f32(soft);
        mica_array plain;
        mc_op_get(MC_OP_SOFTMAX)->decompose(b.s, NULL, &views[v], 1, &plain);
        float *p = read_f32(plain);
        for (int64_t i = 0; i < mica_array_size(soft); i++)
            assert_true(fabsf(a[i] - p[i]) <= 1e-6f * p[i] + 1e-38f);
        free(a);
        free(p);
        for (int64_t mask = 1; mask < 8; mask++) {
            int list[3], n = 0;
            for (int k = 0; k < 3; k++)
                if (mask >> k & 1) list[n++] = k;
            a = read_f32(mica_logsumexp(b.s, views[v], list, n, true));
            mc_op_get(MC_OP_LOGSUMEXP)
                ->decompose(b.s, &(mc_attr_reduce){mask}, &views[v], 1, &plain);
            p = read_f32(plain);
            for (int64_t i = 0; i < mica_array_size(plain); i++)
                assert_true(fabsf(a[i] - p[i]) <= 1e-6f * (1 + fabsf(p[i])));
            free(a);
            free(p);
        }
    }
    for (mica_dtype dtype = MICA_F16; dtype <= MICA_BF16; dtype++) {
        mica_array h = mica_astype(b.s, x, dtype);
        mica_array once =
            mica_astype(b.s, mica_softmax(b.s, mica_astype(b.s, h, MICA_F32), 1), dtype);
        expect_same(mica_softmax(b.s, h, 1), once);
    }
    expect_failure(&b, mica_softmax(b.s, mica_f32(b.s, 1), -1), MICA_EINVAL, "");
    bench_close(&b);
}

/* Rows of logits far beyond the range of exp. Rows sum to one, with the same bits for any number of
 * threads. */
static void softmax_of_logits(void **state) {
    (void)state;
    int64_t shape[2] = {16, 30011};
    float *first = NULL;
    for (int threads = 1; threads <= 4; threads += 3) {
        mica_device_options options = {.threads = threads};
        bench b = bench_open_with(&options);
        mica_array x = mica_multiply(b.s, noise(b.s, shape, 2, 8), mica_f32(b.s, 300));
        mica_array y = mica_softmax(b.s, x, -1);
        float *v = read_f32(y);
        for (int64_t r = 0; r < shape[0]; r++) {
            double sum = 0;
            for (int64_t i = 0; i < shape[1]; i++)
                sum += (double)v[r * shape[1] + i];
            assert_true(fabs(sum - 1) < 1e-6);
        }
        if (first) assert_memory_equal(first, v, (size_t)(shape[0] * shape[1]) * sizeof *v);
        free(first);
        first = v;
        bench_close(&b);
    }
    free(first);
}

/* A chain of many builders on a new device; true if all succeeded. */
static bool chain(void *arg) {
    (void)arg;
    mica_device *device = NULL;
    mica_scope *s = NULL;
    bool good = false;
    if (test_device_open(&(mica_device_options){.threads = 1}, &device)) return false;
    if (mica_scope_open(device, &s)) goto done;
    mica_array x = mica_softmax(s, mica_eye(s, 3, 70, 1, MICA_BF16), 0);
    x = mica_add(s, mica_sort(s, x, 1), mica_std(s, x, (int[]){1}, 1, true, 1));
    x = mica_where(s, mica_less(s, x, mica_f32(s, 0.5f)), mica_gelu(s, x),
                   mica_cumsum(s, x, 0, true, true));
    x = mica_cross_entropy(s, x, mica_argmax(s, x, -1, false));
    mica_array keys = mica_random_split(s, mica_random_key(s, 1), 2);
    mica_array key = mica_squeeze(s, mica_slice_axis(s, keys, 0, 0, 1), 0);
    mica_array drawn = mica_random_categorical(s, key, mica_linspace(s, 0, 1, 100), 3);
    mica_array all[2] = {mica_clip(s, x, MICA_NONE, mica_f32(s, 1)), drawn};
    good = mica_eval_n(s, all, 2) == MICA_OK;
    if (!good) assert_true(mica_last_error()[0] != 0);
done:
    mica_scope_close(&s);
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
    return good;
}

static void each_allocation_fails(void **state) {
    (void)state;
    test_fail_each_allocation(chain, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes),
        cmocka_unit_test(of_nothing),
        cmocka_unit_test(extremes_and_nan),
        cmocka_unit_test(argmax_finds_the_first),
        cmocka_unit_test(long_rows_are_shared),
        cmocka_unit_test(shared_rows_agree),
        cmocka_unit_test(sums_of_columns),
        cmocka_unit_test(long_sums),
        cmocka_unit_test(spread),
        cmocka_unit_test(fused_agree),
        cmocka_unit_test(softmax_of_logits),
        cmocka_unit_test(each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
