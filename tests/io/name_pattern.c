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
    {"(?=q).*_proj", true},
    {"(?!.*q).*_proj", false},
    {"layers\\.\\d{2}\\..*", true},
    {"layers\\.\\d{1}\\..*", false},
    {"[\\]q]_proj", true},
    {"\\bq_proj\\b", true},
};

/* Compiles the pattern and matches a name with it. */
static mica_status match(mc_str text, const char *name, bool *matches) {
    mc_name_pattern *pattern;
    size_t bytes = MC_NAME_BYTES;
    uint32_t steps = MC_NAME_STEPS;
    mica_status status = mc_name_pattern_compile(text, &bytes, &pattern);
    if (status == MICA_OK) status = mc_name_matches(pattern, name, &steps, matches);
    mc_name_pattern_free(pattern);
    return status;
}

static void test_cases(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool matches = !cases[i].matches;
        if (match(mc_str_of(cases[i].pattern), NAME, &matches) != MICA_OK)
            fail_msg("%s: %s", cases[i].pattern, mica_last_error());
        if (matches != cases[i].matches) fail_msg("%s: matches: %d", cases[i].pattern, matches);
    }
}

static void expect_error(const char *pattern, size_t len, const char *name, mica_status status) {
    bool matches;
    mica_status got = match((mc_str){pattern, len}, name, &matches);
    if (got != status)
        fail_msg("%.*s: %s, want %s", (int)len, pattern, mica_status_name(got),
                 mica_status_name(status));
}

static void test_errors(void **state) {
    (void)state;
    static const char *const broken[] = {"(q_proj", "[q_proj", "*[q", "q\\", "(q)\\9", "\\C"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        expect_error(broken[i], strlen(broken[i]), NAME, MICA_EFORMAT);

    char many[4096];
    memset(many, '(', sizeof many);
    expect_error(many, sizeof many, NAME, MICA_EFORMAT);
    expect_error(many, 256, NAME, MICA_EFORMAT);
    for (size_t i = 0; i + 1 < sizeof many; i += 2)
        memcpy(many + i, "\\d", 2);
    bool matches = true;
    assert_int_equal(match((mc_str){many, 256}, NAME, &matches), MICA_OK);
    assert_false(matches);
    assert_int_equal(match((mc_str){"(q\0)", 4}, NAME, &matches), MICA_OK);
    assert_false(matches);
    memset(many, 'a', sizeof many);
    many[sizeof many - 1] = '\0';
    expect_error("a+", 2, many, MICA_EUNSUPPORTED);
}

/* Patterns that take a matcher exponential time, or memory, are answered at once. */
static void test_hostile(void **state) {
    (void)state;
    static const char long_name[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
    char text[512] = "a", longest[1001] = "";
    memset(text + 1, '+', 200);
    expect_error(text, 201, long_name, MICA_EFORMAT);
    enum { DEPTH = 60 };
    memset(text, '(', DEPTH);
    text[DEPTH] = 'a';
    for (size_t i = 0; i < DEPTH; i++)
        memcpy(text + DEPTH + 1 + 2 * i, "+)", 2);
    expect_error(text, 3 * DEPTH + 1, long_name, MICA_EUNSUPPORTED);
    expect_error("((a{999}){999}){999}", 20, long_name, MICA_EFORMAT);
    /* Each item reads the whole name. */
    static const char *const far[] = {"(?:(?=\\X*+)|(?=\\X*+)){40}[^a]",
                                      "(?:(?=.*+)|(?=.*+)){40}[^a]",
                                      "((?=\\X*+)a|(?=\\X*+)a)*[^a]"};
    memset(longest, 'a', sizeof longest - 1);
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        expect_error(far[i], strlen(far[i]), longest, MICA_EUNSUPPORTED);
}

static uint32_t steps_of(const char *name) {
    mc_name_pattern *pattern;
    size_t bytes = MC_NAME_BYTES;
    uint32_t steps = MC_NAME_STEPS;
    bool matches;
    assert_int_equal(mc_name_pattern_compile(MC_STR("[xy]+"), &bytes, &pattern), MICA_OK);
    assert_int_equal(mc_name_matches(pattern, name, &steps, &matches), MICA_OK);
    assert_true(matches);
    mc_name_pattern_free(pattern);
    return MC_NAME_STEPS - steps;
}

/* A step is work: an item of a pattern may read the whole name. */
static void test_long_names(void **state) {
    (void)state;
    char name[1001] = "";
    memset(name, 'x', sizeof name - 1);
    assert_true(steps_of(name) > 10 * steps_of("xyx"));
}

/* Patterns share the bytes that they are compiled to. */
static void test_bytes(void **state) {
    (void)state;
    mc_name_pattern *pattern;
    size_t bytes = MC_NAME_BYTES, before;
    assert_int_equal(mc_name_pattern_compile(MC_STR("q_proj"), &bytes, &pattern), MICA_OK);
    mc_name_pattern_free(pattern);
    assert_int_equal(bytes, MC_NAME_BYTES);
    assert_int_equal(mc_name_pattern_compile(MC_STR("(?:ab){99}"), &bytes, &pattern), MICA_OK);
    mc_name_pattern_free(pattern);
    size_t taken = MC_NAME_BYTES - bytes;
    assert_in_range(taken, 99 * 2, 99 * 100);
    before = bytes = taken - 1;
    assert_int_equal(mc_name_pattern_compile(MC_STR("(?:ab){99}"), &bytes, &pattern),
                     MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "(?:ab){99}"));
    assert_null(pattern);
    assert_int_equal(bytes, before);
    bytes = taken;
    assert_int_equal(mc_name_pattern_compile(MC_STR("(?:ab){99}"), &bytes, &pattern), MICA_OK);
    assert_int_equal(bytes, 0);
    mc_name_pattern_free(pattern);
}

/* Matches share their steps: many patterns take no more together than one. */
static void test_steps(void **state) {
    (void)state;
    mc_name_pattern *pattern;
    size_t bytes = MC_NAME_BYTES;
    uint32_t steps = MC_NAME_STEPS;
    bool matches;
    assert_int_equal(mc_name_pattern_compile(MC_STR("(a|q)_proj"), &bytes, &pattern), MICA_OK);
    assert_int_equal(mc_name_matches(pattern, NAME, &steps, &matches), MICA_OK);
    assert_true(matches);
    uint32_t taken = MC_NAME_STEPS - steps;
    assert_in_range(taken, 1, 1000);
    for (steps = 0; steps < taken; steps++) {
        uint32_t left = steps;
        assert_int_equal(mc_name_matches(pattern, NAME, &left, &matches), MICA_EUNSUPPORTED);
        assert_non_null(strstr(mica_last_error(), "(a|q)_proj"));
        assert_int_equal(left, 0);
    }
    assert_int_equal(mc_name_matches(pattern, NAME, &steps, &matches), MICA_OK);
    assert_int_equal(steps, 0);
    mc_name_pattern_free(pattern);
    assert_int_equal(mc_name_pattern_compile(MC_STR("q_proj"), &bytes, &pattern), MICA_OK);
    for (steps = 2; steps > 0;)
        assert_int_equal(mc_name_matches(pattern, NAME, &steps, &matches), MICA_OK);
    assert_int_equal(mc_name_matches(pattern, NAME, &steps, &matches), MICA_EUNSUPPORTED);
    mc_name_pattern_free(pattern);
}

static bool match_once(void *arg) {
    bool matches;
    return match(mc_str_of(arg), NAME, &matches) == MICA_OK && matches;
}

static void test_no_memory(void **state) {
    (void)state;
    test_fail_each_allocation(match_once, "(q|k)_proj");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),      cmocka_unit_test(test_errors),
        cmocka_unit_test(test_hostile),    cmocka_unit_test(test_steps),
        cmocka_unit_test(test_long_names), cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("io/name_pattern", tests, NULL, NULL);
}
