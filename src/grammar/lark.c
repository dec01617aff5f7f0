#include "grammar/lark.h"

#include "base/utf8.h"
#include "grammar/grammar_cfg.h"

#include <string.h>

/* The terminals of Lark's "common", as patterns. */
#define EXPONENT "[eE][+-]?[0-9]+"
#define DECIMAL "(?:[0-9]+\\.[0-9]*|\\.[0-9]+)"
#define FLOAT "(?:[0-9]+" EXPONENT "|" DECIMAL "(?:" EXPONENT ")?)"
#define NUMBER "(?:" FLOAT "|[0-9]+)"

static const struct {
    const char *name, *pattern;
} common[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", DECIMAL},
    {"FLOAT", FLOAT},
    {"SIGNED_FLOAT", "[+-]?" FLOAT},
    {"NUMBER", NUMBER},
    {"SIGNED_NUMBER", "[+-]?" NUMBER},
    {"ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\.)*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[a-zA-Z]"},
    {"WORD", "[a-zA-Z]+"},
    {"CNAME", "[a-zA-Z_][a-zA-Z0-9_]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(?:\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"SQL_COMMENT", "--[^\\n]*"},
    {"C_COMMENT", "/\\*(?:[^*]|\\*+[^*/])*\\*+/"},
};

/* ---- blanks and names ---- */

static void skip(mc_cfg *g) {
    for (int c; (c = mc_cfg_peek(g)) >= 0;) {
        bool slashes = c == '/' && g->at + 1 < g->text.len && g->text.ptr[g->at + 1] == '/';
        if (c == '#' || slashes) {
            while (mc_cfg_peek(g) >= 0 && mc_cfg_peek(g) != '\n')
                g->at++;
        } else if (!strchr(" \t\r\n", c)) {
            return;
        } else {
            g->at++;
        }
    }
}

static bool is_name(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static mc_str take_name(mc_cfg *g) {
    size_t from = g->at;
    int c = mc_cfg_peek(g);
    if (c >= '0' && c <= '9') return (mc_str){"", 0};
    while (is_name(mc_cfg_peek(g)))
        g->at++;
    return (mc_str){g->text.ptr + from, g->at - from};
}

/* Names of terminals are in upper case. */
static bool names_terminal(mc_str name) {
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] != '_') return name.ptr[i] >= 'A' && name.ptr[i] <= 'Z';
    return false;
}

/* The head of a rule or a terminal, up to and with its colon. false: there is none. */
static bool take_head(mc_cfg *g, mc_str *name) {
    size_t from = g->at;
    while (mc_cfg_peek(g) == '?' || mc_cfg_peek(g) == '!')
        g->at++;
    *name = take_name(g);
    if (name->len && mc_cfg_take(g, ".")) { /* a priority */
        (void)mc_cfg_take(g, "-");
        while (mc_cfg_peek(g) >= '0' && mc_cfg_peek(g) <= '9')
            g->at++;
    }
    skip(g);
    if (name->len && mc_cfg_take(g, ":")) return true;
    g->at = from;
    return false;
}

static bool ends(mc_cfg *g) {
    mc_str name;
    size_t from = g->at;
    int c = mc_cfg_peek(g);
    if (c == '%' && !mc_cfg_take(g, "%json") && !mc_cfg_take(g, "%regex")) return true;
    bool head = take_head(g, &name) || mc_cfg_take(g, "->");
    g->at = from;
    return head;
}

/* ---- parts ---- */

static bool take_repeat(mc_cfg *g, int *min, int *max);
static int32_t read_atom(mc_cfg *g);

/* Alternatives may have names, which say nothing. */
static void take_alias(mc_cfg *g) {
    if (!mc_cfg_take(g, "->")) return;
    skip(g);
    if (!take_name(g).len) mc_cfg_fail(g, MICA_EFORMAT, "want a name behind ->");
    skip(g);
}

static const mc_cfg_syntax syntax = {skip, ends, read_atom, take_repeat, take_alias};

static bool take_number(mc_cfg *g, int *value) {
    size_t from = g->at;
    *value = 0;
    for (int c; (c = mc_cfg_peek(g)) >= '0' && c <= '9'; g->at++)
        if (*value < 1000000) *value = *value * 10 + c - '0';
    return g->at > from;
}

/* ?, unless a rule's name follows at once; ~n or ~n..m. */
static bool take_repeat(mc_cfg *g, int *min, int *max) {
    size_t from = g->at;
    *min = 0;
    *max = 1;
    if (mc_cfg_take(g, "?")) {
        bool suffix = !is_name(mc_cfg_peek(g));
        if (!suffix) g->at = from;
        return suffix;
    }
    if (!mc_cfg_take(g, "~")) return false;
    skip(g);
    bool good = take_number(g, min);
    *max = *min;
    skip(g);
    if (good && mc_cfg_take(g, "..")) {
        skip(g);
        good = take_number(g, max);
    }
    if (!good) mc_cfg_fail(g, MICA_EFORMAT, "want ~n or ~n..m");
    return good;
}

static int32_t add_pattern(mc_cfg *g, mc_str pattern, unsigned how) {
    int64_t min = 0, max;
    if (!mc_regex_lengths(pattern, how, &min, &max)) min = 0; /* building it says why */
    return mc_cfg_add(
        g, (mc_expr){.kind = MC_EXPR_REGEX, .how = how, .text = pattern, .min = min > 0});
}

/* /.../ and its flags, behind the first slash. */
static int32_t read_pattern(mc_cfg *g) {
    size_t from = g->at;
    bool in_class = false;
    unsigned how = MC_REGEX_WHOLE;
    for (int c; (c = mc_cfg_peek(g)) >= 0 && c != '\n' && (c != '/' || in_class); g->at++) {
        if (c == '[') in_class = true;
        if (c == ']') in_class = false;
        if (c == '\\') g->at++;
    }
    mc_str pattern = {g->text.ptr + from, g->at - from};
    if (g->at > g->text.len || !mc_cfg_take(g, "/"))
        return mc_cfg_fail(g, MICA_EFORMAT, "a pattern without its /");
    for (int c; (c = mc_cfg_peek(g)) >= 'a' && c <= 'z'; g->at++) {
        if (c != 'i' && c != 's')
            return mc_cfg_fail(g, MICA_EUNSUPPORTED, "the flag %c of a pattern", c);
        how |= c == 'i' ? MC_REGEX_FOLD : MC_REGEX_DOT_ALL;
    }
    return add_pattern(g, pattern, how);
}

/* A string, or a range of two, behind the first quote. */
static int32_t read_string(mc_cfg *g) {
    mc_str text, other;
    mc_char_range range;
    if (!mc_cfg_take_string(g, &text)) return -1;
    unsigned how = mc_cfg_take(g, "i") ? MC_REGEX_FOLD : 0;
    size_t from = g->at;
    skip(g);
    if (!mc_cfg_take(g, "..")) {
        g->at = from;
        return mc_cfg_add(g, (mc_expr){.kind = MC_EXPR_TEXT, .how = how, .text = text});
    }
    skip(g);
    if (!mc_cfg_take(g, "\"") || !mc_cfg_take_string(g, &other) || !text.len || !other.len ||
        mc_utf8_decode(text.ptr, text.len, &range.low) != text.len ||
        mc_utf8_decode(other.ptr, other.len, &range.high) != other.len || range.high < range.low)
        return mc_cfg_fail(g, MICA_EFORMAT, "want a range of two characters");
    return mc_cfg_add_class(g, &range, 1);
}

/* The end of a JSON object that begins here; the place itself: there is none. */
static size_t object_end(const mc_cfg *g) {
    int depth = 0;
    bool in_string = false;
    for (size_t i = g->at; i < g->text.len; i++) {
        char c = g->text.ptr[i];
        if (c == '"') in_string = !in_string;
        if (in_string && c == '\\') i++;
        if (in_string) continue;
        depth += (c == '{') - (c == '}');
        if (depth == 0) return c == '}' ? i + 1 : g->at;
    }
    return g->at;
}

/* {a schema}, behind %json. */
static int32_t read_schema(mc_cfg *g) {
    mc_json_doc *doc;
    skip(g);
    size_t end = object_end(g);
    mica_status status =
        mc_json_parse(g->text.ptr + g->at, end - g->at, "the schema behind %json", &doc);
    if (status != MICA_OK) return mc_cfg_fail(g, status, "%s", mica_last_error());
    g->at = end;
    int32_t number = (int32_t)MC_BUFFER_COUNT(&g->documents, mc_json_doc *);
    if (!mc_buffer_add(&g->documents, &doc, sizeof doc)) {
        mc_json_close(&doc);
        mc_builder_fail(g->b, mc_fail_nomem("a grammar"));
        return -1;
    }
    return mc_cfg_add(g, (mc_expr){.kind = MC_EXPR_SCHEMA, .one = number});
}

static int32_t read_name(mc_cfg *g) {
    mc_str name = take_name(g);
    if (!name.len)
        return mc_cfg_fail(g, MICA_EFORMAT, "want a string, a /pattern/, a name or a group");
    if (mc_cfg_take(g, "{")) { /* {2} and {,2} are repetitions */
        size_t from = g->at - 1;
        skip(g);
        int c = mc_cfg_peek(g);
        if (c != ',' && !(c >= '0' && c <= '9'))
            return mc_cfg_fail(g, MICA_EUNSUPPORTED, "templates are not supported");
        g->at = from;
    }
    int32_t rule = mc_cfg_rule_number(g, name);
    return rule < 0 ? -1 : mc_cfg_add(g, (mc_expr){.kind = MC_EXPR_RULE, .one = rule});
}

static int32_t read_atom(mc_cfg *g) {
    if (mc_cfg_take(g, "(")) return mc_cfg_read_group(g, &syntax, ")");
    if (mc_cfg_take(g, "[")) {
        int32_t inner = mc_cfg_read_group(g, &syntax, "]");
        return mc_cfg_add(g, (mc_expr){.kind = MC_EXPR_REPEAT, .one = inner, .max = 1});
    }
    if (mc_cfg_take(g, "\"")) return read_string(g);
    if (mc_cfg_take(g, "/")) return read_pattern(g);
    if (mc_cfg_take(g, "%json")) return read_schema(g);
    if (mc_cfg_peek(g) == '%') return mc_cfg_fail(g, MICA_EUNSUPPORTED, "%%regex is not supported");
    if (mc_cfg_peek(g) == '<')
        return mc_cfg_fail(g, MICA_EUNSUPPORTED, "tokens are not supported: write text");
    return read_name(g);
}

/* ---- directives ---- */

/* Defines a terminal of "common", under a name. */
static void import(mc_cfg *g, mc_str name, mc_str alias) {
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        if (!mc_str_is(name, common[i].name)) continue;
        int32_t rule = mc_cfg_define(g, alias);
        int32_t body = add_pattern(g, mc_str_of(common[i].pattern), MC_REGEX_WHOLE);
        if (rule < 0 || body < 0) return;
        mc_cfg_rule *own = &MC_BUFFER_AT(&g->own, mc_cfg_rule)[rule];
        own->body = body;
        own->terminal = true;
        return;
    }
    mc_cfg_fail(g, MICA_EUNSUPPORTED, "%%import of %.*s is not supported", MC_STR_ARG(name));
}

/* %import common.NAME [-> NAME], or common (NAME, NAME). */
static void read_import(mc_cfg *g) {
    skip(g);
    if (!mc_cfg_take(g, "common")) {
        mc_cfg_fail(g, MICA_EUNSUPPORTED, "%%import is of common terminals only");
        return;
    }
    (void)mc_cfg_take(g, ".");
    skip(g);
    if (!mc_cfg_take(g, "(")) {
        mc_str name = take_name(g), alias = name;
        skip(g);
        if (mc_cfg_take(g, "->")) {
            skip(g);
            alias = take_name(g);
        }
        if (!alias.len)
            mc_cfg_fail(g, MICA_EFORMAT, "want %%import common.NAME");
        else
            import(g, name, alias);
        return;
    }
    do {
        skip(g);
        mc_str name = take_name(g);
        import(g, name, name);
        skip(g);
    } while (g->b->status == MICA_OK && mc_cfg_take(g, ","));
    if (g->b->status == MICA_OK && !mc_cfg_take(g, ")"))
        mc_cfg_fail(g, MICA_EFORMAT, "want %%import common (NAME, NAME)");
}

/* Adds what %ignore says to what is ignored: a rule whose name no other can have. */
static void read_ignore(mc_cfg *g) {
    int32_t rule = mc_cfg_rule_number(g, MC_STR("%ignore"));
    int32_t more = rule < 0 ? -1 : mc_cfg_read_either(g, &syntax);
    if (more < 0) return;
    mc_cfg_rule *own = &MC_BUFFER_AT(&g->own, mc_cfg_rule)[rule];
    if (own->body >= 0)
        more = mc_cfg_add(g, (mc_expr){.kind = MC_EXPR_EITHER, .one = own->body, .other = more});
    own->terminal = true;
    own->body = more;
    g->ignored = rule;
}

static void read_directive(mc_cfg *g) {
    if (mc_cfg_take(g, "%ignore")) {
        read_ignore(g);
    } else if (mc_cfg_take(g, "%import")) {
        read_import(g);
    } else {
        g->at++;
        mc_str name = take_name(g);
        mc_cfg_fail(g, MICA_EUNSUPPORTED, "%%%.*s is not supported", MC_STR_ARG(name));
    }
}

/* ---- rules ---- */

static void read_rule(mc_cfg *g) {
    mc_str name;
    if (!take_head(g, &name)) {
        (void)take_name(g);
        bool odd = mc_cfg_peek(g) == '[' || mc_cfg_peek(g) == '{';
        mc_cfg_fail(g, odd ? MICA_EUNSUPPORTED : MICA_EFORMAT,
                    odd ? "templates and attributes of rules are not supported"
                        : "want a rule: name: ...");
        return;
    }
    int32_t rule = mc_cfg_define(g, name);
    int32_t body = rule < 0 ? -1 : mc_cfg_read_either(g, &syntax);
    if (body < 0) return;
    mc_cfg_rule *own = &MC_BUFFER_AT(&g->own, mc_cfg_rule)[rule];
    own->body = body;
    own->terminal = names_terminal(name);
    if (mc_cfg_peek(g) == ')' || mc_cfg_peek(g) == ']')
        mc_cfg_fail(g, MICA_EFORMAT, "a bracket that closes nothing");
}

int32_t mc_build_lark(mc_json_rules *rules, mc_str text, int32_t next) {
    mc_cfg g;
    mc_cfg_init(&g, rules, text);
    for (skip(&g); g.b->status == MICA_OK && mc_cfg_peek(&g) >= 0; skip(&g)) {
        if (mc_cfg_peek(&g) == '%')
            read_directive(&g);
        else
            read_rule(&g);
    }
    if (g.ignored >= 0) { /* any of it, any number of times */
        mc_cfg_rule *own = &MC_BUFFER_AT(&g.own, mc_cfg_rule)[g.ignored];
        own->body = mc_cfg_add(&g, (mc_expr){.kind = MC_EXPR_REPEAT, .one = own->body, .max = -1});
    }
    int32_t start = mc_cfg_build(&g, "start", next);
    mc_cfg_deinit(&g);
    return start;
}
