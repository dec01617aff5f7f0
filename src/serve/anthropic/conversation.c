#include "serve/anthropic/conversation.h"

#include "serve/common/put.h"

#include <stdio.h>
#include <string.h>

/* Elements of a JSON array, with commas between them. */
typedef struct elements {
    mc_buffer json;
    mc_put put; /* into json */
} elements;

/* The conversation that is being written, and the message that its blocks are collected for. */
typedef struct writer {
    mc_put out;
    mc_failure *failure;
    const char *role; /* NULL: no message */
    mc_str call_id;   /* of a message of role tool */
    mc_buffer thoughts;
    elements parts, calls;
    bool of_assistant; /* the last message that was written */
    char place[96];    /* of the block that is read */
} writer;

static bool refuse(const writer *w, const char *code, const char *what) {
    return mc_failure_set(w->failure, 400, code, w->place, "%s: %s", w->place, what);
}

static bool want(const writer *w, const char *member, const char *type) {
    char name[160];
    snprintf(name, sizeof name, "%s.%s", w->place, member);
    return mc_failure_set(w->failure, 400, "invalid_type", name, "%s: want %s", name, type);
}

/* ---- messages ---- */

static void put_elements(mc_put *put, const char *key, const elements *list) {
    mc_put_open(put, key, '[');
    if (list->json.len && !put->failed)
        put->failed = !mc_buffer_add(put->out, list->json.data, list->json.len);
    mc_put_close(put, ']');
    if (list->put.failed) put->failed = true;
}

static void clear(elements *list) {
    mc_buffer_clear(&list->json);
    list->put = mc_put_into(&list->json);
}

/* Writes the message that was collected, if there is one. */
static void end_message(writer *w) {
    bool empty = !w->parts.json.len && !w->calls.json.len && !w->thoughts.len && !w->call_id.ptr;
    if (!w->role || empty) return;
    w->of_assistant = strcmp(w->role, "assistant") == 0;
    mc_put_open(&w->out, NULL, '{');
    mc_put_text(&w->out, "role", w->role);
    put_elements(&w->out, "content", &w->parts);
    if (w->call_id.ptr) mc_put_str(&w->out, "tool_call_id", w->call_id);
    if (w->thoughts.len)
        mc_put_str(&w->out, "reasoning_content", (mc_str){w->thoughts.data, w->thoughts.len});
    if (w->calls.json.len) put_elements(&w->out, "tool_calls", &w->calls);
    mc_put_close(&w->out, '}');
    w->role = NULL;
    w->call_id = (mc_str){NULL, 0};
    mc_buffer_clear(&w->thoughts);
    clear(&w->parts);
    clear(&w->calls);
}

static void begin_message(writer *w, const char *role) {
    if (w->role && strcmp(w->role, role) == 0 && !w->call_id.ptr) return;
    end_message(w);
    w->role = role;
}

static void add_text(writer *w, mc_str text) {
    mc_put *put = &w->parts.put;
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "type", "text");
    mc_put_str(put, "text", text);
    mc_put_close(put, '}');
}

/* ---- blocks ---- */

bool mc_anthropic_check_cache(mc_json control, const char *place, mc_failure *failure) {
    mc_str type, ttl = MC_STR("5m");
    mc_json given = mc_json_find(control, "ttl");
    if (!mc_json_exists(control)) return true;
    bool known = mc_json_get_str(mc_json_find(control, "type"), &type) &&
                 mc_str_is(type, "ephemeral") &&
                 (!mc_json_exists(given) || mc_json_get_str(given, &ttl)) &&
                 (mc_str_is(ttl, "5m") || mc_str_is(ttl, "1h"));
    for (mc_json_iter it = mc_json_begin(control); mc_json_next(&it);)
        known = known && (mc_str_is(it.key, "type") || mc_str_is(it.key, "ttl"));
    if (known) return true;
    return mc_failure_set(failure, 400, "invalid_value", place,
                          "%s: want {\"type\": \"ephemeral\"}, with a ttl of 5m or 1h", place);
}

/* Every member of a block must be one of `members`, words with blanks between them, or say nothing:
 * clients send back what they were sent, with null members. */
static bool check_members(const writer *w, mc_json block, const char *members) {
    for (mc_json_iter it = mc_json_begin(block); mc_json_next(&it);) {
        bool known = mc_str_is(it.key, "type") || mc_str_is(it.key, "cache_control");
        bool nothing = !mc_json_exists(it.value) ||
                       (mc_json_get_type(it.value) == MC_JSON_ARRAY && !mc_json_count(it.value));
        for (const char *at = members; *at && !known;) {
            size_t len = strcspn(at, " ");
            known = mc_str_eq(it.key, (mc_str){at, len});
            at += len + strspn(at + len, " ");
        }
        if (known || nothing) continue;
        char name[160];
        snprintf(name, sizeof name, "%s.%.*s", w->place, (int)(it.key.len < 40 ? it.key.len : 40),
                 it.key.ptr);
        return mc_failure_set(w->failure, 400, "unsupported_field", name, "%s is not supported",
                              name);
    }
    char name[160];
    snprintf(name, sizeof name, "%s.cache_control", w->place);
    return mc_anthropic_check_cache(mc_json_find(block, "cache_control"), name, w->failure);
}

static bool read_text(writer *w, mc_json block) {
    mc_str text;
    if (!check_members(w, block, "text")) return false;
    if (!mc_json_get_str(mc_json_find(block, "text"), &text)) return want(w, "text", "a string");
    add_text(w, text);
    return true;
}

static bool read_thinking(writer *w, mc_json block) {
    mc_str text, signature;
    if (!check_members(w, block, "thinking signature")) return false;
    if (!mc_json_get_str(mc_json_find(block, "thinking"), &text))
        return want(w, "thinking", "a string");
    if (!mc_json_get_str(mc_json_find(block, "signature"), &signature))
        return want(w, "signature", "a string");
    if (!mc_buffer_add(&w->thoughts, text.ptr, text.len)) w->out.failed = true;
    return true;
}

static bool read_tool_use(writer *w, mc_json block) {
    mc_str id, name;
    mc_json input = mc_json_find(block, "input");
    mc_str caller;
    mc_json direct = mc_json_find(block, "caller");
    if (!check_members(w, block, "id name input caller")) return false;
    if (mc_json_exists(direct) &&
        (!mc_json_get_str(mc_json_find(direct, "type"), &caller) || !mc_str_is(caller, "direct")))
        return want(w, "caller", "the type direct");
    if (!mc_json_get_str(mc_json_find(block, "id"), &id)) return want(w, "id", "a string");
    if (!mc_json_get_str(mc_json_find(block, "name"), &name)) return want(w, "name", "a string");
    if (mc_json_get_type(input) != MC_JSON_OBJECT) return want(w, "input", "an object");
    mc_put *put = &w->calls.put;
    mc_put_open(put, NULL, '{');
    mc_put_str(put, "id", id);
    mc_put_text(put, "type", "function");
    mc_put_open(put, "function", '{');
    mc_put_str(put, "name", name);
    mc_put_value(put, "arguments", input);
    mc_put_close(put, '}');
    mc_put_close(put, '}');
    return true;
}

static bool read_content(writer *w, const char *place, mc_json content,
                         bool (*read)(writer *w, mc_str type, mc_json block));

static bool refuse_type(const writer *w, mc_str type) {
    static const struct {
        const char *type, *what;
    } kinds[] = {
        {"image", "images are not supported"},
        {"document", "documents are not supported"},
        {"search_result", "search results are not supported"},
        {"redacted_thinking", "redacted thinking is not supported: it can be read by none but "
                              "those who wrote it"},
        {"text", "text may not be here"},
        {"thinking", "thinking is the assistant's"},
        {"tool_use", "calls of tools are the assistant's"},
        {"tool_result", "results of tools are the user's"},
    };
    char what[160];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (mc_str_is(type, kinds[i].type)) return refuse(w, "unsupported_value", kinds[i].what);
    snprintf(what, sizeof what, "type \"%.*s\" is not supported",
             (int)(type.len < 60 ? type.len : 60), type.ptr);
    return refuse(w, "unsupported_value", what);
}

/* A block where only text may be. */
static bool read_plain_block(writer *w, mc_str type, mc_json block) {
    return mc_str_is(type, "text") ? read_text(w, block) : refuse_type(w, type);
}

static bool read_assistant_block(writer *w, mc_str type, mc_json block) {
    if (mc_str_is(type, "text")) return read_text(w, block);
    if (mc_str_is(type, "thinking")) return read_thinking(w, block);
    if (mc_str_is(type, "tool_use")) return read_tool_use(w, block);
    return refuse_type(w, type);
}

static bool read_tool_result(writer *w, mc_json block) {
    mc_str id;
    bool failed = false;
    char place[96];
    mc_json flag = mc_json_find(block, "is_error"), content = mc_json_find(block, "content");
    if (!check_members(w, block, "tool_use_id content is_error")) return false;
    if (!mc_json_get_str(mc_json_find(block, "tool_use_id"), &id))
        return want(w, "tool_use_id", "a string");
    if (mc_json_exists(flag) && !mc_json_get_bool(flag, &failed))
        return want(w, "is_error", "true or false");
    end_message(w);
    begin_message(w, "tool");
    w->call_id = id;
    if (failed) add_text(w, MC_STR("Error:"));
    snprintf(place, sizeof place, "%.80s.content", w->place);
    return !mc_json_exists(content) || read_content(w, place, content, read_plain_block);
}

static bool read_user_block(writer *w, mc_str type, mc_json block) {
    if (mc_str_is(type, "tool_result")) return read_tool_result(w, block);
    begin_message(w, "user"); /* after the results of tools */
    return read_plain_block(w, type, block);
}

/* Reads a content: text, or an array of blocks, each by `read`. */
static bool read_content(writer *w, const char *place, mc_json content,
                         bool (*read)(writer *w, mc_str type, mc_json block)) {
    mc_str text, type;
    size_t number = 0;
    snprintf(w->place, sizeof w->place, "%s", place);
    if (mc_json_get_str(content, &text)) {
        add_text(w, text);
        return true;
    }
    if (mc_json_get_type(content) != MC_JSON_ARRAY)
        return refuse(w, "invalid_type", "want a string or an array of blocks");
    for (mc_json_iter it = mc_json_begin(content); mc_json_next(&it); number++) {
        snprintf(w->place, sizeof w->place, "%.72s[%zu]", place, number);
        if (!mc_json_get_str(mc_json_find(it.value, "type"), &type))
            return refuse(w, "invalid_type", "want an object with a type");
        if (!read(w, type, it.value)) return false;
    }
    return true;
}

/* ---- the conversation ---- */

static bool read_message(writer *w, size_t number, mc_json message) {
    static const struct {
        const char *role;
        bool (*read)(writer *w, mc_str type, mc_json block);
    } roles[] = {{"user", read_user_block},
                 {"assistant", read_assistant_block},
                 {"system", read_plain_block}};
    mc_str role;
    char place[96];
    snprintf(w->place, sizeof w->place, "messages[%zu]", number);
    if (!mc_json_get_str(mc_json_find(message, "role"), &role))
        return refuse(w, "invalid_type", "want an object with a role");
    for (mc_json_iter it = mc_json_begin(message); mc_json_next(&it);)
        if (!mc_str_is(it.key, "role") && !mc_str_is(it.key, "content"))
            return refuse(w, "unsupported_field", "want role and content, and nothing else");
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (!mc_str_is(role, roles[i].role)) continue;
        mc_json content = mc_json_find(message, "content");
        snprintf(place, sizeof place, "messages[%zu].content", number);
        begin_message(w, roles[i].role);
        return read_content(w, place, content, roles[i].read);
    }
    return mc_failure_role(w->failure, w->place, w->place, role, "user, assistant or system");
}

static bool read_all(writer *w, mc_json system, mc_json messages) {
    size_t number = 0;
    mc_put_open(&w->out, NULL, '[');
    if (mc_json_exists(system)) {
        begin_message(w, "system");
        if (!read_content(w, "system", system, read_plain_block)) return false;
    }
    if (mc_json_count(messages) == 0)
        return mc_failure_set(w->failure, 400, "invalid_value", "messages",
                              "messages: want at least one message");
    for (mc_json_iter it = mc_json_begin(messages); mc_json_next(&it); number++)
        if (!read_message(w, number, it.value)) return false;
    end_message(w);
    mc_put_close(&w->out, ']');
    return !w->out.failed || mc_failure_of(w->failure, mc_fail_nomem("a conversation"), NULL);
}

bool mc_anthropic_conversation(mc_json system, mc_json messages, mc_buffer *out, bool *continues,
                               mc_failure *failure) {
    writer w = {.out = mc_put_into(out), .failure = failure};
    w.parts.put = mc_put_into(&w.parts.json);
    w.calls.put = mc_put_into(&w.calls.json);
    bool done = read_all(&w, system, messages);
    *continues = w.of_assistant;
    mc_buffer_deinit(&w.thoughts);
    mc_buffer_deinit(&w.parts.json);
    mc_buffer_deinit(&w.calls.json);
    return done;
}
