#include "serve/openai/response_items.h"

#include "serve/common/put.h"

#include <stdarg.h>
#include <stdio.h>

/* What the assistant has said since the last message of others. */
typedef struct turn {
    mc_buffer thought, text;
    mc_buffer calls; /* JSON objects with commas between them */
    bool thinks, speaks;
} turn;

typedef struct reader {
    const mc_response_seal *seal;
    mc_buffer *messages;
    mc_failure *failure;
    turn turn;
    size_t index; /* of the item */
} reader;

static bool refuse(const reader *r, const char *code, const char *fmt, ...) MC_PRINTF(3, 4);

/* Names the item. Returns false. */
static bool refuse(const reader *r, const char *code, const char *fmt, ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return mc_failure_set(r->failure, 400, code, "input", "input[%zu]%s", r->index, text);
}

static bool no_memory(const reader *r) {
    return mc_failure_of(r->failure, mc_fail_nomem("a conversation"), NULL);
}

/* ---- messages ---- */

static mc_put begin(mc_buffer *messages, const char *role) {
    mc_put put = mc_put_into(messages);
    put.comma = messages->len > 0;
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "role", role);
    return put;
}

/* Adds a message with a text. false: no memory. */
static bool add_text(mc_buffer *messages, const char *role, mc_str text) {
    mc_put put = begin(messages, role);
    mc_put_str(&put, "content", text);
    mc_put_close(&put, '}');
    return !put.failed;
}

/* Ends what the assistant says. */
static bool end_turn(reader *r) {
    turn *t = &r->turn;
    if (!t->thinks && !t->speaks && !t->calls.len) return true;
    mc_put put = begin(r->messages, "assistant");
    mc_put_str(&put, "content", (mc_str){t->text.data, t->text.len});
    if (t->thinks) mc_put_str(&put, "reasoning_content", (mc_str){t->thought.data, t->thought.len});
    if (t->calls.len) {
        mc_put_open(&put, "tool_calls", '[');
        if (!put.failed) put.failed = !mc_buffer_add(put.out, t->calls.data, t->calls.len);
        mc_put_close(&put, ']');
    }
    mc_put_close(&put, '}');
    mc_buffer_clear(&t->thought);
    mc_buffer_clear(&t->text);
    mc_buffer_clear(&t->calls);
    t->thinks = t->speaks = false;
    return !put.failed || no_memory(r);
}

/* ---- fields ---- */

/* Whether an item, or what it has at `where`, has no other members than `names`, words with blanks
 * between them; those that are null do not count. */
static bool check_members_at(const reader *r, const char *where, mc_json item, const char *names) {
    for (mc_json_iter it = mc_json_begin(item); mc_json_next(&it);) {
        bool known = !mc_json_exists(it.value);
        for (const char *at = names; *at && !known;) {
            size_t len = strcspn(at, " ");
            known = mc_str_eq((mc_str){at, len}, it.key);
            at += len + strspn(at + len, " ");
        }
        if (!known)
            return refuse(r, "unsupported_field", "%s.%.*s is not supported", where,
                          (int)(it.key.len < 60 ? it.key.len : 60), it.key.ptr);
    }
    return true;
}

static bool check_members(const reader *r, mc_json item, const char *names) {
    return check_members_at(r, "", item, names);
}

static bool get_text(const reader *r, mc_json item, const char *name, mc_str *text) {
    return mc_json_get_str(mc_json_find(item, name), text) ||
           refuse(r, "invalid_type", ".%s: want a string", name);
}

/* The type of a value; "" where it has none. */
static mc_str type_of(mc_json value) {
    mc_str type = MC_STR("");
    mc_json_get_str(mc_json_find(value, "type"), &type);
    return type;
}

/* Reads the text of a part, whose type is known. */
static bool read_part(const reader *r, const char *name, size_t i, mc_json part, mc_str *text) {
    mc_str type = type_of(part);
    const char *key = mc_str_is(type, "refusal") ? "refusal" : "text", *names = "type text";
    if (mc_str_is(type, "refusal")) names = "type refusal";
    if (mc_str_is(type, "output_text")) names = "type text annotations logprobs";
    char where[48];
    snprintf(where, sizeof where, ".%s[%zu]", name, i);
    if (!check_members_at(r, where, part, names)) return false;
    return mc_json_get_str(mc_json_find(part, key), text) ||
           refuse(r, "invalid_type", "%s.%s: want a string", where, key);
}

/* Adds a content to a text: a string, or parts of the types, words with blanks between them, with a
 * line break between two. */
static bool add_content(const reader *r, mc_json content, const char *name, const char *types,
                        mc_buffer *out) {
    mc_str text;
    size_t i = 0;
    if (mc_json_get_str(content, &text))
        return mc_buffer_add(out, text.ptr, text.len) || no_memory(r);
    if (mc_json_get_type(content) != MC_JSON_ARRAY)
        return refuse(r, "invalid_type", ".%s: want a string or an array of parts", name);
    for (mc_json_iter it = mc_json_begin(content); mc_json_next(&it); i++) {
        mc_str type = type_of(it.value);
        bool known = false;
        for (const char *at = types; *at && !known;) {
            size_t len = strcspn(at, " ");
            known = mc_str_eq((mc_str){at, len}, type);
            at += len + strspn(at + len, " ");
        }
        if (!known)
            return refuse(r, "unsupported_value", ".%s[%zu]: parts of type %.*s are not supported",
                          name, i, (int)(type.len < 60 ? type.len : 60), type.ptr);
        if (!read_part(r, name, i, it.value, &text)) return false;
        if ((i && !mc_buffer_add_byte(out, '\n')) || !mc_buffer_add(out, text.ptr, text.len))
            return no_memory(r);
    }
    return true;
}

/* ---- items ---- */

static bool read_message(reader *r, mc_json item) {
    static const char *const roles[] = {"user", "system", "developer"};
    mc_str role;
    mc_json content = mc_json_find(item, "content");
    if (!check_members(r, item, "type role content id status phase") ||
        !get_text(r, item, "role", &role))
        return false;
    if (mc_str_is(role, "assistant")) {
        /* What comes behind calls is of their message, or two of the assistant's would follow one
         * another, which most chat templates refuse. */
        if (r->turn.speaks && !r->turn.calls.len && !end_turn(r)) return false;
        if (r->turn.speaks && !mc_buffer_add_byte(&r->turn.text, '\n')) return no_memory(r);
        r->turn.speaks = true;
        return add_content(r, content, "content", "output_text input_text refusal", &r->turn.text);
    }
    const char *known = NULL;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (mc_str_is(role, roles[i])) known = roles[i];
    if (!known) {
        char place[40];
        snprintf(place, sizeof place, "input[%zu]", r->index);
        return mc_failure_role(r->failure, "input", place, role,
                               "user, assistant, system or developer");
    }
    mc_buffer text = {0};
    bool done = end_turn(r) && add_content(r, content, "content", "input_text", &text);
    if (done && !add_text(r->messages, known, (mc_str){text.data, text.len})) done = no_memory(r);
    mc_buffer_deinit(&text);
    return done;
}

/* Reads thoughts that are sealed. *read: they are; else they must be told, too. */
static bool read_sealed(reader *r, mc_json item, bool told, bool *read) {
    mc_str sealed;
    *read = false;
    mc_json value = mc_json_find(item, "encrypted_content");
    if (!mc_json_exists(value)) return true;
    if (!mc_json_get_str(value, &sealed))
        return refuse(r, "invalid_type", ".encrypted_content: want a string");
    mica_status status = mc_response_seal_open(r->seal, sealed, &r->turn.thought, read);
    if (status != MICA_OK) return mc_failure_of(r->failure, status, NULL);
    return *read || told ||
           refuse(r, "invalid_encrypted_content",
                  ".encrypted_content: not made by this server since it was started, for this key");
}

static bool read_reasoning(reader *r, mc_json item) {
    mc_json content = mc_json_find(item, "content"), summary = mc_json_find(item, "summary");
    if (!check_members(r, item, "type id content summary status encrypted_content")) return false;
    bool whole = mc_json_count(content) > 0, sealed = false, told = mc_json_count(summary) > 0;
    if (!whole && !told && !mc_json_exists(mc_json_find(item, "encrypted_content")))
        return true; /* it was not told */
    if ((r->turn.thinks || r->turn.speaks || r->turn.calls.len) && !end_turn(r)) return false;
    r->turn.thinks = true;
    if (whole) return add_content(r, content, "content", "reasoning_text", &r->turn.thought);
    if (!read_sealed(r, item, told, &sealed)) return false;
    return sealed || add_content(r, summary, "summary", "summary_text", &r->turn.thought);
}

static bool read_call(reader *r, mc_json item) {
    mc_str id, name, arguments;
    if (!check_members(r, item, "type id call_id name arguments status") ||
        !get_text(r, item, "call_id", &id) || !get_text(r, item, "name", &name) ||
        !get_text(r, item, "arguments", &arguments))
        return false;
    mc_put put = mc_put_into(&r->turn.calls);
    put.comma = r->turn.calls.len > 0;
    mc_put_open(&put, NULL, '{');
    mc_put_str(&put, "id", id);
    mc_put_text(&put, "type", "function");
    mc_put_open(&put, "function", '{');
    mc_put_str(&put, "name", name);
    mc_put_str(&put, "arguments", arguments);
    mc_put_close(&put, '}');
    mc_put_close(&put, '}');
    return !put.failed || no_memory(r);
}

static bool read_output(reader *r, mc_json item) {
    mc_str id;
    mc_buffer text = {0};
    if (!check_members(r, item, "type id call_id output status") ||
        !get_text(r, item, "call_id", &id) || !end_turn(r))
        return false;
    bool done = add_content(r, mc_json_find(item, "output"), "output", "input_text", &text);
    if (done) {
        mc_put put = begin(r->messages, "tool");
        mc_put_str(&put, "tool_call_id", id);
        mc_put_str(&put, "content", (mc_str){text.data, text.len});
        mc_put_close(&put, '}');
        if (put.failed) done = no_memory(r);
    }
    mc_buffer_deinit(&text);
    return done;
}

static bool read_item(reader *r, mc_json item) {
    static const struct {
        const char *type;
        bool (*read)(reader *r, mc_json item);
    } kinds[] = {{"", read_message}, /* which needs no type */
                 {"message", read_message},
                 {"reasoning", read_reasoning},
                 {"function_call", read_call},
                 {"function_call_output", read_output}};
    if (mc_json_get_type(item) != MC_JSON_OBJECT)
        return refuse(r, "invalid_type", ": want an object");
    mc_str type = type_of(item);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (mc_str_is(type, kinds[i].type)) return kinds[i].read(r, item);
    return refuse(r, "unsupported_value", ": items of type %.*s are not supported",
                  (int)(type.len < 60 ? type.len : 60), type.ptr);
}

bool mc_response_items_read(mc_json input, const mc_response_seal *seal, mc_buffer *messages,
                            mc_failure *failure) {
    reader r = {.seal = seal, .messages = messages, .failure = failure};
    mc_str text;
    if (mc_json_get_str(input, &text)) return add_text(messages, "user", text) || no_memory(&r);
    bool done = true;
    for (mc_json_iter it = mc_json_begin(input); done && mc_json_next(&it); r.index++)
        done = read_item(&r, it.value);
    done = done && end_turn(&r);
    mc_buffer_deinit(&r.turn.thought);
    mc_buffer_deinit(&r.turn.text);
    mc_buffer_deinit(&r.turn.calls);
    return done;
}
