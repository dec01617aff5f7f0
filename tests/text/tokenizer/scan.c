/* The patterns that are written out against PCRE2: the same pieces, over the strings of the goldens
 * and many random ones. Characters that the two libraries class differently (one knows a newer
 * Unicode) are left out, and must be unassigned in one of them. */
#include "text/tokenizer/scan.h"
#include "base/json.h"
#include "base/utf8.h"
#include "support/support.h"
#include "text/tokenizer/pattern.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static const char *const patterns[] = {
    MC_SCAN_GPT2,
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
};

enum { PATTERNS = sizeof patterns / sizeof *patterns, MAX = 0x110000 };

typedef struct fixture {
    mc_classes classes;
    mc_pattern patterns[PATTERNS];
    mc_scan scans[PATTERNS];
    mc_regex_room room;
    bool usable[MAX]; /* both libraries agree on the class */
} fixture;

static bool matches(fixture *f, const mc_pattern *pattern, uint32_t c) {
    char spelled[4];
    mc_span hit;
    bool found = false;
    mc_str text = {spelled, mc_utf8_encode(c, spelled)};
    assert_int_equal(mc_regex_find(pattern->regex, &f->room, text, 0, &hit, &found), MICA_OK);
    return found;
}

static void compile(const char *text, mc_pattern *pattern) {
    mc_regex *regex = NULL;
    assert_int_equal(mc_regex_compile(mc_str_of(text), &regex), MICA_OK);
    *pattern = (mc_pattern){mc_str_of(text), regex};
}

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    mc_classes_init(&f->classes);
    for (size_t i = 0; i < PATTERNS; i++) {
        compile(patterns[i], &f->patterns[i]);
        f->scans[i] = mc_scan_find(f->patterns[i].text);
        assert_non_null(f->scans[i]);
    }
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < PATTERNS; i++)
        mc_regex_free((mc_regex *)(uintptr_t)f->patterns[i].regex);
    mc_regex_room_deinit(&f->room);
    free(f);
    return 0;
}

/* Also says which characters the next test may use. */
static void test_classes(void **state) {
    static const char *const names[] = {"[^\\s\\p{L}\\p{N}]", "\\p{L}", "\\p{N}", "[^\\S\\r\\n]",
                                        "[\\r\\n]"};
    fixture *f = *state;
    mc_pattern of[5], unassigned;
    size_t differ = 0;
    for (size_t i = 0; i < 5; i++)
        compile(names[i], &of[i]);
    compile("\\p{Cn}", &unassigned);
    for (uint32_t c = 0; c < MAX; c++) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        uint8_t class = mc_classes_at(&f->classes, c) & MC_CLASS_MASK;
        assert_int_equal(class, mc_class_of(c));
        f->usable[c] = matches(f, &of[class], c);
        if (f->usable[c]) continue;
        differ++;
        bool new_here = utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_CN;
        if (!new_here && !matches(f, &unassigned, c)) fail_msg("U+%04X is classed differently", c);
    }
    print_message("%zu characters are assigned in one of PCRE2 and utf8proc %s only\n", differ,
                  utf8proc_unicode_version());
    for (size_t i = 0; i < 5; i++)
        mc_regex_free((mc_regex *)(uintptr_t)of[i].regex);
    mc_regex_free((mc_regex *)(uintptr_t)unassigned.regex);
}

static void compare(fixture *f, mc_str text) {
    for (size_t i = 0; i < PATTERNS; i++) {
        mc_matches m = {.pattern = &f->patterns[i], .room = &f->room, .text = text};
        for (size_t at = 0; at < text.len;) {
            mc_span hit = {0, 0};
            bool found;
            assert_int_equal(mc_matches_next(&m, &hit, &found), MICA_OK);
            size_t n = f->scans[i](&f->classes, (mc_str){text.ptr + at, text.len - at});
            if (!found || hit.start != at || hit.end != at + n) {
                fail_msg("pattern %zu at byte %zu of '%.*s': %zu, PCRE2 %zu..%zu", i, at,
                         MC_STR_ARG(text), n, hit.start, hit.end);
            }
            at += n;
        }
    }
}

static void test_goldens(void **state) {
    fixture *f = *state;
    char *path = test_format("%s/tokenizers/strings.json", test_fixtures_dir());
    mc_json_doc *doc = NULL;
    doc = test_load_json(path);
    mc_json strings = mc_json_find(mc_json_root(doc), "strings");
    size_t n = 0;
    for (mc_json_iter it = mc_json_begin(strings); mc_json_next(&it); n++) {
        mc_str text;
        assert_true(mc_json_get_str(it.value, &text));
        bool usable = true;
        uint32_t c;
        for (size_t at = 0; at < text.len && usable; usable = f->usable[c])
            at += mc_next_char(text.ptr + at, &c);
        if (usable) compare(f, text);
    }
    assert_true(n > 100);
    mc_json_close(&doc);
    free(path);
}

static uint32_t draw(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33);
}

/* Half from a few characters that patterns care for, half from all of Unicode. */
static uint32_t draw_char(const fixture *f, uint64_t *seed) {
    static const uint32_t special[] = {
        ' ',  ' ',    '\n',   '\r',   '\t',  '\'',  's',    'S',   't',  'r',    'e',    'v',
        'l',  'L',    'm',    'd',    'D',   0x17F, 'x',    '1',   '2',  '.',    '-',    0xA0,
        0x85, 0x180E, 0x2028, 0x3000, 0x301, 0xE9,  0x4E2D, 0x661, 0xB2, 0x200D, 0x1F600};
    static const uint32_t ends[] = {0x80, 0x800, 0x3000, 0x10000, 0x20000, MAX};
    uint32_t c = special[draw(seed) % (sizeof special / sizeof *special)];
    if (draw(seed) % 2) return c;
    do {
        c = draw(seed) % ends[draw(seed) % (sizeof ends / sizeof *ends)];
    } while (!f->usable[c]);
    return c;
}

static void test_random(void **state) {
    fixture *f = *state;
    uint64_t seed = 1;
    for (int round = 0; round < 30000; round++) {
        char text[4 * 24];
        size_t len = 0;
        for (uint32_t n = draw(&seed) % 24 + 1; n > 0; n--)
            len += mc_utf8_encode(draw_char(f, &seed), text + len);
        char *copy = malloc(len); /* an end that sanitizers see */
        assert_non_null(copy);
        memcpy(copy, text, len);
        compare(f, (mc_str){copy, len});
        free(copy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
