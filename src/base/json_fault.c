#include "base/json_fault.h"

#include "base/str.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* An array or object that the scan is in. */
typedef struct level {
    bool object;
    size_t key, key_len; /* of the member, between its quotes */
    size_t index;        /* of the element */
} level;

typedef struct scan {
    const char *text;
    size_t len, at;
    bool python;
    level levels[MC_JSON_DEPTH];
    size_t depth;
    const char *why; /* NULL: no fault so far */
} scan;

static bool fail(scan *s, const char *why) {
    if (!s->why) s->why = why;
    return false;
}

static int peek(const scan *s) {
    return s->at < s->len ? (unsigned char)s->text[s->at] : -1;
}

static bool take_char(scan *s, char c) {
    if (peek(s) != (unsigned char)c) return false;
    s->at++;
    return true;
}

static void skip_blanks(scan *s) {
    while (s->at < s->len && memchr(" \t\r\n", s->text[s->at], 4))
        s->at++;
}

/* ---- strings and numbers ---- */

static bool is_digit(int c) {
    return c >= '0' && c <= '9';
}

static bool is_hex(int c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* The four digits behind \u. */
static bool scan_unit(scan *s, unsigned *unit) {
    *unit = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        int c = peek(s);
        if (!is_hex(c)) return fail(s, "has a malformed string");
        *unit = *unit * 16 + (unsigned)(is_digit(c) ? c - '0' : (c | 32) - 'a' + 10);
    }
    return true;
}

static bool scan_escape(scan *s) {
    unsigned unit, low;
    int c = peek(s);
    s->at++;
    if (c != 'u') return (c > 0 && strchr("\"\\/bfnrt", c)) || fail(s, "has a malformed string");
    if (!scan_unit(s, &unit)) return false;
    if (unit < 0xd800 || unit > 0xdfff) return true;
    bool pair = unit < 0xdc00 && take_char(s, '\\') && take_char(s, 'u') && scan_unit(s, &low) &&
                low >= 0xdc00 && low <= 0xdfff;
    return pair || fail(s, "has a malformed string");
}

/* What is behind the opening quote, and the closing one. */
static bool scan_string(scan *s) {
    size_t begin = s->at - 1;
    for (;;) {
        uint32_t unused;
        int c = peek(s);
        if (c < 0) {
            s->at = begin;
            return fail(s, "has a string without an end");
        }
        if (c < 0x20) return fail(s, "has a control character in a string");
        size_t n = mc_utf8_decode(s->text + s->at, s->len - s->at, &unused);
        if (n == 0) return fail(s, "is not UTF-8");
        s->at += n;
        if (c == '"') return true;
        if (c == '\\' && !scan_escape(s)) return false;
    }
}

static size_t skip_digits(scan *s) {
    size_t begin = s->at;
    while (is_digit(peek(s)))
        s->at++;
    return s->at - begin;
}

static bool scan_number(scan *s) {
    size_t begin = s->at;
    take_char(s, '-');
    bool zero = peek(s) == '0';
    size_t digits = skip_digits(s);
    bool good = digits == 1 || (digits > 1 && !zero);
    if (good && take_char(s, '.')) good = skip_digits(s) > 0;
    if (good && (take_char(s, 'e') || take_char(s, 'E'))) {
        if (!take_char(s, '-')) take_char(s, '+');
        good = skip_digits(s) > 0;
    }
    if (good) return true;
    s->at = begin;
    return fail(s, "has a malformed number");
}

/* Takes a word of letters, if it is a value. */
static bool scan_word(scan *s) {
    static const char *const words[] = {"true", "false", "null", "NaN", "Infinity", "-Infinity"};
    size_t n = s->python ? sizeof words / sizeof *words : 3;
    mc_str rest = {s->text + s->at, s->len - s->at};
    for (size_t i = 0; i < n; i++)
        if (mc_str_starts(rest, mc_str_of(words[i]))) {
            s->at += strlen(words[i]);
            return true;
        }
    return false;
}

/* ---- values ---- */

static bool scan_key(scan *s) {
    level *l = &s->levels[s->depth - 1];
    l->key_len = 0;
    skip_blanks(s);
    if (!take_char(s, '"'))
        return fail(s,
                    peek(s) < 0 ? "ends too early" : "lacks a name in quotes in front of a value");
    size_t begin = s->at;
    if (!scan_string(s)) return false;
    l->key = begin;
    l->key_len = s->at - 1 - begin;
    skip_blanks(s);
    if (take_char(s, ':')) return true;
    return fail(s, peek(s) < 0 ? "ends too early" : "lacks a colon behind a name");
}

static bool open_level(scan *s, bool object) {
    if (s->depth == MC_JSON_DEPTH) return fail(s, "is nested deeper than 256 levels");
    s->levels[s->depth++] = (level){.object = object};
    return true;
}

/* A value's beginning. *open: it is an array or object with elements, whose first one follows. */
static bool scan_begin(scan *s, bool *open) {
    *open = false;
    skip_blanks(s);
    int c = peek(s);
    if (c < 0) return fail(s, "ends too early");
    if (c == '{' || c == '[') {
        s->at++;
        skip_blanks(s);
        if (take_char(s, c == '{' ? '}' : ']')) return true;
        *open = true;
        return open_level(s, c == '{') && (c == '[' || scan_key(s));
    }
    if (take_char(s, '"')) return scan_string(s);
    if (scan_word(s)) return true;
    if (c == '-' || is_digit(c)) return scan_number(s);
    bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
    return fail(s, letter ? "has a word that is not true, false or null" : "lacks a value");
}

/* What is behind a value: the ends of levels, or a comma and, in an object, the next key. */
static bool scan_next(scan *s) {
    while (s->depth > 0) {
        level *l = &s->levels[s->depth - 1];
        skip_blanks(s);
        if (take_char(s, ',')) {
            l->index++;
            return !l->object || scan_key(s);
        }
        if (!take_char(s, l->object ? '}' : ']'))
            return fail(s, peek(s) < 0 ? "ends too early" : "lacks a comma or an end");
        s->depth--;
    }
    skip_blanks(s);
    return peek(s) < 0 || fail(s, "goes on behind its end");
}

static void scan_all(scan *s) {
    bool open = true;
    mc_str text = {s->text, s->len};
    if (mc_str_starts(text, MC_STR("\xFF\xFE")) || mc_str_starts(text, MC_STR("\xFE\xFF"))) {
        fail(s, "is UTF-16: save it as UTF-8");
        return;
    }
    skip_blanks(s);
    if (peek(s) < 0) {
        fail(s, "is empty");
        return;
    }
    do {
        while (open)
            if (!scan_begin(s, &open)) return;
        open = true;
    } while (scan_next(s) && s->depth > 0);
}

/* ---- the place ---- */

static void write_field(const scan *s, mc_json_fault *fault) {
    size_t len = 0;
    fault->field[0] = '\0';
    for (size_t i = 0; i < s->depth && len < MC_JSON_FIELD; i++) {
        const level *l = &s->levels[i];
        char *to = fault->field + len;
        if (l->object && l->key_len == 0) continue;
        int n = l->object ? snprintf(to, MC_JSON_FIELD - len, "%s%.*s", len ? "." : "",
                                     l->key_len < 60 ? (int)l->key_len : 60, s->text + l->key)
                          : snprintf(to, MC_JSON_FIELD - len, "[%zu]", l->index);
        len += n > 0 ? (size_t)n : 0;
    }
}

static void write_place(const scan *s, mc_json_fault *fault) {
    size_t at = s->at < s->len ? s->at : s->len;
    fault->line = fault->column = 1;
    for (size_t i = 0; i < at; i++) {
        bool follows = ((unsigned char)s->text[i] & 0xc0) == 0x80; /* within a character */
        if (s->text[i] == '\n') {
            fault->line++;
            fault->column = 1;
        } else if (!follows) {
            fault->column++;
        }
    }
}

bool mc_json_find_fault(const char *text, size_t len, bool python, mc_json_fault *fault) {
    scan s = {.text = text, .len = len, .python = python};
    scan_all(&s);
    if (!s.why) return false;
    fault->why = s.why;
    write_field(&s, fault);
    write_place(&s, fault);
    return true;
}
