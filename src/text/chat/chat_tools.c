#include "text/chat/chat_tools.h"

#include "base/json.h"
#include "base/json_write.h"

#include <string.h>

typedef struct writer {
    mc_buffer out;
    mc_buffer
        user; /* text of a user's message that is not written yet: results, and what follows */
    mc_buffer text; /* of the message that is written */
    mc_json messages;
    bool some; /* a message was written */
} writer;

static mica_status put(bool done) {
    return done ? MICA_OK : mc_fail_nomem("a conversation");
}

static mica_status write_message(writer *w, const char *role, const mc_buffer *text) {
    bool done = (!w->some || mc_buffer_add_byte(&w->out, ',')) &&
                mc_buffer_printf(&w->out, "{\"role\":\"%s\",\"content\":", role) &&
                mc_json_put_str(&w->out, (mc_str){text->data ? text->data : "", text->len}) &&
                mc_buffer_add_byte(&w->out, '}');
    w->some = true;
    return put(done);
}

/* Writes the user's message that is held back, if there is one. */
static mica_status flush_user(writer *w) {
    if (!w->user.len) return MICA_OK;
    mica_status status = write_message(w, "user", &w->user);
    mc_buffer_clear(&w->user);
    return status;
}

/* ---- descriptions ---- */

static mica_status describe(mc_json tools, mc_buffer *text) {
    bool done = mc_buffer_add_text(text, "You can call these functions:\n\n");
    for (mc_json_iter it = mc_json_begin(tools); done && mc_json_next(&it);) {
        mc_json function = mc_json_find(it.value, "function");
        mc_json shown = mc_json_exists(function) ? function : it.value;
        done = mc_json_put_value(text, shown, MC_JSON_ONE_LINE) && mc_buffer_add_byte(text, '\n');
    }
    return put(done && mc_buffer_add_text(text, "\nTo call one, answer with a line of JSON and "
                                                "nothing else, or one line for each call:\n"
                                                "{\"name\": the function's name, \"parameters\": "
                                                "an object of its arguments}"));
}

/* ---- messages ---- */

static mica_status add_content(mc_json message, mc_buffer *to) {
    mc_str content = MC_STR("");
    mc_json_get_str(mc_json_find(message, "content"), &content);
    return put(mc_buffer_add(to, content.ptr, content.len));
}

/* The assistant's text and calls. */
static mica_status write_assistant(writer *w, mc_json message) {
    mc_buffer_clear(&w->text);
    MC_TRY(add_content(message, &w->text));
    for (mc_json_iter it = mc_json_begin(mc_json_find(message, "tool_calls")); mc_json_next(&it);) {
        mc_json function = mc_json_find(it.value, "function");
        bool done =
            (!w->text.len || mc_buffer_add_byte(&w->text, '\n')) &&
            mc_buffer_add_text(&w->text, "{\"name\": ") &&
            mc_json_put_value(&w->text, mc_json_find(function, "name"), MC_JSON_ONE_LINE) &&
            mc_buffer_add_text(&w->text, ", \"parameters\": ") &&
            mc_json_put_value(&w->text, mc_json_find(function, "arguments"), MC_JSON_ONE_LINE) &&
            mc_buffer_add_byte(&w->text, '}');
        MC_TRY(put(done));
    }
    return write_message(w, "assistant", &w->text);
}

/* The name of the function that a result is of: the message's, or that of the call with its id. */
static mc_str name_of(const writer *w, mc_json message) {
    mc_str name = MC_STR("the function"), id, other;
    if (mc_json_get_str(mc_json_find(message, "name"), &name) ||
        !mc_json_get_str(mc_json_find(message, "tool_call_id"), &id))
        return name;
    for (mc_json_iter m = mc_json_begin(w->messages); mc_json_next(&m);)
        for (mc_json_iter it = mc_json_begin(mc_json_find(m.value, "tool_calls"));
             mc_json_next(&it);)
            if (mc_json_get_str(mc_json_find(it.value, "id"), &other) && mc_str_eq(id, other))
                mc_json_get_str(mc_json_find(mc_json_find(it.value, "function"), "name"), &name);
    return name;
}

/* Results wait for more of them, and for the user's next message: users and assistants take turns
 * in most formats. */
static mica_status hold_result(writer *w, mc_json message) {
    mc_str name = name_of(w, message);
    MC_TRY(put((!w->user.len || mc_buffer_add_text(&w->user, "\n\n")) &&
               mc_buffer_add_text(&w->user, "Result of ") &&
               mc_buffer_add(&w->user, name.ptr, name.len) && mc_buffer_add_text(&w->user, ":\n")));
    return add_content(message, &w->user);
}

static mica_status write_one(writer *w, mc_json message) {
    mc_str role = MC_STR("");
    mc_json_get_str(mc_json_find(message, "role"), &role);
    if (mc_str_is(role, "tool")) return hold_result(w, message);
    if (mc_str_is(role, "user") && w->user.len) {
        MC_TRY(put(mc_buffer_add_text(&w->user, "\n\n")));
        MC_TRY(add_content(message, &w->user));
        return flush_user(w);
    }
    MC_TRY(flush_user(w));
    if (mc_str_is(role, "assistant")) return write_assistant(w, message);
    bool done = (!w->some || mc_buffer_add_byte(&w->out, ',')) &&
                mc_json_put_value(&w->out, message, MC_JSON_ONE_LINE);
    w->some = true;
    return put(done);
}

static mica_status write_all(writer *w, mc_json tools) {
    mc_json_iter it = mc_json_begin(w->messages), first = it;
    mc_str role;
    bool some = mc_json_count(tools) > 0;
    MC_TRY(put(mc_buffer_add_byte(&w->out, '[')));
    if (some && mc_json_next(&first) && mc_json_get_str(mc_json_find(first.value, "role"), &role) &&
        mc_str_is(role, "system")) {
        mc_json_next(&it);
        MC_TRY(add_content(first.value, &w->text));
        if (w->text.len) MC_TRY(put(mc_buffer_add_text(&w->text, "\n\n")));
    }
    if (some) MC_TRY(describe(tools, &w->text));
    if (some) MC_TRY(write_message(w, "system", &w->text));
    while (mc_json_next(&it))
        MC_TRY(write_one(w, it.value));
    MC_TRY(flush_user(w));
    return put(mc_buffer_add_byte(&w->out, ']') && mc_buffer_cstr(&w->out));
}

mica_status mc_chat_tools_write(mc_chat_json *conversation, const char *tools) {
    mc_json_doc *doc = NULL, *list = NULL;
    writer w = {0};
    if (!tools) tools = "[]";
    mica_status status = mc_json_parse(tools, strlen(tools), "tools", &list);
    if (status == MICA_OK && mc_json_get_type(mc_json_root(list)) != MC_JSON_ARRAY)
        status = mc_fail(MICA_EFORMAT, "tools: want an array");
    if (status == MICA_OK)
        status = mc_json_parse(conversation->json.data, conversation->json.len, "messages", &doc);
    if (status == MICA_OK) {
        w.messages = mc_json_root(doc);
        status = write_all(&w, mc_json_root(list));
    }
    mc_json_close(&doc);
    mc_json_close(&list);
    mc_buffer_deinit(&w.user);
    mc_buffer_deinit(&w.text);
    if (status != MICA_OK) {
        mc_buffer_deinit(&w.out);
        return status;
    }
    mc_buffer_deinit(&conversation->json);
    conversation->json = w.out;
    return MICA_OK;
}
