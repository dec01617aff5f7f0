/* Reading a request's fields by tables: what is set, and what is refused by its name. */
#include "serve/http/endpoint.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

typedef struct values {
    bool flag;
    int64_t count;
    double rate;
    mc_str text;
    int choice;
    mc_json any;
    struct {
        bool usage;
    } inner;
    int64_t shared, limit;
    mc_seed seed;
} values;

static const mc_field inner_fields[] = {
    {.name = "usage", .kind = MC_FIELD_BOOL, .offset = offsetof(values, inner.usage)},
};
static const mc_field fields[] = {
    {.name = "flag", .kind = MC_FIELD_BOOL, .initial = 1, .offset = offsetof(values, flag)},
    {.name = "count",
     .kind = MC_FIELD_INT,
     .min = 1,
     .max = 8,
     .initial = 3,
     .offset = offsetof(values, count)},
    {.name = "rate",
     .kind = MC_FIELD_REAL,
     .max = 2,
     .initial = 0.5,
     .offset = offsetof(values, rate)},
    {.name = "text", .kind = MC_FIELD_TEXT, .required = true, .offset = offsetof(values, text)},
    {.name = "choice",
     .kind = MC_FIELD_CHOICE,
     .choices = "none auto required",
     .initial = 1,
     .offset = offsetof(values, choice)},
    {.name = "any",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
     .offset = offsetof(values, any)},
    {.name = "inner", .kind = MC_FIELD_OBJECT, .fields = inner_fields, .count = 1},
    {.name = "store", .kind = MC_FIELD_ONLY, .choices = "false", .help = "nothing is stored"},
    {.name = "audio", .kind = MC_FIELD_REFUSED, .help = "models speak no sounds"},
    {.name = "user", .kind = MC_FIELD_NOTED},
    {.name = "limit",
     .kind = MC_FIELD_INT,
     .max = INT32_MAX,
     .initial = 7,
     .offset = offsetof(values, limit)},
    {.name = "seed", .kind = MC_FIELD_SEED, .offset = offsetof(values, seed)},
};
static const mc_field shared_fields[] = {
    {.name = "shared", .kind = MC_FIELD_INT, .min = -1e18, .max = 1e18},
};
static const mc_field_table tables[MC_FIELD_TABLES] = {
    {fields, sizeof fields / sizeof *fields, 0},
    {shared_fields, 1, offsetof(values, shared)},
};

static mc_json_doc *doc;

static bool read(const char *json, values *out, mc_failure *failure) {
    mc_json_close(&doc);
    *failure = (mc_failure){0};
    assert_int_equal(mc_json_parse(json, strlen(json), "body", &doc), MICA_OK);
    memset(out, 0xee, sizeof *out);
    return mc_fields_read(tables, mc_json_root(doc), out, failure);
}

static void test_values(void **state) {
    (void)state;
    values v;
    mc_failure failure;
    assert_true(read("{\"text\": \"a\\u0000b\"}", &v, &failure));
    assert_true(v.flag && v.count == 3 && v.rate == 0.5 && v.choice == 1);
    assert_true(v.text.len == 3 && !v.inner.usage && v.shared == 0);
    assert_int_equal(mc_json_get_type(v.any), MC_JSON_NONE);
    assert_true(read("{\"flag\": false, \"count\": 8, \"rate\": 2, \"text\": \"\", \"choice\": "
                     "\"required\", \"any\": [1], \"inner\": {\"usage\": true}, \"store\": false, "
                     "\"user\": {\"x\": 1}, \"shared\": -7, \"audio\": null}",
                     &v, &failure));
    assert_true(!v.flag && v.count == 8 && v.rate == 2 && v.choice == 2 && v.inner.usage);
    assert_int_equal(v.shared, -7);
    assert_int_equal(mc_json_count(v.any), 1);
    assert_non_null(v.text.ptr);
    mc_json_close(&doc);
}

/* Every integer of 64 bits is a seed, and each another one. */
static void test_seeds(void **state) {
    (void)state;
    static const struct {
        const char *json;
        uint64_t seed;
    } cases[] = {{"-9223372036854775808", 1ull << 63},
                 {"9223372036854775807", (1ull << 63) - 1},
                 {"9223372036854775295", (1ull << 63) - 513},
                 {"-1", UINT64_MAX},
                 {"0", 0}};
    values v;
    mc_failure failure;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *json = test_format("{\"text\": \"\", \"seed\": %s}", cases[i].json);
        assert_true(read(json, &v, &failure) && v.seed.given);
        assert_true(v.seed.value == cases[i].seed);
        free(json);
    }
    assert_true(read("{\"text\": \"\"}", &v, &failure) && !v.seed.given);
    assert_false(read("{\"text\": \"\", \"seed\": 9223372036854775808}", &v, &failure));
    assert_non_null(strstr(failure.message, "-9223372036854775808 to 9223372036854775807"));
    mc_json_close(&doc);
}

/* A range that is told without its end has one all the same. */
static void test_ranges(void **state) {
    (void)state;
    static const struct {
        const char *json, *says;
    } cases[] = {{"\"limit\": 2147483648", "limit: 2147483648 is out of range: integer, 0 or more, "
                                           "up to 2147483647"},
                 {"\"limit\": -1", "limit: -1 is out of range: integer, 0 or more"},
                 {"\"count\": 9", "count: 9 is out of range: integer, 1 to 8"},
                 {"\"rate\": 2.5", "rate: 2.5 is out of range: number, 0 to 2"}};
    values v;
    mc_failure failure;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *json = test_format("{\"text\": \"\", %s}", cases[i].json);
        assert_false(read(json, &v, &failure));
        assert_string_equal(failure.message, cases[i].says);
        free(json);
    }
    mc_json_close(&doc);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *json, *code, *param;
    } cases[] = {
        {"{}", "missing_field", "text"},
        {"{\"text\": null}", "missing_field", "text"},
        {"{\"text\": 1}", "invalid_type", "text"},
        {"{\"text\": \"\", \"flag\": 1}", "invalid_type", "flag"},
        {"{\"text\": \"\", \"count\": 0}", "invalid_value", "count"},
        {"{\"text\": \"\", \"count\": 1.5}", "invalid_type", "count"},
        {"{\"text\": \"\", \"count\": \"3\"}", "invalid_type", "count"},
        {"{\"text\": \"\", \"rate\": 2.01}", "invalid_value", "rate"},
        {"{\"text\": \"\", \"rate\": -1e-9}", "invalid_value", "rate"},
        {"{\"text\": \"\", \"choice\": \"some\"}", "invalid_type", "choice"},
        {"{\"text\": \"\", \"choice\": \"\"}", "invalid_type", "choice"},
        {"{\"text\": \"\", \"any\": {}}", "invalid_type", "any"},
        {"{\"text\": \"\", \"inner\": []}", "invalid_type", "inner"},
        {"{\"text\": \"\", \"inner\": {\"usage\": \"yes\"}}", "invalid_type", "inner.usage"},
        {"{\"text\": \"\", \"inner\": {\"usages\": true}}", "unknown_field", "inner.usages"},
        {"{\"text\": \"\", \"inner\": {\"usage\": true, \"usage\": false}}", "repeated_field",
         "inner.usage"},
        {"{\"text\": \"\", \"store\": true}", "unsupported_value", "store"},
        {"{\"text\": \"\", \"audio\": false}", "unsupported_field", "audio"},
        {"{\"text\": \"\", \"texts\": 1}", "unknown_field", "texts"},
        {"{\"text\": \"\", \"count\": 2, \"count\": 3}", "repeated_field", "count"},
        {"[]", "invalid_body", ""},
        {"3", "invalid_body", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        values v;
        mc_failure failure;
        if (read(cases[i].json, &v, &failure)) fail_msg("%s was taken", cases[i].json);
        assert_int_equal(failure.status, 400);
        assert_string_equal(failure.code, cases[i].code);
        assert_string_equal(failure.param, cases[i].param);
        if (!strstr(failure.message, cases[i].param)) fail_msg("%s", failure.message);
    }
    mc_json_close(&doc);
}

static void test_types(void **state) {
    (void)state;
    char text[160];
    mc_field_type(&fields[1], text, sizeof text);
    assert_string_equal(text, "integer, 1 to 8");
    mc_field_type(&fields[5], text, sizeof text);
    assert_string_equal(text, "string or array");
    mc_field_type(&fields[4], text, sizeof text);
    assert_string_equal(text, "one of none auto required");
    mc_field_type(&shared_fields[0], text, sizeof text);
    assert_string_equal(text, "integer");
}

static int check_help(const mc_field *at, size_t count) {
    int found = 0;
    for (const mc_field *end = at + count; at < end; at++) {
        bool noted = at->kind == MC_FIELD_NOTED, refused = at->kind == MC_FIELD_REFUSED;
        if ((noted || refused) && !at->help) fail_msg("%s: why is it not said", at->name);
        found += noted;
        if (at->kind == MC_FIELD_OBJECT) found += check_help(at->fields, at->count);
    }
    return found;
}

/* What the server takes without effect, or refuses, has a reason in docs/serve.md. */
static void test_help(void **state) {
    (void)state;
    const mc_endpoint_list *list;
    int found = 0;
    for (size_t i = 0; (list = mc_endpoint_list_at(i)); i++)
        for (size_t e = 0; e < list->count; e++)
            for (size_t t = 0; t < MC_FIELD_TABLES && list->endpoints[e].tables[t].fields; t++) {
                const mc_field_table *table = &list->endpoints[e].tables[t];
                found += check_help(table->fields, table->count);
            }
    assert_true(found > 9);
}

/* Clients learn a file's name, but not its folder. */
static void test_status_texts(void **state) {
    (void)state;
    static const char *const texts[][2] = {
        {"/srv/my models/a/chat_template.jinja, line 3: no", "chat_template.jinja, line 3: no"},
        {"/srv/a/config.json: no", "config.json: no"},
        {"/properties/a/type: no", "/properties/a/type: no"},
        {"the text a/b.c: no", "the text a/b.c: no"},
        {"", ""}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        mc_failure failure;
        assert_false(mc_failure_of(&failure, mc_fail(MICA_EFORMAT, "%s", texts[i][0]), "x"));
        assert_string_equal(failure.message, texts[i][1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),      cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_types),
        cmocka_unit_test(test_seeds),       cmocka_unit_test(test_help),
        cmocka_unit_test(test_status_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
