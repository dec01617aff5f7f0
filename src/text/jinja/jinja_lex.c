#include "text/jinja/jinja_lex.h"

#include "text/find.h"
#include "text/jinja/jinja_str.h"

#include <string.h>

enum { MAX_OPEN = 256 }; /* brackets */

typedef struct lexer {
    mc_str source;
    size_t at;
    uint32_t line;
    const char *name;
    mc_buffer *tokens;
    char open[MAX_OPEN]; /* the closing brackets that are expected inside the tag */
    size_t opened;
} lexer;

static char peek(const lexer *l, size_t ahead) {
    return l->at + ahead < l->source.len ? l->source.ptr[l->at + ahead] : '\0';
}

static mc_str rest(const lexer *l) {
    return (mc_str){l->source.ptr + l->at, l->source.len - l->at};
}

static void advance(lexer *l, size_t n) {
    for (; n > 0; n--)
        l->line += l->source.ptr[l->at++] == '\n';
}

static void skip_space(lexer *l) {
    mc_str here = rest(l);
    advance(l, here.len - mc_jstrip_space(here, MC_J_LEFT).len);
}

static mica_status error(const lexer *l, const char *what) {
    return mc_fail(MICA_EFORMAT, "%s, line %u: %s", l->name, (unsigned)l->line, what);
}

/* Makes a token of the next n bytes. Its text leaves out `skip` bytes at either end. */
static mica_status add(lexer *l, mc_jtoken_kind kind, size_t n, size_t skip) {
    mc_jtoken token = {kind, l->line, {l->source.ptr + l->at + skip, n - 2 * skip}};
    advance(l, n);
    return mc_buffer_add(l->tokens, &token, sizeof token) ? MICA_OK : mc_fail_nomem(l->name);
}

/* -- inside of tags -- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (unsigned char)c >= 0x80;
}

/* The end of digits, which single underscores may separate. */
static size_t digits_end(const lexer *l, size_t n, bool hex) {
    for (;; n++) {
        char c = peek(l, n);
        bool digit = is_digit(c) || (hex && is_word(c) && (c | 32) >= 'a' && (c | 32) <= 'f');
        if (!digit && !(c == '_' && is_word(peek(l, n + 1)))) return n;
    }
}

static mica_status lex_number(lexer *l) {
    char base = (char)(peek(l, 1) | 32);
    if (peek(l, 0) == '0' && (base == 'x' || base == 'o' || base == 'b'))
        return add(l, MC_T_INT, digits_end(l, 2, base == 'x'), 0);
    size_t n = digits_end(l, 0, false), whole = n;
    bool after_dot = l->at > 0 && l->source.ptr[l->at - 1] == '.'; /* a.0.1 */
    if (!after_dot && peek(l, n) == '.' && is_digit(peek(l, n + 1)))
        n = digits_end(l, n + 1, false);
    if (!after_dot && (peek(l, n) | 32) == 'e') {
        size_t sign = peek(l, n + 1) == '+' || peek(l, n + 1) == '-';
        if (is_digit(peek(l, n + 1 + sign))) n = digits_end(l, n + 1 + sign, false);
    }
    return add(l, n > whole ? MC_T_FLOAT : MC_T_INT, n, 0);
}

static mica_status lex_string(lexer *l) {
    char quote = peek(l, 0);
    for (size_t n = 1; l->at + n < l->source.len; n++) {
        char c = peek(l, n);
        if (c == quote) return add(l, MC_T_STRING, n + 1, 1);
        n += c == '\\';
    }
    return error(l, "a string without an end");
}

static mica_status lex_operator(lexer *l) {
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    char c = peek(l, 0);
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (mc_str_starts(rest(l), mc_str_of(two[i]))) return add(l, MC_T_OPERATOR, 2, 0);
    if (!c || !strchr("+-/*%~[](){}><=.:|,", c)) {
        return mc_fail(MICA_EFORMAT, "%s, line %u: unexpected character '%.*s'", l->name,
                       (unsigned)l->line, (int)(l->at < l->source.len), l->source.ptr + l->at);
    }
    if (strchr("([{", c)) {
        if (l->opened == MAX_OPEN) return error(l, "too many brackets within each other");
        l->open[l->opened++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (strchr(")]}", c)) {
        if (l->opened == 0 || l->open[--l->opened] != c)
            return error(l, "a closing bracket that nothing opened");
    }
    return add(l, MC_T_OPERATOR, 1, 0);
}

static mica_status lex_word(lexer *l) {
    char c = peek(l, 0);
    if (is_digit(c)) return lex_number(l);
    if (c == '"' || c == '\'') return lex_string(l);
    if (!is_word(c)) return lex_operator(l);
    size_t n = 1;
    while (is_word(peek(l, n)))
        n++;
    return add(l, MC_T_NAME, n, 0);
}

/* Skips "%}" or "#}", with a sign before it, and the white space that it trims. False if something
 * else comes next: then nothing is skipped. */
static bool skip_end(lexer *l, char mark, bool trims) {
    size_t sign = peek(l, 0) == '-' || (peek(l, 0) == '+' && trims);
    char control = sign ? peek(l, 0) : '\0';
    if (peek(l, sign) != mark || peek(l, sign + 1) != '}') return false;
    advance(l, sign + 2);
    if (control == '-') {
        skip_space(l);
    } else if (!control && trims && peek(l, 0) == '\n') {
        advance(l, 1);
    }
    return true;
}

/* Lexes a tag from its beginning (`skip` bytes with its sign) to past its end. */
static mica_status lex_tag(lexer *l, bool print, size_t skip) {
    MC_TRY(add(l, print ? MC_T_BEGIN_PRINT : MC_T_BEGIN_BLOCK, skip, 0));
    l->opened = 0;
    for (;;) {
        skip_space(l);
        if (l->at == l->source.len) return error(l, "a tag without an end");
        mc_jtoken end = {print ? MC_T_END_PRINT : MC_T_END_BLOCK, l->line, MC_STR("end of tag")};
        if (l->opened == 0 && skip_end(l, print ? '}' : '%', !print)) {
            bool ok = mc_buffer_add(l->tokens, &end, sizeof end);
            return ok ? MICA_OK : mc_fail_nomem(l->name);
        }
        MC_TRY(lex_word(l));
    }
}

/* -- outside of tags -- */

/* Adds the text up to `end`, where a tag begins with `control` ('-', '+', or neither), without the
 * white space that the tag trims. lstrips: a tag that is first on its line trims, too. */
static mica_status lex_text(lexer *l, size_t end, char control, bool lstrips) {
    mc_str text = {l->source.ptr + l->at, end - l->at};
    if (control == '-') {
        text = mc_jstrip_space(text, MC_J_RIGHT);
    } else if (control != '+' && lstrips) {
        bool line_start = l->at == 0 || l->source.ptr[l->at - 1] == '\n';
        size_t line = text.len;
        while (line > 0 && text.ptr[line - 1] != '\n')
            line--;
        mc_str last = {text.ptr + line, text.len - line};
        bool blank = mc_jstrip_space(last, MC_J_BOTH).len == 0;
        if ((line > 0 || line_start) && blank) text.len = line;
    }
    size_t left_out = end - l->at - text.len;
    if (text.len) MC_TRY(add(l, MC_T_TEXT, text.len, 0));
    advance(l, left_out);
    return MICA_OK;
}

/* Skips "{% word %}" if it comes next; *control is its sign. begins: the tag `raw`, which does not
 * trim the newline after it. */
static bool skip_raw_tag(lexer *l, const char *word, bool begins, char *control) {
    if (peek(l, 0) != '{' || peek(l, 1) != '%') return false;
    size_t sign = peek(l, 2) == '-' || peek(l, 2) == '+';
    lexer ahead = *l;
    advance(&ahead, 2 + sign);
    skip_space(&ahead);
    if (!mc_str_starts(rest(&ahead), mc_str_of(word))) return false;
    advance(&ahead, strlen(word));
    skip_space(&ahead);
    if (begins && peek(&ahead, 0) == '%' && peek(&ahead, 1) == '}') {
        advance(&ahead, 2);
    } else if ((begins && peek(&ahead, 0) == '+') || !skip_end(&ahead, '%', true)) {
        return false;
    }
    *control = sign ? peek(l, 2) : '\0';
    *l = ahead;
    return true;
}

/* Lexes the text between {% raw %} and {% endraw %}, and skips the latter. */
static mica_status lex_raw(lexer *l) {
    lexer end = *l;
    char control;
    for (; end.at < end.source.len; advance(&end, 1)) {
        size_t at = end.at;
        if (!skip_raw_tag(&end, "endraw", false, &control)) continue;
        MC_TRY(lex_text(l, at, control, true));
        l->at = end.at;
        l->line = end.line;
        return MICA_OK;
    }
    return error(l, "{% raw %} without {% endraw %}");
}

static mica_status lex_comment(lexer *l, size_t skip) {
    for (advance(l, skip); l->at < l->source.len; advance(l, 1))
        if (skip_end(l, '#', true)) return MICA_OK;
    return error(l, "a comment without an end");
}

/* The position of the next tag. */
static size_t find_tag(const lexer *l) {
    size_t at = l->at;
    while ((at = mc_find(l->source, MC_STR("{"), at)) < l->source.len) {
        char c = at + 1 < l->source.len ? l->source.ptr[at + 1] : '\0';
        if (c == '{' || c == '%' || c == '#') return at;
        at++;
    }
    return l->source.len;
}

static mica_status lex_next(lexer *l) {
    size_t tag = find_tag(l);
    if (tag == l->source.len) return add(l, MC_T_TEXT, tag - l->at, 0);
    char kind = l->source.ptr[tag + 1];
    char control = tag + 2 < l->source.len ? l->source.ptr[tag + 2] : '\0';
    size_t skip = control == '-' || control == '+' ? 3 : 2;
    MC_TRY(lex_text(l, tag, control, kind != '{'));
    if (skip_raw_tag(l, "raw", true, &control)) return lex_raw(l);
    if (kind == '#') return lex_comment(l, skip);
    return lex_tag(l, kind == '{', skip);
}

mica_status mc_jlex(mc_str source, const char *name, mc_buffer *tokens) {
    lexer l = {.source = source, .line = 1, .name = name, .tokens = tokens};
    while (l.at < source.len)
        MC_TRY(lex_next(&l));
    return add(&l, MC_T_END, 0, 0);
}
