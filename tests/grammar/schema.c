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
#include <time.h>

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

/* Text in which ' stands for " if it has no " itself. */
static const char *quoted(const char *text, char *out, size_t size) {
    if (strchr(text, '"')) return text;
    assert_true(strlen(text) < size);
    size_t n = 0;
    for (; text[n]; n++)
        out[n] = text[n] == '\'' ? '"' : text[n];
    out[n] = '\0';
    return out;
}

/* Checks documents: lists that end with NULL. */
static void check(const char *schema, const char *const *good, const char *const *bad) {
    char buffer[1000], document[300];
    schema = quoted(schema, buffer, sizeof buffer);
    mc_grammar *g = compile(schema);
    for (; *good; good++)
        if (!accepts(g, quoted(*good, document, sizeof document)))
            fail_msg("%s does not accept %s", schema, *good);
    for (; *bad; bad++)
        if (accepts(g, quoted(*bad, document, sizeof document)))
            fail_msg("%s accepts %s", schema, *bad);
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

/* 29 February is there in leap years, and in no others. */
static void test_leap_days(void **state) {
    static const char *const forms[][2] = {
        {"{\"format\": \"date\"}", "\"%d-02-29\""},
        {"{\"format\": \"date-time\"}", "\"%d-02-29T00:00:00Z\""}};
    char text[64];
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        mc_grammar *g = compile(forms[i][0]);
        for (int year = 1000; year <= 9999; year++) {
            bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            snprintf(text, sizeof text, forms[i][1], year);
            if (accepts(g, text) != leap) fail_msg("%s: %s", forms[i][0], text);
        }
        assert_false(accepts(g, "\"2024-02-30\""));
        mc_grammar_close(&g);
    }
}

/* What OpenAPI 3.0 writes otherwise, and its annotations. */
static void test_openapi(void **state) {
    (void)state;
    check("{'type': 'string', 'nullable': true, 'maxLength': 1}", LIST("'a'", "null"), LIST("1"));
    check("{'type': 'integer', 'nullable': false}", LIST("1"), LIST("null"));
    check("{'type': 'object', 'properties': {'a': {'type': 'array', 'items': {'type': 'integer',"
          " 'nullable': true}, 'nullable': true}}, 'required': ['a']}",
          LIST("{'a':null}", "{'a':[1,null]}"), LIST("null", "{}"));
    /* Constants are all that there are; without a type beside it, it says nothing. */
    check("{'type': 'string', 'enum': ['a', null], 'nullable': true}", LIST("'a'", "null"),
          LIST("'b'"));
    check("{'type': 'string', 'enum': ['a'], 'nullable': true}", LIST("'a'"), LIST("null"));
    check("{'allOf': [{'type': 'integer'}], 'nullable': true}", LIST("1"), LIST("null"));
    check("{'not': {'type': 'integer', 'nullable': true}, 'type': ['null', 'integer', 'boolean']}",
          LIST("true"), LIST("null", "1"));
    check("{'oneOf': [{'type': 'integer', 'nullable': true}, {'type': 'boolean'}]}",
          LIST("true", "null", "1"), LIST("'a'"));
    /* Exclusive limits, constants among them. */
    check("{'type': 'integer', 'minimum': 0, 'exclusiveMinimum': true, 'maximum': 9,"
          " 'exclusiveMaximum': false}",
          LIST("1", "9"), LIST("0", "10"));
    check("{'type': 'integer', 'maximum': 9, 'exclusiveMaximum': true}", LIST("8"), LIST("9"));
    check("{'enum': [1, 2, 3], 'minimum': 1, 'exclusiveMinimum': true}", LIST("2", "3"), LIST("1"));
    check("{'not': {'minimum': 1, 'exclusiveMinimum': true}, 'type': 'integer'}", LIST("1", "0"),
          LIST("2"));
    check("{'type': 'integer', 'exclusiveMinimum': true}", LIST("-1"), LIST("'a'"));
    check("{'type': 'boolean', 'x-order': 3, 'xml': {'name': 'a'}, 'externalDocs': {'url': 'u'}}",
          LIST("true"), LIST("1"));
}

/* Elements that differ, of which there may be many. */
static void test_sets(void **state) {
    (void)state;
    check("{'type': 'array', 'items': {'type': 'string'}, 'uniqueItems': true}",
          LIST("[]", "['a']", "['red','green','blue']", "['b', 'a']"),
          LIST("['a','a']", "['a','b','a']", "[1]"));
    check("{'items': {'type': 'string'}, 'uniqueItems': true, 'type': 'array', 'minItems': 2,"
          " 'maxItems': 3}",
          LIST("['a','b']", "['x','c','a']"),
          LIST("[]", "['a']", "['a','a']", "['a','b','c','d']", "['a','b','b']"));
    check("{'items': {'type': 'string', 'minLength': 2}, 'uniqueItems': true, 'type': 'array'}",
          LIST("['ab','ba']"), LIST("['a']", "['ab','ab']"));
    /* Where all begin alike, another place tells them apart. */
    check("{'items': {'type': 'string', 'pattern': '^usr_[a-z0-9]+$'}, 'uniqueItems': true,"
          " 'type': 'array', 'minItems': 2}",
          LIST("['usr_a','usr_b1']"), LIST("['usr_a']", "['usr_a','usr_a']", "['a','b']"));
    check("{'items': {'type': 'string', 'format': 'uuid'}, 'uniqueItems': true, 'type': 'array'}",
          LIST("['00000000-0000-0000-0000-000000000000','a0000000-0000-0000-0000-000000000000']"),
          LIST("['00000000-0000-0000-0000-000000000000','00000000-0000-0000-0000-000000000000']"));
    check("{'items': {'type': 'integer'}, 'uniqueItems': true, 'type': 'array'}",
          LIST("[]", "[0]", "[12,3,0]"), LIST("[1,1]", "[12,12]", "[0,0]", "[00]"));
    check("{'items': {'type': 'integer', 'minimum': 1}, 'uniqueItems': true, 'type': 'array'}",
          LIST("[12,3]"), LIST("[1,1]", "[0]"));
    check("{'items': {'type': 'integer', 'exclusiveMinimum': 0}, 'uniqueItems': true,"
          " 'type': 'array'}",
          LIST("[12,3]"), LIST("[1,1]", "[0]"));
}

/* Members of any names, of which several must be there. */
static void test_maps(void **state) {
    (void)state;
    check("{'type': 'object', 'additionalProperties': {'type': 'integer'}, 'minProperties': 2}",
          LIST("{'a':1,'b':2}", "{'b':1,'a':2,'a':3}", "{'red':1,'green':2,'blue':3}"),
          LIST("{}", "{'a':1}", "{'a':1,'a':2}", "{'a':1,'b':true}"));
    check("{'type': 'object', 'additionalProperties': {'type': 'integer'}, 'minProperties': 3,"
          " 'maxProperties': 4}",
          LIST("{'a':1,'b':2,'c':3}", "{'a':1,'b':2,'c':3,'d':4}"),
          LIST("{'a':1,'b':1}", "{'a':1,'b':2,'b':3}", "{'a':1,'b':1,'c':1,'d':1,'e':1}"));
    check("{'type': 'object', 'additionalProperties': {'type': 'integer'}, 'minProperties': 1,"
          " 'maxProperties': 2}",
          LIST("{'a':1}", "{'a':1,'b':2}"), LIST("{}", "{'a':1,'b':1,'c':1}"));
    check("{'type': 'object', 'properties': {'a': {'type': 'null'}, 'b': {'type': 'null'}},"
          " 'required': ['b'], 'additionalProperties': {'type': 'integer'}, 'minProperties': 4}",
          LIST("{'a':null,'b':null,'c':1,'d':2}", "{'b':null,'c':1,'d':2,'e':3}"),
          LIST("{'a':null,'b':null,'c':1}", "{'a':null,'b':null,'c':1,'c':2}",
               "{'b':null,'c':1,'d':2}", "{'b':null,'c':1,'d':2,'a':3}"));
    check("{'type': 'object', 'propertyNames': {'pattern': '^x-'}, 'minProperties': 2,"
          " 'additionalProperties': {'type': 'integer'}}",
          LIST("{'x-a':1,'x-b':2}"), LIST("{'x-a':1}", "{'x-a':1,'x-a':2}", "{'a':1,'b':2}"));
    check("{'type': 'object', 'patternProperties': {'^s_': {'type': 'integer'}},"
          " 'additionalProperties': false, 'minProperties': 2}",
          LIST("{'s_a':1,'s_b':2}"), LIST("{'s_a':1}", "{'s_a':1,'s_a':2}", "{'a':1,'b':2}"));
    check("{'type': 'object', 'minProperties': 2}", LIST("{'a':1,'b':2}"),
          LIST("{'a':1}", "{'a':1,'a':2}"));
    /* Of other names there are fewer than members are asked for: known ones are beside them. */
    check("{'type': 'object', 'properties': {'c': {'const': 3}, 'd': {'const': 4}},"
          " 'patternProperties': {'^[ab]$': {'type': 'integer'}}, 'additionalProperties': false,"
          " 'minProperties': 3}",
          LIST("{'c':3,'d':4,'b':1}", "{'c':3,'a':1,'b':2}", "{'d':4,'b':1,'a':2}"),
          LIST("{'c':3,'d':4}", "{'a':1,'b':2}", "{'c':3,'a':1,'a':2}"));
    check("{'type': 'object', 'patternProperties': {'^[ab]$': {'type': 'integer'}},"
          " 'additionalProperties': false, 'required': ['b'], 'minProperties': 2}",
          LIST("{'b':1,'a':2}"), LIST("{'b':1}", "{'a':1}"));
    /* The names of several patterns are told apart together. */
    check("{'type': 'object', 'patternProperties': {'^a$': {'type': 'integer'}, '^b$':"
          " {'type': 'null'}}, 'additionalProperties': false, 'minProperties': 2}",
          LIST("{'a':1,'b':null}", "{'b':null,'a':1}"), LIST("{'a':1}", "{'a':1,'a':2}"));
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

/* Integers of 64 bits are no doubles: each of them differs from its neighbours. */
static void test_large_integers(void **state) {
    (void)state;
    check("{'type': 'integer', 'minimum': 9007199254740993, 'maximum': 9007199254740995}",
          LIST("9007199254740993", "9007199254740994", "9007199254740995"),
          LIST("9007199254740992", "9007199254740996", "90071992547409931"));
    check("{'type': 'integer', 'exclusiveMinimum': 9223372036854775806}",
          LIST("9223372036854775807"), LIST("9223372036854775806", "9223372036854775805", "1"));
    check("{'type': 'integer', 'minimum': -9223372036854775808, 'maximum': -9223372036854775807}",
          LIST("-9223372036854775808", "-9223372036854775807"),
          LIST("-9223372036854775809", "-9223372036854775806"));
    check("{'type': 'integer', 'minimum': 0, 'maximum': 18446744073709551615}",
          LIST("0", "18446744073709551615", "9223372036854775808", "999"),
          LIST("18446744073709551616", "20000000000000000000", "-1"));
    check("{'type': 'number', 'minimum': 9007199254740993}",
          LIST("9007199254740993", "99999999999999999"), LIST("9007199254740992", "3.5"));
    check("{'allOf': [{'type': 'integer', 'minimum': 9007199254740993}, {'minimum': "
          "9007199254740992, 'maximum': 9007199254740994}]}",
          LIST("9007199254740993", "9007199254740994"), LIST("9007199254740992"));
    check("{'type': 'integer', 'maximum': 9, 'minimum': 0}", LIST("9"), LIST("10"));
    check("{'const': 18446744073709551615}", LIST("18446744073709551615"),
          LIST("18446744073709551614", "18446744073709552000", "1.8446744073709552e+19"));
    check("{'enum': [9007199254740993, 9007199254740992, -9223372036854775808]}",
          LIST("9007199254740993", "9007199254740992", "-9223372036854775808"),
          LIST("9007199254740994", "-9223372036854775807"));
    check("{'enum': [9007199254740993, 18446744073709551615, 4], 'maximum': 9007199254740993}",
          LIST("9007199254740993", "4"), LIST("18446744073709551615"));
    check("{'enum': [9007199254740993, 9007199254740992], 'minimum': 9007199254740993}",
          LIST("9007199254740993"), LIST("9007199254740992"));
    check("{'enum': [9007199254740992, 9007199254740993, 18446744073709551615], "
          "'not': {'const': 9007199254740992.0}}",
          LIST("9007199254740993", "18446744073709551615"), LIST("9007199254740992"));
    check("{'type': 'integer', 'minimum': 18446744073709551614, 'not': {'const': "
          "18446744073709551615}}",
          LIST("18446744073709551614"), LIST("18446744073709551615"));
    check("{'enum': [9007199254740993, 9007199254740994, 3], 'multipleOf': 9007199254740993}",
          LIST("9007199254740993"), LIST("9007199254740994", "3"));
    check("{'enum': [18446744073709551615, 18446744073709551614], 'multipleOf': 5}",
          LIST("18446744073709551615"), LIST("18446744073709551614"));
    check("{'type': 'integer', 'multipleOf': 7, 'minimum': 18446744073709551600}",
          LIST("18446744073709551600", "18446744073709551607", "18446744073709551614"),
          LIST("18446744073709551602", "18446744073709551593"));
    check("{'oneOf': [{'const': 9007199254740992}, {'const': 9007199254740993}]}",
          LIST("9007199254740992", "9007199254740993"), LIST("9007199254740994"));
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

/* ---- schemas that hold together, or do not ---- */

static void test_all_of(void **state) {
    (void)state;
    check("{'allOf': [{'type': 'string', 'minLength': 2}, {'maxLength': 3}]}",
          LIST("'ab'", "'abc'"), LIST("'a'", "'abcd'", "1"));
    check("{'type': 'object', 'properties': {'a': {'type': 'integer'}}, 'required': ['a'],"
          " 'allOf': [{'properties': {'a': {'minimum': 3}, 'b': {'type': 'null'}}},"
          " {'$ref': '#/$defs/c'}], '$defs': {'c': {'properties': {'c': true},"
          " 'required': ['b']}}}",
          LIST("{'a':3,'b':null}", "{'a':4,'b':null,'c':[]}"),
          LIST("{'a':2,'b':null}", "{'a':3}", "{'a':3.5,'b':null}", "{'a':3,'b':1}",
               "{'a':3,'b':null,'d':1}"));
    check("{'properties': {'a': {}}, 'additionalProperties': false, 'allOf':"
          " [{'properties': {'b': {}}}]}",
          LIST("{}", "{'a':1}"), LIST("{'b':1}", "{'a':1,'b':1}"));
    check("{'type': 'integer', 'minimum': 0, 'anyOf': [{'maximum': 3}, {'minimum': 8}],"
          " 'maximum': 9}",
          LIST("0", "3", "8", "9"), LIST("4", "7", "10", "-1"));
    check("{'$ref': '#/$defs/s', 'maxLength': 1, '$defs': {'s': {'type': 'string'}}}",
          LIST("''", "'a'"), LIST("'ab'", "1"));
    check("{'$id': 'http://a.org/b#', '$defs': {'s': {'$anchor': 'there', 'const': 7}}, 'anyOf':"
          " [{'$ref': 'http://a.org/b#there'}, {'items': {'$ref': 'http://a.org/b'}, 'type':"
          " 'array'}]}",
          LIST("7", "[[7],7]"), LIST("8", "[8]"));
    check("{'$ref': '#there', '$defs': {'s': {'$anchor': 'there', 'const': 7}}}", LIST("7"),
          LIST("8"));
    check("{'enum': [1, 'a', 'bcd', null, {'k': 1}], 'anyOf': [{'type': 'integer'},"
          " {'minLength': 2, 'type': 'string'}, {'required': ['k'], 'type': 'object'}]}",
          LIST("1", "'bcd'", "{'k':1}"), LIST("'a'", "null", "2"));
    check("{'items': [{'const': 1}], 'additionalItems': {'const': 2}}", LIST("[]", "[1]", "[1,2]"),
          LIST("[2]", "[1,1]"));
}

static void test_not(void **state) {
    (void)state;
    check("{'not': {'type': 'string'}}", LIST("1", "null", "{}", "[]", "true"), LIST("'a'", "''"));
    check("{'type': 'string', 'not': {'enum': ['a', 'ab', 1]}}", LIST("''", "'b'", "'abc'", "'aa'"),
          LIST("'a'", "'ab'", "1"));
    check("{'type': ['integer', 'boolean'], 'not': {'enum': [5, true, 0]}}",
          LIST("1", "55", "-5", "50", "false"), LIST("5", "true", "0", "-0"));
    check("{'type': 'number', 'not': {'enum': [0.5, 20]}, 'minimum': 0}",
          LIST("0.51", "0.05", "5", "2", "200", "20.01"), LIST("0.5", "0.50", "20", "20.0"));
    check("{'type': 'number', 'not': {'type': 'integer'}}", LIST("0.5", "-1.25"),
          LIST("1", "1.0", "10.00"));
    check("{'type': 'integer', 'not': {'minimum': 3}}", LIST("2", "-7"), LIST("3", "4"));
    check("{'type': 'string', 'not': {'pattern': 'b'}}", LIST("''", "'ac'"), LIST("'b'", "'abc'"));
    check("{'type': 'object', 'properties': {'a': {'type': 'integer'}, 'b': {}}, 'not':"
          " {'required': ['b']}}",
          LIST("{}", "{'a':1}"), LIST("{'b':1}", "{'a':1,'b':1}"));
    check("{'properties': {'a': {'type': 'integer'}}, 'not': {'properties': {'a': {'const': 1}}}}",
          LIST("{'a':2}"), LIST("{}", "{'a':1}"));
    check("{'type': 'array', 'items': {'type': 'integer'}, 'not': {'items': {'const': 1}}}",
          LIST("[2]", "[1,2]", "[2,1,1]"), LIST("[]", "[1]", "[1,1]"));
    check("{'prefixItems': [{'enum': [1, 2]}, {'enum': [3, 4]}], 'items': false,"
          " 'not': {'prefixItems': [{'const': 1}, {'const': 3}]}}",
          LIST("[2]", "[1,4]", "[2,3]"), LIST("[]", "[1]", "[1,3]", "[3]"));
    check("{'oneOf': [{'type': 'integer'}, {'minimum': 2, 'type': 'number'}]}",
          LIST("1", "2.5", "-3"), LIST("2", "3", "1.5"));
    check("{'if': {'type': 'integer'}, 'then': {'minimum': 3}, 'else': {'type': 'string'}}",
          LIST("3", "'a'"), LIST("2", "null", "3.5"));
    check("{'type': 'object', 'properties': {'kind': {'enum': ['a', 'b']}, 'x': {'type': 'null'}},"
          " 'required': ['kind'], 'if': {'properties': {'kind': {'const': 'a'}}},"
          " 'then': {'required': ['x']}, 'else': {'properties': {'x': false}}}",
          LIST("{'kind':'a','x':null}", "{'kind':'b'}"),
          LIST("{'kind':'a'}", "{'kind':'b','x':null}", "{'x':null}"));
}

static void test_members(void **state) {
    (void)state;
    check("{'patternProperties': {'^a': {'type': 'integer'}, 'z$': {'minimum': 5}}}",
          LIST("{}", "{'a':1}", "{'az':5,'ab':1}", "{'z':7.5}"),
          LIST("{'az':4}", "{'az':5.5}", "{'b':1}", "{'a':'x'}"));
    check("{'properties': {'ab': {'maximum': 3}}, 'patternProperties': {'^a': {'type': 'integer'}},"
          " 'additionalProperties': {'type': 'null'}}",
          LIST("{'ab':3}", "{'ab':1,'ac':9,'b':null}"),
          LIST("{'ab':4}", "{'ab':1.5}", "{'b':1}", "{'ac':null}"));
    check("{'type': 'object', 'propertyNames': {'pattern': '^[a-z]+$', 'maxLength': 2},"
          " 'additionalProperties': {'type': 'integer'}}",
          LIST("{}", "{'a':1}", "{'ab':1,'b':2}"), LIST("{'abc':1}", "{'A':1}", "{'':1}"));
    check("{'type': 'object', 'propertyNames': {'enum': ['x', 'y']}, 'additionalProperties':"
          " {'type': 'integer'}}",
          LIST("{}", "{'x':1}", "{'x':1,'y':2}"), LIST("{'z':1}", "{'x':1,'x':2}", "{'x':'a'}"));
    check("{'properties': {'a': {}, 'b': {}, 'c': {}}, 'minProperties': 1, 'maxProperties': 2}",
          LIST("{'a':1}", "{'b':1,'c':1}"), LIST("{}", "{'a':1,'b':1,'c':1}"));
    check("{'type': 'object', 'maxProperties': 1}", LIST("{}", "{'a':1}"), LIST("{'a':1,'b':2}"));
    check("{'properties': {'a': {}}, 'additionalProperties': true, 'minProperties': 2}",
          LIST("{'a':1,'b':1}", "{'a':1,'b':1,'c':1}"),
          LIST("{'a':1}", "{'b':1}", "{'b':1,'b':1}"));
    check("{'properties': {'a': {}, 'b': {}}, 'dependentRequired': {'a': ['b']}}",
          LIST("{}", "{'b':1}", "{'a':1,'b':1}"), LIST("{'a':1}"));
    check("{'properties': {'a': {}, 'b': {}}, 'dependentSchemas': {'a': {'properties':"
          " {'b': {'type': 'null'}}}}}",
          LIST("{}", "{'b':1}", "{'a':1}", "{'a':1,'b':null}"), LIST("{'a':1,'b':1}"));
    check("{'properties': {'a': {}}, 'allOf': [{'properties': {'b': {}}}],"
          " 'unevaluatedProperties': false}",
          LIST("{}", "{'a':1,'b':1}"), LIST("{'c':1}"));
    check("{'properties': {'a': {}}, 'anyOf': [{'properties': {'b': {}}, 'required': ['b']}, {}],"
          " 'unevaluatedProperties': {'type': 'null'}}",
          LIST("{}", "{'a':1,'b':1}", "{'a':1,'b':null,'c':null}", "{'b':null}"),
          LIST("{'c':1}", "{'a':1,'b':1,'c':1}"));
    check("{'type': 'object', 'patternProperties': {'^x': {}}, 'unevaluatedProperties':"
          " {'const': 2}}",
          LIST("{'x':1}", "{'a':2,'xa':3}"), LIST("{'a':1}", "{'x':1,'a':3}"));
}

static void test_elements(void **state) {
    (void)state;
    check("{'type': 'array', 'items': {'type': 'integer'}, 'contains': {'minimum': 5}}",
          LIST("[5]", "[1,7,2]", "[9,9]"), LIST("[]", "[1]", "[1,2]", "[1.5,7]"));
    check("{'items': {'enum': [1, 2]}, 'contains': {'const': 1}, 'minContains': 2,"
          " 'maxContains': 3, 'maxItems': 4}",
          LIST("[1,1]", "[1,2,1]", "[1,1,1,2]"), LIST("[1]", "[2,1]", "[1,1,1,1]", "[1,2,2,1,1]"));
    check("{'type': 'array', 'items': {'enum': ['a', 'b', 'c']}, 'uniqueItems': true,"
          " 'minItems': 1}",
          LIST("['a']", "['a','c']", "['a', 'b', 'c']"), LIST("[]", "['a','a']", "['d']"));
    check("{'type': 'array', 'uniqueItems': true, 'maxItems': 1}", LIST("[]", "[1]"),
          LIST("[1,1]"));
    check("{'type': 'array', 'items': {'type': ['boolean', 'null']}, 'uniqueItems': true}",
          LIST("[]", "[true]", "[null,false,true]"), LIST("[true,true]", "[1]"));
    check("{'type': 'array', 'items': {'type': 'integer', 'minimum': 1, 'exclusiveMaximum': 6,"
          " 'not': {'const': 3}}, 'uniqueItems': true, 'minItems': 2}",
          LIST("[1,5]", "[1,2,4,5]"), LIST("[1]", "[3,4]", "[5,6]", "[2,2]", "[0,1]"));
    check("{'type': 'array', 'items': {'anyOf': [{'const': 'x'}, {'enum': [1, 'y']}, {'type':"
          " 'integer', 'minimum': 0, 'maximum': 2}]}, 'uniqueItems': true}",
          LIST("['x','y']", "['x',1]", "['x',1,'y',0,2]", "['x',0,2]"),
          LIST("[1,1]", "['z']", "['x','x']"));
    check("{'type': 'array', 'prefixItems': [{}], 'unevaluatedItems': {'type': 'null'}}",
          LIST("[]", "[1]", "[1,null,null]"), LIST("[1,1]"));
    check("{'prefixItems': [{'const': 1}], 'allOf': [{'prefixItems': [true, {'const': 2}]}],"
          " 'unevaluatedItems': false}",
          LIST("[]", "[1]", "[1,2]"), LIST("[1,3]", "[1,2,3]"));
}

static void test_patterns(void **state) {
    (void)state;
    check("{'type': 'string', 'pattern': '^[ab]+$', 'minLength': 2, 'maxLength': 3}",
          LIST("'ab'", "'bab'"), LIST("'a'", "'abab'", "'ac'"));
    check("{'allOf': [{'pattern': 'a'}, {'pattern': 'b'}]}", LIST("'ab'", "'b a'"),
          LIST("'a'", "'b'", "''"));
    check("{'pattern': '^(?=.*[A-Z])(?=.*[0-9])(?!.*x).{3,}$'}", LIST("'A1b'", "'b2C4'"),
          LIST("'A1'", "'ab1'", "'Abc'", "'A1x'"));
    /* As pydantic writes decimal numbers. */
    check("{'pattern': '^(?!^[-+.]*$)[+-]?0*\\\\d*\\\\.?\\\\d*$'}", LIST("'1.5'", "'-.5'", "'7'"),
          LIST("''", "'.'", "'-'", "'+.'", "'1.5.'"));
    check("{'type': 'string', 'format': 'date', 'pattern': '^2'}", LIST("'2024-02-03'"),
          LIST("'1999-02-03'", "'2'"));
    check("{'type': 'string', 'format': 'uri', 'minLength': 1, 'maxLength': 2083}",
          LIST("'https://example.org/a?b=c'"), LIST("''", "'a'"));
    check("{'type': 'string', 'format': 'relative-json-pointer'}",
          LIST("'0'", "'12/a~1b/0'", "'2#'"),
          LIST("''", "'/a'", "'01'", "'1a'", "'0#/a'", "'1/~'"));
    check("{'type': 'string', 'format': 'uri-template'}",
          LIST("''", "'/a/{id}'", "'http://x.org/{+path:3}{?q,lang*}{#a.b}'"),
          LIST("'{'", "'a}'", "'{}'", "'{a,}'", "'{a b}'", "'{a:0}'", "'a b'", "'%zz'"));
    check("{'type': 'string', 'format': 'duration'}", LIST("'P1D'", "'PT1H30M'", "'P3W'"),
          LIST("'P'", "'PT'", "'1D'"));
}

/* Multiples, against the definition. */
static void test_multiples(void **state) {
    (void)state;
    for (int i = 0; i < 60; i++) {
        char schema[128], text[40];
        int modulus = 1 + (int)(next_random() % 40), places = (int)(next_random() % 3);
        int low = (int)(next_random() % 100), high = low + (int)(next_random() % 1000);
        double of = modulus / (places == 0 ? 1.0 : places == 1 ? 10.0 : 100.0);
        snprintf(schema, sizeof schema, "{\"multipleOf\": %.*f, \"minimum\": %d, \"maximum\": %d}",
                 places, of, low, high);
        mc_grammar *g;
        if (mc_schema_compile(schema, strlen(schema), &g) != MICA_OK) continue; /* none is there */
        for (int k = 0; k < 100; k++) {
            int64_t hundredths = (int64_t)(next_random() % (uint64_t)(100 * (high + 2)));
            int64_t step = (int64_t)modulus * (places == 0 ? 100 : places == 1 ? 10 : 1);
            int digits = hundredths % 100 == 0 ? 0 : hundredths % 10 == 0 ? 1 : 2;
            snprintf(text, sizeof text, "%.*f", digits, (double)hundredths / 100);
            bool want =
                hundredths % step == 0 && hundredths >= 100 * low && hundredths <= 100 * high;
            if (accepts(g, text) != want) fail_msg("%s: %s", schema, text);
        }
        mc_grammar_close(&g);
    }
    check("{'type': 'integer', 'multipleOf': 7}", LIST("0", "-7", "700", "123456789012345677"),
          LIST("1", "-8", "7.0", "123456789012345678"));
    check("{'type': 'number', 'not': {'multipleOf': 0.5}}", LIST("0.3", "-7.25", "1.51"),
          LIST("0.5", "0.0", "3", "1.50", "-2.0000", "1e1"));
    check("{'type': 'string', 'not': {'pattern': '^\\\\d.$'}}", LIST("'1'", "'a1'", "'12\\n'"),
          LIST("'1a'", "'1\xe2\x80\xa8'", "'\xd9\xa3x'"));
    check("{'type': 'string', 'not': {'pattern': '\\\\D'}}", LIST("'12'", "''"),
          LIST("'\xc3\xa9'", "'a'", "'1\xd9\xa3'"));
    check("{'pattern': '^(?!.*\\\\W).+$'}", LIST("'ab_1'"), LIST("'\xc3\xa9'", "'a b'"));
    check("{'patternProperties': {'^[^\\\\d]+$': {'type': 'integer'}}, 'additionalProperties': {}}",
          LIST("{'a':1,'a1':[]}"), LIST("{'\xc3\xa9':'s'}", "{'\xc3\xa9':1}", "{'a':'s'}"));
    check("{'if': {'pattern': '\\\\W'}, 'then': {'const': 'a b'}, 'else': {'type': 'string'}}",
          LIST("'a b'", "'ab'"), LIST("'\xc3\xa9'", "'c d'"));
    check("{'type': 'integer', 'multipleOf': 6, 'not': {'multipleOf': 4}}", LIST("6", "18", "-30"),
          LIST("12", "4", "0", "9"));
    check("{'type': 'integer', 'allOf': [{'multipleOf': 2.5}, {'multipleOf': 3}]}",
          LIST("15", "0", "30"), LIST("5", "3", "10"));
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
    refuse("{\"properties\": {\"a/b\": {\"items\": {\"$dynamicRef\": \"#\"}}}}", MICA_EUNSUPPORTED,
           "schema/properties/a~1b/items/$dynamicRef: not supported");
    refuse("{\"not\": {\"format\": \"date\"}}", MICA_EUNSUPPORTED, "schema/not/format");
    refuse("{\"not\": {\"required\": [1]}}", MICA_EFORMAT, "schema/not/required");
    refuse("{\"not\": {\"dependentRequired\": {\"a\": [1]}}}", MICA_EFORMAT,
           "schema/not/dependentRequired");
    refuse("{\"not\": {\"enum\": 1}}", MICA_EFORMAT, "schema/not/enum");
    /* Whether a letter that is not ASCII is no digit is said by all, but not what digits are. */
    refuse("{\"enum\": [\"\xc3\xa9\"], \"not\": {\"pattern\": \"\\\\D\"}}", MICA_EUNSUPPORTED,
           "depends on the engine");
    refuse("{\"properties\": {\"\xc3\xa9\": {}}, \"patternProperties\": {\"^\\\\D+$\": {}}}",
           MICA_EUNSUPPORTED, "depends on the engine");
    refuse("{\"not\": {\"const\": [1]}}", MICA_EUNSUPPORTED, "schema/not");
    refuse("{\"not\": {\"anyOf\": [{}, {}], \"uniqueItems\": true}}", MICA_EUNSUPPORTED,
           "schema/not/uniqueItems");
    refuse("{\"allOf\": [{\"unevaluatedProperties\": false}, {}]}", MICA_EUNSUPPORTED,
           "schema/allOf/0/unevaluatedProperties");
    refuse("{\"requried\": []}", MICA_EUNSUPPORTED, "schema/requried");
    refuse("{\"uniqueItems\": true}", MICA_EUNSUPPORTED, "uniqueItems");
    refuse("{\"items\": {\"type\": \"integer\", \"minimum\": 2}, \"uniqueItems\": true}",
           MICA_EUNSUPPORTED, "uniqueItems");
    refuse("{\"items\": {\"type\": \"number\"}, \"uniqueItems\": true}", MICA_EUNSUPPORTED,
           "uniqueItems");
    refuse("{\"items\": {\"type\": \"string\"}, \"uniqueItems\": true, \"minItems\": 11}",
           MICA_EUNSUPPORTED, "uniqueItems");
    refuse("{\"items\": {\"pattern\": \"^(one|other)$\", \"type\": \"string\"}, \"uniqueItems\":"
           " true, \"minItems\": 3}",
           MICA_EUNSUPPORTED, "items: no place of these texts tells 3 of them apart");
    refuse("{\"type\": \"string\", \"nullable\": 1}", MICA_EFORMAT, "schema/nullable");
    refuse("{\"unevaluatedItems\": 3}", MICA_EFORMAT, "unevaluatedItems: want a schema");
    refuse("{\"multipleOf\": 123457}", MICA_EUNSUPPORTED, "schema/multipleOf");
    refuse("{\"multipleOf\": 0}", MICA_EFORMAT, "schema/multipleOf");
    refuse("{\"items\": [{}], \"prefixItems\": []}", MICA_EFORMAT, "prefixItems");
    refuse("{\"minProperties\": 11}", MICA_EUNSUPPORTED, "schema/minProperties");
    refuse("{\"patternProperties\": {\"^[ab]$\": {}}, \"additionalProperties\": false,"
           " \"minProperties\": 3, \"type\": \"object\"}",
           MICA_EUNSUPPORTED, "schema: no place of these texts tells 3 of them apart");
    refuse("{\"allOf\": [{\"contains\": {\"const\": 1}}, {\"contains\": {\"const\": 2}}]}",
           MICA_EUNSUPPORTED, "allOf/1/contains");
    refuse("{\"patternProperties\": {\"a(?<=b)\": {}}}", MICA_EUNSUPPORTED, "patternProperties");
    refuse("{\"type\": \"strin\"}", MICA_EFORMAT, "schema/type");
    refuse("{\"type\": []}", MICA_EFORMAT, "schema/type");
    refuse(
        "{\"$ref\": \"#/$defs/a/items\", \"$defs\": {\"a\": {\"$id\": \"b\", \"items\": {\"$ref\":"
        " \"#/$defs/a\"}}}}",
        MICA_EUNSUPPORTED, "schema/$ref");
    refuse("{\"$id\": \"http://a.org/b\", \"$ref\": \"http://a.org/bc#/$defs/x\", \"$defs\":"
           " {\"x\": {}}}",
           MICA_EUNSUPPORTED, "schema/$ref");
    refuse("{\"type\": \"null\", \"type\": \"string\"}", MICA_EFORMAT,
           "schema/type: a name is there twice");
    refuse("{\"anyOf\": [{}, {\"const\": {\"a\": 1, \"b\": [{\"c\": 1, \"\\u0063\": 2}]}}]}",
           MICA_EFORMAT, "schema/anyOf/1/const/b/0/c: a name is there twice");
    refuse("{\"patternProperties\": {\"a\": {\"const\": 1}, \"a\": {\"const\": 2}}}", MICA_EFORMAT,
           "schema/patternProperties/a: a name is there twice");
    refuse("{\"minLength\": -1}", MICA_EFORMAT, "minLength");
    refuse("{\"minLength\": \"1\"}", MICA_EFORMAT, "minLength");
    refuse("{\"pattern\": \"a(?=a)\"}", MICA_EUNSUPPORTED, "schema/pattern");
    refuse("{\"format\": \"regex\"}", MICA_EUNSUPPORTED, "\"regex\"");
    refuse("{\"anyOf\": []}", MICA_EFORMAT, "schema/anyOf");
    refuse("{\"allOf\": [3]}", MICA_EFORMAT, "schema/allOf/0");
    refuse("{\"oneOf\": [{\"format\": \"date\"}, {\"format\": \"time\"}]}", MICA_EUNSUPPORTED,
           "schema/oneOf/");
    refuse("{\"$ref\": \"http://example.org/\"}", MICA_EUNSUPPORTED, "schema/$ref");
    refuse("{\"$ref\": \"#/$defs/none\"}", MICA_EUNSUPPORTED, "schema/$ref");
    refuse("{\"items\": {\"$id\": \"x\"}}", MICA_EUNSUPPORTED, "schema/items/$id");
    refuse("{\"const\": 12345678901234567890123}", MICA_EUNSUPPORTED, "schema/const");
    refuse("{\"type\": \"integer\", \"maximum\": 1e20}", MICA_EUNSUPPORTED, "more than 20 digits");
    refuse("{\"type\": \"string\", \"maxLength\": 99999999}", MICA_EINVAL, "too large");
    /* Nothing satisfies these. */
    refuse("false", MICA_EINVAL, "nothing satisfies");
    refuse("{\"$ref\": \"#\"}", MICA_EINVAL, "nothing satisfies");
    refuse("{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}}, \"required\":"
           " [\"a\"]}",
           MICA_EINVAL, "nothing satisfies");
    refuse("{\"not\": {\"$ref\": \"#\"}}", MICA_EINVAL, "nothing satisfies");
    refuse("{\"$ref\": \"#\", \"type\": \"null\"}", MICA_EINVAL, "nothing satisfies");
    refuse("{\"oneOf\": [{\"type\": \"object\"}, {\"type\": \"object\"}]}", MICA_EINVAL,
           "nothing satisfies");
    refuse("{\"not\": {\"maxItems\": 9223372036854775807}}", MICA_EINVAL, "nothing satisfies");
    refuse("{\"not\": {\"maxLength\": 9223372036854775807}}", MICA_EINVAL, "nothing satisfies");
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
    /* Each level has two ways of the same text: all are followed, or it is an error. */
    mc_grammar *g = compile("{\"anyOf\": [{\"type\": \"array\", \"items\": {\"$ref\": \"#\"}},"
                            " {\"type\": \"array\", \"items\": {\"$ref\": \"#\"}}]}");
    char text[201];
    bool accepted;
    assert_true(accepts(g, "[[[[[[[[[[]]]]]]]]]]"));
    memset(text, '[', 60);
    memset(text + 60, ']', 60);
    text[120] = '\0';
    assert_int_equal(mc_grammar_accepts(g, text, 120, &accepted, NULL), MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "ways"));
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

/* Parts of a schema, `count` of them, by their number. */
static void add_parts(mc_buffer *text, const char *fmt, int count) {
    for (int i = 0; i < count; i++) {
        if (i) mc_buffer_add_text(text, ", ");
        mc_buffer_printf(text, fmt, i, i);
    }
}

/* Compiling counts its work: what made it take 15 s, 9 s, and 193 MB is refused before. */
static void test_budget(void **state) {
    static const struct {
        const char *begin, *part, *end;
        int count;
    } cases[] = {
        {"{\"oneOf\": [", "{\"properties\": {\"k\": {\"const\": %d}}, \"required\": [\"k\"]}", "]}",
         5000},
        {"{\"enum\": [", "{\"a\": %d, \"b\": [%d]}", "]}", 20000},
        {"{\"dependentRequired\": {\"a\": [", "\"b%d\"",
         "], \"c\": [\"d\"], \"e\": [\"d\"], \"f\": [\"d\"], \"g\": [\"d\"], \"h\": [\"d\"]}}",
         8000},
    };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    enum { CPU_SECONDS = 50 };
#else /* a tenth of them here; of the processor, not of the wall */
    enum { CPU_SECONDS = 5 * MICA_TEST_EMULATED_TIMES };
#endif
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mc_buffer text = {0};
        mc_buffer_add_text(&text, cases[i].begin);
        add_parts(&text, cases[i].part, cases[i].count);
        mc_buffer_add_text(&text, cases[i].end);
        clock_t begun = clock();
        refuse(mc_buffer_cstr(&text), MICA_EUNSUPPORTED, "too many combinations");
        assert_true((double)(clock() - begun) / CLOCKS_PER_SEC < CPU_SECONDS);
        mc_buffer_deinit(&text);
    }
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
    static char combined[] =
        "{\"allOf\": [{\"properties\": {\"a\": {\"pattern\": \"^(?!z)\", \"maxLength\": 3}}},"
        " {\"$ref\": \"#b\"}], \"anyOf\": [{\"required\": [\"a\"]}, false], \"not\": {\"required\":"
        " [\"x\"]}, \"patternProperties\": {\"^q\": {\"multipleOf\": 3}}, \"$defs\": {\"b\":"
        " {\"$anchor\": \"b\", \"propertyNames\": {\"maxLength\": 2}, \"properties\": {\"a\": "
        "{\"enum\":"
        " [\"xy\", 1]}}}}}";
    test_fail_each_allocation(compile_once, combined);
    test_fail_each_allocation(compile_once, schema);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),     cmocka_unit_test(test_strings),
        cmocka_unit_test(test_leap_days), cmocka_unit_test(test_openapi),
        cmocka_unit_test(test_sets),      cmocka_unit_test(test_maps),
        cmocka_unit_test(test_constants), cmocka_unit_test(test_objects),
        cmocka_unit_test(test_arrays),    cmocka_unit_test(test_alternatives),
        cmocka_unit_test(test_recursion), cmocka_unit_test(test_all_of),
        cmocka_unit_test(test_not),       cmocka_unit_test(test_members),
        cmocka_unit_test(test_elements),  cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_bounds),    cmocka_unit_test(test_large_integers),
        cmocka_unit_test(test_multiples), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_hostile),   cmocka_unit_test(test_budget),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("grammar/schema", tests, NULL, NULL);
}
