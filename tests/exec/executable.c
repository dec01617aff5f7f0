/* Executables: values by name, what feeds them, slots, queued runs, modes, and what is refused. */
#define _POSIX_C_SOURCE 200809L
#include <mica/mica.h>

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/device.h"
#include "exec/device.h"
#include "exec/expect.h"
#include "graph/graph.h"

#define SHAPE(...) (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8

static mica_scope *open_scope(void) {
    mica_scope *s;
    must(mica_scope_open(device, &s));
    return s;
}

static void expect(mica_array x, const float *want, size_t n) {
    float got[64];
    must(mica_read(x, got, n * sizeof *got));
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("element %zu is %g, not %g", i, (double)got[i], (double)want[i]);
}
#define EXPECT(x, ...) \
    expect(x, (const float[]){__VA_ARGS__}, sizeof((float[]){__VA_ARGS__}) / sizeof(float))

/* y = x w + k, and sum(y) as i32; x f32 [2,2], w f32 [2,2], k f32 [], unused f32 [3]. */
static mica_program *affine(void) {
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(2, 2));
    mica_array w = mica_program_param(s, MICA_F32, SHAPE(2, 2));
    mica_array k = mica_program_param(s, MICA_F32, NULL, 0);
    mica_array unused = mica_program_param(s, MICA_F32, SHAPE(3)), y[2];
    y[0] = mica_add(s, mica_matmul(s, x, w), k);
    y[1] = mica_astype(s, mica_sum(s, y[0], NULL, 0, false), MICA_I32);
    const mica_param params[] = {{.name = "x", .array = x},
                                 {.name = "weight", .array = w},
                                 {.name = "k", .array = k},
                                 {.name = "unused", .array = unused}};
    static const char *const names[] = {"y", "sum"};
    mica_program *p;
    must(
        mica_program_build(s, params, 4, y, 2, &(mica_program_options){.result_names = names}, &p));
    mica_scope_close(&s);
    return p;
}

static mica_executable *open_affine(mica_mode mode) {
    mica_program *p = affine();
    mica_executable *x;
    must(mica_executable_open(p, &(mica_executable_options){.mode = mode}, &x));
    mica_program_close(&p);
    return x;
}

static const float ONE_TO_FOUR[4] = {1, 2, 3, 4};

static mica_input data(const char *name, const float *values, size_t n) {
    return (mica_input){.name = name, .data = values, .bytes = n * sizeof *values, MICA_F32};
}

static void set(mica_executable *x, const char *name, const float *values, size_t n) {
    const mica_input input = data(name, values, n);
    must(mica_executable_set(x, &input));
}

/* ---- values ---- */

/* As in the example of the header: data without a dtype is of the parameter's own. */
static void test_data_without_a_dtype(void **state) {
    (void)state;
    mica_executable *x = open_affine(MICA_MODE_LAZY);
    mica_input in = {.name = "weight", .data = ONE_TO_FOUR, .bytes = sizeof ONE_TO_FOUR};
    must(mica_executable_set(x, &in));
    in.bytes = 4; /* as bools would have */
    assert_int_equal(mica_executable_set(x, &in), MICA_ESHAPE);
    mica_executable_close(&x);
}

/* A number that a dtype of integers does not have is none of its parameters'. */
static void test_fill_has_the_number(void **state) {
    (void)state;
    static const struct {
        mica_dtype dtype;
        double number;
        bool fits;
    } cases[] = {{MICA_I32, 1.5, false},
                 {MICA_I32, 2147483648.0, false},
                 {MICA_I32, -2147483648.0, true},
                 {MICA_U8, -1, false},
                 {MICA_U8, 255, true},
                 {MICA_BOOL, 2, false},
                 {MICA_BOOL, 1, true},
                 {MICA_F16, 0.1, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mica_scope *s = open_scope();
        mica_program *p = NULL;
        mica_executable *x = NULL;
        mica_array k = mica_program_param(s, cases[i].dtype, (int64_t[]){2}, 1);
        const mica_param param = {.name = "k", .array = k};
        must(mica_program_build(s, &param, 1, &k, 1, NULL, &p));
        must(mica_executable_open(p, NULL, &x));
        assert_int_equal(mica_executable_fill(x, "k", cases[i].number),
                         cases[i].fits ? MICA_OK : MICA_EINVAL);
        mica_executable_close(&x);
        mica_program_close(&p);
        mica_scope_close(&s);
    }
}

static void test_values_by_name(void **state) {
    (void)state;
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++) {
        mica_executable *x = open_affine(mode), *clone;
        assert_int_equal(mica_executable_compiles(x), mode == MICA_MODE_COMPILED);
        set(x, "weight", (float[]){0, 1, 1, 0}, 4);
        set(x, "unused", (float[]){0, 0, 0}, 3);
        must(mica_executable_fill(x, "k", 10));
        mica_scope *s = open_scope();
        mica_array y[2];
        int32_t sum;
        const mica_input in = data("x", ONE_TO_FOUR, 4);
        for (int i = 0; i < 3; i++) {
            must(mica_executable_run(x, &in, 1, s, y));
            EXPECT(y[0], 12, 11, 14, 13);
            must(mica_read(y[1], &sum, sizeof sum));
            assert_int_equal(sum, 50);
        }
        assert_int_equal(mica_executable_compiles(x), mode != MICA_MODE_EAGER);
        assert_int_equal(mica_executable_runs(x), 3);
        must(mica_executable_clone(x, &clone));
        must(mica_executable_set_range(x, "weight", 4, (float[]){5}, sizeof(float)));
        must(mica_executable_run(x, &in, 1, s, y));
        EXPECT(y[0], 12, 15, 14, 25); /* w is {0, 5, 1, 0}: 2 + 10, 5 + 10, 4 + 10, 15 + 10 */
        must(mica_executable_run(clone, &in, 1, s, y));
        EXPECT(y[0], 12, 11, 14, 13);
        /* What is given goes before what is set, for this run alone. */
        const mica_input both[] = {in, data("k", (float[]){0}, 1)};
        must(mica_executable_run(clone, both, 2, s, y));
        EXPECT(y[0], 2, 1, 4, 3);
        must(mica_executable_run(clone, &in, 1, NULL, NULL));
        mica_array w;
        must(mica_executable_get(clone, "weight", s, &w));
        EXPECT(w, 0, 1, 1, 0);
        mica_executable_close(&x);
        mica_executable_close(&clone);
        EXPECT(y[0], 2, 1, 4, 3);
        mica_scope_close(&s);
    }
}

static void test_values_are_unset(void **state) {
    (void)state;
    mica_executable *x = open_affine(MICA_MODE_LAZY);
    mica_scope *s = open_scope();
    mica_array y[2], kept;
    const mica_input in[] = {data("x", ONE_TO_FOUR, 4), data("weight", ONE_TO_FOUR, 4)};
    set(x, "weight", (float[]){0, 1, 1, 0}, 4);
    must(mica_executable_fill(x, "k", 10));
    must(mica_executable_fill(x, "unused", 0));
    must(mica_executable_run(x, in, 1, s, y));
    must(mica_executable_get(x, "weight", s, &kept));
    must(mica_executable_unset(x, "weight"));
    expect_refused(mica_executable_run(x, in, 1, s, y), MICA_EINVAL, "nor set: weight");
    expect_refused(mica_executable_get(x, "weight", s, y), MICA_EINVAL, "weight is not set");
    EXPECT(kept, 0, 1, 1, 0);
    must(mica_executable_unset(x, "weight")); /* it is not */
    must(mica_executable_run(x, in, 2, s, y));
    EXPECT(y[0], 17, 20, 25, 32);
    expect_refused(mica_executable_unset(x, "wieght"), MICA_ENOENT, "the nearest is \"weight\"");
    expect_refused(mica_executable_unset(NULL, "weight"), MICA_EINVAL, "NULL");
    mica_scope_close(&s);
    mica_executable_close(&x);
}

/* ---- clones ---- */

enum { CLONES = 4, CLONE_RUNS = 50 };

typedef struct cloned {
    pthread_t thread;
    mica_executable *x;
    int number, wrong;
} cloned;

static void *run_clone(void *context) {
    cloned *c = context;
    mica_scope *s;
    if (mica_scope_open(device, &s) != MICA_OK) return NULL;
    for (int i = 0; i < CLONE_RUNS; i++) {
        const float x[4] = {(float)c->number, 1, (float)i, 0};
        const mica_input in = {.name = "x", .data = x, .bytes = sizeof x, .dtype = MICA_F32};
        mica_array y[2];
        float got[4];
        /* w is {1, 2, 3, 4}, k the clone's number */
        const float want[4] = {x[0] + 3 + x[0], 2 * x[0] + 4 + x[0], x[2] + x[0], 2 * x[2] + x[0]};
        if (mica_executable_run(c->x, &in, 1, s, y) != MICA_OK ||
            mica_read(y[0], got, sizeof got) != MICA_OK || memcmp(got, want, sizeof want) != 0)
            c->wrong++;
    }
    mica_scope_close(&s);
    return NULL;
}

/* Clones run at once, each in a thread of its own: with values of their own beside shared ones, and
 * with one plan, which they may all make at once. */
static void test_clones_run_at_once(void **state) {
    (void)state;
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++) {
        mica_executable *x = open_affine(mode);
        cloned clones[CLONES];
        uint64_t compiles = 0;
        set(x, "weight", ONE_TO_FOUR, 4);
        must(mica_executable_fill(x, "unused", 0));
        for (int i = 0; i < CLONES; i++) {
            clones[i] = (cloned){.number = i};
            must(mica_executable_clone(x, &clones[i].x));
            must(mica_executable_fill(clones[i].x, "k", i));
        }
        for (int i = 0; i < CLONES; i++)
            assert_int_equal(pthread_create(&clones[i].thread, NULL, run_clone, &clones[i]), 0);
        mica_scope *s = open_scope();
        mica_array ours, theirs;
        must(mica_executable_get(x, "weight", s, &ours));
        for (int i = 0; i < CLONES; i++) {
            assert_int_equal(pthread_join(clones[i].thread, NULL), 0);
            assert_int_equal(clones[i].wrong, 0);
            must(mica_executable_get(clones[i].x, "weight", s, &theirs));
            assert_ptr_equal(mc_node_of(ours)->storage, mc_node_of(theirs)->storage);
            compiles += mica_executable_compiles(clones[i].x);
        }
        /* One that was compiled before is everybody's. */
        assert_int_equal(compiles + mica_executable_compiles(x), mode != MICA_MODE_EAGER);
        mica_executable_close(&x);
        for (int i = 0; i < CLONES; i++)
            mica_executable_close(&clones[i].x);
        mica_scope_close(&s);
    }
}

/* Arrays are shared, views are copied, other dtypes are converted where that is asked for. */
static void test_arrays_and_other_dtypes(void **state) {
    (void)state;
    mica_executable *x = open_affine(MICA_MODE_LAZY);
    mica_scope *s = open_scope();
    mica_array w = mica_from_data(s, (float[]){1, 2, 3, 4}, MICA_F32, SHAPE(2, 2)), y[2], got;
    must(mica_eval(s, w));
    must(mica_executable_set(x, &(mica_input){.name = "weight", .array = w}));
    must(mica_executable_get(x, "weight", s, &got));
    const void *a = NULL, *b = NULL;
    if (!test_device_is_other()) {
        must(mica_array_host(w, &a));
        must(mica_array_host(got, &b));
        assert_ptr_equal(a, b);
    }
    mica_array turned = mica_transpose(s, w, NULL);
    must(mica_executable_set(x, &(mica_input){.name = "weight", .array = turned}));
    const int16_t ints[4] = {1, 0, 0, 1};
    mica_input in = {.name = "x", .data = ints, .bytes = sizeof ints, .dtype = MICA_I16};
    must(mica_executable_fill(x, "k", 0));
    must(mica_executable_fill(x, "unused", 0));
    expect_refused(mica_executable_run(x, &in, 1, s, y), MICA_EDTYPE,
                   "parameter x is f32[2,2], given i16[2,2]");
    in.convert = true;
    must(mica_executable_run(x, &in, 1, s, y));
    EXPECT(y[0], 1, 3, 2, 4);
    mica_scope_close(&s);
    mica_executable_close(&x);
}

static void test_what_is_refused(void **state) {
    (void)state;
    mica_executable *x = open_affine(MICA_MODE_LAZY), *none;
    mica_scope *s = open_scope();
    mica_array y[2];
    mica_input in = data("wieght", ONE_TO_FOUR, 4);
    expect_refused(mica_executable_set(x, &in), MICA_ENOENT,
                   "no parameter \"wieght\"; the nearest is \"weight\"");
    in = data("weight", ONE_TO_FOUR, 3);
    expect_refused(mica_executable_set(x, &in), MICA_ESHAPE, "12 bytes for f32[2,2], which has 16");
    in = (mica_input){.name = "weight", .array = mica_zeros(s, SHAPE(4), MICA_F32)};
    expect_refused(mica_executable_set(x, &in), MICA_ESHAPE, "is f32[2,2], given f32[4]");
    in = (mica_input){.name = "weight"};
    expect_refused(mica_executable_set(x, &in), MICA_EINVAL, "neither data nor an array");
    expect_refused(mica_executable_set_range(x, "weight", 8, ONE_TO_FOUR, 12), MICA_ESHAPE,
                   "bytes 8 to 20 of parameter weight, which has 16");
    expect_refused(mica_executable_run(x, NULL, 0, s, y), MICA_EINVAL,
                   "neither given nor set: x, weight, k, unused");
    assert_false(mica_valid(y[0]));
    const mica_input twice[] = {data("x", ONE_TO_FOUR, 4), data("x", ONE_TO_FOUR, 4)};
    expect_refused(mica_executable_run(x, twice, 2, s, y), MICA_EINVAL, "x is there twice");
    expect_refused(mica_executable_run(x, twice, 1, s, NULL), MICA_EINVAL, "go together");
    expect_refused(mica_executable_get(x, "k", s, y), MICA_EINVAL, "k is not set");
    expect_refused(mica_executable_feed(x, "y", "k"), MICA_ESHAPE, "result y is f32[2,2]");
    expect_refused(mica_executable_feed(x, "sum", "k"), MICA_EDTYPE, "result sum is i32[]");
    expect_refused(mica_executable_feed(x, "z", "k"), MICA_ENOENT, "no result \"z\"");
    char *text;
    set(x, "weight", ONE_TO_FOUR, 4);
    expect_refused(mica_executable_check(x, twice, 1, &text), MICA_EINVAL, "missing: k, unused");
    assert_string_equal(text, "missing: k, unused\nunused: unused\n");
    mica_free(text);
    must(mica_executable_fill(x, "k", 1));
    must(mica_executable_fill(x, "unused", 1));
    must(mica_executable_check(x, twice, 1, &text));
    assert_string_equal(text, "unused: unused\n");
    mica_free(text);
    must(mica_executable_report(x, &text));
    assert_non_null(strstr(text, "op matmul: 1, "));
    assert_non_null(strstr(text, "param weight: f32[2,2], 16 bytes, set\n"));
    mica_free(text);
    must(mica_executable_run(x, twice, 1, s, y)); /* nothing was lost */
    mica_program *p = affine();
    const mica_executable_options odd = {.slot_align = 48};
    expect_refused(mica_executable_open(p, &odd, &none), MICA_EINVAL, "no power of two");
    setenv("MICA_MODE", "quick", 1);
    expect_refused(mica_executable_open(p, NULL, &none), MICA_EINVAL, "MICA_MODE is quick");
    setenv("MICA_MODE", "Eager", 1);
    must(mica_executable_open(p, NULL, &none));
    unsetenv("MICA_MODE");
    must(mica_executable_report(none, &text));
    assert_non_null(strstr(text, "mode eager"));
    mica_free(text);
    mica_executable_close(&none);
    mica_program_close(&p);
    mica_scope_close(&s);
    mica_executable_close(&x);
}

/* A run that cannot fit is refused before it takes memory: what the sum needs is the product of
 * [256, 256] and [256, 256], and their sum. */
static void test_more_memory_than_there_may_be(void **state) {
    (void)state;
    if (test_device_is_other()) return; /* others cannot tell */
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode += 2) {
        mica_scope *s = open_scope();
        mica_array x = mica_program_param(s, MICA_F32, SHAPE(256, 256));
        mica_array y = mica_sum(s, mica_sort(s, mica_matmul(s, x, x), 0), NULL, 0, false);
        const mica_param param = {.name = "x", .array = x};
        const mica_executable_options o = {.mode = mode};
        mica_program *p;
        mica_executable *exe;
        must(mica_program_build(s, &param, 1, &y, 1, NULL, &p));
        mica_device_set_memory_limit(device, 300 << 10);
        mica_status status = mica_executable_open(p, &o, &exe);
        if (mode == MICA_MODE_LAZY) {
            must(status);
            must(mica_executable_fill(exe, "x", 1));
            uint64_t before = mica_device_active_bytes(device);
            mica_device_reset_peak(device);
            status = mica_executable_run(exe, NULL, 0, NULL, NULL);
            assert_int_equal(mica_device_peak_bytes(device), before);
        }
        expect_refused(status, MICA_ENOMEM, "bytes of cpu, whose limit is 307200");
        mica_device_set_memory_limit(device, 0);
        mica_executable_close(&exe);
        must(mica_executable_open(p, &o, &exe));
        must(mica_executable_fill(exe, "x", 1));
        must(mica_executable_run(exe, NULL, 0, s, &y));
        EXPECT(y, 256 * 256 * 256);
        mica_executable_close(&exe);
        mica_program_close(&p);
        mica_scope_close(&s);
    }
}

/* As many results as are asked for, of constants of every dtype, too, in each mode. */
static void test_many_results_of_all_dtypes(void **state) {
    (void)state;
    enum { MANY = 80 };
    static const char bytes[16] = {1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1};
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(2)), y[MANY], got[MANY];
    for (int i = 0; i < MANY; i++)
        y[i] = i < MICA_DTYPE_COUNT ? mica_from_data(s, bytes, (mica_dtype)i, SHAPE(2))
                                    : mica_add(s, x, mica_f32(s, (float)i));
    const mica_param param = {.name = "x", .array = x};
    mica_program *p;
    must(mica_program_build(s, &param, 1, y, MANY, NULL, &p));
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++) {
        mica_executable *exe;
        char *text;
        must(mica_executable_open(p, &(mica_executable_options){.mode = mode}, &exe));
        const mica_input in = data("x", ONE_TO_FOUR, 2);
        must(mica_executable_run(exe, &in, 1, s, got));
        for (int i = 0; i < MANY; i++) {
            char read[16];
            if (i >= MICA_DTYPE_COUNT) EXPECT(got[i], 1 + (float)i, 2 + (float)i);
            if (i >= MICA_DTYPE_COUNT) continue;
            size_t n = 2 * mica_dtype_bytes((mica_dtype)i);
            assert_int_equal(mica_array_dtype(got[i]), i);
            must(mica_read(got[i], read, n));
            assert_memory_equal(read, bytes, n);
        }
        must(mica_executable_report(exe, &text));
        assert_non_null(
            strstr(text, "bytes: 0 of parameters that are set, 110 of constants, 0 of"));
        mica_free(text);
        mica_executable_close(&exe);
    }
    mica_program_close(&p);
    mica_scope_close(&s);
}

/* ---- feeding ---- */

/* The state out0 f32 [256, 4], donated, has a row written at place `at`; the other result is the
 * sum of the row. */
static mica_executable *open_state(void) {
    mica_scope *s = open_scope();
    mica_array cache = mica_program_param(s, MICA_F32, SHAPE(256, 4));
    mica_array row = mica_program_param(s, MICA_F32, SHAPE(1, 4));
    mica_array at = mica_program_param(s, MICA_I32, NULL, 0), y[2];
    y[0] = mica_slice_update_at(s, cache, row, at, 0);
    y[1] = mica_sum(s, row, NULL, 0, false);
    const mica_param params[] = {{.name = "out0", .array = cache, .donate = true},
                                 {.name = "row", .array = row},
                                 {.name = "at", .array = at}};
    mica_program *p;
    mica_executable *x;
    must(mica_program_build(s, params, 3, y, 2, NULL, &p));
    mica_scope_close(&s);
    must(mica_executable_open(p, NULL, &x));
    mica_program_close(&p);
    return x;
}

static void test_a_result_feeds_a_parameter(void **state) {
    (void)state;
    mica_executable *x = open_state();
    const void *before = NULL, *after = NULL;
    must(mica_executable_fill(x, "out0", 0));
    for (int32_t i = 0; i < 5; i++) {
        const float row[4] = {(float)i, 1, 2, 3};
        const mica_input in[] = {data("row", row, 4),
                                 {.name = "at", .data = &i, .bytes = sizeof i, .dtype = MICA_I32}};
        must(mica_executable_run(x, in, 2, NULL, NULL));
        if (test_device_is_other()) continue;
        mica_scope *s = open_scope();
        mica_array now;
        must(mica_executable_get(x, "out0", s, &now));
        must(mica_array_host(now, &after));
        if (i > 0) assert_ptr_equal(before, after); /* written in place */
        before = after;
        mica_scope_close(&s);
    }
    mica_scope *s = open_scope();
    mica_array now;
    must(mica_executable_get(x, "out0", s, &now));
    now = mica_slice_axis(s, now, 0, 2, 5);
    EXPECT(mica_reshape(s, now, SHAPE(12)), 2, 1, 2, 3, 3, 1, 2, 3, 4, 1, 2, 3);
    mica_scope_close(&s);
    must(mica_executable_feed(x, NULL, "out0"));
    const int32_t at = 0;
    const mica_input in[] = {data("row", (float[]){9, 9, 9, 9}, 4),
                             {.name = "at", .data = &at, .bytes = sizeof at, .dtype = MICA_I32}};
    must(mica_executable_run(x, in, 2, NULL, NULL));
    s = open_scope();
    must(mica_executable_get(x, "out0", s, &now));
    EXPECT(mica_slice_axis(s, now, 0, 0, 1), 0, 1, 2, 3); /* fed no more */
    mica_scope_close(&s);
    mica_executable_close(&x);
}

/* ---- queued runs ---- */

/* c becomes c + x[i]; an i outside is an error. */
static mica_executable *open_sum(void) {
    mica_scope *s = open_scope();
    mica_array c = mica_program_param(s, MICA_F32, SHAPE(1));
    mica_array i = mica_program_param(s, MICA_I32, SHAPE(1)), y;
    mica_array x = mica_from_data(s, (float[]){1, 10, 100, 1000}, MICA_F32, SHAPE(4));
    y = mica_add(s, c, mica_take(s, x, i, 0));
    const mica_param params[] = {{.name = "out0", .array = c}, {.name = "i", .array = i}};
    mica_program *p;
    mica_executable *exe;
    must(mica_program_build(s, params, 2, &y, 1, NULL, &p));
    mica_scope_close(&s);
    must(mica_executable_open(p, NULL, &exe));
    mica_program_close(&p);
    return exe;
}

static mica_input number(const int32_t *i) {
    return (mica_input){.name = "i", .data = i, .bytes = sizeof *i, .dtype = MICA_I32};
}

static void test_queued_runs_keep_their_order(void **state) {
    (void)state;
    mica_executable *x = open_sum();
    mica_scope *s = open_scope();
    mica_ticket *tickets[4];
    mica_array y;
    must(mica_executable_fill(x, "out0", 0));
    for (int32_t i = 0; i < 4; i++) {
        const mica_input in = number(&i);
        must(mica_executable_run_async(x, &in, 1, &tickets[i]));
    }
    static const float sums[] = {1, 11, 111, 1111};
    must(mica_ticket_wait(&tickets[2], s, &y));
    EXPECT(y, sums[2]);
    assert_null(tickets[2]);
    must(mica_ticket_wait(&tickets[0], s, &y));
    EXPECT(y, sums[0]);
    must(mica_ticket_wait(&tickets[3], NULL, NULL));
    assert_true(mica_ticket_ready(tickets[1]));
    const int32_t ids[3] = {0, 0, 3};
    const mica_input sets[3] = {number(&ids[0]), number(&ids[1]), number(&ids[2])};
    mica_array many[3];
    must(mica_executable_run_many(x, sets, 1, 3, s, many));
    EXPECT(many[0], 1112);
    EXPECT(many[2], 2113);
    mica_executable_close(&x); /* and ticket 1 */
    EXPECT(many[1], 1113);
    mica_scope_close(&s);
}

static void test_errors_of_queued_runs(void **state) {
    (void)state;
    mica_executable *x = open_sum();
    mica_scope *s = open_scope();
    mica_ticket *tickets[3];
    mica_array y;
    must(mica_executable_fill(x, "out0", 0));
    const int32_t ids[3] = {1, 77, 2};
    for (int i = 0; i < 3; i++) {
        const mica_input in = number(&ids[i]);
        must(mica_executable_run_async(x, &in, 1, &tickets[i]));
    }
    expect_refused(mica_ticket_wait(&tickets[2], s, &y), MICA_EINVAL,
                   "an earlier run failed: take");
    expect_refused(mica_ticket_wait(&tickets[1], s, &y), MICA_EINVAL, "take");
    assert_false(mica_valid(y));
    must(mica_ticket_wait(&tickets[0], s, &y));
    EXPECT(y, 10);
    const mica_input in = number(&ids[2]);
    must(mica_executable_run(x, &in, 1, s, &y));
    EXPECT(y, 110);
    mica_input sets[3] = {number(&ids[0]), number(&ids[1]), number(&ids[2])};
    mica_array many[3];
    expect_refused(mica_executable_run_many(x, sets, 1, 3, s, many), MICA_EINVAL, "take");
    assert_false(mica_valid(many[0]));
    must(mica_executable_run(x, &in, 1, s, &y));
    EXPECT(y, 220);
    mica_scope_close(&s);
    mica_executable_close(&x);
}

/* A run behind one that failed fails, also where that is long over; until it is waited for. */
static void test_a_run_behind_one_that_is_over(void **state) {
    (void)state;
    mica_executable *x = open_sum();
    mica_scope *s = open_scope();
    mica_ticket *tickets[3];
    mica_array y;
    must(mica_executable_fill(x, "out0", 0));
    const int32_t ids[2] = {77, 2};
    const mica_input bad = number(&ids[0]), good = number(&ids[1]);
    for (int i = 0; i < 3; i++) {
        must(mica_executable_run_async(x, i == 1 ? &bad : &good, 1, &tickets[i]));
        while (!mica_ticket_ready(tickets[i]))
            sched_yield();
    }
    expect_refused(mica_ticket_wait(&tickets[2], s, &y), MICA_EINVAL,
                   "an earlier run failed: take");
    expect_refused(mica_ticket_wait(&tickets[1], s, &y), MICA_EINVAL, "take");
    must(mica_executable_run_async(x, &good, 1, &tickets[1])); /* beside one that went well */
    must(mica_ticket_wait(&tickets[1], s, &y));
    EXPECT(y, 200);
    must(mica_ticket_wait(&tickets[0], s, &y));
    EXPECT(y, 100);
    mica_scope_close(&s);
    mica_executable_close(&x);
}

static mica_status forever(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                           size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_equal(s, x[0], x[0]);
    return MICA_OK;
}

static mica_status next(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                        size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_add(s, x[0], mica_i32(s, 1));
    return MICA_OK;
}

/* A program that counts on from "x" and never ends. */
static mica_program *build_endless(mica_scope *s) {
    mica_array x = mica_program_param(s, MICA_I32, NULL, 0), y;
    must(mica_while(s, forever, next, NULL, &x, 1, NULL, &y, NULL));
    const mica_param param = {.name = "x", .array = x};
    mica_program *p;
    must(mica_program_build(s, &param, 1, &y, 1, NULL, &p));
    return p;
}

static void test_cancelled_runs(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array y;
    mica_program *p = build_endless(s);
    mica_executable *exe;
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_EAGER; mode++) {
        must(mica_executable_open(p, &(mica_executable_options){.mode = mode}, &exe));
        must(mica_executable_fill(exe, "x", 0));
        must(mica_executable_feed(exe, "0", "x"));
        mica_ticket *first, *second;
        must(mica_executable_run_async(exe, NULL, 0, &first));
        must(mica_executable_run_async(exe, NULL, 0, &second));
        mica_ticket_cancel(second);
        mica_ticket_cancel(first);
        assert_int_equal(mica_ticket_wait(&first, NULL, NULL), MICA_ECANCELLED);
        assert_int_equal(mica_ticket_wait(&second, NULL, NULL), MICA_ECANCELLED);
        int64_t kept = 1;
        must(mica_executable_get(exe, "x", s, &y)); /* nothing was fed */
        must(mica_item_i64(y, &kept));
        assert_int_equal(kept, 0);
        mica_executable_close(&exe);
    }
    mica_program_close(&p);
    mica_scope_close(&s);
}

static void *cancel_soon(void *cancel) {
    const struct timespec wait = {.tv_nsec = 20000000};
    nanosleep(&wait, NULL);
    mica_cancel_set(cancel);
    return NULL;
}

/* The scope that is to receive the results cancels a run that is under way, or would begin. */
static void test_runs_are_cancelled_by_their_scope(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array y;
    mica_program *p = build_endless(s);
    mica_executable *exe;
    mica_cancel *cancel;
    pthread_t thread;
    mica_scope_close(&s);
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++) {
        must(mica_executable_open(p, &(mica_executable_options){.mode = mode}, &exe));
        must(mica_executable_fill(exe, "x", 0));
        must(mica_cancel_open(&cancel));
        s = open_scope();
        mica_scope_set_cancel(s, cancel);
        assert_int_equal(pthread_create(&thread, NULL, cancel_soon, cancel), 0);
        assert_int_equal(mica_executable_run(exe, NULL, 0, s, &y), MICA_ECANCELLED);
        assert_false(mica_valid(y));
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(mica_executable_run(exe, NULL, 0, s, &y), MICA_ECANCELLED);
        mica_scope_close(&s);
        mica_cancel_close(&cancel);
        mica_executable_close(&exe);
    }
    mica_program_close(&p);
}

/* ---- slots ---- */

static void test_slots(void **state) {
    (void)state;
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++) {
        mica_executable *x = open_affine(mode);
        const mica_slot *slots;
        size_t n;
        must(mica_executable_slots(x, &slots, &n));
        assert_int_equal(n, 2);
        assert_string_equal(slots[1].name, "sum");
        assert_int_equal(slots[1].dtype, MICA_I32);
        assert_int_equal(slots[1].offset, 64);
        assert_int_equal(slots[0].bytes, 16);
        const char *arena = mica_executable_arena(x);
        set(x, "weight", (float[]){0, 1, 1, 0}, 4);
        set(x, "unused", (float[]){0, 0, 0}, 3);
        const float k = 10;
        const void *inputs[4] = {ONE_TO_FOUR, NULL, &k, NULL};
        expect_refused(mica_executable_run_slots(x, inputs, 3), MICA_EINVAL,
                       "3 inputs for 4 parameters");
        for (int i = 0; i < 4; i++) {
            uint64_t before = mc_alloc_count();
            must(mica_executable_run_slots(x, inputs, 4));
            if (i > 1 && mode != MICA_MODE_EAGER && !test_device_is_other())
                assert_int_equal(mc_alloc_count(), before);
            const float want[4] = {12, 11, 14, 13};
            assert_memory_equal(arena, want, sizeof want);
            int32_t sum;
            memcpy(&sum, arena + slots[1].offset, sizeof sum);
            assert_int_equal(sum, 50);
        }
        assert_ptr_equal(arena, mica_executable_arena(x));
        inputs[2] = NULL;
        expect_refused(mica_executable_run_slots(x, inputs, 4), MICA_EINVAL, "nor set: k");
        mica_executable_close(&x);
    }
}

/* Only the results that are named have slots: others are not copied. */
static void test_chosen_slots(void **state) {
    (void)state;
    mica_program *p = affine();
    mica_executable *x, *clone;
    const mica_slot *slots;
    size_t n;
    int32_t sum;
    mica_executable_options options = {.slots = (const char *const[]){"sum"}, .n_slots = 1};
    must(mica_executable_open(p, &options, &x));
    set(x, "weight", (float[]){0, 1, 1, 0}, 4);
    set(x, "unused", (float[]){0, 0, 0}, 3);
    must(mica_executable_fill(x, "k", 10));
    must(mica_executable_clone(x, &clone));
    for (int i = 0; i < 2; i++) {
        mica_executable *at = i ? clone : x;
        must(mica_executable_slots(at, &slots, &n));
        assert_int_equal(n, 1);
        assert_string_equal(slots[0].name, "sum");
        assert_int_equal(slots[0].offset, 0);
        must(mica_executable_run_slots(at, (const void *const[]){ONE_TO_FOUR, 0, 0, 0}, 4));
        memcpy(&sum, mica_executable_arena(at), sizeof sum);
        assert_int_equal(sum, 50);
        mica_executable_close(&at);
    }
    options.n_slots = 0;
    must(mica_executable_open(p, &options, &x));
    must(mica_executable_slots(x, &slots, &n));
    assert_int_equal(n, 0);
    mica_executable_close(&x);
    options = (mica_executable_options){.slots = (const char *const[]){"other"}, .n_slots = 1};
    expect_refused(mica_executable_open(p, &options, &x), MICA_ENOENT, "no result \"other\"");
    options.n_slots = 3;
    expect_refused(mica_executable_open(p, &options, &x), MICA_EINVAL, "3 slots for 2 results");
    options = (mica_executable_options){.slots = (const char *const[]){"sum", NULL}, .n_slots = 2};
    expect_refused(mica_executable_open(p, &options, &x), MICA_EINVAL, "NULL");
    options.slots = NULL;
    expect_refused(mica_executable_open(p, &options, &x), MICA_EINVAL,
                   "slots is NULL, n_slots is 2");
    options.slots = (const char *const[]){"sum", "sum"};
    must(mica_executable_open(p, &options, &x));
    must(mica_executable_slots(x, &slots, &n));
    assert_int_equal(n, 2);
    assert_string_equal(slots[0].name, slots[1].name);
    assert_int_not_equal(slots[0].offset, slots[1].offset);
    mica_executable_close(&x);
    mica_program_close(&p);
}

/* A fed parameter through slots, which is what a control loop is. */
static void test_slots_with_a_state(void **state) {
    (void)state;
    mica_executable *x = open_state();
    const mica_slot *slots;
    size_t n;
    must(mica_executable_fill(x, "out0", 0));
    must(mica_executable_slots(x, &slots, &n));
    for (int32_t i = 0; i < 20; i++) {
        const float row[4] = {(float)i, 1, 1, 1};
        uint64_t before = mc_alloc_count();
        must(mica_executable_run_slots(x, (const void *const[]){NULL, row, &i}, 3));
        if (i > 1 && !test_device_is_other()) assert_int_equal(mc_alloc_count(), before);
        const float *arena = mica_executable_arena(x);
        assert_true(arena[4 * i] == (float)i && arena[4 * i + 1] == 1);
        assert_true(*(const float *)(const void *)((const char *)arena + slots[1].offset) ==
                    (float)i + 3);
    }
    mica_executable_close(&x);
}

/* ---- looking ---- */

static void test_errors_name_the_op_when_eager(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(3)), y;
    y = mica_exp(s, mica_log(s, mica_subtract(s, x, mica_f32(s, 1))));
    const mica_param param = {.name = "x", .array = x};
    mica_program *p;
    mica_executable *exe;
    must(mica_program_build(s, &param, 1, &y, 1, NULL, &p));
    setenv("MICA_CHECK_NAN", "1", 1);
    char *dir = test_temp_dir(), *path = test_format("%s/trace.json", dir);
    setenv("MICA_TRACE", path, 1);
    must(mica_executable_open(p, NULL, &exe));
    unsetenv("MICA_CHECK_NAN");
    unsetenv("MICA_TRACE");
    mica_input in = data("x", (float[]){2, 1, 3}, 3);
    expect_refused(mica_executable_run(exe, &in, 1, s, &y), MICA_EINVAL, "log %");
    if (!strstr(mica_last_error(), "(f32[3])") || !strstr(mica_last_error(), "NaN or infinity"))
        fail_msg("%s", mica_last_error());
    in = data("x", (float[]){2, NAN, 3}, 3);
    must(mica_executable_run(exe, &in, 1, s, &y)); /* the operand has one */
    in = data("x", (float[]){2, 3, 4}, 3);
    must(mica_executable_run(exe, &in, 1, s, &y));
    char *trace = test_read_file(path, NULL);
    assert_memory_equal(trace, "[\n{\"name\":\"", 11);
    assert_non_null(strstr(trace, "{\"name\":\"subtract\",\"ph\":\"X\""));
    assert_non_null(strstr(trace, "\"name\":\"exp\""));
    assert_non_null(strstr(trace, "\"result\":\"f32[3]\"}},\n{"));
    /* Two runs are one array. */
    assert_string_equal(trace + strlen(trace) - 5, "}}\n]\n");
    assert_ptr_equal(strstr(trace, "\n]"), trace + strlen(trace) - 3);
    free(trace);
    free(path);
    test_temp_dir_remove(dir);
    mica_executable_close(&exe);
    mica_program_close(&p);
    mica_scope_close(&s);
}

static mica_status same(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                        size_t n_y) {
    (void)user, (void)s, (void)n, (void)n_y;
    y[0] = x[0];
    return MICA_OK;
}

/* A file may have any number of nodes for one result of an op. */
static void test_a_result_that_is_there_often(void **state) {
    (void)state;
    enum { MANY = 200 };
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_I32, NULL, 0), y;
    mica_array pred = mica_greater(s, x, mica_i32(s, 0));
    must(mica_if(s, pred, same, same, NULL, &x, 1, &y, 1));
    mica_array *parts = malloc(MANY * sizeof *parts), *out = malloc(MANY * sizeof *out);
    assert_true(parts && out);
    for (int i = 0; i < MANY; i++)
        parts[i] = mc_record_part(s, (mica_array){s, mc_node_of(y)->in[0]}, 0);
    const mica_param param = {.name = "x", .array = x};
    mica_program *p;
    mica_executable *exe;
    must(mica_program_build(s, &param, 1, parts, MANY, NULL, &p));
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_EAGER; mode++) {
        must(mica_executable_open(p, &(mica_executable_options){.mode = mode}, &exe));
        must(mica_executable_fill(exe, "x", 7));
        must(mica_executable_run(exe, NULL, 0, s, out));
        for (int i = 0; i < MANY; i += MANY / 4) {
            int32_t got = 0;
            must(mica_read(out[i], &got, sizeof got));
            assert_int_equal(got, 7);
        }
        mica_executable_close(&exe);
    }
    mica_program_close(&p);
    mica_scope_close(&s);
    free(parts);
    free(out);
}

/* ---- memory that runs out ---- */

static bool use(void *arg) {
    const mica_program *p = arg;
    mica_executable *x = NULL, *clone = NULL;
    mica_scope *s = NULL;
    mica_ticket *ticket = NULL;
    const mica_input in[] = {data("x", ONE_TO_FOUR, 4), data("weight", ONE_TO_FOUR, 4)};
    const int16_t ones[4] = {1, 1, 1, 1};
    const mica_input other = {
        .name = "weight", .data = ones, .bytes = sizeof ones, .dtype = MICA_I16, .convert = true};
    const mica_slot *slots;
    char *text = NULL;
    size_t n;
    mica_array y[2];
    mica_status status = mica_executable_open(p, NULL, &x);
    if (status == MICA_OK) status = mica_executable_fill(x, "k", 1);
    if (status == MICA_OK) status = mica_executable_fill(x, "unused", 1);
    if (status == MICA_OK) status = mica_scope_open(device, &s);
    if (status == MICA_OK) status = mica_executable_run(x, in, 2, s, y);
    if (status == MICA_OK) status = mica_executable_set(x, &other);
    if (status == MICA_OK) status = mica_executable_get(x, "weight", s, y);
    if (status == MICA_OK) status = mica_executable_unset(x, "weight");
    if (status == MICA_OK) status = mica_executable_set(x, &in[1]);
    if (status == MICA_OK) status = mica_executable_set_range(x, "k", 0, ONE_TO_FOUR, 4);
    if (status == MICA_OK) status = mica_executable_run_async(x, in, 1, &ticket);
    if (ticket) {
        mica_status waited = mica_ticket_wait(&ticket, s, y);
        if (status == MICA_OK) status = waited;
    }
    if (status == MICA_OK) status = mica_executable_clone(x, &clone);
    if (status == MICA_OK) status = mica_executable_slots(x, &slots, &n);
    if (status == MICA_OK)
        status = mica_executable_run_slots(x, (const void *const[]){ONE_TO_FOUR, 0, 0, 0}, 4);
    if (status == MICA_OK) status = mica_executable_report(x, &text);
    mica_free(text);
    mica_scope_close(&s);
    mica_executable_close(&x);
    mica_executable_close(&clone);
    mica_device_clear_cache(device);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    return status == MICA_OK;
}

static void test_each_allocation_fails(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* its thread allocates, too */
    mica_program *p = affine();
    mica_executable *x;
    mica_ticket *ticket;
    const mica_input in[] = {data("x", ONE_TO_FOUR, 4), data("weight", ONE_TO_FOUR, 4),
                             data("k", ONE_TO_FOUR, 1), data("unused", ONE_TO_FOUR, 3)};
    must(mica_executable_open(p, NULL, &x)); /* starts the background thread */
    must(mica_executable_run_async(x, in, 4, &ticket));
    mica_executable_close(&x);
    test_fail_each_allocation(use, p);
    mica_program_close(&p);
}

/* x loops until it is 5, and is fed by what comes out. */
static mica_status below_five(void *user, mica_scope *s, const mica_array *x, size_t n,
                              mica_array *y, size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_less(s, x[0], mica_i32(s, 5));
    return MICA_OK;
}

typedef struct loop {
    const mica_program *p;
    mica_mode mode;
} loop;

static bool use_loop(void *arg) {
    const loop *l = arg;
    mica_executable *x = NULL;
    mica_scope *s = NULL;
    mica_array many[3];
    const int32_t starts[3] = {0, 7, 1};
    mica_input in[3];
    char *text = NULL;
    for (int i = 0; i < 3; i++)
        in[i] = (mica_input){.name = "x", .data = &starts[i], .bytes = 4, .dtype = MICA_I32};
    mica_status status =
        mica_executable_open(l->p, &(mica_executable_options){.mode = l->mode}, &x);
    if (status == MICA_OK) status = mica_scope_open(device, &s);
    if (status == MICA_OK) status = mica_executable_run_many(x, in, 1, 3, s, many);
    if (status == MICA_OK) status = mica_executable_feed(x, "y", "x");
    if (status == MICA_OK) status = mica_executable_fill(x, "x", 1);
    if (status == MICA_OK) status = mica_executable_run(x, NULL, 0, s, many);
    if (status == MICA_OK) status = mica_executable_check(x, in, 1, &text);
    mica_free(text);
    mica_scope_close(&s);
    mica_executable_close(&x);
    mica_device_clear_cache(device);
    if (status != MICA_OK && status != MICA_ENOMEM) fail_msg("%s", mica_last_error());
    return status == MICA_OK;
}

/* The value that is fed is the result of a run that did not fail, or what it was. Allocation n
 * fails, of a run into a scope that has `nodes`. False: there are fewer. */
static bool feed_once(mica_executable *x, int nodes, uint64_t n) {
    mica_scope *s;
    mica_array y, kept;
    int32_t value;
    must(mica_executable_fill(x, "x", 1));
    must(mica_scope_open(device, &s));
    for (int i = 0; i < nodes; i++)
        (void)mica_i32(s, i);
    mc_alloc_fail_at(n);
    mica_status status = mica_executable_run(x, NULL, 0, s, &y);
    bool failed = mc_alloc_count() >= n;
    mc_alloc_fail_at(0);
    assert_int_equal(status, failed ? MICA_ENOMEM : MICA_OK);
    mc_scope_reset(s);
    must(mica_executable_get(x, "x", s, &kept));
    must(mica_read(kept, &value, sizeof value));
    assert_int_equal(value, failed ? 1 : 2);
    mica_scope_close(&s);
    mica_device_clear_cache(device);
    return failed;
}

static void test_failed_runs_feed_nothing(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* its thread allocates, too */
    mica_program *p;
    mica_executable *exe;
    mica_scope *s;
    must(mica_scope_open(device, &s));
    mica_array x = mica_program_param(s, MICA_I32, (const int64_t[]){1}, 1);
    mica_array y = mica_add(s, x, mica_i32(s, 1));
    const mica_param param = {.name = "x", .array = x};
    must(mica_program_build(s, &param, 1, &y, 1, NULL, &p));
    mica_scope_close(&s);
    must(mica_executable_open(p, NULL, &exe));
    must(mica_executable_feed(exe, "0", "x"));
    enum { NODES = 130 }; /* with some number of them the scope is full */
    uint64_t failures = 0;
    for (int nodes = 0; nodes < NODES; nodes++)
        for (uint64_t n = 1; feed_once(exe, nodes, n); n++)
            failures++;
    assert_true(failures > 3);
    mica_executable_close(&exe);
    mica_program_close(&p);
}

static void test_each_allocation_fails_in_loops(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* its thread allocates, too */
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_I32, NULL, 0), y;
    must(mica_while(s, below_five, next, NULL, &x, 1, NULL, &y, NULL));
    const mica_param param = {.name = "x", .array = x, .donate = true};
    mica_program *p;
    must(mica_program_build(s, &param, 1, &y, 1,
                            &(mica_program_options){.result_names = (const char *const[]){"y"}},
                            &p));
    mica_scope_close(&s);
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_EAGER; mode++)
        test_fail_each_allocation(use_loop, &(loop){p, mode});
    mica_program_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_without_a_dtype),
        cmocka_unit_test(test_fill_has_the_number),
        cmocka_unit_test(test_values_by_name),
        cmocka_unit_test(test_values_are_unset),
        cmocka_unit_test(test_arrays_and_other_dtypes),
        cmocka_unit_test(test_clones_run_at_once),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_more_memory_than_there_may_be),
        cmocka_unit_test(test_many_results_of_all_dtypes),
        cmocka_unit_test(test_a_result_feeds_a_parameter),
        cmocka_unit_test(test_queued_runs_keep_their_order),
        cmocka_unit_test(test_errors_of_queued_runs),
        cmocka_unit_test(test_a_run_behind_one_that_is_over),
        cmocka_unit_test(test_cancelled_runs),
        cmocka_unit_test(test_runs_are_cancelled_by_their_scope),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_chosen_slots),
        cmocka_unit_test(test_slots_with_a_state),
        cmocka_unit_test(test_errors_name_the_op_when_eager),
        cmocka_unit_test(test_a_result_that_is_there_often),
        cmocka_unit_test(test_each_allocation_fails),
        cmocka_unit_test(test_failed_runs_feed_nothing),
        cmocka_unit_test(test_each_allocation_fails_in_loops),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
