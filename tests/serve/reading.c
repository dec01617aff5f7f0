#include "reading.h"

#include "base/json_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mc_json find_element(mc_json array, size_t i) {
    mc_json_iter it = mc_json_begin(array);
    while (mc_json_next(&it))
        if (i-- == 0) return it.value;
    return (mc_json){0};
}

mc_json element(mc_json array, size_t i) {
    if (i >= mc_json_count(array)) fail_msg("there is no element %zu", i);
    return find_element(array, i);
}

mc_json at(mc_json value, const char *path) {
    while (*path) {
        char name[64];
        size_t len = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)len, path);
        bool array = mc_json_get_type(value) == MC_JSON_ARRAY;
        value = array ? find_element(value, (size_t)strtoul(name, NULL, 10))
                      : mc_json_find(value, name);
        path += len + (path[len] == '.');
    }
    return value;
}

mc_str text_at(mc_json value, const char *path) {
    mc_str text = MC_STR("");
    if (!mc_json_get_str(at(value, path), &text)) fail_msg("%s is no text", path);
    return text;
}

int64_t int_at(mc_json value, const char *path) {
    int64_t n = 0;
    if (!mc_json_get_int(at(value, path), &n)) fail_msg("%s is no integer", path);
    return n;
}

double real_at(mc_json value, const char *path) {
    double x = 0;
    if (!mc_json_get_float(at(value, path), &x)) fail_msg("%s is no number", path);
    return x;
}

void check_text(mc_json value, const char *path, mc_str want) {
    mc_str got = text_at(value, path);
    if (!mc_str_eq(got, want))
        fail_msg("%s: \"%.*s\", want \"%.*s\"", path, MC_STR_ARG(got), MC_STR_ARG(want));
}

void check_null(mc_json value, const char *path) {
    assert_int_equal(mc_json_get_type(at(value, path)), MC_JSON_NULL);
}

static mc_json_doc *goldens;

mc_json golden(int i) {
    if (!goldens) {
        char *path = test_format("%s/default/golden.json", test_models_dir());
        goldens = test_load_json(path);
        free(path);
    }
    return element(mc_json_root(goldens), (size_t)i);
}

void goldens_close(void) {
    mc_json_close(&goldens);
}

char *quoted(const char *text) {
    mc_buffer out = {0};
    assert_true(mc_json_put_text(&out, text));
    char *copy = test_format("%.*s", (int)out.len, out.data);
    mc_buffer_deinit(&out);
    return copy;
}

mc_json_doc *read_event(const char **at) {
    mc_json_doc *doc;
    char name[64];
    while (**at == ':') /* a comment */
        *at = strstr(*at, "\n\n") + 2;
    if (!**at) return NULL;
    assert_int_equal(sscanf(*at, "event: %63s\n", name), 1);
    const char *data = strstr(*at, "\ndata: "), *end = strstr(*at, "\n\n");
    assert_true(data && end && data < end);
    data += 7;
    assert_int_equal(mc_json_parse(data, (size_t)(end - data), "an event", &doc), MICA_OK);
    assert_true(mc_str_is(text_at(mc_json_root(doc), "type"), name));
    *at = end + 2;
    return doc;
}
