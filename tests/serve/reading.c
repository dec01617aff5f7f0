#include "reading.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mc_json element(mc_json array, int index) {
    mc_json_iter it = mc_json_begin(array);
    while (mc_json_next(&it))
        if (index-- == 0) return it.value;
    return (mc_json){0};
}

mc_json at(mc_json value, const char *path) {
    while (*path) {
        char name[64];
        size_t len = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)len, path);
        bool array = mc_json_get_type(value) == MC_JSON_ARRAY;
        value = array ? element(value, atoi(name)) : mc_json_find(value, name);
        path += len + (path[len] == '.');
    }
    return value;
}

mc_str text_at(mc_json value, const char *path) {
    mc_str text = {NULL, 0};
    mc_json_get_str(at(value, path), &text);
    return text;
}

int64_t int_at(mc_json value, const char *path) {
    int64_t n = -1;
    mc_json_get_int(at(value, path), &n);
    return n;
}

double real_at(mc_json value, const char *path) {
    double x = NAN;
    mc_json_get_float(at(value, path), &x);
    return x;
}

void check_text(mc_json value, const char *path, mc_str want) {
    mc_str got = text_at(value, path);
    if (!got.ptr || !mc_str_eq(got, want))
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
    return element(mc_json_root(goldens), i);
}

void goldens_close(void) {
    mc_json_close(&goldens);
}
