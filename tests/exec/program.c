/* Programs: arguments in the place of parameters, donated ones written in place, runs from many
 * threads, scopes that live for a million steps, and what is refused. */
#define _POSIX_C_SOURCE 200809L

#include <mica/mica.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "exec/cache.h"
#include "exec/expect.h"
#include "exec/program.h"
#include "graph/graph.h"

enum { N = 8, THREADS = 8 };

static mica_device *device;
static mica_scope *s, *into;
static long runs = 1000000; /* of one program in one scope */

static int open_scopes(void **state) {
    (void)state;
    assert_int_equal(test_device_open(&(mica_device_options){.threads = 2}, &device), 0);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    return (int)mica_scope_open(device, &into);
}

static int close_scopes(void **state) {
    (void)state;
    mica_scope_close(&s);
    mica_scope_close(&into);
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
    return 0;
}

static mica_array data(mica_scope *scope, const float *values, int64_t n) {
    return mica_from_data(scope, values, MICA_F32, &n, 1);
}

static void expect(mica_array x, const float *want, size_t n) {
    float got[64];
    if (mica_read(x, got, n * sizeof *got) != MICA_OK) fail_msg("%s", mica_last_error());
    for (size_t i = 0; i < n; i++)
        assert_float_equal(got[i], want[i], 0);
}

static uint64_t looked_up(void) {
    return mc_graph_cache_of(device)->hits + mc_graph_cache_of(device)->misses;
}

/* ---- a step over a cache ---- */

/* cache[at] = value, and the sum of the squares. Parameters: cache, at, value. */
static mica_program *build_step(void) {
    const int64_t n = N, one = 1;
    mica_program *program = NULL;
    mica_array cache = mica_program_param(s, MICA_F32, &n, 1);
    mica_array at = mica_program_param(s, MICA_I32, NULL, 0);
    mica_array value = mica_program_param(s, MICA_F32, &one, 1);
    mica_array next = mica_slice_update_at(s, cache, value, at, 0);
    mica_array results[] = {next, mica_sum(s, mica_square(s, next), NULL, 0, false)};
    const mica_param params[] = {
        {"cache", cache, true}, {"at", at, false}, {"value", value, false}};
    if (mica_program_build(s, params, 3, results, 2, NULL, &program) != MICA_OK)
        fail_msg("%s", mica_last_error());
    return program;
}

static mica_status run_step(const mica_program *program, mica_array *cache, int32_t at, float value,
                            mica_array *sum) {
    const mica_array args[] = {*cache, mica_i32(into, at), data(into, &value, 1)};
    mica_array results[2];
    mica_status status = mica_program_run(program, into, args, results);
    *cache = results[0];
    *sum = results[1];
    return status;
}

static mica_array zeros(mica_scope *scope) {
    return data(scope, (float[N]){0}, N);
}

/* In place, without allocations, look-ups, or a growing scope: 10,000 steps. */
static void test_steps_write_in_place_and_allocate_nothing(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* where a result lies is another device's own business */
    mica_program *program = build_step();
    mica_array cache = zeros(into), sum;
    const void *place = mc_data(cache);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(run_step(program, &cache, i % N, 0, &sum), MICA_OK);
        assert_int_equal(mica_scope_collect(into, &cache, 1), MICA_OK);
    }
    uint64_t before = looked_up(), active = mica_device_active_bytes(device);
    mc_alloc_fail_at(1);
    for (int i = 0; i < 10000; i++) {
        if (run_step(program, &cache, i % N, (float)i, &sum) != MICA_OK)
            fail_msg("%s", mica_last_error());
        assert_ptr_equal(mc_data(cache), place);
        assert_int_equal(mica_scope_collect(into, &cache, 1), MICA_OK);
        assert_int_equal(mc_scope_count(into), 1);
        assert_int_equal(mica_device_active_bytes(device), active);
    }
    mc_alloc_fail_at(0);
    assert_int_equal(looked_up(), before);
    expect(cache, (float[]){9992, 9993, 9994, 9995, 9996, 9997, 9998, 9999}, N);
    mica_program_close(&program);
    mica_program_close(&program); /* twice */
}

/* What somebody else holds is not written over. */
static void test_what_others_hold_stays(void **state) {
    (void)state;
    mica_program *program = build_step();
    mica_array cache = zeros(into), sum, held = mica_detach(into, cache);
    assert_int_equal(run_step(program, &cache, 1, 5, &sum), MICA_OK);
    expect(held, (float[N]){0}, N);
    expect(cache, (float[N]){0, 5}, N);
    expect(sum, (float[]){25}, 1);
    /* the same memory, donated and given for another parameter */
    mica_array x = data(into, (float[]){3}, 1),
               y = mica_program_param(s, MICA_F32, (int64_t[]){1}, 1);
    mica_array z = mica_program_param(s, MICA_F32, (int64_t[]){1}, 1), results[2];
    mica_array sums[] = {mica_negative(s, y), mica_add(s, y, z)};
    const mica_param params[] = {{"y", y, true}, {"z", z, false}};
    mica_program *other;
    assert_int_equal(mica_program_build(s, params, 2, sums, 2, NULL, &other), MICA_OK);
    assert_int_equal(mica_program_run(other, into, (mica_array[]){x, x}, results), MICA_OK);
    expect(results[0], (float[]){-3}, 1);
    expect(results[1], (float[]){6}, 1);
    mica_program_close(&other);
    mica_program_close(&program);
}

/* A donated argument whose memory a part of the program, a view or a result has, too. */
static void test_what_shares_a_donated_arguments_memory_stays(void **state) {
    (void)state;
    const int64_t n = 4;
    const float values[] = {1, 2, 3, 4};
    mica_array x = mica_program_param(s, MICA_F32, &n, 1), w = data(s, values, 4);
    mica_array results[] = {mica_negative(s, x), mica_add(s, mica_negative(s, x), w)};
    const mica_param param = {.array = x, .donate = true};
    mica_program *program, *same;
    assert_int_equal(mica_program_build(s, &param, 1, results, 2, NULL, &program), MICA_OK);
    mica_array out[4], arg = mica_detach(into, w);
    for (int i = 0; i < 2; i++, arg = mica_detach(into, w)) {
        assert_int_equal(mica_program_run(program, into, &arg, out), MICA_OK);
        expect(out[0], (float[]){-1, -2, -3, -4}, 4);
        expect(out[1], (float[]){0, 0, 0, 0}, 4);
    }
    expect(w, values, 4);
    arg = data(into, values, 4);
    mica_array view = mica_flip(into, arg, 0), odd = mica_slice_axis(into, arg, 0, 1, 3);
    assert_int_equal(mica_eval_n(into, (mica_array[]){view, odd}, 2), MICA_OK);
    assert_int_equal(mica_program_run(program, into, &arg, out), MICA_OK);
    expect(view, (float[]){4, 3, 2, 1}, 4);
    expect(odd, (float[]){2, 3}, 2);
    /* the argument itself, twice, beside what could take its memory */
    mica_array all[] = {x, mica_negative(s, x), x, mica_flip(s, x, 0)};
    assert_int_equal(mica_program_build(s, &param, 1, all, 4, NULL, &same), MICA_OK);
    for (int i = 0; i < 2; i++) {
        arg = i ? out[0] : data(into, values, 4);
        assert_int_equal(mica_program_run(same, into, &arg, out), MICA_OK);
        expect(out[0], values, 4);
        expect(out[1], (float[]){-1, -2, -3, -4}, 4);
        expect(out[2], values, 4);
        expect(out[3], (float[]){4, 3, 2, 1}, 4);
    }
    mica_program_close(&same);
    mica_program_close(&program);
}

/* Values that are no parameters are a part of the program, and live as long as it does. */
/* Runs over results of runs that nobody waited for, waited for in any order. */
static void test_launches_before_earlier_ones_are_over(void **state) {
    (void)state;
    enum { RUNS = 12 };
    mica_program *program = build_step();
    mica_array cache = zeros(into), sums[RUNS];
    mc_fence fences[RUNS];
    float sum = 0;
    for (int i = 0; i < RUNS; i++) {
        const float value = (float)(i + 1);
        const mica_array args[] = {cache, mica_i32(into, i % N), data(into, &value, 1)};
        mica_array results[2];
        if (mc_program_launch(program, into, args, results, &fences[i]) != MICA_OK)
            fail_msg("%s", mica_last_error());
        cache = results[0];
        sums[i] = results[1];
    }
    for (int i = RUNS - 1; i >= 0; i--)
        assert_int_equal(mc_device_wait(device, fences[(i * 5) % RUNS]), MICA_OK);
    expect(cache, (float[]){9, 10, 11, 12, 5, 6, 7, 8}, N);
    for (int i = 0; i < RUNS; i++) {
        const float old = i < N ? 0 : (float)(i - N + 1), value = (float)(i + 1);
        sum += value * value - old * old;
        expect(sums[i], &sum, 1);
    }
    mica_program_close(&program);
}

/* Numbers are those of their launch, though others follow before any is computed. */
static void test_numbers_of_launches(void **state) {
    (void)state;
    enum { RUNS = 7 };
    mica_array x = mica_program_param(s, MICA_F32, (int64_t[]){2}, 1);
    mica_array k = mica_program_param(s, MICA_F32, NULL, 0), y = mica_multiply(s, x, k);
    const mica_param params[] = {{.array = x}, {.array = k}};
    mica_program *program;
    mc_fence fences[RUNS];
    mica_array results[RUNS], given = data(into, (float[]){2, 3}, 2);
    assert_int_equal(mica_program_build(s, params, 2, &y, 1, NULL, &program), MICA_OK);
    for (int i = 0; i < RUNS; i++) {
        const mica_array args[] = {given, mica_f32(into, (float)i)};
        if (mc_program_launch(program, into, args, &results[i], &fences[i]) != MICA_OK)
            fail_msg("%s", mica_last_error());
    }
    for (int i = 0; i < RUNS; i++) {
        assert_int_equal(mc_device_wait(device, fences[i]), MICA_OK);
        expect(results[i], (float[]){2 * (float)i, 3 * (float)i}, 2);
    }
    mica_program_close(&program);
}

/* An error that depends on data is told by the wait. */
static void test_an_error_of_a_launch(void **state) {
    (void)state;
    mica_program *program = build_step();
    const float value = 1;
    const mica_array args[] = {zeros(into), mica_i32(into, N), data(into, &value, 1)};
    mica_array results[2];
    mc_fence fence;
    mica_status status = mc_program_launch(program, into, args, results, &fence);
    if (status == MICA_OK) status = mc_device_wait(device, fence);
    assert_int_equal(status, MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "slice_update_at"));
    mica_program_close(&program);
}

static void test_a_program_outlives_its_scope_and_device_handle(void **state) {
    (void)state;
    mica_device *own;
    mica_scope *recording, *out;
    mica_program *program;
    assert_int_equal(test_device_open(NULL, &own), MICA_OK);
    assert_int_equal(mica_scope_open(own, &recording), MICA_OK);
    mica_array w = data(recording, (float[]){10, 20}, 2);
    mica_array x = data(recording, (float[]){1, 1}, 2); /* a value may stand for a parameter */
    mica_array y = mica_add(recording, mica_multiply(recording, x, w), mica_f32(recording, 0.5f));
    assert_int_equal(
        mica_program_build(recording, &(mica_param){.array = x}, 1, &y, 1, NULL, &program),
        MICA_OK);
    mica_scope_close(&recording);
    assert_int_equal(mica_scope_open(own, &out), MICA_OK);
    mica_device_close(&own);
    for (int i = 1; i < 4; i++) {
        mica_array arg = data(out, (float[]){(float)i, 2}, 2);
        assert_int_equal(mica_program_run(program, out, &arg, &y), MICA_OK);
        expect(y, (float[]){10 * (float)i + 0.5f, 40.5f}, 2);
    }
    mica_scope_close(&out);
    mica_program_close(&program);
}

static void test_results_may_be_params_and_values(void **state) {
    (void)state;
    mica_array x = mica_program_param(s, MICA_F32, (int64_t[]){2, 2}, 2);
    mica_array k = mica_program_param(s, MICA_F32, NULL, 0), w = data(s, (float[]){7, 8}, 2);
    const mica_array results[] = {x, mica_transpose(s, x, NULL), k, w, w};
    const mica_param params[] = {{.array = x}, {.array = k}};
    mica_program *program;
    assert_int_equal(mica_program_build(s, params, 2, results, 5, NULL, &program), MICA_OK);
    const float values[] = {1, 2, 3, 4};
    mica_array out[5];
    const mica_array args[] = {mica_from_data(into, values, MICA_F32, (int64_t[]){2, 2}, 2),
                               mica_sum(into, data(into, values, 4), NULL, 0, false)};
    if (mica_program_run(program, into, args, out) != MICA_OK) fail_msg("%s", mica_last_error());
    expect(out[0], values, 4);
    expect(out[1], (float[]){1, 3, 2, 4}, 4);
    expect(out[2], (float[]){10}, 1);
    expect(out[3], (float[]){7, 8}, 2);
    expect(out[4], (float[]){7, 8}, 2);
    mica_program_close(&program);
}

/* Strides that are other than the parameter's are laid out anew; numbers come as they like. */
static void test_arguments_of_any_strides(void **state) {
    (void)state;
    mica_array x = mica_program_param(s, MICA_F32, (int64_t[]){2, 3}, 2),
               y = mica_cumsum(s, x, 1, false, true);
    mica_program *program;
    assert_int_equal(mica_program_build(s, &(mica_param){.array = x}, 1, &y, 1, NULL, &program),
                     MICA_OK);
    mica_array arg = mica_transpose(
        into, mica_from_data(into, (float[]){1, 2, 3, 4, 5, 6}, MICA_F32, (int64_t[]){3, 2}, 2),
        NULL);
    assert_int_equal(mica_program_run(program, into, &arg, &y), MICA_OK);
    expect(y, (float[]){1, 4, 9, 2, 6, 12}, 6);
    arg = mica_broadcast_to(into, mica_f32(into, 2), (int64_t[]){2, 3}, 2);
    assert_int_equal(mica_program_run(program, into, &arg, &y), MICA_OK);
    expect(y, (float[]){2, 4, 6, 2, 4, 6}, 6);
    mica_program_close(&program);
}

/* A value in the place of a parameter may lie as it likes: arguments are laid out all the same. */
static void test_parameters_of_any_strides(void **state) {
    (void)state;
    const float values[] = {1, 2, 3, 4, 5, 6};
    mica_array x =
        mica_transpose(s, mica_from_data(s, values, MICA_F32, (int64_t[]){3, 2}, 2), NULL);
    assert_int_equal(mica_eval(s, x), MICA_OK);
    mica_array y = mica_cumsum(s, x, 1, false, true);
    mica_program *program;
    assert_int_equal(mica_program_build(s, &(mica_param){.array = x}, 1, &y, 1, NULL, &program),
                     MICA_OK);
    mica_array out, args[] = {x, mica_from_data(into, values, MICA_F32, (int64_t[]){2, 3}, 2)};
    for (int i = 0; i < 2; i++) {
        if (mica_program_run(program, into, &args[i], &out) != MICA_OK)
            fail_msg("%s", mica_last_error());
        expect(out, i ? (float[]){1, 3, 6, 4, 9, 15} : (float[]){1, 4, 9, 2, 6, 12}, 6);
    }
    mica_program_close(&program);
}

static void test_a_program_without_parameters_or_results(void **state) {
    (void)state;
    mica_array y = mica_square(s, zeros(s)), out;
    mica_program *program;
    assert_int_equal(mica_program_build(s, NULL, 0, NULL, 0, NULL, &program), MICA_OK);
    assert_int_equal(mica_program_run(program, into, NULL, NULL), MICA_OK);
    mica_program_close(&program);
    assert_int_equal(mica_program_build(s, NULL, 0, &y, 1, NULL, &program), MICA_OK);
    assert_int_equal(mica_program_run(program, into, NULL, &out), MICA_OK);
    expect(out, (float[N]){0}, N);
    mica_program_close(&program);
}

/* a - b */
static mica_program *build_difference(bool donate) {
    const int64_t n = N;
    mica_array a = mica_program_param(s, MICA_F32, &n, 1),
               b = mica_program_param(s, MICA_F32, &n, 1);
    mica_array difference = mica_subtract(s, a, b);
    const mica_param params[] = {{"a", a, donate}, {"b", b, false}};
    mica_program *program;
    assert_int_equal(mica_program_build(s, params, 2, &difference, 1, NULL, &program), MICA_OK);
    return program;
}

/* Evaluating an argument writes over no other, even if that was moved in. */
static void test_arguments_that_are_not_evaluated_yet(void **state) {
    (void)state;
    mica_program *program = build_difference(false);
    mica_array x = mica_move(into, data(into, (float[]){1, 2, 3, 4, 5, 6, 7, 8}, N));
    mica_array out, args[] = {x, mica_negative(into, x)};
    for (int i = 0; i < 2; i++) {
        if (mica_program_run(program, into, args, &out) != MICA_OK)
            fail_msg("%s", mica_last_error());
        expect(out, (float[]){2, 4, 6, 8, 10, 12, 14, 16}, N);
    }
    mica_program_close(&program);
}

/* What still reads an argument, or writes over it, ends before a program runs over it. */
static void test_what_runs_in_the_background_ends_first(void **state) {
    (void)state;
    mica_program *program = build_difference(true);
    mica_scope *other;
    assert_int_equal(mica_scope_open(device, &other), MICA_OK);
    mica_array x = data(other, (float[]){1, 2, 3, 4, 5, 6, 7, 8}, N), y = mica_square(other, x);
    assert_int_equal(mica_eval_async(other, &y, 1), MICA_OK);
    mica_array out, args[] = {x, zeros(into)};
    assert_int_equal(mica_program_run(program, into, args, &out), MICA_OK);
    assert_null(mc_scope_run(other));
    expect(y, (float[]){1, 4, 9, 16, 25, 36, 49, 64}, N);
    x = mica_move(other, zeros(other));
    y = mica_add(other, x, mica_f32(other, 1));
    assert_int_equal(mica_eval_async(other, &y, 1), MICA_OK);
    args[0] = out;
    args[1] = x;
    expect_refused(mica_program_run(program, into, args, &out), MICA_EINVAL, "overwritten");
    expect(y, (float[]){1, 1, 1, 1, 1, 1, 1, 1}, N);
    mica_scope_close(&other);
    mica_program_close(&program);
}

/* ---- errors ---- */

static void test_an_error_of_a_run(void **state) {
    (void)state;
    mica_program *program = build_step();
    mica_array cache = zeros(into), before = cache, sum;
    expect_refused(run_step(program, &cache, N, 9, &sum), MICA_EINVAL, "slice_update_at");
    assert_false(mica_valid(cache) || mica_valid(sum));
    assert_null(mc_data(before)); /* donated: gone */
    assert_int_equal(mica_scope_status(into), MICA_OK);
    cache = zeros(into);
    assert_int_equal(run_step(program, &cache, 1, 2, &sum), MICA_OK);
    expect(sum, (float[]){4}, 1);
    mica_program_close(&program);
}

static void test_refused_programs(void **state) {
    (void)state;
    const int64_t n = N;
    mica_program *program;
    mica_array x = mica_program_param(s, MICA_F32, &n, 1), y = mica_square(s, x), z = zeros(into);
    const mica_param twice[] = {{.array = x}, {.array = x}}, computed = {.array = y};
    const mica_param foreign = {.array = z}, none = {.array = MICA_NONE};
    expect_refused(mica_program_build(s, twice, 2, &y, 1, NULL, &program), MICA_EINVAL, "twice");
    expect_refused(mica_program_build(s, &computed, 1, &y, 1, NULL, &program), MICA_EINVAL,
                   "computed");
    expect_refused(mica_program_build(s, &foreign, 1, &y, 1, NULL, &program), MICA_EINVAL, "scope");
    expect_refused(mica_program_build(s, &none, 1, &y, 1, NULL, &program), MICA_EINVAL,
                   "parameter 0");
    expect_refused(mica_program_build(s, NULL, 0, &y, 1, NULL, &program), MICA_EINVAL, "not among");
    expect_refused(mica_program_build(s, twice, 1, &z, 1, NULL, &program), MICA_EINVAL, "result 0");
    expect_refused(mica_program_build(NULL, NULL, 0, NULL, 0, NULL, &program), MICA_EINVAL, "NULL");
    assert_null(program);
    expect_refused(mica_eval(s, y), MICA_EINVAL, "parameter");
    expect_refused(mica_eval(s, x), MICA_EINVAL, "parameter");
    float got[N];
    expect_refused(mica_read(y, got, sizeof got), MICA_EINVAL, "parameter");
    mica_scope *other;
    assert_int_equal(mica_scope_open(device, &other), MICA_OK);
    assert_false(mica_valid(mica_square(other, x)));
    expect_refused(mica_scope_status(other), MICA_EINVAL, "parameter");
    mica_scope_close(&other);
}

static void test_refused_arguments(void **state) {
    (void)state;
    mica_program *program = build_step();
    mica_array results[2], cache = zeros(into), at = mica_i32(into, 0),
                           value = data(into, (float[]){1}, 1);
    mica_array bad = data(into, (float[]){1, 2}, 2);
    mica_array args[] = {bad, at, value};
    expect_refused(mica_program_run(program, into, args, results), MICA_ESHAPE, "cache");
    args[0] = cache;
    args[1] = mica_f32(into, 1);
    expect_refused(mica_program_run(program, into, args, results), MICA_EDTYPE, "at");
    args[1] = MICA_NONE;
    expect_refused(mica_program_run(program, into, args, results), MICA_EINVAL, "at");
    args[1] = at;
    args[0] = mica_program_param(s, MICA_F32, (int64_t[]){N}, 1);
    expect_refused(mica_program_run(program, into, args, results), MICA_EINVAL, "parameter");
    expect_refused(mica_program_run(NULL, into, args, results), MICA_EINVAL, "NULL");
    expect_refused(mica_program_run(program, NULL, args, results), MICA_EINVAL, "NULL");
    args[0] = cache; /* nothing was lost */
    assert_int_equal(mica_program_run(program, into, args, results), MICA_OK);
    expect_refused(mica_program_run(program, into, args, results), MICA_EINVAL, "moved away");
    /* two donated parameters, one array */
    const int64_t n = N;
    mica_array a = mica_program_param(s, MICA_F32, &n, 1),
               b = mica_program_param(s, MICA_F32, &n, 1);
    const mica_param params[] = {{"a", a, true}, {"b", b, true}};
    mica_array sum = mica_add(s, a, b);
    mica_program *both;
    assert_int_equal(mica_program_build(s, params, 2, &sum, 1, NULL, &both), MICA_OK);
    cache = zeros(into);
    expect_refused(mica_program_run(both, into, (mica_array[]){cache, cache}, results), MICA_EINVAL,
                   "twice");
    mica_device *foreign;
    mica_scope *there;
    assert_int_equal(test_device_open(NULL, &foreign), MICA_OK);
    assert_int_equal(mica_scope_open(foreign, &there), MICA_OK);
    const mica_array theirs[] = {zeros(there), cache};
    expect_refused(mica_program_run(both, into, theirs, results), MICA_EINVAL, "another device");
    expect_refused(mica_program_run(both, there, theirs, results), MICA_EINVAL, "another device");
    mica_array moved[] = {mica_to_device(into, theirs[0]), cache};
    assert_int_equal(mica_program_run(both, into, moved, results), MICA_OK);
    mica_scope_close(&there);
    mica_device_close(&foreign);
    mica_program_close(&both);
    mica_program_close(&program);
}

static bool build_and_run(void *arg) {
    (void)arg;
    const int64_t n = N;
    mica_scope *a = NULL, *b = NULL;
    mica_program *program = NULL;
    bool ok = mica_scope_open(device, &a) == MICA_OK && mica_scope_open(device, &b) == MICA_OK;
    if (ok) {
        mica_array x = mica_program_param(a, MICA_F32, &n, 1), w = zeros(a);
        mica_array y = mica_softmax(a, mica_add(a, x, w), -1), results[2];
        const mica_array both[] = {y, mica_square(a, y)};
        char *text = NULL;
        ok =
            mica_program_build(a, &(mica_param){.array = x}, 1, both, 2, NULL, &program) == MICA_OK;
        for (int i = 0; ok && i < 2; i++) {
            mica_array arg0 = zeros(b), flipped = mica_flip(b, arg0, 0);
            ok = mica_eval(b, flipped) == MICA_OK;
            if (ok && mica_program_run(program, b, &flipped, results) != MICA_OK) {
                assert_int_equal(mica_scope_status(b), MICA_OK);
                assert_false(mica_valid(results[0]) || mica_valid(results[1]));
                ok = false;
            }
            ok = ok && mica_scope_collect(b, results, 2) == MICA_OK;
        }
        ok = ok && mica_program_print(program, &text) == MICA_OK;
        mica_free(text);
    }
    mica_program_close(&program);
    mica_scope_close(&a);
    mica_scope_close(&b);
    assert_int_equal(mica_device_active_bytes(device), 0);
    test_forget_plans(device);
    return ok;
}

static void test_every_failing_allocation_is_a_status(void **state) {
    (void)state;
    assert_true(test_fail_each_allocation(build_and_run, NULL) > 20);
}

/* ---- threads ---- */

typedef struct runner {
    pthread_t thread;
    const mica_program *program;
    mica_array weight;
    int number, wrong;
} runner;

static void *run_often(void *context) {
    runner *r = context;
    mica_scope *own = NULL;
    if (mica_scope_open(device, &own) != MICA_OK) r->wrong++;
    for (int i = 0; i < 200 && !r->wrong; i++) {
        float got[N], k = (float)(r->number * 1000 + i);
        const mica_array args[] = {r->weight, mica_f32(own, k)};
        mica_array y;
        if (mica_program_run(r->program, own, args, &y) != MICA_OK ||
            mica_read(y, got, sizeof got) != MICA_OK)
            r->wrong++;
        for (int j = 0; j < N && !r->wrong; j++)
            r->wrong += !(got[j] >= (float)j * k && got[j] <= (float)j * k);
        mc_scope_reset(own);
    }
    mica_scope_close(&own);
    return NULL;
}

static void test_eight_threads_run_one_program(void **state) {
    (void)state;
    const int64_t n = N;
    mica_array x = mica_program_param(s, MICA_F32, &n, 1),
               k = mica_program_param(s, MICA_F32, NULL, 0);
    mica_array y = mica_multiply(s, x, k);
    const mica_param params[] = {{.array = x}, {.array = k}};
    mica_program *program;
    runner runners[THREADS] = {0};
    assert_int_equal(mica_program_build(s, params, 2, &y, 1, NULL, &program), MICA_OK);
    mica_array weight = data(into, (float[]){0, 1, 2, 3, 4, 5, 6, 7}, N);
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (runner){.program = program, .weight = weight, .number = i};
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run_often, &runners[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(runners[i].thread, NULL), 0);
        assert_int_equal(runners[i].wrong, 0);
    }
    mica_program_close(&program);
}

/* ---- scopes that go on ---- */

/* Runs of a program in one scope, and now and then evaluations: no nodes, storages or other memory
 * pile up. */
static void test_a_scope_lives_for_many_runs(void **state) {
    (void)state;
    mica_program *program = build_step();
    mica_array cache = zeros(into), sum;
    uint64_t active = 0;
    const bool other = test_device_is_other(); /* it takes its time, and threads keep some memory */
    enum { SETTLED = 100 };                    /* what is kept is there by then */
    const long wanted = other ? runs / 20 : runs, n = wanted > 2 * SETTLED ? wanted : 2 * SETTLED;
    size_t heap = 0, slack = other ? (size_t)64 << 10 : 0;
    for (long i = 0; i < n; i++) {
        assert_int_equal(run_step(program, &cache, (int32_t)(i % N), (float)i, &sum), MICA_OK);
        if (i % 8 == 0) {
            cache = mica_add(into, cache, mica_f32(into, 1));
            assert_int_equal(mica_eval(into, cache), MICA_OK);
        }
        assert_int_equal(mica_scope_collect(into, &cache, 1), MICA_OK);
        if (i == SETTLED) {
            active = mica_device_active_bytes(device);
            heap = test_heap_bytes();
        }
        if (i > SETTLED) assert_int_equal(mica_device_active_bytes(device), active);
        assert_int_equal(mc_scope_count(into), 1);
    }
    assert_true(test_heap_bytes() <= heap + slack);
    assert_int_equal(mc_graph_verify(into), MICA_OK);
    mica_program_close(&program);
}

static void test_collecting_keeps_what_lives(void **state) {
    (void)state;
    mica_array a = data(into, (float[]){1, 2}, 2), dead = mica_square(into, a);
    mica_array b = mica_negative(into, dead), k = mica_f32(into, 5), half[] = {b, k, a, b};
    assert_int_equal(mica_scope_collect(into, half, 4), MICA_OK); /* pending ones are evaluated */
    assert_int_equal(mc_scope_count(into), 3);
    assert_int_equal(half[0].node, half[3].node);
    expect(half[0], (float[]){-1, -4}, 2);
    expect(half[1], (float[]){5}, 1);
    expect(mica_add(into, half[2], half[1]), (float[]){6, 7}, 2);
    assert_int_equal(mc_graph_verify(into), MICA_OK);
    assert_int_equal(mica_scope_collect(into, NULL, 0), MICA_OK);
    assert_int_equal(mc_scope_count(into), 0);
    mica_array foreign = data(s, (float[]){1}, 1);
    assert_int_equal(mica_scope_collect(into, &foreign, 1), MICA_EINVAL);
    assert_int_equal(mica_scope_collect(NULL, NULL, 0), MICA_EINVAL);
}

/* An array of another scope is one leaf, however often it is an operand; another array in its place
 * is another leaf. */
static void test_one_leaf_for_one_import(void **state) {
    (void)state;
    mica_array w = data(into, (float[]){1, 2}, 2), k = mica_f32(into, 3);
    mica_array x = mica_add(s, w, w), y = mica_multiply(s, mica_multiply(s, x, w), k);
    y = mica_add(s, y, k);
    assert_int_equal(mc_scope_count(s), 8); /* w, k, four ops, and k broadcast twice */
    expect(y, (float[]){9, 27}, 2);
    mc_scope_reset(into);
    w = data(into, (float[]){5, 6}, 2);
    expect(mica_add(s, w, w), (float[]){10, 12}, 2);
    for (int i = 0; i < 300; i++) /* the table grows */
        assert_true(mica_valid(mica_add(s, w, mica_i32(into, i))));
    uint32_t count = mc_scope_count(s);
    assert_true(mica_valid(mica_abs(s, w)));
    assert_int_equal(mc_scope_count(s), count + 1);
}

static void test_ports_and_text(void **state) {
    (void)state;
    mica_program *program = build_step();
    mica_port port = {.struct_bytes = sizeof port};
    char *text;
    assert_int_equal(mica_program_param_count(program), 3);
    assert_int_equal(mica_program_result_count(program), 2);
    assert_int_equal(mica_program_get_param(program, 0, &port), MICA_OK);
    assert_string_equal(port.name, "cache");
    assert_true(port.donate && port.dtype == MICA_F32 && port.ndim == 1 && port.shape[0] == N);
    assert_int_equal(mica_program_get_result(program, 1, &port), MICA_OK);
    assert_true(port.ndim == 0 && !port.donate);
    assert_string_equal(port.name, "1");
    expect_refused(mica_program_get_param(program, 3, &port), MICA_EINVAL, "3");
    expect_refused(mica_program_get_result(program, 2, &port), MICA_EINVAL, "2");
    assert_int_equal(mica_program_print(program, &text), MICA_OK);
    assert_non_null(strstr(text, "slice_update_at f32[8]"));
    mica_free(text);
    assert_int_equal(mica_program_param_count(NULL), 0);
    mica_program_close(&program);
}

/* abs(x + 1), or its negative, of three elements. */
static mica_program *absolute(bool negative) {
    mica_scope *own;
    mica_program *program;
    assert_int_equal(mica_scope_open(device, &own), MICA_OK);
    mica_array x = mica_program_param(own, MICA_F32, (const int64_t[]){3}, 1);
    mica_array y = mica_add(own, x, mica_f32(own, 1));
    y = negative ? mica_negative(own, y) : mica_abs(own, y);
    const mica_param param = {.name = "x", .array = x};
    assert_int_equal(mica_program_build(own, &param, 1, &y, 1, NULL, &program), MICA_OK);
    mica_scope_close(&own);
    return program;
}

static bool compare_texts(void *arg) {
    mica_program *const *programs = arg;
    char *text;
    if (mica_program_diff(programs[0], programs[1], &text) != MICA_OK) {
        assert_null(text);
        return false;
    }
    mica_free(text);
    return true;
}

static void test_differences(void **state) {
    (void)state;
    mica_program *programs[2] = {absolute(false), absolute(true)};
    char *text;
    assert_int_equal(mica_program_diff(programs[0], programs[0], &text), MICA_OK);
    assert_string_equal(text, "");
    mica_free(text);
    assert_int_equal(mica_program_diff(programs[0], programs[1], &text), MICA_OK);
    assert_true(strncmp(text, "- ", 2) == 0 && strstr(text, " = abs f32[3] %") != NULL);
    const char *plus = strchr(text, '\n'); /* one line each */
    assert_true(strncmp(plus, "\n+ ", 3) == 0 && strstr(plus, " = negative f32[3] %") != NULL);
    assert_true(strchr(plus + 1, '\n')[1] == '\0');
    mica_free(text);
    expect_refused(mica_program_diff(programs[0], NULL, &text), MICA_EINVAL, "program_diff");
    if (!test_device_is_other()) test_fail_each_allocation(compare_texts, programs);
    mica_program_close(&programs[0]);
    mica_program_close(&programs[1]);
}

static void test_where_the_host_reads(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* it need not be able to */
    const void *at;
    mica_array x = data(into, (float[]){1, 2, 3, 4}, 4), y = mica_square(into, x);
    assert_int_equal(mica_array_host(y, &at), MICA_OK); /* evaluates */
    assert_true(((const float *)at)[3] == 16);
    expect_refused(mica_array_host(mica_flip(into, x, 0), &at), MICA_EINVAL, "row-major");
    assert_null(at);
    mica_array empty = mica_from_data(into, NULL, MICA_F32, (int64_t[]){2, 0}, 2);
    assert_int_equal(mica_array_host(empty, &at), MICA_OK);
    assert_null(at);
    expect_refused(mica_array_host(MICA_NONE, &at), MICA_EINVAL, "array_host");
    expect_refused(mica_array_host(x, NULL), MICA_EINVAL, "NULL");
}

#define IN_SCOPES(name) cmocka_unit_test_setup_teardown(name, open_scopes, close_scopes)

/* test_exec_program [RUNS] */
int main(int argc, char **argv) {
    if (argc > 1) runs = atol(argv[1]);
    if (!test_device_keeps_order() && runs > 200000) runs = 200000; /* MLX takes its time */
    const struct CMUnitTest tests[] = {
        IN_SCOPES(test_steps_write_in_place_and_allocate_nothing),
        IN_SCOPES(test_what_others_hold_stays),
        IN_SCOPES(test_what_shares_a_donated_arguments_memory_stays),
        IN_SCOPES(test_a_program_outlives_its_scope_and_device_handle),
        IN_SCOPES(test_results_may_be_params_and_values),
        IN_SCOPES(test_arguments_of_any_strides),
        IN_SCOPES(test_parameters_of_any_strides),
        IN_SCOPES(test_a_program_without_parameters_or_results),
        IN_SCOPES(test_arguments_that_are_not_evaluated_yet),
        IN_SCOPES(test_what_runs_in_the_background_ends_first),
        IN_SCOPES(test_launches_before_earlier_ones_are_over),
        IN_SCOPES(test_numbers_of_launches),
        IN_SCOPES(test_an_error_of_a_launch),
        IN_SCOPES(test_an_error_of_a_run),
        IN_SCOPES(test_refused_programs),
        IN_SCOPES(test_refused_arguments),
        IN_SCOPES(test_every_failing_allocation_is_a_status),
        IN_SCOPES(test_eight_threads_run_one_program),
        IN_SCOPES(test_a_scope_lives_for_many_runs),
        IN_SCOPES(test_collecting_keeps_what_lives),
        IN_SCOPES(test_one_leaf_for_one_import),
        IN_SCOPES(test_ports_and_text),
        IN_SCOPES(test_differences),
        IN_SCOPES(test_where_the_host_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
