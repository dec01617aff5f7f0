/* onnx/: networks of tests/fixtures/onnx give the numbers that onnxruntime computed, as programs,
 * and from the files that programs are saved to, in every mode. */
#include <mica/mica.h>

#include "exec/expect.h"
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PORTS = 32 };

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
        bool same = real ? fabsf(x - y) <= tolerance * fmaxf(1, fabsf(y))
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
        char *what = test_format("%s, mode %d: %s", name, mode, port.name);
        check_result(what, results[i], find(arrays, n, "out", port.name));
        free(what);
    }
    mica_executable_close(&executable);
}

static void check_network(const char *name) {
    static const mica_onnx_dim dims[] = {{"batch", 3}, {"n", 2}, {"l", 5}, {"other", 7}};
    const mica_onnx_options options = {.struct_bytes = sizeof options, .dims = dims, .n_dims = 4};
    char *onnx = test_format("%s/onnx/%s.onnx", test_cases_dir(), name);
    char *npz = test_format("%s/onnx/%s.npz", test_cases_dir(), name);
    mica_program *program = NULL, *again = NULL;
    mica_named_array *arrays = NULL;
    void *file = NULL;
    size_t n, bytes;
    must(mica_load_npz(npz, s, &arrays, &n));
    must(mica_onnx_load(device, onnx, &options, &program));
    must(mica_program_verify(program));
    for (int mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++)
        run_and_check(program, (mica_mode)mode, name, arrays, n);
    must(mica_program_encode(program, NULL, &file, &bytes));
    must(mica_program_decode(device, file, bytes, NULL, &again));
    run_and_check(again, MICA_MODE_LAZY, name, arrays, n);
    mica_free(file);
    mica_free(arrays);
    mica_program_close(&program);
    mica_program_close(&again);
    free(onnx);
    free(npz);
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
    check_network("shapes");
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
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_cnn),
        cmocka_unit_test(test_computed_shapes),
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_vision),
        cmocka_unit_test(test_quantised),
        cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_data_outside),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_corners),
        cmocka_unit_test(test_few_steps),
        cmocka_unit_test(test_shared_convolution),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
