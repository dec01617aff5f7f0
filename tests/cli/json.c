/* cli/json: every JSON file of the fixtures, and texts that are no JSON. */
#include "cli/json.h"

#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parses(const char *text) {
    cli_json json = {0};
    const char *why = NULL;
    bool read = cli_json_parse(&json, text, strlen(text), &why);
    assert_true(read || (why && *why));
    cli_json_deinit(&json);
    return read;
}

static void test_texts_that_are_json(void **state) {
    static const char *const texts[] = {
        "0",
        "-0",
        "1.5e-3",
        "1E+9",
        "\"\"",
        " [ ] ",
        "{}",
        "null",
        "[1,[2,3]]",
        "\t{\"a\" :\n[true , false]}\r",
        "\"\\u0041\\n\"",
        "[{},[],\"\"]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_true(parses(texts[i]));
}

static void test_texts_that_are_not(void **state) {
    static const char *const texts[] = {
        "",         " ",         "01",          "+1",          "1.",     ".5",
        "1e",       "-",         "nul",         "truee",       "[1,]",   "[1 2]",
        "{\"a\"}",  "{\"a\":}",  "{a:1}",       "{\"a\":1,}",  "\"",     "\"\\",
        "\"\\x\"",  "\"\\u12\"", "\"\\u00g0\"", "\"\\u0000\"", "\"\n\"", "[",
        "{\"a\"",   "1 1",       "]",           "{]",          "[}",     "\"a",
        "{\"a\":1", "'a'",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(parses(texts[i]));
}

static void check_string(const char *text, const char *expected) {
    cli_json json = {0};
    const char *why;
    assert_true(cli_json_parse(&json, text, strlen(text), &why));
    assert_int_equal(json.nodes[0].kind, CLI_JSON_STRING);
    assert_string_equal(json.nodes[0].text, expected);
    cli_json_deinit(&json);
}

static void test_escapes(void **state) {
    (void)state;
    check_string("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t");
    check_string("\"\\u00e9\\u20AC\\ud83d\\ude42\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82");
    check_string("\"\\ud83d\"", "\xef\xbf\xbd");
    check_string("\"\\ude42x\"", "\xef\xbf\xbdx");
    check_string("\"\\ud83d\\u0041\"", "\xef\xbf\xbd"
                                       "A");
}

static void test_members(void **state) {
    static const char text[] = "{\"a\": 1.50, \"b\": {\"a\": null}, \"c\": [\"x\", true]}";
    cli_json json = {0};
    const char *why;
    (void)state;
    assert_true(cli_json_parse(&json, text, strlen(text), &why));
    const cli_json_node *root = &json.nodes[0];
    assert_string_equal(cli_json_find(&json, root, "a")->text, "1.50");
    const cli_json_node *b = cli_json_find(&json, root, "b");
    assert_int_equal(cli_json_find(&json, b, "a")->kind, CLI_JSON_NULL);
    const cli_json_node *c = cli_json_find(&json, root, "c");
    const cli_json_node *x = cli_json_first(&json, c);
    assert_string_equal(x->text, "x");
    assert_int_equal(cli_json_next(&json, x)->kind, CLI_JSON_TRUE);
    assert_null(cli_json_next(&json, cli_json_next(&json, x)));
    assert_null(cli_json_find(&json, root, "d"));
    assert_null(cli_json_find(&json, c, "a"));
    cli_json_deinit(&json);
}

static void test_depth(void **state) {
    char text[401];
    (void)state;
    for (int depth = 1; depth <= 200; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = '\0';
        assert_int_equal(parses(text), depth <= 65);
    }
}

/* A golden is read, and no beginning of it is. */
static void test_goldens(void **state) {
    (void)state;
    char *path = test_format("%s/default/golden.json", test_models_dir());
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    static char text[1 << 20];
    size_t len = fread(text, 1, sizeof text, in);
    fclose(in);
    free(path);
    while (len > 0 && text[len - 1] == '\n')
        len--;
    cli_json json = {0};
    const char *why = NULL;
    assert_true(cli_json_parse(&json, text, len, &why));
    for (size_t n = 0; n < len; n += 1 + n / 50) {
        char *copy = malloc(n + 1); /* of its own, so that reading past it is seen */
        assert_non_null(copy);
        memcpy(copy, text, n);
        assert_false(cli_json_parse(&json, copy, n, &why));
        free(copy);
    }
    cli_json_deinit(&json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_that_are_json),
        cmocka_unit_test(test_texts_that_are_not),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_goldens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
