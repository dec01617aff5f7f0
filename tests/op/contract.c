/* dot_general, einsum and the like: what they refuse. Their goldens are those of
 * tests/op/golden_contract.c. */
#include "op/floats.h"

#define ONES(...) mica_ones(b.s, SHAPE(__VA_ARGS__), MICA_F32)

static const int zero[2] = {0, 0}, one[1] = {1}, three[1] = {3};

static void dot_general_refuses(void **state) {
    (void)state;
    bench b = bench_open();
    mica_dot_axes p = {.a_contract = one, .b_contract = one, .n_contract = 1};
    expect_failure(&b, mica_dot_general(b.s, ONES(2, 3), ONES(3, 4), &p), MICA_ESHAPE,
                   "dot_general: f32[2,3] and f32[3,4]: axis 1 of a and axis 1 of b");
    p.b_contract = three;
    expect_failure(&b, mica_dot_general(b.s, ONES(2, 3), ONES(3, 4), &p), MICA_EINVAL,
                   "there is no axis 3");
    p = (mica_dot_axes){zero, zero, 1, zero, zero, 1};
    expect_failure(&b, mica_dot_general(b.s, ONES(2, 3), ONES(2, 4), &p), MICA_EINVAL,
                   "axis 0 of f32[2,3] is listed twice");
    p = (mica_dot_axes){.n_batch = 1};
    expect_failure(&b, mica_dot_general(b.s, ONES(2), ONES(2), &p), MICA_EINVAL, "a list of 1");
    p = (mica_dot_axes){zero, zero, 2, NULL, NULL, 0};
    expect_failure(&b, mica_dot_general(b.s, ONES(2), ONES(2), &p), MICA_EINVAL, "a list of 2");
    p = (mica_dot_axes){zero, zero, -1, NULL, NULL, 0};
    expect_failure(&b, mica_dot_general(b.s, ONES(2), ONES(2), &p), MICA_EINVAL, "a list of -1");
    p = (mica_dot_axes){.a_contract = zero, .b_contract = one, .n_contract = 1};
    expect_failure(&b, mica_dot_general(b.s, ONES(1, 3), ONES(3, 2), &p), MICA_ESHAPE,
                   "other lengths"); /* 1 does not broadcast */
    mica_array i = mica_ones(b.s, SHAPE(2, 2), MICA_I32);
    expect_failure(&b, mica_dot_general(b.s, i, ONES(2, 2), NULL), MICA_EDTYPE, "i32[2,2]");
    expect_failure(&b, mica_dot_general(b.s, ONES(1, 1, 1, 1, 1), ONES(1, 1, 1, 1), NULL),
                   MICA_ESHAPE, "a result of 9 axes");
    bench_close(&b);
}

static void refuse_einsum(bench *b, const char *equation, mica_status status, const char *part) {
    mica_array xs[2] = {mica_ones(b->s, SHAPE(2, 3), MICA_F32),
                        mica_ones(b->s, SHAPE(4, 2), MICA_F32)};
    expect_failure(b, mica_einsum(b->s, equation, xs, 2), status, part);
}

static void einsum_refuses(void **state) {
    (void)state;
    bench b = bench_open();
    refuse_einsum(&b, "ij,jk->ik", MICA_ESHAPE, "axes of one letter have other lengths");
    refuse_einsum(&b, "ij", MICA_EINVAL, "more operands than terms");
    refuse_einsum(&b, "ij,kl,m", MICA_EINVAL, "more terms than operands");
    refuse_einsum(&b, "i,kl", MICA_EINVAL, "another number of axes");
    refuse_einsum(&b, "ijk,kl", MICA_EINVAL, "another number of axes");
    refuse_einsum(&b, "ijk...,kl", MICA_EINVAL, "another number of axes");
    refuse_einsum(&b, "ij,ki->m", MICA_EINVAL, "a letter of the result is in no operand");
    refuse_einsum(&b, "ij,ki->jj", MICA_EINVAL, "a letter is twice in the result");
    refuse_einsum(&b, "i...,ki->i", MICA_EINVAL, "lacks the \"...\"");
    refuse_einsum(&b, "ij,ki->j,k", MICA_EINVAL, "the result is one array");
    refuse_einsum(&b, "ij,ki-j", MICA_EINVAL, "without \">\"");
    refuse_einsum(&b, "i1,ki", MICA_EINVAL, "letters, \"...\"");
    refuse_einsum(&b, "i..,ki", MICA_EINVAL, "letters, \"...\"");
    refuse_einsum(&b, "......,ki", MICA_EINVAL, "letters, \"...\"");
    refuse_einsum(&b, "abcdefghijk,ki", MICA_EINVAL, "too many axes");
    expect_failure(&b, mica_einsum(b.s, NULL, NULL, 0), MICA_EINVAL, "einsum: an equation");
    mica_array xs[2] = {ONES(2, 3), mica_ones(b.s, SHAPE(3, 2), MICA_I32)};
    expect_failure(&b, mica_einsum(b.s, "ij,jk", xs, 2), MICA_EDTYPE, "floats");
    bench_close(&b);
}

static void others_refuse(void **state) {
    (void)state;
    bench b = bench_open();
    expect_failure(&b, mica_kron(b.s, ONES(2, 2, 2, 2, 2), ONES(3)), MICA_ESHAPE,
                   "more than 4 axes");
    const int32_t far[2] = {0, 5};
    mica_array at = i32s(b.s, far, SHAPE(1, 2));
    expect_eval_failure(&b, mica_gather_nd(b.s, ONES(2, 3), at, 0), MICA_EINVAL, "index 5");
    at = i32s(b.s, far, SHAPE(1, 2));
    expect_failure(&b, mica_gather_nd(b.s, ONES(2), at, 0), MICA_ESHAPE, "gather_nd: indices");
    at = i32s(b.s, far, SHAPE(1, 2));
    expect_failure(&b, mica_gather_nd(b.s, ONES(2, 3), at, 1), MICA_ESHAPE, "1 batch axes");
    at = i32s(b.s, far, SHAPE(1, 2));
    expect_failure(&b, mica_gather_nd(b.s, ONES(2, 3), at, -1), MICA_ESHAPE, "-1 batch axes");
    expect_failure(&b, mica_gather_nd(b.s, ONES(2, 3), ONES(1, 2), 0), MICA_EDTYPE, "integers");
    at = i32s(b.s, far, SHAPE(1, 2));
    expect_failure(&b, mica_scatter_nd(b.s, ONES(2, 3), at, ONES(2), MICA_SCATTER_ADD), MICA_ESHAPE,
                   "scatter_nd: updates f32[2]");
    expect_failure(&b, mica_searchsorted(b.s, ONES(2, 3), ONES(2), false), MICA_ESHAPE,
                   "searchsorted");
    expect_failure(&b, mica_median(b.s, ONES(0, 3), zero, 1, false), MICA_EINVAL, "no elements");
    expect_failure(&b, mica_median(b.s, ONES(2, 3), zero, 2, false), MICA_EINVAL, "twice");
    expect_failure(&b, mica_softmax_axes(b.s, ONES(2, 3), three, 1), MICA_EINVAL, "no axis 3");
    bench_close(&b);
}

/* Halves: products in f32, rounded once. */
static void halves(void **state) {
    (void)state;
    bench b = bench_open();
    const int last[1] = {1};
    const mica_dot_axes p = {.a_contract = last, .b_contract = last, .n_contract = 1};
    mica_array x = mica_astype(b.s, noise(b.s, SHAPE(3, 40), 1), MICA_BF16);
    mica_array y = mica_astype(b.s, noise(b.s, SHAPE(5, 40), 2), MICA_BF16);
    mica_array z = mica_dot_general(b.s, x, y, &p);
    mica_array wide =
        mica_dot_general(b.s, mica_astype(b.s, x, MICA_F32), mica_astype(b.s, y, MICA_F32), &p);
    assert_int_equal(mica_array_dtype(z), MICA_BF16);
    float *a = read_f32(mica_astype(b.s, z, MICA_F32)), *want = read_f32(wide);
    for (int i = 0; i < 15; i++)
        assert_true(fabsf(a[i] - want[i]) <= 0x1p-7f * fabsf(want[i]) + 1e-4f);
    free(a);
    free(want);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dot_general_refuses),
        cmocka_unit_test(einsum_refuses),
        cmocka_unit_test(others_refuse),
        cmocka_unit_test(halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
