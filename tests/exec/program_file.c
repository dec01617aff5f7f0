/* Programs saved and loaded: the same bits for every op, constants inside and by their names, and
 * files that are not whole or do not fit. */
#include <mica/mica.h>

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "device/device.h"
#include "exec/expect.h"
#include "graph/graph.h"
#include "graph/graphs.h"
#include "op/integer.h"

enum { MAX_VALUE_BYTES = 1 << 16, HASHED = 32, MUTATIONS = 2000 };
enum { ROWS = 40, COLUMNS = 200, TERMS = 400 }; /* of a product */

static mica_device *device;
static char *dir, *path;

static int open_device(void **state) {
    (void)state;
    dir = test_temp_dir();
    path = test_format("%s/a.program", dir);
    return (int)test_device_open(&(mica_device_options){.threads = 1}, &device);
}

static int close_device(void **state) {
    (void)state;
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
    free(path);
    test_temp_dir_remove(dir);
    return 0;
}

/* ---- the same bits ---- */

static mica_program *build(const test_graph *g) {
    mica_param params[4];
    mica_array results[TEST_GRAPH_RESULTS];
    mica_program *program;
    for (size_t i = 0; i < g->ports.n_params; i++)
        params[i] = (mica_param){g->params[i].name, {g->s, g->params[i].node}, g->params[i].donate};
    for (size_t i = 0; i < g->ports.n_results; i++)
        results[i] = (mica_array){g->s, g->results[i]};
    must(mica_program_build(g->s, params, g->ports.n_params, results, g->ports.n_results, NULL,
                            &program));
    return program;
}

static mica_array copy(mica_scope *into, mica_array x) {
    static char bytes[MAX_VALUE_BYTES];
    const mc_layout *l = mc_layout_of(x);
    size_t n = (size_t)mc_layout_bytes(l);
    assert_true(n <= sizeof bytes);
    must(mica_read(x, bytes, n));
    return mica_from_data(into, bytes, l->dtype, l->shape, l->ndim);
}

static void run(const mica_program *p, const test_graph *g, mica_scope *into, mica_array *results) {
    const mica_array args[] = {copy(into, g->x), copy(into, g->k), copy(into, g->cache)};
    must(mica_program_run(p, into, args, results));
}

static void expect_same_values(mica_array x, mica_array y) {
    static char a[MAX_VALUE_BYTES], b[MAX_VALUE_BYTES];
    size_t n = (size_t)mc_layout_bytes(mc_layout_of(x));
    assert_true(n <= sizeof a);
    assert_int_equal(mica_array_dtype(x), mica_array_dtype(y));
    assert_true(mc_layout_same_shape(mc_layout_of(x), mc_layout_of(y)));
    must(mica_read(x, a, n));
    must(mica_read(y, b, n));
    assert_memory_equal(a, b, n);
}

static void expect_same(const mica_program *a, const mica_program *b, const test_graph *g) {
    mica_scope *into;
    mica_array x[TEST_GRAPH_RESULTS], y[TEST_GRAPH_RESULTS];
    must(mica_scope_open(device, &into));
    run(a, g, into, x);
    run(b, g, into, y);
    for (size_t i = 0; i < g->ports.n_results; i++)
        expect_same_values(x[i], y[i]);
    mica_scope_close(&into);
}

static void expect_same_ports(const mica_program *a, const mica_program *b) {
    mica_port x, y;
    assert_int_equal(mica_program_param_count(a), mica_program_param_count(b));
    assert_int_equal(mica_program_result_count(a), mica_program_result_count(b));
    for (size_t i = 0; i < mica_program_param_count(a); i++) {
        must(mica_program_get_param(a, i, &x));
        must(mica_program_get_param(b, i, &y));
        assert_string_equal(x.name, y.name);
        assert_true(x.donate == y.donate && x.dtype == y.dtype && x.ndim == y.ndim);
    }
    for (size_t i = 0; i < mica_program_result_count(a); i++) {
        must(mica_program_get_result(a, i, &x));
        must(mica_program_get_result(b, i, &y));
        assert_string_equal(x.name, y.name);
    }
}

/* All ops, a part at a time and together. */
static void test_every_op_computes_the_same_bits(void **state) {
    (void)state;
    test_graph g;
    for (size_t i = 0; i <= test_graph_n_parts; i++) {
        test_graph_open(&g, device, i < test_graph_n_parts ? &test_graph_parts[i] : NULL);
        const mica_named_array named[] = {{"k", g.k}, {"model.w", g.w}};
        const mica_program_file_options options = {.constants = named, .n_constants = 2};
        for (int by_name = 0; by_name < 2; by_name++) {
            const mica_program_file_options *o = by_name ? &options : NULL;
            mica_program *first = build(&g), *second;
            must(mica_program_save(first, path, o));
            must(mica_program_load(device, path, o, &second));
            must(mica_program_verify(first));
            must(mica_program_verify(second));
            expect_same_ports(first, second);
            expect_same(first, second, &g);
            mica_program_close(&first);
            mica_program_close(&second);
        }
        test_graph_close(&g);
    }
}

/* What is loaded outlives the constants that it was given, and is saved as the same bytes. */
static void test_what_was_loaded_is_saved_again(void **state) {
    (void)state;
    test_graph g;
    mica_program *first, *second;
    void *a, *b;
    size_t a_bytes, b_bytes;
    char *text, *again;
    test_graph_open(&g, device, &test_graph_parts[6]);
    const mica_named_array named = {"model.w", g.w};
    const mica_program_file_options options = {.constants = &named, .n_constants = 1};
    first = build(&g);
    must(mica_program_encode(first, &options, &a, &a_bytes));
    must(mica_program_decode(device, a, a_bytes, &options, &second));
    must(mica_program_encode(second, &options, &b, &b_bytes));
    assert_int_equal(a_bytes, b_bytes);
    assert_memory_equal(a, b, a_bytes);
    must(mica_program_print(first, &text));
    must(mica_program_print(second, &again));
    assert_string_equal(text, again);
    assert_non_null(strstr(text, "param %2 cache donated\n"));
    assert_non_null(strstr(text, "\nresult %"));
    test_graph_close(&g);
    mica_program_close(&first);
    mica_scope *s;
    must(mica_scope_open(device, &s));
    mica_array results[TEST_GRAPH_RESULTS];
    test_graph other;
    test_graph_open(&other, device, &test_graph_parts[0]);
    run(second, &other, s, results);
    test_graph_close(&other);
    mica_scope_close(&s);
    mica_program_close(&second);
    mica_free(a);
    mica_free(b);
    mica_free(text);
    mica_free(again);
}

/* ---- constants by their names ---- */

/* y = x + w, w [2, 2]. */
static mica_program *add_constant(mica_scope *s, mica_array w) {
    mica_program *program;
    mica_array x = mica_program_param(s, MICA_F32, (int64_t[]){2, 2}, 2), y = mica_add(s, x, w);
    must(mica_program_build(s, &(mica_param){"x", x, false}, 1, &y, 1, NULL, &program));
    return program;
}

static mica_array matrix(mica_scope *s, float first) {
    const float values[] = {first, 1, 2, 3};
    return mica_from_data(s, values, MICA_F32, (int64_t[]){2, 2}, 2);
}

static void test_other_values_for_a_name(void **state) {
    (void)state;
    mica_scope *s;
    must(mica_scope_open(device, &s));
    mica_array w = matrix(s, 5), x = matrix(s, 0), y, lazy = mica_negative(s, x);
    mica_program *program = add_constant(s, w), *loaded;
    mica_named_array named[] = {{"unused", x}, {"w", w}};
    const mica_program_file_options options = {.constants = named, .n_constants = 2};
    must(mica_program_save(program, path, &options));
    named[1].array = lazy; /* evaluated */
    must(mica_program_load(device, path, &options, &loaded));
    must(mica_program_run(loaded, s, &x, &y));
    float got[4];
    must(mica_read(y, got, sizeof got));
    for (int i = 0; i < 4; i++)
        assert_float_equal(got[i], 0, 0);
    mica_program_close(&program);
    mica_program_close(&loaded);
    mica_scope_close(&s);
}

/* The same memory under another layout is another constant. */
static void test_a_view_of_a_named_constant_is_inside(void **state) {
    (void)state;
    mica_scope *s;
    must(mica_scope_open(device, &s));
    mica_array w = matrix(s, 5), x = matrix(s, 0), y, turned = mica_transpose(s, w, NULL);
    must(mica_eval(s, turned));
    mica_program *program = add_constant(s, turned), *loaded;
    const mica_named_array named = {"w", w};
    must(mica_program_save(program, path,
                           &(mica_program_file_options){.constants = &named, .n_constants = 1}));
    must(mica_program_load(device, path, NULL, &loaded)); /* nothing is missing */
    must(mica_program_run(loaded, s, &x, &y));
    float got[4];
    must(mica_read(y, got, sizeof got));
    assert_float_equal(got[1], 3, 0);
    assert_float_equal(got[2], 3, 0);
    mica_program_close(&program);
    mica_program_close(&loaded);
    mica_scope_close(&s);
}

static void expect_unloaded(const mica_named_array *named, size_t n, mica_status status,
                            const char *text) {
    mica_program *program = (mica_program *)(void *)path;
    const mica_program_file_options options = {.constants = named, .n_constants = n};
    expect_refused(mica_program_load(device, path, &options, &program), status, text);
    if (!strstr(mica_last_error(), path)) fail_msg("%s", mica_last_error());
    assert_null(program);
}

static void test_constants_that_do_not_fit(void **state) {
    (void)state;
    mica_scope *s, *there;
    mica_device *foreign;
    must(mica_scope_open(device, &s));
    mica_array w = matrix(s, 5);
    mica_program *program = add_constant(s, w);
    mica_named_array named[] = {{"w", w}, {"w", w}};
    mica_program_file_options options = {.constants = named, .n_constants = 2};
    expect_refused(mica_program_save(program, path, &options), MICA_EINVAL, "same name, w");
    named[1].name = NULL;
    expect_refused(mica_program_save(program, path, &options), MICA_EINVAL,
                   "constant 1 has no name");
    options.constants = NULL;
    expect_refused(mica_program_save(program, path, &options), MICA_EINVAL, "NULL");
    assert_false(test_count_entries(dir) > 1);
    options = (mica_program_file_options){.constants = named, .n_constants = 1};
    must(mica_program_save(program, path, &options));
    expect_unloaded(NULL, 0, MICA_ENOENT, "the constant w is not in the file");
    named[1].name = "w";
    expect_unloaded(named, 2, MICA_EINVAL, "same name, w");
    named[0].array = MICA_NONE;
    expect_unloaded(named, 1, MICA_EINVAL, "constant w");
    named[0].array = mica_program_param(s, MICA_F32, (int64_t[]){2, 2}, 2);
    expect_unloaded(named, 1, MICA_EINVAL, "constant w: eval: array 0 is a parameter");
    named[0].array = mica_astype(s, w, MICA_BF16);
    expect_unloaded(named, 1, MICA_EFORMAT, "w is bf16[2,2], and the program wants f32[2,2]");
    named[0].array = mica_reshape(s, w, (int64_t[]){4}, 1);
    expect_unloaded(named, 1, MICA_EFORMAT, "w is f32[4], and the program wants f32[2,2]");
    named[0].array = mica_f32(s, 1);
    expect_unloaded(named, 1, MICA_EFORMAT, "w is f32[]");
    must(test_device_open(NULL, &foreign));
    must(mica_scope_open(foreign, &there));
    named[0].array = matrix(there, 1);
    expect_unloaded(named, 1, MICA_EINVAL, "another device");
    mica_scope_close(&there);
    mica_device_close(&foreign);
    mica_program_close(&program);
    mica_scope_close(&s);
}

static void expect_result_names(const mica_program *program, const char *const *want, size_t n) {
    mica_port port = {.struct_bytes = sizeof port};
    assert_int_equal(mica_program_result_count(program), n);
    for (size_t i = 0; i < n; i++) {
        must(mica_program_get_result(program, i, &port));
        assert_string_equal(port.name, want[i]);
    }
}

static const char *const numbers[] = {"0", "1", "2"};

/* Results with the names, or NULL; saved and loaded. */
static mica_program *save_named_results(const char *first, const char *second) {
    const char *names[] = {first, second};
    const mica_program_options options = {.result_names = names};
    mica_scope *s;
    mica_program *program, *loaded;
    must(mica_scope_open(device, &s));
    mica_array x = mica_program_param(s, MICA_F32, NULL, 0), results[] = {mica_negative(s, x), x};
    must(mica_program_build(s, &(mica_param){"x", x, false}, 1, results, 2, &options, &program));
    names[0] = names[1] = "they were copied";
    must(mica_program_save(program, path, NULL));
    must(mica_program_load(device, path, NULL, &loaded));
    mica_program_close(&program);
    mica_scope_close(&s);
    return loaded;
}

static void test_names_of_results(void **state) {
    (void)state;
    char *text;
    mica_program *program = save_named_results("logits", "state");
    expect_result_names(program, (const char *[]){"logits", "state"}, 2);
    must(mica_program_print(program, &text));
    assert_non_null(strstr(text, "\nresult %1 logits\nresult %0 state\n"));
    mica_free(text);
    mica_program_close(&program);
    program = save_named_results(NULL, NULL);
    expect_result_names(program, numbers, 2);
    mica_program_close(&program);
}

/* A file of version 1, in which results have no names. */
static void test_a_file_of_version_1(void **state) {
    (void)state;
    mica_program *program;
    must(mica_program_load(device, "fuzz/corpus/program/step", NULL, &program));
    expect_result_names(program, numbers, 3);
    must(mica_program_save(program, path, NULL));
    mica_program_close(&program);
    must(mica_program_load(device, path, NULL, &program));
    expect_result_names(program, numbers, 3);
    mica_program_close(&program);
}

/* ---- what is refused ---- */

static void test_names_that_are_refused(void **state) {
    (void)state;
    mica_scope *s;
    mica_program *program;
    must(mica_scope_open(device, &s));
    mica_array x = mica_program_param(s, MICA_F32, NULL, 0),
               y = mica_program_param(s, MICA_F32, NULL, 0), z = mica_add(s, x, y);
    mica_param params[] = {{"1", x, false}, {NULL, y, false}}; /* NULL: its number */
    expect_refused(mica_program_build(s, params, 2, &z, 1, NULL, &program), MICA_EINVAL,
                   "parameters 0 and 1 have the same name, 1");
    params[0].name = "x";
    const char *names[] = {"1", NULL};
    const mica_program_options named = {.result_names = names};
    expect_refused(mica_program_build(s, params, 2, (mica_array[]){z, z}, 2, &named, &program),
                   MICA_EINVAL, "results 0 and 1 have the same name, 1");
    names[0] = "";
    expect_refused(mica_program_build(s, params, 2, (mica_array[]){z, z}, 2, &named, &program),
                   MICA_EINVAL, "the name of result 0 is empty");
    params[0].name = "\xff";
    expect_refused(mica_program_build(s, params, 2, &z, 1, NULL, &program), MICA_EINVAL, "UTF-8");
    mica_scope_close(&s);
}

static void test_files_that_are_not_there(void **state) {
    (void)state;
    mica_scope *s;
    must(mica_scope_open(device, &s));
    mica_program *program = add_constant(s, matrix(s, 1)), *loaded;
    char *lost = test_format("%s/no/a.program", dir);
    expect_refused(mica_program_save(program, lost, NULL), MICA_ENOENT, lost);
    expect_refused(mica_program_load(device, lost, NULL, &loaded), MICA_ENOENT, lost);
    expect_refused(mica_program_load(device, dir, NULL, &loaded), MICA_EIO, dir);
    test_write_file(path, "", 0);
    expect_unloaded(NULL, 0, MICA_EFORMAT, "no graph's file");
    if (mica_program_save(program, "/dev/full", NULL) == MICA_OK) fail_msg("/dev/full is not");
    expect_refused(mica_program_save(NULL, path, NULL), MICA_EINVAL, "NULL");
    expect_refused(mica_program_save(program, NULL, NULL), MICA_EINVAL, "NULL");
    expect_refused(mica_program_encode(program, NULL, NULL, NULL), MICA_EINVAL, "NULL");
    expect_refused(mica_program_load(NULL, path, NULL, &loaded), MICA_EINVAL, "NULL");
    expect_refused(mica_program_load(device, NULL, NULL, &loaded), MICA_EINVAL, "NULL");
    expect_refused(mica_program_load(device, path, NULL, NULL), MICA_EINVAL, "NULL");
    expect_refused(mica_program_decode(device, NULL, 1, NULL, &loaded), MICA_EINVAL, "NULL");
    expect_refused(mica_program_verify(NULL), MICA_EINVAL, "NULL");
    assert_null(loaded);
    free(lost);
    mica_program_close(&program);
    mica_scope_close(&s);
}

/* ---- hostile bytes ---- */

static void mend(char *file, uint64_t bytes) {
    memcpy(file + 16, &bytes, sizeof bytes);
    uint64_t hash = mc_hash(file + HASHED, bytes - HASHED, 0);
    memcpy(file + 24, &hash, sizeof hash);
}

/* Two of one name, which no save writes: the second name is made the first. */
static void expect_name_refused(const mica_program *program, const char *from, const char *to,
                                const char *text) {
    void *file;
    size_t bytes, n = strlen(from);
    mica_program *loaded;
    must(mica_program_encode(program, NULL, &file, &bytes));
    for (char *p = file; p + n <= (char *)file + bytes; p++)
        if (memcmp(p, from, n) == 0) memcpy(p, to, n);
    mend(file, bytes);
    expect_refused(mica_program_decode(device, file, bytes, NULL, &loaded), MICA_EFORMAT, text);
    assert_null(loaded);
    mica_free(file);
}

static void test_a_file_with_a_name_twice(void **state) {
    (void)state;
    mica_scope *s;
    mica_program *program;
    must(mica_scope_open(device, &s));
    mica_array x = mica_program_param(s, MICA_F32, NULL, 0),
               y = mica_program_param(s, MICA_F32, NULL, 0), z = mica_add(s, x, y);
    const mica_param params[] = {{"left", x, false}, {"lift", y, false}};
    const char *const names[] = {"high", "hich"};
    must(mica_program_build(s, params, 2, (mica_array[]){z, x}, 2,
                            &(mica_program_options){.result_names = names}, &program));
    expect_name_refused(program, "lift", "left", "parameters 0 and 1 have the same name, left");
    expect_name_refused(program, "hich", "high", "results 0 and 1 have the same name, high");
    mica_program_close(&program);
    mica_scope_close(&s);
}

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* A few bytes changed, under a hash that is right: a status, or a program. */
static void test_bytes_that_were_changed(void **state) {
    (void)state;
    uint64_t random = 7;
    int loads = 0;
    for (size_t part = 0; part < test_graph_n_parts; part++) {
        test_graph g;
        void *file;
        size_t bytes;
        test_graph_open(&g, device, &test_graph_parts[part]);
        mica_program *program = build(&g), *loaded;
        must(mica_program_encode(program, NULL, &file, &bytes));
        char *changed = malloc(bytes + 1);
        assert_non_null(changed);
        for (size_t i = 0; i < MUTATIONS / test_graph_n_parts; i++) {
            memcpy(changed + 1, file, bytes); /* of any alignment */
            for (uint64_t n = 1 + next_random(&random) % 2; n > 0; n--) {
                uint64_t word = next_random(&random);
                size_t at = HASHED + next_random(&random) % (bytes - HASHED);
                changed[1 + at] = (char)(word % 3 == 0 ? word >> 8 : word >> 8 & 3);
            }
            mend(changed + 1, bytes);
            if (mica_program_decode(device, changed + 1, bytes, NULL, &loaded) == MICA_OK) {
                loads++;
                must(mica_program_verify(loaded));
            }
            mica_program_close(&loaded);
        }
        free(changed);
        mica_free(file);
        mica_program_close(&program);
        test_graph_close(&g);
    }
    assert_true(loads > MUTATIONS / 20);
}

/* ---- no memory ---- */

static bool save_and_load(void *context) {
    const test_graph *g = context;
    const mica_named_array named = {"w", g->w};
    const mica_program_file_options options = {.constants = &named, .n_constants = 1};
    mica_program *first = NULL, *second = NULL;
    char *text = NULL;
    mica_param x = {"x", g->x, false};
    mica_array y = {g->s, g->results[0]};
    mica_status status = mica_program_build(g->s, &x, 1, &y, 1, NULL, &first);
    if (status == MICA_OK) status = mica_program_save(first, path, &options);
    if (status == MICA_OK) status = mica_program_load(device, path, &options, &second);
    if (status == MICA_OK) status = mica_program_verify(second);
    if (status == MICA_OK) status = mica_program_print(second, &text);
    if (status != MICA_OK && status != MICA_ENOMEM) fail_msg("%s", mica_last_error());
    mica_free(text);
    mica_program_close(&first);
    mica_program_close(&second);
    test_forget_plans(device);
    return status == MICA_OK;
}

static void test_every_failing_allocation_is_a_status(void **state) {
    (void)state;
    test_graph g;
    test_graph_open(&g, device, &test_graph_parts[6]);
    size_t before = test_count_entries(dir);
    assert_true(test_fail_each_allocation(save_and_load, &g) > 20);
    assert_int_equal(test_count_entries(dir), before);
    test_graph_close(&g);
}

/* Rows of bytes by weights of bytes, and weights as they lie. */
static mica_program *build_product(const uint8_t *x, const int8_t *w) {
    static const mc_integer_rest nothing;
    mica_scope *s;
    mica_program *p;
    must(mica_scope_open(device, &s));
    mica_array weights = mica_from_data(s, w, MICA_I8, (int64_t[]){COLUMNS, TERMS}, 2);
    mica_array rows = mica_from_data(s, x, MICA_U8, (int64_t[]){ROWS, TERMS}, 2);
    const mica_array ys[] = {mc_integer_matmul(s, rows, weights, &nothing),
                             mica_flip(s, weights, 1)};
    must(mica_program_build(s, NULL, 0, ys, 2, NULL, &p));
    mica_scope_close(&s);
    return p;
}

/* They are read from there again, also behind what products make of them. */
static void test_weights_of_bytes_stay_in_the_file(void **state) {
    (void)state;
    static uint8_t x[ROWS * TERMS];
    static int8_t w[COLUMNS * TERMS], flipped[COLUMNS * TERMS];
    static int32_t sums[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * TERMS; i++)
        x[i] = (uint8_t)(i * 7);
    for (int i = 0; i < COLUMNS * TERMS; i++)
        w[i] = (int8_t)(i * 11 % 251 - 125);
    mica_program *p = build_product(x, w);
    must(mica_program_save(p, path, NULL));
    mica_program_close(&p);
    const uint64_t before = mica_device_active_bytes(device);
    must(mica_program_load(device, path, NULL, &p));
    if (!test_device_is_other())
        assert_true(mica_device_active_bytes(device) - before < COLUMNS * TERMS);
    for (mica_mode mode = MICA_MODE_EAGER; mode <= MICA_MODE_COMPILED; mode++) {
        mica_executable *exe;
        mica_scope *s;
        mica_array ys[2];
        must(mica_executable_open(p, &(mica_executable_options){.mode = mode}, &exe));
        must(mica_scope_open(device, &s));
        must(mica_executable_run(exe, NULL, 0, s, ys));
        must(mica_read(ys[0], sums, sizeof sums));
        must(mica_read(ys[1], flipped, sizeof flipped));
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++) {
                int32_t sum = 0;
                for (int k = 0; k < TERMS; k++)
                    sum += x[r * TERMS + k] * w[c * TERMS + k];
                assert_int_equal(sums[r * COLUMNS + c], sum);
            }
        for (int i = 0; i < COLUMNS * TERMS; i++)
            assert_int_equal(flipped[i], w[i / TERMS * TERMS + TERMS - 1 - i % TERMS]);
        mica_scope_close(&s);
        mica_executable_close(&exe);
    }
    mica_program_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_op_computes_the_same_bits),
        cmocka_unit_test(test_what_was_loaded_is_saved_again),
        cmocka_unit_test(test_other_values_for_a_name),
        cmocka_unit_test(test_a_view_of_a_named_constant_is_inside),
        cmocka_unit_test(test_constants_that_do_not_fit),
        cmocka_unit_test(test_names_of_results),
        cmocka_unit_test(test_a_file_of_version_1),
        cmocka_unit_test(test_names_that_are_refused),
        cmocka_unit_test(test_files_that_are_not_there),
        cmocka_unit_test(test_a_file_with_a_name_twice),
        cmocka_unit_test(test_bytes_that_were_changed),
        cmocka_unit_test(test_every_failing_allocation_is_a_status),
        cmocka_unit_test(test_weights_of_bytes_stay_in_the_file),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
