/* onnx/: networks of tests/fixtures/onnx give the numbers that onnxruntime computed, as programs,
 * and from the files that programs are saved to, in every mode. */
#include <mica/mica.h>

#include "exec/expect.h"
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PORTS = 64 };

static mica_device *device;
static mica_scope *s;

static int open_all(void **state) {
    (void)state;
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    mica_scope_close(&s);
    mica_device_close(&device);
    return 0;
}

static mica_array find(const mica_named_array *arrays, size_t n, const char *kind,
                       const char *name) {
    char *key = test_format("%s.%s", kind, name);
    mica_array found = MICA_NONE;
    for (size_t i = 0; i < n; i++)
        if (strcmp(arrays[i].name, key) == 0) found = arrays[i].array;
    if (!found.scope) fail_msg("there is no %s", key);
    free(key);
    return found;
}

/* Sums of some ten numbers: f32 differs in the last bits, f16 by the order of roundings. */
static void check_result(const char *what, mica_array got, mica_array want) {
    mica_iter a = {0}, b = {0};
    float tolerance = mica_array_dtype(want) == MICA_F16 ? 4e-3f : 2e-5f;
    if (mica_array_dtype(got) != mica_array_dtype(want)) fail_msg("%s: another dtype", what);
    if (mica_array_ndim(got) != mica_array_ndim(want)) fail_msg("%s: another rank", what);
    for (int k = 0; k < mica_array_ndim(got); k++)
        assert_int_equal(mica_array_dim(got, k), mica_array_dim(want, k));
    if (mica_array_dtype(want) == MICA_F16) {
        got = mica_astype(s, got, MICA_F32);
        want = mica_astype(s, want, MICA_F32);
    }
    bool real = mica_array_dtype(want) == MICA_F32;
    while (mica_next(got, &a) && mica_next(want, &b)) {
        float x = 0, y = 0;
        if (real) {
            memcpy(&x, a.value, sizeof x);
            memcpy(&y, b.value, sizeof y);
        }
        bool same = real ? x == y || (isnan(x) && isnan(y)) ||
                               fabsf(x - y) <= tolerance * fmaxf(1, fabsf(y))
                         : memcmp(a.value, b.value, mica_dtype_bytes(mica_array_dtype(want))) == 0;
        if (!same)
            fail_msg("%s[%lld]: %g where onnxruntime has %g", what, (long long)a.index, (double)x,
                     (double)y);
    }
    assert_int_equal(a.status, MICA_OK);
}

static void run_and_check(const mica_program *program, mica_mode mode, const char *name,
                          const mica_named_array *arrays, size_t n) {
    mica_executable *executable = NULL;
    mica_input inputs[MAX_PORTS] = {{0}};
    mica_array results[MAX_PORTS];
    size_t n_in = mica_program_param_count(program), n_out = mica_program_result_count(program);
    const mica_executable_options options = {.struct_bytes = sizeof options, .mode = mode};
    for (size_t i = 0; i < n_in; i++) {
        mica_port port = {.struct_bytes = sizeof port};
        assert_int_equal(mica_program_get_param(program, i, &port), MICA_OK);
        inputs[i] = (mica_input){.name = port.name, .array = find(arrays, n, "in", port.name)};
    }
    must(mica_executable_open(program, &options, &executable));
    must(mica_executable_run(executable, inputs, n_in, s, results));
    for (size_t i = 0; i < n_out; i++) {
        mica_port port = {.struct_bytes = sizeof port};
        assert_int_equal(mica_program_get_result(program, i, &port), MICA_OK);
        if (strstr(port.name, ".count")) continue;
        char *what = test_format("%s, mode %d: %s", name, mode, port.name);
        check_result(what, results[i], find(arrays, n, "out", port.name));
        free(what);
    }
    mica_executable_close(&executable);
}

/* The program in every mode, and from the file that it is saved to. */
static void check_program(mica_program *program, const char *name, const char *number) {
    char *npz = test_format("%s/onnx/%s%s.npz", test_cases_dir(), name, number);
    mica_program *again = NULL;
    mica_named_array *arrays = NULL;
    void *file = NULL;
    size_t n, bytes;
    must(mica_load_npz(npz, s, &arrays, &n));
    must(mica_program_verify(program));
    for (int mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++)
        run_and_check(program, (mica_mode)mode, name, arrays, n);
    must(mica_program_encode(program, NULL, &file, &bytes));
    must(mica_program_decode(device, file, bytes, NULL, &again));
    run_and_check(again, MICA_MODE_LAZY, name, arrays, n);
    mica_free(file);
    mica_free(arrays);
    mica_program_close(&again);
    free(npz);
}

/* With the lengths that the file leaves open, and with all of them fixed. */
static void check_network(const char *name) {
    static const mica_onnx_dim known[] = {{"batch", 3}, {"n", 2}, {"l", 5}};
    enum { KNOWN = sizeof known / sizeof *known };
    mica_onnx_dim dims[KNOWN];
    mica_onnx_options options = {.struct_bytes = sizeof options, .dims = dims};
    char *onnx = test_format("%s/onnx/%s.onnx", test_cases_dir(), name);
    mica_program *open = NULL, *fixed = NULL;
    must(mica_onnx_load(device, onnx, NULL, &open));
    check_program(open, name, "");
    for (size_t i = 0; i < KNOWN; i++)
        for (size_t k = 0; k < mica_program_symbol_count(open); k++)
            if (strcmp(mica_program_symbol(open, k), known[i].name) == 0)
                dims[options.n_dims++] = known[i];
    assert_int_equal(options.n_dims, mica_program_symbol_count(open));
    if (options.n_dims > 0) {
        must(mica_onnx_load(device, onnx, &options, &fixed));
        assert_int_equal(mica_program_symbol_count(fixed), 0);
        check_program(fixed, name, "");
    }
    mica_program_close(&open);
    mica_program_close(&fixed);
    free(onnx);
}

static void test_mlp(void **state) {
    (void)state;
    check_network("mlp");
}
static void test_cnn(void **state) {
    (void)state;
    check_network("cnn");
}
static void test_computed_shapes(void **state) {
    (void)state;
    static const mica_onnx_dim length = {"l", 5};
    const mica_onnx_options options = {
        .struct_bytes = sizeof options, .dims = &length, .n_dims = 1};
    char *onnx = test_format("%s/onnx/shapes.onnx", test_cases_dir());
    mica_program *program = NULL;
    assert_int_equal(mica_onnx_load(device, onnx, NULL, &program), MICA_ESHAPE);
    assert_non_null(strstr(mica_last_error(), "lengths are not fixed, such as n"));
    must(mica_onnx_load(device, onnx, &options, &program)); /* for its weights are of that length */
    assert_int_equal(mica_program_symbol_count(program), 1);
    check_program(program, "shapes", "");
    mica_program_close(&program);
    free(onnx);
}
static void test_branches(void **state) {
    (void)state;
    check_network("branch");
}
static void test_loops(void **state) {
    (void)state;
    check_network("loops");
}
static void test_numbers(void **state) {
    (void)state;
    check_network("numbers");
}
static void test_vision(void **state) {
    (void)state;
    check_network("vision");
}
static void test_quantised(void **state) {
    (void)state;
    check_network("quantised");
}
static void test_integers(void **state) {
    (void)state;
    check_network("integers");
}
static void test_microsoft(void **state) {
    (void)state;
    check_network("microsoft");
}
static void test_published(void **state) {
    (void)state;
    check_network("published");
}
static void test_recurrent(void **state) {
    (void)state;
    check_network("recurrent");
}
static void test_data_outside(void **state) {
    (void)state;
    check_network("outside");
}
static void test_halves(void **state) {
    (void)state;
    check_network("halves");
}
static void test_corners(void **state) {
    (void)state;
    check_network("corners");
}

static void test_functions(void **state) {
    (void)state;
    check_network("functions");
}
static void test_small_types(void **state) {
    (void)state;
    check_network("small_types");
}
static void test_sampling(void **state) {
    (void)state;
    check_network("sampling");
}

static void test_trees(void **state) {
    (void)state;
    check_network("trees");
}
static void test_linear_models(void **state) {
    (void)state;
    check_network("linear_models");
}
static void test_sequences(void **state) {
    (void)state;
    check_network("sequences");
}

static void test_old_opsets(void **state) {
    (void)state;
    check_network("old");
    check_network("older");
    check_network("old_resize");
}

/* One program for all sizes; and one whose lengths are fixed by name and by place. */
static void test_lengths(void **state) {
    (void)state;
    static const mica_onnx_dim dims[] = {
        {"batch", 1}, {"x.1", 3}, {"i.0", 2}, {"h", 11}, {"i.3", 7}};
    const mica_onnx_options options = {.struct_bytes = sizeof options, .dims = dims, .n_dims = 5};
    char *onnx = test_format("%s/onnx/lengths.onnx", test_cases_dir());
    mica_program *program = NULL;
    must(mica_onnx_load(device, onnx, NULL, &program));
    assert_int_equal(mica_program_symbol_count(program), 5);
    mica_port port = {.struct_bytes = sizeof port};
    must(mica_program_get_param(program, 1, &port));
    assert_string_equal(port.symbols[0], "i.0");
    assert_null(port.symbols[1]);
    assert_string_equal(port.symbols[2], "h");
    check_program(program, "lengths", "");
    check_program(program, "lengths", ".2");
    check_program(program, "lengths", ".3");
    mica_program_close(&program);
    must(mica_onnx_load(device, onnx, &options, &program));
    assert_int_equal(mica_program_symbol_count(program), 0);
    check_program(program, "lengths", ".2");
    mica_program_close(&program);
    free(onnx);
}

/* Results whose length depends on values: of three sizes. Executables trim them; a program's run
 * has all that there is room for, and the count. */
static void check_sizes(const char *name) {
    char *onnx = test_format("%s/onnx/%s.onnx", test_cases_dir(), name);
    mica_program *program = NULL;
    must(mica_onnx_load(device, onnx, NULL, &program));
    check_program(program, name, "");
    check_program(program, name, ".2");
    check_program(program, name, ".3");
    mica_program_close(&program);
    free(onnx);
}

static void test_counted(void **state) {
    (void)state;
    check_sizes("counted");
}
/* A k of a run that is none, which results of a length of their own would hide. */
static void test_k_of_a_run(void **state) {
    (void)state;
    static const int64_t ks[] = {-1, 1000};
    char *onnx = test_format("%s/onnx/counted.onnx", test_cases_dir());
    char *npz = test_format("%s/onnx/counted.npz", test_cases_dir());
    mica_program *program = NULL;
    mica_executable *executable = NULL;
    mica_named_array *arrays = NULL;
    mica_input inputs[MAX_PORTS] = {{0}};
    mica_array results[MAX_PORTS];
    size_t n;
    must(mica_load_npz(npz, s, &arrays, &n));
    must(mica_onnx_load(device, onnx, NULL, &program));
    must(mica_executable_open(program, NULL, &executable));
    size_t n_in = mica_program_param_count(program);
    for (size_t at = 0; at < sizeof ks / sizeof *ks; at++) {
        for (size_t i = 0; i < n_in; i++) {
            mica_port port = {.struct_bytes = sizeof port};
            must(mica_program_get_param(program, i, &port));
            mica_array x = find(arrays, n, "in", port.name);
            if (strcmp(port.name, "k") == 0)
                x = mica_full(s, mica_array_shape(x), mica_array_ndim(x),
                              mica_scalar(s, (double)ks[at], MICA_I64));
            inputs[i] = (mica_input){.name = port.name, .array = x};
        }
        assert_int_equal(mica_executable_run(executable, inputs, n_in, s, results), MICA_EINVAL);
        assert_non_null(strstr(mica_last_error(), "topk: k 0 is below 0, or above the length"));
    }
    mica_executable_close(&executable);
    mica_program_close(&program);
    mica_free(arrays);
    free(npz);
    free(onnx);
}

static void test_ends(void **state) {
    (void)state;
    check_sizes("ends");
    check_sizes("firsts");
}
/* Slices that count from the end in some runs, and pads by lengths. */
static void test_backs(void **state) {
    (void)state;
    check_sizes("backs");
    check_sizes("crossed");
}
/* One name of two inputs has two lengths in a run. */
static void test_lengths_that_differ(void **state) {
    (void)state;
    char *onnx = test_format("%s/onnx/firsts.onnx", test_cases_dir());
    mica_program *program = NULL;
    mica_executable *executable = NULL;
    mica_array results[MAX_PORTS];
    const int64_t x = 4, w = 5;
    must(mica_onnx_load(device, onnx, NULL, &program));
    must(mica_executable_open(program, NULL, &executable));
    const mica_input inputs[] = {{.name = "x", .array = mica_zeros(s, &x, 1, MICA_F32)},
                                 {.name = "w", .array = mica_zeros(s, &w, 1, MICA_F32)}};
    assert_int_equal(mica_executable_run(executable, inputs, 2, s, results), MICA_ESHAPE);
    assert_string_equal(mica_last_error(), "executable: n is 4, and axis 0 of w, f32[5], has 5");
    mica_executable_close(&executable);
    mica_program_close(&program);
    free(onnx);
}
/* Lengths by ratios in f32, and shapes of what is counted, as torchvision's detectors have them. */
static void test_detector(void **state) {
    (void)state;
    check_sizes("ratios");
    check_sizes("signs");
    check_sizes("limits");
    check_sizes("regions");
    check_sizes("more_counts");
}
static void test_peepholes(void **state) {
    (void)state;
    check_sizes("peepholes");
}
/* Of what does not fit lengths, an error at the run that needs it. */
static void test_varied(void **state) {
    (void)state;
    check_sizes("varied");
    char *onnx = test_format("%s/onnx/varied.onnx", test_cases_dir()), *text = NULL;
    mica_program *program = NULL;
    mica_executable *executable = NULL;
    mica_array results[MAX_PORTS];
    must(mica_onnx_print(device, onnx, NULL, &text));
    assert_non_null(strstr(text, "note a branch of 'never' cannot be built, and a run that takes "
                                 "it fails: node 0, Add: add: "));
    assert_null(strstr(text, "branch of 'even'"));
    must(mica_onnx_load(device, onnx, NULL, &program));
    must(mica_executable_open(program, NULL, &executable));
    for (int width = 4; width < 10; width += 4) {
        const mica_input inputs[] = {
            {.name = "x", .array = mica_zeros(s, (int64_t[]){1, width}, 2, MICA_F32)},
            {.name = "z", .array = mica_zeros(s, (int64_t[]){1, 2}, 2, MICA_F32)},
            {.name = "y", .array = mica_zeros(s, (int64_t[]){2, 3}, 2, MICA_F32)},
            {.name = "flag", .array = mica_scalar(s, 1, MICA_BOOL)}};
        assert_int_not_equal(mica_executable_run(executable, inputs, 4, s, results), MICA_OK);
        assert_non_null(strstr(mica_last_error(), width == 4 ? "a branch that could not be built"
                                                             : "4 elements are not 2"));
    }
    mica_executable_close(&executable);
    mica_program_close(&program);
    mica_free(text);
    free(onnx);
}
/* Files that were refused once, or computed wrongly. */
static void test_cases(void **state) {
    (void)state;
    check_network("lstm_lengths");
    check_network("maxpool_indices");
    check_network("model_function");
    check_network("signals");
    check_network("stft_dft");
}

/* What is f64 loses digits: this is told. */
static void test_notes(void **state) {
    (void)state;
    char *onnx = test_format("%s/onnx/f64_time.onnx", test_cases_dir()), *notes = NULL,
         *text = NULL;
    const char *want = "note input 'x' is f64 and is computed in f32, of 24 bits\n";
    const mica_onnx_options options = {.struct_bytes = sizeof options, .notes = &notes};
    mica_program *program = NULL;
    mica_port port = {.struct_bytes = sizeof port};
    must(mica_onnx_load(device, onnx, &options, &program));
    assert_string_equal(notes, want);
    must(mica_program_get_result(program, 0, &port));
    assert_int_equal(port.dtype, MICA_F64);
    mica_program_close(&program);
    mica_free(notes);
    must(mica_onnx_print(device, onnx, NULL, &text));
    assert_non_null(strstr(text, want));
    mica_free(text);
    free(onnx);
    onnx = test_format("%s/onnx/mlp.onnx", test_cases_dir());
    must(mica_onnx_load(device, onnx, &options, &program));
    assert_null(notes);
    mica_program_close(&program);
    free(onnx);
}

static void expect_note(const char *name, const char *want) {
    char *onnx = test_format("%s/onnx/%s.onnx", test_cases_dir(), name), *notes = NULL;
    const mica_onnx_options options = {.struct_bytes = sizeof options, .notes = &notes};
    mica_program *program = NULL;
    must(mica_onnx_load(device, onnx, &options, &program));
    assert_non_null(notes);
    assert_non_null(strstr(notes, want));
    mica_program_close(&program);
    mica_free(notes);
    free(onnx);
}

/* f64 within a graph, too. */
static void test_f64_within(void **state) {
    (void)state;
    expect_note("f64_cast", "note what nodes make f64 is computed in f32, of 24 bits");
    expect_note("f64_constant", "note numbers of f64 tensors are rounded to f32, of 24 bits");
}

/* Lengths that vary, of operators that other programs need numbers for. */
static void test_any_size(void **state) {
    (void)state;
    check_sizes("any_size");
}

static size_t count_of(const char *text, const char *what) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        count++;
    return count;
}

/* A fixture's program as text, to be freed by mica_free. */
static char *text_of_program(const char *name) {
    char *path = test_format("%s/onnx/%s.onnx", test_cases_dir(), name), *text = NULL;
    mica_program *program = NULL;
    must(mica_onnx_load(device, path, NULL, &program));
    must(mica_program_print(program, &text));
    mica_program_close(&program);
    free(path);
    return text;
}

/* Weights of few bits stay such: products read them, or rows of them. */
static void test_packed(void **state) {
    (void)state;
    check_network("packed");
    char *text = text_of_program("packed");
    size_t products = count_of(text, "= quantized_matmul"), others = count_of(text, "= matmul");
    if (products != 8 || others != 2)
        fail_msg("%zu and %zu products in\n%s", products, others, text);
    mica_free(text);
}

/* What moves elements moves integers. */
static void test_moved(void **state) {
    (void)state;
    check_network("moved");
    char *text = text_of_program("moved");
    size_t roundings = count_of(text, "= round");
    if (roundings != 11) fail_msg("%zu roundings in\n%s", roundings, text);
    mica_free(text);
}

static void test_boxes(void **state) {
    (void)state;
    check_sizes("det_nms");
}

/* Inputs that are fixed are no parameters, and what depends on them alone is computed. */
static void test_fixed_inputs(void **state) {
    (void)state;
    char *onnx = test_format("%s/onnx/numbers.onnx", test_cases_dir());
    char *npz = test_format("%s/onnx/numbers.npz", test_cases_dir());
    mica_named_array *arrays = NULL;
    mica_program *program = NULL;
    size_t n;
    must(mica_load_npz(npz, s, &arrays, &n));
    const mica_named_array inputs[] = {{"i", find(arrays, n, "in", "i")},
                                       {"c", find(arrays, n, "in", "c")}};
    const mica_onnx_options options = {
        .struct_bytes = sizeof options, .inputs = inputs, .n_inputs = 2};
    must(mica_onnx_load(device, onnx, &options, &program));
    assert_int_equal(mica_program_param_count(program), 3);
    check_program(program, "numbers", "");
    mica_program_close(&program);
    mica_free(arrays);
    free(onnx);
    free(npz);
}

/* Norms behind convolutions are a part of these; the layout changes at the ends, for two results,
 * and a scale and weights are transposed. */
static void test_few_steps(void **state) {
    (void)state;
    char *path = test_format("%s/onnx/cnn.onnx", test_cases_dir()), *text = NULL;
    mica_program *program = NULL;
    must(mica_onnx_load(device, path, NULL, &program));
    must(mica_program_print(program, &text));
    assert_null(strstr(text, "rsqrt"));
    size_t transposes = 0;
    for (const char *at = text; (at = strstr(at, "= transpose")); at++)
        transposes++;
    if (transposes > 5) fail_msg("%zu transpositions in\n%s", transposes, text);
    mica_free(text);
    mica_program_close(&program);
    free(path);
}

/* What cuts, splits and joins images keeps their channels last, as convolutions have them. */
static void test_channels(void **state) {
    (void)state;
    check_network("channels");
    char *path = test_format("%s/onnx/channels.onnx", test_cases_dir()), *text = NULL;
    mica_program *program = NULL;
    must(mica_onnx_load(device, path, NULL, &program));
    must(mica_program_print(program, &text));
    size_t transposes = 0;
    for (const char *at = text; (at = strstr(at, "= transpose")); at++)
        transposes++;
    if (transposes > 5) fail_msg("%zu transpositions in\n%s", transposes, text);
    mica_free(text);
    mica_program_close(&program);
    free(path);
}

/* A convolution that something else reads, too, is computed once. */
static void test_shared_convolution(void **state) {
    (void)state;
    char *path = test_format("%s/onnx/halves.onnx", test_cases_dir()), *text = NULL;
    mica_program *program = NULL;
    must(mica_onnx_load(device, path, NULL, &program));
    must(mica_program_print(program, &text));
    size_t convolutions = 0;
    for (const char *at = text; (at = strstr(at, "= conv")); at++)
        convolutions++;
    if (convolutions != 2) fail_msg("%zu convolutions in\n%s", convolutions, text);
    mica_free(text);
    mica_program_close(&program);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp),           cmocka_unit_test(test_channels),
        cmocka_unit_test(test_cnn),           cmocka_unit_test(test_computed_shapes),
        cmocka_unit_test(test_branches),      cmocka_unit_test(test_loops),
        cmocka_unit_test(test_numbers),       cmocka_unit_test(test_vision),
        cmocka_unit_test(test_quantised),     cmocka_unit_test(test_integers),
        cmocka_unit_test(test_microsoft),     cmocka_unit_test(test_published),
        cmocka_unit_test(test_recurrent),     cmocka_unit_test(test_data_outside),
        cmocka_unit_test(test_halves),        cmocka_unit_test(test_corners),
        cmocka_unit_test(test_functions),     cmocka_unit_test(test_small_types),
        cmocka_unit_test(test_sampling),      cmocka_unit_test(test_trees),
        cmocka_unit_test(test_linear_models), cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_old_opsets),    cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_fixed_inputs),  cmocka_unit_test(test_counted),
        cmocka_unit_test(test_peepholes),     cmocka_unit_test(test_detector),
        cmocka_unit_test(test_k_of_a_run),    cmocka_unit_test(test_ends),
        cmocka_unit_test(test_backs),         cmocka_unit_test(test_lengths_that_differ),
        cmocka_unit_test(test_any_size),      cmocka_unit_test(test_packed),
        cmocka_unit_test(test_moved),         cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_cases),         cmocka_unit_test(test_notes),
        cmocka_unit_test(test_f64_within),    cmocka_unit_test(test_varied),
        cmocka_unit_test(test_few_steps),     cmocka_unit_test(test_shared_convolution),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
