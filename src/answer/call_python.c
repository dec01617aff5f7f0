#include "answer/call_python.h"

#include "answer/format.h"
#include "answer/json_scan.h"
#include "base/json_write.h"
#include "base/utf8.h"
#include "text/find.h"

#include <string.h>

enum { MAX_DEPTH = 64 };

typedef struct reader {
    mc_str text;
    size_t at;
    int depth;
    mc_str quote;   /* of strings; empty: Python's */
    mc_buffer *out; /* JSON */
    bool no_memory;
} reader;

bool mc_is_python_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
}

static bool add(reader *r, mc_buffer *to, const char *bytes, size_t n) {
    if (mc_buffer_add(to, bytes, n)) return true;
    r->no_memory = true;
    return false;
}

static bool put(reader *r, const char *bytes, size_t n) {
    return add(r, r->out, bytes, n);
}

static void skip_space(reader *r) {
    r->at = mc_json_skip_space(r->text, r->at);
}

/* The next character that is no white space; 0: the end. */
static char peek(reader *r) {
    skip_space(r);
    return r->at < r->text.len ? r->text.ptr[r->at] : '\0';
}

static bool take_char(reader *r, char c) {
    if (peek(r) != c) return false;
    r->at++;
    return true;
}

static bool read_value(reader *r);

/* ---- strings ---- */

static bool take_hex(reader *r, int count, uint32_t *value) {
    *value = 0;
    for (int i = 0; i < count; i++, r->at++) {
        static const char hex[] = "0123456789abcdef";
        if (r->at >= r->text.len) return false;
        int c = r->text.ptr[r->at];
        if (c >= 'A' && c <= 'F') c += 'a' - 'A';
        const char *found = c ? strchr(hex, c) : NULL;
        if (!found) return false;
        *value = *value * 16 + (uint32_t)(found - hex);
    }
    return true;
}

/* The second half of a character that JSON writes as two. */
static bool take_half(reader *r, uint32_t *value) {
    uint32_t low;
    if (*value < 0xd800 || *value > 0xdbff) return *value < 0xdc00 || *value > 0xdfff;
    if (r->text.len - r->at < 2 || memcmp(r->text.ptr + r->at, "\\u", 2) != 0) {
        if (r->text.len - r->at < 2) r->at = r->text.len; /* it may follow */
        return false;
    }
    r->at += 2;
    if (!take_hex(r, 4, &low) || low < 0xdc00 || low > 0xdfff) return false;
    *value = 0x10000 + ((*value - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

/* What follows a backslash: Python's escapes, and JSON's. */
static bool read_escape(reader *r, mc_buffer *text) {
    static const char names[] = "ntr\\'\"bf0/", values[] = "\n\t\r\\'\"\b\f\0/";
    char c = r->at < r->text.len ? r->text.ptr[r->at++] : '\0';
    const char *found = c ? strchr(names, c) : NULL;
    char bytes[4];
    uint32_t value;
    if (c == '\n') return true;
    if (found) return add(r, text, &values[found - names], 1);
    if (c == 'x' || c == 'u' || c == 'U') {
        if (!take_hex(r, c == 'x' ? 2 : c == 'u' ? 4 : 8, &value)) return false;
        if (value > MC_CHAR_MAX || !take_half(r, &value)) return false;
        return add(r, text, bytes, mc_utf8_encode(value, bytes));
    }
    return c && add(r, text, "\\", 1) && add(r, text, &c, 1); /* as Python does */
}

static bool read_quoted(reader *r, mc_buffer *text) {
    char quote = r->text.ptr[r->at++];
    while (r->at < r->text.len && r->text.ptr[r->at] != quote) {
        char c = r->text.ptr[r->at++];
        if ((unsigned char)c == MC_MARK) continue;
        if (c == '\\' ? !read_escape(r, text) : !add(r, text, &c, 1)) return false;
    }
    return r->at++ < r->text.len;
}

/* Whether a string between marks begins here. A part of the mark may become one. */
static bool is_marked(reader *r) {
    const mc_str rest = {r->text.ptr + r->at, r->text.len - r->at};
    if (!r->quote.len || mc_str_starts(rest, r->quote)) return r->quote.len > 0;
    if (mc_str_starts(r->quote, rest)) r->at = r->text.len;
    return false;
}

/* What is between two marks, as it is. */
static bool read_marked(reader *r, mc_buffer *text) {
    size_t from = r->at + r->quote.len, to = mc_find(r->text, r->quote, from);
    r->at = to;
    if (to == r->text.len) return false;
    r->at += r->quote.len;
    bool done = mc_call_text_add((mc_str){r->text.ptr + from, to - from}, text);
    r->no_memory = r->no_memory || !done;
    return done;
}

static bool read_string(reader *r) {
    mc_buffer text = {0};
    bool good = is_marked(r) ? read_marked(r, &text) : r->at < r->text.len && read_quoted(r, &text);
    good = good && mc_utf8_valid(text.data ? text.data : "", text.len);
    good = good && put(r, "\"", 1);
    if (good && !mc_json_escape(r->out, (mc_str){text.data, text.len})) {
        r->no_memory = true;
        good = false;
    }
    mc_buffer_deinit(&text);
    return good && put(r, "\"", 1);
}

/* ---- other values ---- */

static bool read_word(reader *r) {
    static const struct {
        const char *word, *json;
    } words[] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                 {"true", "true"}, {"false", "false"}, {"null", "null"}};
    const mc_str rest = {r->text.ptr + r->at, r->text.len - r->at};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (mc_str_starts(rest, mc_str_of(words[i].word))) {
            r->at += strlen(words[i].word);
            return put(r, words[i].json, strlen(words[i].json));
        }
    return false;
}

static size_t count_digits(const reader *r, size_t at) {
    size_t n = 0;
    while (at + n < r->text.len && r->text.ptr[at + n] >= '0' && r->text.ptr[at + n] <= '9')
        n++;
    return n;
}

/* A number of JSON's form; Python's others are refused. */
static bool read_number(reader *r) {
    size_t from = r->at, at = r->at + (r->text.ptr[r->at] == '-'), n = count_digits(r, at);
    if (!n || (n > 1 && r->text.ptr[at] == '0')) return false;
    at += n;
    if (at < r->text.len && r->text.ptr[at] == '.') {
        n = count_digits(r, at + 1);
        if (!n) return false;
        at += n + 1;
    }
    if (at < r->text.len && (r->text.ptr[at] | 0x20) == 'e') {
        at++;
        if (at < r->text.len && strchr("+-", r->text.ptr[at]) && r->text.ptr[at]) at++;
        n = count_digits(r, at);
        if (!n) return false;
        at += n;
    }
    r->at = at;
    return put(r, r->text.ptr + from, at - from);
}

static mc_str read_name(reader *r) {
    skip_space(r);
    size_t from = r->at;
    while (r->at < r->text.len && mc_is_python_name(r->text.ptr[r->at]))
        r->at++;
    return (mc_str){r->text.ptr + from, r->at - from};
}

/* A name, as JSON. */
static bool read_bare_key(reader *r) {
    mc_str key = read_name(r);
    return key.len && put(r, "\"", 1) && put(r, key.ptr, key.len) && put(r, "\"", 1);
}

/* The key of a dictionary. */
static bool read_key(reader *r) {
    char c = peek(r);
    if (c == '"' || c == '\'' || is_marked(r)) return read_string(r);
    return r->quote.len && read_bare_key(r);
}

/* What is between brackets: values, or keys and values. */
static bool read_elements(reader *r, char close, bool keys) {
    if (!put(r, keys ? "{" : "[", 1)) return false;
    for (size_t i = 0; peek(r) != close; i++) {
        if (i && !take_char(r, ',')) return false;
        if (peek(r) == close) break; /* a comma behind the last one */
        if (i && !put(r, ", ", 2)) return false;
        if (keys && (!read_key(r) || !take_char(r, ':') || !put(r, ": ", 2))) return false;
        if (!read_value(r)) return false;
    }
    r->at++;
    return put(r, keys ? "}" : "]", 1);
}

static bool read_value(reader *r) {
    char c = peek(r);
    bool good;
    if (c == '"' || c == '\'' || is_marked(r)) return read_string(r);
    if (c == '-' || (c >= '0' && c <= '9')) return read_number(r);
    if (c != '[' && c != '(' && c != '{') return read_word(r);
    if (++r->depth > MAX_DEPTH) return false;
    r->at++;
    good = read_elements(r, c == '[' ? ']' : c == '(' ? ')' : '}', c == '{');
    r->depth--;
    return good;
}

mica_status mc_python_value_add(mc_str text, mc_buffer *json, bool *good) {
    reader r = {.text = text, .out = json};
    size_t before = json->len;
    *good = read_value(&r) && !peek(&r);
    if (!*good) json->len = before;
    return r.no_memory ? mc_fail_nomem("a call of a tool") : MICA_OK;
}

/* ---- calls ---- */

/* key=value, or key:value, behind `count` others. */
static bool read_argument(reader *r, size_t count) {
    if (count && !put(r, ", ", 2)) return false;
    if (r->quote.len) return read_key(r) && take_char(r, ':') && put(r, ": ", 2) && read_value(r);
    return read_bare_key(r) && take_char(r, '=') && put(r, ": ", 2) && read_value(r);
}

/* key=value, ... behind the parenthesis, as an object. */
static bool read_arguments(reader *r) {
    if (!put(r, "{", 1)) return false;
    for (size_t i = 0; peek(r) != ')'; i++) {
        if (i && !take_char(r, ',')) return false;
        if (peek(r) == ')') break;
        if (!read_argument(r, i)) return false;
    }
    r->at++;
    return put(r, "}", 1);
}

static bool read_call(reader *r, const mc_tools *tools, mc_calls *calls) {
    mc_str name = read_name(r);
    if (!take_char(r, '(')) return false;
    if (mc_str_is(name, "print") && !mc_tools_find(tools, name)) {
        bool good = ++r->depth <= MAX_DEPTH && read_call(r, tools, calls) && take_char(r, ')');
        r->depth--;
        return good;
    }
    if (!mc_tools_find(tools, name)) return false;
    mc_tool_call call = {.name = calls->text.len, .name_len = name.len};
    if (!put(r, name.ptr, name.len)) return false;
    call.arguments = calls->text.len;
    if (!read_arguments(r)) return false;
    call.arguments_len = calls->text.len - call.arguments;
    if (mc_buffer_add(&calls->list, &call, sizeof call)) return true;
    r->no_memory = true;
    return false;
}

mica_status mc_python_calls_read(mc_str text, const mc_tools *tools, mc_calls *calls, bool *good) {
    reader r = {.text = text, .out = &calls->text};
    bool list = take_char(&r, '[');
    *good = true;
    do {
        *good = read_call(&r, tools, calls);
        (void)(take_char(&r, ',') || take_char(&r, ';'));
    } while (*good && peek(&r) && peek(&r) != ']');
    if (*good && list) *good = take_char(&r, ']');
    *good = *good && !peek(&r);
    return r.no_memory ? mc_fail_nomem("calls of tools") : MICA_OK;
}

/* ---- arguments one after the other ---- */

/* Whether what a reader stopped at may go on: a string without its end, a part of a number or of a
 * word. */
static bool is_cut(const reader *r) {
    size_t at = r->at;
    while (at < r->text.len && (mc_is_python_name(r->text.ptr[at]) || r->text.ptr[at] == '+'))
        at++;
    return at >= r->text.len;
}

static mica_status read_one(mc_str text, mc_str quote, size_t count, mc_buffer *out, size_t *used,
                            mc_python_part *part) {
    reader r = {.text = text, .quote = quote, .out = out};
    char close = quote.len ? '}' : ')', next = peek(&r);
    bool good = count || put(&r, "{", 1);
    *part = MC_PYTHON_END;
    if (good && next == close) {
        r.at++;
        good = put(&r, "}", 1);
    } else {
        *part = MC_PYTHON_ARGUMENT;
        good = good && read_argument(&r, count);
        next = good ? peek(&r) : '\0';
        if (next == ',')
            r.at++;
        else if (next != close)
            good = false;
    }
    if (r.no_memory) return mc_fail_nomem("calls of tools");
    if (!good) {
        mc_buffer_clear(out);
        *part = is_cut(&r) ? MC_PYTHON_CUT : MC_PYTHON_BAD;
    }
    *used = good ? r.at : 0;
    return MICA_OK;
}

mica_status mc_python_argument_try(mc_str text, mc_str quote, bool ended, size_t count,
                                   size_t *tried, mc_buffer *out, size_t *used,
                                   mc_python_part *part) {
    enum { SHORT = 256 };
    mc_buffer_clear(out);
    *used = 0;
    *part = MC_PYTHON_CUT;
    if (!ended && *tried > SHORT && text.len < *tried + *tried / 8) return MICA_OK;
    MC_TRY(read_one(text, quote, count, out, used, part));
    *tried = *part == MC_PYTHON_CUT ? text.len : 0;
    return MICA_OK;
}
