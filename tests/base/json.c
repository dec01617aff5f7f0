/* base/json: values, iteration, and what is not JSON. */
#include "base/json.h"
#include "base/json_write.h"

#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static mc_json_doc *parse(const char *text) {
    mc_json_doc *doc = NULL;
    mica_status status = mc_json_parse(text, strlen(text), "test.json", &doc);
    if (status != MICA_OK) fail_msg("%s: %s", text, mica_last_error());
    return doc;
}

static void test_scalars(void **state) {
    (void)state;
    mc_json_doc *doc = parse("{\"i\": -42, \"f\": 1.5, \"w\": 2048.0, \"t\": true, \"n\": null,"
                             " \"s\": \"a\\u00e9\\n\\u0000z\", \"u\": 18446744073709551615,"
                             " \"m\": -9223372036854775808, \"e\": 1e30}");
    mc_json root = mc_json_root(doc);
    int64_t i = 7;
    double f = 7;
    bool b = false;
    mc_str s;
    assert_true(mc_json_get_int(mc_json_find(root, "i"), &i) && i == -42);
    assert_true(mc_json_get_int(mc_json_find(root, "w"), &i) && i == 2048);
    assert_true(mc_json_get_int(mc_json_find(root, "m"), &i) && i == INT64_MIN);
    assert_true(mc_json_get_float(mc_json_find(root, "i"), &f) && f == -42);
    assert_true(mc_json_get_float(mc_json_find(root, "f"), &f) && f == 1.5);
    assert_true(mc_json_get_float(mc_json_find(root, "u"), &f) && f == 18446744073709551615.0);
    assert_true(mc_json_get_bool(mc_json_find(root, "t"), &b) && b);
    assert_true(mc_json_get_str(mc_json_find(root, "s"), &s));
    assert_int_equal(s.len, 6);
    assert_memory_equal(s.ptr, "a\xC3\xA9\n\0z", 6);
    assert_int_equal(mc_json_get_type(mc_json_find(root, "u")), MC_JSON_FLOAT);
    assert_int_equal(mc_json_get_type(mc_json_find(root, "n")), MC_JSON_NULL);
    assert_false(mc_json_exists(mc_json_find(root, "n")));
    assert_true(mc_json_exists(mc_json_find(root, "t")));
    /* Of another type: false, and the value stays. */
    i = 7;
    assert_false(mc_json_get_int(mc_json_find(root, "f"), &i));
    assert_false(mc_json_get_int(mc_json_find(root, "u"), &i));
    assert_false(mc_json_get_int(mc_json_find(root, "e"), &i));
    assert_false(mc_json_get_int(mc_json_find(root, "s"), &i));
    assert_false(mc_json_get_str(mc_json_find(root, "i"), &s));
    assert_false(mc_json_get_bool(mc_json_find(root, "n"), &b));
    assert_int_equal(i, 7);
    mc_json_close(&doc);
    assert_null(doc);
    mc_json_close(&doc);
}

static void test_nothing_is_soft(void **state) {
    (void)state;
    mc_json_doc *doc = parse("[1]");
    mc_json none = mc_json_find(mc_json_find(mc_json_root(doc), "a"), "b");
    int64_t i;
    assert_int_equal(mc_json_get_type(none), MC_JSON_NONE);
    assert_false(mc_json_get_int(none, &i));
    assert_int_equal(mc_json_count(none), 0);
    mc_json_iter it = mc_json_begin(none);
    assert_false(mc_json_next(&it));
    mc_json_close(&doc);
}

static void test_iteration(void **state) {
    (void)state;
    mc_json_doc *doc =
        parse("{\"a\": [1, [2, 3], {\"x\": 1}, 4.5, \"s\", true], \"b\": {}, \"c\": [], \"a\": 9}");
    mc_json root = mc_json_root(doc);
    const char *keys = "abca";
    size_t n = 0;
    mc_json first = {0};
    for (mc_json_iter it = mc_json_begin(root); mc_json_next(&it); n++) {
        assert_int_equal(it.key.len, 1);
        assert_int_equal(it.key.ptr[0], keys[n]);
        if (n == 0) first = it.value;
    }
    assert_int_equal(n, 4);
    assert_int_equal(mc_json_count(root), 4);
    int64_t last = 0;
    assert_true(mc_json_get_int(mc_json_find(root, "a"), &last)); /* the last one counts */
    assert_int_equal(last, 9);
    static const mc_json_type types[] = {MC_JSON_INT,   MC_JSON_ARRAY,  MC_JSON_OBJECT,
                                         MC_JSON_FLOAT, MC_JSON_STRING, MC_JSON_BOOL};
    n = 0;
    for (mc_json_iter it = mc_json_begin(first); mc_json_next(&it); n++) {
        assert_int_equal(mc_json_get_type(it.value), types[n]);
    }
    assert_int_equal(n, 6);
    assert_int_equal(mc_json_count(first), 6);
    assert_int_equal(mc_json_count(mc_json_find(root, "b")), 0);
    assert_int_equal(mc_json_count(mc_json_find(root, "c")), 0);
    mc_json_close(&doc);
}

static void test_scalar_documents(void **state) {
    (void)state;
    mc_json_doc *doc = parse(" 12 ");
    int64_t i;
    assert_true(mc_json_get_int(mc_json_root(doc), &i) && i == 12);
    mc_json_close(&doc);
    doc = parse("\xEF\xBB\xBF{\"bom\": 1}");
    assert_int_equal(mc_json_count(mc_json_root(doc)), 1);
    mc_json_close(&doc);
}

/* Integers that fit no 64 bits are floats, as in Python they are large; the text around them, and
 * digits in strings, exponents and fractions, stay what they are. */
static void test_integers_of_any_size(void **state) {
    (void)state;
    mc_json_doc *doc =
        parse("{\"model_max_length\": 1000000000000000019884624838656,"
              " \"s\": \"\\\"1000000000000000019884624838656\", \"n\": -99999999999999999999,"
              " \"f\": 0.10000000000000000000000000, \"i\": 123}");
    mc_json root = mc_json_root(doc);
    double f;
    int64_t i;
    mc_str s;
    assert_true(mc_json_get_float(mc_json_find(root, "model_max_length"), &f) && f == 1e30);
    assert_true(mc_json_get_float(mc_json_find(root, "n"), &f) && f == -1e20);
    assert_true(mc_json_get_float(mc_json_find(root, "f"), &f) && f == 0.1);
    assert_true(mc_json_get_str(mc_json_find(root, "s"), &s));
    assert_true(mc_str_is(s, "\"1000000000000000019884624838656"));
    assert_true(mc_json_get_int(mc_json_find(root, "i"), &i) && i == 123);
    mc_json_close(&doc);
}

/* Of up to 64 bits they are what they are, and are written so. */
static void test_unsigned(void **state) {
    (void)state;
    static const char text[] = "[0, 9223372036854775807, 9223372036854775808, "
                               "18446744073709551615, -1, 1.5, -9223372036854775808]";
    static const uint64_t want[] = {0, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX};
    mc_json_doc *doc = parse(text);
    mc_buffer out = {0};
    uint64_t got;
    size_t i = 0;
    for (mc_json_iter it = mc_json_begin(mc_json_root(doc)); mc_json_next(&it); i++)
        if (i < 4)
            assert_true(mc_json_get_uint(it.value, &got) && got == want[i]);
        else
            assert_false(mc_json_get_uint(it.value, &got));
    assert_true(mc_json_put_value(&out, mc_json_root(doc), MC_JSON_ONE_LINE));
    assert_string_equal(mc_buffer_cstr(&out), text);
    mc_buffer_deinit(&out);
    mc_json_close(&doc);
}

static void test_not_json(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "is empty"},
        {" \n", "is empty"},
        {"{", "ends too early"},
        {"{\"a\": 1", "ends too early"},
        {"{\"a\" 1}", "lacks a colon behind a name (line 1, column 6, in a)"},
        {"[1,]", "lacks a value (line 1, column 4, in [1])"},
        {"[1 2]", "lacks a comma or an end (line 1, column 4, in [0])"},
        {"{} {}", "goes on behind its end (line 1, column 4)"},
        {"[\"abc]", "string"},
        {"[\"a\nb\"]", "control character"},
        {"[\"\\q\"]", "string"},
        {"[\"\xFF\"]", "UTF-8"},
        {"[\"\xED\xA0\x80\"]", "UTF-8"},
        {"[1.]", "number"},
        {"[01]", "number"},
        {"[1e999]", "number"},
        {"[NaN]", "not true, false or null"},
        {"[-Infinity]", "number"},
        {"[nul]", "true, false or null"},
        {"[tru3]", "true, false or null"},
        {"{\n  \"eps\": 1e-6,\n  \"text_config\": {\"ropes\": [1, {\"\xC3\xA9\": 3, \"theta\": "
         ".5}]}\n}",
         "lacks a value (line 3, column 50, in text_config.ropes[1].theta)"},
        {"{\"a\": {\"b\": 1,}}",
         "lacks a name in quotes in front of a value (line 1, column 15, in a)"},
        {"{\"a\": {\"b\": [1, {}, \"c",
         "has a string without an end (line 1, column 21, in a.b[2])"},
        {"{\"a\": [[], [1, 2}", "lacks a comma or an end (line 1, column 17, in a[1][1])"},
        {"{\"a\": 1,\n \"b\": 2\n", "ends too early (line 3, column 1, in b)"},
        {"[\"\\ud800x\"]", "malformed string (line 1, column"},
        {"[\"\\udcff\"]", "malformed string (line 1, column 9, in [0])"},
        {"\xFF\xFE{", "is UTF-16: save it as UTF-8 (line 1, column 1)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mc_json_doc *doc;
        mica_status status = mc_json_parse(cases[i].text, strlen(cases[i].text), "a/b.json", &doc);
        if (status != MICA_EFORMAT || doc ||
            !strstr(mica_last_error(), "a/b.json: not valid JSON") ||
            !strstr(mica_last_error(), cases[i].want)) {
            fail_msg("'%s': %d, %s", cases[i].text, (int)status, mica_last_error());
        }
    }
}

/* Words of Python's json, in files only. */
static void test_python_words(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/config.json", dir);
    static const char text[] = "{\"a\": [0.0, Infinity], \"b\": NaN,\n \"c\":-Infinity, \"d\": "
                               "\"NaN \\\" Infinity\", \"e\": 1000000000000000019884624838656}";
    static const struct { const char *key, *want; } words[] = {{"b", "NaN"}, {"c", "-Infinity"}};
    mc_json_doc *doc;
    mc_str word;
    double number = 1;
    test_write_file(path, text, sizeof text - 1);
    if (mc_json_load(path, MC_FILE_CONFIG, &doc) != MICA_OK) fail_msg("%s", mica_last_error());
    mc_json root = mc_json_root(doc);
    assert_int_equal(mc_json_count(mc_json_find(root, "a")), 2);
    for (size_t i = 0; i < 2; i++) {
        mc_json v = mc_json_find(root, words[i].key);
        assert_true(mc_json_get_str(mc_json_find(v, "__float__"), &word));
        assert_true(mc_str_is(word, words[i].want));
        assert_false(mc_json_get_float(v, &number));
    }
    assert_true(mc_json_get_str(mc_json_find(root, "d"), &word));
    assert_true(mc_str_is(word, "NaN \" Infinity"));
    assert_true(mc_json_get_float(mc_json_find(root, "e"), &number) && number == 1e30);
    mc_json_close(&doc);
    test_write_file(path, "{\"a\": NaN, \"b\": xNaN}", 21);
    assert_int_equal(mc_json_load(path, MC_FILE_CONFIG, &doc), MICA_EFORMAT);
    assert_non_null(strstr(mica_last_error(), "not true, false or null (line 1, column 17, in b)"));
    free(path);
    test_temp_dir_remove(dir);
}

static void test_depth(void **state) {
    (void)state;
    enum { LEVELS = 100000 };
    char *text = malloc(2 * LEVELS);
    assert_non_null(text);
    mc_json_doc *doc;
    memset(text, '[', LEVELS);
    memset(text + LEVELS, ']', LEVELS);
    assert_int_equal(mc_json_parse(text, 2 * LEVELS, "deep", &doc), MICA_EFORMAT);
    assert_non_null(strstr(mica_last_error(), "256 levels"));
    assert_int_equal(mc_json_parse(text + LEVELS - 250, 500, "less deep", &doc), MICA_OK);
    mc_json_close(&doc);
    free(text);
}

static void test_files(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/a.json", dir);
    mc_json_doc *doc;
    assert_int_equal(mc_json_load(path, MC_FILE_CONFIG, &doc), MICA_ENOENT);
    assert_null(doc);
    assert_int_equal(mc_json_load(dir, MC_FILE_CONFIG, &doc), MICA_EIO);
    test_write_file(path, "", 0);
    assert_int_equal(mc_json_load(path, MC_FILE_CONFIG, &doc), MICA_EFORMAT);
    assert_non_null(strstr(mica_last_error(), path));
    test_write_file(path, "[1,2]", 5);
    assert_int_equal(mc_json_load(path, MC_FILE_CONFIG, &doc), MICA_OK);
    assert_int_equal(mc_json_count(mc_json_root(doc)), 2);
    mc_json_close(&doc);
    free(path);
    test_temp_dir_remove(dir);
}

static bool parse_and_close(void *arg) {
    mc_json_doc *doc;
    mica_status status = mc_json_parse(arg, strlen(arg), "x", &doc);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    assert_true((doc != NULL) == (status == MICA_OK));
    mc_json_close(&doc);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    char plain[] = "{\"a\": [1, 2]}", wide[] = "[1000000000000000019884624838656]";
    test_fail_each_allocation(parse_and_close, plain);
    test_fail_each_allocation(parse_and_close, wide);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_nothing_is_soft),
        cmocka_unit_test(test_iteration),
        cmocka_unit_test(test_scalar_documents),
        cmocka_unit_test(test_integers_of_any_size),
        cmocka_unit_test(test_unsigned),
        cmocka_unit_test(test_not_json),
        cmocka_unit_test(test_python_words),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
