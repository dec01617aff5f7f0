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
           "2 of what it needs are missing: operator Foo of opset 18 (node 0, Foo, node 3, Foo); "
           "operator com.acme.Bar of opset 0 (node 2, Bar)");
    message old = model_of(&graph, 5);
    refuse_bytes(old.data, old.n, MICA_EUNSUPPORTED,
                 "3 of what it needs are missing: opset 5, where mica reads 6 to 28");
    message early = model_of(&graph, 1000);
    refuse_bytes(early.data, early.n, MICA_EUNSUPPORTED, "opset 1000, where mica reads 6 to 28");
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
    refuse(&d, MICA_EFORMAT, "its graph has no outputs");
    put_port(&e, 11, "x", 2, NULL);
    put_port(&e, 11, "shape", 1, NULL);
    put_node(&e, "", "Reshape", "x", "shape", "y");
    refuse(&e, MICA_EUNSUPPORTED, "Reshape: operand 1, 'shape', depends on what a run is given");
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
    message c = {.n = 0}; /* of lengths */
    put_port(&c, 11, "x", 0, "n");
    put_numbers(&c, "zero", 7, (int64_t[]){0}, 1);
    put_node(&c, "", "Shape", "x", NULL, "shape");
    put_node_with(&c, "Gather", "shape zero", "y", &axes, 1);
    put_port(&c, 12, "y", 1, NULL);
    refuse(&c, MICA_EFORMAT, "node 1, Gather: its attribute 'axis' is of another type");
}

/* Nodes without an operator, also where others look at it: within a branch. */
static void test_no_operators(void **state) {
    (void)state;
    message node = {.n = 0}, graph = {.n = 0}, branch = {.n = 0}, outer = {.n = 0};
    put_text(&node, 1, "x");
    put_text(&node, 2, "y");
    put_port(&graph, 11, "x", 2, NULL);
    put(&graph, 1, &node);
    put_port(&graph, 12, "y", 2, NULL);
    refuse(&graph, MICA_EFORMAT, "node 0 has no operator");
    put(&branch, 1, &node);
    put_port(&branch, 12, "y", 2, NULL);
    message sides[] = {attribute_of("then_branch", KIND_GRAPH),
                       attribute_of("else_branch", KIND_GRAPH)};
    put(&sides[0], 6, &branch);
    put(&sides[1], 6, &branch);
    put_port(&outer, 11, "x", 2, NULL);
    put_node_with(&outer, "If", "x", "y", sides, 2);
    put_port(&outer, 12, "y", 2, NULL);
    refuse(&outer, MICA_EFORMAT, "node 0 has no operator");
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

static void refuse_options(const message *graph, const mica_onnx_options *options, mica_status want,
                           const char *text) {
    message model = model_of(graph, 18);
    mica_program *program = NULL;
    mica_status status = mica_onnx_decode(device, model.data, model.n, options, &program);
    if (status != want || !strstr(mica_last_error(), text))
        fail_msg("%s: %s, where \"%s\" is expected", mica_status_name(status), mica_last_error(),
                 text);
    assert_null(program);
}

/* Names that the file does not have, a fixed length that would be another, a symbol where a number
 * must be, and more symbols than there may be. */
static void test_lengths(void **state) {
    (void)state;
    static const mica_onnx_dim none = {"other", 1}, fixed = {"y.0", 3};
    message a = {.n = 0}, b = {.n = 0}, c = {.n = 0};
    put_port(&a, 11, "x", 0, "past_length");
    put_port(&a, 11, "y", 2, NULL);
    put_port(&a, 11, "z", 0, "");
    refuse_options(&a, &(mica_onnx_options){.dims = &none, .n_dims = 1}, MICA_ENOENT,
                   "there is no length 'other'; there are: x.0 (past_length), z.0");
    refuse_options(&a, &(mica_onnx_options){.dims = &fixed, .n_dims = 1}, MICA_EINVAL,
                   "input 'y': axis 0 is 2 in the file, and cannot be 3");
    const mica_onnx_dim twice[] = {{"z.0", 3}, {"z.0", 4}},
                        hidden[] = {{"x.0", 3}, {"past_length", 4}};
    refuse_options(&a, &(mica_onnx_options){.dims = twice, .n_dims = 2}, MICA_EINVAL,
                   "length 'z.0' is given twice");
    refuse_options(&a, &(mica_onnx_options){.dims = hidden, .n_dims = 2}, MICA_EINVAL,
                   "length 'past_length' is given, and so is the place of each axis of it");
    put_port(&b, 11, "x", 0, "n");
    put_numbers(&b, "k", 7, (int64_t[]){1}, 1);
    put_node(&b, "", "Shape", "x", NULL, "length");
    put_node(&b, "", "Trilu", "x", "length", "y");
    put_port(&b, 12, "y", 0, "n");
    refuse(&b, MICA_EINVAL,
           "1 of what it needs is missing: Trilu: operand 1 must be a number, and is n "
           "(node 1, Trilu). What to do: for lengths, give a number to each name");
    for (int i = 0; i < 33; i++) {
        char *name = test_format("x%d", i), *dim = test_format("d%d", i);
        put_port(&c, 11, name, 0, dim);
        free(name);
        free(dim);
    }
    refuse(&c, MICA_EINVAL, "one symbol too many; 32 is the limit");
}

/* An input of integers that is fixed to what is none, or is beyond them. */
static void refuse_fraction(mica_scope *s) {
    message shape = {.n = 0}, tensor = {.n = 0}, type = {.n = 0}, port = {.n = 0}, a = {.n = 0};
    put_int(&tensor, 1, 2); /* u8 */
    put(&tensor, 2, &shape);
    put(&type, 1, &tensor);
    put_text(&port, 1, "rate");
    put(&port, 2, &type);
    put(&a, 11, &port);
    put_node(&a, "", "Identity", "rate", NULL, "y");
    put_port(&a, 12, "y", 1, NULL);
    const mica_array numbers[] = {mica_f32(s, 1.5f), mica_scalar(s, 256, MICA_I64),
                                  mica_f32(s, NAN)};
    for (size_t i = 0; i < 3; i++) {
        const mica_named_array input = {"rate", numbers[i]};
        refuse_options(&a, &(mica_onnx_options){.inputs = &input, .n_inputs = 1}, MICA_EINVAL,
                       "input 'rate': what it is fixed to is no u8");
    }
}

/* Inputs that are fixed: their names, shapes and numbers. */
static void test_fixed_inputs(void **state) {
    (void)state;
    mica_scope *s = NULL;
    message a = {.n = 0};
    put_port(&a, 11, "x", 3, NULL);
    put_port(&a, 11, "y", 0, "n");
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array one = mica_f32(s, 1), two = mica_zeros(s, (int64_t[]){2}, 1, MICA_F32);
    put_cube(&a, "cube", 1 << 12);
    const mica_named_array inputs[] = {{"z", one}, {"x", two}, {"y", one}, {"cube", one}};
    static const char *const texts[] = {"there is no input 'z'; there are: x, y, cube",
                                        "input 'x': what it is fixed to has another shape",
                                        "its shape must be a number, and is n (input 'y')",
                                        "its constants take too much memory (input 'cube')"};
    static const mica_status statuses[] = {MICA_ENOENT, MICA_ESHAPE, MICA_EINVAL,
                                           MICA_EUNSUPPORTED};
    for (size_t i = 0; i < 4; i++)
        refuse_options(&a, &(mica_onnx_options){.inputs = &inputs[i], .n_inputs = 1}, statuses[i],
                       texts[i]);
    const mica_named_array twice[] = {{"x", two}, {"x", one}};
    refuse_options(&a, &(mica_onnx_options){.inputs = twice, .n_inputs = 2}, MICA_EINVAL,
                   "input 'x' is given twice");
    refuse_fraction(s);
    mica_scope_close(&s);
}

/* All that is missing is in one text. */
static void test_all_that_is_missing(void **state) {
    (void)state;
    message graph = {.n = 0}, mode = text_attribute("mode", "odd");
    put_port(&graph, 11, "x", 2, NULL);
    put_port(&graph, 11, "k", 1, NULL);
    put_node(&graph, "", "Foo", "x", NULL, "a");
    put_node(&graph, "", "Relu", "a", NULL, "b");
    put_node(&graph, "", "CumSum", "x", "k", "c");
    put_node_with(&graph, "Resize", "x", "d", &mode, 1);
    put_port(&graph, 12, "b", 2, NULL);
    refuse(&graph, MICA_EUNSUPPORTED,
           "3 of what it needs are missing: operator Foo of opset 18 (node 0, Foo); CumSum: "
           "operand 1, 'k', depends on what a run is given");
    refuse(&graph, MICA_EUNSUPPORTED, "Resize: mica does not have this mode of resizing");
    refuse(
        &graph, MICA_EUNSUPPORTED,
        ". What to do: for operators, export without them, or as functions of others; for values "
        "of a run, fix the inputs that they depend on; for forms of operators and dtypes, export "
        "another one");
}

/* Nodes that wait for each other have no order. */
static void test_circles(void **state) {
    (void)state;
    message graph = {.n = 0};
    put_port(&graph, 11, "x", 2, NULL);
    put_node(&graph, "", "Add", "x", "b", "a");
    put_node(&graph, "", "Relu", "a", NULL, "b");
    put_port(&graph, 12, "b", 2, NULL);
    refuse(&graph, MICA_EFORMAT, "node 0, Add, waits for its own results");
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

/* No groups, and zero points of another dtype than what they belong to. */
static void test_integers(void **state) {
    (void)state;
    static const float numbers[] = {1, 1, 1, 1};
    message a = {.n = 0}, b = {.n = 0}, group = attribute_of("group", KIND_INT);
    put_cube(&a, "x", 4);
    put_node_with(&a, "Conv", "x x", "y", &group, 1);
    put_port(&a, 12, "y", 4, NULL);
    refuse(&a, MICA_EFORMAT, "node 0, Conv: it has 0 groups");
    put_cube(&b, "x", 4);
    put_numbers(&b, "one", 1, numbers, 1);
    put_numbers(&b, "w", 1, numbers, 4);
    put_numbers(&b, "shape", 7, (int64_t[]){4, 1}, 2);
    put_node(&b, "", "QuantizeLinear", "x", "one", "q");
    put_node(&b, "", "QuantizeLinear", "w", "one", "v");
    put_node(&b, "", "Reshape", "v", "shape", "column");
    put_node_with(&b, "MatMulInteger", "q column one", "y", NULL, 0);
    put_port(&b, 12, "y", 4, NULL);
    refuse(&b, MICA_EFORMAT, "a zero point is f32, and what it belongs to u8");
}

/* What turns elements round of which only the first ones are there, or normalises over all. */
static void test_counts(void **state) {
    (void)state;
    message a = {.n = 0}, b = {.n = 0}, c = {.n = 0}, model;
    put_port(&a, 11, "x", 4, NULL);
    put_numbers(&a, "one", 7, (int64_t[]){1}, 1);
    put_numbers(&a, "minus", 7, (int64_t[]){-1}, 1);
    put_numbers(&a, "end", 7, (int64_t[]){-9}, 1);
    put_node(&a, "", "NonZero", "x", NULL, "at");
    put_node_with(&a, "Slice", "at minus end one minus", "y", NULL, 0);
    put_port(&a, 12, "y", 4, NULL);
    refuse(&a, MICA_EUNSUPPORTED, "Slice of an operand whose length depends on values");
    put_port(&b, 11, "x", 4, NULL);
    put_cube(&b, "z", 2);
    put_node(&b, "", "NonZero", "x", NULL, "at");
    put_node(&b, "", "Gather", "z", "at", "picked");
    put_node(&b, "", "Trilu", "picked", NULL, "y");
    put_port(&b, 12, "y", 4, NULL);
    model = model_of(&b, 12);
    refuse_bytes(model.data, model.n, MICA_EUNSUPPORTED,
                 "Trilu of an operand whose length depends on values");
    put_port(&c, 11, "x", 4, NULL);
    put_node(&c, "", "NonZero", "x", NULL, "at");
    put_node(&c, "", "ReduceMean", "at", NULL, "y");
    put_port(&c, 12, "y", 4, NULL);
    refuse(&c, MICA_EUNSUPPORTED, "means of integers whose number depends on values");
}

/* 100 - length * count: the fewer there are, the longer it is, whatever the length's name is. */
static void test_subtracted_counts(void **state) {
    (void)state;
    static const char *const names[] = {"n", "m", "batch", "zz", "q1", "height"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        message a = {.n = 0};
        put_port(&a, 11, "x", 0, names[i]);
        put_numbers(&a, "zero", 7, (int64_t[]){0}, 1);
        put_numbers(&a, "most", 7, (int64_t[]){100}, 1);
        put_node(&a, "", "Shape", "x", NULL, "length");
        put_node(&a, "", "NonZero", "x", NULL, "at");
        put_node(&a, "", "Squeeze", "at", "zero", "places");
        put_node(&a, "", "Shape", "places", NULL, "count");
        put_node(&a, "", "Mul", "length", "count", "product");
        put_node(&a, "", "Sub", "most", "product", "left");
        put_node(&a, "", "ConstantOfShape", "left", NULL, "y");
        put_port(&a, 12, "y", 0, "left");
        refuse(&a, MICA_EUNSUPPORTED, "a length that depends on values so");
    }
}

/* A count of i64 beside a branch of f32 without elements is no result of both. */
static void test_branches_of_two_dtypes(void **state) {
    (void)state;
    message a = {.n = 0}, none = {.n = 0}, counted = {.n = 0}, value, branches[2];
    message tensor = {.n = 0};
    put_port(&a, 11, "x", 0, "n");
    put_port(&a, 11, "f", 1, NULL);
    put_numbers(&a, "zero", 7, (int64_t[]){0}, 1);
    put_numbers(&a, "zeros", 1, (float[]){0}, 1);
    put_int(&tensor, 1, 0);
    put_int(&tensor, 2, 1);
    value = attribute_of("value", KIND_TENSOR);
    put(&value, 5, &tensor);
    put_node_with(&none, "Constant", "", "e", &value, 1);
    put_port(&none, 12, "e", 0, NULL);
    put_node(&counted, "", "NonZero", "x", NULL, "at");
    put_node(&counted, "", "Squeeze", "at", "zero", "places");
    put_port(&counted, 12, "places", 0, "k");
    branches[0] = attribute_of("then_branch", KIND_GRAPH);
    put(&branches[0], 6, &none);
    branches[1] = attribute_of("else_branch", KIND_GRAPH);
    put(&branches[1], 6, &counted);
    put_node(&a, "", "Less", "f", "zeros", "less");
    put_node(&a, "", "Squeeze", "less", "zero", "flag");
    put_node_with(&a, "If", "flag", "y", branches, 2);
    put_port(&a, 12, "y", 0, "k");
    message model = model_of(&a, 18);
    mica_program *program = NULL;
    mica_port port = {.struct_bytes = sizeof port};
    if (mica_onnx_decode(device, model.data, model.n, NULL, &program) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_int_equal(mica_program_result_count(program), 1); /* and no count */
    assert_int_equal(mica_program_get_result(program, 0, &port), MICA_OK);
    assert_int_equal(port.dtype, MICA_F32);
    mica_program_close(&program);
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
        {3, 22, 1, MICA_EFORMAT, "its shape takes 2 bytes, its data has 1"},
        {2, 99, 8, MICA_EUNSUPPORTED, "mica has no dtype for ONNX's kind (99)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        message graph = {.n = 0};
        put_tensor(&graph, "w", rows[i].dim, rows[i].type, rows[i].bytes, NULL);
        put_port(&graph, 12, "w", 2, NULL);
        refuse(&graph, rows[i].status, rows[i].text);
    }
}

/* Operators read few of the types that mica has no dtype for, and operands of one type. */
static void test_small_types(void **state) {
    (void)state;
    static const struct {
        int64_t w, v;
        const char *op;
    } rows[] = {{22, 22, "Add"}, {17, 17, "MatMul"}, {22, 21, "Concat"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        message graph = {.n = 0}, axis = attribute_of("axis", KIND_INT);
        put_int(&axis, 3, 0);
        put_tensor(&graph, "w", 2, rows[i].w, rows[i].w == 17 ? 2 : 1, NULL);
        put_tensor(&graph, "v", 2, rows[i].v, rows[i].w == 17 ? 2 : 1, NULL);
        put_node_with(&graph, rows[i].op, "w v", "y", &axis, 1);
        put_port(&graph, 12, "y", 2, NULL);
        refuse(&graph, MICA_EUNSUPPORTED, "this operator of types of eight bits or fewer");
    }
}

/* A small file does not ask for any amount of memory by its strides. */
static void test_unpooling(void **state) {
    (void)state;
    message graph = {.n = 0},
            attributes[] = {ints_attribute("kernel_shape", 1), ints_attribute("strides", 1 << 30)};
    put_cube(&graph, "x", 2);
    put_node(&graph, "", "Floor", "x", NULL, "at");
    put_node_with(&graph, "MaxUnpool", "x at", "y", attributes, 2);
    put_port(&graph, 12, "y", 2, NULL);
    refuse(&graph, MICA_EUNSUPPORTED, "unpooling to so much more than there is");
}

/* Places that a sequence does not have, operators that read none, and results that are ones. */
static void test_sequences(void **state) {
    (void)state;
    static const struct {
        const char *op, *in, *text;
        mica_status want;
    } rows[] = {
        {"SequenceAt", "s nine", "a sequence of 2 has no such place", MICA_EFORMAT},
        {"SequenceErase", "empty", "a sequence of 0 has no such place", MICA_EFORMAT},
        {"SequenceAt", "x nine", "its operand is no sequence", MICA_EFORMAT},
        {"Relu", "s", "Relu: mica does not have this operator of sequences", MICA_EUNSUPPORTED},
        {"SequenceConstruct", "s", "this operator of sequences", MICA_EUNSUPPORTED},
        {"SequenceInsert", "s x", "result 'y': it is no tensor", MICA_EUNSUPPORTED},
        {"ConcatFromSequence", "empty", "its sequence is empty", MICA_EFORMAT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        message graph = {.n = 0}, axis = attribute_of("axis", KIND_INT);
        put_int(&axis, 3, 0);
        put_port(&graph, 11, "x", 2, NULL);
        put_numbers(&graph, "nine", 7, (int64_t[]){9}, 1);
        put_node(&graph, "", "SequenceConstruct", "x", "x", "s");
        put_node(&graph, "", "SequenceEmpty", NULL, NULL, "empty");
        put_node_with(&graph, rows[i].op, rows[i].in, "y", &axis, 1);
        put_port(&graph, 12, "y", 2, NULL);
        refuse(&graph, rows[i].want, rows[i].text);
    }
}

/* ---- trees ---- */

static void add_list(message *attributes, size_t *n, const char *name, int64_t a, int64_t b) {
    attributes[*n] = ints_attribute(name, a);
    put_int(&attributes[(*n)++], 8, b);
}

/* A tree of two nodes: whose modes, tree, link and feature are these. */
static void refuse_tree(const char *mode, int64_t number, int64_t link, int64_t feature,
                        mica_status want, const char *text) {
    static const uint8_t values[8];
    message *attributes = calloc(10, sizeof *attributes), graph = {.n = 0}, node = {.n = 0};
    size_t n = 0;
    assert_non_null(attributes);
    add_list(attributes, &n, "nodes_treeids", 0, 0);
    add_list(attributes, &n, "nodes_nodeids", 0, number);
    add_list(attributes, &n, "nodes_featureids", feature, 0);
    add_list(attributes, &n, "nodes_truenodeids", 1, 0);
    add_list(attributes, &n, "nodes_falsenodeids", link, 0);
    add_list(attributes, &n, "target_treeids", 0, 0);
    add_list(attributes, &n, "target_nodeids", 1, 1);
    add_list(attributes, &n, "target_ids", 0, 0);
    attributes[n] = attribute_of("nodes_values", 6);
    put_bytes(&attributes[n++], 7, values, sizeof values);
    attributes[n] = attribute_of("nodes_modes", 8);
    put_text(&attributes[n], 9, "BRANCH_LEQ");
    put_text(&attributes[n++], 9, mode);
    put_port(&graph, 11, "x", 2, NULL);
    put_text(&node, 1, "x");
    put_text(&node, 2, "y");
    put_text(&node, 4, "TreeEnsembleRegressor");
    put_text(&node, 7, "ai.onnx.ml");
    for (size_t i = 0; i < n; i++)
        put(&node, 5, &attributes[i]);
    message weights = attribute_of("target_weights", 6);
    put_bytes(&weights, 7, values, sizeof values);
    put(&node, 5, &weights);
    put(&graph, 1, &node);
    put_port(&graph, 12, "y", 1, NULL);
    refuse(&graph, want, text);
    free(attributes);
}

static void test_trees(void **state) {
    (void)state;
    refuse_tree("BRANCH_LEQ", 1, 1, 0, MICA_EFORMAT, "its trees are out of range");
    refuse_tree("LEAF", 1, 0, 0, MICA_EFORMAT, "its trees go in circles");
    refuse_tree("LEAF", 0, 1, 0, MICA_EFORMAT, "two nodes of a tree have one number");
    refuse_tree("LEAF", 1, 9, 0, MICA_EFORMAT, "a tree leads to a node that is not there");
    refuse_tree("LEAF", 1, 1, 7, MICA_ESHAPE, "its trees read feature 7 of 2");
    refuse_tree("ODDS", 1, 1, 0, MICA_EUNSUPPORTED, "this mode of a node");
}

/* ---- functions ---- */

static message function_of(const char *name, const char *in, const char *out, const message *node) {
    message m = {.n = 0};
    put_text(&m, 1, name);
    put_text(&m, 4, in);
    put_text(&m, 5, out);
    put(&m, 7, node);
    put_text(&m, 10, "own");
    return m;
}

static void refuse_function(const message *function, const char *in, mica_status want,
                            const char *text) {
    message graph = {.n = 0};
    put_port(&graph, 11, "x", 2, NULL);
    put_node(&graph, "own", "F", in, NULL, "y");
    put_port(&graph, 12, "y", 2, NULL);
    message model = model_of(&graph, 18);
    put(&model, 25, function);
    refuse_bytes(model.data, model.n, want, text);
}

/* Functions that call themselves, lack an operator, an operand or a result, or see outer names. */
static void test_functions(void **state) {
    (void)state;
    static const struct {
        const char *op, *domain, *in, *out, *of;
        mica_status want;
        const char *text;
    } rows[] = {
        {"F", "own", "a", "b", "x", MICA_EUNSUPPORTED, "functions nest more than 32 deep"},
        {"Foo", "", "a", "b", "x", MICA_EUNSUPPORTED, "operator Foo of opset 18 (node 0, Foo)"},
        {"Relu", "", "x", "b", "x", MICA_EFORMAT, "there is no value 'x' before it"},
        {"Relu", "", "a", "c", "x", MICA_EFORMAT, "there is no value 'b' before it"},
        {"Relu", "", "a", "b", "", MICA_EFORMAT, "node 0, Relu: operand 0 is absent"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        message node = {.n = 0};
        put_text(&node, 1, rows[i].in);
        put_text(&node, 2, rows[i].out);
        put_text(&node, 4, rows[i].op);
        if (*rows[i].domain) put_text(&node, 7, rows[i].domain);
        message f = function_of("F", "a", "b", &node);
        refuse_function(&f, rows[i].of, rows[i].want, rows[i].text);
    }
    message f = {.n = 0};
    put_text(&f, 1, "F");
    put_text(&f, 4, "a");
    put_text(&f, 5, "a");
    put_text(&f, 10, "own");
    refuse_function(&f, "", MICA_EFORMAT, "result 0 of its function is absent");
}

/* Functions that call the next one twice each: bounded as rounds of loops are. */
static void test_many_calls(void **state) {
    (void)state;
    message graph = {.n = 0};
    put_port(&graph, 11, "x", 2, NULL);
    put_node(&graph, "own", "F0", "x", NULL, "y");
    put_port(&graph, 12, "y", 2, NULL);
    message model = model_of(&graph, 18);
    for (int i = 0; i < 20; i++) {
        char *name = test_format("F%d", i), *next = test_format("F%d", i + 1);
        message f = {.n = 0};
        put_text(&f, 1, name);
        put_text(&f, 4, "a");
        put_text(&f, 5, "c");
        put_text(&f, 10, "own");
        for (int k = 0; k < 2; k++) {
            message node = {.n = 0};
            put_text(&node, 1, k ? "b" : "a");
            put_text(&node, 2, k ? "c" : "b");
            put_text(&node, 4, i < 19 ? next : "Neg");
            if (i < 19) put_text(&node, 7, "own");
            put(&f, 7, &node);
        }
        put(&model, 25, &f);
        free(name);
        free(next);
    }
    refuse_bytes(model.data, model.n, MICA_EUNSUPPORTED, "too many nodes");
}

/* Functions of levels that call the next one eight times each, the last one a node. */
static void refuse_calls(const message *node, size_t inputs, const char *text) {
    message graph = {.n = 0}, last = {.n = 0};
    put_port(&graph, 11, "x", 2, NULL);
    put_node(&graph, "own", "F0", "x", NULL, "y");
    put_port(&graph, 12, "y", 2, NULL);
    message model = model_of(&graph, 18);
    for (int i = 0; i < 5; i++) {
        char *name = test_format("F%d", i), *next = test_format("F%d", i + 1);
        message f = {.n = 0};
        put_text(&f, 1, name);
        put_text(&f, 4, "a");
        put_text(&f, 5, "y0");
        put_text(&f, 10, "own");
        for (int k = 0; k < 8; k++) {
            char *out = test_format("y%d", k);
            message call = {.n = 0};
            put_text(&call, 1, "a");
            put_text(&call, 2, out);
            put_text(&call, 4, next);
            put_text(&call, 7, "own");
            put(&f, 7, &call);
            free(out);
        }
        put(&model, 25, &f);
        free(name);
        free(next);
    }
    put_text(&last, 1, "F5");
    put_text(&last, 4, "a");
    for (size_t i = 1; i < inputs; i++) {
        char *name = test_format("i%zu", i);
        put_text(&last, 4, name);
        free(name);
    }
    put_text(&last, 5, "b");
    put(&last, 7, node);
    put_text(&last, 10, "own");
    put(&model, 25, &last);
    refuse_bytes(model.data, model.n, MICA_EUNSUPPORTED, text);
}

/* What calls take beside their nodes: operands, lists of a file, items of sequences. */
static void test_large_calls(void **state) {
    (void)state;
    message negative = {.n = 0}, encoder = {.n = 0}, sequence = {.n = 0};
    put_text(&negative, 1, "a");
    put_text(&negative, 2, "b");
    put_text(&negative, 4, "Neg");
    refuse_calls(&negative, 1000, "too many nodes");

    message list = attribute_of("cats_int64s", KIND_INTS);
    for (int i = 0; i < 4000; i++)
        put_int(&list, 8, i % 100);
    put_text(&encoder, 1, "a");
    put_text(&encoder, 2, "b");
    put_text(&encoder, 4, "OneHotEncoder");
    put_text(&encoder, 7, "ai.onnx.ml");
    put(&encoder, 5, &list);
    refuse_calls(&encoder, 1, "its constants take too much memory");

    for (int i = 0; i < 1000; i++)
        put_text(&sequence, 1, "a");
    put_text(&sequence, 2, "b");
    put_text(&sequence, 4, "SequenceConstruct");
    refuse_calls(&sequence, 1, "too many nodes");
}

/* Data of other files is read from the model's folder alone. */
static void test_outside(void **state) {
    (void)state;
    static const char *const places[] = {"/etc/hostname",
                                         "../secret",
                                         "a/../../secret",
                                         "\\etc",
                                         "..\\secret",
                                         "a\\..\\../secret",
                                         "",
                                         ".."};
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

/* An operand without channels. */
static void put_square(message *graph, const char *name, int64_t type, int64_t length,
                       bool initializer) {
    message shape = {.n = 0}, tensor = {.n = 0}, type_of = {.n = 0}, port = {.n = 0};
    const int64_t lengths[] = {1, 0, length, length};
    if (initializer) {
        for (int k = 0; k < 4; k++)
            put_int(&tensor, 1, lengths[k]);
        put_int(&tensor, 2, type);
        put_text(&tensor, 8, name);
        put_bytes(&tensor, 9, "", 0);
        put(graph, 5, &tensor);
        return;
    }
    for (int k = 0; k < 4; k++) {
        message dim = {.n = 0};
        put_int(&dim, 1, lengths[k]);
        put(&shape, 1, &dim);
    }
    put_int(&tensor, 1, type);
    put(&tensor, 2, &shape);
    put(&type_of, 1, &tensor);
    put_text(&port, 1, name);
    put(&port, 2, &type_of);
    put(graph, 11, &port);
}

/* A kernel of 10^10 elements and no channels: sums of nothing, without a walk over it. */
static void test_empty_sums(void **state) {
    (void)state;
    message graph = {.n = 0};
    mica_program *program = NULL;
    mica_executable *executable = NULL;
    mica_scope *s = NULL;
    mica_array y;
    int32_t sum = 1;
    put_square(&graph, "x", 3, 100000, false);
    put_square(&graph, "w", 3, 100000, true);
    put_node(&graph, "", "ConvInteger", "x", "w", "y");
    put_port(&graph, 12, "y", 1, NULL);
    message model = model_of(&graph, 18);
    if (mica_onnx_decode(device, model.data, model.n, NULL, &program) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    const mica_input x = {.name = "x", .data = ""};
    assert_int_equal(mica_executable_open(program, NULL, &executable), MICA_OK);
    assert_int_equal(mica_executable_run(executable, &x, 1, s, &y), MICA_OK);
    assert_int_equal(mica_read(y, &sum, sizeof sum), MICA_OK);
    assert_int_equal(sum, 0);
    mica_executable_close(&executable);
    mica_scope_close(&s);
    mica_program_close(&program);
}

/* What sequences keep counts as long as they do. */
static void test_kept_constants(void **state) {
    (void)state;
    static const int64_t length = 1 << 20, zero = 0;
    message graph = {.n = 0};
    put_port(&graph, 11, "x", 1, NULL);
    put_numbers(&graph, "length", 7, &length, 1);
    put_numbers(&graph, "zero", 7, &zero, 1);
    for (int i = 0; i < 100; i++) {
        char *a = test_format("a%d", i), *s = test_format("s%d", i), *t = test_format("t%d", i);
        put_node(&graph, "", "ConstantOfShape", "length", NULL, a);
        put_node(&graph, "", "SequenceConstruct", a, NULL, s);
        put_node(&graph, "", "SequenceAt", s, "zero", t);
        free(a), free(s), free(t);
    }
    put_node(&graph, "", "Neg", "x", NULL, "y");
    put_port(&graph, 12, "y", 1, NULL);
    refuse(&graph, MICA_EUNSUPPORTED, "its constants take too much memory");
}

/* A graph that a function is given would be read with the function's names. */
static void test_given_graphs(void **state) {
    (void)state;
    message branch = {.n = 0}, node = {.n = 0}, call = {.n = 0}, graph = {.n = 0};
    put_node(&branch, "", "Neg", "x", NULL, "q");
    put_port(&branch, 12, "q", 2, NULL);
    put_text(&node, 1, "a");
    put_text(&node, 2, "b");
    put_text(&node, 4, "If");
    put_text(&call, 1, "x");
    put_text(&call, 2, "y");
    put_text(&call, 4, "F");
    put_text(&call, 7, "own");
    for (int k = 0; k < 2; k++) {
        message to = attribute_of(k ? "else_branch" : "then_branch", KIND_GRAPH), of = to;
        put_text(&of, 21, k ? "else_branch" : "then_branch");
        put(&to, 6, &branch);
        put(&node, 5, &of);
        put(&call, 5, &to);
    }
    message f = function_of("F", "a", "b", &node);
    put_port(&graph, 11, "x", 2, NULL);
    put(&graph, 1, &call);
    put_port(&graph, 12, "y", 2, NULL);
    message model = model_of(&graph, 18);
    put(&model, 25, &f);
    refuse_bytes(model.data, model.n, MICA_EUNSUPPORTED, "graphs as attributes of functions");
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
        char *op = test_format("Op%d", i), *out = test_format("y%d", i);
        put_node(&graph, "", op, "x", NULL, out);
        free(op);
        free(out);
    }
    refuse(&graph, MICA_EUNSUPPORTED, "300 of what it needs are missing: operator Op0 of opset 18");
    refuse(&graph, MICA_EUNSUPPORTED, "operator Op299 of opset 18 (node 299, Op299). What to do: ");

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
    mica_status status = mica_onnx_decode(device, f->data, f->n, NULL, &program);
    assert_true((status == MICA_OK) == (program != NULL));
    if (status != MICA_OK && status != MICA_ENOMEM)
        fail_msg("%s: %s", mica_status_name(status), mica_last_error());
    mica_program_close(&program);
    return status == MICA_OK;
}

static void test_allocations(void **state) {
    (void)state;
    static const char *const names[] = {"mlp", "cnn", "loops", "corners", "lengths", "functions"};
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

/* All that a file lacks is told at once, and nothing else: the rest of it is there. */
static void test_one_refusal(void **state) {
    (void)state;
    char *path = test_format("%s/onnx/refusals.onnx", test_cases_dir());
    char *want =
        test_format("%s: 1 of what it needs is missing: Cast: mica has no dtype for ONNX's "
                    "STRING (8) (node 5, Cast). What to do: for forms of operators and dtypes, "
                    "export another one",
                    path);
    mica_program *program = NULL;
    assert_int_equal(mica_onnx_load(device, path, NULL, &program), MICA_EUNSUPPORTED);
    assert_string_equal(mica_last_error(), want);
    free(want);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_operators),
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_small_types),
        cmocka_unit_test(test_unpooling),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_trees),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_many_calls),
        cmocka_unit_test(test_large_calls),
        cmocka_unit_test(test_outside),
        cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_no_operators),
        cmocka_unit_test(test_empty_sums),
        cmocka_unit_test(test_kept_constants),
        cmocka_unit_test(test_given_graphs),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_fixed_inputs),
        cmocka_unit_test(test_all_that_is_missing),
        cmocka_unit_test(test_circles),
        cmocka_unit_test(test_operands),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_subtracted_counts),
        cmocka_unit_test(test_branches_of_two_dtypes),
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_many_nodes),
        cmocka_unit_test(test_float_rounds),
        cmocka_unit_test(test_shared_weights),
        cmocka_unit_test(test_long_axis),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_flat_halves),
        cmocka_unit_test(test_outside_ranges),
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_one_refusal),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
