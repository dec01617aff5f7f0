/* Translates Oniguruma's Ruby syntax to PCRE2's. */
#include "text/tokenizer/regex.h"

#include <stdint.h>

/* The property White_Space, and its complement. PCRE2's own \s includes U+180E, which is not white
 * space any more. */
#define SPACES                                                                                  \
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}" \
    "\\x{205F}\\x{3000}"
#define NOT_SPACES                                                                 \
    "\\x{0}-\\x{8}\\x{E}-\\x{1F}\\x{21}-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}"   \
    "\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}" \
    "\\x{2060}-\\x{2FFF}\\x{3001}-\\x{D7FF}\\x{E000}-\\x{10FFFF}"
/* Oniguruma's \w includes the superscripts and fractions of Latin-1, and excludes joiners. */
#define WORDS                                                                                  \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}\\x{24B6}-\\x{24E9}" \
    "\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"

typedef struct translation {
    mc_str from;
    size_t at;
    mc_buffer *out;
    bool in_class;
    bool repeated; /* an interval {n,m} comes before this position */
} translation;

static mica_status unsupported(const translation *t, const char *what) {
    return mc_fail(MICA_EUNSUPPORTED, "the pattern '%.*s': %s is not supported (byte %zu)",
                   MC_STR_ARG(t->from), what, t->at);
}

static int peek(const translation *t, size_t ahead) {
    return t->at + ahead < t->from.len ? (uint8_t)t->from.ptr[t->at + ahead] : -1;
}

static mica_status put(translation *t, const char *text) {
    return mc_buffer_add_text(t->out, text) ? MICA_OK : mc_fail_nomem("pattern");
}

/* Copies the next n bytes. */
static mica_status copy(translation *t, size_t n) {
    if (n > t->from.len - t->at) n = t->from.len - t->at;
    if (!mc_buffer_add(t->out, t->from.ptr + t->at, n)) return mc_fail_nomem("pattern");
    t->at += n;
    return MICA_OK;
}

/* The number of bytes up to and including the next '}'; n if there is none. */
static size_t through_brace(const translation *t, size_t n) {
    for (size_t i = n; t->at + i < t->from.len; i++) {
        if (t->from.ptr[t->at + i] == '}') return i + 1;
    }
    return n;
}

/* Adds our own class in place of \s \S \w \W. */
static mica_status put_class(translation *t, const char *members, bool negated) {
    t->at += 2;
    if (t->in_class) return put(t, members);
    MC_TRY(put(t, negated ? "[^" : "["));
    MC_TRY(put(t, members));
    return put(t, "]");
}

static mica_status translate_escape(translation *t) {
    switch (peek(t, 1)) {
    case 's':
        return put_class(t, SPACES, false);
    case 'S':
        return put_class(t, t->in_class ? NOT_SPACES : SPACES, !t->in_class);
    case 'w':
        return put_class(t, WORDS, false);
    case 'W':
        if (t->in_class) return unsupported(t, "\\W in brackets");
        return put_class(t, WORDS, true);
    case 'h':
    case 'H':
        return unsupported(t, "\\h"); /* Oniguruma: a hexadecimal digit; PCRE2: a space */
    case 'p':
    case 'P':
    case 'x':
    case 'k':
    case 'o':
        return copy(t, peek(t, 2) == '{' ? through_brace(t, 3) : 2);
    default:
        return copy(t, 2);
    }
}

/* Oniguruma's (?m) is PCRE2's (?s), which Oniguruma lacks. (?<name>, (?=, (?: and the like are the
 * same in both. */
static mica_status translate_group(translation *t) {
    MC_TRY(copy(t, 2));
    for (;;) {
        int c = peek(t, 0);
        if (c == 's' || c == 'a' || c == 'd' || c == 'u') return unsupported(t, "this option");
        if (c == 'm') {
            t->at++;
            MC_TRY(put(t, "s"));
        } else if (c == 'i' || c == 'x' || c == '-') {
            MC_TRY(copy(t, 1));
        } else if (c == '~') {
            return unsupported(t, "(?~");
        } else {
            return MICA_OK;
        }
    }
}

/* The length of an interval {n,m} here, or 0. A + after it is a second repetition in Oniguruma, and
 * possessive in PCRE2. */
static size_t interval(const translation *t) {
    size_t i = 1;
    for (int c; (c = peek(t, i)) == ',' || (c >= '0' && c <= '9');)
        i++;
    return i > 1 && peek(t, i) == '}' ? i + 1 : 0;
}

/* The length of [:name:] here, or 0. */
static size_t posix_class(const translation *t) {
    size_t i = 2;
    if (peek(t, 1) != ':') return 0;
    for (int c; (c = peek(t, i)) == '^' || (c >= 'a' && c <= 'z');)
        i++;
    return peek(t, i) == ':' && peek(t, i + 1) == ']' ? i + 2 : 0;
}

static mica_status translate_in_class(translation *t) {
    int c = peek(t, 0);
    if (c == '\\') return translate_escape(t);
    if (c == '&' && peek(t, 1) == '&') return unsupported(t, "&& in brackets");
    if (c == '[') {
        size_t n = posix_class(t);
        return n ? copy(t, n) : unsupported(t, "[ in brackets");
    }
    t->in_class = c != ']';
    return copy(t, 1);
}

mica_status mc_regex_translate(mc_str pattern, mc_buffer *out) {
    translation t = {.from = pattern, .out = out};
    while (t.at < pattern.len) {
        int c = peek(&t, 0);
        bool repeated = t.repeated;
        t.repeated = false;
        if (t.in_class) {
            MC_TRY(translate_in_class(&t));
        } else if (c == '\\') {
            MC_TRY(translate_escape(&t));
        } else if (c == '(' && peek(&t, 1) == '?') {
            MC_TRY(translate_group(&t));
        } else if (c == '(' && peek(&t, 1) == '*') {
            return unsupported(&t, "(*"); /* PCRE2's verbs could lift the limits */
        } else if (c == '[') {
            t.in_class = true;
            MC_TRY(copy(&t, peek(&t, 1) == '^' ? 2 : 1));
            if (peek(&t, 0) == ']') MC_TRY(copy(&t, 1));
        } else if (c == '{' && interval(&t)) {
            MC_TRY(copy(&t, interval(&t)));
            t.repeated = true;
        } else if (c == '+' && repeated) {
            return unsupported(&t, "+ behind {}");
        } else {
            MC_TRY(copy(&t, 1));
        }
    }
    return MICA_OK;
}
