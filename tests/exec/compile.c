/* Functions that are recorded once: how often, for which shapes, errors, threads, memory. */
#define _POSIX_C_SOURCE 200809L

#include <mica/mica.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "exec/expect.h"
#include "graph/graph.h"

enum { THREADS = 8, CALLS = 60 };

#define LIST(...) ((const int64_t[]){__VA_ARGS__})
#define SHAPE(...) LIST(__VA_ARGS__), (int)(sizeof(LIST(__VA_ARGS__)) / sizeof(int64_t))

static mica_device *device;
static mica_scope *s;

static int open_scope(void **state) {
    (void)state;
    assert_int_equal(test_device_open(&(mica_device_options){.threads = 2}, &device), 0);
    return (int)mica_scope_open(device, &s);
}

static int close_scope(void **state) {
    (void)state;
    mica_scope_close(&s);
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
    return 0;
}

static mica_function *compile(mica_compile_fn fn, void *user, bool shapeless) {
    mica_function *f;
    must(mica_compile(device, fn, user, &(mica_compile_options){.shapeless = shapeless}, &f));
    return f;
}

/* 0, 1, 2 ... */
static mica_array counting(mica_scope *scope, const int64_t *shape, int ndim) {
    static const float values[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                   12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
                                   24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35};
    return mica_from_data(scope, values, MICA_F32, shape, ndim);
}

static void expect_same(mica_array x, mica_array y) {
    char a[1024], b[1024];
    size_t bytes = (size_t)mica_array_size(x) * mica_dtype_bytes(mica_array_dtype(x));
    assert_true(bytes <= sizeof a);
    assert_int_equal(mica_array_dtype(x), mica_array_dtype(y));
    assert_true(mc_layout_same_shape(mc_layout_of(x), mc_layout_of(y)));
    must(mica_read(x, a, bytes));
    must(mica_read(y, b, bytes));
    assert_memory_equal(a, b, bytes);
}

/* ---- once for given shapes ---- */

/* x * 2 + 1, and the sum of x. */
static mica_status scale(void *user, mica_scope *r, const mica_array *args, size_t n_args,
                         mica_array *results, size_t n_results) {
    (void)user;
    assert_int_equal(n_args, 1);
    results[0] = mica_add(r, mica_multiply(r, args[0], mica_f32(r, 2)), mica_f32(r, 1));
    if (n_results > 1) results[1] = mica_sum(r, args[0], NULL, 0, false);
    return MICA_OK;
}

static void test_recorded_once_for_each_shape(void **state) {
    (void)state;
    mica_function *f = compile(scale, NULL, false);
    mica_array y[2];
    for (int i = 0; i < 3; i++)
        for (int64_t n = 1; n <= 4; n++) {
            mica_array x = counting(s, &n, 1), want[2];
            must(mica_function_call(f, s, &x, 1, y, 2));
            must(scale(NULL, s, &x, 1, want, 2));
            expect_same(y[0], want[0]);
            expect_same(y[1], want[1]);
        }
    assert_int_equal(mica_function_traces(f), 4);
    mica_array x = counting(s, SHAPE(2, 2)), k = mica_i32(s, 3);
    must(mica_function_call(f, s, &x, 1, y, 2)); /* other axes */
    must(mica_function_call(f, s, &k, 1, y, 2)); /* another dtype */
    must(mica_function_call(f, s, &x, 1, y, 1)); /* fewer results */
    assert_int_equal(mica_function_traces(f), 7);
    x = mica_negative(s, x); /* not evaluated yet */
    must(mica_function_call(f, s, &x, 1, y, 2));
    assert_int_equal(mica_function_traces(f), 7);
    mica_function_close(&f);
    mica_function_close(&f);
    assert_int_equal(mica_function_traces(NULL), 0);
}

static void test_the_one_used_longest_ago_goes(void **state) {
    (void)state;
    mica_function *f;
    must(mica_compile(device, scale, NULL, &(mica_compile_options){.max_programs = 2}, &f));
    const int64_t lengths[] = {1, 2, 1, 3, 1, 2}; /* 3 displaces 2 */
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        mica_array x = counting(s, &lengths[i], 1), y;
        must(mica_function_call(f, s, &x, 1, &y, 1));
    }
    assert_int_equal(mica_function_traces(f), 4);
    mica_function_close(&f);
}

/* ---- donated arguments ---- */

static mica_status increment(void *user, mica_scope *r, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = mica_add(r, args[0], mica_f32(r, 1));
    return MICA_OK;
}

static void test_moved_arguments_are_written_in_place(void **state) {
    (void)state;
    mica_function *f = compile(increment, NULL, false);
    mica_array x = counting(s, SHAPE(4)), kept, y;
    must(mica_function_call(f, s, &x, 1, &kept, 1)); /* not donated */
    expect_same(x, counting(s, SHAPE(4)));
    const void *place = mc_data(x);
    for (int i = 0; i < 5; i++) {
        mica_array moved = mica_move(s, x);
        must(mica_function_call(f, s, &moved, 1, &y, 1));
        if (place) assert_ptr_equal(mc_data(y), place); /* NULL: values of the host, or not seen */
        assert_null(mc_data(moved));
        place = mc_data(y);
        x = y;
    }
    float got[4];
    must(mica_read(x, got, sizeof got));
    assert_float_equal(got[3], 8, 0);
    assert_int_equal(mica_function_traces(f), 2);
    mica_function_close(&f);
}

/* ---- other functions, and itself ---- */

typedef struct nest {
    mica_function *inner;
    mica_scope *elsewhere; /* NULL: as a part */
} nest;

static mica_status call_inner(void *user, mica_scope *r, const mica_array *args, size_t n_args,
                              mica_array *results, size_t n_results) {
    const nest *n = user;
    (void)n_results;
    if (!n->elsewhere) {
        MC_TRY(mica_function_call(n->inner, r, args, n_args, results, 1));
        results[0] = mica_negative(r, results[0]);
        return MICA_OK;
    }
    mica_array x = counting(n->elsewhere, SHAPE(2)), y;
    MC_TRY(mica_function_call(n->inner, n->elsewhere, &x, 1, &y, 1));
    results[0] = mica_multiply(r, args[0], y); /* a constant */
    return MICA_OK;
}

static void test_functions_within_functions(void **state) {
    (void)state;
    nest n = {compile(scale, NULL, false), NULL};
    mica_function *outer = compile(call_inner, &n, false);
    mica_array x = counting(s, SHAPE(2)), y;
    float got[2];
    for (int i = 0; i < 2; i++) {
        must(mica_function_call(outer, s, &x, 1, &y, 1));
        must(mica_read(y, got, sizeof got));
        assert_float_equal(got[0], -1, 0);
        assert_float_equal(got[1], -3, 0);
    }
    assert_int_equal(mica_function_traces(outer), 1);
    assert_int_equal(mica_function_traces(n.inner), 1);
    mica_function_close(&outer);
    n.elsewhere = s;
    outer = compile(call_inner, &n, false);
    must(mica_scope_open(device, &n.elsewhere));
    must(mica_function_call(outer, s, &x, 1, &y, 1));
    must(mica_read(y, got, sizeof got));
    assert_float_equal(got[1], 3, 0);
    mica_scope_close(&n.elsewhere);
    mica_function_close(&outer);
    mica_function_close(&n.inner);
}

static void test_a_function_that_calls_itself(void **state) {
    (void)state;
    nest n = {NULL, NULL};
    mica_function *f = compile(call_inner, &n, false);
    mica_array x = counting(s, SHAPE(2)), y;
    n.inner = f;
    expect_refused(mica_function_call(f, s, &x, 1, &y, 1), MICA_EINVAL, "calls itself");
    must(mica_scope_open(device, &n.elsewhere));
    expect_refused(mica_function_call(f, s, &x, 1, &y, 1), MICA_EINVAL, "calls itself");
    assert_false(mica_valid(y));
    mica_scope_close(&n.elsewhere);
    mica_function_close(&f);
}

/* ---- errors ---- */

typedef enum fault { FAILS, RECORDS_WRONG, GIVES_NOTHING, EVALUATES, COLLECTS, NONE } fault;

static mica_status faulty(void *user, mica_scope *r, const mica_array *args, size_t n_args,
                          mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    switch (*(const fault *)user) {
    case FAILS:
        return mc_fail(MICA_ECANCELLED, "not today");
    case RECORDS_WRONG:
        results[0] = mica_reshape(r, args[0], SHAPE(7));
        return MICA_OK;
    case GIVES_NOTHING:
        return MICA_OK;
    case EVALUATES:
        results[0] = mica_square(r, args[0]);
        return mica_eval(r, results[0]);
    case COLLECTS: /* the parameters would be gone, and whose numbers are those of others */
        results[0] = mica_square(r, args[0]);
        return mica_scope_collect(r, NULL, 0);
    default:
        results[0] = args[0];
        return MICA_OK;
    }
}

/* What a function was given must stay until it has returned. */
static void test_collecting_inside(void **state) {
    (void)state;
    mica_array x = counting(s, SHAPE(4)), y;
    for (int shapeless = 0; shapeless < 2; shapeless++) {
        fault kind = COLLECTS;
        mica_function *f = compile(faulty, &kind, shapeless);
        expect_refused(mica_function_call(f, s, &x, 1, &y, 1), MICA_EINVAL,
                       "scope_collect: a function records");
        assert_false(mica_valid(y));
        kind = NONE;
        must(mica_function_call(f, s, &x, 1, &y, 1));
        expect_same(x, y);
        must(mica_scope_collect(s, &x, 1)); /* afterwards */
        mica_function_close(&f);
    }
}

static void test_errors_of_the_function(void **state) {
    (void)state;
    fault kind = FAILS;
    mica_function *f = compile(faulty, &kind, false), *none = (mica_function *)(void *)&kind;
    mica_array x = counting(s, SHAPE(4)), y = x, bad = MICA_NONE;
    expect_refused(mica_function_call(f, s, &x, 1, &y, 1), MICA_ECANCELLED, "not today");
    assert_false(mica_valid(y));
    kind = RECORDS_WRONG;
    expect_refused(mica_function_call(f, s, &x, 1, &y, 1), MICA_ESHAPE, "reshape");
    kind = GIVES_NOTHING;
    expect_refused(mica_function_call(f, s, &x, 1, &y, 1), MICA_EINVAL, "result 0");
    kind = EVALUATES;
    expect_refused(mica_function_call(f, s, &x, 1, &y, 1), MICA_EINVAL, "parameter");
    assert_int_equal(mica_scope_status(s), MICA_OK);
    kind = NONE; /* nothing that failed was kept */
    must(mica_function_call(f, s, &x, 1, &y, 1));
    assert_int_equal(mica_function_traces(f), 5);
    expect_same(x, y);
    expect_refused(mica_function_call(f, s, &bad, 1, &y, 1), MICA_EINVAL, "invalid");
    expect_refused(mica_function_call(NULL, s, &x, 1, &y, 1), MICA_EINVAL, "NULL");
    expect_refused(mica_function_call(f, NULL, &x, 1, &y, 1), MICA_EINVAL, "NULL");
    expect_refused(mica_function_call(f, s, NULL, 1, &y, 1), MICA_EINVAL, "NULL");
    expect_refused(mica_compile(device, NULL, NULL, NULL, &none), MICA_EINVAL, "NULL");
    assert_null(none);
    mica_device *other;
    mica_scope *there;
    must(test_device_open(NULL, &other));
    must(mica_scope_open(other, &there));
    expect_refused(mica_function_call(f, there, &x, 1, &y, 1), MICA_EINVAL, "another device");
    mica_array foreign = counting(there, SHAPE(4));
    expect_refused(mica_function_call(f, s, &foreign, 1, &y, 1), MICA_EINVAL, "another device");
    mica_scope_close(&there);
    mica_device_close(&other);
    mica_function_close(&f);
}

/* ---- without shapes ---- */

typedef mica_array (*body)(mica_scope *r, const mica_array *args);

static mica_status call_body(void *user, mica_scope *r, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    results[0] = (*(const body *)user)(r, args);
    return MICA_OK;
}

static mica_array broadcasting(mica_scope *r, const mica_array *a) { /* x [b, d], w [d] */
    mica_array y = mica_add(r, mica_multiply(r, a[0], mica_f32(r, 2)), a[1]);
    return mica_where(r, mica_less(r, y, mica_f32(r, 9)), a[1], y);
}

static mica_array norms(mica_scope *r, const mica_array *a) {
    const int last = -1;
    mica_array y = mica_softmax(r, mica_rms_norm(r, a[0], a[1], 1e-6f), -1);
    y = mica_multiply(r, y, mica_max(r, a[0], &last, 1, true));
    return mica_matmul(r, y, mica_transpose(r, y, NULL));
}

static mica_array dropped(mica_scope *r, const mica_array *a) {
    const int last = -1;
    mica_array mean = mica_mean(r, a[0], &last, 1, false); /* over an axis that stays */
    return mica_subtract(r, a[0], mica_expand_dims(r, mean, 1));
}

static mica_array products(mica_scope *r, const mica_array *a) {
    return mica_matmul(r, a[0], a[1]); /* [b, d] [d] */
}

static mica_array mean_over_batch(mica_scope *r, const mica_array *a) {
    const int first = 0;
    return mica_add(r, mica_mean(r, a[0], &first, 1, false), a[1]);
}

static mica_array reshaped(mica_scope *r, const mica_array *a) {
    return mica_reshape(r, a[0], SHAPE(-1, 2));
}

static mica_array parts(mica_scope *r, const mica_array *a) { /* axis 0 stays whole */
    mica_array y = mica_slice_axis(r, mica_slice_axis(r, a[0], 0, 0, MICA_END_OF_AXIS), 1, 1, 3);
    y = mica_concatenate(r, (mica_array[]){y, mica_flip(r, a[0], 1)}, 2, 1);
    return mica_slice(r, y, NULL, (const int64_t[]){MICA_END_OF_AXIS, -1}, (const int64_t[]){1, 2});
}

static mica_array flat(mica_scope *r, const mica_array *a) {
    mica_array y = mica_unflatten(r, mica_concatenate(r, (mica_array[]){a[0], a[0]}, 2, 1), 1,
                                  SHAPE(-1, 1, 3)); /* [b, 2, 1, 3] */
    y = mica_flatten(r, mica_multiply(r, y, mica_f32(r, 3)), 0, 1);
    return mica_flatten(r, mica_flatten(r, y, -2, -1), 1, 1); /* [2 b, 3] */
}

static mica_array one_dimension(mica_scope *r, const mica_array *a) {
    return mica_flatten(r, mica_expand_dims(r, a[0], 1), 0, -1);
}

static mica_array split_batch(mica_scope *r, const mica_array *a) {
    return mica_unflatten(r, a[0], 0, SHAPE(2, -1));
}

static mica_array diagonal(mica_scope *r, const mica_array *a) {
    return mica_diagonal(r, a[0], 0, 0, 1);
}

static mica_array not_reshaped(mica_scope *r, const mica_array *a) {
    return mica_reshape(r, a[0], SHAPE(4, 3)); /* nothing to do where it is recorded */
}

static mica_array sliced(mica_scope *r, const mica_array *a) {
    return mica_slice_axis(r, a[0], 0, 0, 3);
}

static mica_array not_sliced(mica_scope *r, const mica_array *a) {
    return mica_slice_axis(r, a[0], 0, 0, 4);
}

static mica_array stretched(mica_scope *r, const mica_array *a) {
    return mica_add(r, a[0], mica_broadcast_to(r, a[1], SHAPE(4, 3)));
}

static mica_array triangle(mica_scope *r, const mica_array *a) {
    return mica_tril(r, a[0], 0);
}

static mica_array rolled(mica_scope *r, const mica_array *a) {
    return mica_roll(r, a[0], 4, 0);
}

static mica_array met(mica_scope *r, const mica_array *a) {
    return mica_add(r, a[0], mica_square(r, a[0]));
}

/* Recorded for [4, 3] and [3], then with a symbol for rows; called for [rows, 3]. max: how often it
 * may be recorded. */
static void call_with_rows(body fn, const int64_t *rows, uint64_t max) {
    mica_function *f = compile(call_body, &fn, true);
    mica_array args[] = {counting(s, SHAPE(4, 3)), counting(s, SHAPE(3))}, y;
    must(mica_function_call(f, s, args, 2, &y, 1));
    for (int round = 0; round < 2; round++)
        for (int i = 0; rows[i] > 0; i++) {
            args[0] = counting(s, SHAPE(rows[i], 3));
            must(mica_function_call(f, s, args, 2, &y, 1));
            expect_same(y, fn(s, args));
        }
    assert_in_range(mica_function_traces(f), 1, max);
    args[0] = counting(s, SHAPE(4, 3));
    must(mica_function_call(f, s, args, 2, &y, 1)); /* as before */
    expect_same(y, fn(s, args));
    assert_in_range(mica_function_traces(f), 1, max);
    mica_function_close(&f);
}

static void test_other_lengths(void **state) {
    (void)state;
    static const body any[] = {broadcasting, norms, dropped,  products,      met,
                               parts,        flat,  triangle, one_dimension, mean_over_batch};
    for (size_t i = 0; i < sizeof any / sizeof *any; i++)
        call_with_rows(any[i], LIST(5, 1, 2, 3, 4, 6, 7, 0), 2);
    call_with_rows(reshaped, LIST(6, 2, 8, 10, 0), 2);
    call_with_rows(split_batch, LIST(6, 2, 8, 10, 0), 2);
    call_with_rows(sliced, LIST(5, 3, 7, 0), 2);
}

/* What holds for one length alone is recorded for each. */
static void test_other_lengths_that_do_not_follow(void **state) {
    (void)state;
    call_with_rows(sliced, LIST(5, 2, 1, 0), 4);
    call_with_rows(not_sliced, LIST(5, 2, 0), 4);
    call_with_rows(diagonal, LIST(2, 5, 0), 4);
    call_with_rows(rolled, LIST(5, 8, 3, 0), 5);
    call_with_rows(stretched, LIST(1, 4, 0), 4);
    const body fn = not_reshaped;
    mica_function *f = compile(call_body, (void *)(uintptr_t)&fn, true);
    mica_array args[] = {counting(s, SHAPE(4, 3)), counting(s, SHAPE(3))}, y;
    must(mica_function_call(f, s, args, 2, &y, 1));
    args[0] = counting(s, SHAPE(5, 3));
    expect_refused(mica_function_call(f, s, args, 2, &y, 1), MICA_ESHAPE, "reshape");
    mica_function_close(&f);
}

/* Axes of length 1, which broadcast, and then have others. */
static void test_axes_that_met(void **state) {
    (void)state;
    body fn = broadcasting;
    mica_function *f = compile(call_body, &fn, true);
    mica_array args[] = {counting(s, SHAPE(2, 1)), counting(s, SHAPE(1))}, y;
    static const int64_t widths[][2] = {{1, 1}, {3, 1}, {3, 3}, {4, 4}, {1, 5}, {4, 1}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        args[0] = counting(s, SHAPE(2, widths[i][0]));
        args[1] = counting(s, SHAPE(widths[i][1]));
        must(mica_function_call(f, s, args, 2, &y, 1));
        expect_same(y, fn(s, args));
    }
    args[0] = counting(s, SHAPE(2, 3, 1)); /* more axes are recorded anew */
    args[1] = counting(s, SHAPE(1));
    must(mica_function_call(f, s, args, 2, &y, 1));
    expect_same(y, fn(s, args));
    mica_function_close(&f);
}

/* ---- no memory ---- */

static bool compile_and_call(void *arg) {
    bool shapeless = *(const bool *)arg;
    body fn = dropped;
    mica_scope *own = NULL;
    mica_function *f = NULL;
    mica_array y;
    mica_status status = mica_scope_open(device, &own);
    if (status == MICA_OK)
        status =
            mica_compile(device, call_body, &fn,
                         &(mica_compile_options){.max_programs = 1, .shapeless = shapeless}, &f);
    for (int64_t rows = 3; rows < 6 && status == MICA_OK; rows++) {
        mica_array x = counting(own, LIST(rows, 3), 2);
        status = mica_scope_status(own);
        if (status == MICA_OK) status = mica_function_call(f, own, &x, 1, &y, 1);
    }
    mica_function_close(&f);
    mica_scope_close(&own);
    assert_int_equal(mica_device_active_bytes(device), 0);
    test_forget_plans(device);
    if (status != MICA_OK && status != MICA_ENOMEM) fail_msg("%s", mica_last_error());
    return status == MICA_OK;
}

static void test_every_failing_allocation_is_a_status(void **state) {
    (void)state;
    for (int shapeless = 0; shapeless < 2; shapeless++)
        assert_true(test_fail_each_allocation(compile_and_call, &(bool){shapeless}) > 20);
}

/* ---- threads ---- */

typedef struct caller {
    pthread_t thread;
    mica_function *f;
    int number, wrong;
} caller;

static void *call_often(void *context) {
    caller *c = context;
    mica_scope *own = NULL;
    if (mica_scope_open(device, &own) != MICA_OK) c->wrong++;
    for (int i = 0; i < CALLS && !c->wrong; i++) {
        float got[8];
        int64_t n = 1 + (c->number + i) % 8;
        mica_array x = counting(own, &n, 1), y[2];
        if (mica_function_call(c->f, own, &x, 1, y, 2) != MICA_OK ||
            mica_read(y[0], got, (size_t)n * sizeof *got) != MICA_OK)
            c->wrong++;
        for (int k = 0; k < n && !c->wrong; k++)
            c->wrong += got[k] < 2 * (float)k + 1 || got[k] > 2 * (float)k + 1;
        mc_scope_reset(own);
    }
    mica_scope_close(&own);
    return NULL;
}

/* Eight lengths: recorded once each where there is room, and always right where there is not. */
static void test_calls_from_many_threads(void **state) {
    (void)state;
    for (size_t max = 3; max <= 8; max += 5) {
        caller callers[THREADS];
        mica_function *f;
        must(mica_compile(device, scale, NULL, &(mica_compile_options){.max_programs = max}, &f));
        for (int i = 0; i < THREADS; i++) {
            callers[i] = (caller){.f = f, .number = i};
            assert_int_equal(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
            assert_int_equal(callers[i].wrong, 0);
        }
        if (max == 8) assert_int_equal(mica_function_traces(f), 8);
        mica_function_close(&f);
    }
}

static mica_function *shared, *outer;
static atomic_int recorders; /* how often `shared` was recorded */

static void *call_shared(void *unused) {
    (void)unused;
    mica_scope *own = NULL;
    mica_status status = mica_scope_open(device, &own);
    mica_array x = mica_f32(own, 1), y;
    if (status == MICA_OK) status = mica_function_call(shared, own, &x, 1, &y, 1);
    mica_scope_close(&own);
    return status == MICA_OK ? NULL : &shared;
}

/* The first recording calls the function from another thread, and waits whether that records, too:
 * it must not before this one is over. */
static mica_status record_shared(void *user, mica_scope *into, const mica_array *args,
                                 size_t n_args, mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    results[0] = mica_square(into, args[0]);
    if (atomic_fetch_add(&recorders, 1) > 0) return MICA_OK;
    if (pthread_create(user, NULL, call_shared, NULL) != 0) return MICA_EDEVICE;
    for (int i = 0; i < 100 && atomic_load(&recorders) == 1; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return MICA_OK;
}

/* Calls `shared` in a scope of its own. */
static mica_status calls_elsewhere(void *user, mica_scope *into, const mica_array *args,
                                   size_t n_args, mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = mica_exp(into, args[0]);
    return call_shared(NULL) ? MICA_EINTERNAL : MICA_OK;
}

static mica_status calls_outer(void *user, mica_scope *into, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    (void)user;
    return mica_function_call(outer, into, args, n_args, results, n_results);
}

/* A function that is differentiated is recorded without the lock; one that it calls is not. */
static void test_one_thread_records(void **state) {
    (void)state;
    pthread_t thread;
    void *bad;
    mica_array x = mica_f32(s, 0), y, g;
    atomic_store(&recorders, 0);
    must(mica_compile(device, record_shared, &thread, NULL, &shared));
    must(mica_compile(device, calls_elsewhere, NULL, NULL, &outer));
    must(mica_value_and_grad(s, calls_outer, NULL, &x, 1, NULL, 0, &y, 1, &g));
    assert_int_equal(pthread_join(thread, &bad), 0);
    assert_null(bad);
    assert_int_equal(mica_function_traces(shared), 1);
    mica_function_close(&shared);
    mica_function_close(&outer);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, open_scope, close_scope)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_recorded_once_for_each_shape),
        TEST(test_the_one_used_longest_ago_goes),
        TEST(test_moved_arguments_are_written_in_place),
        TEST(test_functions_within_functions),
        TEST(test_a_function_that_calls_itself),
        TEST(test_collecting_inside),
        TEST(test_errors_of_the_function),
        TEST(test_other_lengths),
        TEST(test_other_lengths_that_do_not_follow),
        TEST(test_axes_that_met),
        TEST(test_every_failing_allocation_is_a_status),
        TEST(test_calls_from_many_threads),
        TEST(test_one_thread_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
