/* Patterns: what differs between Oniguruma and PCRE2, what is refused, and what takes too long.
 * That whole tokenizers split alike is in tokenizer_golden.c. */
#include "text/tokenizer/regex.h"
#include "support/support.h"
#include "text/tokenizer/pattern.h"

#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

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

/* Endless backtracking is an error status. */
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
    enum { LEN = 40000 };
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

/* Patterns with look-around, with backtracking, and ones that match anywhere or nowhere. */
static const char *const seen[] = {
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}]*[\\p{Ll}\\p{Lo}]+(?i:'s|'t)?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}]+[\\p{Ll}\\p{Lo}]*(?i:'s|'t)?|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "\\p{N}{1,3}",
    "[\xE4\xB8\x80-\xE9\xBE\xA5]+",
    "\\s+$",
    "^\\s+",
    "a*",
    "(?=A)",
    "(?<=\\n)|x",
    "(?<=[aA]{3})1?",
    "\\b",
    "\\B.",
    ".*",
    "(?m:.*)",
    ".*?\\n",
    "(a|A)+1",
    "(\\w)\\1",
    "(?>a+)1|a",
    "a{1,300}",
    "\\z",
    "\\A.",
    "\\Ga",
    "(?!a)",
    "nowhere",
    "'s?\\K\\s",
    "(?:a|(?<b>A))*+\\.",
    "\\R",
    "\\X",
};

static uint32_t random_below(uint32_t *seed, uint32_t n) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

/* Runs of one character, some as long as what an attempt may see. */
static void make_runs(mc_buffer *text, uint32_t *seed) {
    static const char *const units[] = {
        "a", "A", "1", " ", "\n", ".", "'s", "\xC3\xA9", "\xE6\xBC\xA2", "e\xCC\x81"};
    mc_buffer_clear(text);
    for (uint32_t runs = 1 + random_below(seed, 40); runs > 0; runs--) {
        const char *unit = units[random_below(seed, 10)];
        uint32_t kind = random_below(seed, 40);
        uint32_t n = kind == 0  ? 4000 + random_below(seed, 200)
                     : kind < 4 ? 200 + random_below(seed, 100)
                                : 1 + random_below(seed, 6);
        for (; n > 0; n--)
            assert_true(mc_buffer_add_text(text, unit));
    }
}

typedef struct reference {
    pcre2_code *code;
    pcre2_match_data *match;
} reference;

static reference make_reference(const char *pattern) {
    mc_buffer translated = {0};
    int error;
    PCRE2_SIZE at;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    assert_int_equal(mc_regex_translate(mc_str_of(pattern), &translated), MICA_OK);
    reference r = {pcre2_compile((PCRE2_SPTR)translated.data, translated.len,
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &at, context),
                   pcre2_match_data_create(1, NULL)};
    assert_true(r.code && r.match);
    pcre2_jit_compile(r.code, PCRE2_JIT_COMPLETE);
    pcre2_compile_context_free(context);
    mc_buffer_deinit(&translated);
    return r;
}

/* Finds all matches; returns how often both found the same. */
static size_t compare(const char *pattern, const mc_regex *regex, const reference *r, mc_str text) {
    mc_regex_room room = {0};
    size_t same = 0;
    mc_regex_begin(&room, text.len);
    for (size_t from = 0; from <= text.len;) {
        mc_span hit = {0, 0};
        bool found;
        mica_status status = mc_regex_find(regex, &room, text, from, &hit, &found);
        if (status == MICA_EUNSUPPORTED) break; /* too much work */
        assert_int_equal(status, MICA_OK);
        PCRE2_SPTR subject = (PCRE2_SPTR)text.ptr;
        int rc = pcre2_match(r->code, subject, text.len, from, 0, r->match, NULL);
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
            rc = pcre2_match(r->code, subject, text.len, from, PCRE2_NO_JIT, r->match, NULL);
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(r->match);
        if (found != (rc >= 0) || (found && (hit.start != ends[0] || hit.end != ends[1])))
            fail_msg("%s from %zu: %d [%zu, %zu), not %d [%zu, %zu)", pattern, from, found,
                     hit.start, hit.end, rc, ends[0], ends[1]);
        same++;
        if (!found) break;
        from = hit.end + (hit.end == from);
        while (from < text.len && ((unsigned char)text.ptr[from] & 0xC0) == 0x80)
            from++;
    }
    mc_regex_room_deinit(&room);
    return same;
}

/* Matches are those of PCRE2 where it sees the whole text and may take any number of steps. */
static void test_windows(void **state) {
    (void)state;
    uint32_t seed = 7;
    size_t same = 0;
    mc_buffer text = {0};
    for (size_t p = 0; p < sizeof seen / sizeof *seen; p++) {
        mc_regex *regex = compile(seen[p]);
        reference r = make_reference(seen[p]);
        for (int round = 0; round < 25; round++) {
            make_runs(&text, &seed);
            same += compare(seen[p], regex, &r, (mc_str){text.data, text.len});
        }
        pcre2_match_data_free(r.match);
        pcre2_code_free(r.code);
        mc_regex_free(regex);
    }
    assert_true(same > 50000);
    mc_buffer_deinit(&text);
}

/* ---- without a compiler ---- */

/* Has the system refuse memory that is both written and run, as macOS does under its hardened
 * runtime. False: it cannot (before Linux 6.3), or PCRE2 compiles all the same. */
static bool refuse_code(void) {
#if defined(PR_SET_MDWE)
    if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0) return false;
#elif defined(__linux__)
    enum { SET_MDWE = 65, REFUSE_EXEC_GAIN = 1 };
    if (prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) != 0) return false;
#else
    return false;
#endif
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR) "a+", 2, 0, &error, &at, NULL);
    bool refused = code && pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) != 0;
    pcre2_code_free(code);
    return refused;
}

/* interpreted: all of it without PCRE2's compiler. */
int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "interpreted") == 0 && !refuse_code()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_much_work), cmocka_unit_test(test_long_match),
        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
