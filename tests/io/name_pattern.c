/* Patterns of names, against what Python's re.match(r"(.*\.)?(pattern)$", name) says. */
#include "support/support.h"

#include "io/name_pattern.h"

#include <mica/status.h>

#include <string.h>

#define NAME "model.layers.10.self_attn.q_proj"

static const struct {
    const char *pattern;
    bool matches;
} cases[] = {
    {"q_proj", true},
    {"proj", false},
    {"k_proj", false},
    {"self_attn.q_proj", true},
    {NAME, true},
    {"x." NAME, false},
    {"attn.q_proj", false},
    {"self_attn.q.proj", true},
    {"self_attn", false},
    {"", false},
    {"^model.layers.10.self_attn.q_proj", true},
    {"^layers.10.self_attn.q_proj", false},
    {"q_proj$", true},
    {".*", true},
    {"(q|k)_proj", true},
    {"(?:v|k)_proj", false},
    {"v_proj|k_proj|q_proj", true},
    {"layers\\.(1|2|10)\\..*q_proj", true},
    {"layers\\.\\d+\\.self_attn\\.\\w+", true},
    {"layers\\.\\d\\.self_attn\\.\\w+", false},
    {"layers\\.[\\d]+[.]self_attn\\.[qkv]_proj", true},
    {"layers\\.[^0-9]+\\.self_attn\\.q_proj", false},
    {"q\\_proj", true},
    {"q\\sproj", false},
    {"[a-z_]+", true},
};

static void test_cases(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool matches = !cases[i].matches;
        if (mc_name_matches(mc_str_of(cases[i].pattern), NAME, &matches) != MICA_OK)
            fail_msg("%s: %s", cases[i].pattern, mica_last_error());
        if (matches != cases[i].matches) fail_msg("%s: matches: %d", cases[i].pattern, matches);
    }
}

static void expect_error(const char *pattern, size_t len, mica_status status) {
    bool matches;
    mica_status got = mc_name_matches((mc_str){pattern, len}, NAME, &matches);
    if (got != status)
        fail_msg("%.*s: %s, want %s", (int)len, pattern, mica_status_name(got),
                 mica_status_name(status));
}

static void test_errors(void **state) {
    (void)state;
    static const char *const unknown[] = {"(?=x)q", "(?i)q",     "(q)\\1", "a{1000}",
                                          "\\bq",   "[\\]]proj", "q\\"};
    static const char *const broken[] = {"(q_proj", "[q_proj", "*[q"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        expect_error(unknown[i], strlen(unknown[i]), MICA_EUNSUPPORTED);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        expect_error(broken[i], strlen(broken[i]), MICA_EFORMAT);
    expect_error("(q\0)", 4, MICA_EUNSUPPORTED);

    char many[4096];
    memset(many, '(', sizeof many);
    expect_error(many, sizeof many, MICA_EFORMAT);
    expect_error(many, 256, MICA_EFORMAT);
    for (size_t i = 0; i + 1 < sizeof many; i += 2)
        memcpy(many + i, "\\d", 2);
    bool matches = true;
    assert_int_equal(mc_name_matches((mc_str){many, 256}, NAME, &matches), MICA_OK);
    assert_false(matches);
}

static bool match_once(void *arg) {
    bool matches;
    return mc_name_matches(mc_str_of(arg), NAME, &matches) == MICA_OK && matches;
}

static void test_no_memory(void **state) {
    (void)state;
    test_fail_each_allocation(match_once, "(q|k)_proj");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("io/name_pattern", tests, NULL, NULL);
}
