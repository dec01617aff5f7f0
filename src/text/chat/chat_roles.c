#include "text/chat/chat_roles.h"

#include "base/json.h"
#include "base/json_write.h"
#include "text/find.h"
#include "text/space.h"

#include <string.h>

typedef struct writer {
    mc_chat_roles roles;
    mc_buffer out;
    const char *role; /* of the message that is collected; NULL: none */
    mc_buffer content;
    mc_json rest; /* a message whose other members it has; NONE: none has any */
    bool some;    /* a message was written */
    bool later;   /* a message that is not the system's has come */
    bool changed;
} writer;

static mica_status put(bool done) {
    return done ? MICA_OK : mc_fail_nomem("a conversation");
}

static mc_str text_of(mc_json message, const char *member) {
    mc_str text = MC_STR("");
    mc_json_get_str(mc_json_find(message, member), &text);
    return text;
}

static bool is_system(mc_str role) {
    return mc_str_is(role, "system") || mc_str_is(role, "developer");
}

static bool is_other(mc_str key) {
    return !mc_str_is(key, "role") && !mc_str_is(key, "content");
}

static bool has_others(mc_json message) {
    for (mc_json_iter it = mc_json_begin(message); mc_json_next(&it);)
        if (is_other(it.key)) return true;
    return false;
}

/* Writes the message that is collected. */
static mica_status flush(writer *w) {
    if (!w->role) return MICA_OK;
    mc_buffer *out = &w->out;
    bool done =
        (!w->some || mc_buffer_add_byte(out, ',')) &&
        mc_buffer_printf(out, "{\"role\":\"%s\",\"content\":", w->role) &&
        mc_json_put_str(out, (mc_str){w->content.data ? w->content.data : "", w->content.len});
    for (mc_json_iter it = mc_json_begin(w->rest); done && mc_json_next(&it);)
        if (is_other(it.key))
            done = mc_buffer_add_byte(out, ',') && mc_json_put_str(out, it.key) &&
                   mc_buffer_add_byte(out, ':') &&
                   mc_json_put_value(out, it.value, MC_JSON_ONE_LINE);
    w->some = true;
    w->role = NULL;
    return put(done && mc_buffer_add_byte(out, '}'));
}

/* The role that a message gets; NULL: one that is none of a conversation's. */
static const char *role_of(const writer *w, mc_str role) {
    static const char *const known[] = {"user", "assistant", "tool"};
    if (is_system(role)) return w->later || w->roles == MC_ROLES_USER ? "user" : "system";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (mc_str_is(role, known[i])) return known[i];
    return NULL;
}

/* Whether a message becomes part of the one that is collected. */
static bool joins(const writer *w, mc_json message, const char *role) {
    if (!w->role) return false;
    bool result = strcmp(w->role, "tool") == 0;
    if (result && w->roles >= MC_ROLES_RESULTS && is_system(text_of(message, "role"))) return true;
    return !result && strcmp(w->role, role) == 0 &&
           !(mc_json_exists(w->rest) && has_others(message));
}

static mica_status add(writer *w, mc_json message) {
    mc_str given = text_of(message, "role"), content = text_of(message, "content");
    const char *role = role_of(w, given);
    if (!role) { /* as it is */
        MC_TRY(flush(w));
        bool done = (!w->some || mc_buffer_add_byte(&w->out, ',')) &&
                    mc_json_put_value(&w->out, message, MC_JSON_ONE_LINE);
        w->some = w->later = true;
        return put(done);
    }
    bool joined = joins(w, message, role);
    w->changed = w->changed || joined || !mc_str_is(given, role);
    w->later = w->later || !is_system(given);
    if (!joined) {
        MC_TRY(flush(w));
        w->role = role;
        w->rest = (mc_json){0};
        mc_buffer_clear(&w->content);
    }
    if (has_others(message)) w->rest = message;
    if (joined && w->content.len && content.len && !mc_buffer_add_text(&w->content, "\n\n"))
        return put(false);
    return put(mc_buffer_add(&w->content, content.ptr, content.len));
}

static mica_status write_all(writer *w, mc_json messages) {
    MC_TRY(put(mc_buffer_add_byte(&w->out, '[')));
    for (mc_json_iter it = mc_json_begin(messages); mc_json_next(&it);)
        MC_TRY(add(w, it.value));
    MC_TRY(flush(w));
    return put(mc_buffer_add_byte(&w->out, ']') && mc_buffer_cstr(&w->out));
}

static mica_status parse(const mc_chat_json *conversation, mc_json_doc **doc) {
    return mc_json_parse(conversation->json.data, conversation->json.len, "messages", doc);
}

mica_status mc_chat_roles_write(mc_chat_json *conversation, mc_chat_roles roles, bool *changed) {
    writer w = {.roles = roles};
    mc_json_doc *doc = NULL;
    *changed = false;
    if (roles == MC_ROLES_GIVEN) return MICA_OK;
    mica_status status = parse(conversation, &doc);
    if (status == MICA_OK) status = write_all(&w, mc_json_root(doc));
    mc_json_close(&doc);
    mc_buffer_deinit(&w.content);
    if (status == MICA_OK && w.changed) {
        mc_buffer other = conversation->json;
        conversation->json = w.out;
        w.out = other;
        *changed = true;
    }
    mc_buffer_deinit(&w.out);
    return status;
}

/* Templates cut white space off. */
static bool has_text(mc_str text, mc_str content) {
    size_t start = mc_space_at_start(content.ptr, content.len);
    if (start == content.len) return true;
    size_t end = content.len - mc_space_at_end(content.ptr, content.len);
    return mc_find(text, (mc_str){content.ptr + start, end - start}, 0) < text.len;
}

mica_status mc_chat_roles_shown(const mc_chat_json *conversation, mc_str text, bool *shown) {
    mc_json_doc *doc = NULL;
    bool first = true;
    *shown = true;
    MC_TRY(parse(conversation, &doc));
    for (mc_json_iter it = mc_json_begin(mc_json_root(doc)); *shown && mc_json_next(&it);) {
        if (!first && is_system(text_of(it.value, "role")))
            *shown = has_text(text, text_of(it.value, "content"));
        first = false;
    }
    mc_json_close(&doc);
    return MICA_OK;
}
