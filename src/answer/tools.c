#include "answer/tools.h"

enum { MAX_TOOLS = 512, MAX_NAME = 128 };

/* Names stand in formats of several languages: letters, digits, _, - and dots. */
static bool is_name(mc_str name) {
    if (!name.len || name.len > MAX_NAME) return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '_' && c != '-' && c != '.') return false;
    }
    return true;
}

/* known: with NULL at the end. where: the object in a tool, with a dot in front; "": the tool. */
static mica_status check_members(mc_json object, const char *const *known, const char *where,
                                 size_t i) {
    for (mc_json_iter it = mc_json_begin(object); mc_json_next(&it);) {
        const char *const *name = known;
        while (*name && !mc_str_is(it.key, *name))
            name++;
        if (!*name && mc_json_exists(it.value))
            return mc_fail(MICA_EUNSUPPORTED, "tools[%zu]%s.%.*s: not supported", i, where,
                           MC_STR_ARG(it.key));
    }
    return MICA_OK;
}

static mica_status read_tool(mc_json entry, size_t i, mc_tools *tools) {
    static const char *const members[] = {"type", "function", NULL};
    static const char *const of_function[] = {"name", "description", "parameters", "strict", NULL};
    mc_json function = mc_json_find(entry, "function"), strict = mc_json_find(function, "strict");
    mc_tool tool = {.parameters = mc_json_find(function, "parameters")};
    mc_str type, description;
    if (!mc_json_get_str(mc_json_find(entry, "type"), &type))
        return mc_fail(MICA_EFORMAT, "tools[%zu].type: want \"function\"", i);
    if (!mc_str_is(type, "function"))
        return mc_fail(MICA_EUNSUPPORTED, "tools[%zu].type: \"%.*s\" is not supported", i,
                       MC_STR_ARG(type));
    if (!mc_json_get_str(mc_json_find(function, "name"), &tool.name) || !is_name(tool.name))
        return mc_fail(MICA_EFORMAT,
                       "tools[%zu].function.name: want up to %d letters, digits, _, - and .", i,
                       MAX_NAME);
    if (mc_tools_find(tools, tool.name))
        return mc_fail(MICA_EINVAL, "tools[%zu].function.name: \"%.*s\" is there twice", i,
                       MC_STR_ARG(tool.name));
    mc_json text = mc_json_find(function, "description");
    if (mc_json_exists(text) && !mc_json_get_str(text, &description))
        return mc_fail(MICA_EFORMAT, "tools[%zu].function.description: want a string", i);
    if (mc_json_exists(strict) && !mc_json_get_bool(strict, &tool.strict))
        return mc_fail(MICA_EFORMAT, "tools[%zu].function.strict: want true or false", i);
    if (!mc_json_exists(tool.parameters))
        tool.parameters = (mc_json){0};
    else if (mc_json_get_type(tool.parameters) != MC_JSON_OBJECT)
        return mc_fail(MICA_EFORMAT, "tools[%zu].function.parameters: want a schema", i);
    MC_TRY(check_members(entry, members, "", i));
    MC_TRY(check_members(function, of_function, ".function", i));
    return mc_buffer_add(&tools->list, &tool, sizeof tool) ? MICA_OK : mc_fail_nomem("tools");
}

mica_status mc_tools_read(const char *text, size_t len, mc_tools *tools) {
    size_t i = 0;
    *tools = (mc_tools){0};
    MC_TRY(mc_json_parse(text, len, "tools", &tools->doc));
    mc_json root = mc_json_root(tools->doc);
    if (mc_json_get_type(root) != MC_JSON_ARRAY)
        return mc_fail(MICA_EFORMAT, "tools: want an array");
    if (mc_json_count(root) > MAX_TOOLS)
        return mc_fail(MICA_EUNSUPPORTED, "tools: %zu of them; at most %d are supported",
                       mc_json_count(root), MAX_TOOLS);
    for (mc_json_iter it = mc_json_begin(root); mc_json_next(&it);)
        MC_TRY(read_tool(it.value, i++, tools));
    return MICA_OK;
}

void mc_tools_deinit(mc_tools *tools) {
    mc_buffer_deinit(&tools->list);
    mc_json_close(&tools->doc);
}

const mc_tool *mc_tools_find(const mc_tools *tools, mc_str name) {
    const mc_tool *list = MC_BUFFER_AT(&tools->list, mc_tool);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&tools->list, mc_tool); i++)
        if (mc_str_eq(list[i].name, name)) return &list[i];
    return NULL;
}
