#include "tune/conversation.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/json_write.h"

#include <string.h>

/* What a line is read with. */
typedef struct reader {
    const mc_prompt *prompt;
    const char *chat;
    mc_data_keys keys; /* all given */
    mc_json root;
    mc_buffer tools; /* JSON; empty: none */
} reader;

/* ---- messages to ids ---- */

/* The built-in formats take messages of plain texts. texts [2 n] receives copies of these. */
static mica_status read_plain_messages(mc_json list, mc_chat_message *messages, char **texts) {
    size_t n = 0;
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it); n++) {
        mc_str role, content;
        bool plain = mc_json_get_str(mc_json_find(it.value, "role"), &role) &&
                     mc_json_get_str(mc_json_find(it.value, "content"), &content);
        if (!plain) return mc_fail(MICA_EFORMAT, "a message has no role or content");
        texts[2 * n] = mc_strndup(role.ptr, role.len);
        texts[2 * n + 1] = mc_strndup(content.ptr, content.len);
        messages[n] = (mc_chat_message){texts[2 * n], texts[2 * n + 1]};
        if (!messages[n].role || !messages[n].content) return mc_fail_nomem("a conversation");
    }
    return MICA_OK;
}

static mica_status render_format(const reader *r, const char *json, bool open, mc_buffer *out) {
    mc_json_doc *doc = NULL;
    MC_TRY(mc_json_parse(json, strlen(json), "messages", &doc));
    mc_json list = mc_json_root(doc);
    size_t n = mc_json_count(list);
    mc_chat_message *messages = mc_calloc(n + 1, sizeof *messages);
    char **texts = mc_calloc(2 * n + 1, sizeof *texts);
    mica_status status = messages && texts ? read_plain_messages(list, messages, texts)
                                           : mc_fail_nomem("a conversation");
    if (status == MICA_OK) status = mc_prompt_render(r->prompt, r->chat, messages, n, open, out);
    for (size_t i = 0; texts && i < 2 * n; i++)
        mc_free(texts[i]);
    mc_free(texts);
    mc_free(messages);
    mc_json_close(&doc);
    return status;
}

/* Encodes messages; open: the beginning of an answer follows them. */
static mica_status encode_messages(reader *r, const char *json, bool open, int32_t **ids,
                                   size_t *n) {
    mc_buffer text = {0};
    const mc_prompt *p = r->prompt;
    const char *tools = r->tools.len ? mc_buffer_cstr(&r->tools) : NULL;
    const mc_chat_request request = {
        .messages = json, .tools = tools, .add_generation_prompt = open, .bos = p->bos};
    mica_status status;
    if (p->chat_error)
        status = mc_fail(MICA_EFORMAT, "%s", p->chat_error);
    else if (p->chat)
        status = mc_chat_template_render(p->chat, &request, &text);
    else
        status = tools ? mc_fail(MICA_EUNSUPPORTED, "the model's chat format takes no tools")
                       : render_format(r, json, open, &text);
    if (status == MICA_OK)
        status = mica_tokenizer_encode(p->tokenizer, text.data, text.len, false, ids, n);
    mc_buffer_deinit(&text);
    return status;
}

/* How many of the first ids two texts share. */
static size_t shared(const int32_t *a, size_t n, const int32_t *b, size_t m) {
    size_t i = 0;
    while (i < n && i < m && a[i] == b[i])
        i++;
    return i;
}

/* A conversation: `head`, messages without the last, and `last`. Both are JSON without brackets. */
static mica_status read_conversation(reader *r, const mc_buffer *head, const mc_buffer *last,
                                     bool answer, mc_text *text) {
    mc_buffer json = {0};
    int32_t *before = NULL;
    size_t n = 0;
    bool both = head->len && last->len;
    bool done = mc_buffer_add_byte(&json, '[') && mc_buffer_add(&json, head->data, head->len) &&
                (!both || mc_buffer_add_byte(&json, ',')) &&
                mc_buffer_add(&json, last->data, last->len) && mc_buffer_add_byte(&json, ']') &&
                mc_buffer_cstr(&json);
    mica_status status = done ? MICA_OK : mc_fail_nomem("a conversation");
    if (status == MICA_OK) status = encode_messages(r, json.data, false, &text->ids, &text->n);
    mc_buffer_clear(&json);
    if (status == MICA_OK && head->len) {
        done = mc_buffer_add_byte(&json, '[') && mc_buffer_add(&json, head->data, head->len) &&
               mc_buffer_add_byte(&json, ']') && mc_buffer_cstr(&json);
        status = done ? encode_messages(r, json.data, answer, &before, &n)
                      : mc_fail_nomem("a conversation");
        if (status == MICA_OK) text->prompt = shared(text->ids, text->n, before, n);
    }
    mica_free(before);
    mc_buffer_deinit(&json);
    return status;
}

/* ---- messages ---- */

static bool put_message(mc_buffer *out, const char *role, mc_str content) {
    return (!out->len || mc_buffer_add_byte(out, ',')) &&
           mc_buffer_printf(out, "{\"role\":\"%s\",\"content\":", role) &&
           mc_json_put_str(out, content) && mc_buffer_add_byte(out, '}');
}

/* Adds messages; the last one goes to `last`, if that is not NULL. */
static bool put_messages(mc_buffer *out, mc_json list, mc_buffer *last) {
    size_t n = mc_json_count(list), i = 0;
    bool done = true;
    for (mc_json_iter it = mc_json_begin(list); done && mc_json_next(&it); i++) {
        mc_buffer *to = last && i + 1 == n ? last : out;
        done = (!to->len || mc_buffer_add_byte(to, ',')) && mc_json_put_value(to, it.value, 0);
    }
    return done;
}

static bool is_answer(mc_json list) {
    mc_str role = {NULL, 0};
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it);) {
        role = (mc_str){NULL, 0};
        (void)mc_json_get_str(mc_json_find(it.value, "role"), &role);
    }
    return role.ptr && (mc_str_is(role, "assistant") || mc_str_is(role, "model"));
}

static mica_status read_plain(reader *r, mc_str content, mc_text *text) {
    const mc_prompt *p = r->prompt;
    MC_TRY(
        mica_tokenizer_encode(p->tokenizer, content.ptr, content.len, true, &text->ids, &text->n));
    int32_t end = mica_tokenizer_eos(p->tokenizer);
    if (end < 0 && MC_BUFFER_COUNT(&p->stops, int32_t)) end = MC_BUFFER_AT(&p->stops, int32_t)[0];
    if (end < 0 || (text->n && text->ids[text->n - 1] == end)) return MICA_OK;
    int32_t *more = mc_realloc(text->ids, (text->n + 1) * sizeof *more);
    if (!more) return mc_fail_nomem("a text");
    more[text->n++] = end;
    text->ids = more;
    return MICA_OK;
}

/* Messages, or a question as text and its answer as text or messages. */
static mica_status read_dialogue(reader *r, mc_json prompt, mc_json answer, mc_text *text) {
    mc_buffer head = {0}, last = {0};
    mc_str asked, said;
    bool done = true, ends = true;
    if (mc_json_get_str(prompt, &asked))
        done = put_message(&head, "user", asked);
    else if (mc_json_get_type(prompt) == MC_JSON_ARRAY)
        done = put_messages(&head, prompt, NULL);
    if (mc_json_get_str(answer, &said))
        done = done && put_message(&last, "assistant", said);
    else {
        done = done && put_messages(&head, answer, &last);
        ends = is_answer(answer);
    }
    mica_status status = done ? MICA_OK : mc_fail_nomem("a conversation");
    if (status == MICA_OK) status = read_conversation(r, &head, &last, ends, text);
    mc_buffer_deinit(&head);
    mc_buffer_deinit(&last);
    return status;
}

/* ---- empty texts ---- */

static bool is_empty(mc_str text) {
    for (size_t i = 0; i < text.len; i++)
        if (!memchr(" \t\r\n", text.ptr[i], 4)) return false;
    return true;
}

/* A message of the model that neither says nor calls anything teaches to say nothing. */
static bool is_silent(mc_json message) {
    mc_str role = {NULL, 0}, content = {NULL, 0};
    mc_json calls = mc_json_find(message, "tool_calls");
    (void)mc_json_get_str(mc_json_find(message, "role"), &role);
    bool model = role.ptr && (mc_str_is(role, "assistant") || mc_str_is(role, "model"));
    mc_json said = mc_json_find(message, "content");
    bool text = mc_json_get_str(said, &content);
    bool empty = text ? is_empty(content) : mc_json_count(said) == 0;
    return model && empty && mc_json_count(calls) == 0;
}

/* Refuses a text or conversation, of a key, that is empty. */
static mica_status check_talk(mc_json v, const char *key) {
    mc_str text;
    if (mc_json_get_str(v, &text) && is_empty(text))
        return mc_fail(MICA_EFORMAT, "\"%s\" is empty", key);
    if (mc_json_get_type(v) != MC_JSON_ARRAY) return MICA_OK;
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it);)
        if (is_silent(it.value))
            return mc_fail(MICA_EFORMAT, "\"%s\" has an answer that is empty", key);
    return MICA_OK;
}

/* ---- the kinds of lines ---- */

static bool is_talk(mc_json v) {
    mc_json_type type = mc_json_get_type(v);
    return type == MC_JSON_STRING || (type == MC_JSON_ARRAY && mc_json_count(v) > 0);
}

static mica_status read_pair(reader *r, mc_text texts[2], size_t *n) {
    mc_json prompt = mc_json_find(r->root, r->keys.prompt),
            chosen = mc_json_find(r->root, "chosen"), rejected = mc_json_find(r->root, "rejected");
    if (!is_talk(chosen) || !is_talk(rejected) || (mc_json_exists(prompt) && !is_talk(prompt)))
        return mc_fail(MICA_EFORMAT,
                       "want \"chosen\" and \"rejected\", texts or messages, and \"%s\"",
                       r->keys.prompt);
    if (mc_json_get_type(chosen) == MC_JSON_STRING && !mc_json_exists(prompt))
        return mc_fail(MICA_EFORMAT, "\"chosen\" is a text, so there must be a \"%s\"",
                       r->keys.prompt);
    MC_TRY(check_talk(prompt, r->keys.prompt));
    MC_TRY(check_talk(chosen, "chosen"));
    MC_TRY(check_talk(rejected, "rejected"));
    *n = 2;
    MC_TRY(read_dialogue(r, prompt, chosen, &texts[0]));
    return read_dialogue(r, prompt, rejected, &texts[1]);
}

/* Reads messages that were written as JSON without brackets. */
static mica_status read_written(reader *r, const mc_buffer *messages, mc_text *text) {
    const mc_json none = {0};
    mc_buffer all = {0};
    mc_json_doc *doc = NULL;
    bool done = mc_buffer_add_byte(&all, '[') &&
                mc_buffer_add(&all, messages->data, messages->len) && mc_buffer_add_byte(&all, ']');
    mica_status status =
        done ? mc_json_parse(all.data, all.len, "messages", &doc) : mc_fail_nomem("a conversation");
    mc_buffer_deinit(&all);
    if (status == MICA_OK) status = check_talk(mc_json_root(doc), "conversations");
    if (status == MICA_OK) status = read_dialogue(r, none, mc_json_root(doc), text);
    mc_json_close(&doc);
    return status;
}

static bool put_system(const reader *r, mc_buffer *out) {
    mc_str system;
    bool there = mc_json_get_str(mc_json_find(r->root, "system"), &system) && !is_empty(system);
    return !there || put_message(out, "system", system);
}

/* Alpaca: an instruction, with an input behind a blank line, and the output. */
static mica_status read_alpaca(reader *r, mc_str instruction, mc_str output, mc_text *text) {
    mc_buffer asked = {0}, messages = {0};
    mc_str input = MC_STR("");
    (void)mc_json_get_str(mc_json_find(r->root, "input"), &input);
    if (mc_json_count(mc_json_find(r->root, "history")) > 0)
        return mc_fail(MICA_EUNSUPPORTED, "\"history\": write the turns as \"messages\"");
    if (is_empty(instruction) && is_empty(input))
        return mc_fail(MICA_EFORMAT, "\"instruction\" is empty");
    if (is_empty(output)) return mc_fail(MICA_EFORMAT, "\"output\" is empty");
    bool both = !is_empty(instruction) && !is_empty(input);
    bool done = put_system(r, &messages) && mc_buffer_add(&asked, instruction.ptr, instruction.len);
    if (both) done = done && mc_buffer_add_text(&asked, "\n\n");
    if (!is_empty(input)) done = done && mc_buffer_add(&asked, input.ptr, input.len);
    done = done && put_message(&messages, "user", (mc_str){asked.data, asked.len}) &&
           put_message(&messages, "assistant", output);
    mica_status status = done ? read_written(r, &messages, text) : mc_fail_nomem("a conversation");
    mc_buffer_deinit(&asked);
    mc_buffer_deinit(&messages);
    return status;
}

/* The role of a ShareGPT's speaker; NULL: none that is known. */
static const char *role_of(mc_str from) {
    static const struct {
        const char *from, *role;
    } roles[] = {
        {"human", "user"},        {"user", "user"},           {"gpt", "assistant"},
        {"chatgpt", "assistant"}, {"assistant", "assistant"}, {"model", "assistant"},
        {"system", "system"},     {"tool", "tool"},           {"observation", "tool"},
    };
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (mc_str_is(from, roles[i].from)) return roles[i].role;
    return NULL;
}

static mica_status put_turn(mc_json turn, mc_buffer *out) {
    mc_str from, value;
    if (!mc_json_get_str(mc_json_find(turn, "from"), &from) ||
        !mc_json_get_str(mc_json_find(turn, "value"), &value))
        return mc_fail(MICA_EFORMAT, "\"conversations\": a turn has no \"from\" or \"value\"");
    const char *role = role_of(from);
    if (!role)
        return mc_fail(MICA_EUNSUPPORTED,
                       "\"conversations\": a turn of \"%.*s\": mica knows "
                       "human, gpt, system and tool",
                       from.len < 40 ? (int)from.len : 40, from.ptr);
    return put_message(out, role, value) ? MICA_OK : mc_fail_nomem("a conversation");
}

/* ShareGPT: turns of "from" and "value", or messages under that name. */
static mica_status read_sharegpt(reader *r, mc_json turns, mc_text *text) {
    mc_buffer messages = {0};
    mc_json_iter first = mc_json_begin(turns);
    if (mc_json_next(&first) && mc_json_exists(mc_json_find(first.value, "role"))) {
        const mc_json none = {0};
        MC_TRY(check_talk(turns, "conversations"));
        return read_dialogue(r, none, turns, text);
    }
    mica_status status = put_system(r, &messages) ? MICA_OK : mc_fail_nomem("a conversation");
    for (mc_json_iter it = mc_json_begin(turns); status == MICA_OK && mc_json_next(&it);)
        status = put_turn(it.value, &messages);
    if (status == MICA_OK) status = read_written(r, &messages, text);
    mc_buffer_deinit(&messages);
    return status;
}

static mica_status read_text(reader *r, mc_text *text) {
    const mc_json none = {0};
    const mc_data_keys *k = &r->keys;
    mc_json messages = mc_json_find(r->root, k->messages),
            prompt = mc_json_find(r->root, k->prompt),
            completion = mc_json_find(r->root, k->completion),
            turns = mc_json_find(r->root, "conversations");
    mc_str plain, instruction, output;
    if (is_talk(prompt) && is_talk(completion)) {
        MC_TRY(check_talk(prompt, k->prompt));
        MC_TRY(check_talk(completion, k->completion));
        return read_dialogue(r, prompt, completion, text);
    }
    if (mc_json_get_type(messages) == MC_JSON_ARRAY && mc_json_count(messages) > 0) {
        MC_TRY(check_talk(messages, k->messages));
        return read_dialogue(r, none, messages, text);
    }
    if (mc_json_get_str(mc_json_find(r->root, k->text), &plain)) {
        MC_TRY(check_talk(mc_json_find(r->root, k->text), k->text));
        return read_plain(r, plain, text);
    }
    if (mc_json_get_str(mc_json_find(r->root, "instruction"), &instruction) &&
        mc_json_get_str(mc_json_find(r->root, "output"), &output))
        return read_alpaca(r, instruction, output, text);
    if (mc_json_get_type(turns) == MC_JSON_ARRAY && mc_json_count(turns) > 0)
        return read_sharegpt(r, turns, text);
    return mc_fail(MICA_EFORMAT,
                   "want \"%s\", \"%s\" and \"%s\", or \"%s\"; or Alpaca's or ShareGPT's keys",
                   k->messages, k->prompt, k->completion, k->text);
}

/* The keys of lines, each of which may be another one. */
static mc_data_keys fill_keys(const mc_data_keys *given) {
    return (mc_data_keys){
        .prompt = given->prompt ? given->prompt : "prompt",
        .completion = given->completion ? given->completion : "completion",
        .messages = given->messages ? given->messages : "messages",
        .text = given->text ? given->text : "text",
    };
}

mica_status mc_conversation_read(const mc_conversation_options *options, mc_str line,
                                 mc_text texts[2], size_t *n) {
    reader r = {.prompt = options->prompt, .chat = options->chat, .keys = fill_keys(options->keys)};
    mc_json_doc *doc = NULL;
    MC_TRY(mc_json_parse(line.ptr, line.len, "the record", &doc));
    r.root = mc_json_root(doc);
    mica_status status = MICA_OK;
    mc_json tools = mc_json_find(r.root, "tools");
    if (mc_json_get_type(r.root) != MC_JSON_OBJECT)
        status = mc_fail(MICA_EFORMAT, "is no JSON object");
    else if (mc_json_exists(tools) && mc_json_count(tools) > 0 &&
             !mc_json_put_value(&r.tools, tools, 0))
        status = mc_fail_nomem("the tools of a conversation");
    *n = 1;
    if (status == MICA_OK)
        status = options->pairs ? read_pair(&r, texts, n) : read_text(&r, &texts[0]);
    mc_buffer_deinit(&r.tools);
    mc_json_close(&doc);
    return status;
}
