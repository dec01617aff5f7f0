/* Schemas: which documents their grammars accept, and what is refused. tools/check_schemas.py
 * compares with JSON-Schema-Test-Suite. */
#include "support/support.h"

#include "base/alloc.h"
#include "base/json.h"
#include "grammar/grammar_build.h"
#include "grammar/schema.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mc_grammar *compile(const char *schema) {
    mc_grammar *g;
    if (mc_schema_compile(schema, strlen(schema), &g) != MICA_OK)
        fail_msg("%s: %s", schema, mica_last_error());
    return g;
}

static bool accepts(mc_grammar *g, const char *text) {
    bool accepted;
    assert_int_equal(mc_grammar_accepts(g, text, strlen(text), &accepted, NULL), MICA_OK);
    return accepted;
}

/* Checks documents: lists that end with NULL. */
static void check(const char *schema, const char *const *good, const char *const *bad) {
    mc_grammar *g = compile(schema);
    for (; *good; good++)
        if (!accepts(g, *good)) fail_msg("%s does not accept %s", schema, *good);
    for (; *bad; bad++)
        if (accepts(g, *bad)) fail_msg("%s accepts %s", schema, *bad);
    mc_grammar_close(&g);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_types(void **state) {
    (void)state;
    check("{\"type\": \"null\"}", LIST("null"), LIST("nul", "nulll", "0", "", " null", "null "));
    check("{\"type\": [\"boolean\", \"null\"]}", LIST("true", "false", "null"), LIST("1", "tru"));
    check("{\"type\": \"integer\"}", LIST("0", "-0", "-12", "123456789012345678"),
          LIST("01", "1.0", "1e3", "+1", "-", "1234567890123456789"));
    check("{\"type\": \"number\"}", LIST("0.5", "-1e-7", "1E+22", "3"),
          LIST(".5", "1.", "1e", "1e333", "--1", "0x1"));
    check("{\"type\": \"object\"}",
          LIST("{}", "{ }", "{\"a\": {\"b\":[1, null]}}", "{\n \"a\":1\n}"),
          LIST("[]", "{\"a\"}", "{\"a\":1,}", "{,}", "{a:1}", "{\"a\" :1}", "{\"a\":  1}"));
    check("{\"type\": \"array\"}", LIST("[]", "[1,2]", "[1, [\"\"]]", "[\n\t1\n]"),
          LIST("[1,]", "[,1]", "[1 2]", "[", "[\r1]"));
    check("true", LIST("1", "{}", "\"\""), LIST("", "x"));
}

static void test_strings(void **state) {
    (void)state;
    check("{\"type\": \"string\"}",
          LIST("\"\"", "\"a\\n\\u0041\\/\"", "\"\xc3\xa9\xf0\x9f\xa6\x9c\"", "\"\\uD83D\\uDE00\""),
          LIST("\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83d\\u0041\"", "\"\xff\"",
               "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"a", "a"));
    /* Characters are counted, not bytes; an escape or a pair of them is one. */
    check("{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}",
          LIST("\"ab\"", "\"\\u0041\\n\"", "\"\xf0\x9f\xa6\x9c\xc3\xa9\xc3\xa9\"",
               "\"\\ud83d\\ude00\\ud83d\\ude00\""),
          LIST("\"a\"", "\"abcd\"", "\"\xf0\x9f\xa6\x9c\"", "\"\\ud83d\\ude00\""));
    check("{\"maxLength\": 0}", LIST("\"\""), LIST("\"a\"", "1"));
    check("{\"type\": \"string\", \"minLength\": 1}",
          LIST("\"a\"", "\"aaaaaaaaaaaaaaaaaaaaaaaaa\""), LIST("\"\""));
    check("{\"pattern\": \"^[a-c]+-\\\\d{2,3}$\"}", LIST("\"a-12\"", "\"abc-123\""),
          LIST("\"-12\"", "\"a-1\"", "\"a-1234\"", "\"d-12\"", "\"\""));
    check("{\"pattern\": \"b\"}", LIST("\"b\"", "\"abc\"", "\"\\nb\""), LIST("\"\"", "\"ac\""));
    check("{\"pattern\": \"^\\\"\\\\n\\\\\\\\$\"}", LIST("\"\\\"\\n\\\\\""), LIST("\"\\\"n\\\\\""));
    check("{\"type\": \"string\", \"format\": \"date\"}", LIST("\"2024-12-31\"", "\"1999-02-28\""),
          LIST("\"2024-13-01\"", "\"2023-02-29\"", "\"2024-04-31\"", "\"24-01-01\"", "\"\""));
    check("{\"type\": \"string\", \"format\": \"date-time\"}",
          LIST("\"2024-12-31T23:59:59Z\"", "\"2024-12-31T00:00:00.5+01:30\""),
          LIST("\"2024-12-31\"", "\"2024-12-31T24:00:00Z\"", "\"2024-12-31T00:00:00\""));
    check("{\"type\": \"string\", \"format\": \"ipv4\"}",
          LIST("\"127.0.0.1\"", "\"255.255.255.0\""),
          LIST("\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""));
}

static void test_constants(void **state) {
    (void)state;
    check("{\"enum\": [\"a\", \"ab\", \"b\\n\", 1, -2.5, null, true, [1, \"x\"], {\"k\": {}}]}",
          LIST("\"a\"", "\"ab\"", "\"b\\n\"", "1", "-2.5", "null", "true", "[1,\"x\"]",
               "[1, \"x\"]", "{\"k\": {}}", "{\"k\":{}}"),
          LIST("\"b\"", "\"\"", "\"abc\"", "2", "false", "[1]", "{}", "\"b\\u000a\""));
    check("{\"const\": \"\xc3\xa9\"}", LIST("\"\xc3\xa9\""), LIST("\"e\"", "\"\\u00e9\""));
    check("{\"type\": \"string\", \"enum\": [\"a\", 1]}", LIST("\"a\""), LIST("1"));
    check("{\"type\": [\"integer\", \"null\"], \"enum\": [\"a\", 1, null]}", LIST("1", "null"),
          LIST("\"a\""));
}

static void test_objects(void **state) {
    (void)state;
    check("{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\":"
          " {\"type\": \"string\"}, \"c\": true}, \"required\": [\"b\"]}",
          LIST("{\"b\":\"\"}", "{\"a\":1,\"b\":\"\"}", "{\"a\": 1, \"b\": \"\", \"c\": []}",
               "{\"b\": \"x\", \"c\": 0}", "{\n  \"b\": \"\"\n}"),
          LIST("{}", "{\"a\":1}", "{\"b\":1}", "{\"b\":\"\",\"a\":1}", "{\"b\":\"\",\"d\":1}",
               "{\"b\":\"\",\"b\":\"\"}", "{,\"b\":\"\"}"));
    check("{\"properties\": {\"ab\": {\"const\": 1}, \"a\": {\"const\": 2}, \"ac\\u00e9\":"
          " {\"const\": 3}}, \"additionalProperties\": {\"type\": \"boolean\"}}",
          LIST("{}", "{\"ab\":1}", "{\"a\":2,\"b\":true}", "{\"aa\":true}", "{\"abc\":false}",
               "{\"\":true}", "{\"ac\":true, \"ac\xc3\xa8\": true}", "{\"ac\xc3\xa9\": 3}",
               "{\"\\n\":true}"),
          LIST("{\"ab\":true}", "{\"a\":true}", "{\"ac\xc3\xa9\": true}", "{\"b\":1}",
               "{\"\\u0061\":true}", "{\"\\u0061b\":true}", "{\"x\":true,\"a\":2}"));
    check("{\"type\": \"object\", \"additionalProperties\": false}", LIST("{}"), LIST("{\"a\":1}"));
    check("{\"type\": \"object\", \"required\": [\"x\"]}", LIST("{\"x\":1}", "{\"x\":[],\"y\":2}"),
          LIST("{}", "{\"y\":1}", "{\"x\":1,\"x\":1}"));
    check("{\"properties\": {\"a\": false, \"b\": true}, \"type\": \"object\"}",
          LIST("{}", "{\"b\":1}"), LIST("{\"a\":1}"));
}

static void test_arrays(void **state) {
    (void)state;
    check(
        "{\"type\": \"array\", \"items\": {\"type\": \"null\"}, \"minItems\": 1, \"maxItems\": 3}",
        LIST("[null]", "[null,null]", "[ null, null, null ]"),
        LIST("[]", "[1]", "[null,null,null,null]", "[null,]"));
    check("{\"prefixItems\": [{\"const\": 1}, {\"const\": 2}], \"items\": {\"const\": 3}}",
          LIST("[]", "[1]", "[1,2]", "[1,2,3]", "[1,2,3,3]"), LIST("[2]", "[1,3]", "[1,2,4]"));
    check("{\"prefixItems\": [{\"const\": 1}, {\"const\": 2}], \"items\": false, \"minItems\": 1}",
          LIST("[1]", "[1,2]"), LIST("[]", "[1,2,3]"));
    check("{\"type\": \"array\", \"minItems\": 2}", LIST("[1,[]]", "[1,2,3,4]"), LIST("[]", "[1]"));
    check("{\"maxItems\": 0}", LIST("[]", "[ ]"), LIST("[1]"));
}

static void test_alternatives(void **state) {
    (void)state;
    check("{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"integer\"}, false]}",
          LIST("\"\"", "1"), LIST("null", "1.5"));
    check("{\"oneOf\": [{\"type\": \"string\"}, {\"type\": \"integer\"}]}", LIST("\"\"", "1"),
          LIST("null"));
    check("{\"oneOf\": [{\"type\": \"object\", \"properties\": {\"t\": {\"const\": \"a\"}, \"x\":"
          " {\"type\": \"null\"}}, \"required\": [\"t\"]}, {\"$ref\": \"#/$defs/b\"}], \"$defs\":"
          " {\"b\": {\"type\": \"object\", \"properties\": {\"t\": {\"enum\": [\"b\", \"c\"]}}}}}",
          LIST("{\"t\":\"a\"}", "{\"t\":\"a\",\"x\":null}", "{\"t\":\"c\"}", "{}"),
          LIST("{\"t\":\"d\"}", "{\"t\":\"b\",\"x\":null}"));
    check("{\"allOf\": [{\"$ref\": \"#/$defs/a~1b%25\"}], \"description\": \"d\", \"$defs\":"
          " {\"a/b%\": {\"const\": 7}}}",
          LIST("7"), LIST("8"));
}

static void test_recursion(void **state) {
    (void)state;
    static const char tree[] =
        "{\"$ref\": \"#/$defs/node\", \"$defs\": {\"node\": {\"type\": \"object\", \"properties\":"
        " {\"v\": {\"type\": \"integer\"}, \"next\": {\"anyOf\": [{\"$ref\": \"#/$defs/node\"},"
        " {\"type\": \"null\"}]}}, \"required\": [\"v\"], \"additionalProperties\": false}}}";
    check(tree, LIST("{\"v\":1}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"),
          LIST("{\"next\":null}", "{\"v\":1,\"next\":{}}"));
    check("{\"anyOf\": [{\"$ref\": \"#\"}, {\"const\": 1}]}", LIST("1"), LIST("2"));

    /* Nesting is bounded, and what may be opened can always be closed. */
    mc_grammar *g = compile("{\"type\": \"array\", \"items\": {\"$ref\": \"#\"}}");
    char text[600] = "";
    size_t n = 0, prefix;
    bool accepted;
    memset(text, '[', 400);
    assert_int_equal(mc_grammar_accepts(g, text, 400, &accepted, &prefix), MICA_OK);
    assert_true(prefix > 100 && prefix < 200);
    n = prefix;
    memset(text + n, ']', n);
    assert_int_equal(mc_grammar_accepts(g, text, 2 * n, &accepted, &prefix), MICA_OK);
    assert_true(accepted);
    mc_grammar_close(&g);
}

/* ---- bounds of numbers, against the definition ---- */

static uint64_t seed = 1;

static uint64_t next_random(void) {
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return seed >> 33;
}

static double random_bound(bool integer) {
    double value = (double)(next_random() % 2001) - 1000;
    static const double scales[] = {1, 1, 0.1, 0.01, 1000, 1e6};
    value *= scales[next_random() % 6];
    return integer && next_random() % 2 ? trunc(value) : value;
}

static void check_bounds(bool integer) {
    static const char *const lows[] = {"minimum", "exclusiveMinimum"}, *const highs[] = {
                                                                           "maximum",
                                                                           "exclusiveMaximum"};
    bool below = next_random() % 2, above = next_random() % 2;
    double low = random_bound(integer), high = random_bound(integer);
    if (low > high) {
        double other = low;
        low = high;
        high = other;
    }
    char schema[256];
    snprintf(schema, sizeof schema, "{\"type\": \"%s\", \"%s\": %.17g, \"%s\": %.17g}",
             integer ? "integer" : "number", lows[below], low, highs[above], high);
    mc_grammar *g;
    mica_status status = mc_schema_compile(schema, strlen(schema), &g);
    if (status == MICA_EUNSUPPORTED) return; /* 0.1 times something may have too many digits */
    for (int i = 0; i < 200; i++) {
        char text[64];
        double value = low + (high - low) * ((double)(next_random() % 1400) / 1000 - 0.2);
        if (i < 40) value = i % 2 ? low : high;
        snprintf(text, sizeof text, "%.*f", integer ? 0 : (int)(next_random() % 6), value);
        value = strtod(text, NULL);
        bool want = (below ? value > low : value >= low) && (above ? value < high : value <= high);
        if (strncmp(text, "-0", 2) == 0 && value == 0) want = false; /* written as 0 */
        bool got = status == MICA_OK && accepts(g, text);
        if (got != want) fail_msg("%s: %s is %s", schema, text, got ? "accepted" : "not accepted");
    }
    mc_grammar_close(&g);
}

static void test_bounds(void **state) {
    (void)state;
    for (int i = 0; i < 300; i++)
        check_bounds(i % 2);
    check("{\"type\": \"integer\", \"minimum\": 0}", LIST("0", "7", "123456789"), LIST("-1"));
    check("{\"type\": \"integer\", \"exclusiveMaximum\": 0}", LIST("-1", "-99"), LIST("0", "1"));
    check("{\"type\": \"integer\", \"minimum\": 1.5, \"maximum\": 3.5}", LIST("2", "3"),
          LIST("1", "4"));
    check("{\"minimum\": 1, \"exclusiveMinimum\": 1, \"maximum\": 2}", LIST("1.5", "2", "2.0"),
          LIST("1", "1.0", "2.1", "1e0"));
    check("{\"exclusiveMaximum\": 100000.5, \"minimum\": 0}", LIST("100000.499"),
          LIST("100000.5", "100000.4999999999999999"));
}

/* ---- refusals ---- */

static void refuse(const char *schema, mica_status status, const char *word) {
    mc_grammar *g;
    mica_status got = mc_schema_compile(schema, strlen(schema), &g);
    if (got != status) fail_msg("%s: %d %s", schema, (int)got, mica_last_error());
    if (!strstr(mica_last_error(), word))
        fail_msg("%s: \"%s\" lacks %s", schema, mica_last_error(), word);
    assert_null(g);
}

static void test_refusals(void **state) {
    (void)state;
    refuse("{", MICA_EFORMAT, "schema");
    refuse("3", MICA_EFORMAT, "want a schema");
    refuse("{\"properties\": {\"a/b\": {\"items\": {\"contains\": {}}}}}", MICA_EUNSUPPORTED,
           "schema/properties/a~1b/items/contains: not supported");
    refuse("{\"if\": {}}", MICA_EUNSUPPORTED, "schema/if");
    refuse("{\"not\": {}}", MICA_EUNSUPPORTED, "schema/not");
    refuse("{\"requried\": []}", MICA_EUNSUPPORTED, "schema/requried");
    refuse("{\"uniqueItems\": true}", MICA_EUNSUPPORTED, "uniqueItems");
    refuse("{\"patternProperties\": {}}", MICA_EUNSUPPORTED, "patternProperties");
    refuse("{\"multipleOf\": 2}", MICA_EUNSUPPORTED, "multipleOf");
    refuse("{\"items\": [{}]}", MICA_EUNSUPPORTED, "prefixItems");
    refuse("{\"type\": \"strin\"}", MICA_EFORMAT, "schema/type");
    refuse("{\"type\": []}", MICA_EFORMAT, "schema/type");
    refuse("{\"minLength\": -1}", MICA_EFORMAT, "minLength");
    refuse("{\"minLength\": \"1\"}", MICA_EFORMAT, "minLength");
    refuse("{\"pattern\": \"(?=a)\"}", MICA_EUNSUPPORTED, "schema/pattern");
    refuse("{\"pattern\": \"a\", \"maxLength\": 3}", MICA_EUNSUPPORTED, "schema/maxLength");
    refuse("{\"format\": \"regex\"}", MICA_EUNSUPPORTED, "\"regex\"");
    refuse("{\"anyOf\": [{}], \"type\": \"string\"}", MICA_EUNSUPPORTED, "beside anyOf");
    refuse("{\"anyOf\": []}", MICA_EFORMAT, "schema/anyOf");
    refuse("{\"allOf\": [{}, {}]}", MICA_EUNSUPPORTED, "schema/allOf");
    refuse("{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"number\"}]}", MICA_EUNSUPPORTED,
           "schema/oneOf");
    refuse("{\"oneOf\": [{\"type\": \"object\"}, {\"type\": \"object\"}]}", MICA_EUNSUPPORTED,
           "schema/oneOf");
    refuse("{\"$ref\": \"http://example.org/\"}", MICA_EUNSUPPORTED, "schema/$ref");
    refuse("{\"$ref\": \"#/$defs/none\"}", MICA_EUNSUPPORTED, "schema/$ref");
    refuse("{\"$ref\": \"#\", \"type\": \"null\"}", MICA_EUNSUPPORTED, "beside $ref");
    refuse("{\"items\": {\"$id\": \"x\"}}", MICA_EUNSUPPORTED, "schema/items/$id");
    refuse("{\"const\": 12345678901234567890123}", MICA_EUNSUPPORTED, "schema/const");
    refuse("{\"type\": \"integer\", \"maximum\": 9223372036854775807}", MICA_EUNSUPPORTED,
           "schema/maximum");
    refuse("{\"type\": \"string\", \"maxLength\": 99999999}", MICA_EINVAL, "too large");
    /* Nothing satisfies these. */
    refuse("false", MICA_EINVAL, "nothing satisfies");
    refuse("{\"$ref\": \"#\"}", MICA_EINVAL, "nothing satisfies");
    refuse("{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}}, \"required\":"
           " [\"a\"]}",
           MICA_EINVAL, "nothing satisfies");
    refuse("{\"enum\": []}", MICA_EINVAL, "nothing satisfies");
    refuse("{\"minItems\": 2, \"maxItems\": 1}", MICA_EINVAL, "nothing satisfies");
    refuse("{\"type\": \"integer\", \"minimum\": 1.2, \"maximum\": 1.8}", MICA_EINVAL, "nothing");
}

/* What takes long to compile, or to run, is refused or bounded. */
static void test_hostile(void **state) {
    (void)state;
    refuse("{\"pattern\": \"^(((a{1000}){1000}){1000})$\"}", MICA_EINVAL, "too large");
    refuse("{\"pattern\": \"^((((((){9999}){9999}){9999}){9999}){9999})x$\", \"minItems\": -1}",
           MICA_EFORMAT, "minItems");
    /* 2^20 states of a deterministic automaton, of which a run meets few. */
    check("{\"pattern\": \"^(a|b)*a(a|b){20}$\"}", LIST("\"bbabbbbbbbbbbbbbbbbbbbb\""),
          LIST("\"bbbbbbbbbbbbbbbbbbbbbbb\""));
    /* Each level has two ways of the same text. */
    mc_grammar *g = compile("{\"anyOf\": [{\"type\": \"array\", \"items\": {\"$ref\": \"#\"}},"
                            " {\"type\": \"array\", \"items\": {\"$ref\": \"#\"}}]}");
    char text[201];
    memset(text, '[', 60);
    memset(text + 60, ']', 60);
    text[120] = '\0';
    assert_true(accepts(g, text));
    mc_grammar_close(&g);
    mc_buffer deep = {0};
    for (int i = 0; i < 200; i++)
        mc_buffer_add_text(&deep, "{\"items\":");
    mc_buffer_add_text(&deep, "{}");
    for (int i = 0; i < 200; i++)
        mc_buffer_add_text(&deep, "}");
    check(mc_buffer_cstr(&deep), LIST("[]", "[[[[]]]]"), LIST("[1]"));
    mc_buffer_deinit(&deep);
}

static bool compile_once(void *context) {
    const char *schema = context;
    mc_grammar *g;
    bool accepted = false;
    if (mc_schema_compile(schema, strlen(schema), &g) != MICA_OK) return false;
    bool done = mc_grammar_accepts(g, "{\"a\":\"xy\"}", 10, &accepted, NULL) == MICA_OK;
    if (done) assert_true(accepted);
    mc_grammar_close(&g);
    return done;
}

static void test_no_memory(void **state) {
    (void)state;
    static char schema[] =
        "{\"properties\": {\"a\": {\"pattern\": \"y|[^ab]{2}\"}, \"b\": {\"enum\":"
        " [\"c\", 1, [2]]}, \"c\": {\"$ref\": \"#/properties/b\"}},"
        " \"additionalProperties\": {\"type\": \"integer\", \"minimum\": 3}}";
    test_fail_each_allocation(compile_once, schema);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),     cmocka_unit_test(test_strings),
        cmocka_unit_test(test_constants), cmocka_unit_test(test_objects),
        cmocka_unit_test(test_arrays),    cmocka_unit_test(test_alternatives),
        cmocka_unit_test(test_recursion), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("grammar/schema", tests, NULL, NULL);
}
