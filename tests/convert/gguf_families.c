/* GGUF files of every family: they hold what llama.cpp's converter makes of the same folders
 * (tools/make_gguf_family_goldens.py), and a file with other metadata is read, or refused by its
 * name. */
#include "convert/scratch.h"
#include "convert/source.h"
#include "io/gguf.h"
#include "model/fixture.h"

#include <mica/convert.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes a folder as f32. false: GGUF cannot tell the model */
static bool write_wide(const char *folder) {
    const mica_convert_options wide = {.dtype = "float32", .dequantise = true};
    mica_status status = mica_convert(folder, file, &wide, NULL);
    if (status != MICA_OK && status != MICA_EUNSUPPORTED)
        fail_msg("%s: %s", folder, mica_last_error());
    return status == MICA_OK;
}

/* ---- llama.cpp's converter ---- */

static void check_number(const mc_gguf *g, mc_str key, mc_json want) {
    char name[128];
    double got = NAN, number;
    bool truth;
    snprintf(name, sizeof name, "%.*s", MC_STR_ARG(key));
    if (mc_json_get_bool(want, &truth)) {
        bool found = !truth;
        if (!mc_gguf_bool(g, name, &found) || found != truth) fail_msg("%s", name);
        return;
    }
    assert_true(mc_json_get_float(want, &number));
    mc_gguf_number(g, name, &got);
    if (!(fabs(got - number) <= 1e-6 * fabs(number))) fail_msg("%s: %g, not %g", name, got, number);
}

static void check_list(const mc_gguf *g, mc_str key, mc_json want) {
    char name[128];
    double number;
    bool truth;
    snprintf(name, sizeof name, "%.*s", MC_STR_ARG(key));
    mc_gguf_iter it = mc_gguf_begin(g, name);
    for (mc_json_iter w = mc_json_begin(want); mc_json_next(&w);) {
        if (!mc_gguf_next(&it)) fail_msg("%s is no such list", name);
        if (mc_json_get_bool(w.value, &truth))
            number = truth;
        else
            assert_true(mc_json_get_float(w.value, &number));
        if (it.number != number) fail_msg("%s: element %zu is %g", name, it.index, it.number);
    }
}

/* The sum of the elements times sin(0.7 i + 0.3); *size: that of their magnitudes. */
static double weigh(const mc_gguf_tensor *t, double *size) {
    double sum = 0;
    float values[256];
    *size = 0;
    for (size_t at = 0, n = 0; at < t->bytes; at += t->type->bytes) {
        t->type->decode((const uint8_t *)t->data + at, values);
        for (int i = 0; i < (int)t->type->block; i++, n++) {
            sum += (double)values[i] * sin(0.7 * (double)n + 0.3);
            *size += fabs((double)values[i]);
        }
    }
    return sum;
}

static void check_tensor(const mc_gguf *g, mc_str key, mc_json want) {
    char name[128];
    double number, size;
    int k = 0;
    snprintf(name, sizeof name, "%.*s", MC_STR_ARG(key));
    const mc_gguf_tensor *t = mc_gguf_find(g, name);
    if (!t) fail_msg("%s: no tensor %s", mc_gguf_path(g), name);
    double sum = weigh(t, &size);
    for (mc_json_iter it = mc_json_begin(want); mc_json_next(&it);) {
        assert_true(mc_json_get_float(it.value, &number));
        while (k < t->ndim && t->shape[k] == 1)
            k++;
        if (k < t->ndim) {
            if ((double)t->shape[k++] != number) fail_msg("%s: another shape", name);
        } else if (!(fabs(sum - number) <= 1e-6 * size + 1e-6)) {
            fail_msg("%s: %s holds %.9g, not %.9g", mc_gguf_path(g), name, sum, number);
        }
    }
}

static void each(const mc_gguf *g, mc_json members,
                 void (*check)(const mc_gguf *, mc_str, mc_json)) {
    for (mc_json_iter it = mc_json_begin(members); mc_json_next(&it);)
        check(g, it.key, it.value);
}

static void check_any(const mc_gguf *g, mc_str key, mc_json want) {
    (mc_json_get_type(want) == MC_JSON_ARRAY ? check_list : check_number)(g, key, want);
}

/* Numbers, and all tensors but those that the model computes. */
static void test_converter(void **state) {
    (void)state;
    char *path = test_format("%s/gguf/families.json", test_cases_dir());
    mc_json_doc *doc;
    int same = 0;
    assert_int_equal(mc_json_load(path, MC_FILE_CONFIG, &doc), MICA_OK);
    for (mc_json_iter it = mc_json_begin(mc_json_root(doc)); mc_json_next(&it);) {
        char *folder = test_format("%s/families/%.*s", test_cases_dir(), MC_STR_ARG(it.key));
        mc_gguf *g;
        make_folder(NULL);
        if (write_wide(folder)) {
            assert_int_equal(mc_gguf_open(file, &g), MICA_OK);
            each(g, mc_json_find(it.value, "numbers"), check_any);
            each(g, mc_json_find(it.value, "tensors"), check_tensor);
            assert_int_equal(mc_gguf_count(g), mc_json_count(mc_json_find(it.value, "tensors")));
            mc_gguf_close(&g);
            same++;
        }
        remove_folder(NULL);
        free(folder);
    }
    mc_json_close(&doc);
    free(path);
    print_message("%d as llama.cpp converts them\n", same);
    assert_true(same >= 20);
}

/* ---- other metadata ---- */

static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; /* of GGUF's types */

static uint64_t read_u64(const char *at) {
    uint64_t n;
    memcpy(&n, at, sizeof n);
    return n;
}

static uint32_t read_u32(const char *at) {
    uint32_t n;
    memcpy(&n, at, sizeof n);
    return n;
}

/* Behind a value of a type. */
static char *skip_value(char *at, uint32_t type) {
    if (type == 8) return at + 8 + read_u64(at);
    if (type != 9) return at + sizes[type];
    uint32_t inner = read_u32(at);
    uint64_t n = read_u64(at + 4);
    at += 12;
    for (uint64_t i = 0; i < n; i++)
        at = skip_value(at, inner);
    return at;
}

static int models, refused;

/* Reads a file as mica_convert does, and computes all that it would write. */
static mica_status read_all(mica_device *device) {
    mc_source source;
    mica_scope *s = NULL;
    mc_value value;
    MC_TRY(mc_source_open_gguf(file, NULL, &source));
    mica_status status = mc_source_check(&source, file);
    if (status == MICA_OK) status = mica_scope_open(device, &s);
    for (size_t i = 0; status == MICA_OK && i < source.count; i++) {
        status = source.load(&source, i, s, &value);
        if (status == MICA_OK) status = mica_eval(s, value.weight);
    }
    mica_scope_close(&s);
    mc_source_close(&source);
    return status;
}

/* Reads the changed file, and puts the bytes back. */
static void try_bytes(mica_device *device, char *bytes, size_t size, char *at, const void *value,
                      size_t n) {
    char old[8];
    memcpy(old, at, n);
    memcpy(at, value, n);
    test_write_file(file, bytes, size);
    memcpy(at, old, n);
    mica_status status = read_all(device);
    models += status == MICA_OK;
    refused += status != MICA_OK;
    if (status != MICA_OK && status != MICA_EFORMAT && status != MICA_EUNSUPPORTED &&
        status != MICA_ESHAPE && status != MICA_ENOENT)
        fail_msg("%s: %s", mica_status_name(status), mica_last_error());
    assert_true(status == MICA_OK || strstr(mica_last_error(), file));
}

/* A key with another name, and numbers out of all bounds, or unlike the tensors. */
static void try_pair(mica_device *d, char *bytes, size_t size, char *key, size_t len, uint32_t type,
                     char *value) {
    static const uint32_t numbers[] = {0, 3, 0x7fffffff};
    static const float reals[] = {0, 1e30F, NAN};
    uint32_t inner = type == 9 ? read_u32(value) : type;
    if (type == 9) value += 12;
    try_bytes(d, bytes, size, key + len - 1, "_", 1);
    for (size_t i = 0; i < 3; i++) {
        if (inner == 4 || inner == 5) try_bytes(d, bytes, size, value, &numbers[i], 4);
        if (inner == 6) try_bytes(d, bytes, size, value, &reals[i], 4);
    }
}

static void change_model(mica_device *device, const char *path) {
    make_folder(NULL);
    if (write_wide(path)) {
        size_t size;
        char *bytes = test_read_file(file, &size), *at = bytes + 24;
        for (uint64_t i = 0, n = read_u64(bytes + 16); i < n; i++) {
            size_t len = read_u64(at);
            char *key = at + 8;
            uint32_t type = read_u32(key + len);
            bool general = strncmp(key, "general.", 8) == 0 || strncmp(key, "tokenizer.", 10) == 0;
            at = skip_value(key + len + 4, type);
            if (!general) try_pair(device, bytes, size, key, len, type, key + len + 4);
        }
        free(bytes);
    }
    remove_folder(NULL);
}

static void change_family(const model_fixture *f) {
    if (strstr(f->path, "/families/")) change_model(f->device, f->path);
}

static void test_changed(void **state) {
    (void)state;
    fixture_each(change_family);
    print_message("%d models, %d refused\n", models, refused);
    assert_true(refused > 1000);
}

static void test_changed_encoders(void **state) {
    (void)state;
    mica_device *device;
    char *all = test_format("%s/embedders", test_fixtures_dir());
    test_list folders = test_list_folders(all);
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    for (size_t i = 0; i < folders.count; i++) {
        char *path = test_format("%s/%s", all, folders.names[i]);
        change_model(device, path);
        free(path);
    }
    print_message("%d models, %d refused\n", models, refused);
    assert_true(refused > 100);
    mica_device_close(&device);
    test_list_free(&folders);
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_converter),
        cmocka_unit_test(test_changed_encoders),
        cmocka_unit_test(test_changed),
    };
    return cmocka_run_group_tests_name("convert/gguf_families", tests, NULL, NULL);
}
