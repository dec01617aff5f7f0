/* Random programs of bytes as networks quantised to 8 bits have them: what depends on one byte
 * alone, products, sums of two, views that cut, join, turn and enlarge images between, loops. Steps
 * that run together, as tables, as one loop or behind a product, have the bytes that each has
 * alone. */
#include <mica/mica.h>

#include <stdlib.h>
#include <string.h>

#include "exec/expect.h"
#include "op/integer.h"

#define SHAPE(...) (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8

enum { MAX_ARRAYS = 64, RESULTS = 4, MAX_BYTES = RESULTS * 4 * 8 * 12 * 64 };

static mica_device *device;
static int first_program, programs = 300;

static int open_device(void **state) {
    (void)state;
    return test_device_open(&(mica_device_options){.threads = 2}, &device) != MICA_OK;
}

static int close_device(void **state) {
    (void)state;
    mica_device_close(&device);
    return 0;
}

static uint64_t random_state;

static int below(int n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int)((random_state >> 11) % (uint64_t)n);
}

/* Bytes of [1, h, w, c] all; what goes otherwise comes back to that. And floats of that shape,
 * which only results are made of. */
typedef struct pool {
    mica_scope *s;
    int64_t h, w, c;
    mica_array all[MAX_ARRAYS], floats[MAX_ARRAYS];
    int n, n_floats, depth;
} pool;

static mica_array any(const pool *p) {
    return p->all[below(p->n)];
}

static void add(pool *p, mica_array x) {
    if (!mica_valid(x)) fail_msg("%s", mica_last_error());
    const int64_t shape[] = {1, p->h, p->w, p->c};
    for (int k = 0; k < 4; k++) /* what is seen of another shape stays where it is made */
        if (mica_array_ndim(x) != 4 || mica_array_dim(x, k) != shape[k]) return;
    if (p->n < MAX_ARRAYS) p->all[p->n++] = x;
}

static void add_floats(pool *p, mica_array x) {
    if (!mica_valid(x)) fail_msg("%s", mica_last_error());
    if (p->n_floats < MAX_ARRAYS) p->floats[p->n_floats++] = x;
}

static mica_array number(const pool *p, double x) {
    return mica_f32(p->s, (float)x);
}

/* ---- between bytes and floats ---- */

static mica_array floats_of(pool *p, mica_array q) {
    mica_array y = mica_astype(p->s, q, MICA_F32);
    if (below(4)) y = mica_subtract(p->s, y, number(p, below(256)));
    if (below(8)) y = mica_multiply(p->s, y, number(p, 0.01 * (1 + below(5))));
    if (below(8) == 0) add_floats(p, y);
    return y;
}

/* To u8, as all of a pool are; by way of i8 at times. */
static mica_array bytes_of(pool *p, mica_array x) {
    mica_scope *s = p->s;
    if (below(8) == 0) add_floats(p, x);
    if (below(8)) x = mica_divide(s, x, number(p, 0.015 * (1 + below(4))));
    x = mica_round(s, x);
    bool has_sign = below(4) == 0;
    if (below(4)) {
        mica_array zero = number(p, has_sign ? below(256) - 128 : below(256));
        x = below(8) ? mica_add(s, x, zero) : mica_add(s, zero, x);
    }
    if (below(8) == 0) x = mica_clip(s, x, number(p, 0), number(p, 250));
    x = mica_astype(s, x, has_sign ? MICA_I8 : MICA_U8);
    if (!has_sign) return x;
    if (below(2)) return mica_view(s, x, MICA_U8);
    x = mica_add(s, mica_astype(s, x, MICA_F32), number(p, 128));
    return mica_astype(s, x, MICA_U8);
}

/* What activation functions compute of x. */
static mica_array bent(pool *p, mica_array x) {
    mica_scope *s = p->s;
    switch (below(9)) {
    case 0:
        return mica_sigmoid(s, x);
    case 1:
        return mica_tanh(s, x);
    case 2:
        return mica_maximum(s, x, number(p, 0));
    case 3:
        return mica_multiply(s, x, mica_sigmoid(s, x));
    case 4: {
        mica_array y = mica_clip(s, mica_add(s, x, number(p, 3)), number(p, 0), number(p, 6));
        return mica_multiply(s, x, mica_multiply(s, y, number(p, 1.0 / 6)));
    }
    case 5:
        return mica_gelu(s, x);
    case 6:
        return mica_square(s, x);
    case 7:
        return mica_add(s, x, mica_exp(s, mica_negative(s, mica_abs(s, x))));
    default:
        return x;
    }
}

/* One byte of another. */
static mica_array table(pool *p, mica_array x) {
    return bytes_of(p, bent(p, floats_of(p, x)));
}

/* Several, one after the other: what comes first is a table for more than one loop. */
static mica_array tables(pool *p, mica_array x) {
    for (int i = 1 + below(4); i > 0; i--) {
        x = table(p, x);
        if (below(3) == 0) add(p, x);
    }
    return x;
}

static mica_array both(pool *p, mica_array a, mica_array b) {
    mica_scope *s = p->s;
    mica_array x = floats_of(p, a), y = floats_of(p, b);
    if (below(3) == 0) x = bent(p, x);
    return bytes_of(p, below(2) ? mica_add(s, x, y) : mica_multiply(s, x, y));
}

static mica_array unary(pool *p) {
    return tables(p, any(p));
}

static mica_array binary(pool *p) {
    return both(p, any(p), any(p));
}

/* SiLU as QOperator has it: a sigmoid of bytes, times these. */
static mica_array gated(pool *p) {
    mica_array x = any(p);
    return both(p, x, table(p, x));
}

/* ---- views ---- */

static mica_array cut(pool *p, mica_array x, int axis, int64_t from, int64_t to) {
    return mica_slice_axis(p->s, x, axis, from, to);
}

/* Two side by side; what is computed of both; and a half of that, or both halves together. */
static mica_array joined(pool *p) {
    int axis = 1 + below(3);
    const mica_array xs[] = {any(p), any(p)};
    mica_array y = mica_concatenate(p->s, xs, 2, axis);
    int64_t length = mica_array_dim(xs[0], axis);
    if (below(3)) y = tables(p, y);
    mica_array a = cut(p, y, axis, 0, length), b = cut(p, y, axis, length, 2 * length);
    if (below(3) == 0) return both(p, a, b);
    if (below(2)) add(p, a);
    return b;
}

/* What goes out on one side comes in on the other. */
static mica_array rolled(pool *p) {
    int axis = 1 + below(3);
    mica_array x = any(p);
    int64_t length = mica_array_dim(x, axis), at = 1 + below((int)length - 1);
    mica_array a = cut(p, x, axis, 0, at), b = cut(p, x, axis, at, length);
    if (below(2)) a = table(p, a);
    return mica_concatenate(p->s, (const mica_array[]){b, a}, 2, axis);
}

static mica_array enlarged(pool *p) {
    mica_array x = mica_repeat(p->s, mica_repeat(p->s, any(p), 2, 1), 2, 2);
    if (below(2)) x = tables(p, x);
    const int64_t begin[4] = {0, below(2), below(2), 0}, step[4] = {1, 2, 2, 1};
    const int64_t end[4] = {1, 2 * p->h, 2 * p->w, p->c};
    return mica_slice(p->s, x, begin, end, step);
}

static mica_array turned(pool *p) {
    mica_array x = mica_transpose(p->s, any(p), (const int[]){0, 3, 1, 2});
    if (below(2)) x = mica_contiguous(p->s, x);
    if (below(2)) x = tables(p, x);
    return mica_transpose(p->s, x, (const int[]){0, 2, 3, 1});
}

static mica_array reshaped(pool *p) {
    mica_array x = mica_reshape(p->s, any(p), SHAPE(p->h * p->w, p->c));
    if (below(2)) x = tables(p, x);
    if (below(3) == 0) x = mica_flip(p->s, x, below(2));
    return mica_reshape(p->s, x, SHAPE(1, p->h, p->w, p->c));
}

static mica_array padded(pool *p) {
    const int64_t before[4] = {0, 1, 1, 0}, after[4] = {0, 1, below(2), 0};
    mica_array x = mica_pad(p->s, any(p), before, after, mica_scalar(p->s, below(256), MICA_U8));
    if (below(2)) x = tables(p, x);
    int64_t i = below(2), j = below(2);
    mica_array a = cut(p, cut(p, x, 1, i, i + p->h), 2, j, j + p->w);
    return below(2) ? a : mica_maximum(p->s, a, any(p));
}

/* ---- products ---- */

/* A constant that is computed, for a loop's body takes no data. */
static mica_array weights(pool *p, const int64_t *shape, int ndim) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    mica_array w = mica_arange(p->s, 0, (double)n, 1, MICA_F32);
    w = mica_multiply(p->s, mica_sin(p->s, w), number(p, 60 + below(67)));
    return mica_reshape(p->s, mica_astype(p->s, w, MICA_I8), shape, ndim);
}

/* Its sums as floats, scaled by all or by columns. */
static mc_integer_rest rest_of(pool *p, int64_t columns) {
    mica_scope *s = p->s;
    mica_array i = mica_arange(s, 0, (double)columns, 1, MICA_F32);
    mc_integer_rest rest = {.scale = number(p, 2e-4 * (1 + below(5)))};
    if (below(2))
        rest.scale = mica_multiply(s, mica_add(s, mica_sin(s, i), number(p, 2)), rest.scale);
    if (below(2)) rest.bias = mica_cos(s, i);
    return rest;
}

static mica_array product(pool *p) {
    mc_integer_rest rest = rest_of(p, p->c);
    bool image = below(2) != 0, depthwise = image && below(2);
    mica_array x = any(p), y;
    if (image) {
        const int64_t taps = below(2) ? 3 : 1, pad = taps / 2;
        const int64_t shape[] = {p->c, taps, taps, depthwise ? 1 : p->c};
        const mica_conv_options conv = {.padding_lo = {pad, pad},
                                        .padding_hi = {pad, pad},
                                        .groups = depthwise ? (int)p->c : 1};
        y = mc_integer_conv(p->s, x, weights(p, shape, 4), &conv, &rest);
    } else {
        y = mc_integer_matmul(p->s, x, weights(p, (const int64_t[]){p->c, p->c}, 2), &rest);
    }
    if (below(6) == 0) add_floats(p, y);
    if (below(3) == 0) y = bent(p, y);
    if (below(4) == 0) y = mica_add(p->s, y, floats_of(p, any(p)));
    mica_array q = bytes_of(p, y);
    if (below(6) == 0) add(p, bytes_of(p, mica_sigmoid(p->s, y)));
    return below(2) ? tables(p, q) : q;
}

/* Rows that need all of their elements. */
static mica_array by_rows(pool *p) {
    mica_array x = floats_of(p, any(p));
    x = below(2) ? mica_softmax(p->s, x, -1) : mica_rms_norm(p->s, x, MICA_NONE, 1e-5f);
    return bytes_of(p, x);
}

/* ---- loops ---- */

static void grow(pool *p, int nodes);

static mica_status row_body(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                            size_t n_y) {
    const pool *outer = user;
    (void)n, (void)n_y;
    pool p = {.s = s, .h = outer->h, .w = outer->w, .c = outer->c, .depth = outer->depth + 1};
    mica_array row = mica_reshape(s, x[1], SHAPE(1, 1, p.w, p.c));
    add(&p, x[0]);
    add(&p, both(&p, x[0], mica_broadcast_to(s, row, SHAPE(1, p.h, p.w, p.c))));
    grow(&p, 1 + below(3));
    y[0] = table(&p, any(&p));
    y[1] = tables(&p, x[1]);
    return mica_scope_status(s);
}

static mica_array scan(pool *p) {
    mica_array init = any(p), carried, ys;
    mica_array x = mica_reshape(p->s, any(p), SHAPE(p->h, p->w, p->c));
    must(mica_scan(p->s, row_body, p, &init, 1, &x, 1, NULL, &carried, &ys, 1));
    return below(2) ? carried : mica_reshape(p->s, ys, SHAPE(1, p->h, p->w, p->c));
}

static mica_status body(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                        size_t n_y) {
    const pool *outer = user;
    (void)n, (void)n_y;
    pool p = {.s = s, .h = outer->h, .w = outer->w, .c = outer->c, .depth = outer->depth + 1};
    add(&p, x[0]);
    if (below(2)) add(&p, any(outer));
    grow(&p, 1 + below(4));
    y[0] = tables(&p, any(&p));
    return mica_scope_status(s);
}

static mica_status always(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                          size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_less(s, mica_min(s, x[0], NULL, 0, false), mica_scalar(s, 255, MICA_U8));
    return MICA_OK;
}

static mica_array loop(pool *p) {
    const mica_while_options bounded = {.max_rounds = 1 + below(3)};
    mica_array init = any(p), result;
    must(mica_while(p->s, always, body, p, &init, 1, &bounded, &result, NULL));
    return result;
}

/* ---- programs ---- */

static void grow(pool *p, int nodes) {
    static mica_array (*const makers[])(pool *) = {
        unary,  unary,    unary,  binary,  gated,   joined,  joined, rolled, enlarged,
        turned, reshaped, padded, product, product, by_rows, scan,   loop};
    enum { N = sizeof makers / sizeof *makers };
    for (int i = 0; i < nodes; i++)
        add(p, makers[below(p->depth < 1 ? N : N - 2)](p));
}

static mica_program *random_program(int seed, int64_t *bytes) {
    static const int64_t shapes[][3] = {{8, 12, 48}, {4, 4, 16}, {6, 7, 5}, {8, 8, 64}, {5, 9, 92}};
    mica_scope *s;
    must(mica_scope_open(device, &s));
    random_state = 0x9e3779b97f4a7c15u * (uint64_t)(seed + 1);
    const int64_t *shape = shapes[below(sizeof shapes / sizeof *shapes)];
    pool p = {.s = s, .h = shape[0], .w = shape[1], .c = shape[2]};
    mica_array x = mica_program_param(s, MICA_U8, SHAPE(1, p.h, p.w, p.c)), ys[RESULTS];
    add(&p, x);
    grow(&p, 2 + below(14));
    for (int i = 0; i < RESULTS; i++)
        ys[i] = i == 0 ? p.all[p.n - 1] : any(&p);
    if (p.n_floats > 0) ys[RESULTS - 1] = p.floats[below(p.n_floats)];
    mica_program *program;
    const mica_param param = {.name = "x", .array = x};
    must(mica_program_build(s, &param, 1, ys, RESULTS, NULL, &program));
    mica_scope_close(&s);
    *bytes = p.h * p.w * p.c;
    return program;
}

/* The bytes of all results, which `into` gets: how many. */
static size_t run_into(mica_executable *x, const uint8_t *data, size_t bytes, char *into) {
    mica_scope *s;
    mica_array ys[RESULTS];
    const mica_input in = {.name = "x", .data = data, .bytes = bytes, .dtype = MICA_U8};
    size_t at = 0;
    must(mica_scope_open(device, &s));
    must(mica_executable_run(x, &in, 1, s, ys));
    for (int i = 0; i < RESULTS; i++) {
        size_t size = (size_t)mica_array_size(ys[i]) * mica_dtype_bytes(mica_array_dtype(ys[i]));
        assert_true(at + size <= MAX_BYTES);
        must(mica_read(ys[i], into + at, size));
        at += size;
    }
    mica_scope_close(&s);
    return at;
}

static void fill(uint8_t *data, int64_t n, int seed) {
    for (int64_t i = 0; i < n; i++)
        data[i] = (uint8_t)((uint64_t)(i + 1) * 0x9e3779b97f4a7c15u >> (20 + seed % 30));
}

static void check_program(int seed) {
    static const char *const offs[] = {NULL, "epilogues", "regions", "joints", "fold"};
    static char want[2][MAX_BYTES], got[MAX_BYTES];
    static uint8_t data[2][MAX_BYTES];
    int64_t bytes;
    mica_program *p = random_program(seed, &bytes);
    mica_executable *x;
    size_t n = 0;
    for (size_t i = 0; i <= sizeof offs / sizeof *offs; i++) {
        const char *off = i == 0 ? "all" : offs[i - 1];
        must(mica_executable_open(
            p, &(mica_executable_options){.mode = MICA_MODE_COMPILED, .passes_off = off}, &x));
        for (int k = 0; k < 2; k++) { /* the second run replays the first one's plan */
            fill(data[k], bytes, seed + k);
            size_t all = run_into(x, data[k], (size_t)bytes, i == 0 ? want[k] : got);
            if (i == 0) n = all;
            assert_int_equal(all, n);
            if (i > 0 && memcmp(got, want[k], n) != 0)
                fail_msg("program %d, run %d, without %s: other bits", seed, k,
                         off ? off : "any pass left out");
        }
        mica_executable_close(&x);
    }
    mica_program_close(&p);
}

static void test_random_programs(void **state) {
    (void)state;
    for (int seed = first_program; seed < programs; seed += test_case_step())
        check_program(seed);
}

/* Bytes become a table, whose floats a later loop reads, and writes over. */
static void test_floats_beside_a_table(void **state) {
    (void)state;
    enum { N = 4608 };
    static uint8_t data[N];
    static char want[RESULTS * 4 * N], got[RESULTS * 4 * N];
    mica_scope *s;
    mica_program *p;
    mica_executable *x;
    must(mica_scope_open(device, &s));
    mica_array in = mica_program_param(s, MICA_U8, SHAPE(N)), ys[RESULTS];
    mica_array f = mica_astype(s, in, MICA_F32);
    mica_array a = mica_round(s, mica_multiply(s, f, mica_f32(s, 0.5f)));
    a = mica_view(s, mica_astype(s, mica_subtract(s, a, mica_f32(s, 70)), MICA_I8), MICA_U8);
    mica_array b = mica_sigmoid(s, mica_astype(s, a, MICA_F32));
    for (int i = 0; i < RESULTS; i++)
        ys[i] = mica_add(s, b, mica_subtract(s, f, mica_f32(s, (float)i)));
    const mica_param param = {.name = "x", .array = in};
    must(mica_program_build(s, &param, 1, ys, RESULTS, NULL, &p));
    fill(data, N, 1);
    for (int i = 0; i < 2; i++) {
        const mica_executable_options options = {.mode = MICA_MODE_COMPILED,
                                                 .passes_off = i == 0 ? "all" : NULL};
        must(mica_executable_open(p, &options, &x));
        assert_int_equal(run_into(x, data, N, i == 0 ? want : got), sizeof want);
        mica_executable_close(&x);
    }
    assert_memory_equal(got, want, sizeof want);
    mica_program_close(&p);
    mica_scope_close(&s);
}

/* x and y, u8, added as floats and rounded to bytes, plus r. */
static mica_program *program_of_two(int64_t n, bool donate) {
    mica_scope *s;
    mica_program *program;
    must(mica_scope_open(device, &s));
    mica_array x = mica_program_param(s, MICA_U8, &n, 1), y = mica_program_param(s, MICA_U8, &n, 1);
    mica_array r = mica_program_param(s, MICA_F32, &n, 1);
    mica_array f = mica_multiply(s, mica_astype(s, x, MICA_F32), mica_f32(s, 0.25f));
    f = mica_add(s, mica_multiply(s, mica_sigmoid(s, f), f), mica_astype(s, y, MICA_F32));
    f = mica_astype(s, mica_astype(s, mica_round(s, f), MICA_U8), MICA_F32);
    const mica_array sum = mica_add(s, f, r);
    const mica_param params[] = {{.name = "x", .array = x, .donate = donate},
                                 {.name = "y", .array = y, .donate = donate},
                                 {.name = "r", .array = r}};
    must(mica_program_build(s, params, 3, &sum, 1, NULL, &program));
    mica_scope_close(&s);
    return program;
}

/* What no kernel touches as long as two arguments are two arrays may be touched where they are
 * one. */
static void test_one_array_for_two_arguments(void **state) {
    (void)state;
    enum { N = 8192 };
    static uint8_t data[2][N];
    static float r[N], want[N], got[N];
    for (int i = 0; i < 2; i++)
        fill(data[i], N, 3 * i);
    for (int i = 0; i < 8; i++) { /* bits: one array, donated, compiled */
        const bool one = i & 4, donate = i & 2, compiled = i & 1;
        const mica_executable_options options = {.mode = MICA_MODE_COMPILED,
                                                 .passes_off = compiled ? NULL : "all"};
        mica_program *p = program_of_two(N, donate);
        mica_executable *x;
        mica_scope *s;
        mica_array sum;
        must(mica_executable_open(p, &options, &x));
        must(mica_scope_open(device, &s));
        mica_array a = mica_from_data(s, data[0], MICA_U8, SHAPE(N));
        mica_array b = one ? a : mica_from_data(s, data[1], MICA_U8, SHAPE(N));
        const mica_input in[] = {{.name = "x", .array = a},
                                 {.name = "y", .array = b},
                                 {.name = "r", .data = r, .bytes = sizeof r, .dtype = MICA_F32}};
        must(mica_executable_run(x, in, 3, s, &sum));
        must(mica_read(sum, compiled ? got : want, sizeof got));
        if (compiled) assert_memory_equal(got, want, sizeof got);
        mica_scope_close(&s);
        mica_executable_close(&x);
        mica_program_close(&p);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs),
                                       cmocka_unit_test(test_floats_beside_a_table),
                                       cmocka_unit_test(test_one_array_for_two_arguments)};
    if (argc > 1) programs = atoi(argv[1]); /* up to this one, from another one on */
    if (argc > 2) first_program = atoi(argv[2]);
    return cmocka_run_group_tests(tests, open_device, close_device);
}
