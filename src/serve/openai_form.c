#include "serve/openai_form.h"

#include "serve/put.h"

#include <string.h>

/* Reads the choice of a tool: a word, or the name of a function. */
static bool read_choice(mc_json value, mc_answer_form *form, mc_failure *failure) {
    mc_str word = MC_STR("auto"), type = MC_STR(""), name;
    if (!mc_json_exists(value)) return true;
    if (mc_json_get_str(value, &word)) {
        if (mc_str_is(word, "required")) form->choice = MC_TOOLS_REQUIRED;
        if (mc_str_is(word, "none")) form->choice = MC_TOOLS_NONE;
        if (form->choice != MC_TOOLS_AUTO || mc_str_is(word, "auto")) return true;
    } else if (mc_json_get_str(mc_json_find(value, "type"), &type) && mc_str_is(type, "function") &&
               mc_json_get_str(mc_json_find(mc_json_find(value, "function"), "name"), &name) &&
               name.len > 0 && name.len < MC_TOOL_NAME) {
        memcpy(form->tool, name.ptr, name.len);
        form->choice = MC_TOOLS_REQUIRED;
        return true;
    }
    return mc_failure_set(failure, 400, "invalid_value", "tool_choice",
                          "tool_choice: want none, auto, required, or {\"type\": \"function\", "
                          "\"function\": {\"name\": ...}}");
}

/* The members that an object may have; anything else is refused by name. */
static bool check_members(mc_json object, const char *names, const char *field,
                          mc_failure *failure) {
    for (mc_json_iter it = mc_json_begin(object); mc_json_next(&it);) {
        bool known = false;
        for (const char *at = names; *at && !known; at += strcspn(at, " "), at += *at == ' ')
            known = mc_str_eq(it.key, (mc_str){at, strcspn(at, " ")});
        if (!known)
            return mc_failure_set(failure, 400, "unknown_field", field, "%s: there is no %.*s",
                                  field, (int)(it.key.len < 60 ? it.key.len : 60), it.key.ptr);
    }
    return true;
}

static bool read_format(mc_json format, mc_answer_form *form, mc_failure *failure) {
    static const char field[] = "response_format", inner[] = "response_format.json_schema";
    mc_str type = MC_STR("");
    mc_json wrapped = mc_json_find(format, "json_schema");
    mc_json schema = mc_json_find(wrapped, "schema");
    if (!mc_json_exists(format)) return true;
    mc_json_get_str(mc_json_find(format, "type"), &type);
    bool is_schema = mc_str_is(type, "json_schema");
    if (!check_members(format, is_schema ? "type json_schema" : "type", field, failure))
        return false;
    form->object = mc_str_is(type, "json_object");
    if (form->object || mc_str_is(type, "text")) return true;
    if (!is_schema)
        return mc_failure_set(failure, 400, "unsupported_value", "response_format.type",
                              "response_format.type: want text, json_object or json_schema");
    if (!check_members(wrapped, "name description schema strict", inner, failure)) return false;
    if (mc_json_get_type(schema) != MC_JSON_OBJECT)
        return mc_failure_set(failure, 400, "missing_field", "response_format.json_schema.schema",
                              "response_format.json_schema.schema: want an object");
    form->schema = schema;
    form->fields[2] = inner;
    return true;
}

bool mc_openai_form_read(const mc_openai_wish *wish, mc_answer_form *form, mc_failure *failure) {
    form->single = !wish->parallel;
    form->forces_hidden = true;
    form->fields[0] = "tools";
    form->fields[1] = "reasoning_effort";
    form->fields[2] = "response_format";
    if (mc_json_count(wish->tools) > 0) {
        mc_put put = mc_put_into(&form->tools_text);
        mc_put_value(&put, NULL, wish->tools);
        if (put.failed) return mc_failure_of(failure, mc_fail_nomem("tools"), NULL);
    }
    return read_choice(wish->choice, form, failure) &&
           read_format(wish->response_format, form, failure);
}
