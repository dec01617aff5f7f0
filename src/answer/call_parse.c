#include "answer/call_parse.h"

#include "answer/call_python.h"
#include "answer/json_scan.h"
#include "text/space.h"

#include <string.h>

/* ---- JSON, by its brackets and quotes ---- */

/* The end of a string that begins at `at`; beyond the text: it has none. */
static size_t string_end(mc_str text, size_t at) {
    for (at++; at < text.len && text.ptr[at] != '"'; at++)
        if (text.ptr[at] == '\\') at++;
    return at + 1;
}

/* The end of a value; beyond the text: it has none. */
static size_t value_end(mc_str text, size_t at) {
    size_t depth = 0;
    while (at < text.len) {
        char c = text.ptr[at];
        if (c == '"') {
            at = string_end(text, at);
        } else if (c == '{' || c == '[') {
            depth++;
            at++;
        } else if (c == '}' || c == ']') {
            if (depth == 0) return at;
            depth--;
            at++;
        } else if (depth == 0 && strchr(",:; \t\r\n", c)) {
            return at;
        } else {
            at++;
            if (depth == 0) continue; /* a number or a word */
        }
        if (depth == 0 && c != ':') return at;
    }
    return depth ? text.len + 1 : at;
}

/* The text of an object's member; ptr NULL: it has none of the names. */
static mc_str member(mc_str object, const char *const *names, size_t count) {
    size_t at = mc_json_skip_space(object, 1);
    while (at < object.len && object.ptr[at] == '"') {
        size_t end = string_end(object, at);
        const mc_str key = {object.ptr + at + 1, end - at - 2};
        at = mc_json_skip_space(object, mc_json_skip_space(object, end) + 1); /* behind the colon */
        if (at >= object.len) break;
        end = value_end(object, at);
        for (size_t i = 0; i < count; i++)
            if (mc_str_is(key, names[i])) return (mc_str){object.ptr + at, end - at};
        at = mc_json_skip_space(object, end);
        if (at < object.len && object.ptr[at] == ',') at = mc_json_skip_space(object, at + 1);
    }
    return (mc_str){NULL, 0};
}

/* ---- calls in JSON ---- */

/* Adds a call. arguments: an object's text. false: no memory. */
static bool add_call(mc_calls *calls, mc_str name, mc_str arguments) {
    const mc_tool_call call = {calls->text.len, name.len, calls->text.len + name.len,
                               arguments.len};
    return mc_buffer_add(&calls->text, name.ptr, name.len) &&
           mc_buffer_add(&calls->text, arguments.ptr, arguments.len) &&
           mc_buffer_add(&calls->list, &call, sizeof call);
}

/* Adds a call whose arguments may be the text of an object. */
static mica_status add_arguments(mc_calls *calls, mc_str name, mc_json value, mc_str raw,
                                 bool *good) {
    mc_json_doc *doc = NULL;
    mica_status status = MICA_OK;
    mc_str text;
    bool done = true;
    if (!mc_json_exists(value)) {
        done = add_call(calls, name, MC_STR("{}"));
    } else if (mc_json_get_str(value, &text)) {
        status = mc_json_parse(text.ptr, text.len, "arguments", &doc);
        *good = status == MICA_OK && mc_json_get_type(mc_json_root(doc)) == MC_JSON_OBJECT;
        if (*good) done = add_call(calls, name, text);
        mc_json_close(&doc);
    } else {
        *good = mc_json_get_type(value) == MC_JSON_OBJECT && raw.len && *raw.ptr == '{';
        if (*good) done = add_call(calls, name, raw);
    }
    if (status == MICA_ENOMEM) return status;
    return done ? MICA_OK : mc_fail_nomem("calls of tools");
}

/* The first member of an object that has one of two names. */
static mc_json first_of(mc_json object, const char *const names[2], mc_str *key) {
    *key = MC_STR("");
    for (mc_json_iter it = mc_json_begin(object); mc_json_next(&it);)
        if (mc_str_is(it.key, names[0]) || mc_str_is(it.key, names[1])) {
            *key = it.key;
            return it.value;
        }
    return (mc_json){0};
}

/* Reads an object, whose text is `raw`. */
static mica_status read_object(mc_json object, mc_str raw, const mc_tools *tools, mc_calls *calls,
                               bool *good) {
    static const char *const inner[] = {"function", "name"}, *const given[] = {"arguments",
                                                                               "parameters"};
    mc_str name, key;
    mc_json within = first_of(object, inner, &key);
    if (mc_str_is(key, "function") && mc_json_get_type(within) == MC_JSON_OBJECT) {
        raw = member(raw, inner, 1);
        object = within;
    }
    within = mc_json_find(object, "name");
    if (!mc_json_exists(within)) within = mc_json_find(object, "tool_name");
    *good = raw.ptr && mc_json_get_str(within, &name) && mc_tools_find(tools, name);
    if (!*good) return MICA_OK;
    return add_arguments(calls, name, first_of(object, given, &key), member(raw, given, 2), good);
}

static mica_status read_value(mc_json value, mc_str raw, const mc_tools *tools, mc_calls *calls,
                              bool *good) {
    if (mc_json_get_type(value) == MC_JSON_OBJECT)
        return read_object(value, raw, tools, calls, good);
    *good = mc_json_get_type(value) == MC_JSON_ARRAY && mc_json_count(value) > 0;
    size_t at = mc_json_skip_space(raw, 1);
    for (mc_json_iter it = mc_json_begin(value); *good && mc_json_next(&it);) {
        size_t end = value_end(raw, at);
        if (mc_json_get_type(it.value) != MC_JSON_OBJECT)
            *good = false;
        else
            MC_TRY(read_object(it.value, (mc_str){raw.ptr + at, end - at}, tools, calls, good));
        at = mc_json_skip_space(raw, mc_json_skip_space(raw, end) + 1); /* behind the comma */
    }
    return MICA_OK;
}

/* Values one after the other, with commas, semicolons or nothing between them. */
static mica_status read_json(mc_str text, const mc_tools *tools, mc_calls *calls, bool *good) {
    size_t at = mc_json_skip_space(text, 0);
    *good = at < text.len;
    while (*good && at < text.len) {
        size_t end = value_end(text, at);
        const mc_str raw = {text.ptr + at, end - at};
        mc_json_doc *doc = NULL;
        *good = end > at && end <= text.len;
        if (*good) {
            mica_status status = mc_json_parse(raw.ptr, raw.len, "call", &doc);
            *good = status == MICA_OK;
            if (*good) status = read_value(mc_json_root(doc), raw, tools, calls, good);
            mc_json_close(&doc);
            if (status == MICA_ENOMEM) return status;
        }
        at = mc_json_skip_space(text, end);
        if (at < text.len && (text.ptr[at] == ';' || text.ptr[at] == ','))
            at = mc_json_skip_space(text, at + 1);
    }
    return MICA_OK;
}

mica_status mc_calls_read(mc_call_body body, mc_str text, const mc_tools *tools, mc_calls *calls,
                          bool *good) {
    mc_buffer_clear(&calls->list);
    mc_buffer_clear(&calls->text);
    if (body == MC_CALLS_PYTHON) return mc_python_calls_read(text, tools, calls, good);
    return read_json(text, tools, calls, good);
}
