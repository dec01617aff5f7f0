/* Sorting, compared with qsort by value and then by index, as a stable sort orders. */
#include "graph/attr.h"
#include "graph/graph.h"
#include "op/floats.h"

typedef struct pair {
    double value;
    uint32_t index;
} pair;

static int by_value(const void *a, const void *b) {
    const pair *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int from_largest(const void *a, const void *b) {
    const pair *x = a, *y = b;
    return x->value != y->value ? by_value(y, x) : by_value(x, y);
}

/* The k largest of pairs [n], by the kernel and by plainer ops. */
static void check_topk_indices(bench *b, mica_array a, pair *pairs, int64_t n, int64_t k) {
    uint32_t index[6000];
    mica_array both[2][2]; /* values, indices */
    qsort(pairs, (size_t)n, sizeof *pairs, from_largest);
    both[0][0] = mica_topk_indices(b->s, a, k, 0, &both[0][1]);
    mc_op_get(MC_OP_TOPK_INDICES)->decompose(b->s, &(mc_attr_topk){k}, &a, 1, both[1]);
    for (int way = 0; way < 2; way++) {
        assert_int_equal(mica_array_dtype(both[way][0]), mica_array_dtype(a));
        float *top = read_f32(mica_astype(b->s, both[way][0], MICA_F32));
        assert_int_equal(mica_read(both[way][1], index, (size_t)k * sizeof *index), MICA_OK);
        for (int64_t i = 0; i < k; i++) {
            assert_true((double)top[i] == pairs[i].value);
            assert_int_equal(index[i], pairs[i].index);
        }
        free(top);
    }
}

/* n small numbers with many ties, as dtype; negative ones too if the dtype is signed. */
static void check_sort(bench *b, mica_dtype dtype, int64_t n) {
    float x[6000];
    pair pairs[6000];
    fill(x, n, (uint32_t)n);
    for (int64_t i = 0; i < n; i++) {
        x[i] = floorf(x[i] * 12);
        if (!mica_dtype_is_signed(dtype)) x[i] = fabsf(x[i]);
        if (dtype == MICA_BOOL) x[i] = x[i] > 20 ? 1 : 0;
        pairs[i] = (pair){(double)x[i], (uint32_t)i};
    }
    qsort(pairs, (size_t)n, sizeof *pairs, by_value);
    mica_array a = mica_astype(b->s, f32s(b->s, x, &n, 1), dtype);
    uint32_t index[6000];
    assert_int_equal(mica_read(mica_argsort(b->s, a, 0), index, (size_t)n * 4), MICA_OK);
    float *sorted = read_f32(mica_astype(b->s, mica_sort(b->s, a, 0), MICA_F32));
    int64_t k = n / 3 + 1;
    float *top = read_f32(mica_astype(b->s, mica_topk(b->s, a, k, 0), MICA_F32));
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(index[i], pairs[i].index);
        assert_true((double)sorted[i] == pairs[i].value);
        if (i < k) assert_true((double)top[i] == pairs[n - k + i].value);
    }
    free(sorted);
    free(top);
    check_topk_indices(b, a, pairs, n, k);
    check_topk_indices(b, a, pairs, n, 1);
    if (n > 2) check_topk_indices(b, a, pairs, n, 3);
}

static void every_dtype(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 63, 64, 65, 513, 5003};
    bench b = bench_open();
    for (int d = 0; d <= MICA_F32; d++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check_sort(&b, (mica_dtype)d, sizes[i]);
    bench_close(&b);
}

/* Keys that differ only in their upper or lower halves. */
static void wide_integers(void **state) {
    (void)state;
    bench b = bench_open();
    enum { N = 100 };
    int64_t x[N], got[N];
    for (int i = 0; i < N; i++)
        x[i] = (int64_t)((uint64_t)(i * 37 % N - 50) << (i % 2 ? 40 : 3));
    x[0] = INT64_MIN;
    x[1] = INT64_MAX;
    mica_array a = mica_from_data(b.s, x, MICA_I64, SHAPE(N));
    assert_int_equal(mica_read(mica_sort(b.s, a, 0), got, sizeof got), MICA_OK);
    for (int i = 1; i < N; i++)
        assert_true(got[i - 1] <= got[i]);
    assert_true(got[0] == INT64_MIN && got[N - 1] == INT64_MAX);
    mica_array u = mica_view(b.s, a, MICA_U64);
    uint64_t ugot[N];
    assert_int_equal(mica_read(mica_sort(b.s, u, 0), ugot, sizeof ugot), MICA_OK);
    for (int i = 1; i < N; i++)
        assert_true(ugot[i - 1] <= ugot[i]);
    bench_close(&b);
}

static void special_floats(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = f32s(b.s, (float[]){0.0f, NAN, -0.0f, INFINITY, -NAN, -INFINITY}, SHAPE(6));
    uint32_t index[6];
    assert_int_equal(mica_read(mica_argsort(b.s, x, 0), index, sizeof index), MICA_OK);
    assert_memory_equal(index, ((uint32_t[]){5, 0, 2, 3, 1, 4}), sizeof index);
    mica_array largest;
    (void)mica_topk_indices(b.s, x, 6, 0, &largest);
    assert_int_equal(mica_read(largest, index, sizeof index), MICA_OK);
    assert_memory_equal(index, ((uint32_t[]){1, 4, 3, 0, 2, 5}), sizeof index);
    bench_close(&b);
}

/* Of rows of numbers that are not finite, and of their neighbours, the plainer ops find the largest
 * that the kernel finds: where blocks do not fill the row, where there are fewer numbers than k. */
static void largest_of_special_rows(void **state) {
    (void)state;
    enum { ROWS = 4, LENGTH = 1003, MAX_K = 60 };
    static const int64_t counts[] = {1, 7, MAX_K};
    static float x[ROWS][LENGTH];
    uint32_t index[2][ROWS * MAX_K];
    float values[2][ROWS * MAX_K];
    bench b = bench_open();
    fill(&x[0][0], (int64_t)ROWS * LENGTH, 5);
    for (int i = 0; i < LENGTH; i++) {
        x[0][i] = i % 90 == 7 ? NAN : i % 40 == 3 ? INFINITY : x[0][i];
        x[1][i] = i % 333 == 8 ? 1.0f : -INFINITY;
        x[2][i] = i < LENGTH - 1 ? -1.0f : -0.5f;
        x[3][i] = i % 2 ? 0.0f : -0.0f;
    }
    mica_array a = f32s(b.s, &x[0][0], SHAPE(ROWS, LENGTH));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const size_t bytes = (size_t)(ROWS * counts[i]) * 4;
        mica_array both[2][2];
        both[0][0] = mica_topk_indices(b.s, a, counts[i], -1, &both[0][1]);
        mc_op_get(MC_OP_TOPK_INDICES)->decompose(b.s, &(mc_attr_topk){counts[i]}, &a, 1, both[1]);
        for (int way = 0; way < 2; way++) {
            assert_int_equal(mica_read(both[way][0], values[way], bytes), MICA_OK);
            assert_int_equal(mica_read(both[way][1], index[way], bytes), MICA_OK);
        }
        assert_memory_equal(index[0], index[1], bytes);
        assert_memory_equal(values[0], values[1], bytes);
    }
    bench_close(&b);
}

static void any_axis(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = i32s(b.s, (int32_t[]){5, 1, 4, 2, 3, 0}, SHAPE(3, 2));
    expect_i32(mica_sort(b.s, x, 0), (int32_t[]){3, 0, 4, 1, 5, 2}, SHAPE(3, 2));
    expect_i32(mica_sort(b.s, mica_transpose(b.s, x, NULL), 1), (int32_t[]){3, 4, 5, 0, 1, 2},
               SHAPE(2, 3));
    expect_i32(mica_sort(b.s, mica_flip(b.s, x, 0), -1), (int32_t[]){0, 3, 2, 4, 1, 5},
               SHAPE(3, 2));
    expect_i32(mica_topk(b.s, x, 2, 0), (int32_t[]){4, 1, 5, 2}, SHAPE(2, 2));
    mica_array indices, top = mica_topk_indices(b.s, x, 2, 0, &indices);
    expect_i32(top, (int32_t[]){5, 2, 4, 1}, SHAPE(2, 2));
    expect_i32(mica_astype(b.s, indices, MICA_I32), (int32_t[]){0, 1, 1, 0}, SHAPE(2, 2));
    expect_i32(mica_topk_indices(b.s, x, 1, 1, NULL), (int32_t[]){5, 4, 3}, SHAPE(3, 1));
    top = mica_topk_indices(b.s, mica_zeros(b.s, SHAPE(0, 3), MICA_F32), 2, 1, &indices);
    assert_int_equal(mica_eval_n(b.s, (mica_array[]){top, indices}, 2), MICA_OK);
    expect_i32(mica_partition(b.s, x, 1, 0), (int32_t[]){3, 0, 4, 1, 5, 2}, SHAPE(3, 2));
    mica_array none = mica_sort(b.s, mica_zeros(b.s, SHAPE(2, 0), MICA_F32), -1);
    assert_int_equal(mica_eval(b.s, none), MICA_OK);
    expect_failure(&b, mica_topk(b.s, counting(b.s, SHAPE(3)), 4, 0), MICA_EINVAL, "topk");
    expect_failure(&b, mica_topk(b.s, counting(b.s, SHAPE(3)), 0, 0), MICA_EINVAL, "topk");
    top = mica_topk_indices(b.s, counting(b.s, SHAPE(3)), 4, 0, &indices);
    assert_false(mica_valid(indices));
    expect_failure(&b, top, MICA_EINVAL, "topk");
    expect_failure(&b, mica_topk_indices(b.s, counting(b.s, SHAPE(3)), 1, 1, &indices), MICA_EINVAL,
                   "topk_indices: there is no axis 1 in i32[3]");
    expect_failure(&b, mica_partition(b.s, counting(b.s, SHAPE(3)), 3, 0), MICA_EINVAL,
                   "partition");
    expect_failure(&b, mica_sort(b.s, mica_i32(b.s, 1), 0), MICA_EINVAL,
                   "sort: there is no axis 0 in i32[]");
    expect_failure(&b, mica_argpartition(b.s, counting(b.s, SHAPE(3)), 0, 1), MICA_EINVAL,
                   "argpartition: there is no axis 1 in i32[3]");
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype),    cmocka_unit_test(wide_integers),
        cmocka_unit_test(special_floats), cmocka_unit_test(largest_of_special_rows),
        cmocka_unit_test(any_axis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
