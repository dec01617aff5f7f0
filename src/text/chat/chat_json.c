#include "text/chat/chat_json.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/json_write.h"
#include "text/find.h"
#include "text/space.h"

typedef struct reader {
    mc_chat_json *out;
    mc_arguments arguments;
    bool developer, continues;
    size_t count;
    size_t message; /* number of the message that is read */
    bool marks;     /* the end of its thoughts is marked: an answer goes on there */
} reader;

/* Where the thoughts end that an answer goes on with. What templates do with white space at the
 * ends of thoughts does not reach what is in front of it. */
#define MARK "\xee\x80\x80go on\xee\x80\x80"

/* Whether a value says nothing: clients send back what they were sent, with null members. */
static bool is_nothing(mc_json v) {
    return !mc_json_exists(v) || (mc_json_get_type(v) == MC_JSON_ARRAY && mc_json_count(v) == 0);
}

/* Whether a member is advice, or what clients send back as it was sent to them: it changes no
 * answer. */
static bool is_advice(mc_str key) {
    static const char *const names[] = {"annotations", "cache_control", "reasoning_details"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mc_str_is(key, names[i])) return true;
    return false;
}

static mica_status put(bool done) {
    return done ? MICA_OK : mc_fail_nomem("a conversation");
}

/* Begins a member of the message. */
static mica_status put_key(reader *r, const char *key) {
    return put(mc_buffer_printf(&r->out->json, ",\"%s\":", key));
}

/* ---- content ---- */

static mica_status refuse_part(const reader *r, size_t part, mc_str type) {
    static const struct {
        const char *word, *what;
    } kinds[] = {{"image", "images"}, {"audio", "audio"}, {"video", "video"}, {"file", "files"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (mc_find(type, mc_str_of(kinds[i].word), 0) < type.len)
            return mc_fail(MICA_EUNSUPPORTED,
                           "messages[%zu].content[%zu]: %s are not supported (type \"%.*s\")",
                           r->message, part, kinds[i].what, MC_STR_ARG(type));
    return mc_fail(MICA_EUNSUPPORTED,
                   "messages[%zu].content[%zu]: type \"%.*s\" is not supported: want \"text\"",
                   r->message, part, MC_STR_ARG(type));
}

static mica_status read_part(reader *r, size_t number, mc_json part, mc_buffer *text) {
    mc_str type, piece;
    if (!mc_json_get_str(mc_json_find(part, "type"), &type))
        return mc_fail(MICA_EFORMAT, "messages[%zu].content[%zu]: want an object with \"type\"",
                       r->message, number);
    if (!mc_str_is(type, "text")) return refuse_part(r, number, type);
    if (!mc_json_get_str(mc_json_find(part, "text"), &piece))
        return mc_fail(MICA_EFORMAT, "messages[%zu].content[%zu].text: want a string", r->message,
                       number);
    for (mc_json_iter it = mc_json_begin(part); mc_json_next(&it);)
        if (!mc_str_is(it.key, "type") && !mc_str_is(it.key, "text") && !is_advice(it.key) &&
            !is_nothing(it.value))
            return mc_fail(MICA_EUNSUPPORTED, "messages[%zu].content[%zu].%.*s: not supported",
                           r->message, number, MC_STR_ARG(it.key));
    return put((!number || mc_buffer_add_byte(text, '\n')) &&
               mc_buffer_add(text, piece.ptr, piece.len));
}

/* Puts the content of a message, of which `last` keeps a copy. */
static mica_status read_content(reader *r, mc_json content) {
    mc_buffer *text = &r->out->last;
    mc_str whole;
    size_t number = 0;
    mc_buffer_clear(text);
    if (mc_json_get_str(content, &whole)) {
        MC_TRY(put(mc_buffer_add(text, whole.ptr, whole.len)));
    } else if (mc_json_get_type(content) == MC_JSON_ARRAY) {
        for (mc_json_iter it = mc_json_begin(content); mc_json_next(&it);)
            MC_TRY(read_part(r, number++, it.value, text));
    } else if (mc_json_exists(content)) {
        return mc_fail(MICA_EFORMAT, "messages[%zu].content: want a string or an array of parts",
                       r->message);
    }
    MC_TRY(put_key(r, "content"));
    return put(mc_json_put_str(&r->out->json, (mc_str){text->data, text->len}));
}

/* ---- tool calls ---- */

/* The arguments of a call as an object; *doc must be closed. A text that is no JSON stays one: a
 * model has written it, or was cut off in it. */
static mica_status parse_arguments(const reader *r, size_t call, mc_json v, mc_json_doc **doc,
                                   mc_json *object) {
    mc_str text;
    *doc = NULL;
    *object = v;
    if (mc_json_get_str(v, &text)) {
        if (!text.len) text = MC_STR("{}");
        mica_status status = mc_json_parse(text.ptr, text.len, "arguments", doc);
        if (status == MICA_EFORMAT) return MICA_OK;
        if (status != MICA_OK) return status;
        *object = mc_json_root(*doc);
    }
    if (mc_json_get_type(*object) == MC_JSON_OBJECT) return MICA_OK;
    return mc_fail(MICA_EFORMAT,
                   "messages[%zu].tool_calls[%zu].function.arguments: want an object, or the text "
                   "of one",
                   r->message, call);
}

static mica_status put_arguments(reader *r, size_t call, mc_json v) {
    mc_json_doc *doc;
    mc_json object;
    mc_str given;
    mc_buffer text = {0}, *json = &r->out->json;
    mica_status status = parse_arguments(r, call, v, &doc, &object);
    if (status == MICA_OK && r->arguments == MC_ARGUMENTS_OBJECT)
        status = put(mc_json_put_value(json, object, MC_JSON_ONE_LINE));
    else if (status == MICA_OK && mc_json_get_str(v, &given))
        status = put(mc_json_put_str(json, given));
    else if (status == MICA_OK)
        status = put(mc_json_put_value(&text, object, MC_JSON_ONE_LINE) &&
                     mc_json_put_str(json, (mc_str){text.data, text.len}));
    mc_buffer_deinit(&text);
    mc_json_close(&doc);
    return status;
}

/* Refuses what a call has beside the members of a list with NULL at its end. where: the object. */
static mica_status check_members(const reader *r, size_t call, const char *where, mc_json object,
                                 const char *const *known) {
    for (mc_json_iter it = mc_json_begin(object); mc_json_next(&it);) {
        const char *const *name = known;
        while (*name && !mc_str_is(it.key, *name))
            name++;
        if (!*name && !is_nothing(it.value))
            return mc_fail(MICA_EUNSUPPORTED, "messages[%zu].tool_calls[%zu]%s.%.*s: not supported",
                           r->message, call, where, MC_STR_ARG(it.key));
    }
    return MICA_OK;
}

static mica_status read_call(reader *r, size_t number, mc_json call) {
    /* index: of a part of a stream, of which clients put calls together. parsed_arguments: the
     * arguments once more, as OpenAI's client reads them. */
    static const char *const members[] = {"type", "id", "function", "index", NULL},
                             *const of_function[] = {"name", "arguments", "parsed_arguments", NULL};
    mc_buffer *json = &r->out->json;
    mc_json function = mc_json_find(call, "function"), type = mc_json_find(call, "type");
    mc_str name, id = MC_STR(""), kind = MC_STR("function");
    if (mc_json_exists(type) && (!mc_json_get_str(type, &kind) || !mc_str_is(kind, "function")))
        return mc_fail(MICA_EUNSUPPORTED,
                       "messages[%zu].tool_calls[%zu].type: only \"function\" is supported",
                       r->message, number);
    if (!mc_json_get_str(mc_json_find(function, "name"), &name))
        return mc_fail(MICA_EFORMAT, "messages[%zu].tool_calls[%zu].function.name: want a string",
                       r->message, number);
    MC_TRY(check_members(r, number, "", call, members));
    MC_TRY(check_members(r, number, ".function", function, of_function));
    MC_TRY(put((!number || mc_buffer_add_byte(json, ',')) &&
               mc_buffer_add_text(json, "{\"type\":\"function\"")));
    if (mc_json_get_str(mc_json_find(call, "id"), &id))
        MC_TRY(put(mc_buffer_add_text(json, ",\"id\":") && mc_json_put_str(json, id)));
    MC_TRY(put(mc_buffer_add_text(json, ",\"function\":{\"name\":") &&
               mc_json_put_str(json, name) && mc_buffer_add_text(json, ",\"arguments\":")));
    MC_TRY(put_arguments(r, number, mc_json_find(function, "arguments")));
    return put(mc_buffer_add_text(json, "}}"));
}

static mica_status read_calls(reader *r, mc_json calls) {
    size_t number = 0;
    if (mc_json_get_type(calls) != MC_JSON_ARRAY)
        return mc_fail(MICA_EFORMAT, "messages[%zu].tool_calls: want an array", r->message);
    r->out->calls = true;
    MC_TRY(put_key(r, "tool_calls"));
    MC_TRY(put(mc_buffer_add_byte(&r->out->json, '[')));
    for (mc_json_iter it = mc_json_begin(calls); mc_json_next(&it);)
        MC_TRY(read_call(r, number++, it.value));
    return put(mc_buffer_add_byte(&r->out->json, ']'));
}

/* ---- messages ---- */

/* Puts a member of text. */
static mica_status read_text(reader *r, const char *key, mc_json v) {
    mc_str text;
    if (!mc_json_get_str(v, &text))
        return mc_fail(MICA_EFORMAT, "messages[%zu].%s: want a string", r->message, key);
    MC_TRY(put_key(r, key));
    return put(mc_json_put_str(&r->out->json, text));
}

static bool is_blank(mc_str text) {
    return !text.len || mc_space_at_start(text.ptr, text.len) == text.len;
}

static mica_status read_thoughts(reader *r, mc_json v) {
    mc_str text;
    if (!r->marks || !mc_json_get_str(v, &text) || is_blank(text))
        return read_text(r, "reasoning_content", v);
    mc_buffer marked = {0};
    mica_status status =
        put(mc_buffer_add(&marked, text.ptr, text.len) && mc_buffer_add_text(&marked, MARK));
    if (status == MICA_OK) status = put_key(r, "reasoning_content");
    if (status == MICA_OK)
        status = put(mc_json_put_str(&r->out->json, (mc_str){marked.data, marked.len}));
    mc_buffer_deinit(&marked);
    r->out->marked = true;
    return status;
}

static mica_status read_member(reader *r, mc_str key, mc_json v) {
    static const char *const texts[] = {"name", "tool_call_id"};
    if (mc_str_is(key, "role") || mc_str_is(key, "content") || is_advice(key) || is_nothing(v))
        return MICA_OK;
    if (mc_str_is(key, "tool_calls")) return read_calls(r, v);
    if (mc_str_is(key, "reasoning_content")) return read_thoughts(r, v);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (mc_str_is(key, texts[i])) return read_text(r, texts[i], v);
    return mc_fail(MICA_EUNSUPPORTED, "messages[%zu].%.*s: not supported", r->message,
                   MC_STR_ARG(key));
}

static mica_status read_message(reader *r, mc_json message) {
    mc_buffer *json = &r->out->json;
    mc_str role;
    if (!mc_json_get_str(mc_json_find(message, "role"), &role))
        return mc_fail(MICA_EFORMAT, "messages[%zu]: want an object with \"role\"", r->message);
    if (mc_str_is(role, "developer") && !r->developer) role = MC_STR("system");
    r->out->last_is_assistant = mc_str_is(role, "assistant");
    MC_TRY(put((!r->message || mc_buffer_add_byte(json, ',')) &&
               mc_buffer_add_text(json, "{\"role\":") && mc_json_put_str(json, role)));
    MC_TRY(read_content(r, mc_json_find(message, "content")));
    r->marks = r->continues && r->message + 1 == r->count && r->out->last_is_assistant &&
               is_blank((mc_str){r->out->last.data, r->out->last.len}) &&
               is_nothing(mc_json_find(message, "tool_calls"));
    for (mc_json_iter it = mc_json_begin(message); mc_json_next(&it);)
        MC_TRY(read_member(r, it.key, it.value));
    return put(mc_buffer_add_byte(json, '}'));
}

static mica_status read_messages(reader *r, mc_json messages) {
    if (mc_json_get_type(messages) != MC_JSON_ARRAY || mc_json_count(messages) == 0)
        return mc_fail(MICA_EFORMAT, "messages: want an array of at least one message");
    r->count = mc_json_count(messages);
    MC_TRY(put(mc_buffer_add_byte(&r->out->json, '[')));
    for (mc_json_iter it = mc_json_begin(messages); mc_json_next(&it); r->message++)
        MC_TRY(read_message(r, it.value));
    return put(mc_buffer_add_byte(&r->out->json, ']') && mc_buffer_cstr(&r->out->json));
}

mica_status mc_chat_json_read(const char *messages, size_t len, mc_arguments arguments,
                              bool developer, bool continues, mc_chat_json *conversation) {
    mc_json_doc *doc = NULL;
    reader r = {.out = conversation,
                .arguments = arguments,
                .developer = developer,
                .continues = continues};
    *conversation = (mc_chat_json){0};
    mica_status status = mc_json_parse(messages, len, "messages", &doc);
    if (status == MICA_OK) status = read_messages(&r, mc_json_root(doc));
    mc_json_close(&doc);
    return status;
}

void mc_chat_json_deinit(mc_chat_json *conversation) {
    mc_buffer_deinit(&conversation->json);
    mc_buffer_deinit(&conversation->last);
}

/* ---- for the built-in formats ---- */

void mc_chat_json_free_messages(mc_chat_message *messages, size_t count) {
    for (size_t i = 0; messages && i < count; i++) {
        mc_free((char *)messages[i].role);
        mc_free((char *)messages[i].content);
    }
    mc_free(messages);
}

static mica_status copy_message(size_t number, mc_json message, mc_chat_message *to) {
    mc_str role = MC_STR(""), content = MC_STR("");
    for (mc_json_iter it = mc_json_begin(message); mc_json_next(&it);) {
        if (mc_str_is(it.key, "role")) {
            mc_json_get_str(it.value, &role);
        } else if (mc_str_is(it.key, "content")) {
            mc_json_get_str(it.value, &content);
        } else {
            return mc_fail(MICA_EUNSUPPORTED,
                           "messages[%zu].%.*s: the model has no chat template of its own, and its "
                           "family's built-in format has no such member",
                           number, MC_STR_ARG(it.key));
        }
    }
    if (memchr(role.ptr, 0, role.len) || memchr(content.ptr, 0, content.len))
        return mc_fail(MICA_EUNSUPPORTED, "messages[%zu]: has a NUL character", number);
    to->role = mc_strndup(role.ptr, role.len);
    to->content = mc_strndup(content.ptr, content.len);
    return put(to->role && to->content);
}

mica_status mc_chat_json_messages(const mc_chat_json *conversation, mc_chat_message **messages,
                                  size_t *count) {
    mc_json_doc *doc;
    size_t number = 0;
    *messages = NULL;
    MC_TRY(mc_json_parse(conversation->json.data, conversation->json.len, "messages", &doc));
    *count = mc_json_count(mc_json_root(doc));
    *messages = mc_calloc(*count, sizeof **messages);
    mica_status status = put(*messages != NULL);
    mc_json_iter it = mc_json_begin(mc_json_root(doc));
    for (; status == MICA_OK && mc_json_next(&it); number++)
        status = copy_message(number, it.value, &(*messages)[number]);
    mc_json_close(&doc);
    if (status == MICA_OK) return MICA_OK;
    mc_chat_json_free_messages(*messages, *count);
    *messages = NULL;
    return status;
}

/* ---- continuing the last message ---- */

/* The last place of a text that is not empty; text.len: none. */
static size_t find_last(mc_str text, mc_str pattern) {
    size_t last = text.len;
    for (size_t at = 0; (at = mc_find(text, pattern, at)) < text.len; at++)
        last = at;
    return last;
}

static mica_status cut_thoughts(mc_buffer *text) {
    size_t at = find_last((mc_str){text->data, text->len}, mc_str_of(MARK));
    if (at == text->len)
        return mc_fail(MICA_EINVAL, "the chat template leaves out the last message's thoughts, so "
                                    "that they cannot be continued");
    text->len = at;
    return MICA_OK;
}

mica_status mc_chat_json_cut(const mc_chat_json *conversation, mc_buffer *text) {
    mc_str whole = {conversation->last.data, conversation->last.len};
    if (!conversation->last_is_assistant)
        return mc_fail(MICA_EINVAL, "to continue the last message it must be the assistant's");
    if (conversation->marked) return cut_thoughts(text);
    if (is_blank(whole))
        return mc_fail(MICA_EINVAL, "to continue the last message it must have a content, or "
                                    "thoughts and no calls");
    size_t before = mc_space_at_start(whole.ptr, whole.len);
    size_t after = mc_space_at_end(whole.ptr, whole.len);
    const mc_str kept = {whole.ptr + before, whole.len - before};
    const mc_str core = {kept.ptr, kept.len - after}, all = {text->data, text->len};
    size_t at = find_last(all, core);
    if (at == all.len)
        return mc_fail(MICA_EINVAL, "the chat template changes the last message's content, so that "
                                    "it cannot be continued");
    bool keeps = mc_str_starts((mc_str){all.ptr + at, all.len - at}, kept);
    text->len = at + (keeps ? kept.len : core.len);
    return MICA_OK;
}
