/* Regular expressions against PCRE2, on texts made of the patterns' own characters. */
#include "support/support.h"

#include "base/buffer.h"
#include "grammar/schema.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdint.h>
#include <string.h>

static const char *const patterns[] = {
    "",
    "a",
    "abc",
    "a|b",
    "a|bc|",
    "(a|b)*c",
    "a*b+c?",
    "a{3}",
    "a{2,}b",
    "a{0,2}b{1,3}",
    "(ab)+",
    "(?:a|b){2}",
    "[abc]",
    "[^abc]",
    "[a-c1-3]+",
    "[-a]",
    "[a\\]]*",
    "\\d+",
    "\\w*",
    "a\\sb",
    "[\\d.]+",
    ".",
    "a.b",
    "(a*)*b",
    "(a|)+b",
    "((a)(b))?c",
    "\\.\\*\\+",
    "\\x41",
    "\\u0042|c",
    "a*?b",
    "(a+|b+)*",
    "[^\\d]",
    "\\[\\]",
    "a{2}{1}|x",
    "\xc3\xa9+",
    "[\xc3\xa0-\xc3\xb0]b",
    "[^a]\xc3\xa9",
    "(((a|b)c)*d)*",
    "\\D\\W\\S",
    "\\-\\/\\^",
};

static uint64_t seed = 1;

static size_t next_random(size_t n) {
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (size_t)(seed >> 33) % n;
}

/* A text of few characters, which patterns are likely to match. */
static size_t make_text(char *text) {
    static const char *const pieces[] = {"a", "b",        "c", "d", "1", "2", ".", " ", "A", "B",
                                         "-", "\xc3\xa9", "]", "[", "*", "+", "x", "/", "^", "_"};
    size_t n = next_random(8), len = 0, some = next_random(2) ? 3 : sizeof pieces / sizeof *pieces;
    for (size_t i = 0; i < n; i++) {
        const char *piece = pieces[next_random(some)];
        memcpy(text + len, piece, strlen(piece));
        len += strlen(piece);
    }
    return len;
}

static pcre2_code *compile_reference(const char *pattern) {
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile(
        (PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
        PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_ALT_BSUX, &error, &at, NULL);
    if (!code) fail_msg("PCRE2 does not compile %s", pattern);
    return code;
}

static void check_pattern(const char *pattern, size_t *matched) {
    mc_grammar *g;
    pcre2_code *code = compile_reference(pattern);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
    if (mc_grammar_regex(pattern, strlen(pattern), &g) != MICA_OK)
        fail_msg("%s: %s", pattern, mica_last_error());
    for (int i = 0; i < 400; i++) {
        char text[64];
        size_t len = make_text(text);
        bool got;
        bool want = pcre2_match(code, (PCRE2_SPTR)text, len, 0, 0, data, NULL) >= 0;
        assert_int_equal(mc_grammar_accepts(g, text, len, &got, NULL), MICA_OK);
        /* Escapes that leave something out are of ASCII here. */
        if (want && !got && memchr(text, '\xc3', len) && strpbrk(pattern, "DWS")) continue;
        if (strstr(pattern, "[^\\d]") && memchr(text, '\xc3', len)) continue;
        if (got != want)
            fail_msg("%s: \"%.*s\" is %s", pattern, (int)len, text, got ? "accepted" : "refused");
        *matched += got;
    }
    mc_grammar_close(&g);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
}

static void test_patterns(void **state) {
    (void)state;
    size_t matched = 0;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (!strstr(patterns[i], "}{")) check_pattern(patterns[i], &matched);
    print_message("%zu texts matched\n", matched);
    assert_true(matched > 1000);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *pattern;
        mica_status status;
    } rows[] = {
        {"(a", MICA_EFORMAT},           {"a)", MICA_EFORMAT},
        {"[a", MICA_EFORMAT},           {"*a", MICA_EFORMAT},
        {"a**", MICA_EFORMAT},          {"a{2}{1}", MICA_EFORMAT},
        {"\xff", MICA_EFORMAT},         {"(?=a)", MICA_EUNSUPPORTED},
        {"(?<n>a)", MICA_EUNSUPPORTED}, {"\\1", MICA_EUNSUPPORTED},
        {"\\bx", MICA_EUNSUPPORTED},    {"\\p{L}", MICA_EUNSUPPORTED},
        {"a^b", MICA_EUNSUPPORTED},     {"a$b", MICA_EUNSUPPORTED},
        {"[]a]", MICA_EUNSUPPORTED},    {"[b-a]", MICA_EUNSUPPORTED},
        {"a{2,1}", MICA_EUNSUPPORTED},  {"a{,2}", MICA_EUNSUPPORTED},
        {"\\", MICA_EUNSUPPORTED},      {"a{99999}", MICA_EUNSUPPORTED},
        {"\\ud800", MICA_EUNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mc_grammar *g;
        mica_status got = mc_grammar_regex(rows[i].pattern, strlen(rows[i].pattern), &g);
        if (got != rows[i].status)
            fail_msg("%s: status %d, want %d: %s", rows[i].pattern, (int)got, (int)rows[i].status,
                     mica_last_error());
    }
}

/* What reads nothing, or can never be, adds no nodes however often it is repeated. */
static void test_hostile(void **state) {
    (void)state;
    static const char *const inner[] = {"", "[^\\s\\S]", "a?"};
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) {
        mc_grammar *g;
        mc_buffer text = {0};
        for (int k = 0; k < 60; k++)
            mc_buffer_add_byte(&text, '(');
        mc_buffer_add_text(&text, inner[i]);
        for (int k = 0; k < 60; k++)
            mc_buffer_add_text(&text, "){1,2}");
        assert_int_not_equal(mc_grammar_regex(text.data, text.len, &g), MICA_OK);
        assert_null(g);
        mc_buffer_deinit(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests_name("grammar/regex", tests, NULL, NULL);
}
