/* Written JSON is what the reader reads, and what Python's json writes. */
#include "support/support.h"

#include "base/json_write.h"

#include <locale.h>
#include <math.h>
#include <string.h>

static void expect_text(const char *text, const char *want) {
    mc_buffer out = {0};
    assert_true(mc_json_put_text(&out, text));
    assert_string_equal(mc_buffer_cstr(&out), want);
    mc_buffer_deinit(&out);
}

static void test_texts(void **state) {
    (void)state;
    expect_text("", "\"\"");
    expect_text("plain /text/", "\"plain /text/\"");
    expect_text("a\"b\\c\n\x01\x7f", "\"a\\\"b\\\\c\\u000a\\u0001\\u007f\"");
    expect_text("\xc3\xa9\xe2\x82\xac", "\"\\u00e9\\u20ac\"");
    expect_text("\xf0\x9f\xa6\x9c", "\"\\ud83e\\udd9c\"");
    expect_text("a\xff\x80z", "\"a\\udcff\\udc80z\"");
}

static void test_numbers(void **state) {
    (void)state;
    static const double values[] = {0.0, 1.0, -2.5, 0.1, 1e300, 4294967295.0, 1.0 / 3.0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        mc_buffer out = {0};
        mc_json_doc *doc;
        double got = -1.0;
        assert_true(mc_json_put_number(&out, values[i]));
        assert_int_equal(mc_json_parse(out.data, out.len, "number", &doc), MICA_OK);
        assert_true(mc_json_get_float(mc_json_root(doc), &got));
        assert_true(got == values[i]);
        mc_json_close(&doc);
        mc_buffer_deinit(&out);
    }
    mc_buffer out = {0};
    assert_true(mc_json_put_number(&out, -(double)INFINITY) && mc_json_put_number(&out, NAN));
    assert_string_equal(mc_buffer_cstr(&out), "nullnull");
    mc_buffer_deinit(&out);
}

/* Numbers have a point, also where the locale's is a comma. */
static void test_locale(void **state) {
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    const char *found = NULL;
    for (size_t i = 0; !found && i < sizeof names / sizeof *names; i++)
        found = setlocale(LC_NUMERIC, names[i]);
    if (!found) skip();
    mc_buffer out = {0};
    bool done = mc_json_put_number(&out, -2.5);
    setlocale(LC_NUMERIC, "C");
    assert_true(done);
    assert_string_equal(mc_buffer_cstr(&out), "-2.5");
    mc_buffer_deinit(&out);
}

/* What Python's json.dumps(value, indent=4) writes. */
static void test_values(void **state) {
    (void)state;
    static const char text[] =
        "{\n    \"a\": [\n        1,\n        -2.5,\n        1e-06,\n"
        "        1.0,\n        0.1,\n        1e+20,\n        null,\n        true,\n"
        "        \"\\u20ac \\u0000\"\n    ],\n    \"b\": {},\n"
        "    \"c\": {\n        \"d\": []\n    }\n}";
    mc_json_doc *doc;
    mc_buffer out = {0};
    assert_int_equal(mc_json_parse(text, sizeof text - 1, "text", &doc), MICA_OK);
    assert_true(mc_json_put_value(&out, mc_json_root(doc), 0));
    assert_string_equal(mc_buffer_cstr(&out), text);
    mc_buffer_clear(&out);
    assert_true(mc_json_put_value(&out, mc_json_root(doc), MC_JSON_ONE_LINE)); /* no indent */
    assert_string_equal(mc_buffer_cstr(&out),
                        "{\"a\": [1, -2.5, 1e-06, 1.0, 0.1, 1e+20, null, true, \"\\u20ac "
                        "\\u0000\"], \"b\": {}, \"c\": {\"d\": []}}");
    mc_buffer_deinit(&out);
    mc_json_close(&doc);
}

static bool try_put(void *arg) {
    mc_buffer out = {0};
    (void)arg;
    bool done = mc_json_put_text(&out, "text \xe2\x82\xac") && mc_json_put_number(&out, 1.5);
    mc_buffer_deinit(&out);
    return done;
}

static void test_no_memory(void **state) {
    (void)state;
    test_fail_each_allocation(try_put, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),     cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_values),    cmocka_unit_test(test_locale),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("base/json_write", tests, NULL, NULL);
}
