#include "serve/anthropic_tools.h"

#include "serve/anthropic_conversation.h"
#include "serve/put.h"

#include <stdio.h>

static bool wrong(mc_failure *failure, size_t number, const char *member, const char *what) {
    char name[96];
    snprintf(name, sizeof name, "tools[%zu].%.60s", number, member);
    return mc_failure_set(failure, 400, "unsupported_value", name, "%s: %s", name, what);
}

/* Members that do not go into the prompt. */
static bool check_member(size_t number, mc_str key, mc_json value, mc_failure *failure) {
    static const char *const taken[] = {"name", "description", "input_schema", "strict"};
    mc_str text;
    bool flag;
    char name[96];
    snprintf(name, sizeof name, "%.*s", (int)(key.len < 40 ? key.len : 40), key.ptr);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (mc_str_is(key, taken[i])) return true;
    if (mc_str_is(key, "type"))
        return (mc_json_get_str(value, &text) && mc_str_is(text, "custom")) ||
               wrong(failure, number, name, "only tools of type custom are supported");
    if (mc_str_is(key, "cache_control")) {
        snprintf(name, sizeof name, "tools[%zu].cache_control", number);
        return mc_anthropic_check_cache(value, name, failure);
    }
    if (mc_str_is(key, "eager_input_streaming") && mc_json_get_bool(value, &flag))
        return true; /* calls are sent when they are complete */
    mc_json_iter callers = mc_json_begin(value);
    if (mc_str_is(key, "allowed_callers") && mc_json_count(value) == 1 && mc_json_next(&callers) &&
        mc_json_get_str(callers.value, &text) && mc_str_is(text, "direct"))
        return true;
    if (mc_str_is(key, "defer_loading") && mc_json_get_bool(value, &flag) && !flag) return true;
    return wrong(failure, number, name, "not supported");
}

static bool put_tool(mc_put *put, size_t number, mc_json tool, mc_failure *failure) {
    mc_str name;
    mc_json schema = mc_json_find(tool, "input_schema"), text = mc_json_find(tool, "description");
    mc_json strict = mc_json_find(tool, "strict");
    if (!mc_json_get_str(mc_json_find(tool, "name"), &name))
        return wrong(failure, number, "name", "want a string");
    for (mc_json_iter it = mc_json_begin(tool); mc_json_next(&it);)
        if (mc_json_exists(it.value) && !check_member(number, it.key, it.value, failure))
            return false;
    if (mc_json_get_type(schema) != MC_JSON_OBJECT)
        return wrong(failure, number, "input_schema", "want a schema");
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "type", "function");
    mc_put_open(put, "function", '{');
    mc_put_str(put, "name", name);
    if (mc_json_exists(text)) mc_put_value(put, "description", text);
    mc_put_value(put, "parameters", schema);
    if (mc_json_exists(strict)) mc_put_value(put, "strict", strict);
    mc_put_close(put, '}');
    mc_put_close(put, '}');
    return true;
}

bool mc_anthropic_tools(mc_json tools, mc_buffer *out, mc_failure *failure) {
    mc_put put = mc_put_into(out);
    size_t number = 0;
    if (mc_json_count(tools) == 0) return true;
    mc_put_open(&put, NULL, '[');
    for (mc_json_iter it = mc_json_begin(tools); mc_json_next(&it);)
        if (!put_tool(&put, number++, it.value, failure)) return false;
    mc_put_close(&put, ']');
    return !put.failed || mc_failure_of(failure, mc_fail_nomem("tools"), NULL);
}
