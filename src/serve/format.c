#include "serve/format.h"

#include "base/json_write.h"
#include "grammar/schema.h"

#include <stdio.h>

/* Whether a format has only members of its type. */
static bool check_members(mc_json format, bool schema, const char *name, mc_failure *failure) {
    for (mc_json_iter it = mc_json_begin(format); mc_json_next(&it);) {
        bool known = mc_str_is(it.key, "type") ||
                     (schema && (mc_str_is(it.key, "name") || mc_str_is(it.key, "schema") ||
                                 mc_str_is(it.key, "strict") || mc_str_is(it.key, "description")));
        if (known) continue;
        char member[96];
        snprintf(member, sizeof member, "%s.%.*s", name, (int)(it.key.len < 40 ? it.key.len : 40),
                 it.key.ptr);
        return mc_failure_set(failure, 400, "unknown_field", member, "there is no field %s",
                              member);
    }
    return true;
}

static bool read_schema(mc_json format, const char *name, mc_grammar **grammar,
                        mc_failure *failure) {
    char member[96];
    mc_str text;
    bool strict;
    mc_buffer schema = {0};
    mc_json value = mc_json_find(format, "schema"), flag = mc_json_find(format, "strict");
    snprintf(member, sizeof member, "%s.schema", name);
    if (mc_json_get_type(value) != MC_JSON_OBJECT)
        return mc_failure_set(failure, 400, "invalid_type", member, "%s: want an object", member);
    snprintf(member, sizeof member, "%s.name", name);
    if (!mc_json_get_str(mc_json_find(format, "name"), &text) || !text.len || text.len > 64)
        return mc_failure_set(failure, 400, "invalid_type", member,
                              "%s: want a string of up to 64 bytes", member);
    snprintf(member, sizeof member, "%s.strict", name);
    if (mc_json_exists(flag) && !mc_json_get_bool(flag, &strict))
        return mc_failure_set(failure, 400, "invalid_type", member, "%s: want a boolean", member);
    mica_status status = mc_json_put_value(&schema, value, MC_JSON_ONE_LINE)
                             ? mc_schema_compile(schema.data, schema.len, grammar)
                             : mc_fail_nomem("a schema");
    mc_buffer_deinit(&schema);
    snprintf(member, sizeof member, "%s.schema", name);
    return status == MICA_OK || mc_failure_of(failure, status, member);
}

bool mc_format_read(mc_json format, const char *name, mc_grammar **grammar, mc_failure *failure) {
    char member[96];
    mc_str type = MC_STR("text");
    *grammar = NULL;
    if (!mc_json_exists(format)) return true;
    snprintf(member, sizeof member, "%s.type", name);
    if (!mc_json_get_str(mc_json_find(format, "type"), &type))
        return mc_failure_set(failure, 400, "missing_field", member, "%s is missing", member);
    bool schema = mc_str_is(type, "json_schema"), object = mc_str_is(type, "json_object");
    if (!schema && !object && !mc_str_is(type, "text"))
        return mc_failure_set(failure, 400, "unsupported_value", member,
                              "%s: want text, json_object or json_schema", member);
    if (!check_members(format, schema, name, failure)) return false;
    if (schema) return read_schema(format, name, grammar, failure);
    mica_status status = object ? mc_grammar_json_object(grammar) : MICA_OK;
    return status == MICA_OK || mc_failure_of(failure, status, name);
}
