/* cli/clean: what a terminal is given of texts that others made. */
#include "cli/clean.h"

#include "cli/ui.h"
#include "support/support.h"

#include <stdio.h>
#include <string.h>

static void check(const char *text, const char *want) {
    char copy[64];
    size_t len = strlen(text);
    assert_true(len < sizeof copy);
    memcpy(copy, text, len);
    len = cli_clean(copy, len);
    copy[len] = '\0';
    assert_string_equal(copy, want);
}

static void test_kept(void **state) {
    (void)state;
    static const char *const texts[] = {"", "a b\tc\n", "h\u00e9 \u20ac \U0001f600", "~\u00a0"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check(texts[i], texts[i]);
    /* A family of four, which joiners hold together, with a colour of skin. */
    check("\U0001f468\u200d\U0001f467\U0001f3fd", "\U0001f468\u200d\U0001f467\U0001f3fd");
}

static void test_left_out(void **state) {
    (void)state;
    check("a\033[2J\ab\rc\x7f", "a?[2J?b?c?");
    check("\xc2\x80\xc2\x9b"
          "31m\xc2\x9f",
          "??31m?");
    check("a\u202eb\u2066c\u2069\u200f\u061c", "a?b?c?\u200f\u061c");
    check("\u2028\u2029\ufffe\ufff9", "????");
}

static void test_broken(void **state) {
    (void)state;
    check("a\xff\xc2", "a??");
    check("\xc0\x9b[31m", "??[31m");   /* an overlong ESC */
    check("\xed\xa0\x80", "???");      /* half of a pair */
    check("\xf4\x90\x80\x80", "????"); /* beyond Unicode */
    check("\xe2\x82", "??");
}

/* JSON keeps them: as escapes, which the terminal does not take. */
static void test_json(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } rows[] = {{"\033", "\\u001b"}, {"\xc2\x9b", "\\u009b"}, {"\u202e", "\\u202e"},
                {"\x7f", "\\u007f"}, {"\xff", "\\ufffd"},     {"\u00e9", "\u00e9"},
                {"\t", "\\u0009"},   {"\r", "\\u000d"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[CLI_JSON_ESCAPE];
        size_t len, n = strlen(rows[i].text);
        assert_int_equal(cli_json_escape(rows[i].text, n, out, &len), n);
        assert_int_equal(len, strlen(rows[i].want));
        assert_memory_equal(out, rows[i].want, len);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
