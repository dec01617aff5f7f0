#include "answer/json_scan.h"

#include "answer/format.h"
#include "base/json.h"
#include "base/utf8.h"

#include <string.h>

/* What a step returns, if it does not read that many bytes. */
enum { WAITS = 0, BROKEN = -1, NO_MEMORY = -2 };

enum { MAX_SCALAR = 4096 };

mc_json_scan mc_json_scan_within(size_t objects) {
    mc_json_scan scan = {.expect = MC_JSON_EXPECT_COMMA};
    while (scan.depth < objects)
        scan.objects[scan.depth++] = true;
    return scan;
}

/* Whether a short text is a value, in the words of a step. */
static int check(mc_str text) {
    mc_json_doc *doc = NULL;
    mica_status status = mc_json_parse(text.ptr, text.len, "a value", &doc);
    mc_json_close(&doc);
    return status == MICA_OK ? (int)text.len : status == MICA_ENOMEM ? NO_MEMORY : BROKEN;
}

static void end_value(mc_json_scan *s) {
    s->expect = s->depth ? MC_JSON_EXPECT_COMMA : MC_JSON_EXPECT_END;
}

/* ---- strings ---- */

static bool is_high_surrogate(const char *escape) {
    return (escape[2] | 0x20) == 'd' && strchr("89abAB", escape[3]);
}

/* An escape; two for a character of two surrogates. */
static int read_escape(mc_str rest) {
    enum { UNIT = 6, PAIR = 12 };
    char quoted[PAIR + 2];
    size_t n = UNIT;
    if (rest.len < 2) return WAITS;
    if (rest.ptr[1] != 'u') return rest.ptr[1] && strchr("\"\\/bfnrt", rest.ptr[1]) ? 2 : BROKEN;
    if (rest.len < UNIT) return WAITS;
    if (is_high_surrogate(rest.ptr)) {
        const mc_str next = {rest.ptr + UNIT, rest.len - UNIT}, mark = MC_STR("\\u");
        if (rest.len < PAIR && (mc_str_starts(mark, next) || mc_str_starts(next, mark)))
            return WAITS;
        if (mc_str_starts(next, mark)) n = PAIR;
    }
    quoted[0] = quoted[n + 1] = '"';
    memcpy(quoted + 1, rest.ptr, n);
    int read = check((mc_str){quoted, n + 2});
    return read > 0 ? (int)n : read;
}

/* The next character of a string, or its end. */
static int read_character(mc_json_scan *s, mc_str rest) {
    unsigned char c = (unsigned char)*rest.ptr;
    uint32_t codepoint;
    if (c == '"') {
        if (s->expect == MC_JSON_EXPECT_KEY_STRING)
            s->expect = MC_JSON_EXPECT_COLON;
        else
            end_value(s);
        return 1;
    }
    if (c == '\\') return read_escape(rest);
    if (c < 0x20) return BROKEN;
    if (c < 0x80 || c == MC_MARK) return 1;
    size_t n = mc_utf8_decode(rest.ptr, rest.len, &codepoint);
    if (n) return (int)n;
    return rest.len < 4 && mc_utf8_unfinished(rest.ptr, rest.len) == rest.len ? WAITS : BROKEN;
}

/* ---- between strings ---- */

static int open_bracket(mc_json_scan *s, bool object) {
    if (s->depth == MC_JSON_SCAN_DEPTH) return BROKEN;
    s->objects[s->depth++] = object;
    s->expect = object ? MC_JSON_EXPECT_MEMBER : MC_JSON_EXPECT_FIRST;
    return 1;
}

static int close_bracket(mc_json_scan *s, char c) {
    if (s->objects[s->depth - 1] != (c == '}')) return BROKEN;
    s->depth--;
    end_value(s);
    return 1;
}

/* A number or a word, which is known once something follows it. */
static int read_scalar(mc_json_scan *s, mc_str rest) {
    size_t n = 0;
    while (n < rest.len && n < MAX_SCALAR &&
           (strchr("+-.", rest.ptr[n]) || (rest.ptr[n] >= '0' && rest.ptr[n] <= '9') ||
            ((rest.ptr[n] | 0x20) >= 'a' && (rest.ptr[n] | 0x20) <= 'z')) &&
           rest.ptr[n])
        n++;
    if (n == MAX_SCALAR || !n) return BROKEN;
    if (n == rest.len) return WAITS;
    int read = check((mc_str){rest.ptr, n});
    if (read > 0) end_value(s);
    return read;
}

static int read_value(mc_json_scan *s, mc_str rest) {
    char c = *rest.ptr;
    if (c == '{' || c == '[') return open_bracket(s, c == '{');
    if (c != '"') return read_scalar(s, rest);
    s->expect = MC_JSON_EXPECT_STRING;
    return 1;
}

static int read_key(mc_json_scan *s, char c) {
    if (c != '"') return BROKEN;
    s->expect = MC_JSON_EXPECT_KEY_STRING;
    return 1;
}

static int read_comma(mc_json_scan *s, char c) {
    if (c == '}' || c == ']') return close_bracket(s, c);
    if (c != ',') return BROKEN;
    s->expect = s->objects[s->depth - 1] ? MC_JSON_EXPECT_KEY : MC_JSON_EXPECT_VALUE;
    return 1;
}

/* The next token, or character of a string. */
static int step(mc_json_scan *s, mc_str rest) {
    char c = *rest.ptr;
    bool string = s->expect == MC_JSON_EXPECT_STRING || s->expect == MC_JSON_EXPECT_KEY_STRING;
    if (string) return read_character(s, rest);
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') return 1;
    switch (s->expect) {
    case MC_JSON_EXPECT_MEMBER:
        return c == '}' ? close_bracket(s, c) : read_key(s, c);
    case MC_JSON_EXPECT_KEY:
        return read_key(s, c);
    case MC_JSON_EXPECT_COLON:
        if (c != ':') return BROKEN;
        s->expect = MC_JSON_EXPECT_VALUE;
        return 1;
    case MC_JSON_EXPECT_COMMA:
        return read_comma(s, c);
    case MC_JSON_EXPECT_FIRST:
        return c == ']' ? close_bracket(s, c) : read_value(s, rest);
    default:
        return read_value(s, rest);
    }
}

mica_status mc_json_scan_push(mc_json_scan *scan, mc_str text, size_t *used, bool *good) {
    size_t at = 0;
    int read = 1;
    while (at < text.len && !mc_json_scan_is_done(scan) && read > 0) {
        read = step(scan, (mc_str){text.ptr + at, text.len - at});
        if (read > 0) at += (size_t)read;
    }
    *used = at;
    *good = read != BROKEN;
    return read == NO_MEMORY ? mc_fail_nomem("a call of a tool") : MICA_OK;
}
