/* onnx/: files that are refused, and what the error says: operators that are missing, shapes that
 * depend on a run, lies about sizes, data outside of the folder, nesting without end, any cut. */
#include <mica/mica.h>

#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mica_device *device;

static int open_all(void **state) {
    (void)state;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    mica_device_close(&device);
    return 0;
}

/* ---- messages of protobuf ---- */

typedef struct message {
    uint8_t data[4096];
    size_t n;
} message;

static void put_number(message *m, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        m->data[m->n++] = (uint8_t)(value | 0x80);
    m->data[m->n++] = (uint8_t)value;
}

static void put_int(message *m, int field, int64_t value) {
    put_number(m, (uint64_t)field << 3);
    put_number(m, (uint64_t)value);
}

static void put_bytes(message *m, int field, const void *bytes, size_t n) {
    put_number(m, (uint64_t)field << 3 | 2);
    put_number(m, n);
    assert_true(m->n + n <= sizeof m->data);
    memcpy(m->data + m->n, bytes, n);
    m->n += n;
}

static void put_text(message *m, int field, const char *text) {
    put_bytes(m, field, text, strlen(text));
}

static void put(message *m, int field, const message *inner) {
    put_bytes(m, field, inner->data, inner->n);
}

/* ---- graphs ---- */

static void put_node(message *graph, const char *domain, const char *op, const char *in,
                     const char *in2, const char *out) {
    message node = {.n = 0};
    if (in) put_text(&node, 1, in);
    if (in2) put_text(&node, 1, in2);
    put_text(&node, 2, out);
    put_text(&node, 4, op);
    if (*domain) put_text(&node, 7, domain);
    put(graph, 1, &node);
}

/* A float vector of a length, or of one with a name. */
static void put_port(message *graph, int field, const char *name, int64_t length,
                     const char *dim_name) {
    message dim = {.n = 0}, shape = {.n = 0}, tensor = {.n = 0}, type = {.n = 0}, port = {.n = 0};
    if (dim_name)
        put_text(&dim, 2, dim_name);
    else
        put_int(&dim, 1, length);
    put(&shape, 1, &dim);
    put_int(&tensor, 1, 1);
    put(&tensor, 2, &shape);
    put(&type, 1, &tensor);
    put_text(&port, 1, name);
    put(&port, 2, &type);
    put(graph, field, &port);
}

static message model_of(const message *graph, int64_t opset) {
    message model = {.n = 0}, set = {.n = 0};
    put_int(&model, 1, 8);
    put(&model, 7, graph);
    put_int(&set, 2, opset);
    put(&model, 8, &set);
    return model;
}

static void refuse_bytes(const void *data, size_t n, mica_status want, const char *text) {
    mica_program *program = (mica_program *)(void *)&n;
    mica_status status = mica_onnx_decode(device, data, n, NULL, &program);
    if (status != want || !strstr(mica_last_error(), text))
        fail_msg("%s: %s, where \"%s\" is expected", mica_status_name(status), mica_last_error(),
                 text);
    assert_null(program);
}

static void refuse(const message *graph, mica_status want, const char *text) {
    message model = model_of(graph, 18);
    refuse_bytes(model.data, model.n, want, text);
}

/* ---- tests ---- */

static void test_missing_operators(void **state) {
    (void)state;
    message graph = {.n = 0};
    put_node(&graph, "", "Foo", "x", NULL, "a");
    put_node(&graph, "", "Relu", "a", NULL, "b");
    put_node(&graph, "com.acme", "Bar", "b", NULL, "c");
    put_node(&graph, "", "Foo", "c", NULL, "y");
    put_port(&graph, 11, "x", 2, NULL);
    put_port(&graph, 12, "y", 2, NULL);
    refuse(&graph, MICA_EUNSUPPORTED,
           "mica lacks 2 of its operators: Foo (version 18, 2 nodes), com.acme.Bar (version 0, 1 "
           "nodes)");
    message old = model_of(&graph, 12);
    refuse_bytes(old.data, old.n, MICA_EUNSUPPORTED, "its opset is 12; mica reads 13 and later");
}

static void test_graphs(void **state) {
    (void)state;
    message a = {.n = 0}, b = {.n = 0}, c = {.n = 0}, d = {.n = 0}, e = {.n = 0};
    put_port(&a, 11, "x", 2, NULL);
    put_node(&a, "", "Relu", "z", NULL, "y");
    refuse(&a, MICA_EFORMAT, "node 0, Relu: there is no value 'z' before it");
    put_port(&b, 11, "x", 2, NULL);
    put_node(&b, "", "Relu", "x", NULL, "x");
    refuse(&b, MICA_EFORMAT, "two values are called 'x'");
    put_port(&c, 11, "x", 2, NULL);
    put_node(&c, "", "Add", "x", NULL, "y");
    refuse(&c, MICA_EFORMAT, "node 0, Add: it has 1 operands");
    put_port(&d, 11, "x", 0, "batch");
    put_port(&d, 11, "w", 0, "");
    refuse(&d, MICA_EINVAL, "these lengths have no number: batch, w.0");
    put_port(&e, 11, "x", 2, NULL);
    put_port(&e, 11, "shape", 1, NULL);
    put_node(&e, "", "Reshape", "x", "shape", "y");
    refuse(&e, MICA_EUNSUPPORTED,
           "node 0, Reshape: operand 1, 'shape', depends on what a run is given");
}

static void put_tensor(message *graph, const char *name, int64_t dim, int64_t type, size_t bytes,
                       const char *location) {
    static const uint8_t zeros[64];
    message tensor = {.n = 0}, entry = {.n = 0};
    put_int(&tensor, 1, dim);
    put_int(&tensor, 2, type);
    put_text(&tensor, 8, name);
    put_bytes(&tensor, 9, zeros, bytes);
    if (location) {
        put_text(&entry, 1, "location");
        put_text(&entry, 2, location);
        put(&tensor, 13, &entry);
        put_int(&tensor, 14, 1);
    }
    put(graph, 5, &tensor);
}

static void test_tensors(void **state) {
    (void)state;
    static const struct {
        int64_t dim, type;
        size_t bytes;
        mica_status status;
        const char *text;
    } rows[] = {
        {3, 1, 8, MICA_EFORMAT, "tensor 'w': its shape takes 12 bytes, its data has 8"},
        {-1, 1, 8, MICA_EFORMAT, "its shape is out of range"},
        {INT64_MAX, 1, 8, MICA_EFORMAT, "its shape is out of range"},
        {1 << 30, 1, 8, MICA_EFORMAT, "its shape takes 4294967296 bytes, its data has 8"},
        {2, 8, 8, MICA_EUNSUPPORTED, "mica has no dtype for ONNX's STRING (8)"},
        {2, 99, 8, MICA_EUNSUPPORTED, "mica has no dtype for ONNX's kind (99)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        message graph = {.n = 0};
        put_tensor(&graph, "w", rows[i].dim, rows[i].type, rows[i].bytes, NULL);
        refuse(&graph, rows[i].status, rows[i].text);
    }
}

/* Data of other files is read from the model's folder alone. */
static void test_outside(void **state) {
    (void)state;
    static const char *const places[] = {"/etc/hostname", "../secret", "a/../../secret", "", ".."};
    char *dir = test_temp_dir(), *path = test_format("%s/in/x.onnx", dir);
    char *secret = test_format("%s/secret", dir);
    mica_program *program;
    test_write_file(secret, "12345678", 8);
    for (size_t i = 0; i <= sizeof places / sizeof places[0]; i++) {
        bool absent = i == sizeof places / sizeof places[0];
        message graph = {.n = 0};
        put_tensor(&graph, "w", 2, 1, 0, absent ? "none.data" : places[i]);
        message model = model_of(&graph, 18);
        test_write_below(dir, "in/x.onnx", "");
        test_write_file(path, model.data, model.n);
        mica_status status = mica_onnx_load(device, path, NULL, &program);
        assert_int_equal(status, absent ? MICA_ENOENT : MICA_EINVAL);
        assert_non_null(
            strstr(mica_last_error(), absent ? "none.data" : "not in the model's folder"));
        assert_non_null(strstr(mica_last_error(), "x.onnx"));
        refuse_bytes(model.data, model.n, MICA_EINVAL, "not in the model's folder");
    }
    test_temp_dir_remove(dir);
    free(path);
    free(secret);
}

/* Graphs within attributes within nodes, a hundred deep. */
static void test_nesting(void **state) {
    (void)state;
    message graph = {.n = 0};
    for (int i = 0; i < 100; i++) {
        message attribute = {.n = 0}, node = {.n = 0};
        put(&attribute, 6, &graph);
        put(&node, 5, &attribute);
        graph.n = 0;
        put(&graph, 1, &node);
    }
    refuse(&graph, MICA_EUNSUPPORTED, "graphs nest more than 16 deep");
}

static char *read_golden(const char *name, size_t *n) {
    char *path = test_format("%s/onnx/%s.onnx", test_cases_dir(), name), *data = malloc(1 << 16);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    *n = fread(data, 1, 1 << 16, file);
    fclose(file);
    free(path);
    return data;
}

/* A file that is cut anywhere is refused or, between two fields, lacks something. */
static void test_cuts(void **state) {
    (void)state;
    size_t n;
    char *data = read_golden("loops", &n);
    for (size_t k = 0; k < n; k++) {
        mica_program *program = NULL;
        char *cut = malloc(k + 1);
        memcpy(cut, data, k);
        mica_status status = mica_onnx_decode(device, cut, k, NULL, &program);
        assert_true((status == MICA_OK) == (program != NULL));
        assert_true(status == MICA_OK || *mica_last_error());
        mica_program_close(&program);
        free(cut);
    }
    refuse_bytes("GGUF\x03\x00\x00\x00", 8, MICA_EFORMAT, "no ONNX file");
    refuse_bytes("", 0, MICA_EFORMAT, "it is empty");
    free(data);
}

typedef struct file {
    char *data;
    size_t n;
} file;

static bool decode(void *arg) {
    const file *f = arg;
    mica_program *program = NULL;
    const mica_onnx_dim dim = {"batch", 3};
    mica_status status = mica_onnx_decode(
        device, f->data, f->n, &(mica_onnx_options){.dims = &dim, .n_dims = 1}, &program);
    assert_true((status == MICA_OK) == (program != NULL));
    mica_program_close(&program);
    return status == MICA_OK;
}

static void test_allocations(void **state) {
    (void)state;
    file f;
    f.data = read_golden("mlp", &f.n);
    assert_true(test_fail_each_allocation(decode, &f) > 50);
    free(f.data);
}

static void test_arguments(void **state) {
    (void)state;
    mica_program *program = NULL;
    assert_int_equal(mica_onnx_load(NULL, "x", NULL, &program), MICA_EINVAL);
    assert_int_equal(mica_onnx_load(device, NULL, NULL, &program), MICA_EINVAL);
    assert_int_equal(mica_onnx_load(device, "x", NULL, NULL), MICA_EINVAL);
    assert_int_equal(mica_onnx_load(device, "/none/x.onnx", NULL, &program), MICA_ENOENT);
    const mica_onnx_dim dim = {"n", -1};
    assert_int_equal(
        mica_onnx_load(device, "x", &(mica_onnx_options){.dims = &dim, .n_dims = 1}, &program),
        MICA_EINVAL);
    assert_true(mica_onnx_op_count() > 100);
    assert_string_equal(mica_onnx_op_name(0), "Abs");
    assert_null(mica_onnx_op_name(mica_onnx_op_count()));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_operators), cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_tensors),           cmocka_unit_test(test_outside),
        cmocka_unit_test(test_nesting),           cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_allocations),       cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
