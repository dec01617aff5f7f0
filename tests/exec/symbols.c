/* Programs with symbols for lengths: what they compute is what the program that was recorded for
 * these lengths computes, in all modes, from files, and in queued runs. */
#include <mica/mica.h>

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "device/device.h"
#include "exec/device.h"
#include "exec/expect.h"
#include "exec/program.h"
#include "exec/symbols.h"
#include "graph/file_primes.h"
#include "graph/graph.h"

mica_scope *open_scope(void) {
    mica_scope *s;
    must(mica_scope_open(device, &s));
    return s;
}

/* Numbers in [-1, 1), the same each time. */
mica_array numbers(mica_scope *s, const int64_t *shape, int ndim) {
    float x[1 << 14];
    uint32_t seed = 7;
    int64_t n = 1;
    for (int k = 0; k < ndim; k++)
        n *= shape[k];
    assert_true(n <= (int64_t)(sizeof x / sizeof *x));
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1.0f;
    }
    return mica_from_data(s, x, MICA_F32, shape, ndim);
}

/* ---- programs ---- */

/* What a program is recorded from: x [B, L, D] for given lengths, fixed or symbols. */
enum { HEADS = 2, MAX_RESULTS = 6 };
typedef int (*record_fn)(mica_scope *s, mica_array x, int64_t b, int64_t l, mica_array *y);

/* Attention with heads, spelled out, over reshapes that name the lengths, with a causal mask; a
 * class token; means over one and two symbols. */
static int record_encoder(mica_scope *s, mica_array x, int64_t b, int64_t l, mica_array *y) {
    mica_array w = numbers(s, SHAPE(D, 3 * D)), token = numbers(s, SHAPE(1, 1, D)), part[3];
    mica_array h = mica_layer_norm(s, x, MICA_NONE, MICA_NONE, 1e-5f);
    mica_array first = mica_broadcast_to(s, token, SHAPE(b, 1, D));
    h = mica_concatenate(s, (mica_array[]){first, h}, 2, 1); /* [b, l + 1, D] */
    mica_array qkv = mica_matmul(s, mica_reshape(s, h, SHAPE(TIMES(b, PLUS(l, 1)), D)), w);
    must(mica_split(s, qkv, (const int64_t[]){D, 2 * D}, 2, -1, part));
    for (int i = 0; i < 3; i++)
        part[i] = mica_swapaxes(s, mica_reshape(s, part[i], SHAPE(b, PLUS(l, 1), HEADS, D / HEADS)),
                                1, 2);
    mica_array scores = mica_matmul(s, part[0], mica_swapaxes(s, part[1], 2, 3));
    mica_array row = mica_arange(s, 0, (double)PLUS(l, 1), 1, MICA_I32);
    mica_array sees = mica_greater_equal(s, mica_expand_dims(s, row, 1), row);
    scores = mica_where(s, sees, scores, mica_f32(s, -1e9f));
    mica_array a = mica_matmul(s, mica_softmax(s, scores, -1), part[2]);
    a = mica_reshape(s, mica_swapaxes(s, a, 1, 2), SHAPE(b, PLUS(l, 1), D));
    y[0] = mica_slice_axis(s, a, 1, 1, MICA_END_OF_AXIS);
    y[1] = mica_mean(s, a, (const int[]){1}, 1, false);
    y[2] = mica_mean(s, a, (const int[]){0, 1}, 2, true);
    y[3] = mica_slice_axis(s, a, 1, 0, 1);
    return 4;
}

/* Slices from both ends, reversed, in steps; padding, zeros, and repeats. */
static int record_parts(mica_scope *s, mica_array x, int64_t b, int64_t l, mica_array *y) {
    const int64_t start[] = {0, 0, 0}, stop[] = {b, l, D}, step[] = {1, 2, 1};
    y[0] = mica_flip(s, mica_slice_axis(s, x, 1, 0, PLUS(l, -1)), 1);
    y[1] = mica_slice(s, x, start, stop, step);
    y[2] = mica_add(s, mica_roll(s, x, 1, 1), mica_zeros(s, SHAPE(1, l, 1), MICA_F32));
    y[3] = mica_pad(s, x, (const int64_t[]){0, 1, 0}, (const int64_t[]){1, 2, 0}, mica_f32(s, 3));
    y[4] = mica_var(s, mica_repeat(s, x, 2, 1), (const int[]){1}, 1, false, 1);
    y[5] = mica_cumsum(s, mica_tile(s, x, (const int64_t[]){2, 1, 1}, 3), 1, true, false);
    return 6;
}

/* Convolutions and pools over the lengths, and what is left as one row an example. */
static int record_image(mica_scope *s, mica_array x, int64_t b, int64_t l, mica_array *y) {
    mica_array image = mica_reshape(s, x, SHAPE(1, b, l, D)); /* [1, height, width, D] */
    mica_array w = numbers(s, SHAPE(4, 3, 3, D));
    const mica_conv_options options = {
        .padding_lo = {1, 1}, .padding_hi = {1, 1}, .stride = {2, 2}};
    const mica_pool_options window = {.kernel = {2, 2}, .padding_lo = {1, 1}, .padding_hi = {1, 1}};
    mica_array h = mica_conv2d(s, image, w, MICA_CHANNELS_LAST, &options);
    h = mica_pool(s, h, 2, MICA_WINDOW_MAX, MICA_CHANNELS_LAST, &window);
    y[0] = h;
    y[1] = mica_mean(s, mica_flatten(s, h, 1, 2), (const int[]){1}, 1, false);
    y[2] = mica_matmul(
        s, mica_reshape(s, x, SHAPE(b, TIMES(l, D))),
        mica_reshape(s, mica_transpose(s, x, (const int[]){1, 2, 0}), SHAPE(TIMES(l, D), b)));
    return 3;
}

static mica_status step(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                        mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    mica_array mean = mica_mean(s, args[1], (const int[]){0}, 1, true);
    results[0] = mica_add(s, mica_multiply(s, args[0], mica_f32(s, 0.5f)), mean);
    results[1] = mica_subtract(s, args[1], results[0]);
    return MICA_OK;
}

mica_status is_below(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                     mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    const lengths_of *of = user;
    results[0] = mica_less(s, args[1], mica_scalar(s, (double)of->l, MICA_I32));
    return MICA_OK;
}

static mica_status double_it(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    const lengths_of *of = user;
    mica_array x = mica_reshape(s, args[0], SHAPE(TIMES(of->b, of->l), D));
    results[0] = mica_reshape(s, mica_multiply(s, x, mica_f32(s, 1.25f)), SHAPE(of->b, of->l, D));
    results[1] = mica_add(s, args[1], mica_i32(s, 1));
    return MICA_OK;
}

mica_status count_it(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                     mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = mica_multiply(s, args[0], mica_f32(s, 0.5f));
    results[1] = mica_add(s, args[1], mica_i32(s, 1));
    return MICA_OK;
}

mica_status halve_it(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                     mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = mica_multiply(s, args[0], mica_f32(s, 0.5f));
    return MICA_OK;
}

mica_status keep_it(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                    mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = mica_negative(s, args[0]);
    return MICA_OK;
}

/* A scan over the length, a loop that counts to it, and a branch. */
static int record_control(mica_scope *s, mica_array x, int64_t b, int64_t l, mica_array *y) {
    lengths_of of = {b, l};
    mica_array rows = mica_swapaxes(s, x, 0, 1), carried = mica_zeros(s, SHAPE(b, D), MICA_F32);
    must(mica_scan(s, step, NULL, &carried, 1, &rows, 1, NULL, &y[0], &y[1], 1));
    const mica_array init[] = {x, mica_i32(s, 0)};
    mica_array out[2], rounds;
    must(mica_while(s, is_below, double_it, &of, init, 2, NULL, out, &rounds));
    y[2] = mica_add(s, out[0], mica_astype(s, rounds, MICA_F32));
    mica_array pred = mica_greater(s, mica_sum(s, x, NULL, 0, false), mica_f32(s, 0));
    must(mica_if(s, pred, halve_it, keep_it, NULL, &x, 1, &y[3], 1));
    return 4;
}

static const record_fn records[] = {record_encoder, record_parts, record_image, record_control};
enum { RECORDS = sizeof records / sizeof *records };

/* A program of x [b, l, D]; lengths of 0 are symbols. */
static mica_program *build(record_fn record, int64_t b, int64_t l) {
    mica_scope *s = open_scope();
    mica_array y[MAX_RESULTS];
    mica_program *p;
    if (b == 0) b = mica_program_dim(s, "batch");
    if (l == 0) l = mica_program_dim(s, "length");
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(b, l, D));
    int n = record(s, x, b, l, y);
    const mica_param param = {.name = "x", .array = x};
    must(mica_program_build(s, &param, 1, y, (size_t)n, NULL, &p));
    mica_scope_close(&s);
    return p;
}

static const lengths_of lengths[] = {{2, 3}, {5, 7}, {1, 130}, {3, 2}, {2, 3}};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* ---- the same as with fixed lengths ---- */

void expect_same(mica_array got, mica_array want, int record, int i) {
    static float a[1 << 14], b[1 << 14];
    const mc_layout *l = mc_layout_of(got), *m = mc_layout_of(want);
    char x[MC_LAYOUT_TEXT], y[MC_LAYOUT_TEXT];
    if (!mc_layout_same_shape(l, m))
        fail_msg("program %d, result %d: %s, not %s", record, i, mc_layout_text(l, x),
                 mc_layout_text(m, y));
    size_t n = (size_t)mc_layout_size(l);
    must(mica_read(got, a, n * sizeof *a));
    must(mica_read(want, b, n * sizeof *b));
    for (size_t k = 0; k < n; k++) {
        float apart = a[k] < b[k] ? b[k] - a[k] : a[k] - b[k], size = b[k] < 0 ? -b[k] : b[k];
        if (!test_device_is_other() ? memcmp(&a[k], &b[k], sizeof *a) != 0
                                    : !(apart <= 1e-5f * (size + 1)))
            fail_msg("program %d, result %d, element %zu: %g, not %g", record, i, k, (double)a[k],
                     (double)b[k]);
    }
}

static void run_at(mica_executable *x, int record, lengths_of at) {
    mica_scope *s = open_scope();
    mica_array got[MAX_RESULTS], want[MAX_RESULTS];
    mica_program *fixed = build(records[record], at.b, at.l);
    mica_array input = numbers(s, SHAPE(at.b, at.l, D));
    must(mica_eval(s, input));
    must(mica_program_run(fixed, s, &input, want));
    must(mica_executable_run(x, &(mica_input){.name = "x", .array = input}, 1, s, got));
    mica_program *open = build(records[record], 0, 0), *bound;
    const mica_length values[] = {{"batch", at.b}, {"length", at.l}};
    char *text;
    must(mica_program_bind(open, values, 2, &bound));
    must(mica_program_diff(bound, fixed, &text));
    if (at.b > 1 && at.l > 2) assert_string_equal(text, ""); /* node by node */
    mica_free(text);
    mica_program_close(&bound);
    mica_program_close(&open);
    for (size_t i = 0; i < mica_program_result_count(fixed); i++)
        expect_same(got[i], want[i], record, (int)i);
    mica_program_close(&fixed);
    mica_scope_close(&s);
}

static void test_all_that_follows(void **state) {
    (void)state;
    for (int r = 0; r < RECORDS; r++)
        for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++) {
            mica_program *p = build(records[r], 0, 0);
            mica_executable *x;
            must(mica_executable_open(p, &(mica_executable_options){.mode = mode}, &x));
            mica_program_close(&p);
            for (int i = 0; i < LENGTHS; i++)
                run_at(x, r, lengths[i]);
            assert_int_equal(mica_executable_compiles(x),
                             mode == MICA_MODE_EAGER ? 0 : LENGTHS - 1);
            mica_executable_close(&x);
        }
}

/* Through a file, bound for good, and as a plain program. */
static void test_other_ways(void **state) {
    (void)state;
    for (int r = 0; r < RECORDS; r++) {
        mica_program *p = build(records[r], 0, 0), *loaded, *bound;
        void *file;
        size_t bytes;
        must(mica_program_encode(p, NULL, &file, &bytes));
        must(mica_program_decode(device, file, bytes, NULL, &loaded));
        mica_free(file);
        char *text;
        must(mica_program_diff(p, loaded, &text));
        assert_string_equal(text, "");
        mica_free(text);
        const mica_length at[] = {{"length", 5}, {"batch", 3}};
        must(mica_program_bind(loaded, at, 2, &bound));
        assert_int_equal(mica_program_symbol_count(bound), 0);
        mica_scope *s = open_scope();
        mica_program *fixed = build(records[r], 3, 5);
        mica_array x = numbers(s, SHAPE(3, 5, D)), got[MAX_RESULTS], want[MAX_RESULTS];
        must(mica_program_run(fixed, s, &x, want));
        must(mica_program_run(bound, s, &x, got));
        for (size_t i = 0; i < mica_program_result_count(fixed); i++)
            expect_same(got[i], want[i], r, (int)i);
        must(mica_program_run(loaded, s, &x, got));
        for (size_t i = 0; i < mica_program_result_count(fixed); i++)
            expect_same(got[i], want[i], r, (int)i);
        mica_program_close(&fixed);
        mica_program_close(&bound);
        mica_program_close(&loaded);
        mica_program_close(&p);
        mica_scope_close(&s);
    }
}

/* Files of version 5 have primes for lengths: what the version before wrote of these programs. */
static void test_old_files(void **state) {
    (void)state;
    static const char *const paths[RECORDS] = {
        "fuzz/corpus/program/encoder_5", "fuzz/corpus/program/parts_5",
        "fuzz/corpus/program/image_5", "fuzz/corpus/program/loops_5"};
    for (int r = 0; r < RECORDS; r++) {
        mica_program *loaded;
        must(mica_program_load(device, paths[r], NULL, &loaded));
        for (int i = 0; i < LENGTHS; i++) {
            mica_scope *s = open_scope();
            mica_array got[MAX_RESULTS], want[MAX_RESULTS];
            mica_program *fixed = build(records[r], lengths[i].b, lengths[i].l);
            mica_array x = numbers(s, SHAPE(lengths[i].b, lengths[i].l, D));
            must(mica_program_run(fixed, s, &x, want));
            must(mica_program_run(loaded, s, &x, got));
            for (size_t k = 0; k < mica_program_result_count(fixed); k++)
                expect_same(got[k], want[k], r, (int)k);
            mica_program_close(&fixed);
            mica_scope_close(&s);
        }
        mica_program_close(&loaded);
    }
}

static void test_ports(void **state) {
    (void)state;
    mica_program *p = build(record_image, 0, 0);
    mica_port port = {.struct_bytes = sizeof port};
    must(mica_program_get_param(p, 0, &port));
    assert_int_equal(port.shape[0], -1);
    assert_string_equal(port.symbols[0], "batch");
    assert_string_equal(port.symbols[1], "length");
    assert_int_equal(port.shape[2], D);
    assert_null(port.symbols[2]);
    must(mica_program_get_result(p, 0, &port)); /* [1, batch / 2 + ..., length / 2 + ..., 4] */
    assert_int_equal(port.shape[0], 1);
    assert_int_equal(port.shape[1], -1);
    assert_null(port.symbols[1]);
    assert_int_equal(port.shape[3], 4);
    assert_int_equal(mica_program_symbol_count(p), 2);
    assert_string_equal(mica_program_symbol(p, 1), "length");
    assert_null(mica_program_symbol(p, 2));
    mica_program_close(&p);
}

/* Files that were altered: each word of the beginning becomes another one, the hash fitting. */
static void test_altered_files(void **state) {
    (void)state;
    static const uint64_t words[] = {
        0, 1, 2, 17, 4097, UINT64_C(1) << 51, (UINT64_C(1) << 51) + 3, UINT64_MAX};
    enum { HEADER_BYTES = 72, WORDS = sizeof words / sizeof *words };
    mica_program *p = build(record_parts, 0, 0), *loaded;
    void *file;
    size_t bytes, refused = 0;
    must(mica_program_encode(p, NULL, &file, &bytes));
    mica_program_close(&p);
    for (size_t i = 0; i < 40 * WORDS; i++) {
        char *at = (char *)file + HEADER_BYTES + i / WORDS * 8;
        uint64_t was, hash = 0;
        memcpy(&was, at, sizeof was);
        memcpy(at, &words[i % WORDS], sizeof was);
        hash = mc_hash((char *)file + 32, bytes - 32, 0);
        memcpy((char *)file + 24, &hash, sizeof hash);
        refused += mica_program_decode(device, file, bytes, NULL, &loaded) != MICA_OK;
        mica_program_close(&loaded);
        memcpy(at, &was, sizeof was);
    }
    assert_in_range(refused, 20 * WORDS, 40 * WORDS);
    mica_free(file);
}

/* ---- executables ---- */

/* y = x w + bias[i], x f32 [batch, 2], more f32 [batch], w f32 [2, 2]. */
static mica_program *two_inputs(void) {
    mica_scope *s = open_scope();
    int64_t batch = mica_program_dim(s, "batch");
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(batch, 2));
    mica_array more = mica_program_param(s, MICA_F32, SHAPE(batch));
    mica_array w = mica_program_param(s, MICA_F32, SHAPE(2, 2));
    mica_array y = mica_add(s, mica_matmul(s, x, w), mica_expand_dims(s, more, 1));
    const mica_param params[] = {
        {.name = "x", .array = x}, {.name = "more", .array = more}, {.name = "w", .array = w}};
    mica_program *p;
    must(mica_program_build(s, params, 3, &y, 1, NULL, &p));
    mica_scope_close(&s);
    return p;
}

static mica_input data(const char *name, const float *values, size_t n) {
    return (mica_input){.name = name, .data = values, .bytes = n * sizeof *values, MICA_F32};
}

static void expect(mica_array x, const float *want, size_t n) {
    float got[64];
    assert_int_equal(mica_array_size(x), n);
    must(mica_read(x, got, n * sizeof *got));
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("element %zu is %g, not %g", i, (double)got[i], (double)want[i]);
}
#define EXPECT(x, ...) \
    expect(x, (const float[]){__VA_ARGS__}, sizeof((float[]){__VA_ARGS__}) / sizeof(float))

static const float ONE_TO_SIX[6] = {1, 2, 3, 4, 5, 6};

static void test_bytes_say_one_length(void **state) {
    (void)state;
    mica_program *p = two_inputs();
    mica_executable *x;
    mica_array y;
    const mica_executable_options two = {.struct_bytes = sizeof two, .max_plans = 2};
    must(mica_executable_open(p, &two, &x));
    const mica_input w = data("w", ONE_TO_SIX, 4);
    must(mica_executable_set(x, &w));
    must(mica_executable_precompile(x, &(mica_length){"batch", 3}, 1));
    assert_int_equal(mica_executable_compiles(x), 1);
    mica_scope *s = open_scope();
    for (int i = 0; i < 3; i++) { /* 3, 1, 2: two plans are kept */
        const size_t n = (size_t[]){3, 1, 2}[i];
        const mica_input in[] = {data("x", ONE_TO_SIX, 2 * n), data("more", ONE_TO_SIX, n)};
        must(mica_executable_run(x, in, 2, s, &y));
        expect(y, (const float[]){8, 11, 17, 24, 26, 37}, 2 * n);
        assert_int_equal(mica_executable_compiles(x), i + 1);
    }
    const mica_input again[] = {data("x", ONE_TO_SIX, 6), data("more", ONE_TO_SIX, 3)};
    must(mica_executable_run(x, again, 2, s, &y));
    assert_int_equal(mica_executable_compiles(x), 4); /* the first was used longest ago */
    must(mica_executable_run(x, again, 2, s, &y));
    assert_int_equal(mica_executable_compiles(x), 4);

    /* Empty, without data. */
    const mica_input none[] = {{.name = "x", .dtype = MICA_F32},
                               {.name = "more", .dtype = MICA_F32}};
    must(mica_executable_run(x, none, 2, s, &y));
    assert_int_equal(mica_array_dim(y, 0), 0);
    const mica_input other = {.name = "x", .dtype = MICA_I32};
    expect_refused(mica_executable_run(x, &other, 1, s, &y), MICA_EDTYPE,
                   "parameter x is f32[batch,2], given i32[0,2]");

    /* Empty, and queued with other lengths. */
    mica_ticket *tickets[3];
    for (size_t i = 0; i < 3; i++) {
        const mica_input in[] = {data("x", ONE_TO_SIX, 2 * i), data("more", ONE_TO_SIX, i)};
        must(mica_executable_run_async(x, in, 2, &tickets[i]));
    }
    for (size_t i = 0; i < 3; i++) {
        must(mica_ticket_wait(&tickets[i], s, &y));
        assert_int_equal(mica_array_dim(y, 0), i);
    }
    EXPECT(y, 8, 11, 17, 24);
    mica_executable_close(&x);
    mica_program_close(&p);
    mica_scope_close(&s);
}

static void test_lengths_that_are_refused(void **state) {
    (void)state;
    mica_program *p = two_inputs(), *bound;
    mica_executable *x;
    mica_array y;
    mica_scope *s = open_scope();
    must(mica_executable_open(p, NULL, &x));
    must(mica_executable_fill(x, "w", 1));
    mica_input in[] = {data("x", ONE_TO_SIX, 6), data("more", ONE_TO_SIX, 2)};
    expect_refused(mica_executable_run(x, in, 2, s, &y), MICA_ESHAPE,
                   "batch is 3, and axis 0 of more, f32[2], has 2");
    in[0].bytes = 20;
    expect_refused(mica_executable_run(x, in, 2, s, &y), MICA_ESHAPE, "20 bytes are no multiple");
    in[0] = (mica_input){.name = "x", .array = mica_zeros(s, SHAPE(2, 3), MICA_F32)};
    expect_refused(mica_executable_run(x, in, 2, s, &y), MICA_ESHAPE, "f32[2,3] does not fit");
    expect_refused(mica_executable_fill(x, "more", 1), MICA_ESHAPE, "not known before it is set");
    const mica_slot *slots;
    size_t n;
    expect_refused(mica_executable_slots(x, &slots, &n), MICA_EUNSUPPORTED, "symbol batch has no");
    const void *none[3] = {NULL};
    expect_refused(mica_executable_run_slots(x, none, 3), MICA_EUNSUPPORTED, "symbol batch has no");
    mica_length at[] = {{"batch", 3}, {"batch", 3}};
    expect_refused(mica_executable_precompile(x, at, 0), MICA_EINVAL, "no length for batch");
    expect_refused(mica_executable_precompile(x, at, 2), MICA_EINVAL, "batch is there twice");
    at[0] = (mica_length){"batsh", 3};
    expect_refused(mica_program_bind(p, at, 1, &bound), MICA_ENOENT, "no symbol \"batsh\"");
    at[0] = (mica_length){"batch", -3};
    expect_refused(mica_program_bind(p, at, 1, &bound), MICA_EINVAL, "negative");
    mica_program_memory memory = {.struct_bytes = sizeof memory};
    expect_refused(mica_program_get_memory(p, &memory), MICA_EUNSUPPORTED, "symbol batch");
    mica_cost cost = {.struct_bytes = sizeof cost};
    expect_refused(mica_program_get_cost(p, device, &cost), MICA_EUNSUPPORTED, "symbol batch");
    /* Nothing was lost. Slots of the bound program. */
    in[0] = data("x", ONE_TO_SIX, 4);
    must(mica_executable_run(x, in, 2, s, &y));
    EXPECT(y, 4, 4, 9, 9);
    mica_executable_close(&x);
    at[0].length = 2;
    must(mica_program_bind(p, at, 1, &bound));
    must(mica_executable_open(bound, NULL, &x));
    must(mica_executable_fill(x, "w", 1));
    const void *const inputs[] = {ONE_TO_SIX, ONE_TO_SIX, NULL};
    must(mica_executable_run_slots(x, inputs, 3));
    assert_memory_equal(mica_executable_arena(x), ((float[]){4, 4, 9, 9}), 16);
    mica_executable_close(&x);
    mica_program_close(&bound);
    mica_program_close(&p);
    mica_scope_close(&s);
}

/* What cannot follow is refused when the program is built. */
static void test_programs_that_are_refused(void **state) {
    (void)state;
    mica_program *p;
    mica_scope *s = open_scope();
    int64_t n = mica_program_dim(s, "n"), m = mica_program_dim(s, "m");
    assert_int_equal(n, mica_program_dim(s, "n"));
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(n, 4));
    const mica_param param = {.name = "x", .array = x};
    mica_array y =
        mica_add(s, mica_zeros(s, SHAPE(m, 4), MICA_F32), mica_sum(s, x, NULL, 0, false));
    expect_refused(mica_program_build(s, &param, 1, &y, 1, NULL, &p), MICA_EINVAL,
                   "no parameter has symbol m");
    for (int i = 0; i < 2; i++) {
        x = mica_program_param(s, MICA_F32, SHAPE(n));
        mica_array made = mica_program_param(s, MICA_F32, SHAPE(2, i ? PLUS(n, 1) : TIMES(3, n)));
        const mica_param two[] = {{.name = "x", .array = x}, {.name = "made", .array = made}};
        y = mica_add(s, mica_sum(s, x, NULL, 0, false), made);
        expect_refused(mica_program_build(s, two, 2, &y, 1, NULL, &p), MICA_EINVAL,
                       i ? "axis 1 of parameter made is n+1" : "axis 1 of parameter made is 3*n");
    }
    mica_scope_close(&s);
    s = open_scope();
    assert_int_equal(mica_program_dim(s, ""), 0);
    expect_refused(mica_scope_status(s), MICA_EINVAL, "empty");
    mica_scope_close(&s);
    s = open_scope();
    char name[] = "a0";
    for (int i = 0; i < 32; i++, name[1] = (char)('0' + i % 10), name[0] = (char)('a' + i / 10))
        assert_true(mica_program_dim(s, name) > 0);
    assert_int_equal(mica_program_dim(s, "z"), 0);
    expect_refused(mica_scope_status(s), MICA_EINVAL, "z is one symbol too many");
    mica_scope_close(&s);
}

/* A cache that grows: out0 [n, 2] is fed by what a run has behind it. */
static void test_a_cache_grows(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array cache = mica_program_param(s, MICA_F32, SHAPE(mica_program_dim(s, "past"), 2));
    mica_array rows = mica_program_param(s, MICA_F32, SHAPE(mica_program_dim(s, "new"), 2)), y[2];
    y[0] = mica_concatenate(s, (mica_array[]){cache, rows}, 2, 0);
    y[1] = mica_sum(s, y[0], (const int[]){0}, 1, false);
    const mica_param params[] = {{.name = "out0", .array = cache, .donate = true},
                                 {.name = "rows", .array = rows}};
    mica_program *p;
    mica_executable *x;
    must(mica_program_build(s, params, 2, y, 2, NULL, &p));
    must(mica_executable_open(p, NULL, &x));
    mica_program_close(&p);
    mica_array none = mica_zeros(s, SHAPE(0, 2), MICA_F32), kept;
    must(mica_executable_set(x, &(mica_input){.name = "out0", .array = none}));
    mica_ticket *tickets[3];
    for (size_t i = 0; i < 3; i++) {
        const mica_input in = data("rows", ONE_TO_SIX, 2 * (i + 1));
        must(mica_executable_run_async(x, &in, 1, &tickets[i]));
    }
    for (size_t i = 0; i < 3; i++)
        must(mica_ticket_wait(&tickets[i], s, y));
    EXPECT(y[1], 1 + 4 + 9, 2 + 6 + 12);
    assert_int_equal(mica_array_dim(y[0], 0), 6);
    must(mica_executable_get(x, "out0", s, &kept));
    EXPECT(kept, 1, 2, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6);
    char *text;
    must(mica_executable_report(x, &text));
    assert_non_null(strstr(text, "symbols: past 3, new 3; 3 sets of lengths"));
    assert_non_null(strstr(text, "param out0: f32[6,2], 48 bytes, set"));
    assert_non_null(strstr(text, "param rows: f32[new,2]\n"));
    mica_free(text);
    mica_executable_close(&x);
    mica_scope_close(&s);
}

/* A result of a length that varies cannot feed one that does not, whatever runs would give. */
static void test_feeds_that_vary(void **state) {
    (void)state;
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++) {
        mica_scope *s = open_scope();
        int64_t n = mica_program_dim(s, "n");
        mica_array x = mica_program_param(s, MICA_F32, SHAPE(n)), y[2], got[2];
        mica_array out0 = mica_program_param(s, MICA_F32, SHAPE(21));
        const int64_t start[] = {0}, stop[] = {MICA_END_OF_AXIS}, often[] = {1000};
        y[0] = mica_slice(s, x, start, stop, often);
        y[1] = mica_sum(s, out0, NULL, 0, false);
        const mica_param params[] = {{.name = "x", .array = x}, {.name = "out0", .array = out0}};
        mica_program *p;
        mica_executable *exe;
        const char *const names[] = {"often", "sum"};
        must(mica_program_build(s, params, 2, y, 2, &(mica_program_options){.result_names = names},
                                &p));
        must(mica_executable_open(p, &(mica_executable_options){.mode = mode}, &exe));
        expect_refused(mica_executable_feed(exe, "often", "out0"), MICA_ESHAPE,
                       "result often is f32[(n+999)/1000]");
        must(mica_executable_fill(exe, "out0", 2));
        static float many[21000];
        const mica_input some = data("x", many, 21000);
        must(mica_executable_run(exe, &some, 1, s, got)); /* what has 21 now feeds nothing */
        EXPECT(got[1], 42);
        must(mica_executable_run(exe, &some, 1, s, got));
        EXPECT(got[1], 42);
        mica_executable_close(&exe);
        mica_program_close(&p);
        mica_scope_close(&s);
    }
}

/* ---- numbers of their own ---- */

/* Parts of an axis that has a fixed length: rows of a table by what symbols are. */
static void test_rows_of_a_table(void **state) {
    (void)state;
    enum { ROWS = 30000 };
    static float table[ROWS], got[ROWS];
    for (int i = 0; i < ROWS; i++)
        table[i] = (float)i;
    mica_scope *s = open_scope();
    int64_t n = mica_program_dim(s, "n");
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(n)), y[7];
    mica_array t = mica_program_param(s, MICA_F32, SHAPE(ROWS)), none = mica_f32(s, -1);
    y[0] = mica_slice_axis(s, t, 0, PLUS(n, -1), n);
    y[1] = mica_slice_axis(s, t, 0, n, MICA_END_OF_AXIS);
    y[2] = mica_slice_axis(s, t, 0, 100, n);
    y[3] = mica_slice_axis(s, t, 0, n, PLUS(n, 100));
    y[4] = mica_slice_axis(s, t, 0, 0, n);
    y[5] = mica_slice(s, t, (const int64_t[]){PLUS(n, -1)}, (const int64_t[]){MICA_END_OF_AXIS},
                      (const int64_t[]){-1});
    y[6] =
        mica_slice_update(s, t, none, (const int64_t[]){PLUS(n, -1)}, (const int64_t[]){n}, NULL);
    const mica_param params[] = {{.name = "x", .array = x}, {.name = "table", .array = t}};
    mica_program *p;
    mica_executable *exe;
    must(mica_program_build(s, params, 2, y, 7, NULL, &p));
    must(mica_executable_open(p, NULL, &exe));
    const mica_input whole = data("table", table, ROWS);
    must(mica_executable_set(exe, &whole));
    for (int i = 0; i < 4; i++) {
        const int64_t m = (const int64_t[]){20752, 20753, 20754, 500}[i];
        const int64_t first[] = {m - 1, m, 100, m, 0, m - 1, 0};
        const int64_t size[] = {1, ROWS - m, m - 100, 100, m, m, ROWS};
        const mica_input in = data("x", table, (size_t)m);
        must(mica_executable_run(exe, &in, 1, s, y));
        for (int k = 0; k < 7; k++) {
            assert_int_equal(mica_array_size(y[k]), size[k]);
            must(mica_read(y[k], got, (size_t)size[k] * sizeof *got));
            for (int64_t j = 0; j < size[k]; j++) {
                int64_t want = k == 5 ? m - 1 - j : k == 6 && j == m - 1 ? -1 : first[k] + j;
                if (got[j] != (float)want)
                    fail_msg("part %d of %lld rows, element %lld is %g, not %lld", k, (long long)m,
                             (long long)j, (double)got[j], (long long)want);
            }
        }
    }
    mica_executable_close(&exe);
    mica_program_close(&p);
    mica_scope_close(&s);
}

/* A table of a fixed length is not cut at a symbol: what is longer is refused when it is known. */
static void test_short_tables(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    int64_t n = mica_program_dim(s, "n");
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(n, 1));
    mica_array table = mica_arange(s, 0, 5, 1, MICA_F32), y[3];
    y[0] = mica_take(s, table, mica_arange(s, 0, (double)n, 1, MICA_I32), 0);
    y[1] = mica_slice_axis(s, x, 0, 0, PLUS(n, 1)); /* the same at any length */
    y[2] = mica_slice_axis(s, table, 0, 0, n);
    const mica_param param = {.name = "x", .array = x};
    mica_program *p;
    must(mica_program_build(s, &param, 1, y, 3, NULL, &p));
    x = numbers(s, SHAPE(4, 1));
    must(mica_program_run(p, s, &x, y));
    EXPECT(y[0], 0, 1, 2, 3);
    assert_int_equal(mica_array_size(y[1]), 4);
    EXPECT(y[2], 0, 1, 2, 3);
    x = numbers(s, SHAPE(6, 1));
    expect_refused(mica_program_run(p, s, &x, y), MICA_EINVAL,
                   "6 elements from 0 on by 1 along axis 0 of f32[5]");
    mica_program_close(&p);
    mica_scope_close(&s);
}

/* A constant is a constant, however near to what a symbol once was, and lengths beside a symbol may
 * be of any size. */
static void test_constants_beside_symbols(void **state) {
    (void)state;
    static float values[3 * 32000];
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        values[i] = (float)i;
    mica_scope *s = open_scope();
    int64_t n = mica_program_dim(s, "n");
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(n, 32000)), y[2];
    y[0] = mica_slice_axis(s, x, 1, 0, 20800);
    y[1] = mica_flatten(s, mica_reshape(s, y[0], SHAPE(n, 160, 130)), 1, 2);
    const mica_param param = {.name = "x", .array = x};
    mica_program *p;
    must(mica_program_build(s, &param, 1, y, 2, NULL, &p));
    x = mica_from_data(s, values, MICA_F32, SHAPE(3, 32000));
    must(mica_program_run(p, s, &x, y));
    for (int i = 0; i < 2; i++) {
        float got[2];
        assert_int_equal(mica_array_dim(y[i], 0), 3);
        assert_int_equal(mica_array_dim(y[i], 1), 20800);
        mica_array ends =
            mica_slice(s, y[i], (const int64_t[]){2, 0}, NULL, (const int64_t[]){1, 20799});
        must(mica_read(ends, got, sizeof got));
        assert_true(got[0] == 64000 && got[1] == 64000 + 20799);
    }
    mica_program_close(&p);
    mica_scope_close(&s);
    s = open_scope();
    n = mica_program_dim(s, "n");
    x = mica_program_param(s, MICA_F32, SHAPE(n, 256, 9, 9));
    y[0] = mica_flatten(s, x, 0, -1);
    y[1] = mica_flatten(s, x, 1, -1);
    const mica_param image = {.name = "x", .array = x};
    must(mica_program_build(s, &image, 1, y, 2, NULL, &p));
    x = mica_from_data(s, values, MICA_F32, SHAPE(2, 256, 9, 9));
    must(mica_program_run(p, s, &x, y));
    assert_int_equal(mica_array_dim(y[0], 0), 2 * 256 * 9 * 9);
    assert_int_equal(mica_array_dim(y[1], 1), 256 * 9 * 9);
    mica_program_close(&p);
    mica_scope_close(&s);
}

/* What C's operators make of a length is refused by the op that gets it. */
static void test_lengths_by_c(void **state) {
    (void)state;
    for (int i = 0; i < 11; i++) {
        mica_scope *s = open_scope();
        int64_t n = mica_program_dim(s, "n"), m = mica_program_dim(s, "m");
        const int64_t made[] = {n + 1, 2 * n, n * 768, n / 2, n - m, n / 3 + 5, -n};
        mica_array x = i < 7    ? mica_zeros(s, SHAPE(made[i], 2), MICA_F32)
                       : i < 8  ? mica_i32(s, (int32_t)n)
                       : i < 9  ? mica_f32(s, 1.0f / (float)n)
                       : i < 10 ? mica_arange(s, (double)n + 1, (double)n + 11, 1, MICA_I64)
                                : mica_rms_norm(s, mica_zeros(s, SHAPE(2, 2), MICA_F32), MICA_NONE,
                                                1 / (float)n);
        if (mica_valid(x)) fail_msg("case %d", i);
        expect_refused(mica_scope_status(s), MICA_EINVAL,
                       i < 7 || i > 8 ? "mica_dim_add" : "was cut to");
        mica_scope_close(&s);
    }
    mica_scope *s = open_scope(), *other = open_scope();
    int64_t n = mica_program_dim(s, "n");
    assert_false(mica_valid(mica_zeros(other, SHAPE(n), MICA_F32)));
    expect_refused(mica_scope_status(other), MICA_EINVAL, "a symbol of another scope");
    mica_scope_close(&other);
    other = open_scope();
    assert_false(mica_valid(mica_scalar(other, (double)n, MICA_I32)));
    mica_scope_close(&other);
    mica_scope_close(&s);
}

/* Lengths that are known to be equal, and those that are not. */
static void test_arithmetic(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    int64_t n = mica_program_dim(s, "n"), m = mica_program_dim(s, "m"), sum = PLUS(n, m);
    assert_int_equal(TIMES(2, PLUS(n, 3)), PLUS(PLUS(n, n), 6));
    assert_int_equal(mica_dim_subtract(sum, m), n);
    assert_int_equal(TIMES(sum, sum), PLUS(PLUS(TIMES(n, n), TIMES(m, m)), TIMES(TIMES(2, m), n)));
    assert_int_equal(mica_dim_divide(TIMES(sum, sum), sum), sum);
    assert_int_equal(mica_dim_divide(PLUS(TIMES(6, n), 5), 3), PLUS(TIMES(2, n), 1));
    assert_int_equal(mica_dim_divide(TIMES(n, m), m), n);
    assert_int_equal(mica_dim_subtract(n, n), 0);
    assert_int_equal(mica_dim_divide(-7, 2), -4);
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(n)), y;
    y = mica_add(s, x, mica_program_param(s, MICA_F32, SHAPE(m)));
    assert_false(mica_valid(y));
    expect_refused(mica_scope_status(s), MICA_ESHAPE, "f32[n] and f32[m] do not broadcast");
    mica_scope_close(&s);
    s = open_scope();
    n = mica_program_dim(s, "n");
    x = mica_program_param(s, MICA_F32, SHAPE(3, n));
    assert_false(mica_valid(mica_matmul(s, x, mica_zeros(s, SHAPE(5, 2), MICA_F32))));
    expect_refused(mica_scope_status(s), MICA_ESHAPE, "last axis of a (n) and");
    mica_scope_close(&s);
}

/* The scope refused what it was last given. */
static void refused(mica_scope **s, mica_array x, mica_status want, const char *text) {
    assert_false(mica_valid(x));
    expect_refused(mica_scope_status(*s), want, text);
    mica_scope_close(s);
    *s = open_scope();
}

/* A length that is too large an expression is no number, wherever it goes. */
static void test_lengths_that_fail(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    int64_t shape[7], all = 1;
    for (int i = 0; i < 7; i++) {
        shape[i] = mica_program_dim(s, (const char[]){(char)('a' + i), 0});
        all = TIMES(all, shape[i]);
    }
    mica_array x = mica_program_param(s, MICA_F32, shape, 7);
    refused(&s, mica_mean(s, x, NULL, 0, false), MICA_ESHAPE, "too large an expression");
    (void)mica_program_dim(s, "a");
    refused(&s, mica_scalar(s, (double)all, MICA_F32), MICA_ESHAPE, "too large an expression");
    (void)mica_program_dim(s, "a");
    refused(&s, mica_arange(s, (double)all, (double)all + 10, 1, MICA_I64), MICA_ESHAPE,
            "too large an expression");
    mica_scope_close(&s);
}

/* Divisions by what is below 0, and those whose rest is too large, fail. */
static void test_divisions(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    int64_t n = mica_program_dim(s, "n"), y[9], x[10], a = 0, b = 0;
    for (int i = 0; i < 9; i++)
        y[i] = mica_program_dim(s, (const char[]){'y', (char)('0' + i), 0});
    for (int i = 0; i < 10; i++) {
        x[i] = mica_program_dim(s, (const char[]){'x', (char)('0' + i), 0});
        if (x[i] > x[0]) continue;
        int64_t first = x[i]; /* the smallest handle is the first term's */
        x[i] = x[0];
        x[0] = first;
    }
    for (int i = 0; i < 9; i++)
        for (int j = i; j < 9 && (i < 8 || j < 8); j++)
            a = PLUS(a, TIMES(y[i], y[j]));
    a = PLUS(a, x[0]); /* 44 terms of degree 2, which stay, as do 9 */
    for (int i = 0; i < 10; i++)
        b = PLUS(b, x[i]);
    assert_true(mica_valid(mica_zeros(s, SHAPE(a, b), MICA_F32)));
    const int64_t bad[] = {mica_dim_divide(a, b), mica_dim_divide(n, -2),
                           mica_dim_divide(PLUS(TIMES(4, n), 1), -2),
                           mica_dim_divide(PLUS(n, 1), TIMES(-1, n)), mica_dim_divide(n, 0)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (bad[i] != bad[4]) fail_msg("division %zu", i);
        refused(&s, mica_zeros(s, SHAPE(bad[i], mica_program_dim(s, "n")), MICA_F32), MICA_ESHAPE,
                "divided by 0 or less");
    }
    mica_scope_close(&s);
}

/* What needs a number is refused a length with symbols, not given another number. */
static void test_numbers_that_are_needed(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    int64_t n = mica_program_dim(s, "n");
    mica_array q = mica_program_param(s, MICA_F32, SHAPE(1, 2, 3, n));
    assert_true(mica_valid(mica_sdpa(s, q, q, q, &(mica_sdpa_options){.scale = 0.5f})));
    refused(&s, mica_sdpa(s, q, q, q, NULL), MICA_EUNSUPPORTED,
            "sdpa without a scale: a length is n");
    n = mica_program_dim(s, "n");
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(n));
    const int64_t step[] = {mica_dim_subtract(0, n)};
    refused(&s, mica_slice(s, x, NULL, NULL, step), MICA_EUNSUPPORTED, "the step of axis 0");
    n = mica_program_dim(s, "n");
    q = mica_program_param(s, MICA_F32, SHAPE(1, 2, 1, n));
    mica_array v = mica_program_param(s, MICA_F32, SHAPE(1, 2, 1, 3)), out[2], dq;
    mica_array g = mica_program_param(s, MICA_F32, SHAPE(1, 2, 1));
    out[0] = mica_gated_delta(s, q, q, v, g, g, MICA_NONE, &out[1]);
    expect_refused(mica_grad(s, mica_sum(s, out[0], NULL, 0, false), MICA_NONE, &q, 1, &dq),
                   MICA_EUNSUPPORTED, "gated_delta: a length is n");
    mica_scope_close(&s);
}

/* A number that is a length has no value but in its program. */
static void test_lengths_elsewhere(void **state) {
    (void)state;
    mica_scope *s = open_scope(), *other = open_scope();
    float value;
    mica_program *p;
    mica_executable *x;
    int64_t n = mica_program_dim(s, "n");
    mica_array length = mica_scalar(s, (double)n, MICA_F32), y, in;
    expect_refused(mica_eval(s, length), MICA_EINVAL, "the length of a symbol");
    expect_refused(mica_read(length, &value, sizeof value), MICA_EINVAL, "the length of a symbol");
    refused(&other, mica_negative(other, length), MICA_EINVAL, "a symbol of another scope");
    (void)mica_program_dim(other, "m"); /* one of its own does not help */
    refused(&other, mica_negative(other, length), MICA_EINVAL, "a symbol of another scope");
    (void)mica_program_dim(other, "m");
    refused(&other, mica_zeros(other, SHAPE(n), MICA_F32), MICA_EINVAL,
            "a symbol of another scope");
    (void)mica_program_dim(other, "m");
    refused(&other, mica_program_param(other, MICA_F32, SHAPE(n)), MICA_EINVAL,
            "a symbol of another scope");
    refused(&other, mica_program_param(other, MICA_F32, SHAPE(n)), MICA_EINVAL,
            "a symbol of another scope");
    (void)mica_program_dim(other, "n"); /* the same one does */
    assert_true(mica_valid(mica_negative(other, length)));
    in = mica_program_param(other, MICA_F32, NULL, 0);
    y = mica_negative(other, in);
    must(mica_program_build(other, &(mica_param){.name = "x", .array = in}, 1, &y, 1, NULL, &p));
    expect_refused(mica_program_run(p, s, &length, &y), MICA_EINVAL, "without a value");
    must(mica_executable_open(p, NULL, &x));
    assert_int_equal(mica_executable_set(x, &(mica_input){.name = "x", .array = length}),
                     MICA_EINVAL);
    mica_executable_close(&x);
    mica_program_close(&p);
    mica_scope_close(&other);
    mica_scope_close(&s);
}

/* Neither a file nor a program takes the whole table, and it is said that it is full. */
static void test_many_lengths(void **state) {
    (void)state;
    enum { MANY = 4200, FULL = 1 << 15 };
    static mica_array y[MANY];
    void *file;
    size_t bytes;
    mica_program *p, *loaded;
    mica_scope *s = open_scope();
    int64_t n = mica_program_dim(s, "n"), last = n, nested = n;
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(n));
    for (int i = 0; i < MANY; i++)
        y[i] = mica_slice_axis(s, x, 0, i + 1, MICA_END_OF_AXIS);
    must(mica_program_build(s, &(mica_param){.name = "x", .array = x}, 1, y, MANY, NULL, &p));
    must(mica_program_encode(p, NULL, &file, &bytes));
    expect_refused(mica_program_decode(device, file, bytes, NULL, &loaded), MICA_EFORMAT,
                   "too many different lengths");
    mica_free(file);
    mica_program_close(&p);
    uint64_t made = mc_dims_made();
    assert_true(mc_dim_less(TIMES(n, 3), TIMES(n, 5)));
    assert_int_equal(mc_dims_made() - made, 2); /* what is compared, not its difference */
    for (int i = 0; i < 8; i++)
        nested = PLUS(mica_dim_divide(nested, 3), mica_dim_divide(nested, 5));
    assert_int_equal(nested, MC_DIM_NONE); /* it has the symbol 2^8 times */
    for (int i = 0; i < FULL && last != MC_DIM_NONE; i++)
        last = PLUS(n, MANY + i);
    refused(&s, mica_zeros(s, SHAPE(last), MICA_F32), MICA_ENOMEM, "is full");
    assert_true(mica_valid(mica_zeros(s, SHAPE(PLUS(mica_program_dim(s, "n"), 1)), MICA_F32)));
    mica_scope_close(&s);
}

/* Old files: words that became others, and more axes than programs had. */
static void test_altered_old_files(void **state) {
    (void)state;
    static const int64_t words[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX, (int64_t)1 << 50, -1};
    enum { HEADER_BYTES = 72, WORDS = sizeof words / sizeof *words };
    static char file[1 << 13];
    FILE *f = fopen("fuzz/corpus/program/parts_5", "rb");
    assert_non_null(f);
    const size_t bytes = fread(file, 1, sizeof file, f);
    assert_int_equal(fclose(f), 0);
    for (size_t at = HEADER_BYTES; at + 8 <= bytes; at += 8)
        for (int i = 0; i < WORDS; i++) {
            mica_program *loaded;
            uint64_t was, hash;
            memcpy(&was, file + at, sizeof was);
            memcpy(file + at, &words[i], sizeof was);
            hash = mc_hash(file + 32, bytes - 32, 0);
            memcpy(file + 24, &hash, sizeof hash);
            (void)mica_program_decode(device, file, bytes, NULL, &loaded);
            mica_program_close(&loaded);
            memcpy(file + at, &was, sizeof was);
        }
    mica_scope *s = open_scope();
    mc_arena arena = {0};
    mc_primes *primes;
    int64_t n = mica_program_dim(s, "n"), dim;
    must(mc_primes_open(&arena, "old", &primes));
    assert_true(mc_primes_symbol(primes, 20753, n));
    mica_status status = MICA_OK;
    int i = 0;
    for (; status == MICA_OK && i < 1000; i++)
        status = mc_primes_add(primes, mica_program_param(s, MICA_F32, SHAPE(PLUS(n, i), 100 + i)));
    expect_refused(status, MICA_EFORMAT, "old: too many different lengths");
    assert_int_equal(i, 513);
    must(mc_primes_dim(primes, 20753 + 400, &dim));
    assert_int_equal(dim, PLUS(n, 400));
    must(mc_primes_dim(primes, 300, &dim));
    assert_int_equal(dim, 300);
    mc_primes_close(primes);
    mc_arena_deinit(&arena);
    mica_scope_close(&s);
}

static mica_status same_shape(void *user, const int64_t *numbers, int n_numbers,
                              const mica_shape *in, int n_in, mica_shape *out) {
    (void)user, (void)numbers, (void)n_numbers, (void)n_in;
    *out = in[0];
    return MICA_OK;
}

/* The first number, modulo 1000, plus the second, in all places. */
static mica_status fill_numbers(void *user, const int64_t *numbers, int n_numbers,
                                const mica_shape *in, const void *const *data, int n_in,
                                const mica_shape *out, void *result) {
    (void)user, (void)n_numbers, (void)in, (void)data, (void)n_in;
    for (int64_t i = 0; i < out->shape[0]; i++)
        ((float *)result)[i] = (float)(numbers[0] % 1000 + numbers[1]);
    return MICA_OK;
}

/* Large numbers that are no lengths, beside symbols and without them, and through files. */
static void test_large_numbers(void **state) {
    (void)state;
    const mica_custom_op op = {.name = "symbols.fill", .infer = same_shape, .run = fill_numbers};
    must(mica_custom_register(&op));
    for (int i = 0; i < 2; i++) {
        mica_scope *s = open_scope();
        int64_t n = i == 0 ? mica_program_dim(s, "n") : 3;
        mica_array x = mica_program_param(s, MICA_F32, SHAPE(n)), y, got;
        y = mica_custom(s, "symbols.fill", (const int64_t[]){INT64_C(1000000000000000123), n}, 2,
                        &x, 1);
        if (i == 1)
            y = mica_add(s, y,
                         mica_astype(s, mica_arange(s, 0x1p51, 0x1p51 + 3, 1, MICA_I64), MICA_F32));
        mica_program *p, *loaded;
        void *file;
        size_t bytes;
        must(mica_program_build(s, &(mica_param){.name = "x", .array = x}, 1, &y, 1, NULL, &p));
        must(mica_program_encode(p, NULL, &file, &bytes));
        must(mica_program_decode(device, file, bytes, NULL, &loaded));
        mica_array in = numbers(s, SHAPE(3));
        must(mica_program_run(loaded, s, &in, &got));
        float want = i == 0 ? 126 : 0x1p51f;
        EXPECT(got, want, want, want);
        mica_free(file);
        mica_program_close(&loaded);
        mica_program_close(&p);
        mica_scope_close(&s);
    }
}

/* Rows that overlap, one for each place of a length. */
static void test_strides_of_symbols(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    int64_t n = mica_program_dim(s, "n");
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(n)), z = mica_arange(s, 0, 6, 1, MICA_F32);
    mica_array y = mica_as_strided(s, z, (const int64_t[]){n, 2}, (const int64_t[]){1, 1}, 2, 1),
               got;
    mica_program *p;
    must(mica_program_build(s, &(mica_param){.name = "x", .array = x}, 1, &y, 1, NULL, &p));
    mica_array in = numbers(s, SHAPE(3));
    must(mica_program_run(p, s, &in, &got));
    EXPECT(got, 1, 2, 2, 3, 3, 4);
    in = numbers(s, SHAPE(5));
    expect_refused(mica_program_run(p, s, &in, &got), MICA_EINVAL, "reaches outside");
    mica_program_close(&p);
    x = mica_program_param(s, MICA_F32, SHAPE(2, n));
    y = mica_rope(s, x, mica_i32(s, 0), MICA_NONE, &(mica_rope_options){.dims = 4});
    assert_true(mica_valid(y));
    refused(&s, mica_rope(s, x, mica_i32(s, 0), MICA_NONE, NULL), MICA_EUNSUPPORTED,
            "rope without dims: a length is n");
    mica_scope_close(&s);
}

/* Numbers of 32 and 64 bits, signed and not. */
static void test_whole_numbers(void **state) {
    (void)state;
    static const mica_dtype dtypes[] = {MICA_I32, MICA_I64, MICA_U32, MICA_U64, MICA_F32};
    enum { N = sizeof dtypes / sizeof *dtypes };
    mica_scope *s = open_scope();
    int64_t n = mica_program_dim(s, "n");
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(n)), y[2 * N];
    for (int i = 0; i < N; i++) {
        y[i] = mica_astype(s, mica_scalar(s, (double)TIMES(2, n), dtypes[i]), MICA_F32);
        y[N + i] = mica_astype(s, mica_scalar(s, 1e9, dtypes[i]), MICA_F32);
    }
    const mica_param param = {.name = "x", .array = x};
    mica_program *p;
    must(mica_program_build(s, &param, 1, y, 2 * N, NULL, &p));
    x = numbers(s, SHAPE(5));
    must(mica_program_run(p, s, &x, y));
    for (int i = 0; i < N; i++) {
        EXPECT(y[i], 10);
        EXPECT(y[N + i], 1e9f);
    }
    mica_program_close(&p);
    mica_scope_close(&s);
}

/* ---- runs that keep what they were given ---- */

typedef mica_status run_fn(const mica_program *p, mica_scope *into, const mica_array *args,
                           mica_array *results);

static mica_status launch_and_wait(const mica_program *p, mica_scope *into, const mica_array *args,
                                   mica_array *results) {
    mc_fence fence;
    mica_status status = mc_program_launch(p, into, args, results, &fence);
    return status == MICA_OK ? mc_device_wait(device, fence) : status;
}

/* y = x + x[i], x donated: a wrong index is told when it is computed. */
static void check_kept(run_fn *run, bool keeps) {
    mica_scope *s = open_scope();
    int64_t n = mica_program_dim(s, "n");
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(n)),
               i = mica_program_param(s, MICA_I32, SHAPE(1)),
               y = mica_add(s, x, mica_take(s, x, i, 0));
    const mica_param params[] = {{.name = "x", .array = x, .donate = true},
                                 {.name = "i", .array = i}};
    mica_program *p;
    must(mica_program_build(s, params, 2, &y, 1, NULL, &p));
    assert_int_equal(mica_program_symbol_count(p), 1);
    for (int64_t length = 3; length < 6; length++) {
        const float given[] = {1, 2, 3, 4, 5};
        const int32_t last = (int32_t)length - 1, past = (int32_t)length;
        mica_array args[] = {mica_from_data(s, given, MICA_F32, SHAPE(length)),
                             mica_from_data(s, &past, MICA_I32, SHAPE(1))};
        mica_array donated = args[0];
        float got[5];
        expect_refused(run(p, s, args, &y), MICA_EINVAL, "");
        assert_false(mica_valid(y));
        must(mica_scope_status(s));
        if (keeps) {
            must(mica_read(donated, got, (size_t)length * sizeof *got));
            assert_memory_equal(got, given, (size_t)length * sizeof *got);
        } else {
            assert_int_equal(mica_read(donated, got, (size_t)length * sizeof *got), MICA_EINVAL);
            mica_scope_clear_error(s);
            args[0] = mica_from_data(s, given, MICA_F32, SHAPE(length));
        }
        args[1] = mica_from_data(s, &last, MICA_I32, SHAPE(1));
        must(run(p, s, args, &y));
        must(mica_read(y, got, (size_t)length * sizeof *got));
        for (int64_t k = 0; k < length; k++)
            assert_true(got[k] == given[k] + given[length - 1]);
        assert_int_equal(mica_read(args[0], got, (size_t)length * sizeof *got), MICA_EINVAL);
        mica_scope_clear_error(s);
    }
    mica_program_close(&p);
    mica_scope_close(&s);
}

static void test_kept_arguments(void **state) {
    (void)state;
    check_kept(mc_program_run_kept, !device->backend->moves_donated);
    if (!device->backend->late) check_kept(launch_and_wait, true); /* else a wait tells of it */
    check_kept(mica_program_run, false);
}

/* ---- without memory ---- */

static bool run_all(void *arg) {
    (void)arg;
    mica_scope *s = NULL;
    mica_program *p = NULL, *loaded = NULL;
    mica_executable *x = NULL;
    void *file = NULL;
    size_t bytes;
    bool ok = mica_scope_open(device, &s) == MICA_OK;
    if (ok) {
        int64_t n = mica_program_dim(s, "n");
        mica_array in = mica_program_param(s, MICA_F32, SHAPE(n, 2));
        mica_array y = mica_reshape(s, mica_square(s, in), SHAPE(TIMES(2, n)));
        const mica_param param = {.name = "x", .array = in};
        const mica_input input = data("x", ONE_TO_SIX, 6);
        ok = mica_program_build(s, &param, 1, &y, 1, NULL, &p) == MICA_OK &&
             mica_program_encode(p, NULL, &file, &bytes) == MICA_OK &&
             mica_program_decode(device, file, bytes, NULL, &loaded) == MICA_OK &&
             mica_executable_open(loaded, NULL, &x) == MICA_OK &&
             mica_executable_precompile(x, &(mica_length){"n", 2}, 1) == MICA_OK &&
             mica_executable_set_extent(x, "n", 2) == MICA_OK &&
             mica_executable_run(x, &input, 1, s, &y) == MICA_OK;
    }
    mica_executable_close(&x);
    mica_program_close(&loaded);
    mica_program_close(&p);
    mica_free(file);
    mica_scope_close(&s);
    test_forget_plans(device);
    return ok;
}

static void test_each_allocation_fails(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* its thread allocates, too */
    assert_true(test_fail_each_allocation(run_all, NULL) > 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_that_follows),
        cmocka_unit_test(test_other_ways),
        cmocka_unit_test(test_old_files),
        cmocka_unit_test(test_ports),
        cmocka_unit_test(test_altered_files),
        cmocka_unit_test(test_bytes_say_one_length),
        cmocka_unit_test(test_lengths_that_are_refused),
        cmocka_unit_test(test_programs_that_are_refused),
        cmocka_unit_test(test_a_cache_grows),
        cmocka_unit_test(test_feeds_that_vary),
        cmocka_unit_test(test_rows_of_a_table),
        cmocka_unit_test(test_short_tables),
        cmocka_unit_test(test_constants_beside_symbols),
        cmocka_unit_test(test_lengths_by_c),
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_lengths_that_fail),
        cmocka_unit_test(test_divisions),
        cmocka_unit_test(test_numbers_that_are_needed),
        cmocka_unit_test(test_lengths_elsewhere),
        cmocka_unit_test(test_large_numbers),
        cmocka_unit_test(test_strides_of_symbols),
        cmocka_unit_test(test_kept_arguments),
        cmocka_unit_test(test_many_lengths),
        cmocka_unit_test(test_altered_old_files),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_extents_of_rows_apart),
        cmocka_unit_test(test_rows_that_mix),
        cmocka_unit_test(test_each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
