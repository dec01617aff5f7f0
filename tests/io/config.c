/* io/config: reading keys, and the text of every complaint. */
#include "io/config.h"

#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char text[] =
    "{\"model_type\": \"gemma3\", \"eos_token_id\": [1, 106], \"bos_token_id\": 2, \"eps\": 1e-06,"
    " \"rope_scaling\": null, \"tie\": false, \"whole\": 2048.0, \"architectures\": [\"A\", \"B\"],"
    " \"text_config\": {\"hidden_size\": \"abc\", \"layers\": 0, \"big\": 99999999999,"
    "   \"rope_scaling\": {\"factor\": -8.0, \"rope_type\": 3}, \"mixed\": [1, \"x\"]},"
    " \"quantization\": {\"bits\": 4, \"lm_head\": {\"bits\": 6}, \"model.norm\": false}}";

static mc_config *config;
static mc_config_scope root, inner;

static int open_config(void **state) {
    (void)state;
    if (mc_config_parse(text, sizeof text - 1, "m/config.json", &config) != MICA_OK) return 1;
    root = mc_config_root(config);
    return mc_config_object(&root, "text_config", MC_REQUIRED, &inner) != MICA_OK;
}

static int close_config(void **state) {
    (void)state;
    mc_config_close(&config);
    mc_config_close(&config);
    return 0;
}

static void says(mica_status status, mica_status want, const char *error) {
    assert_string_equal(mica_last_error(), error);
    assert_int_equal(status, want);
}

static void test_values(void **state) {
    (void)state;
    int64_t i = 0;
    double f = 0;
    bool b = true;
    mc_str s;
    assert_int_equal(mc_config_int(&root, "bos_token_id", MC_REQUIRED, 0, 10, &i), MICA_OK);
    assert_int_equal(i, 2);
    assert_int_equal(mc_config_int(&root, "whole", MC_REQUIRED, 1, 4096, &i), MICA_OK);
    assert_int_equal(i, 2048);
    assert_int_equal(mc_config_float(&root, "eps", MC_REQUIRED, 0, 1, &f), MICA_OK);
    assert_true(f == 1e-6);
    assert_int_equal(mc_config_float(&root, "bos_token_id", MC_REQUIRED, 0, 10, &f), MICA_OK);
    assert_true(f == 2);
    assert_int_equal(mc_config_bool(&root, "tie", MC_REQUIRED, &b), MICA_OK);
    assert_false(b);
    assert_int_equal(mc_config_str(&root, "model_type", MC_REQUIRED, &s), MICA_OK);
    assert_true(mc_str_is(s, "gemma3"));
    assert_true(mc_config_has(&root, "tie"));
    assert_false(mc_config_has(&root, "rope_scaling"));
    assert_false(mc_config_has(&root, "gone"));
}

static void test_lists(void **state) {
    (void)state;
    int64_t ids[4] = {7, 7, 7, 7};
    size_t count = 9;
    mc_str names[2];
    assert_int_equal(mc_config_ints(&root, "eos_token_id", MC_REQUIRED, 0, 1000, ids, 4, &count),
                     MICA_OK);
    assert_true(count == 2 && ids[0] == 1 && ids[1] == 106 && ids[2] == 7);
    assert_int_equal(mc_config_ints(&root, "bos_token_id", MC_REQUIRED, 0, 1000, ids, 4, &count),
                     MICA_OK);
    assert_true(count == 1 && ids[0] == 2);
    assert_int_equal(mc_config_strs(&root, "architectures", MC_REQUIRED, names, 2, &count),
                     MICA_OK);
    assert_true(count == 2 && mc_str_is(names[0], "A") && mc_str_is(names[1], "B"));
    says(mc_config_ints(&root, "eos_token_id", MC_REQUIRED, 0, 1000, ids, 1, &count), MICA_EFORMAT,
         "m/config.json: eos_token_id: has 2 elements, at most 1 are taken");
    says(mc_config_ints(&root, "eos_token_id", MC_REQUIRED, 0, 100, ids, 4, &count), MICA_EFORMAT,
         "m/config.json: eos_token_id: want an integer in 0..100, found 106");
    says(mc_config_ints(&inner, "mixed", MC_REQUIRED, 0, 100, ids, 4, &count), MICA_EFORMAT,
         "m/config.json: text_config.mixed: want an integer in 0..100, found \"x\"");
    says(mc_config_strs(&inner, "mixed", MC_OPTIONAL, names, 2, &count), MICA_EFORMAT,
         "m/config.json: text_config.mixed: want a list of texts, found 1");
    says(mc_config_strs(&root, "model_type", MC_OPTIONAL, names, 2, &count), MICA_EFORMAT,
         "m/config.json: model_type: want a list of texts, found \"gemma3\"");
    assert_int_equal(count, 2); /* as the last good reading left it */
}

static void test_absent_and_null(void **state) {
    (void)state;
    int64_t i = 5;
    double f = 5;
    bool b = true;
    mc_str s = MC_STR("default");
    size_t count = 5;
    mc_config_scope none;
    static const char *const keys[] = {"gone", "rope_scaling"};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(mc_config_int(&root, keys[k], MC_OPTIONAL, 0, 1, &i), MICA_OK);
        assert_int_equal(mc_config_float(&root, keys[k], MC_OPTIONAL, 0, 1, &f), MICA_OK);
        assert_int_equal(mc_config_bool(&root, keys[k], MC_OPTIONAL, &b), MICA_OK);
        assert_int_equal(mc_config_str(&root, keys[k], MC_OPTIONAL, &s), MICA_OK);
        assert_int_equal(mc_config_ints(&root, keys[k], MC_OPTIONAL, 0, 1, &i, 1, &count), MICA_OK);
        assert_int_equal(mc_config_strs(&root, keys[k], MC_OPTIONAL, &s, 1, &count), MICA_OK);
        assert_int_equal(mc_config_object(&root, keys[k], MC_OPTIONAL, &none), MICA_OK);
        assert_int_equal(mc_config_int(&none, "deeper", MC_OPTIONAL, 0, 1, &i), MICA_OK);
    }
    assert_true(i == 5 && f == 5 && b && mc_str_is(s, "default") && count == 5);
    says(mc_config_int(&root, "gone", MC_REQUIRED, 0, 1, &i), MICA_ENOENT,
         "m/config.json: gone: is missing");
    says(mc_config_object(&root, "rope_scaling", MC_REQUIRED, &none), MICA_ENOENT,
         "m/config.json: rope_scaling: is missing");
    mc_config_scope empty = mc_config_root(NULL);
    assert_int_equal(mc_config_int(&empty, "gone", MC_OPTIONAL, 0, 1, &i), MICA_OK);
    assert_false(mc_config_has(&empty, "gone"));
}

static void test_complaints(void **state) {
    (void)state;
    int64_t i = 5;
    double f = 5;
    bool b = true;
    mc_str s;
    mc_config_scope deep;
    says(mc_config_int(&inner, "hidden_size", MC_REQUIRED, 1, 65536, &i), MICA_EFORMAT,
         "m/config.json: text_config.hidden_size: want an integer in 1..65536, found \"abc\"");
    says(mc_config_int(&inner, "layers", MC_OPTIONAL, 1, 1000, &i), MICA_EFORMAT,
         "m/config.json: text_config.layers: want an integer in 1..1000, found 0");
    says(mc_config_int(&inner, "big", MC_OPTIONAL, 1, 1000, &i), MICA_EFORMAT,
         "m/config.json: text_config.big: want an integer in 1..1000, found 99999999999");
    says(mc_config_int(&root, "eps", MC_OPTIONAL, 1, 1000, &i), MICA_EFORMAT,
         "m/config.json: eps: want an integer in 1..1000, found 1e-06");
    says(mc_config_int(&root, "tie", MC_OPTIONAL, 0, 1, &i), MICA_EFORMAT,
         "m/config.json: tie: want an integer in 0..1, found false");
    says(mc_config_str(&root, "eos_token_id", MC_OPTIONAL, &s), MICA_EFORMAT,
         "m/config.json: eos_token_id: want a text, found a list");
    says(mc_config_bool(&root, "text_config", MC_OPTIONAL, &b), MICA_EFORMAT,
         "m/config.json: text_config: want true or false, found an object");
    says(mc_config_object(&root, "tie", MC_OPTIONAL, &deep), MICA_EFORMAT,
         "m/config.json: tie: want an object, found false");
    assert_int_equal(mc_config_object(&inner, "rope_scaling", MC_REQUIRED, &deep), MICA_OK);
    says(mc_config_float(&deep, "factor", MC_REQUIRED, 1, 1e6, &f), MICA_EFORMAT,
         "m/config.json: text_config.rope_scaling.factor: want a number in 1..1e+06, found -8");
    says(mc_config_str(&deep, "rope_type", MC_REQUIRED, &s), MICA_EFORMAT,
         "m/config.json: text_config.rope_scaling.rope_type: want a text, found 3");
    says(mc_config_fail(&deep, "rope_type", MICA_EUNSUPPORTED, "'%s' is none of %d", "odd", 3),
         MICA_EUNSUPPORTED,
         "m/config.json: text_config.rope_scaling.rope_type: 'odd' is none of 3");
    assert_true(i == 5 && f == 5 && b);
}

/* Per-layer overrides have keys with dots in them, and false for layers left alone. */
static void test_iteration_over_a_scope(void **state) {
    (void)state;
    mc_config_scope quantization, layer;
    assert_int_equal(mc_config_object(&root, "quantization", MC_REQUIRED, &quantization), MICA_OK);
    size_t objects = 0, flags = 0;
    for (mc_json_iter it = mc_json_begin(quantization.object); mc_json_next(&it);) {
        objects += mc_json_get_type(it.value) == MC_JSON_OBJECT;
        flags += mc_json_get_type(it.value) == MC_JSON_BOOL;
    }
    assert_true(objects == 1 && flags == 1);
    int64_t bits = 0;
    assert_int_equal(mc_config_object(&quantization, "lm_head", MC_REQUIRED, &layer), MICA_OK);
    assert_int_equal(mc_config_int(&layer, "bits", MC_REQUIRED, 2, 8, &bits), MICA_OK);
    assert_int_equal(bits, 6);
}

static void test_long_keys_are_cut(void **state) {
    (void)state;
    char key[301];
    memset(key, 'k', 300);
    key[300] = 0;
    mc_config_scope deep = root;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mc_config_object(&deep, key, MC_OPTIONAL, &deep), MICA_OK);
        assert_true(strlen(deep.path) < sizeof deep.path);
    }
}

static void test_files(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/config.json", dir);
    mc_config *c;
    assert_int_equal(mc_config_load(dir, "config.json", MC_REQUIRED, &c), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), path));
    assert_int_equal(mc_config_load(dir, "config.json", MC_OPTIONAL, &c), MICA_OK);
    assert_null(c);
    static const char *const bad[] = {"", "[]", "3", "[NaN]", "{\"a\": nan}", "{'a': 1}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        test_write_file(path, bad[i], strlen(bad[i]));
        assert_int_equal(mc_config_load(dir, "config.json", MC_OPTIONAL, &c), MICA_EFORMAT);
        assert_non_null(strstr(mica_last_error(), path));
        assert_null(c);
    }
    test_write_file(path, text, sizeof text - 1);
    assert_int_equal(mc_config_load(dir, "config.json", MC_REQUIRED, &c), MICA_OK);
    mc_config_close(&c);
    free(path);
    test_temp_dir_remove(dir);
}

/* Infinity as Python's json and as transformers write it: taken, and out of every range
 * that does not end with it. */
static void test_infinity(void **state) {
    (void)state;
    static const char infinite[] =
        "{\"limit\": [0.0, Infinity], \"new\": {\"__float__\": \"Infinity\"}, \"eps\": -Infinity,"
        " \"n\": 3}";
    char *dir = test_temp_dir(), *path = test_format("%s/config.json", dir);
    mc_config *c;
    double f = 5;
    int64_t i = 0;
    test_write_file(path, infinite, sizeof infinite - 1);
    if (mc_config_load(dir, "config.json", MC_REQUIRED, &c) != MICA_OK)
        fail_msg("%s", mica_last_error());
    mc_config_scope scope = mc_config_root(c);
    assert_int_equal(mc_config_int(&scope, "n", MC_REQUIRED, 0, 9, &i), MICA_OK);
    double limit[2] = {-1, -1};
    size_t count = 0;
    assert_int_equal(mc_config_floats(&scope, "limit", MC_REQUIRED, 0, INFINITY, limit, 2, &count),
                     MICA_OK);
    assert_true(count == 2 && limit[0] == 0 && isinf(limit[1]) && limit[1] > 0);
    assert_int_equal(mc_config_floats(&scope, "limit", MC_REQUIRED, 0, 1, limit, 2, &count),
                     MICA_EFORMAT);
    assert_int_equal(mc_config_floats(&scope, "limit", MC_REQUIRED, 0, INFINITY, limit, 1, &count),
                     MICA_EFORMAT);
    char *eps = test_format("%s: eps: want a number in 0..1, found -Infinity", path);
    char *new = test_format("%s: new: want a number in 0..1, found Infinity", path);
    says(mc_config_float(&scope, "eps", MC_REQUIRED, 0, 1, &f), MICA_EFORMAT, eps);
    says(mc_config_float(&scope, "new", MC_REQUIRED, 0, 1, &f), MICA_EFORMAT, new);
    assert_true(f == 5 && i == 3);
    mc_config_close(&c);
    free(eps);
    free(new);
    free(path);
    test_temp_dir_remove(dir);
}

static bool load_and_close(void *arg) {
    mc_config *c;
    mica_status status = mc_config_load(arg, "config.json", MC_REQUIRED, &c);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    assert_true((c != NULL) == (status == MICA_OK));
    mc_config_close(&c);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    char *dir = test_format("%s/default", test_models_dir());
    test_fail_each_allocation(load_and_close, dir);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_absent_and_null),
        cmocka_unit_test(test_complaints),
        cmocka_unit_test(test_iteration_over_a_scope),
        cmocka_unit_test(test_long_keys_are_cut),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_infinity),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, open_config, close_config);
}
