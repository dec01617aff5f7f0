/* onnx/: files that are refused, and what the error says: operators that are missing, shapes that
 * depend on a run, lies about sizes, data outside of the folder, nesting without end, any cut. */
#include <mica/mica.h>

#include "support/support.h"

#include <math.h>
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
    uint8_t data[1 << 14];
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

/* A node of operands that spaces part, with attributes. */
static void put_node_with(message *graph, const char *op, const char *in, const char *out,
                          const message *attributes, size_t n) {
    message node = {.n = 0};
    while (*in) {
        size_t length = strcspn(in, " ");
        put_bytes(&node, 1, in, length);
        in += length + (in[length] == ' ');
    }
    put_text(&node, 2, out);
    put_text(&node, 4, op);
    for (size_t i = 0; i < n; i++)
        put(&node, 5, &attributes[i]);
    put(graph, 1, &node);
}

enum { KIND_FLOAT = 1, KIND_INT, KIND_TEXT, KIND_TENSOR, KIND_GRAPH, KIND_INTS = 7 };

static message attribute_of(const char *name, int kind) {
    message m = {.n = 0};
    put_text(&m, 1, name);
    put_int(&m, 20, kind);
    return m;
}

static message text_attribute(const char *name, const char *text) {
    message m = attribute_of(name, KIND_TEXT);
    put_text(&m, 4, text);
    return m;
}

static message ints_attribute(const char *name, int64_t value) {
    message m = attribute_of(name, KIND_INTS);
    put_int(&m, 8, value);
    return m;
}

/* An initializer of i64 or, of type 1, f32. */
static void put_numbers(message *graph, const char *name, int64_t type, const void *data,
                        size_t count) {
    message tensor = {.n = 0};
    put_int(&tensor, 1, (int64_t)count);
    put_int(&tensor, 2, type);
    put_text(&tensor, 8, name);
    put_bytes(&tensor, 9, data, count * (type == 1 ? 4 : 8));
    put(graph, 5, &tensor);
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
           "node)");
    message old = model_of(&graph, 12);
    refuse_bytes(old.data, old.n, MICA_EUNSUPPORTED, "its opset is 12; mica reads 13 to 28");
    message early = model_of(&graph, 1000);
    refuse_bytes(early.data, early.n, MICA_EUNSUPPORTED, "its opset is 1000; mica reads 13 to 28");
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

/* ---- attributes, operands ---- */

static void put_cube(message *graph, const char *name, int64_t length) {
    message dim = {.n = 0}, shape = {.n = 0}, tensor = {.n = 0}, type = {.n = 0}, port = {.n = 0};
    put_int(&dim, 1, length);
    for (int i = 0; i < 3; i++)
        put(&shape, 1, &dim);
    put_int(&tensor, 1, 1);
    put(&tensor, 2, &shape);
    put(&type, 1, &tensor);
    put_text(&port, 1, name);
    put(&port, 2, &type);
    put(graph, 11, &port);
}

static void test_attributes(void **state) {
    (void)state;
    message a = {.n = 0}, b = {.n = 0}, axis = attribute_of("axis", KIND_FLOAT);
    put_number(&axis, 2 << 3 | 5);
    put_number(&axis, 0);
    axis.n += 3; /* 0.0f */
    put_port(&a, 11, "x", 2, NULL);
    put_node_with(&a, "Softmax", "x", "y", &axis, 1);
    put_port(&a, 12, "y", 2, NULL);
    refuse(&a, MICA_EFORMAT, "node 0, Softmax: its attribute 'axis' is of another type");
    message axes = ints_attribute("axis", 0);
    put_port(&b, 11, "x", 2, NULL);
    put_node_with(&b, "Flatten", "x", "y", &axes, 1);
    put_port(&b, 12, "y", 2, NULL);
    refuse(&b, MICA_EFORMAT, "node 0, Flatten: its attribute 'axis' is of another type");
}

/* Words that mica does not know; no default takes their place. */
static void test_words(void **state) {
    (void)state;
    static const struct {
        const char *op, *in, *attribute, *text;
    } rows[] = {
        {"Gelu", "x", "approximate", "this approximation"},
        {"BitShift", "x x", "direction", "this direction"},
        {"MaxPool", "x", "auto_pad", "this auto_pad"},
        {"GRU", "x x x", "direction", "this direction"},
        {"SoftmaxCrossEntropyLoss", "x x", "reduction", "this reduction"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        message graph = {.n = 0}, word = text_attribute(rows[i].attribute, "none such");
        put_cube(&graph, "x", 2);
        put_node_with(&graph, rows[i].op, rows[i].in, "y", &word, 1);
        refuse(&graph, MICA_EUNSUPPORTED, rows[i].text);
    }
}

/* Lengths without a number are all named, even where a name is in another one. */
static void test_lengths(void **state) {
    (void)state;
    message a = {.n = 0}, b = {.n = 0};
    put_port(&a, 11, "x", 0, "past_length");
    put_port(&a, 11, "y", 0, "length");
    put_port(&a, 11, "z", 0, "length");
    refuse(&a, MICA_EINVAL, "these lengths have no number: past_length, length");
    for (int i = 0; i < 30; i++) {
        char *name = test_format("x%d", i), *dim = test_format("%d.%030d", i, 0);
        put_port(&b, 11, name, 0, dim);
        free(name);
        free(dim);
    }
    refuse(&b, MICA_EINVAL, "and 12 more");
}

static void test_operands(void **state) {
    (void)state;
    static const int64_t lengths[] = {3}, image[] = {1, 1, INT32_MAX};
    static const float scales[] = {1, 1, 1};
    message a = {.n = 0}, b = {.n = 0}, c = {.n = 0}, d = {.n = 0}, e = {.n = 0}, f = {.n = 0};
    put_cube(&a, "x", INT64_C(1) << 40);
    refuse(&a, MICA_EINVAL, "input 'x'");
    put_port(&b, 11, "x", 4, NULL);
    put_numbers(&b, "lengths", 7, lengths, 1);
    put_node(&b, "", "Split", "x", "lengths", "y");
    refuse(&b, MICA_ESHAPE, "node 0, Split: its pieces have 3 elements, the axis 4");
    put_cube(&c, "x", 4);
    put_numbers(&c, "w", 1, scales, 3);
    put_numbers(&c, "shape", 7, (int64_t[]){1, 1, 3}, 3);
    put_node(&c, "", "Reshape", "w", "shape", "w3");
    message out = ints_attribute("output_shape", INT64_MIN);
    put_node_with(&c, "ConvTranspose", "x w3", "y", &out, 1);
    refuse(&c, MICA_EFORMAT, "output_shape is out of range");
    put_cube(&d, "x", 1);
    put_numbers(&d, "sizes", 7, image, 3);
    put_numbers(&d, "none", 1, scales, 0);
    put_node_with(&d, "Resize", "x none none sizes", "y", NULL, 0);
    refuse(&d, MICA_EUNSUPPORTED, "images of this size");
    put_cube(&e, "x", 1);
    put_numbers(&e, "scales", 1, scales, 3);
    put_node(&e, "", "QuantizeLinear", "x", "scales", "y");
    refuse(&e, MICA_ESHAPE, "it has 3 scales for an axis of 1");
    put_node(&f, "", "Relu", "x", NULL, "y");
    put_cube(&f, "x", 1);
    refuse(&f, MICA_EFORMAT, "its graph has no outputs");
}

/* ---- tensors ---- */

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

/* Ranges of a file of 8 bytes that data is in. */
static void test_outside_ranges(void **state) {
    (void)state;
    static const struct {
        const char *offset, *length, *text; /* NULL: it is read */
    } rows[] = {
        {"0", "8", NULL},
        {"9", "8", "its data begins behind the end of 'w.data'"},
        {"4", "8", "its data ends behind the end of 'w.data'"},
        {"4", "4", "its shape takes 8 bytes, its data has 4"},
        {"-1", "8", "where its data is cannot be read"},
        {"99999999999999999999", "8", "where its data is cannot be read"},
    };
    char *dir = test_temp_dir(), *path = test_format("%s/x.onnx", dir);
    test_write_below(dir, "w.data", "12345678");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *const pairs[][2] = {
            {"location", "w.data"}, {"offset", rows[i].offset}, {"length", rows[i].length}};
        message graph = {.n = 0}, tensor = {.n = 0};
        mica_program *program;
        put_int(&tensor, 1, 2);
        put_int(&tensor, 2, 1);
        put_text(&tensor, 8, "w");
        for (int k = 0; k < 3; k++) {
            message entry = {.n = 0};
            put_text(&entry, 1, pairs[k][0]);
            put_text(&entry, 2, pairs[k][1]);
            put(&tensor, 13, &entry);
        }
        put_int(&tensor, 14, 1);
        put(&graph, 5, &tensor);
        put_port(&graph, 12, "w", 2, NULL);
        message model = model_of(&graph, 18);
        test_write_file(path, model.data, model.n);
        mica_status status = mica_onnx_load(device, path, NULL, &program);
        assert_int_equal(status, rows[i].text ? MICA_EFORMAT : MICA_OK);
        if (rows[i].text) assert_non_null(strstr(mica_last_error(), rows[i].text));
        mica_program_close(&program);
    }
    test_temp_dir_remove(dir);
    free(path);
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
    char *path = test_format("%s/onnx/%s.onnx", test_cases_dir(), name);
    char *data = test_read_file(path, n);
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

/* ---- what a file can cost ---- */

static message boolean(void) {
    message tensor = {.n = 0};
    put_int(&tensor, 2, 9);
    put_text(&tensor, 8, "yes");
    put_bytes(&tensor, 9, "\1", 1);
    return tensor;
}

static void put_loop(message *graph, const char *in, const char *out, const message *body) {
    message attribute = attribute_of("body", KIND_GRAPH);
    put(&attribute, 6, body);
    put_node_with(graph, "Loop", in, out, &attribute, 1);
}

/* A norm of f16 that does not vary is 0, not 0 / 0. */
static void test_flat_halves(void **state) {
    (void)state;
    static const int64_t shape[] = {1, 2, 2, 2};
    message graph = {.n = 0};
    mica_program *program = NULL;
    mica_executable *executable = NULL;
    mica_scope *s = NULL;
    mica_array y;
    mica_iter it = {0};
    put_tensor(&graph, "x", 8, 10, 16, NULL);
    put_numbers(&graph, "shape", 7, shape, 4);
    put_node(&graph, "", "Reshape", "x", "shape", "x4");
    put_node(&graph, "", "MeanVarianceNormalization", "x4", NULL, "y");
    put_port(&graph, 12, "y", 1, NULL);
    message model = model_of(&graph, 18);
    assert_int_equal(mica_onnx_decode(device, model.data, model.n, NULL, &program), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    assert_int_equal(mica_executable_open(program, NULL, &executable), MICA_OK);
    assert_int_equal(mica_executable_run(executable, NULL, 0, s, &y), MICA_OK);
    assert_int_equal(mica_array_dtype(y), MICA_F16);
    while (mica_next(y, &it)) {
        uint16_t bits;
        memcpy(&bits, it.value, sizeof bits);
        assert_int_equal(bits, 0);
    }
    assert_int_equal(it.status, MICA_OK);
    mica_executable_close(&executable);
    mica_scope_close(&s);
    mica_program_close(&program);
}

/* Loops within loops read the tensors of their bodies again and again. */
static void test_rounds(void **state) {
    (void)state;
    static const int64_t rounds = 64;
    message inner = {.n = 0}, outer = {.n = 0}, graph = {.n = 0}, yes = boolean();
    message *const bodies[] = {&inner, &outer};
    for (int k = 0; k < 2; k++) {
        message *body = bodies[k];
        put_port(body, 11, k ? "i" : "j", 1, NULL);
        put_port(body, 11, k ? "c" : "d", 1, NULL);
        put_port(body, 11, k ? "v" : "u", 1, NULL);
        if (k) put_loop(body, "rounds yes v", "w", &inner);
        for (int i = 0; i < 200 && k == 0; i++) {
            char *name = test_format("t%d", i);
            put_numbers(body, name, 7, &rounds, 1);
            free(name);
        }
        put_port(body, 12, "yes", 1, NULL);
        put_port(body, 12, k ? "w" : "u", 1, NULL);
    }
    put_port(&graph, 11, "x", 1, NULL);
    put(&graph, 5, &yes);
    put_numbers(&graph, "rounds", 7, &rounds, 1);
    put_loop(&graph, "rounds yes x", "y", &outer);
    put_port(&graph, 12, "y", 1, NULL);
    refuse(&graph, MICA_EUNSUPPORTED, "too many nodes, with those of every round of its loops");
}

/* Neither nodes nor unknown operators are looked at one by one without an end. */
static void test_many_nodes(void **state) {
    (void)state;
    static const uint8_t node[] = {1 << 3 | 2, 3, 4 << 3 | 2, 1, 'A'};
    enum { NODES = (1 << 18) + 1 };
    message graph = {.n = 0}, set = {.n = 0}, head = {.n = 0};
    for (int i = 0; i < 300; i++) {
        char *op = test_format("Op%d", i);
        put_node(&graph, "", op, "x", NULL, "y");
        free(op);
    }
    refuse(&graph, MICA_EUNSUPPORTED, "hundreds of unknown operators");

    put_int(&set, 2, 18);
    put(&head, 8, &set);
    put_int(&head, 1, 8);
    put_number(&head, 7 << 3 | 2);
    put_number(&head, NODES * sizeof node);
    size_t n = head.n + NODES * sizeof node;
    uint8_t *bytes = malloc(n);
    assert_non_null(bytes);
    memcpy(bytes, head.data, head.n);
    for (size_t i = 0; i < NODES; i++)
        memcpy(bytes + head.n + i * sizeof node, node, sizeof node);
    refuse_bytes(bytes, n, MICA_EUNSUPPORTED, "more nodes than mica reads, which is 262144");
    free(bytes);
}

/* A number of rounds that no integer holds. */
static void test_float_rounds(void **state) {
    (void)state;
    static const float rounds[] = {-INFINITY, -1e30f};
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        message body = {.n = 0}, graph = {.n = 0}, yes = boolean();
        mica_program *program = NULL;
        put_port(&body, 11, "i", 1, NULL);
        put_port(&body, 11, "c", 1, NULL);
        put_port(&body, 11, "v", 1, NULL);
        put_node(&body, "", "Neg", "v", NULL, "w");
        put_port(&body, 12, "c", 1, NULL);
        put_port(&body, 12, "w", 1, NULL);
        put_port(&graph, 11, "x", 1, NULL);
        put(&graph, 5, &yes);
        put_numbers(&graph, "rounds", 1, &rounds[i], 1);
        put_loop(&graph, "rounds yes x", "y", &body);
        put_port(&graph, 12, "y", 1, NULL);
        message model = model_of(&graph, 18);
        if (mica_onnx_decode(device, model.data, model.n, NULL, &program) != MICA_OK)
            fail_msg("%s", mica_last_error());
        mica_program_close(&program);
    }
}

/* Weights that many nodes read are in the program once. */
static void test_shared_weights(void **state) {
    (void)state;
    static const int64_t shape[] = {128, 128};
    message graph = {.n = 0};
    mica_program *program = NULL;
    void *file = NULL;
    size_t bytes = 0;
    put_port(&graph, 11, "x", 128, NULL);
    put_numbers(&graph, "shape", 7, shape, 2);
    put_node(&graph, "", "ConstantOfShape", "shape", NULL, "w");
    for (int i = 0; i < 8; i++) {
        char *in = i ? test_format("y%d", i - 1) : test_format("x"), *out = test_format("y%d", i);
        put_node(&graph, "", "MatMul", in, "w", out);
        free(in);
        free(out);
    }
    put_port(&graph, 12, "y7", 128, NULL);
    message model = model_of(&graph, 18);
    assert_int_equal(mica_onnx_decode(device, model.data, model.n, NULL, &program), MICA_OK);
    assert_int_equal(mica_program_encode(program, NULL, &file, &bytes), MICA_OK);
    if (bytes > 2 * sizeof(float) * 128 * 128) fail_msg("%zu bytes", bytes);
    mica_free(file);
    mica_program_close(&program);
}

/* The edge of an axis is found without a walk over the axis. */
static void test_long_axis(void **state) {
    (void)state;
    static const int64_t pads[] = {1, 1};
    static const char *const modes[] = {"edge", "reflect"};
    for (int i = 0; i < 2; i++) {
        message graph = {.n = 0}, mode = text_attribute("mode", modes[i]);
        mica_program *program = NULL;
        put_port(&graph, 11, "x", INT64_C(1) << 36, NULL);
        put_numbers(&graph, "pads", 7, pads, 2);
        put_node_with(&graph, "Pad", "x pads", "y", &mode, 1);
        put_port(&graph, 12, "y", 1, NULL);
        message model = model_of(&graph, 18);
        assert_int_equal(mica_onnx_decode(device, model.data, model.n, NULL, &program), MICA_OK);
        mica_program_close(&program);
    }
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
    if (status != MICA_OK && status != MICA_ENOMEM)
        fail_msg("%s: %s", mica_status_name(status), mica_last_error());
    mica_program_close(&program);
    return status == MICA_OK;
}

static void test_allocations(void **state) {
    (void)state;
    static const char *const names[] = {"mlp", "cnn", "loops", "corners"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        file f;
        f.data = read_golden(names[i], &f.n);
        assert_true(test_fail_each_allocation(decode, &f) > 50);
        free(f.data);
    }
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
        cmocka_unit_test(test_missing_operators),
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_outside),
        cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_operands),
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_many_nodes),
        cmocka_unit_test(test_float_rounds),
        cmocka_unit_test(test_shared_weights),
        cmocka_unit_test(test_long_axis),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_flat_halves),
        cmocka_unit_test(test_outside_ranges),
        cmocka_unit_test(test_allocations),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
