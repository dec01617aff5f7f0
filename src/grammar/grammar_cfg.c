#include "grammar/grammar_cfg.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "grammar/schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TEXT = 1 << 18, MAX_RULES = 5000, MAX_DEPTH = 64, MAX_SUFFIXES = 4, MAX_REPEAT = 10000 };

void mc_cfg_init(mc_cfg *g, mc_json_rules *rules, mc_str text) {
    *g = (mc_cfg){.b = rules->b, .rules = rules, .text = text, .ignored = -1};
    if (text.len > MAX_TEXT)
        mc_cfg_fail(g, MICA_EUNSUPPORTED, "the grammar is longer than %d bytes", MAX_TEXT);
}

void mc_cfg_deinit(mc_cfg *g) {
    for (size_t i = 0; i < MC_BUFFER_COUNT(&g->documents, mc_json_doc *); i++)
        mc_json_close(&MC_BUFFER_AT(&g->documents, mc_json_doc *)[i]);
    mc_buffer_deinit(&g->documents);
    mc_buffer_deinit(&g->exprs);
    mc_buffer_deinit(&g->ranges);
    mc_buffer_deinit(&g->own);
    mc_map_deinit(&g->names);
    mc_arena_deinit(&g->arena);
}

int32_t mc_cfg_fail(mc_cfg *g, mica_status status, const char *fmt, ...) {
    char text[256];
    size_t line = 1;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (size_t i = 0; i < g->at && i < g->text.len; i++)
        line += g->text.ptr[i] == '\n';
    mc_builder_fail(g->b, mc_fail(status, "grammar, line %zu: %s", line, text));
    return -1;
}

static int32_t nomem(mc_cfg *g) {
    mc_builder_fail(g->b, mc_fail_nomem("a grammar"));
    return -1;
}

/* ---- reading ---- */

int mc_cfg_peek(const mc_cfg *g) {
    return g->at < g->text.len ? (unsigned char)g->text.ptr[g->at] : -1;
}

bool mc_cfg_take(mc_cfg *g, const char *text) {
    mc_str rest = {g->text.ptr + g->at, g->text.len - g->at};
    if (!mc_str_starts(rest, mc_str_of(text))) return false;
    g->at += strlen(text);
    return true;
}

static bool take_hex(mc_cfg *g, int count, uint32_t *c) {
    static const char hex[] = "0123456789abcdef";
    *c = 0;
    for (int i = 0; i < count; i++) {
        int digit = mc_cfg_peek(g);
        if (digit >= 'A' && digit <= 'F') digit += 'a' - 'A';
        const char *found = digit > 0 ? strchr(hex, digit) : NULL;
        if (!found) return false;
        *c = *c * 16 + (uint32_t)(found - hex);
        g->at++;
    }
    return *c <= MC_CHAR_MAX && !(*c >= 0xd800 && *c <= 0xdfff);
}

bool mc_cfg_take_escape(mc_cfg *g, uint32_t *c) {
    static const char names[] = "nrtfv0", values[] = "\n\r\t\f\v";
    int name = mc_cfg_peek(g);
    const char *found = name > 0 ? strchr(names, name) : NULL;
    g->at++;
    if (found) return *c = (uint32_t)values[found - names], true;
    if (name == 'x') return take_hex(g, 2, c);
    if (name == 'u') return take_hex(g, 4, c);
    if (name == 'U') return take_hex(g, 8, c);
    *c = (uint32_t)name;
    return name > 0 && strchr("\\\"'/[]-^", name) != NULL;
}

bool mc_cfg_take_string(mc_cfg *g, mc_str *text) {
    mc_buffer bytes = {0};
    bool done = true, good = true;
    uint32_t c;
    while (done && good && mc_cfg_peek(g) >= 0 && mc_cfg_peek(g) != '"' && mc_cfg_peek(g) != '\n') {
        char utf8[4];
        if (mc_cfg_take(g, "\\")) {
            good = mc_cfg_take_escape(g, &c);
        } else {
            size_t n = mc_utf8_decode(g->text.ptr + g->at, g->text.len - g->at, &c);
            good = n > 0;
            g->at += n;
        }
        if (good) done = mc_buffer_add(&bytes, utf8, mc_utf8_encode(c, utf8));
    }
    text->len = bytes.len;
    text->ptr = done ? mc_arena_strndup(&g->arena, bytes.data, bytes.len) : NULL;
    mc_buffer_deinit(&bytes);
    if (!text->ptr) return nomem(g), false;
    if (good && mc_cfg_take(g, "\"")) return true;
    mc_cfg_fail(g, MICA_EFORMAT, "a string without its end, or with an escape that is none");
    return false;
}

int32_t mc_cfg_rule_number(mc_cfg *g, mc_str name) {
    uint64_t number;
    size_t count = MC_BUFFER_COUNT(&g->own, mc_cfg_rule);
    if (g->b->status != MICA_OK) return -1;
    if (mc_map_find(&g->names, name, &number)) return (int32_t)number;
    if (count >= MAX_RULES)
        return mc_cfg_fail(g, MICA_EUNSUPPORTED, "more than %d rules", MAX_RULES);
    const mc_cfg_rule new = {.name = name, .at = g->at, .body = -1, .built = mc_build_rule(g->b)};
    if (!mc_buffer_add(&g->own, &new, sizeof new) || !mc_map_put(&g->names, name, count))
        return nomem(g);
    return (int32_t)count;
}

int32_t mc_cfg_define(mc_cfg *g, mc_str name) {
    int32_t number = mc_cfg_rule_number(g, name);
    if (number >= 0 && MC_BUFFER_AT(&g->own, mc_cfg_rule)[number].body >= 0)
        return mc_cfg_fail(g, MICA_EFORMAT, "%.*s is defined twice", MC_STR_ARG(name));
    if (number >= 0) MC_BUFFER_AT(&g->own, mc_cfg_rule)[number].at = g->at;
    return number;
}

int32_t mc_cfg_add(mc_cfg *g, mc_expr expr) {
    int32_t number = (int32_t)MC_BUFFER_COUNT(&g->exprs, mc_expr);
    if (g->b->status != MICA_OK) return -1;
    return mc_buffer_add(&g->exprs, &expr, sizeof expr) ? number : nomem(g);
}

int32_t mc_cfg_add_class(mc_cfg *g, const mc_char_range *ranges, size_t count) {
    int32_t first = (int32_t)MC_BUFFER_COUNT(&g->ranges, mc_char_range);
    if (!mc_buffer_add(&g->ranges, ranges, count * sizeof *ranges)) return nomem(g);
    return mc_cfg_add(
        g, (mc_expr){.kind = MC_EXPR_CLASS, .one = first, .other = first + (int32_t)count});
}

static bool take_number(mc_cfg *g, int *value) {
    size_t from = g->at;
    *value = 0;
    for (int c; (c = mc_cfg_peek(g)) >= '0' && c <= '9'; g->at++)
        if (*value <= MAX_REPEAT) *value = *value * 10 + c - '0';
    return g->at > from;
}

/* {n}, {n,}, {,m} or {n,m}, behind its brace. */
static bool take_counts(mc_cfg *g, const mc_cfg_syntax *syntax, int *min, int *max) {
    syntax->skip(g);
    bool from = take_number(g, min);
    *max = *min;
    syntax->skip(g);
    if (mc_cfg_take(g, ",")) {
        syntax->skip(g);
        if (!take_number(g, max)) *max = -1;
        syntax->skip(g);
    } else if (!from) {
        return false;
    }
    return mc_cfg_take(g, "}") && *min <= MAX_REPEAT && *max <= MAX_REPEAT &&
           (*max < 0 || *max >= *min);
}

/* A part and the suffixes behind it. */
static int32_t read_repeat(mc_cfg *g, const mc_cfg_syntax *syntax) {
    int32_t part = syntax->read_atom(g);
    for (int suffixes = 0; g->b->status == MICA_OK; suffixes++) {
        int min = 0, max = -1;
        size_t from = g->at;
        syntax->skip(g);
        if (mc_cfg_take(g, "+")) {
            min = 1;
        } else if (mc_cfg_take(g, "{")) {
            if (!take_counts(g, syntax, &min, &max))
                return mc_cfg_fail(g, MICA_EFORMAT, "want {m}, {m,} or {m,n}, of up to %d",
                                   MAX_REPEAT);
        } else if (!mc_cfg_take(g, "*") && !syntax->take_repeat(g, &min, &max)) {
            g->at = from;
            return part;
        }
        if (suffixes == MAX_SUFFIXES)
            return mc_cfg_fail(g, MICA_EUNSUPPORTED, "more than %d repetitions of one part",
                               MAX_SUFFIXES);
        if (max > MAX_REPEAT || min > MAX_REPEAT || (max >= 0 && max < min))
            return mc_cfg_fail(g, MICA_EFORMAT, "want a repetition of up to %d", MAX_REPEAT);
        part =
            mc_cfg_add(g, (mc_expr){.kind = MC_EXPR_REPEAT, .one = part, .min = min, .max = max});
    }
    return -1;
}

static int32_t read_sequence(mc_cfg *g, const mc_cfg_syntax *syntax) {
    int32_t all = -1;
    for (;;) {
        syntax->skip(g);
        int c = mc_cfg_peek(g);
        if (g->b->status != MICA_OK) return -1;
        if (c < 0 || c == '|' || c == ')' || c == ']' || syntax->ends(g)) break;
        int32_t part = read_repeat(g, syntax);
        all = all < 0 ? part
                      : mc_cfg_add(g, (mc_expr){.kind = MC_EXPR_BOTH, .one = all, .other = part});
    }
    if (syntax->end_alternative) syntax->end_alternative(g);
    if (g->b->status != MICA_OK) return -1;
    return all < 0 ? mc_cfg_add(g, (mc_expr){.kind = MC_EXPR_EMPTY}) : all;
}

int32_t mc_cfg_read_either(mc_cfg *g, const mc_cfg_syntax *syntax) {
    syntax->skip(g);
    (void)mc_cfg_take(g, "|");
    int32_t all = read_sequence(g, syntax);
    while (g->b->status == MICA_OK && mc_cfg_take(g, "|")) {
        int32_t other = read_sequence(g, syntax);
        all = mc_cfg_add(g, (mc_expr){.kind = MC_EXPR_EITHER, .one = all, .other = other});
    }
    return all;
}

int32_t mc_cfg_read_group(mc_cfg *g, const mc_cfg_syntax *syntax, const char *close) {
    if (++g->depth > MAX_DEPTH)
        return mc_cfg_fail(g, MICA_EUNSUPPORTED, "groups nested deeper than %d", MAX_DEPTH);
    int32_t inner = mc_cfg_read_either(g, syntax);
    g->depth--;
    if (g->b->status == MICA_OK && !mc_cfg_take(g, close))
        return mc_cfg_fail(g, MICA_EFORMAT, "a group without its %s", close);
    return inner;
}

/* ---- checking ---- */

static const mc_expr *expr_at(const mc_cfg *g, int32_t number) {
    return &MC_BUFFER_AT(&g->exprs, mc_expr)[number];
}

static mc_cfg_rule *rule_at(const mc_cfg *g, int32_t number) {
    return &MC_BUFFER_AT(&g->own, mc_cfg_rule)[number];
}

/* Finds which expressions may be empty. Rules make it go round until nothing changes. */
static void find_empty(const mc_cfg *g, bool *empty) {
    size_t count = MC_BUFFER_COUNT(&g->exprs, mc_expr);
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < count; i++) {
            const mc_expr *e = expr_at(g, (int32_t)i);
            bool now = false;
            if (e->kind == MC_EXPR_EMPTY) now = true;
            if (e->kind == MC_EXPR_TEXT) now = e->text.len == 0;
            if (e->kind == MC_EXPR_REGEX) now = e->min == 0;
            if (e->kind == MC_EXPR_RULE) now = empty[rule_at(g, e->one)->body];
            if (e->kind == MC_EXPR_BOTH) now = empty[e->one] && empty[e->other];
            if (e->kind == MC_EXPR_EITHER) now = empty[e->one] || empty[e->other];
            if (e->kind == MC_EXPR_REPEAT) now = e->min == 0 || empty[e->one];
            changed = changed || now != empty[i];
            empty[i] = now;
        }
    }
}

/* A walk over what rules begin with. */
typedef struct beginnings {
    mc_cfg *g;
    const bool *empty;
    mc_buffer todo; /* int32: expressions */
    uint32_t *seen; /* [expressions] the walk that saw it */
    uint32_t walk;
} beginnings;

static void begin_with(beginnings *w, int32_t expr) {
    if (w->seen[expr] == w->walk) return;
    w->seen[expr] = w->walk;
    if (!MC_BUFFER_PUSH(&w->todo, int32_t, expr)) nomem(w->g);
}

/* The last of a chain of alternatives by their first part, and the next one. */
static int32_t next_alternative(const mc_cfg *g, int32_t *chain) {
    const mc_expr *e = expr_at(g, *chain);
    int32_t last = e->kind == MC_EXPR_EITHER ? e->other : *chain;
    *chain = e->kind == MC_EXPR_EITHER ? e->one : -1;
    return last;
}

/* Whether the first part of an alternative, which is a sequence, is the rule itself. */
static bool begins_with_itself(const mc_cfg *g, int32_t alternative, int32_t rule) {
    const mc_expr *e = expr_at(g, alternative);
    while (e->kind == MC_EXPR_BOTH)
        e = expr_at(g, e->one);
    return e->kind == MC_EXPR_RULE && e->one == rule;
}

/* Whether a rule begins with itself in a way that is no loop. */
static bool is_left_recursive(beginnings *w, int32_t rule) {
    const mc_cfg *g = w->g;
    mc_buffer_clear(&w->todo);
    w->walk++;
    for (int32_t chain = rule_at(g, rule)->body; chain >= 0;) {
        int32_t alternative = next_alternative(g, &chain);
        if (!begins_with_itself(g, alternative, rule)) begin_with(w, alternative);
    }
    for (size_t i = 0; i < MC_BUFFER_COUNT(&w->todo, int32_t); i++) {
        const mc_expr *e = expr_at(g, MC_BUFFER_AT(&w->todo, int32_t)[i]);
        if (e->kind == MC_EXPR_RULE && e->one == rule) return true;
        if (e->kind == MC_EXPR_RULE) begin_with(w, rule_at(g, e->one)->body);
        if (e->kind == MC_EXPR_REPEAT || e->kind == MC_EXPR_BOTH || e->kind == MC_EXPR_EITHER)
            begin_with(w, e->one);
        if (e->kind == MC_EXPR_EITHER || (e->kind == MC_EXPR_BOTH && w->empty[e->one]))
            begin_with(w, e->other);
    }
    return false;
}

/* Terminals, and what is ignored, are made of terminals. A rule within them would have what is
 * ignored before its own terminals: texts that can be read in more ways than there is time for.
 * inside: [expressions] zero. */
static void check_terminals(mc_cfg *g, bool *inside) {
    for (size_t i = 0; i < MC_BUFFER_COUNT(&g->own, mc_cfg_rule); i++)
        if (rule_at(g, (int32_t)i)->terminal) inside[rule_at(g, (int32_t)i)->body] = true;
    for (size_t i = MC_BUFFER_COUNT(&g->exprs, mc_expr);
         i-- > 0;) { /* the whole before its parts */
        const mc_expr *e = expr_at(g, (int32_t)i);
        if (!inside[i]) continue;
        if (e->kind == MC_EXPR_RULE && !rule_at(g, e->one)->terminal) {
            g->at = rule_at(g, e->one)->at;
            mc_cfg_fail(g, MICA_EUNSUPPORTED,
                        "%.*s is a rule: terminals, and what is ignored, are made of terminals",
                        MC_STR_ARG(rule_at(g, e->one)->name));
            return;
        }
        if (e->kind == MC_EXPR_BOTH || e->kind == MC_EXPR_EITHER)
            inside[e->one] = inside[e->other] = true;
        if (e->kind == MC_EXPR_REPEAT) inside[e->one] = true;
    }
}

static void check_rules(mc_cfg *g) {
    enum { MAX_WORK = 1 << 25 };
    size_t count = MC_BUFFER_COUNT(&g->exprs, mc_expr);
    size_t rules = MC_BUFFER_COUNT(&g->own, mc_cfg_rule);
    for (size_t i = 0; i < rules; i++)
        if (rule_at(g, (int32_t)i)->body < 0) {
            g->at = rule_at(g, (int32_t)i)->at;
            mc_cfg_fail(g, MICA_EFORMAT, "%.*s is not defined",
                        MC_STR_ARG(rule_at(g, (int32_t)i)->name));
            return;
        }
    if (rules * count > MAX_WORK) {
        mc_cfg_fail(g, MICA_EUNSUPPORTED, "%zu rules of %zu parts are too many", rules, count);
        return;
    }
    bool *empty = mc_calloc(count, sizeof *empty), *inside = mc_calloc(count, sizeof *inside);
    beginnings w = {.g = g, .empty = empty, .seen = mc_calloc(count, sizeof *w.seen)};
    if (!empty || !inside || !w.seen) nomem(g);
    if (g->b->status == MICA_OK) check_terminals(g, inside);
    if (g->b->status == MICA_OK) find_empty(g, empty);
    for (size_t i = 0; i < rules && g->b->status == MICA_OK; i++) {
        g->at = rule_at(g, (int32_t)i)->at;
        if (is_left_recursive(&w, (int32_t)i))
            mc_cfg_fail(g, MICA_EUNSUPPORTED,
                        "%.*s begins with itself, behind what may be empty or through others",
                        MC_STR_ARG(rule_at(g, (int32_t)i)->name));
    }
    mc_buffer_deinit(&w.todo);
    mc_free(w.seen);
    mc_free(inside);
    mc_free(empty);
}

/* ---- building ---- */

static int32_t build(mc_cfg *g, int32_t number, bool lexed, int32_t next);

static int32_t build_text(mc_cfg *g, const mc_expr *e, int32_t next) {
    for (size_t i = e->text.len; i-- > 0;) {
        int c = (unsigned char)e->text.ptr[i], upper = c & ~0x20;
        bool letter = e->how & MC_REGEX_FOLD && upper >= 'A' && upper <= 'Z';
        int32_t as_it_is = mc_build_range(g->b, c, c, next);
        next = letter
                   ? mc_build_split(g->b, as_it_is, mc_build_range(g->b, c ^ 0x20, c ^ 0x20, next))
                   : as_it_is;
    }
    return next;
}

static int32_t build_schema(mc_cfg *g, const mc_expr *e, int32_t next) {
    const mc_json_doc *doc = MC_BUFFER_AT(&g->documents, mc_json_doc *)[e->one];
    return mc_build_schema(g->rules, mc_json_root(doc), "%json", next);
}

static int32_t build_repeat(mc_cfg *g, mc_expr e, bool lexed, int32_t next) {
    int32_t all = next;
    if (e.max < 0) {
        int32_t loop = mc_build_open(g->b);
        mc_build_close(g->b, loop, build(g, e.one, lexed, loop), next);
        all = loop;
    }
    for (int i = e.min; i < e.max && g->b->status == MICA_OK; i++) {
        int32_t before = all;
        all = mc_build_split(g->b, build(g, e.one, lexed, all), next);
        if (all == before) break;
    }
    for (int i = 0; i < e.min && g->b->status == MICA_OK; i++) {
        int32_t before = all;
        all = build(g, e.one, lexed, all);
        if (all == before) break; /* it reads nothing */
    }
    return all;
}

/* A part that takes long is a rule of its own, so that it is built once however often it is
 * repeated. */
static int32_t build_once(mc_cfg *g, int32_t number, int32_t next) {
    mc_expr *e = &MC_BUFFER_AT(&g->exprs, mc_expr)[number];
    if (!e->made) {
        e->other = mc_build_rule(g->b);
        e->made = true;
        mc_build_define(g->b, e->other,
                        e->kind == MC_EXPR_SCHEMA
                            ? build_schema(g, e, MC_RETURN)
                            : mc_build_regex(g->b, MC_CHARS_TEXT, e->text, e->how, MC_RETURN));
    }
    return mc_build_call(g->b, e->other, next);
}

/* A part that is no others'. */
static int32_t build_leaf(mc_cfg *g, int32_t number, int32_t next) {
    const mc_expr *e = expr_at(g, number);
    const mc_char_range *ranges = MC_BUFFER_AT(&g->ranges, mc_char_range);
    if (e->kind == MC_EXPR_TEXT) return build_text(g, e, next);
    if (e->kind == MC_EXPR_CLASS)
        return mc_build_class(g->b, MC_CHARS_TEXT, ranges + e->one, (size_t)(e->other - e->one),
                              next);
    if (e->kind == MC_EXPR_RULE) return mc_build_call(g->b, rule_at(g, e->one)->built, next);
    return build_once(g, number, next);
}

/* Expressions are as deep as groups nest, but for those of alternatives and sequences, which are
 * chains by their first part. lexed: what is ignored may come before terminals. */
static int32_t build(mc_cfg *g, int32_t number, bool lexed, int32_t next) {
    int32_t all = MC_DEAD;
    for (;;) {
        if (!mc_builder_count(g->b)) return MC_DEAD;
        const mc_expr e = *expr_at(g, number);
        bool rule = e.kind == MC_EXPR_RULE && !rule_at(g, e.one)->terminal;
        switch (e.kind) {
        case MC_EXPR_EMPTY:
            return mc_build_split(g->b, next, all);
        case MC_EXPR_REPEAT:
            return mc_build_split(g->b, build_repeat(g, e, lexed, next), all);
        case MC_EXPR_EITHER:
            all = mc_build_split(g->b, build(g, e.other, lexed, next), all);
            break;
        case MC_EXPR_BOTH:
            next = build(g, e.other, lexed, next);
            break;
        default:
            next = build_leaf(g, number, next);
            if (lexed && !rule && g->ignored >= 0)
                next = mc_build_call(g->b, rule_at(g, g->ignored)->built, next);
            return mc_build_split(g->b, next, all);
        }
        number = e.one;
    }
}

/* What an alternative has behind its first part. */
static int32_t build_behind(mc_cfg *g, int32_t alternative, bool lexed, int32_t next) {
    const mc_expr *e = expr_at(g, alternative);
    while (e->kind == MC_EXPR_BOTH) {
        next = build(g, e->other, lexed, next);
        e = expr_at(g, e->one);
    }
    return next;
}

/* A rule that begins with itself is one of its other alternatives, and then any number of what
 * these have behind it. */
static int32_t build_rule(mc_cfg *g, int32_t number) {
    const mc_cfg_rule *rule = rule_at(g, number);
    bool lexed = !rule->terminal, loops = false;
    int32_t first = MC_DEAD, on = MC_DEAD, loop = MC_RETURN;
    for (int32_t chain = rule->body; chain >= 0;)
        loops = begins_with_itself(g, next_alternative(g, &chain), number) || loops;
    if (!loops) return build(g, rule->body, lexed, MC_RETURN);
    loop = mc_build_open(g->b);
    for (int32_t chain = rule->body; chain >= 0 && g->b->status == MICA_OK;) {
        int32_t alternative = next_alternative(g, &chain);
        if (begins_with_itself(g, alternative, number))
            on = mc_build_split(g->b, build_behind(g, alternative, lexed, loop), on);
        else
            first = mc_build_split(g->b, build(g, alternative, lexed, loop), first);
    }
    mc_build_close(g->b, loop, on, MC_RETURN);
    return first;
}

int32_t mc_cfg_build(mc_cfg *g, const char *start, int32_t next) {
    uint64_t number;
    if (g->b->status != MICA_OK) return MC_DEAD;
    if (!mc_map_find(&g->names, mc_str_of(start), &number)) {
        mc_cfg_fail(g, MICA_EFORMAT, "there is no rule %s", start);
        return MC_DEAD;
    }
    check_rules(g);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&g->own, mc_cfg_rule) && g->b->status == MICA_OK; i++)
        mc_build_define(g->b, rule_at(g, (int32_t)i)->built, build_rule(g, (int32_t)i));
    if (g->b->status != MICA_OK) return MC_DEAD;
    if (g->ignored >= 0) next = mc_build_call(g->b, rule_at(g, g->ignored)->built, next);
    return mc_build_call(g->b, rule_at(g, (int32_t)number)->built, next);
}
