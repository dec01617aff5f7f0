/* The messages of ollama's chats, made what chat templates take. */
#include "serve/ollama/ollama.h"

#include "serve/common/put.h"

#include <stdio.h>

typedef struct place {
    mc_failure *failure;
    size_t message;
} place;

static bool refuse(const place *at, const char *code, const char *member, const char *what) {
    char name[96];
    snprintf(name, sizeof name, "messages[%zu].%s", at->message, member);
    return mc_failure_set(at->failure, 400, code, name, "%s: %s", name, what);
}

/* Refuses what a call has beside the members of a list with NULL at its end. */
static bool check_members(const place *at, const char *where, mc_json object,
                          const char *const *known) {
    char member[80];
    for (mc_json_iter it = mc_json_begin(object); mc_json_next(&it);) {
        const char *const *name = known;
        while (*name && !mc_str_is(it.key, *name))
            name++;
        if (*name || !mc_json_exists(it.value)) continue;
        snprintf(member, sizeof member, "%s.%.*s", where, (int)(it.key.len < 40 ? it.key.len : 40),
                 it.key.ptr);
        return refuse(at, "unknown_field", member, "there is no such field");
    }
    return true;
}

/* A call has an object as its arguments; its id, type and index may be there. The index is in the
 * function in what ollama answers. */
static bool put_call(mc_put *put, const place *at, mc_json call) {
    static const char *const members[] = {"id", "type", "index", "function", NULL},
                             *const of_function[] = {"index", "name", "arguments", NULL};
    mc_json function = mc_json_find(call, "function");
    mc_json arguments = mc_json_find(function, "arguments");
    mc_str name, id;
    if (!mc_json_get_str(mc_json_find(function, "name"), &name))
        return refuse(at, "invalid_type", "tool_calls", "want a function with a name");
    if (mc_json_exists(arguments) && mc_json_get_type(arguments) != MC_JSON_OBJECT)
        return refuse(at, "invalid_type", "tool_calls", "want an object of arguments");
    if (!check_members(at, "tool_calls", call, members) ||
        !check_members(at, "tool_calls.function", function, of_function))
        return false;
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "type", "function");
    if (mc_json_get_str(mc_json_find(call, "id"), &id)) mc_put_str(put, "id", id);
    mc_put_open(put, "function", '{');
    mc_put_str(put, "name", name);
    if (mc_json_exists(arguments))
        mc_put_value(put, "arguments", arguments);
    else
        mc_put_json(put, "arguments", "{}");
    mc_put_close(put, '}');
    mc_put_close(put, '}');
    return true;
}

static bool put_calls(mc_put *put, const place *at, mc_json calls) {
    if (mc_json_get_type(calls) != MC_JSON_ARRAY)
        return refuse(at, "invalid_type", "tool_calls", "want an array");
    mc_put_open(put, "tool_calls", '[');
    for (mc_json_iter it = mc_json_begin(calls); mc_json_next(&it);)
        if (!put_call(put, at, it.value)) return false;
    mc_put_close(put, ']');
    return true;
}

static bool put_member(mc_put *put, const place *at, mc_str key, mc_json value) {
    static const struct {
        const char *name, *template_name;
    } texts[] = {{"role", "role"},
                 {"content", "content"},
                 {"thinking", "reasoning_content"},
                 {"tool_name", "name"},
                 {"tool_call_id", "tool_call_id"}};
    mc_str text;
    char name[48];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!mc_str_is(key, texts[i].name)) continue;
        if (!mc_json_get_str(value, &text))
            return refuse(at, "invalid_type", texts[i].name, "want a string");
        mc_put_str(put, texts[i].template_name, text);
        return true;
    }
    if (mc_str_is(key, "tool_calls")) return put_calls(put, at, value);
    if (mc_str_is(key, "images"))
        return refuse(at, "unsupported_field", "images", "images are not supported");
    snprintf(name, sizeof name, "%.*s", (int)(key.len < 40 ? key.len : 40), key.ptr);
    return refuse(at, "unknown_field", name, "there is no such field");
}

bool mc_ollama_messages(mc_json messages, mc_buffer *out, bool *last_is_assistant,
                        mc_failure *failure) {
    mc_put put = mc_put_into(out);
    place at = {.failure = failure};
    mc_str role;
    *last_is_assistant = false;
    mc_put_open(&put, NULL, '[');
    for (mc_json_iter it = mc_json_begin(messages); mc_json_next(&it); at.message++) {
        if (!mc_json_get_str(mc_json_find(it.value, "role"), &role))
            return refuse(&at, "invalid_type", "role", "want a string");
        *last_is_assistant = mc_str_is(role, "assistant");
        mc_put_open(&put, NULL, '{');
        for (mc_json_iter m = mc_json_begin(it.value); mc_json_next(&m);) {
            bool nothing =
                !mc_json_exists(m.value) ||
                (mc_json_get_type(m.value) == MC_JSON_ARRAY && mc_json_count(m.value) == 0);
            if (!nothing && !put_member(&put, &at, m.key, m.value)) return false;
        }
        mc_put_close(&put, '}');
    }
    mc_put_close(&put, ']');
    return !put.failed || mc_failure_of(failure, mc_fail_nomem("a conversation"), NULL);
}
