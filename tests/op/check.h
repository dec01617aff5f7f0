/* Shared by tests of single ops: a device and a scope, short arrays, and comparing results. */
#ifndef OP_CHECK_H
#define OP_CHECK_H

#include <mica/mica.h>

#include <string.h>

#include "support/support.h"

/* A list of int64 and its length: SHAPE(2, 3) for (shape, ndim). */
#define LIST(...) ((const int64_t[]){__VA_ARGS__})
#define SHAPE(...) LIST(__VA_ARGS__), (int)(sizeof(LIST(__VA_ARGS__)) / sizeof(int64_t))

typedef struct bench {
    mica_device *device;
    mica_scope *s;
} bench;

static inline bench bench_of(mica_status opened, mica_device *device) {
    bench b = {device, NULL};
    if (opened != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_scope_open(device, &b.s), MICA_OK);
    return b;
}

/* options NULL: the defaults. */
static inline bench bench_open_with(const mica_device_options *options) {
    mica_device *device = NULL;
    mica_status status = test_device_open(options, &device);
    return bench_of(status, device);
}

static inline bench bench_open(void) {
    return bench_open_with(NULL);
}

/* For what is said of the cpu alone: its kernels, and the memory that they need. */
static inline bench bench_open_cpu(const mica_device_options *options) {
    mica_device *device = NULL;
    mica_status status = mica_device_open("cpu", options, &device);
    return bench_of(status, device);
}

/* Closes both, and checks that no array's memory is left. */
static inline void bench_close(bench *b) {
    mica_scope_close(&b->s);
    assert_int_equal(mica_device_active_bytes(b->device), 0);
    mica_device_close(&b->device);
}

/* An i32 array 0, 1, 2 ... of a shape. */
static inline mica_array counting(mica_scope *s, const int64_t *shape, int ndim) {
    static int32_t values[4096];
    int64_t size = 1;
    for (int k = 0; k < ndim; k++)
        size *= shape[k];
    assert_true(size <= 4096);
    for (int32_t i = 0; i < size; i++)
        values[i] = i;
    mica_array x = mica_from_data(s, values, MICA_I32, shape, ndim);
    assert_true(mica_valid(x));
    return x;
}

static inline mica_array i32s(mica_scope *s, const int32_t *values, const int64_t *shape,
                              int ndim) {
    mica_array x = mica_from_data(s, values, MICA_I32, shape, ndim);
    assert_true(mica_valid(x));
    return x;
}

/* Checks that x is i32 of that shape with these values (row-major). */
static inline void expect_i32(mica_array x, const int32_t *want, const int64_t *shape, int ndim) {
    static int32_t got[4096];
    if (!mica_valid(x)) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_array_dtype(x), MICA_I32);
    assert_int_equal(mica_array_ndim(x), ndim);
    for (int k = 0; k < ndim; k++)
        assert_int_equal(mica_array_dim(x, k), shape[k]);
    size_t n = (size_t)mica_array_size(x);
    assert_true(n <= 4096);
    if (mica_read(x, got, n * sizeof *got) != MICA_OK) fail_msg("%s", mica_last_error());
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i]) fail_msg("element %zu is %d, not %d", i, got[i], want[i]);
}

/* Checks that building failed with this status and a text that has `part`. Clears the scope's
 * error. */
static inline void expect_failure(bench *b, mica_array x, mica_status status, const char *part) {
    assert_false(mica_valid(x));
    assert_int_equal(mica_scope_status(b->s), status);
    if (strstr(mica_last_error(), part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", mica_last_error(), part);
    mica_scope_close(&b->s);
    assert_int_equal(mica_scope_open(b->device, &b->s), MICA_OK);
}

/* Checks that evaluation fails so. */
static inline void expect_eval_failure(bench *b, mica_array x, mica_status status,
                                       const char *part) {
    if (!mica_valid(x)) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_eval(b->s, x), status);
    if (strstr(mica_last_error(), part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", mica_last_error(), part);
    mica_scope_close(&b->s);
    assert_int_equal(mica_scope_open(b->device, &b->s), MICA_OK);
}

#endif
