#include "answer/call_value.h"

#include "answer/call_python.h"
#include "answer/format.h"
#include "base/json_write.h"
#include "base/utf8.h"
#include "text/space.h"

#include <string.h>

/* Types of JSON, as bits; an integer is a number. */
enum { NULLS = 1, BOOLEANS = 2, NUMBERS = 4, STRINGS = 8, ARRAYS = 16, OBJECTS = 32, ANY = 63 };

static int type_of(mc_json value) {
    static const int types[] = {
        [MC_JSON_NULL] = NULLS,     [MC_JSON_BOOL] = BOOLEANS,  [MC_JSON_INT] = NUMBERS,
        [MC_JSON_FLOAT] = NUMBERS,  [MC_JSON_STRING] = STRINGS, [MC_JSON_ARRAY] = ARRAYS,
        [MC_JSON_OBJECT] = OBJECTS, [MC_JSON_NONE] = 0};
    return types[mc_json_get_type(value)];
}

static int named_type(mc_json name) {
    static const struct {
        const char *name;
        int type;
    } rows[] = {{"null", NULLS},     {"boolean", BOOLEANS}, {"integer", NUMBERS},
                {"number", NUMBERS}, {"string", STRINGS},   {"array", ARRAYS},
                {"object", OBJECTS}};
    mc_str text;
    for (size_t i = 0; mc_json_get_str(name, &text) && i < sizeof rows / sizeof *rows; i++)
        if (mc_str_is(text, rows[i].name)) return rows[i].type;
    return ANY;
}

/* The types that a schema takes, as far as it says so without references. */
static int types_of(mc_json schema, int depth) {
    enum { DEEPEST = 4 };
    static const char *const ways[] = {"anyOf", "oneOf"};
    mc_json type = mc_json_find(schema, "type");
    int types = 0;
    if (depth > DEEPEST) return ANY;
    if (mc_json_get_type(type) == MC_JSON_STRING) return named_type(type);
    for (mc_json_iter it = mc_json_begin(type); mc_json_next(&it);)
        types |= named_type(it.value);
    if (types) return types;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        for (mc_json_iter it = mc_json_begin(mc_json_find(schema, ways[i])); mc_json_next(&it);)
            types |= types_of(it.value, depth + 1);
        if (types) return types;
    }
    for (mc_json_iter it = mc_json_begin(mc_json_find(schema, "enum")); mc_json_next(&it);)
        types |= type_of(it.value);
    return types ? types : ANY;
}

/* The schema of an argument; NONE: there is none. */
static mc_json schema_of(mc_json parameters, mc_str key) {
    for (mc_json_iter it = mc_json_begin(mc_json_find(parameters, "properties"));
         mc_json_next(&it);)
        if (mc_str_eq(it.key, key)) return it.value;
    return (mc_json){0};
}

bool mc_tool_takes_text(mc_json parameters, mc_str key) {
    return types_of(schema_of(parameters, key), 0) == STRINGS;
}

static mica_status add_string(mc_str text, mc_buffer *json) {
    bool done = mc_buffer_add_byte(json, '"') && mc_json_escape(json, text) &&
                mc_buffer_add_byte(json, '"');
    return done ? MICA_OK : mc_fail_nomem("a call of a tool");
}

/* Adds a text that is a value of one of the types. *found: whether it is. */
static mica_status add_value(int types, mc_str text, mc_buffer *json, bool *found) {
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    mc_json_doc *doc = NULL;
    size_t before = mc_space_at_start(text.ptr, text.len);
    text = (mc_str){text.ptr + before, text.len - before};
    text.len -= mc_space_at_end(text.ptr, text.len);
    for (size_t i = 0; i < sizeof words / sizeof *words && !(types & STRINGS); i++)
        if (mc_str_is(text, words[i][0])) text = mc_str_of(words[i][1]);
    mica_status status = mc_json_parse(text.ptr, text.len, "an argument", &doc);
    *found = status == MICA_OK && (type_of(mc_json_root(doc)) & types) != 0;
    if (*found && !mc_buffer_add(json, text.ptr, text.len))
        status = mc_fail_nomem("a call of a tool");
    mc_json_close(&doc);
    return status == MICA_ENOMEM ? status : MICA_OK;
}

/* Of Python, too: Seed's template prints them so. */
static bool is_list_or_object(mc_str text) {
    size_t before = mc_space_at_start(text.ptr, text.len);
    return before < text.len && (text.ptr[before] == '[' || text.ptr[before] == '{');
}

static mica_status add_text(const mc_tool *tool, mc_str key, mc_str text, mc_buffer *json) {
    int types = tool ? types_of(schema_of(tool->parameters, key), 0) : ANY;
    bool found = false;
    if (types != STRINGS) MC_TRY(add_value(types, text, json, &found));
    if (!found && !(types & STRINGS)) MC_TRY(add_value(ANY, text, json, &found));
    if (!found && !(types & STRINGS) && is_list_or_object(text))
        MC_TRY(mc_python_value_add(text, json, &found));
    return found ? MICA_OK : add_string(text, json);
}

mica_status mc_call_value_add(const mc_tool *tool, mc_str key, mc_str text, bool is_string,
                              mc_buffer *json, bool *good) {
    mc_buffer plain = {0};
    mica_status status =
        mc_call_text_add(text, &plain) ? MICA_OK : mc_fail_nomem("a call of a tool");
    const mc_str value = {plain.data ? plain.data : "", plain.len};
    *good = mc_utf8_valid(value.ptr, value.len);
    if (status == MICA_OK && *good)
        status = is_string ? add_string(value, json) : add_text(tool, key, value, json);
    mc_buffer_deinit(&plain);
    return status;
}
