/* Patterns: what differs between Oniguruma and PCRE2, what is refused, and what takes too long.
 * That whole tokenizers split alike is in tokenizer_golden.c. */
#include "text/tokenizer/regex.h"
#include "support/support.h"
#include "text/tokenizer/pattern.h"

#include <stdlib.h>
#include <string.h>

static mc_regex *compile(const char *pattern) {
    mc_regex *regex = NULL;
    if (mc_regex_compile(mc_str_of(pattern), &regex) != MICA_OK) fail_msg("%s", mica_last_error());
    return regex;
}

typedef struct example {
    const char *pattern;
    const char *text;
    const char *matches; /* of all matches, "<>" around each */
} example;

/* As Oniguruma's Ruby syntax has it. */
static const example examples[] = {
    {"\\s", "a\xE1\xA0\x8E\xC2\x85\xE3\x80\x80z", "<\xC2\x85><\xE3\x80\x80>"}, /* not U+180E */
    {"[\\S]", " \xE1\xA0\x8E\n", "<\xE1\xA0\x8E>"},
    {"[^\\S\\n]", "a \n\tb", "< ><\t>"},
    {"\\w+", "a\xC2\xB2_\xE2\x93\x90-b\xE2\x80\x8D", "<a\xC2\xB2_\xE2\x93\x90><b>"},
    {"\\W", "a\xE2\x80\x8D.", "<\xE2\x80\x8D><.>"},
    {"^.", "ab\ncd", "<a><c>"},
    {".$", "ab\ncd", "<b><d>"},
    {"a.c", "a\nc", ""},
    {"(?m:a.c)", "a\nc", "<a\nc>"},
    {"(?mi-x:A.c)", "a\nc", "<a\nc>"},
    {"(?i:'s)", "'\xC5\xBF'S", "<'\xC5\xBF><'S>"},
    {"[]a]+", "]a[", "<]a>"},
    {"[[:upper:]x]+", "aBx", "<Bx>"},
    {"\\p{N}{1,3}", "12345", "<123><45>"},
    {"\\{2}+", "{2}}", "<{2}}>"},
    {"x*", "axb", "<><x><>"},
    {"(?<=a)(?=b)|c", "abc", "<><c>"},
    {"", "ab", "<><><>"},
};

static void test_examples(void **state) {
    (void)state;
    mc_regex_room room = {0};
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const example *e = &examples[i];
        mc_regex *regex = compile(e->pattern);
        mc_pattern pattern = {mc_str_of(e->pattern), regex};
        mc_matches m = {.pattern = &pattern, .room = &room, .text = mc_str_of(e->text)};
        mc_buffer all = {0};
        mc_span hit = {0, 0};
        for (bool found = true; found;) {
            assert_int_equal(mc_matches_next(&m, &hit, &found), MICA_OK);
            if (!found) break;
            assert_true(mc_buffer_add_byte(&all, '<'));
            assert_true(mc_buffer_add(&all, e->text + hit.start, hit.end - hit.start));
            assert_true(mc_buffer_add_byte(&all, '>'));
        }
        if (!mc_str_is((mc_str){all.data, all.len}, e->matches)) {
            fail_msg("'%s' in '%s': %.*s", e->pattern, e->text, (int)all.len, all.data);
        }
        mc_buffer_deinit(&all);
        mc_regex_free(regex);
    }
    mc_regex_room_deinit(&room);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *pattern;
        mica_status status;
        const char *text;
    } bad[] = {
        {"(", MICA_EFORMAT, "cannot be compiled"},
        {"[a", MICA_EFORMAT, "cannot be compiled"},
        {"a\\", MICA_EFORMAT, "cannot be compiled"},
        {"\\p{Nothing}", MICA_EFORMAT, "cannot be compiled"},
        {"(?<=a*)b", MICA_EFORMAT, "cannot be compiled"},
        {"\\C", MICA_EFORMAT, "cannot be compiled"},
        {"[a&&b]", MICA_EUNSUPPORTED, "&& in brackets"},
        {"[a[b]]", MICA_EUNSUPPORTED, "[ in brackets"},
        {"[\\W]", MICA_EUNSUPPORTED, "\\W in brackets"},
        {"\\h", MICA_EUNSUPPORTED, "\\h"},
        {"a{2}+", MICA_EUNSUPPORTED, "+ behind {}"},
        {"(?~a)", MICA_EUNSUPPORTED, "(?~"},
        {"(?s:.)", MICA_EUNSUPPORTED, "option"},
        {"(*LIMIT_MATCH=4000000000)a", MICA_EUNSUPPORTED, "(*"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mc_regex *regex = NULL;
        mica_status status = mc_regex_compile(mc_str_of(bad[i].pattern), &regex);
        if (status != bad[i].status || !strstr(mica_last_error(), bad[i].text)) {
            fail_msg("%s: %s: %s", bad[i].pattern, mica_status_name(status), mica_last_error());
        }
        assert_null(regex);
    }
    char *deep = malloc(100001);
    assert_non_null(deep);
    memset(deep, '(', 100000);
    deep[100000] = '\0';
    mc_regex *regex = NULL;
    assert_int_equal(mc_regex_compile(mc_str_of(deep), &regex), MICA_EFORMAT);
    free(deep);
}

/* Ways to backtrack without end are a status. */
static void test_too_much_work(void **state) {
    (void)state;
    static const char *const patterns[] = {"(a+)+$", "(a|aa)+$", "(a*)*b", "(?:a?){40}a{40}",
                                           "(?:(a)|b)*\\1c"};
    enum { LEN = 5000 };
    mc_regex_room room = {0};
    char *text = malloc(LEN);
    assert_non_null(text);
    memset(text, 'a', LEN);
    text[LEN - 1] = '!';
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        mc_regex *regex = compile(patterns[i]);
        mc_span hit;
        bool found = false;
        mica_status status = mc_regex_find(regex, &room, (mc_str){text, LEN}, 0, &hit, &found);
        assert_true(status == MICA_OK || status == MICA_EUNSUPPORTED);
        if (status != MICA_OK) assert_non_null(strstr(mica_last_error(), "too much work"));
        if (i < 2) assert_int_equal(status, MICA_EUNSUPPORTED);
        mc_regex_free(regex);
    }
    mc_regex_room_deinit(&room);
    free(text);
}

/* More than the JIT's stack holds is left to the interpreter. */
static void test_long_match(void **state) {
    (void)state;
    enum { LEN = 100000 };
    mc_regex_room room = {0};
    mc_regex *regex = compile("(?:(a)|(b)|c\\1)+");
    char *text = malloc(LEN);
    mc_span hit = {1, 0};
    bool found = false;
    assert_non_null(text);
    for (size_t i = 0; i < LEN; i++)
        text[i] = "ab"[i % 2];
    assert_int_equal(mc_regex_find(regex, &room, (mc_str){text, LEN}, 0, &hit, &found), MICA_OK);
    assert_true(found && hit.start == 0 && hit.end == LEN);
    mc_regex_free(regex);
    mc_regex_room_deinit(&room);
    free(text);
}

static bool find_once(void *arg) {
    mc_regex *regex = NULL;
    mc_regex_room room = {0};
    mc_span hit;
    bool found = false;
    mica_status status = mc_regex_compile(mc_str_of(arg), &regex);
    if (status == MICA_OK) status = mc_regex_find(regex, &room, MC_STR("xxab"), 0, &hit, &found);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    if (status == MICA_OK) assert_true(found && hit.start == 2 && hit.end == 4);
    mc_regex_room_deinit(&room);
    mc_regex_free(regex);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    static char pattern[] = "(?i:(A)(?<name>b))\\s*|[^\\s\\p{L}\\w]";
    test_fail_each_allocation(find_once, pattern);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_much_work), cmocka_unit_test(test_long_match),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
