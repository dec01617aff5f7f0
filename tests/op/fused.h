/* Shared by tests of matmuls and fused ops: random operands; comparing a result with its op's
 * decomposition, and results with each other. */
#ifndef OP_FUSED_H
#define OP_FUSED_H

#include <math.h>
#include <stdlib.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/check.h"

/* Random values in [-1, 1) of a dtype; shape as SHAPE(...). */
static inline mica_array noise(mica_scope *s, uint64_t seed, mica_dtype dtype, const int64_t *shape,
                               int ndim) {
    mica_array key = mica_random_key(s, seed);
    return mica_astype(s, mica_random_uniform(s, key, shape, ndim, MICA_F32, -1, 1), dtype);
}

/* y by plainer ops: its op's decomposition over the same operands. y may be a PART. */
static inline mica_array decomposed(mica_scope *s, mica_array y) {
    if (!mica_valid(y)) fail_msg("%s", mica_last_error());
    const mc_node *node = mc_node_of(y);
    int64_t part = 0;
    if (node->op == MC_OP_PART) {
        part = ((const mc_attr_part *)node->attr)->index;
        node = mc_scope_node(s, node->in[0]);
    }
    const mc_op_def *def = mc_op_get(node->op);
    assert_non_null(def->decompose);
    mica_array in[8], out[6];
    assert_true(node->n_in <= 8 && mc_op_n_out(def) <= 6);
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i] == MC_ABSENT ? MICA_NONE : (mica_array){s, node->in[i]};
    def->decompose(s, node->attr, in, (int)node->n_in, out);
    return out[part];
}

/* The elements as f32, to be freed. */
static inline float *floats_of(mica_scope *s, mica_array x) {
    mica_array wide = mica_astype(s, x, MICA_F32);
    if (!mica_valid(wide)) fail_msg("%s", mica_last_error());
    size_t bytes = (size_t)mica_array_size(wide) * sizeof(float);
    float *values = malloc(bytes + 1);
    assert_non_null(values);
    if (mica_read(wide, values, bytes) != MICA_OK) fail_msg("%s", mica_last_error());
    return values;
}

static inline void expect_shape(mica_array x, mica_dtype dtype, const int64_t *shape, int ndim) {
    if (!mica_valid(x)) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_array_dtype(x), dtype);
    assert_int_equal(mica_array_ndim(x), ndim);
    for (int i = 0; i < ndim; i++)
        assert_int_equal(mica_array_dim(x, i), shape[i]);
}

/* Checks for the same dtype and shape, and every element within `slack` times the largest. */
static inline void expect_near(mica_scope *s, mica_array got, mica_array want, double slack) {
    expect_shape(got, mica_array_dtype(want), mica_array_shape(want), mica_array_ndim(want));
    float *a = floats_of(s, got), *b = floats_of(s, want);
    int64_t n = mica_array_size(got);
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)b[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= slack * largest))
            fail_msg("element %lld is %.9g, not %.9g", (long long)i, (double)a[i], (double)b[i]);
    free(a);
    free(b);
}

/* Checks for the same bits. */
static inline void expect_same(mica_scope *s, mica_array got, mica_array want) {
    expect_shape(got, mica_array_dtype(want), mica_array_shape(want), mica_array_ndim(want));
    float *a = floats_of(s, got), *b = floats_of(s, want);
    for (int64_t i = 0; i < mica_array_size(got); i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("element %lld is %.9g, not %.9g", (long long)i, (double)a[i], (double)b[i]);
    free(a);
    free(b);
}

/* Checks for the same bits where the device keeps an order of sums; else as expect_near. */
static inline void expect_same_sums(mica_scope *s, mica_array got, mica_array want, double slack) {
    if (test_device_keeps_order())
        expect_same(s, got, want);
    else
        expect_near(s, got, want, slack);
}

/* The same for n floats of [-1, 1]. */
static inline void expect_same_floats(const float *got, const float *want, size_t n, double slack) {
    if (test_device_keeps_order()) assert_memory_equal(got, want, n * sizeof *got);
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= slack))
            fail_msg("element %zu is %.9g, not %.9g", i, (double)got[i], (double)want[i]);
}

/* The same for sums of k products; sizes: what these add up to without their signs. In any order
 * such a sum is within k eps of its sizes, and is then rounded to its dtype. */
static inline void expect_same_products(mica_scope *s, mica_array got, mica_array want,
                                        mica_array sizes, int64_t k) {
    if (test_device_keeps_order()) {
        expect_same(s, got, want);
        return;
    }
    mica_dtype dtype = mica_array_dtype(want);
    double eps = dtype == MICA_F32 ? 0x1p-24 : dtype == MICA_F16 ? 0x1p-11 : 0x1p-8;
    expect_shape(got, dtype, mica_array_shape(want), mica_array_ndim(want));
    float *a = floats_of(s, got), *b = floats_of(s, want), *size = floats_of(s, sizes);
    assert_int_equal(mica_array_size(sizes), mica_array_size(want));
    for (int64_t i = 0; i < mica_array_size(got); i++) {
        double bound = 2 * ((double)k * 0x1p-24 + eps) * (double)size[i];
        if (!(fabs((double)a[i] - (double)b[i]) <= bound))
            fail_msg("element %lld is %.9g, not %.9g", (long long)i, (double)a[i], (double)b[i]);
    }
    free(a);
    free(b);
    free(size);
}

#endif
