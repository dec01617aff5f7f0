#include "serve/common/fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_FIELDS = 128 };

/* The name of a field, in full: "stream_options.include_usage". */
typedef struct place {
    const char *prefix; /* "" or the name of the object with its point */
    const char *name;
    char text[96];
} place;

static const char *name_of(place *at) {
    snprintf(at->text, sizeof at->text, "%s%s", at->prefix, at->name);
    return at->text;
}

static bool wrong(mc_failure *failure, place *at, const mc_field *field) {
    char type[160];
    mc_field_type(field, type, sizeof type);
    const char *name = name_of(at);
    return mc_failure_set(failure, 400, "invalid_type", name, "%s: want %s", name, type);
}

/* ---- values ---- */

/* The index of a word among `choices`, -1: it is none of them. */
static int choice_of(const char *choices, mc_str word) {
    int index = 0;
    for (const char *at = choices; *at; index++) {
        size_t len = strcspn(at, " ");
        if (mc_str_eq((mc_str){at, len}, word)) return index;
        at += len + strspn(at + len, " ");
    }
    return -1;
}

mc_str mc_field_word(const char *choices, int index) {
    while (index-- > 0)
        choices += strcspn(choices, " ") + 1;
    return (mc_str){choices, strcspn(choices, " ")};
}

/* An array of one string, as JSON. */
static void print_single(mc_json array, char *out, size_t bytes) {
    mc_json_iter it = mc_json_begin(array);
    mc_str str;
    if (mc_json_next(&it) && mc_json_get_str(it.value, &str) && str.len < 60)
        snprintf(out, bytes, "[\"%.*s\"]", (int)str.len, str.ptr);
}

/* Whether a value is one of the JSON texts of `choices`. */
static bool is_only(const char *choices, mc_json value) {
    char text[64] = "";
    mc_str str;
    bool flag;
    double number;
    if (mc_json_get_bool(value, &flag))
        snprintf(text, sizeof text, "%s", flag ? "true" : "false");
    else if (mc_json_get_float(value, &number))
        snprintf(text, sizeof text, "%g", number);
    else if (mc_json_get_str(value, &str))
        snprintf(text, sizeof text, "\"%.*s\"", (int)(str.len < 60 ? str.len : 60), str.ptr);
    else if (mc_json_get_type(value) == MC_JSON_ARRAY && mc_json_count(value) == 0)
        snprintf(text, sizeof text, "[]");
    else if (mc_json_get_type(value) == MC_JSON_ARRAY && mc_json_count(value) == 1)
        print_single(value, text, sizeof text);
    else if (mc_json_get_type(value) == MC_JSON_OBJECT && mc_json_count(value) == 0)
        snprintf(text, sizeof text, "{}");
    return text[0] && choice_of(choices, mc_str_of(text)) >= 0;
}

static unsigned type_bit(mc_json value) {
    switch (mc_json_get_type(value)) {
    case MC_JSON_STRING:
        return MC_FIELD_IS_TEXT;
    case MC_JSON_ARRAY:
        return MC_FIELD_IS_ARRAY;
    case MC_JSON_OBJECT:
        return MC_FIELD_IS_OBJECT;
    case MC_JSON_INT:
    case MC_JSON_FLOAT:
        return MC_FIELD_IS_NUMBER;
    case MC_JSON_BOOL:
        return MC_FIELD_IS_BOOL;
    case MC_JSON_NONE:
    case MC_JSON_NULL:
        break;
    }
    return 0;
}

/* Whether what people are told of a range has its end: else only the type, or nobody, limits it. */
static bool tells_end(const mc_field *field) {
    return field->max < 1e9;
}

static bool read_number(const mc_field *field, mc_json value, void *member, place *at,
                        mc_failure *failure) {
    double number = NAN;
    int64_t integer = 0;
    bool whole = field->kind == MC_FIELD_INT;
    if (whole ? !mc_json_get_int(value, &integer) : !mc_json_get_float(value, &number))
        return wrong(failure, at, field);
    if (whole) number = (double)integer;
    if (number < field->min || number > field->max) {
        char type[160], most[40] = "";
        mc_field_type(field, type, sizeof type);
        const char *name = name_of(at);
        if (number > field->max && !tells_end(field))
            snprintf(most, sizeof most, ", up to %.0f", field->max);
        return mc_failure_set(failure, 400, "invalid_value", name, "%s: %.*g is out of range: %s%s",
                              name, whole ? 19 : 6, number, type, most);
    }
    if (whole)
        *(int64_t *)member = integer;
    else
        *(double *)member = number;
    return true;
}

static bool read_seed(mc_json value, mc_seed *seed) {
    int64_t integer;
    if (!mc_json_get_int(value, &integer)) return false;
    *seed = (mc_seed){.given = true, .value = (uint64_t)integer};
    return true;
}

static bool read_fields(const mc_field *fields, size_t count, const char *prefix, mc_json object,
                        void *values, mc_failure *failure);

static bool read_object(const mc_field *field, mc_json value, void *values, place *at,
                        mc_failure *failure) {
    char prefix[96];
    bool seen[MAX_FIELDS] = {false};
    if (mc_json_get_type(value) != MC_JSON_OBJECT) return wrong(failure, at, field);
    snprintf(prefix, sizeof prefix, "%s%s.", at->prefix, at->name);
    for (mc_json_iter it = mc_json_begin(value); mc_json_next(&it);) {
        size_t i = 0;
        while (i < field->count && !mc_str_is(it.key, field->fields[i].name))
            i++;
        bool known = i < field->count, repeated = known && i < MAX_FIELDS && seen[i];
        if (known && i < MAX_FIELDS) seen[i] = true;
        if (known && !repeated) continue;
        char name[160];
        snprintf(name, sizeof name, "%s%.*s", prefix, (int)(it.key.len < 60 ? it.key.len : 60),
                 it.key.ptr);
        if (repeated)
            return mc_failure_set(failure, 400, "repeated_field", name, "%s is given twice", name);
        return mc_failure_set(failure, 400, "unknown_field", name, "there is no field %s", name);
    }
    return read_fields(field->fields, field->count, prefix, value, values, failure);
}

/* Reads a value that is neither absent nor null. */
static bool read_value(const mc_field *field, mc_json value, void *values, place *at,
                       mc_failure *failure) {
    void *member = (char *)values + field->offset;
    const char *name = name_of(at);
    mc_str word;
    switch (field->kind) {
    case MC_FIELD_BOOL:
        return mc_json_get_bool(value, member) || wrong(failure, at, field);
    case MC_FIELD_INT:
    case MC_FIELD_REAL:
        return read_number(field, value, member, at, failure);
    case MC_FIELD_SEED:
        return read_seed(value, member) || wrong(failure, at, field);
    case MC_FIELD_TEXT:
        return mc_json_get_str(value, member) || wrong(failure, at, field);
    case MC_FIELD_CHOICE:
        if (!mc_json_get_str(value, &word)) return wrong(failure, at, field);
        *(int *)member = choice_of(field->choices, word);
        return *(int *)member >= 0 || wrong(failure, at, field);
    case MC_FIELD_JSON:
        if (!(type_bit(value) & field->types)) return wrong(failure, at, field);
        *(mc_json *)member = value;
        return true;
    case MC_FIELD_OBJECT:
        return read_object(field, value, values, at, failure);
    case MC_FIELD_ONLY:
        if (is_only(field->choices, value)) return true;
        return mc_failure_set(failure, 400, "unsupported_value", name,
                              "%s: mica supports only %s here%s%s", name, field->choices,
                              field->help ? ": " : "", field->help ? field->help : "");
    case MC_FIELD_REFUSED:
        return mc_failure_set(failure, 400, "unsupported_field", name, "%s is not supported: %s",
                              name, field->help);
    case MC_FIELD_NOTED:
        break;
    }
    return true;
}

/* ---- tables ---- */

/* Sets a member to what stands for a field that is not given. */
static void set_initial(const mc_field *field, void *values) {
    void *member = (char *)values + field->offset;
    switch (field->kind) {
    case MC_FIELD_BOOL:
        *(bool *)member = field->initial != 0;
        break;
    case MC_FIELD_INT:
        *(int64_t *)member = (int64_t)field->initial;
        break;
    case MC_FIELD_REAL:
        *(double *)member = field->initial;
        break;
    case MC_FIELD_SEED:
        *(mc_seed *)member = (mc_seed){.given = false};
        break;
    case MC_FIELD_TEXT:
        *(mc_str *)member = (mc_str){NULL, 0};
        break;
    case MC_FIELD_CHOICE:
        *(int *)member = (int)field->initial;
        break;
    case MC_FIELD_JSON:
        *(mc_json *)member = (mc_json){0};
        break;
    case MC_FIELD_OBJECT:
        for (size_t i = 0; i < field->count; i++)
            set_initial(&field->fields[i], values);
        break;
    case MC_FIELD_ONLY:
    case MC_FIELD_REFUSED:
    case MC_FIELD_NOTED:
        break;
    }
}

static bool read_fields(const mc_field *fields, size_t count, const char *prefix, mc_json object,
                        void *values, mc_failure *failure) {
    for (size_t i = 0; i < count; i++) {
        place at = {.prefix = prefix, .name = fields[i].name};
        mc_json value = mc_json_find(object, fields[i].name);
        if (!mc_json_exists(value)) {
            if (!fields[i].required) continue;
            const char *name = name_of(&at);
            return mc_failure_set(failure, 400, "missing_field", name, "%s is missing", name);
        }
        if (!read_value(&fields[i], value, values, &at, failure)) return false;
    }
    return true;
}

/* The number of a field over all tables; -1: no table has it. */
static int find_field(const mc_field_table *tables, mc_str key) {
    int number = 0;
    for (size_t t = 0; t < MC_FIELD_TABLES && tables[t].fields; t++)
        for (size_t i = 0; i < tables[t].count; i++, number++)
            if (mc_str_is(key, tables[t].fields[i].name)) return number;
    return -1;
}

/* Every key must be known, and be there once. */
static bool check_keys(const mc_field_table *tables, mc_json body, mc_failure *failure) {
    bool seen[MAX_FIELDS] = {false};
    for (mc_json_iter it = mc_json_begin(body); mc_json_next(&it);) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(it.key.len < 60 ? it.key.len : 60), it.key.ptr);
        int number = find_field(tables, it.key);
        if (number < 0)
            return mc_failure_set(failure, 400, "unknown_field", name, "there is no field %s",
                                  name);
        if (number < MAX_FIELDS && seen[number])
            return mc_failure_set(failure, 400, "repeated_field", name, "%s is given twice", name);
        if (number < MAX_FIELDS) seen[number] = true;
    }
    return true;
}

bool mc_fields_read(const mc_field_table *tables, mc_json body, void *values, mc_failure *failure) {
    for (size_t t = 0; t < MC_FIELD_TABLES && tables[t].fields; t++)
        for (size_t i = 0; i < tables[t].count; i++)
            set_initial(&tables[t].fields[i], (char *)values + tables[t].offset);
    if (mc_json_get_type(body) != MC_JSON_OBJECT)
        return mc_failure_set(failure, 400, "invalid_body", NULL,
                              "the body must be an object of JSON");
    if (!check_keys(tables, body, failure)) return false;
    for (size_t t = 0; t < MC_FIELD_TABLES && tables[t].fields; t++)
        if (!read_fields(tables[t].fields, tables[t].count, "", body,
                         (char *)values + tables[t].offset, failure))
            return false;
    return true;
}

/* ---- for people ---- */

static void print_types(unsigned types, char *out, size_t bytes) {
    static const char *const names[] = {"string", "array", "object", "number", "boolean"};
    size_t len = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < 5; i++)
        if (types & (1u << i) && len < bytes)
            len += (size_t)snprintf(out + len, bytes - len, "%s%s", len ? " or " : "", names[i]);
}

static void print_range(const mc_field *field, const char *noun, char *out, size_t bytes) {
    if (tells_end(field))
        snprintf(out, bytes, "%s, %g to %g", noun, field->min, field->max);
    else if (field->min > -9e15)
        snprintf(out, bytes, "%s, %g or more", noun, field->min);
    else
        snprintf(out, bytes, "%s", noun);
}

void mc_field_type(const mc_field *field, char *out, size_t bytes) {
    switch (field->kind) {
    case MC_FIELD_BOOL:
        snprintf(out, bytes, "boolean");
        break;
    case MC_FIELD_INT:
        print_range(field, "integer", out, bytes);
        break;
    case MC_FIELD_REAL:
        print_range(field, "number", out, bytes);
        break;
    case MC_FIELD_SEED:
        snprintf(out, bytes, "integer, %" PRId64 " to %" PRId64, INT64_MIN, INT64_MAX);
        break;
    case MC_FIELD_TEXT:
        snprintf(out, bytes, "string");
        break;
    case MC_FIELD_CHOICE:
        snprintf(out, bytes, "one of %s", field->choices);
        break;
    case MC_FIELD_JSON:
        print_types(field->types, out, bytes);
        break;
    case MC_FIELD_OBJECT:
        snprintf(out, bytes, "object");
        break;
    case MC_FIELD_ONLY:
        snprintf(out, bytes, "only %s", field->choices);
        break;
    case MC_FIELD_REFUSED:
        snprintf(out, bytes, "refused");
        break;
    case MC_FIELD_NOTED:
        snprintf(out, bytes, "any, without effect");
        break;
    }
}
