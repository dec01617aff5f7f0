/* Passes: what each changes, and that none changes bits, over random programs with control flow in
 * every mode, with every pass left out alone; the verifiers. */
#define _POSIX_C_SOURCE 200809L
#include <mica/mica.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "exec/executable.h"
#include "exec/expect.h"
#include "exec/pass.h"

#define SHAPE(...) (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8

static mica_device *device;

static int open_device(void **state) {
    (void)state;
    return test_device_open(&(mica_device_options){.threads = 2}, &device) != MICA_OK;
}

static int close_device(void **state) {
    (void)state;
    mica_device_close(&device);
    return 0;
}

static mica_scope *open_scope(void) {
    mica_scope *s;
    must(mica_scope_open(device, &s));
    return s;
}

/* ---- one pass ---- */

static mica_executable *open_exe(const mica_program *p, mica_mode mode, const char *off) {
    mica_executable *x;
    must(mica_executable_open(p, &(mica_executable_options){.mode = mode, .passes_off = off}, &x));
    return x;
}

/* How much a pass says that it changed; -1: it is off. */
static int changed_by(mica_executable *x, const char *pass) {
    char line[64], *text;
    int n = -1;
    must(mica_executable_report(x, &text));
    snprintf(line, sizeof line, "pass %s: ", pass);
    const char *at = strstr(text, line);
    assert_non_null(at);
    if (sscanf(at + strlen(line), "%d", &n) != 1) n = -1;
    mica_free(text);
    return n;
}

static mica_program *build(mica_scope *s, mica_array x, const mica_array *ys, size_t n) {
    mica_program *p;
    const mica_param param = {.name = "x", .array = x};
    must(mica_program_build(s, &param, 1, ys, n, NULL, &p));
    return p;
}

/* What the results are: `into` gets their bytes, one after the other. */
static size_t run_into(mica_executable *x, const void *data, size_t bytes, mica_dtype dtype,
                       char *into) {
    mica_scope *s = open_scope();
    mica_array ys[16];
    const mica_input in = {.name = "x", .data = data, .bytes = bytes, .dtype = dtype};
    size_t n = mica_program_result_count(x->program), at = 0;
    must(mica_executable_run(x, &in, 1, s, ys));
    for (size_t i = 0; i < n; i++) {
        size_t size = (size_t)mica_array_size(ys[i]) * mica_dtype_bytes(mica_array_dtype(ys[i]));
        must(mica_read(ys[i], into + at, size));
        at += size;
    }
    mica_scope_close(&s);
    return at;
}

/* Opens the program with a pass and without any, and checks that both give the same bytes for x,
 * f32; returns what the pass changed. */
static int check_pass(const mica_program *p, const char *pass, const float *data, size_t n) {
    static char with[1 << 16], without[1 << 16];
    mica_executable *x = open_exe(p, MICA_MODE_COMPILED, NULL);
    mica_executable *plain = open_exe(p, MICA_MODE_COMPILED, "all");
    int changed = changed_by(x, pass);
    assert_int_equal(changed_by(plain, pass), -1);
    size_t bytes = run_into(x, data, n * sizeof *data, MICA_F32, with);
    assert_int_equal(run_into(plain, data, n * sizeof *data, MICA_F32, without), bytes);
    if (test_device_keeps_order()) assert_memory_equal(with, without, bytes);
    mica_executable_close(&x);
    mica_executable_close(&plain);
    return changed;
}

static const float NUMBERS[6] = {1, -2, 3, 0.5f, 5, -6};

static void test_constants_are_folded(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    const float w[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(2, 3));
    mica_array c = mica_from_data(s, w, MICA_F32, SHAPE(4, 3));
    mica_array scaled = mica_exp(s, mica_multiply(s, c, mica_f32(s, 0.125f)));
    mica_array y = mica_matmul(s, x, mica_transpose(s, scaled, NULL));
    mica_program *p = build(s, x, &y, 1);
    assert_int_equal(check_pass(p, "fold", NUMBERS, 6), 1); /* one array, behind two ops */
    mica_program_close(&p);

    /* not what takes far more memory than it is computed from, nor what cannot be computed */
    mica_array large = mica_broadcast_to(s, mica_exp(s, mica_f32(s, 1)), SHAPE(1 << 16));
    mica_array ys[2] = {x, mica_contiguous(s, mica_negative(s, large))};
    p = build(s, x, ys, 2);
    mica_executable *exe = open_exe(p, MICA_MODE_COMPILED, NULL);
    assert_int_equal(changed_by(exe, "fold"), 1); /* exp(1) */
    mica_executable_close(&exe);
    mica_program_close(&p);

    const int32_t outside = 9;
    y = mica_take(s, c, mica_from_data(s, &outside, MICA_I32, SHAPE(1)), 0);
    p = build(s, x, &y, 1);
    exe = open_exe(p, MICA_MODE_COMPILED, NULL);
    assert_int_equal(changed_by(exe, "fold"), 0);
    const mica_input in = {.name = "x", .data = NUMBERS, .bytes = sizeof NUMBERS, MICA_F32};
    expect_refused(mica_executable_run(exe, &in, 1, NULL, NULL), MICA_EINVAL, "take");
    mica_executable_close(&exe);
    mica_program_close(&p);
    mica_scope_close(&s);
}

/* What may take for ever is left to runs. */
static void test_views_of_much_are_not_folded(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* their lengths may be limited */
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(6)), ys[3] = {x};
    mica_array many = mica_broadcast_to(s, mica_f32(s, 1), SHAPE((int64_t)1 << 50));
    ys[1] = mica_sum(s, many, NULL, 0, false);
    ys[2] = mica_max(s, mica_reshape(s, many, SHAPE(1 << 25, 1 << 25)), NULL, 0, false);
    mica_program *p = build(s, x, ys, 3);
    mica_executable *exe = open_exe(p, MICA_MODE_COMPILED, NULL);
    assert_int_equal(changed_by(exe, "fold"), 0);
    mica_executable_close(&exe);
    mica_program_close(&p);
    mica_scope_close(&s);
}

/* Nor do constants take much memory all together. */
static void test_folded_constants_are_limited(void **state) {
    (void)state;
    enum { N = 300, LENGTH = 1 << 14 }; /* 64 KiB each */
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(LENGTH)), y = x;
    for (int i = 0; i < N; i++)
        y = mica_add(s, y, mica_arange(s, i, i + LENGTH, 1, MICA_F32));
    mica_program *p = build(s, x, &y, 1);
    mica_executable *exe = open_exe(p, MICA_MODE_COMPILED, NULL);
    assert_int_equal(changed_by(exe, "fold"), 256);
    mica_executable_close(&exe);
    mica_program_close(&p);
    mica_scope_close(&s);
}

static void test_common_nodes_are_one(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(6)), ys[2];
    mica_array a = mica_exp(s, mica_multiply(s, x, mica_f32(s, 2)));
    mica_array b = mica_exp(s, mica_multiply(s, x, mica_f32(s, 2)));
    ys[0] = mica_subtract(s, a, b);
    ys[1] = mica_exp(s, mica_multiply(s, x, mica_f32(s, 3))); /* another number */
    mica_program *p = build(s, x, ys, 2);
    assert_int_equal(check_pass(p, "common", NUMBERS, 6), 3); /* broadcast, multiply and exp */
    mica_program_close(&p);
    mica_scope_close(&s);
}

static int calls; /* of the application's function */

static mica_status same_shape(void *user, const int64_t *numbers, int n_numbers,
                              const mica_shape *in, int n_in, mica_shape *out) {
    (void)user, (void)numbers, (void)n_numbers, (void)n_in;
    *out = in[0];
    return MICA_OK;
}

static mica_status count_call(void *user, const int64_t *numbers, int n_numbers,
                              const mica_shape *in, const void *const *data, int n_in,
                              const mica_shape *out, void *result) {
    (void)user, (void)numbers, (void)n_numbers, (void)in, (void)n_in, (void)out;
    calls++;
    memcpy(result, data[0], 6 * sizeof(float));
    return MICA_OK;
}

static mica_status call_it(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                           size_t n_y) {
    (void)user, (void)n_y;
    y[0] = mica_custom(s, "passes count", NULL, 0, x, (int)n);
    return mica_scope_status(s);
}

/* Functions of the application are called as often as they are there, also in control flow. */
static void test_functions_of_the_application_stay(void **state) {
    (void)state;
    const mica_custom_op op = {.name = "passes count", .infer = same_shape, .run = count_call};
    must(mica_custom_register(&op));
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(6)), ys[5];
    mica_array c = mica_arange(s, 0, 6, 1, MICA_F32);
    mica_array pred = mica_less(s, mica_sum(s, x, NULL, 0, false), mica_f32(s, 100));
    for (int i = 0; i < 4; i++)
        if (i < 2)
            ys[i] = mica_custom(s, "passes count", NULL, 0, &x, 1);
        else
            must(mica_if(s, pred, call_it, call_it, NULL, &x, 1, &ys[i], 1));
    ys[4] = mica_custom(s, "passes count", NULL, 0, &c, 1);
    mica_program *p = build(s, x, ys, 5);
    for (int off = 0; off < 2; off++) {
        char bytes[5 * sizeof NUMBERS];
        calls = 0;
        mica_executable *exe = open_exe(p, MICA_MODE_COMPILED, off ? "all" : NULL);
        assert_int_equal(calls, 0);
        run_into(exe, NUMBERS, sizeof NUMBERS, MICA_F32, bytes);
        assert_int_equal(calls, 5);
        mica_executable_close(&exe);
    }
    mica_program_close(&p);
    mica_scope_close(&s);
}

/* y0 = x + a, y1 = exp(x) b; b is not read otherwise. */
static mica_status two(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                       size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_add(s, x[0], x[1]);
    y[1] = mica_multiply(s, mica_exp(s, x[0]), x[2]);
    return MICA_OK;
}

/* carried += row of x0; ys: the sum, and a row of x1 squared. */
static mica_status scan_two(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                            size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_add(s, x[0], x[1]);
    y[1] = y[0];
    y[2] = mica_square(s, x[2]);
    return MICA_OK;
}

static void test_dead_results_of_control_flow_go(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(2, 3)), ys[2], carried, stacks[2];
    mica_array pred = mica_less(s, mica_sum(s, x, NULL, 0, false), mica_f32(s, 100));
    must(mica_if(s, pred, two, two, NULL,
                 (const mica_array[]){x, mica_square(s, x), mica_abs(s, x)}, 3, ys, 2));
    mica_program *p = build(s, x, &ys[0], 1);
    assert_int_equal(check_pass(p, "dead", NUMBERS, 6), 2); /* a result, and an operand */
    mica_program_close(&p);
    p = build(s, x, ys, 2);
    assert_int_equal(check_pass(p, "dead", NUMBERS, 6), 0);
    mica_program_close(&p);

    mica_array zero = mica_zeros(s, SHAPE(3), MICA_F32);
    must(mica_scan(s, scan_two, NULL, &zero, 1, (const mica_array[]){x, mica_exp(s, x)}, 2, NULL,
                   &carried, stacks, 2));
    p = build(s, x, &stacks[0], 1);
    assert_int_equal(check_pass(p, "dead", NUMBERS, 6), 2); /* ys[1], and the second x */
    mica_program_close(&p);
    mica_scope_close(&s);
}

/* 8 ops over x of n elements, with a number, a row that is broadcast, and a comparison. */
static mica_array eight(mica_scope *s, mica_array x, mica_array row) {
    mica_array a = mica_multiply(s, x, mica_f32(s, 1.5f)), b = mica_tanh(s, mica_add(s, a, row));
    mica_array c = mica_where(s, mica_less(s, b, x), a, mica_exp(s, b));
    return mica_maximum(s, mica_negative(s, c), b);
}

static void test_regions(void **state) {
    (void)state;
    static float data[3 * 5000];
    for (size_t i = 0; i < 3 * 5000; i++)
        data[i] = sinf((float)i) * 3;
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(3, 5000));
    mica_array row = mica_slice_axis(s, mica_reshape(s, x, SHAPE(15000)), 0, 7, 5007);
    for (int kind = 0; kind < 3; kind++) {
        mica_array y = x;
        if (kind == 1) y = mica_transpose(s, x, NULL); /* read by strides */
        if (kind == 1) y = eight(s, y, mica_slice_axis(s, row, 0, 0, 3));
        if (kind != 1) y = eight(s, x, row);
        for (int k = 0; kind == 2 && k < 2; k++)
            y = eight(s, y, row);
        if (kind == 2) y = mica_astype(s, eight(s, mica_astype(s, y, MICA_BF16), row), MICA_F16);
        y = mica_sum(s, y, (const int[]){0}, 1, false);
        mica_program *p = build(s, x, &y, 1);
        int regions = check_pass(p, "regions", data, 3 * 5000);
        if (!test_device_is_other()) assert_int_equal(regions, kind == 2 ? 2 : 1);
        mica_program_close(&p);
    }
    mica_scope_close(&s);
}

/* A convolution takes what follows it element by element with it, each part as it is made: a bias,
 * the residual, bounds, and others, whatever is read again. */
static void test_epilogues(void **state) {
    (void)state;
    static float data[9 * 9 * 40];
    for (size_t i = 0; i < 9 * 9 * 40; i++)
        data[i] = sinf((float)i) * 3;
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(1, 9, 9, 40)), ys[2];
    for (int kind = 0; kind < 4; kind++) {
        const mica_conv_options options = {
            .groups = kind == 1 ? 40 : 1, .padding_lo = {1, 1}, .padding_hi = {1, 1}};
        mica_array w = mica_sin(s, mica_arange(s, 0, 40 * 9 * (kind == 1 ? 1 : 40), 1, MICA_F32));
        w = mica_reshape(s, w, SHAPE(40, 3, 3, kind == 1 ? 1 : 40));
        mica_array y = mica_conv_general(s, x, w, &options), sums = y;
        y = mica_add(s, y, mica_arange(s, 0, 40, 1, MICA_F32));
        y = kind == 2 ? mica_add(s, x, y) : mica_add(s, y, x);
        y = mica_maximum(s, y, mica_f32(s, 0));
        if (kind > 0) y = mica_minimum(s, y, mica_f32(s, 6));
        if (kind > 1) y = mica_silu(s, y);
        ys[0] = y;
        ys[1] = kind == 3 ? sums : x;
        mica_program *p = build(s, x, ys, 2);
        int epilogues = check_pass(p, "epilogues", data, 9 * 9 * 40);
        if (!test_device_is_other()) assert_int_equal(epilogues, 1);
        mica_program_close(&p);
    }
    mica_scope_close(&s);
}

static void test_names_of_passes(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(6)), y = mica_exp(s, x);
    mica_program *p = build(s, x, &y, 1);
    mica_executable *exe;
    expect_refused(
        mica_executable_open(p, &(mica_executable_options){.passes_off = "fold,regoins"}, &exe),
        MICA_EINVAL, "there is no pass regoins: they are fold common dead joints");
    assert_null(exe);
    assert_int_equal(setenv("MICA_PASSES_OFF", "common,regions", 1), 0);
    exe = open_exe(p, MICA_MODE_COMPILED, NULL);
    assert_int_equal(changed_by(exe, "common"), -1);
    assert_int_equal(changed_by(exe, "fold"), 0);
    mica_executable_close(&exe);
    exe = open_exe(p, MICA_MODE_COMPILED, ""); /* options win */
    assert_int_equal(changed_by(exe, "common"), 0);
    mica_executable_close(&exe);
    assert_int_equal(setenv("MICA_PASSES_OFF", "all,none", 1), 0);
    expect_refused(mica_executable_open(p, NULL, &exe), MICA_EINVAL,
                   "MICA_PASSES_OFF: there is no pass none");
    assert_int_equal(unsetenv("MICA_PASSES_OFF"), 0);
    mica_program_close(&p);
    mica_scope_close(&s);
}

/* ---- random programs ---- */

static uint64_t random_state;

static int below(int n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int)((random_state >> 11) % (uint64_t)n);
}

enum { ROWS = 4, COLUMNS = 6, MAX_ARRAYS = 64, PROGRAMS = 300 };

/* f32 [4, 6] all; what goes otherwise comes back to that. */
typedef struct pool {
    mica_scope *s;
    mica_array all[MAX_ARRAYS];
    int n, depth;
} pool;

static mica_array any(const pool *p) {
    return p->all[below(p->n)];
}

static void add(pool *p, mica_array x) {
    if (p->n < MAX_ARRAYS) p->all[p->n++] = x;
}

static mica_array unary(pool *p) {
    static mica_array (*const ops[])(mica_scope *, mica_array) = {
        mica_negative, mica_abs, mica_square, mica_tanh,
        mica_sigmoid,  mica_sin, mica_floor,  mica_silu};
    return ops[below(sizeof ops / sizeof *ops)](p->s, any(p));
}

static mica_array binary(pool *p) {
    static mica_array (*const ops[])(mica_scope *, mica_array, mica_array) = {
        mica_add, mica_subtract, mica_multiply, mica_maximum, mica_minimum};
    mica_array b = below(3) == 0 ? mica_f32(p->s, (float)below(7) - 3) : any(p);
    return ops[below(sizeof ops / sizeof *ops)](p->s, any(p), b);
}

static mica_array choose(pool *p) {
    mica_array mask = mica_less(p->s, any(p), any(p));
    return mica_where(p->s, below(2) ? mask : mica_logical_not(p->s, mask), any(p), any(p));
}

static mica_array round_to(pool *p) {
    mica_array x = mica_astype(p->s, any(p), below(2) ? MICA_BF16 : MICA_F16);
    return mica_astype(p->s, mica_multiply(p->s, x, x), MICA_F32);
}

static mica_array row_sum(pool *p) {
    mica_array sum = mica_mean(p->s, any(p), (const int[]){below(2)}, 1, true);
    return mica_subtract(p->s, any(p), sum);
}

static mica_array product(pool *p) {
    mica_array t = mica_transpose(p->s, any(p), NULL);
    return mica_tanh(p->s, mica_matmul(p->s, mica_matmul(p->s, any(p), t), any(p)));
}

static mica_array view(pool *p) {
    mica_array x = any(p);
    if (below(2)) return mica_flip(p->s, x, below(2));
    mica_array y = mica_reshape(p->s, x, SHAPE(COLUMNS, ROWS));
    y = below(2) ? mica_negative(p->s, y) : y;
    return below(2) ? mica_transpose(p->s, y, NULL) : mica_reshape(p->s, y, SHAPE(ROWS, COLUMNS));
}

static mica_array constant(pool *p) {
    mica_array c = mica_arange(p->s, 0, COLUMNS, 1, MICA_F32);
    c = mica_multiply(p->s, c, mica_f32(p->s, (float)below(4)));
    return mica_add(p->s, any(p), mica_cos(p->s, c));
}

/* A convolution over the rows, and what often follows one. */
static mica_array convolution(pool *p) {
    mica_scope *s = p->s;
    int depthwise = below(2), outs = depthwise ? COLUMNS : 5 + below(20);
    mica_array w = mica_arange(s, 0, outs * 3 * (depthwise ? 1 : COLUMNS), 1, MICA_F32);
    w = mica_reshape(s, mica_sin(s, w), SHAPE(outs, 3, depthwise ? 1 : COLUMNS));
    const mica_conv_options options = {
        .padding_lo = {1}, .padding_hi = {1}, .groups = depthwise ? COLUMNS : 1};
    mica_array x = mica_reshape(s, mica_tanh(s, any(p)), SHAPE(1, ROWS, COLUMNS));
    mica_array y = mica_conv_general(s, x, w, &options), other, first = y;
    mica_array bias = mica_cos(s, mica_arange(s, 0, outs, 1, MICA_F32));
    for (int i = below(6); i > 0; i--) {
        int how = below(8);
        other = how < 2 ? bias : how < 4 ? first : mica_f32(s, (float)below(5) * 0.25f - 0.5f);
        if (how == 7) y = mica_silu(s, y);
        if (how == 6) y = mica_minimum(s, y, other);
        if (how == 5) y = below(2) ? mica_maximum(s, y, other) : mica_maximum(s, other, y);
        if (how < 5) y = below(2) ? mica_add(s, y, other) : mica_add(s, other, y);
    }
    if (!depthwise)
        y = mica_sum(s, mica_reshape(s, y, SHAPE(ROWS, outs)), (const int[]){1}, 1, true);
    return depthwise ? mica_reshape(s, y, SHAPE(ROWS, COLUMNS)) : mica_add(s, any(p), y);
}

static void grow(pool *p, int nodes);

/* Results computed from the arguments and what is around: some of the pool's. */
static mica_status body(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                        size_t n_y) {
    const pool *outer = user;
    pool p = {.s = s, .depth = outer->depth + 1};
    for (size_t i = 0; i < n; i++)
        if (mica_array_ndim(x[i]) == 2) add(&p, x[i]);
    if (p.n == 0 || below(2)) add(&p, any(outer));
    grow(&p, 2 + below(5));
    for (size_t i = 0; i < n_y; i++)
        y[i] = mica_tanh(s, any(&p));
    return mica_scope_status(s);
}

static mica_status enough(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                          size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_less(s, mica_sum(s, x[0], NULL, 0, false), mica_f32(s, 5));
    return MICA_OK;
}

/* A row goes with the carried value of [4, 6] by broadcasting. */
static mica_status row_body(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                            size_t n_y) {
    const pool *outer = user;
    (void)n, (void)n_y;
    pool p = {.s = s, .depth = outer->depth + 1};
    add(&p, mica_add(s, x[0], x[1]));
    add(&p, x[0]);
    grow(&p, 1 + below(4));
    y[0] = mica_tanh(s, any(&p));
    y[1] = mica_sum(s, any(&p), (const int[]){0}, 1, false);
    y[2] = mica_exp(s, mica_negative(s, mica_abs(s, x[1])));
    return mica_scope_status(s);
}

static mica_array branch(pool *p) {
    mica_array pred = mica_less(p->s, mica_sum(p->s, any(p), NULL, 0, false), mica_f32(p->s, 1));
    mica_array results[3];
    must(mica_if(p->s, pred, body, body, p, (const mica_array[]){any(p), any(p)}, 2, results, 3));
    return results[below(3)]; /* the others are dead */
}

static mica_array loop(pool *p) {
    mica_array results[2], rounds;
    const mica_while_options bounded = {.max_rounds = 1 + below(4)};
    must(mica_while(p->s, enough, body, p, (const mica_array[]){any(p), any(p)}, 2, &bounded,
                    results, &rounds));
    if (below(3) == 0) return mica_add(p->s, any(p), mica_astype(p->s, rounds, MICA_F32));
    return results[below(2)];
}

static mica_array scan(pool *p) {
    mica_array carried, ys[2];
    const mica_scan_options options = {.reverse = below(2) != 0};
    mica_array x = any(p), init = any(p);
    must(mica_scan(p->s, row_body, p, &init, 1, &x, 1, &options, &carried, ys, 2));
    int which = below(3);
    return which == 2 ? carried : ys[which];
}

static void grow(pool *p, int nodes) {
    static mica_array (*const makers[])(pool *) = {
        unary,   unary,   binary,   binary,      binary, choose, view, round_to,
        row_sum, product, constant, convolution, branch, loop,   scan};
    enum { N = sizeof makers / sizeof *makers };
    for (int i = 0; i < nodes; i++) {
        mica_array x = makers[below(p->depth < 2 ? N : N - 3)](p);
        if (!mica_valid(x)) fail_msg("%s", mica_last_error());
        add(p, x);
        if (below(4) == 0) add(p, mica_tanh(p->s, x));
        if (below(4) == 0) add(p, mica_tanh(p->s, x)); /* the same again */
    }
}

static mica_program *random_program(int seed) {
    random_state = 0x9e3779b97f4a7c15u * (uint64_t)(seed + 1);
    pool p = {.s = open_scope()};
    mica_array x = mica_program_param(p.s, MICA_F32, SHAPE(ROWS, COLUMNS)), ys[4];
    add(&p, x);
    grow(&p, 3 + below(30));
    for (int i = 0; i < 4; i++)
        ys[i] = i < 2 ? p.all[p.n - 1 - i] : any(&p);
    mica_program *program = build(p.s, x, ys, 4);
    must(mica_program_verify(program));
    mica_scope_close(&p.s);
    return program;
}

enum { BYTES = 4 * ROWS * COLUMNS * 4 };

/* Bits, but for MLX, and for other devices than the cpu where each op runs alone: what they have no
 * kernel for may be made of other ops there. */
static void expect_alike(const char *got, const char *want, size_t n, int seed, const char *how) {
    bool bits = test_device_is_other() ? strcmp(how, "eager") != 0 : true;
    if (bits && test_device_keeps_order()) {
        if (memcmp(got, want, n) != 0) fail_msg("program %d, %s: other bits", seed, how);
        return;
    }
    for (size_t i = 0; i < n; i += sizeof(float)) {
        float a, b;
        memcpy(&a, got + i, sizeof a);
        memcpy(&b, want + i, sizeof b);
        if (!(fabsf(a - b) <= 1e-4f * (1 + fabsf(b))) && (isfinite(a) || isfinite(b)))
            fail_msg("program %d, %s: %g, not %g", seed, how, (double)a, (double)b);
    }
}

/* Through slots, queued, and through a handle of a clone. */
static void check_other_runs(mica_executable *x, const float *data, const char *want, int seed) {
    const mica_slot *slots;
    char got[BYTES];
    size_t n, at = 0;
    mica_ticket *ticket;
    const mica_input in = {
        .name = "x", .data = data, .bytes = sizeof(float) * ROWS * COLUMNS, MICA_F32};
    must(mica_executable_slots(x, &slots, &n));
    must(mica_executable_run_slots(x, (const void *const[]){data}, 1));
    for (size_t i = 0; i < n; at += slots[i++].bytes)
        memcpy(got + at, (const char *)mica_executable_arena(x) + slots[i].offset, slots[i].bytes);
    expect_alike(got, want, at, seed, "through slots");
    mica_scope *s = open_scope();
    mica_array ys[4];
    must(mica_executable_run_async(x, &in, 1, &ticket));
    must(mica_ticket_wait(&ticket, s, ys));
    at = 0;
    for (size_t i = 0; i < n; at += slots[i++].bytes)
        must(mica_read(ys[i], got + at, slots[i].bytes));
    expect_alike(got, want, at, seed, "queued");
    mica_executable *clone; /* through a handle, and of a clone */
    must(mica_executable_set(x, &in));
    must(mica_executable_clone(x, &clone));
    must(mica_executable_run(clone, NULL, 0, s, ys));
    at = 0;
    for (size_t i = 0; i < n; at += slots[i++].bytes)
        must(mica_read(ys[i], got + at, slots[i].bytes));
    expect_alike(got, want, at, seed, "through a handle");
    mica_executable_close(&clone);
    mica_scope_close(&s);
}

static void check_program(int seed, const float *data) {
    static const char *const offs[] = {"",       "fold",      "common", "dead",
                                       "joints", "epilogues", "regions"};
    char want[BYTES], got[BYTES];
    size_t bytes = sizeof(float) * ROWS * COLUMNS, n;
    mica_program *p = random_program(seed);
    mica_executable *x = open_exe(p, MICA_MODE_LAZY, "all");
    n = run_into(x, data, bytes, MICA_F32, want);
    mica_executable_close(&x);
    for (size_t i = 0; i < sizeof offs / sizeof *offs; i += (size_t)test_case_step()) {
        x = open_exe(p, MICA_MODE_LAZY, offs[i]);
        assert_int_equal(run_into(x, data, bytes, MICA_F32, got), n);
        expect_alike(got, want, n, seed, offs[i]);
        mica_executable_close(&x);
    }
    for (mica_mode mode = MICA_MODE_EAGER; mode <= MICA_MODE_COMPILED; mode++) {
        x = open_exe(p, mode, NULL);
        run_into(x, data, bytes, MICA_F32, got);
        expect_alike(got, want, n, seed, mode == MICA_MODE_EAGER ? "eager" : "compiled");
        if (mode == MICA_MODE_COMPILED) check_other_runs(x, data, want, seed);
        mica_executable_close(&x);
    }
    mica_program_close(&p);
}

static void test_random_programs(void **state) {
    (void)state;
    static const float special[] = {NAN, -0.0f, INFINITY, -INFINITY, 1e-40f, 3e38f};
    float data[ROWS * COLUMNS];
    for (int seed = 0; seed < PROGRAMS; seed += test_case_step()) {
        for (int i = 0; i < ROWS * COLUMNS; i++)
            data[i] = sinf((float)(i * 7 + seed)) * 2;
        if (seed % 3 == 0 && !test_device_is_other()) /* not for devices that compare by values */
            for (int i = seed % 5; i < ROWS * COLUMNS; i += 5)
                data[i] = special[below(sizeof special / sizeof *special)];
        check_program(seed, data);
    }
}

/* ---- when an allocation fails ---- */

static bool open_and_close(void *arg) {
    mica_executable *x = NULL;
    mica_status status =
        mica_executable_open(arg, &(mica_executable_options){.mode = MICA_MODE_COMPILED}, &x);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    mica_executable_close(&x);
    return status == MICA_OK;
}

static void test_each_allocation_fails(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* its thread allocates, too */
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(2, 3)), carried, stacks[2];
    mica_array zero = mica_exp(s, mica_zeros(s, SHAPE(3), MICA_F32));
    must(mica_scan(s, scan_two, NULL, &zero, 1, (const mica_array[]){x, mica_exp(s, x)}, 2, NULL,
                   &carried, stacks, 2));
    mica_program *p = build(s, x, &stacks[0], 1);
    mica_scope_close(&s);
    test_fail_each_allocation(open_and_close, p);
    mica_program_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants_are_folded),
        cmocka_unit_test(test_views_of_much_are_not_folded),
        cmocka_unit_test(test_folded_constants_are_limited),
        cmocka_unit_test(test_common_nodes_are_one),
        cmocka_unit_test(test_functions_of_the_application_stay),
        cmocka_unit_test(test_dead_results_of_control_flow_go),
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_epilogues),
        cmocka_unit_test(test_names_of_passes),
        cmocka_unit_test(test_random_programs),
        cmocka_unit_test(test_each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
