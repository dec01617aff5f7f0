#include "text/chat/chat_shape.h"

#include "base/json.h"
#include "base/json_write.h"
#include "base/map.h"
#include "text/find.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { NINE = 9 };

/* What a template asks for. */
typedef struct shape {
    bool no_content;      /* null as the content of a message that has calls alone */
    bool short_ids;       /* ids of nine letters and digits */
    bool numbered;        /* ids that are functions.NAME:NUMBER */
    bool names;           /* the tool's name in its result */
    bool tools;           /* tools as text in the system message */
    const char *thoughts; /* the member of these; NULL: reasoning_content */
} shape;

typedef struct writer {
    shape shape;
    mc_buffer out;
    mc_json messages;
    const char *tools; /* NULL: none, or they are written */
    mc_buffer calls;   /* mc_json: all that are written */
    mc_map latest;     /* from an id to the number of the last of these that has it */
} writer;

static mica_status put(bool done) {
    return done ? MICA_OK : mc_fail_nomem("a conversation");
}

static bool has(mc_str source, const char *word) {
    return mc_find(source, mc_str_of(word), 0) < source.len;
}

static bool has_any(mc_str source, const char *const *words) {
    while (*words && !has(source, *words))
        words++;
    return *words != NULL;
}

static shape shape_of(mc_str source) {
    static const char *const null_content[] = {"['content'] is none", "[\"content\"] is none",
                                               ".content is none", NULL},
                             *const nine[] = {"length != 9", "length == 9", "length!=9", NULL},
                             *const names[] = {"message.name", "message['name']",
                                               "message[\"name\"]", NULL},
                             *const tools[] = {"message['tools']", "message.tools", NULL};
    static const char *const thoughts[] = {"thinking", "reasoning"};
    shape s = {.no_content = has_any(source, null_content),
               .short_ids = has_any(source, nine),
               .numbered = has(source, "<|tool_call_argument_begin|>"),
               .names = has_any(source, names),
               .tools = has_any(source, tools)};
    for (size_t i = 0; i < sizeof thoughts / sizeof *thoughts && !s.thoughts; i++) {
        char words[3][32];
        const char *const forms[] = {"message.%s", "message['%s']", "message[\"%s\"]"};
        for (size_t k = 0; k < 3; k++) {
            snprintf(words[k], sizeof words[k], forms[k], thoughts[i]);
            if (!has(source, "reasoning_content") && has(source, words[k]))
                s.thoughts = thoughts[i];
        }
    }
    return s;
}

/* ---- how hard it thinks, and whether ---- */

mc_chat_switch mc_chat_shape_switch(mc_str source) {
    static const struct {
        mc_chat_switch is;
        const char *shown[6];
    } rows[] = {{{"enable_thinking", {NULL, NULL}}, {"enable_thinking"}},
                {{"thinking_mode", {"disabled", "enabled"}}, {"thinking_mode is defined"}},
                {{"thinking", {NULL, NULL}},
                 {"thinking is defined", "thinking is undefined", "if thinking %}",
                  "if thinking -%}", "if not thinking %}"}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (has_any(source, rows[i].shown)) return rows[i].is;
    return (mc_chat_switch){.name = NULL};
}

const char *mc_chat_shape_effort(mc_str source) {
    static const char *const names[] = {"reasoning_effort", "thinking_effort",
                                        "reasoning_strength"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (has(source, names[i])) return names[i];
    return NULL;
}

const char *mc_chat_shape_variable(mc_str source) {
    const char *effort = mc_chat_shape_effort(source);
    return effort ? effort : mc_chat_shape_switch(source).name;
}

/* The place of a word among the efforts; -1: it is none. */
static int rank_of(mc_str word) {
    static const char *const words[][2] = {
        {"none", "no_think"}, {"minimal", "minimal"}, {"low", "low"}, {"medium", "medium"},
        {"high", "high"},     {"xhigh", "xhigh"},     {"max", "max"}};
    for (int i = 0; i < (int)(sizeof words / sizeof *words); i++)
        if (mc_str_is(word, words[i][0]) || mc_str_is(word, words[i][1])) return i;
    return -1;
}

/* The next word in quotes; false: the list has no more. */
static bool next_word(mc_str *list, mc_str *word) {
    size_t at = 0, to;
    while (at < list->len && list->ptr[at] != '\'' && list->ptr[at] != '"' && list->ptr[at] != ']')
        at++;
    if (at >= list->len || list->ptr[at] == ']') return false;
    for (to = at + 1; to < list->len && list->ptr[to] != list->ptr[at];)
        to++;
    *word = (mc_str){list->ptr + at + 1, to - at - 1};
    to += to < list->len;
    *list = (mc_str){list->ptr + to, list->len - to};
    return true;
}

/* The words that a template takes: those behind "effort not in [", where it refuses others. Harmony
 * does not say so. */
static mc_str words_of(mc_str source) {
    const mc_str refuses = MC_STR("effort not in [");
    size_t at = mc_find(source, refuses, 0) + refuses.len;
    if (at <= source.len) return (mc_str){source.ptr + at, source.len - at};
    return has(source, "<|channel|>") ? MC_STR("'low', 'medium', 'high']") : MC_STR("");
}

mc_str mc_chat_shape_effort_word(mc_str source, mc_str word) {
    mc_str list = words_of(source), known, found = word;
    int rank = rank_of(word), nearest = INT32_MAX;
    while (rank >= 0 && next_word(&list, &known)) {
        int distance = 2 * (rank_of(known) - rank); /* the lower of two is nearer */
        distance = distance < 0 ? -distance - 1 : distance;
        if (rank_of(known) < 0 || distance >= nearest) continue;
        nearest = distance;
        found = known;
    }
    return found;
}

/* ---- ids ---- */

static mc_str text_of(mc_json object, const char *member) {
    mc_str text = MC_STR("");
    mc_json_get_str(mc_json_find(object, member), &text);
    return text;
}

static bool is_short(mc_str id) {
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')))
            return false;
    }
    return id.len == NINE;
}

/* Puts nine letters and digits that an id always becomes (FNV-1a). */
static bool put_short(mc_buffer *out, mc_str id) {
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint64_t hash = UINT64_C(14695981039346656037);
    char text[NINE];
    if (is_short(id)) return mc_json_put_str(out, id);
    for (size_t i = 0; i < id.len; i++)
        hash = (hash ^ (uint8_t)id.ptr[i]) * UINT64_C(1099511628211);
    for (int i = 0; i < NINE; i++, hash /= sizeof digits - 1)
        text[i] = digits[hash % (sizeof digits - 1)];
    return mc_json_put_str(out, (mc_str){text, NINE});
}

/* Notes a call that is to be written: an id is that of the last call before it that has it. */
static bool note_call(writer *w, mc_json call) {
    size_t number = MC_BUFFER_COUNT(&w->calls, mc_json);
    return mc_buffer_add(&w->calls, &call, sizeof call) &&
           mc_map_put(&w->latest, text_of(call, "id"), number);
}

/* The name of the tool that the latest call with an id calls. *number: of all calls. false: there
 * is none. */
static bool find_call(const writer *w, mc_str id, mc_str *name, uint64_t *number) {
    if (!mc_map_find(&w->latest, id, number)) return false;
    *name = text_of(mc_json_find(MC_BUFFER_AT(&w->calls, mc_json)[*number], "function"), "name");
    return true;
}

static bool put_id(writer *w, mc_str id) {
    mc_str name;
    uint64_t number;
    if (w->shape.short_ids) return put_short(&w->out, id);
    if (!w->shape.numbered || mc_str_starts(id, MC_STR("functions.")) ||
        !find_call(w, id, &name, &number))
        return mc_json_put_str(&w->out, id);
    mc_buffer made = {0};
    bool done = mc_buffer_printf(&made, "functions.%.*s:%llu", MC_STR_ARG(name),
                                 (unsigned long long)number) &&
                mc_json_put_str(&w->out, (mc_str){made.data, made.len});
    mc_buffer_deinit(&made);
    return done;
}

static bool put_calls(writer *w, mc_json calls) {
    bool done = mc_buffer_add_byte(&w->out, '['), some = false;
    for (mc_json_iter it = mc_json_begin(calls); done && mc_json_next(&it); some = true) {
        bool first = true;
        done = note_call(w, it.value) && (!some || mc_buffer_add_byte(&w->out, ','));
        done = done && mc_buffer_add_byte(&w->out, '{');
        for (mc_json_iter m = mc_json_begin(it.value); done && mc_json_next(&m); first = false) {
            mc_str id;
            done = (first || mc_buffer_add_byte(&w->out, ',')) && mc_json_put_str(&w->out, m.key) &&
                   mc_buffer_add_byte(&w->out, ':');
            bool is_id = mc_str_is(m.key, "id") && mc_json_get_str(m.value, &id);
            done = done &&
                   (is_id ? put_id(w, id) : mc_json_put_value(&w->out, m.value, MC_JSON_ONE_LINE));
        }
        done = done && mc_buffer_add_byte(&w->out, '}');
    }
    return done && mc_buffer_add_byte(&w->out, ']');
}

/* ---- messages ---- */

/* Puts the value of a member. */
static bool put_member(writer *w, mc_json message, mc_str key, mc_json value) {
    mc_str text;
    bool calls = mc_json_count(mc_json_find(message, "tool_calls")) > 0;
    if (mc_str_is(key, "tool_calls")) return put_calls(w, value);
    if (mc_str_is(key, "tool_call_id") && mc_json_get_str(value, &text)) return put_id(w, text);
    if (mc_str_is(key, "content") && calls && w->shape.no_content &&
        mc_json_get_str(value, &text) && !text.len)
        return mc_buffer_add_text(&w->out, "null");
    return mc_json_put_value(&w->out, value, MC_JSON_ONE_LINE);
}

/* Puts members that the message lacks. */
static bool put_more(writer *w, mc_json message) {
    mc_str role = text_of(message, "role"), thoughts = text_of(message, "reasoning_content");
    bool done = true;
    if (w->shape.thoughts && thoughts.len)
        done = mc_buffer_printf(&w->out, ",\"%s\":", w->shape.thoughts) &&
               mc_json_put_str(&w->out, thoughts);
    if (w->shape.names && mc_str_is(role, "tool") &&
        !mc_json_exists(mc_json_find(message, "name"))) {
        uint64_t number;
        mc_str name = MC_STR("");
        if (find_call(w, text_of(message, "tool_call_id"), &name, &number) && name.len)
            done =
                done && mc_buffer_add_text(&w->out, ",\"name\":") && mc_json_put_str(&w->out, name);
    }
    if (w->shape.tools && w->tools && mc_str_is(role, "system")) {
        done = done && mc_buffer_add_text(&w->out, ",\"tools\":") &&
               mc_json_put_text(&w->out, w->tools);
        w->tools = NULL;
    }
    return done;
}

static mica_status write_all(writer *w) {
    bool done = mc_buffer_add_byte(&w->out, '['), some = false;
    mc_json_iter first = mc_json_begin(w->messages);
    if (w->shape.tools && w->tools && mc_json_next(&first) &&
        !mc_str_is(text_of(first.value, "role"), "system")) {
        done = done &&
               mc_buffer_add_text(&w->out, "{\"role\":\"system\",\"content\":\"\","
                                           "\"tools\":") &&
               mc_json_put_text(&w->out, w->tools) && mc_buffer_add_byte(&w->out, '}');
        w->tools = NULL;
        some = true;
    }
    for (mc_json_iter it = mc_json_begin(w->messages); done && mc_json_next(&it); some = true) {
        bool begun = false;
        done = (!some || mc_buffer_add_byte(&w->out, ',')) && mc_buffer_add_byte(&w->out, '{');
        for (mc_json_iter m = mc_json_begin(it.value); done && mc_json_next(&m); begun = true)
            done = (!begun || mc_buffer_add_byte(&w->out, ',')) &&
                   mc_json_put_str(&w->out, m.key) && mc_buffer_add_byte(&w->out, ':') &&
                   put_member(w, it.value, m.key, m.value);
        done = done && put_more(w, it.value) && mc_buffer_add_byte(&w->out, '}');
    }
    return put(done && mc_buffer_add_byte(&w->out, ']') && mc_buffer_cstr(&w->out));
}

mica_status mc_chat_shape_write(mc_chat_json *conversation, mc_str source, const char *tools) {
    writer w = {.shape = shape_of(source), .tools = tools};
    mc_json_doc *doc = NULL;
    bool asks = w.shape.no_content || w.shape.short_ids || w.shape.numbered || w.shape.names ||
                w.shape.thoughts || (w.shape.tools && tools);
    if (!asks) return MICA_OK;
    MC_TRY(mc_json_parse(conversation->json.data, conversation->json.len, "messages", &doc));
    w.messages = mc_json_root(doc);
    mica_status status = write_all(&w);
    mc_json_close(&doc);
    if (status == MICA_OK) {
        mc_buffer other = conversation->json;
        conversation->json = w.out;
        w.out = other;
    }
    mc_buffer_deinit(&w.out);
    mc_buffer_deinit(&w.calls);
    mc_map_deinit(&w.latest);
    return status;
}
