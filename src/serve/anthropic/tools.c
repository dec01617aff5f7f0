#include "serve/anthropic/tools.h"

#include "serve/anthropic/conversation.h"
#include "serve/common/put.h"

#include <stdio.h>

static bool wrong(mc_failure *failure, size_t number, const char *member, const char *what) {
    char name[96];
    snprintf(name, sizeof name, "tools[%zu].%.60s", number, member);
    return mc_failure_set(failure, 400, "unsupported_value", name, "%s: %s", name, what);
}

/* Members that do not go into the prompt. */
static bool check_member(size_t number, mc_str key, mc_json value, mc_failure *failure) {
    static const char *const taken[] = {"name", "description", "input_schema", "strict"};
    static const char *const advice[] = {"eager_input_streaming", "defer_loading", "input_examples",
                                         "allowed_callers", "type"};
    char name[96];
    snprintf(name, sizeof name, "%.*s", (int)(key.len < 40 ? key.len : 40), key.ptr);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (mc_str_is(key, taken[i])) return true;
    if (mc_str_is(key, "cache_control")) {
        snprintf(name, sizeof name, "tools[%zu].cache_control", number);
        return mc_anthropic_check_cache(value, name, failure);
    }
    for (size_t i = 0; i < sizeof advice / sizeof *advice; i++)
        if (mc_str_is(key, advice[i])) return true;
    return wrong(failure, number, name, "not supported");
}

/* Whether the model may call a tool: it is the client's, and not for code alone. */
static bool is_callable(mc_json tool, mc_str type) {
    mc_str caller;
    mc_json callers = mc_json_find(tool, "allowed_callers");
    bool direct = !mc_json_exists(callers);
    for (mc_json_iter it = mc_json_begin(callers); mc_json_next(&it);)
        direct = direct || (mc_json_get_str(it.value, &caller) && mc_str_is(caller, "direct"));
    return direct && mc_str_is(type, "custom");
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

bool mc_anthropic_tools(mc_json tools, mc_answer_form *form, mc_failure *failure) {
    mc_put put = mc_put_into(&form->tools_text);
    size_t number = 0, taken = 0;
    mc_put_open(&put, NULL, '[');
    for (mc_json_iter it = mc_json_begin(tools); mc_json_next(&it); number++) {
        mc_str type = MC_STR("custom"), name = MC_STR("");
        mc_json_get_str(mc_json_find(it.value, "type"), &type);
        mc_json_get_str(mc_json_find(it.value, "name"), &name);
        if (!is_callable(it.value, type))
            mc_answer_form_leave_out(form, type, name);
        else if (!put_tool(&put, number, it.value, failure))
            return false;
        else
            taken++;
    }
    mc_put_close(&put, ']');
    if (!taken) mc_buffer_clear(&form->tools_text);
    return !put.failed || mc_failure_of(failure, mc_fail_nomem("tools"), NULL);
}
