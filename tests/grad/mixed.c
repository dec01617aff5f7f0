/* Gradients by operands of different dtypes: each has the dtype of its operand, and is near that of
 * the same values in f32. */
#include "grad/check.h"

#include <stdio.h>

enum { MAX_IN = 3, N_DTYPES = 3 };

static const mica_dtype dtypes[N_DTYPES] = {MICA_F32, MICA_F16, MICA_BF16};
static const double slack[N_DTYPES] = {1e-5, 8e-3, 6e-2};

typedef struct op {
    const char *name;
    mica_array (*record)(mica_scope *s, const mica_array *in);
    int n_in;
    struct {
        int64_t shape[4];
        int ndim;
    } in[MAX_IN];
} op;

static mica_array add(mica_scope *s, const mica_array *in) {
    return mica_add(s, in[0], in[1]);
}

static mica_array multiply(mica_scope *s, const mica_array *in) {
    return mica_multiply(s, in[0], in[1]);
}

static mica_array where(mica_scope *s, const mica_array *in) {
    return mica_where(s, mica_greater(s, in[0], mica_f32(s, 0)), in[1], in[2]);
}

static mica_array matmul(mica_scope *s, const mica_array *in) {
    return mica_matmul(s, in[0], in[1]);
}

static mica_array linear(mica_scope *s, const mica_array *in) {
    return mica_linear(s, in[0], &(mica_linear_weights){.weight = in[1], .bias = in[2]});
}

static mica_array rms_norm(mica_scope *s, const mica_array *in) {
    return mica_rms_norm(s, in[0], in[1], 1e-3f);
}

static mica_array layer_norm(mica_scope *s, const mica_array *in) {
    return mica_layer_norm(s, in[0], in[1], in[2], 1e-3f);
}

static mica_array group_norm(mica_scope *s, const mica_array *in) {
    return mica_group_norm(s, in[0], in[1], in[2], 2, 1e-3f);
}

static mica_array sdpa(mica_scope *s, const mica_array *in) {
    return mica_sdpa(s, in[0], in[1], in[2], NULL);
}

static mica_array conv2d(mica_scope *s, const mica_array *in) {
    return mica_conv2d(s, in[0], in[1], MICA_CHANNELS_FIRST, NULL);
}

static mica_array concatenate(mica_scope *s, const mica_array *in) {
    return mica_concatenate(s, in, 2, 0);
}

static mica_array slice_update(mica_scope *s, const mica_array *in) {
    return mica_slice_update(s, in[0], in[1], NULL, (const int64_t[]){1, 6}, NULL);
}

static mica_array einsum(mica_scope *s, const mica_array *in) {
    return mica_einsum(s, "ij,kj->ik", in, 2);
}

static const op ops[] = {
    {"add", add, 2, {{{4, 6}, 2}, {{6}, 1}}},
    {"multiply", multiply, 2, {{{4, 6}, 2}, {{4, 1}, 2}}},
    {"where", where, 3, {{{4, 6}, 2}, {{4, 6}, 2}, {{6}, 1}}},
    {"matmul", matmul, 2, {{{4, 6}, 2}, {{6, 5}, 2}}},
    {"linear", linear, 3, {{{4, 6}, 2}, {{5, 6}, 2}, {{5}, 1}}},
    {"rms_norm", rms_norm, 2, {{{4, 6}, 2}, {{6}, 1}}},
    {"layer_norm", layer_norm, 3, {{{4, 6}, 2}, {{6}, 1}, {{6}, 1}}},
    {"group_norm", group_norm, 3, {{{2, 6, 3}, 3}, {{6}, 1}, {{6}, 1}}},
    {"sdpa", sdpa, 3, {{{1, 2, 3, 4}, 4}, {{1, 1, 5, 4}, 4}, {{1, 1, 5, 4}, 4}}},
    {"conv2d", conv2d, 2, {{{1, 2, 4, 4}, 4}, {{3, 2, 2, 2}, 4}}},
    {"concatenate", concatenate, 2, {{{4, 6}, 2}, {{2, 6}, 2}}},
    {"slice_update", slice_update, 2, {{{4, 6}, 2}, {{1, 6}, 2}}},
    {"einsum", einsum, 2, {{{4, 6}, 2}, {{5, 6}, 2}}},
};

static mica_array as(mica_scope *s, mica_array x, mica_dtype dtype) {
    return mica_detach(s, mica_astype(s, x, dtype));
}

static void expect_near(mica_scope *s, const char *name, mica_array x, mica_array want,
                        double bound) {
    float *a = read_f32(mica_astype(s, x, MICA_F32)), *b = read_f32(want);
    double largest = 1e-3;
    const int64_t n = mica_array_size(want);
    assert_int_equal(mica_array_size(x), n);
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)b[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= bound * largest))
            fail_msg("%s: element %lld is %g, not %g", name, (long long)i, (double)a[i],
                     (double)b[i]);
    free(a);
    free(b);
}

/* which: the dtypes of the operands, as digits of base N_DTYPES. */
static void check(mica_scope *s, const op *o, int which) {
    mica_array in[MAX_IN], wide[MAX_IN], dx[MAX_IN], want[MAX_IN];
    double bound = 0;
    char text[64];
    int used = snprintf(text, sizeof text, "%s of", o->name);
    for (int i = 0; i < o->n_in; i++, which /= N_DTYPES) {
        const int d = which % N_DTYPES;
        in[i] = as(s, noise(s, o->in[i].shape, o->in[i].ndim, (uint32_t)i + 5), dtypes[d]);
        wide[i] = as(s, in[i], MICA_F32);
        bound = fmax(bound, slack[d]);
        used +=
            snprintf(text + used, sizeof text - (size_t)used, " %s", mica_dtype_name(dtypes[d]));
    }
    mica_array y = o->record(s, in), y_wide = o->record(s, wide);
    if (!mica_valid(y)) fail_msg("%s: %s", text, mica_last_error());
    mica_array dy =
        as(s, noise(s, mica_array_shape(y), mica_array_ndim(y), 77), mica_array_dtype(y));
    MUST(mica_grad(s, y, dy, in, (size_t)o->n_in, dx));
    MUST(mica_grad(s, y_wide, as(s, dy, MICA_F32), wide, (size_t)o->n_in, want));
    for (int i = 0; i < o->n_in; i++) {
        if (mica_array_dtype(dx[i]) != mica_array_dtype(in[i]))
            fail_msg("%s: gradient %d is %s", text, i, mica_dtype_name(mica_array_dtype(dx[i])));
        expect_near(s, text, dx[i], want[i], bound);
    }
}

static void test_mixed_dtypes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        int all = 1;
        for (int k = 0; k < ops[i].n_in; k++)
            all *= N_DTYPES;
        for (int which = 0; which < all; which++) {
            bench b = bench_open();
            check(b.s, &ops[i], which);
            bench_close(&b);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixed_dtypes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
