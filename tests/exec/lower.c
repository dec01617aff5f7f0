/* Lowering, on a device that says it has no kernel for some ops: the decompositions run instead. */
#include "exec/lower.h"

#include "device/device.h"
#include "exec/cache.h"
#include "support/support.h"

#include <mica/control.h>
#include <mica/executable.h>
#include <mica/ops.h>
#include <mica/program.h>

#include <math.h>
#include <pthread.h>
#include <string.h>

static mica_device *device;
static mc_backend poor; /* the cpu's, without some kernels */

static mc_support supports_some(const void *state, mc_op op, const void *attr,
                                const mc_layout *const *in, int n_in, const mc_layout *out,
                                int n_out) {
    static const mc_op missing[] = {MC_OP_SDPA,     MC_OP_SOFTMAX, MC_OP_LOGSUMEXP,
                                    MC_OP_RMS_NORM, MC_OP_SILU,    MC_OP_SORT};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        if (op == missing[i]) return (mc_support){.yes = false};
    return mc_backend_cpu.supports(state, op, attr, in, n_in, out, n_out);
}

static int open_device(void **state) {
    (void)state;
    poor = mc_backend_cpu;
    poor.complete = false;
    poor.supports = supports_some;
    return (int)mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device);
}

static int close_device(void **state) {
    (void)state;
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
    return 0;
}

static mica_array values(mica_scope *s, int64_t rows, int64_t columns) {
    float x[64];
    for (int64_t i = 0; i < rows * columns; i++)
        x[i] = (float)((i * 7) % 11) / 4.0f - 1.0f;
    return mica_from_data(s, x, MICA_F32, (int64_t[]){1, 1, rows, columns}, 4);
}

/* Attention and norms of moved, transposed and shared operands. */
static bool run_program(float *out, size_t bytes) {
    mica_scope *s = NULL, *outer = NULL;
    bool ok = mica_scope_open(device, &s) == MICA_OK && mica_scope_open(device, &outer) == MICA_OK;
    if (ok) {
        mica_array x = mica_move(s, values(outer, 4, 8));
        mica_array k = mica_swapaxes(s, values(s, 8, 4), 2, 3);
        mica_array h = mica_rms_norm(s, x, MICA_NONE, 1e-5f);
        mica_array y = mica_sdpa(s, h, k, mica_silu(s, k), &(mica_sdpa_options){.causal = true});
        mica_array z = mica_add(s, x, mica_softmax(s, y, -1));
        mica_array xs[] = {z, h, x};
        ok = mica_eval_n(s, xs, 3) == MICA_OK && mica_read(z, out, bytes) == MICA_OK;
    }
    mica_scope_close(&s);
    mica_scope_close(&outer);
    return ok;
}

static void test_decompositions_run_where_kernels_are_missing(void **state) {
    (void)state;
    float want[32], got[32];
    assert_true(run_program(want, sizeof want));
    mica_device_close(&device);
    assert_int_equal(open_device(NULL), 0);
    device->backend = &poor;
    if (!run_program(got, sizeof got)) fail_msg("%s", mica_last_error());
    for (int i = 0; i < 32; i++)
        assert_float_equal(got[i], want[i], 1e-5);
}

/* sort has no decomposition either: the fallback device runs it, between what this one runs. */
static bool sort_squares(float *out, size_t bytes) {
    mica_scope *s = NULL;
    bool ok = mica_scope_open(device, &s) == MICA_OK;
    if (ok) {
        mica_array x = mica_square(s, values(s, 4, 8));
        mica_array y = mica_sort(s, mica_swapaxes(s, x, 2, 3), -1);
        mica_array z = mica_add(s, mica_flip(s, y, 3), mica_swapaxes(s, x, 2, 3));
        ok = mica_read(z, out, bytes) == MICA_OK;
    }
    mica_scope_close(&s);
    return ok;
}

static void test_an_op_with_neither_falls_back(void **state) {
    (void)state;
    float want[32], got[32];
    assert_true(sort_squares(want, sizeof want));
    mica_device_close(&device);
    assert_int_equal(open_device(NULL), 0);
    device->backend = &poor;
    if (!sort_squares(got, sizeof got)) fail_msg("%s", mica_last_error());
    assert_memory_equal(got, want, sizeof want);
}

static mc_support supports_nothing(const void *state, mc_op op, const void *attr,
                                   const mc_layout *const *in, int n_in, const mc_layout *out,
                                   int n_out) {
    (void)state, (void)op, (void)attr, (void)in, (void)n_in, (void)out, (void)n_out;
    return (mc_support){.yes = false};
}

static void test_a_device_that_supports_nothing_runs_all(void **state) {
    (void)state;
    float want[32], got[32];
    assert_true(run_program(want, sizeof want));
    mica_device_close(&device);
    assert_int_equal(open_device(NULL), 0);
    poor.supports = supports_nothing;
    device->backend = &poor;
    if (!run_program(got, sizeof got)) fail_msg("%s", mica_last_error());
    for (int i = 0; i < 32; i++)
        assert_float_equal(got[i], want[i], 1e-5);
}

static int copies;

static mc_support supports_dense(const void *state, mc_op op, const void *attr,
                                 const mc_layout *const *in, int n_in, const mc_layout *out,
                                 int n_out) {
    mc_support support = mc_backend_cpu.supports(state, op, attr, in, n_in, out, n_out);
    if (op == MC_OP_CONTIGUOUS) copies++;
    if (op == MC_OP_CONCATENATE) support.dense = UINT32_MAX;
    return support;
}

/* Any number of operands can be asked for as dense copies; those that are dense are not copied. */
static void test_many_operands_are_made_dense(void **state) {
    (void)state;
    enum { PARTS = 40 };
    mica_array parts[PARTS];
    mica_scope *s;
    float got[PARTS * 6];
    poor.supports = supports_dense;
    device->backend = &poor;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    for (int i = 0; i < PARTS; i++) {
        parts[i] = values(s, 2, 3);
        if (i != 1 && i != PARTS - 1) parts[i] = mica_flip(s, parts[i], 3);
    }
    copies = 0;
    if (mica_read(mica_concatenate(s, parts, PARTS, 2), got, sizeof got) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_int_equal(copies, PARTS - 2);
    assert_true(got[0] == got[8] && got[6 * PARTS - 6] == got[6]);
    mica_scope_close(&s);
}

/* sort(x * x), which takes x's memory where it may, and x is donated. */
static mica_program *build_sort(int64_t n) {
    mica_scope *s;
    mica_program *program;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array x = mica_program_param(s, MICA_F32, &n, 1);
    mica_array y = mica_sort(s, mica_square(s, x), 0);
    const mica_param param = {.array = x, .donate = true};
    if (mica_program_build(s, &param, 1, &y, 1, NULL, &program) != MICA_OK)
        fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
    return program;
}

/* Whether the program sorts -n + i, i = 0 .. n - 1; the results stay in s. */
static bool sorts(const mica_program *program, mica_scope *s, int n) {
    float values[32];
    const int64_t length = n;
    for (int i = 0; i < n; i++)
        values[i] = (float)(i - n);
    mica_array x = mica_from_data(s, values, MICA_F32, &length, 1), y;
    if (mica_program_run(program, s, &x, &y) != MICA_OK ||
        mica_read(y, values, (size_t)n * sizeof *values) != MICA_OK)
        return false;
    for (int i = 0; i < n; i++)
        if (fabsf(values[i] - (float)((i + 1) * (i + 1))) > 0) return false;
    return true;
}

/* A program, its results and its device: whatever is closed first, the fallback device stays until
 * nothing needs it. */
static void test_what_falls_back_closes_in_any_order(void **state) {
    (void)state;
    device->backend = &poor;
    for (int order = 0; order < 6; order++) {
        mica_scope *s;
        mica_program *program = build_sort(8);
        assert_int_equal(mica_scope_open(device, &s), MICA_OK);
        assert_true(sorts(program, s, 8) && sorts(program, s, 8));
        if (order % 3 == 0) mica_device_close(&device);
        if (order < 3) mica_program_close(&program);
        if (order % 3 == 1) mica_device_close(&device);
        mica_scope_close(&s);
        mica_program_close(&program);
        mica_device_close(&device);
        assert_int_equal(open_device(NULL), 0);
        device->backend = &poor;
    }
}

/* Two sorts, one of them in the body of a scan that a branch of an if has, and what decomposes. */
static mica_status sort_row(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                            mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = args[0];
    results[1] = mica_sort(s, args[1], -1);
    return MICA_OK;
}

static mica_status scan_rows(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    mica_array carried = mica_sum(s, args[0], NULL, 0, false);
    return mica_scan(s, sort_row, NULL, &carried, 1, args, 1, NULL, &carried, results, 1);
}

static mica_status as_they_are(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = mica_square(s, args[0]);
    return MICA_OK;
}

static void test_all_that_is_missing_is_named(void **state) {
    (void)state;
    mica_scope *s;
    mica_program *program;
    mica_executable *x;
    device->backend = &poor;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array a = mica_program_param(s, MICA_F32, (int64_t[]){4, 8}, 2), y;
    const mica_param param = {.name = "a", .array = a};
    mica_array pred = mica_any(s, mica_sort(s, mica_softmax(s, a, -1), 0), NULL, 0, false);
    assert_int_equal(mica_if(s, pred, scan_rows, as_they_are, NULL, &a, 1, &y, 1), MICA_OK);
    assert_int_equal(mica_program_build(s, &param, 1, &y, 1, NULL, &program), MICA_OK);
    char *graph;
    assert_int_equal(mica_program_print(program, &graph), MICA_OK);
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++) {
        const mica_executable_options o = {.mode = mode, .no_fallback = 1};
        assert_int_equal(mica_executable_open(program, &o, &x), MICA_EUNSUPPORTED);
        const char *text = mica_last_error();
        assert_non_null(strstr(graph, "%3 = sort ") && strstr(graph, "%7 = if ") ? graph : NULL);
        if (!strstr(text, "for 2 ops: sort %3, sort %2 in scan %3 in if %7")) fail_msg("%s", text);
        assert_null(x);
    }
    mica_free(graph);
    assert_int_equal(mica_executable_open(program, NULL, &x), MICA_OK);
    mica_executable_close(&x);
    device->backend = &mc_backend_cpu;
    assert_int_equal(
        mica_executable_open(program, &(mica_executable_options){.no_fallback = 1}, &x), MICA_OK);
    mica_executable_close(&x);
    mica_program_close(&program);
    mica_scope_close(&s);
}

static mc_support supports_no_bf16_sort(const void *state, mc_op op, const void *attr,
                                        const mc_layout *const *in, int n_in, const mc_layout *out,
                                        int n_out) {
    if (op == MC_OP_SORT && in[0]->dtype == MICA_BF16) return (mc_support){.yes = false};
    return mc_backend_cpu.supports(state, op, attr, in, n_in, out, n_out);
}

/* What is looked at is what is computed: in the dtypes of the precision. */
static void test_what_is_missing_in_a_precision(void **state) {
    (void)state;
    poor.supports = supports_no_bf16_sort;
    device->backend = &poor;
    for (int small = 0; small < 2; small++) {
        mica_scope *s;
        mica_program *program;
        mica_executable *x;
        assert_int_equal(mica_scope_open(device, &s), MICA_OK);
        mica_dtype dtype = small ? MICA_BF16 : MICA_F32;
        mica_array a = mica_program_param(s, dtype, (int64_t[]){4}, 1), y = mica_sort(s, a, 0);
        const mica_param param = {.name = "a", .array = a};
        const mica_op_precision other = {"sort", small ? MICA_F32 : MICA_BF16};
        assert_int_equal(mica_program_build(s, &param, 1, &y, 1, NULL, &program), MICA_OK);
        const mica_executable_options o = {.struct_bytes = sizeof o,
                                           .no_fallback = 1,
                                           .op_precisions = &other,
                                           .n_op_precisions = 1};
        assert_int_equal(mica_executable_open(program, &o, &x), MICA_OK);
        assert_int_equal(mica_executable_fill(x, "a", 1), MICA_OK);
        mica_status status = mica_executable_run(x, NULL, 0, s, &y);
        assert_int_equal(status, small ? MICA_OK : MICA_EUNSUPPORTED);
        if (!small) assert_non_null(strstr(mica_last_error(), "for 1 ops: sort"));
        mica_executable_close(&x);
        mica_program_close(&program);
        mica_scope_close(&s);
    }
}

enum { THREADS = 4, ROUNDS = 60 };

typedef struct runner {
    pthread_t thread;
    const mica_program *shared; /* for 8 elements */
    int number, wrong;
} runner;

static void *run_and_compile(void *context) {
    runner *r = context;
    mc_graph_cache *cache = mc_graph_cache_of(device);
    for (int i = 0; i < ROUNDS && !r->wrong; i++) {
        int n = 1 + (i * 7 + r->number) % 23;
        mica_scope *s;
        mica_program *own = build_sort(n);
        if (mica_scope_open(device, &s) != MICA_OK) return NULL;
        r->wrong += !sorts(r->shared, s, 8) || !sorts(own, s, n);
        if (i % 5 == r->number) mc_graph_cache_clear(cache);
        mc_graph_cache_set_limit(cache, i % 2 ? 1 : 1 << 20);
        r->wrong += !sorts(own, s, n);
        mica_program_close(&own);
        mica_scope_close(&s);
    }
    return NULL;
}

/* Others compile, and the cache forgets what runs; all ask for the fallback device at first. */
static void test_many_threads_run_compile_and_forget(void **state) {
    (void)state;
    runner runners[THREADS];
    device->backend = &poor;
    mica_program *shared = build_sort(8);
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (runner){.shared = shared, .number = i};
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run_and_compile, &runners[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(runners[i].thread, NULL), 0);
        assert_int_equal(runners[i].wrong, 0);
    }
    mica_program_close(&shared);
}

static bool names_what_is_missing(void) {
    mica_scope *s = NULL;
    mica_program *program = NULL;
    mica_executable *x;
    const mica_executable_options o = {.no_fallback = 1};
    bool ok = mica_scope_open(device, &s) == MICA_OK;
    if (ok) {
        mica_array a = mica_program_param(s, MICA_F32, (int64_t[]){8}, 1), y = mica_sort(s, a, 0);
        const mica_param param = {.name = "a", .array = a};
        ok = mica_program_build(s, &param, 1, &y, 1, NULL, &program) == MICA_OK &&
             mica_executable_open(program, &o, &x) == MICA_EUNSUPPORTED;
    }
    mica_program_close(&program);
    mica_scope_close(&s);
    return ok;
}

static bool run_anew(void *arg) {
    (void)arg;
    float out[32];
    bool ok =
        run_program(out, sizeof out) && sort_squares(out, sizeof out) && names_what_is_missing();
    test_forget_plans(device);
    return ok;
}

static void test_every_failing_allocation_is_a_status(void **state) {
    (void)state;
    device->backend = &poor;
    assert_true(test_fail_each_allocation(run_anew, NULL) > 40);
}

#define WITH_DEVICE(name) cmocka_unit_test_setup_teardown(name, open_device, close_device)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_DEVICE(test_decompositions_run_where_kernels_are_missing),
        WITH_DEVICE(test_an_op_with_neither_falls_back),
        WITH_DEVICE(test_a_device_that_supports_nothing_runs_all),
        WITH_DEVICE(test_many_operands_are_made_dense),
        WITH_DEVICE(test_what_falls_back_closes_in_any_order),
        WITH_DEVICE(test_all_that_is_missing_is_named),
        WITH_DEVICE(test_what_is_missing_in_a_precision),
        WITH_DEVICE(test_many_threads_run_compile_and_forget),
        WITH_DEVICE(test_every_failing_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
