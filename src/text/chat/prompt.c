#include "text/chat/prompt.h"

#include "base/alloc.h"
#include "base/json_write.h"
#include "base/options.h"
#include "base/system.h"
#include "base/utf8.h"
#include "io/config.h"
#include "text/chat/chat_json.h"
#include "text/chat/chat_roles.h"
#include "text/chat/chat_shape.h"
#include "text/chat/chat_tools.h"
#include "text/find.h"
#include "text/tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

enum { MAX_IDS = 64 };

static bool has_stop(const mc_prompt *prompt, int32_t id) {
    const int32_t *stops = MC_BUFFER_AT(&prompt->stops, int32_t);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&prompt->stops, int32_t); i++)
        if (stops[i] == id) return true;
    return false;
}

static mica_status add_stop(mc_prompt *prompt, int32_t id) {
    if (id < 0 || has_stop(prompt, id) || MC_BUFFER_PUSH(&prompt->stops, int32_t, id))
        return MICA_OK;
    return mc_fail_nomem("the stop ids");
}

static mica_status read_stops(const mc_config_scope *scope, mc_prompt *prompt) {
    int64_t ids[MAX_IDS];
    size_t count = 0;
    MC_TRY(mc_config_ints(scope, "eos_token_id", MC_OPTIONAL, 0, INT32_MAX, ids, MAX_IDS, &count));
    for (size_t i = 0; i < count; i++)
        MC_TRY(add_stop(prompt, (int32_t)ids[i]));
    return MICA_OK;
}

static mica_status read_bos(const mc_config_scope *scope, int64_t *bos) {
    int64_t ids[MAX_IDS];
    size_t count = 0;
    if (*bos >= 0) return MICA_OK;
    MC_TRY(mc_config_ints(scope, "bos_token_id", MC_OPTIONAL, 0, INT32_MAX, ids, MAX_IDS, &count));
    if (count) *bos = ids[0];
    return MICA_OK;
}

static mica_status read_file(const char *folder, const char *name, mc_config_need need,
                             mc_prompt *prompt, int64_t *bos) {
    mc_config *config;
    mc_config_scope text;
    MC_TRY(mc_config_load(folder, name, need, &config));
    mc_config_scope root = mc_config_root(config);
    mica_status status = read_stops(&root, prompt);
    if (status == MICA_OK) status = read_bos(&root, bos);
    if (status == MICA_OK) status = mc_config_object(&root, "text_config", MC_OPTIONAL, &text);
    if (status == MICA_OK) status = read_stops(&text, prompt);
    if (status == MICA_OK) status = read_bos(&text, bos);
    mc_config_close(&config);
    return status;
}

static mica_status open_chat(const char *folder, const char *chat_template, mc_prompt *prompt) {
    mica_status status = mc_chat_template_load(folder, chat_template, &prompt->chat);
    if (status != MICA_EFORMAT || chat_template) return status;
    prompt->chat_error = mc_strdup(mica_last_error());
    return prompt->chat_error ? MICA_OK : mc_fail_nomem("a model's prompt format");
}

static mica_status open_parts(const char *folder, const char *chat_template, mc_prompt *prompt) {
    int64_t bos = -1;
    MC_TRY(read_file(folder, "generation_config.json", MC_OPTIONAL, prompt, &bos));
    MC_TRY(read_file(folder, "config.json", MC_REQUIRED, prompt, &bos));
    MC_TRY(mica_tokenizer_open(folder, &prompt->tokenizer));
    MC_TRY(add_stop(prompt, mica_tokenizer_eos(prompt->tokenizer)));
    if (bos < 0) bos = mica_tokenizer_bos(prompt->tokenizer);
    const char *token = bos >= 0 ? mica_tokenizer_token(prompt->tokenizer, (int32_t)bos, NULL) : "";
    prompt->bos = mc_strdup(token ? token : "");
    return prompt->bos ? open_chat(folder, chat_template, prompt)
                       : mc_fail_nomem("a model's prompt format");
}

mica_status mc_prompt_open(const char *folder, const char *chat_template, mc_prompt *prompt) {
    *prompt = (mc_prompt){0};
    mica_status status = open_parts(folder, chat_template, prompt);
    if (status != MICA_OK) mc_prompt_close(prompt);
    return status;
}

void mc_prompt_close(mc_prompt *prompt) {
    mica_tokenizer_close(&prompt->tokenizer);
    mc_buffer_deinit(&prompt->stops);
    mc_chat_template_close(&prompt->chat);
    mc_free(prompt->chat_error);
    mc_free(prompt->bos);
    *prompt = (mc_prompt){0};
}

mica_status mc_prompt_encode(const mica_tokenizer *tok, const char *text, size_t len, int32_t **ids,
                             size_t *n) {
    MC_TRY(mica_tokenizer_encode(tok, text, len, true, ids, n));
    const mc_buffer *before = &tok->around.before, *after = &tok->around.after;
    size_t count = MC_BUFFER_COUNT(before, int32_t);
    if (*n < 2 * count + MC_BUFFER_COUNT(after, int32_t) ||
        memcmp(*ids, *ids + count, before->len) != 0)
        return MICA_OK;
    *n -= count;
    memmove(*ids, *ids + count, *n * sizeof **ids);
    return MICA_OK;
}

static bool find_format(const char *name, mc_chat_format *format) {
    static const char *const names[] = {
#define NAME(upper, lower) [MC_CHAT_##upper] = #lower,
        MC_CHAT_FORMATS(NAME)
#undef NAME
    };
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) {
            *format = (mc_chat_format)i;
            return true;
        }
    return false;
}

mica_status mc_prompt_render(const mc_prompt *prompt, const char *name,
                             const mc_chat_message *messages, size_t count,
                             bool add_generation_prompt, mc_buffer *text) {
    mc_chat_format format;
    if (!find_format(name, &format))
        return mc_fail(MICA_EUNSUPPORTED, "the model has no chat format that mica knows: give it "
                                          "a chat template, or the whole prompt as a raw text");
    return mc_chat_render(format, messages, count, prompt->bos, add_generation_prompt, text);
}

/* ---- conversations in JSON ---- */

/* Whether the folder's template has a word, such as "tools". */
static bool has_word(const mc_prompt *prompt, mc_str word) {
    mc_str source = prompt->chat ? mc_chat_template_source(prompt->chat) : (mc_str){"", 0};
    return mc_find(source, word, 0) < source.len;
}

static mica_status conversation_by_format(const mc_prompt *prompt, const char *format,
                                          const mc_prompt_request *request,
                                          const mc_chat_json *conversation, mc_buffer *text) {
    mc_chat_message *messages;
    size_t count;
    if (request->variables)
        return mc_fail(MICA_EUNSUPPORTED,
                       "the model has no chat template of its own: its family's built-in format "
                       "takes no variables");
    MC_TRY(mc_chat_json_messages(conversation, &messages, &count));
    mica_status status = mc_prompt_render(prompt, format, messages, count,
                                          !request->open && !request->continue_last, text);
    mc_chat_json_free_messages(messages, count);
    return status;
}

static mica_status conversation_by_template(const mc_prompt *prompt,
                                            const mc_prompt_request *request,
                                            const mc_chat_json *conversation, mc_buffer *text) {
    struct tm now;
    const mc_chat_request chat = {
        .messages = conversation->json.data,
        .tools = has_word(prompt, MC_STR("tools")) ? request->tools : NULL,
        .variables = request->variables,
        .add_generation_prompt = !request->open && !request->continue_last,
        .bos = prompt->bos,
        .cancel = request->cancel,
        .now = mc_local_time(&now) ? &now : NULL};
    return mc_chat_template_render(prompt->chat, &chat, text);
}

/* Reads the messages, and puts tools in them where the format has no place for any. */
static mica_status read_conversation(const mc_prompt *prompt, const mc_prompt_request *request,
                                     mc_arguments arguments, mc_chat_json *conversation) {
    bool developer = prompt->chat && mc_chat_template_has_developer(prompt->chat);
    MC_TRY(mc_chat_json_read(request->messages, request->messages_len, arguments, developer,
                             request->continue_last, conversation));
    bool placed = has_word(prompt, MC_STR("tools")),
         called = placed || has_word(prompt, MC_STR("tool_calls"));
    if (request->tools ? placed : called || !conversation->calls) return MICA_OK;
    return mc_chat_tools_write(conversation, request->tools);
}

/* A form of a conversation, for templates differ in what they take. */
typedef struct attempt {
    mc_arguments arguments;
    mc_chat_roles roles;
    bool hides; /* a template may leave messages out */
} attempt;

/* What became of it. */
typedef enum outcome {
    IS_DONE,
    IS_REFUSED, /* by the template: another form may do better */
    IS_HIDDEN,  /* rendered, but for some messages: the same */
    IS_SAME     /* the conversation has no such form */
} outcome;

static mica_status render_messages(const mc_prompt *prompt, const char *format,
                                   const mc_prompt_request *request, const attempt *form,
                                   const mc_chat_json *conversation, mc_buffer *text,
                                   outcome *out) {
    size_t before = text->len;
    bool shown = true;
    mica_status status = prompt->chat
                             ? conversation_by_template(prompt, request, conversation, text)
                             : conversation_by_format(prompt, format, request, conversation, text);
    if (status == MICA_EINVAL) *out = IS_REFUSED;
    if (status == MICA_OK && !form->hides && text->data)
        status = mc_chat_roles_shown(conversation,
                                     (mc_str){text->data + before, text->len - before}, &shown);
    if (shown) return status;
    text->len = before;
    *out = IS_HIDDEN;
    return status;
}

static mica_status render_form(const mc_prompt *prompt, const char *format,
                               const mc_prompt_request *request, const attempt *form,
                               mc_buffer *text, outcome *out) {
    mc_chat_json conversation;
    bool changed = false;
    *out = IS_DONE;
    mica_status status = read_conversation(prompt, request, form->arguments, &conversation);
    if (status == MICA_OK) status = mc_chat_roles_write(&conversation, form->roles, &changed);
    bool same = (form->arguments == MC_ARGUMENTS_TEXT && !conversation.calls) ||
                (form->roles != MC_ROLES_GIVEN && !changed);
    if (status == MICA_OK && !same && prompt->chat)
        status = mc_chat_shape_write(&conversation, mc_chat_template_source(prompt->chat),
                                     request->tools);
    if (status == MICA_OK && same)
        *out = IS_SAME;
    else if (status == MICA_OK)
        status = render_messages(prompt, format, request, form, &conversation, text, out);
    if (status == MICA_OK && *out == IS_DONE && request->continue_last)
        status = mc_chat_json_cut(&conversation, text);
    if (request->in_thoughts) *request->in_thoughts = conversation.marked;
    mc_chat_json_deinit(&conversation);
    return status;
}

mica_status mc_prompt_render_json(const mc_prompt *prompt, const char *format,
                                  const mc_prompt_request *request, mc_buffer *text) {
    outcome out, first = IS_DONE;
    char error[512] = "";
    if (prompt->chat_error) return mc_fail(MICA_EFORMAT, "%s", prompt->chat_error);
    for (int i = 0; i < MC_ROLES_COUNT * 2; i++) {
        const attempt form = {.arguments = i % 2 ? MC_ARGUMENTS_TEXT : MC_ARGUMENTS_OBJECT,
                              .roles = (mc_chat_roles)(i / 2)};
        mica_status status = render_form(prompt, format, request, &form, text, &out);
        if (out == IS_DONE) return status;
        if (i == 0) first = out;
        if (i == 0) snprintf(error, sizeof error, "%s", mica_last_error()); /* the likeliest */
    }
    if (first == IS_REFUSED) return mc_fail(MICA_EINVAL, "%s", error);
    const attempt given = {.hides = true};
    return render_form(prompt, format, request, &given, text, &out);
}

mica_status mc_prompt_encode_rendered(const mc_prompt *prompt, const mc_buffer *text, int32_t **ids,
                                      size_t *n) {
    return mica_tokenizer_encode(prompt->tokenizer, text->data ? text->data : "", text->len, false,
                                 ids, n);
}

/* ---- conversations of C ---- */

/* Adds ,"key":"text", or nothing for NULL. *utf8: whether it is. */
static bool put_member(mc_buffer *json, const char *key, const char *text, bool *utf8) {
    if (!text) return true;
    *utf8 = *utf8 && mc_utf8_valid(text, strlen(text));
    return mc_buffer_printf(json, ",\"%s\":", key) && mc_json_put_text(json, text);
}

static bool put_calls(mc_buffer *json, const mica_message *m, bool *utf8) {
    bool done = m->tool_call_count == 0 || mc_buffer_add_text(json, ",\"tool_calls\":[");
    for (size_t i = 0; done && i < m->tool_call_count; i++) {
        const mica_tool_call *call = &m->tool_calls[i];
        done = mc_buffer_add_text(json, i ? ",{\"type\":\"function\"" : "{\"type\":\"function\"") &&
               put_member(json, "id", call->id, utf8) &&
               mc_buffer_add_text(json, ",\"function\":{\"name\":") &&
               mc_json_put_text(json, call->name) &&
               put_member(json, "arguments", call->arguments, utf8) &&
               mc_buffer_add_text(json, "}}");
        *utf8 = *utf8 && mc_utf8_valid(call->name, strlen(call->name));
    }
    return done && (m->tool_call_count == 0 || mc_buffer_add_byte(json, ']'));
}

static mica_status check_message(const mica_message *m, size_t i) {
    if (!m->role || (!m->content && !m->tool_call_count))
        return mc_fail(MICA_EINVAL, "message %zu has no %s", i, m->role ? "content" : "role");
    if (m->image_count || m->images)
        return mc_fail(MICA_EUNSUPPORTED, "message %zu has images: models here read text alone", i);
    if (m->tool_call_count && !m->tool_calls)
        return mc_fail(MICA_EINVAL, "message %zu: tool_calls is NULL", i);
    for (size_t k = 0; k < m->tool_call_count; k++)
        if (!m->tool_calls[k].name || !m->tool_calls[k].arguments)
            return mc_fail(MICA_EINVAL, "message %zu: call %zu has no %s", i, k,
                           m->tool_calls[k].name ? "arguments" : "name");
    return MICA_OK;
}

static mica_status write_message(const mica_message *m, size_t i, mc_buffer *json) {
    MC_TRY(check_message(m, i));
    bool utf8 = mc_utf8_valid(m->role, strlen(m->role));
    bool done =
        mc_buffer_add_text(json, i ? ",{\"role\":" : "{\"role\":") &&
        mc_json_put_text(json, m->role) && put_member(json, "content", m->content, &utf8) &&
        put_member(json, "name", m->name, &utf8) &&
        put_member(json, "reasoning_content", m->thoughts, &utf8) && put_calls(json, m, &utf8) &&
        put_member(json, "tool_call_id", m->tool_call_id, &utf8) && mc_buffer_add_byte(json, '}');
    if (!utf8) return mc_fail(MICA_EFORMAT, "message %zu is not UTF-8", i);
    return done ? MICA_OK : mc_fail_nomem("a conversation");
}

/* The bytes of a message by what the caller's headers have. */
static size_t bytes_of(const mica_message *m) {
    return m->struct_bytes ? m->struct_bytes : MC_FIRST_BYTES(mica_message, image_count);
}

static mica_status write_messages(const mica_message *messages, size_t count, mc_buffer *json) {
    size_t bytes = bytes_of(messages);
    if (bytes % _Alignof(mica_message))
        return mc_fail(MICA_EINVAL, "message 0: struct_bytes is %zu, want a multiple of %zu", bytes,
                       _Alignof(mica_message));
    if (!mc_buffer_add_byte(json, '[')) return mc_fail_nomem("a conversation");
    for (size_t i = 0; i < count; i++) {
        mica_message m;
        const void *at = (const char *)messages + i * bytes;
        MC_TRY(MC_OPTIONS_COPY(mica_message, image_count, &m, at));
        if (bytes_of(at) != bytes)
            return mc_fail(MICA_EINVAL, "message %zu has another struct_bytes than message 0", i);
        MC_TRY(write_message(&m, i, json));
    }
    return mc_buffer_add_byte(json, ']') ? MICA_OK : mc_fail_nomem("a conversation");
}

mica_status mc_prompt_text(const mc_prompt *prompt, const char *format,
                           const mica_message *messages, size_t count,
                           const mica_generate_options *options, mc_buffer *text) {
    const mica_generate_options defaults = {0};
    mc_buffer json = {0};
    if (!options) options = &defaults;
    mica_status status = write_messages(messages, count, &json);
    if (status == MICA_OK) {
        const mc_prompt_request request = {.messages = json.data,
                                           .messages_len = json.len,
                                           .tools = options->tools,
                                           .variables = options->template_variables,
                                           .continue_last = options->continue_last,
                                           .cancel = options->cancel};
        status = mc_prompt_render_json(prompt, format, &request, text);
    }
    mc_buffer_deinit(&json);
    return status;
}
