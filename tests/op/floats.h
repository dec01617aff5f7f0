/* Float arrays in tests of single ops. */
#ifndef OP_FLOATS_H
#define OP_FLOATS_H

#include <math.h>
#include <stdlib.h>

#include "op/check.h"

static inline mica_array f32s(mica_scope *s, const float *values, const int64_t *shape, int ndim) {
    mica_array x = mica_from_data(s, values, MICA_F32, shape, ndim);
    assert_true(mica_valid(x));
    return x;
}

/* The values of an f32 array in logical order, to be freed with free(). */
static inline float *read_f32(mica_array x) {
    if (!mica_valid(x)) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_array_dtype(x), MICA_F32);
    size_t bytes = (size_t)mica_array_size(x) * sizeof(float);
    float *values = malloc(bytes + 1);
    assert_non_null(values);
    if (mica_read(x, values, bytes) != MICA_OK) fail_msg("%s", mica_last_error());
    return values;
}

/* Checks that x is f32 of that shape with these values, to `relative`. NaN equals NaN. */
static inline void expect_f32(mica_array x, const float *want, const int64_t *shape, int ndim,
                              double relative) {
    float *got = read_f32(x);
    assert_int_equal(mica_array_ndim(x), ndim);
    for (int k = 0; k < ndim; k++)
        assert_int_equal(mica_array_dim(x, k), shape[k]);
    for (int64_t i = 0; i < mica_array_size(x); i++) {
        double a = (double)got[i], b = (double)want[i];
        if (a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= relative * fabs(b)) continue;
        fail_msg("element %lld is %.9g, not %.9g", (long long)i, a, b);
    }
    free(got);
}

/* Checks that both have the same dtype, shape and bytes. */
static inline void expect_same(mica_array x, mica_array y) {
    if (!mica_valid(x) || !mica_valid(y)) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_array_dtype(x), mica_array_dtype(y));
    assert_int_equal(mica_array_ndim(x), mica_array_ndim(y));
    for (int k = 0; k < mica_array_ndim(x); k++)
        assert_int_equal(mica_array_dim(x, k), mica_array_dim(y, k));
    size_t bytes = (size_t)mica_array_size(x) * mica_dtype_bytes(mica_array_dtype(x));
    char *a = malloc(bytes + 1), *b = malloc(bytes + 1);
    assert_non_null(a);
    assert_non_null(b);
    if (mica_read(x, a, bytes) || mica_read(y, b, bytes)) fail_msg("%s", mica_last_error());
    assert_memory_equal(a, b, bytes);
    free(a);
    free(b);
}

/* n values in (-4, 4), the same for the same seed. */
static inline void fill(float *x, int64_t n, uint32_t seed) {
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-21f - 4.0f;
    }
}

static inline mica_array noise(mica_scope *s, const int64_t *shape, int ndim, uint32_t seed) {
    int64_t n = 1;
    for (int k = 0; k < ndim; k++)
        n *= shape[k];
    float *values = malloc((size_t)n * sizeof *values + 1);
    assert_non_null(values);
    fill(values, n, seed);
    mica_array x = f32s(s, values, shape, ndim);
    free(values);
    return x;
}

#endif
