/* Scanning JSON while it is written: what is accepted to its end is what simdjson parses, in
 * whatever pieces it comes. */
#include "support/support.h"

#include "answer/json_scan.h"
#include "base/buffer.h"
#include "base/json.h"

#include <string.h>

/* Whether a text is one value and nothing else, in pieces of `step` bytes. What is read of a piece
 * is not given again. */
static bool accepts(mc_str text, size_t step) {
    mc_json_scan scan = {.depth = 0};
    size_t from = 0, used;
    bool good = true;
    for (size_t to = 0; good && to < text.len && !mc_json_scan_is_done(&scan);) {
        to = text.len - to < step ? text.len : to + step;
        assert_int_equal(
            mc_json_scan_push(&scan, (mc_str){text.ptr + from, to - from}, &used, &good), MICA_OK);
        from += used;
    }
    while (from < text.len && strchr(" \t\r\n", text.ptr[from]) && text.ptr[from])
        from++;
    return good && mc_json_scan_is_done(&scan) && from == text.len;
}

/* Arrays and objects: a number at the end may go on. */
static void check(mc_str text) {
    mc_json_doc *doc = NULL;
    bool valid = mc_json_parse(text.ptr, text.len, "text", &doc) == MICA_OK;
    if (valid) {
        mc_json_type type = mc_json_get_type(mc_json_root(doc));
        valid = type == MC_JSON_ARRAY || type == MC_JSON_OBJECT || type == MC_JSON_STRING;
    }
    mc_json_close(&doc);
    for (size_t step = 1; step <= text.len; step = step < 4 ? step + 1 : step * 3)
        if (accepts(text, step) != valid)
            fail_msg("%.*s: %s, in pieces of %zu", MC_STR_ARG(text), valid ? "valid" : "not valid",
                     step);
}

static const char *const texts[] = {
    "{\"a\": [1, -2.5e+3, 0.1E-2, true, false, null], \"b\": {\"c\": {}}, \"d\": []}",
    "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\", "
    "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"]",
    " { \"a\" : [ 12345678901234567890123 , \"\" ] , \"a\" : 0 } \n",
    "\"x\"",
    "[[], [[]], {}]",
    "[\"\\ud83d\"]",
    "[\"\\ude00\"]",
    "[\"\\ud83d\\n\"]",
    "[01]",
    "[1.]",
    "[.5]",
    "[+1]",
    "[1e999]",
    "[nul]",
    "[NaN]",
    "{\"a\" 1}",
    "{\"a\": }",
    "{\"a\": 1,}",
    "[1,]",
    "[1}",
    "{1: 2}",
    "[\"\t\"]",
    "[\"\xc3\"]",
    "[\"\xed\xa0\x80\"]",
    "[] x",
    "{",
    "",
};

static void test_texts(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check(mc_str_of(texts[i]));
}

/* Texts with some bytes replaced, taken out or doubled. */
static void test_mutated(void **state) {
    (void)state;
    static const char bytes[] = "{}[]\",:\\u0dD81eE+-. tn\n\x01\xc3\xa9\x80";
    uint64_t random = 1;
    for (int i = 0; i < 6000; i++) {
        char text[128];
        const char *from = texts[i % 5];
        size_t len = strlen(from);
        memcpy(text, from, len);
        for (int change = 0; change < 1 + i % 3; change++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            size_t at = (random >> 33) % len;
            unsigned what = (random >> 20) % 4;
            if (what == 0) {
                memmove(text + at, text + at + 1, --len - at);
            } else if (what == 1) {
                memmove(text + at + 1, text + at, len - at);
                len++;
            } else {
                text[at] = bytes[(random >> 24) % (sizeof bytes - 1)];
            }
        }
        check((mc_str){text, len});
    }
}

static void test_depth(void **state) {
    (void)state;
    mc_buffer text = {0};
    for (size_t depth = 250; depth < 260; depth++) {
        mc_buffer_clear(&text);
        for (size_t i = 0; i <= 2 * depth; i++)
            assert_true(mc_buffer_add_byte(&text, i < depth ? '[' : i > depth ? ']' : '1'));
        check((mc_str){text.data, text.len});
    }
    mc_buffer_deinit(&text);
}

/* Behind a value, within objects: other members, and their ends. */
static void test_within(void **state) {
    (void)state;
    mc_json_scan scan = mc_json_scan_within(2);
    const mc_str text = MC_STR(" , \"b\": [2]} } }");
    size_t used;
    bool good;
    assert_int_equal(mc_json_scan_push(&scan, text, &used, &good), MICA_OK);
    assert_true(good && mc_json_scan_is_done(&scan));
    assert_int_equal(used, text.len - 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_mutated),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_within),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
