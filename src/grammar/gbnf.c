#include "grammar/gbnf.h"

#include "base/utf8.h"
#include "grammar/grammar_cfg.h"

#include <string.h>

static void skip(mc_cfg *g) {
    for (int c; (c = mc_cfg_peek(g)) >= 0;) {
        if (c == '#') {
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
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static mc_str take_name(mc_cfg *g) {
    size_t from = g->at;
    while (is_name(mc_cfg_peek(g)))
        g->at++;
    return (mc_str){g->text.ptr + from, g->at - from};
}

/* Whether a rule begins here, which ends the one before. */
static bool ends(mc_cfg *g) {
    size_t from = g->at;
    bool rule = take_name(g).len > 0;
    skip(g);
    rule = rule && mc_cfg_take(g, "::=");
    g->at = from;
    return rule;
}

static bool take_char(mc_cfg *g, uint32_t *c) {
    if (mc_cfg_take(g, "\\")) return mc_cfg_take_escape(g, c);
    if (mc_cfg_peek(g) < 0) return false;
    size_t n = mc_utf8_decode(g->text.ptr + g->at, g->text.len - g->at, c);
    g->at += n;
    return n > 0;
}

/* [...], behind its bracket. */
static int32_t read_class(mc_cfg *g) {
    mc_buffer ranges = {0};
    bool out = mc_cfg_take(g, "^"), good = true;
    while (good && mc_cfg_peek(g) >= 0 && mc_cfg_peek(g) != ']') {
        mc_char_range range;
        good = take_char(g, &range.low);
        range.high = range.low;
        if (good && mc_cfg_peek(g) == '-' && g->at + 1 < g->text.len &&
            g->text.ptr[g->at + 1] != ']') {
            g->at++;
            good = take_char(g, &range.high) && range.high >= range.low;
        }
        if (good && !mc_buffer_add(&ranges, &range, sizeof range))
            mc_builder_fail(g->b, mc_fail_nomem("a grammar"));
    }
    size_t count = MC_BUFFER_COUNT(&ranges, mc_char_range);
    int32_t class = -1;
    if (!good || !mc_cfg_take(g, "]")) {
        mc_cfg_fail(g, MICA_EFORMAT, "a class without its ], or with a character that is none");
    } else if (!mc_buffer_reserve(&ranges, (count + 1) * sizeof(mc_char_range))) {
        mc_builder_fail(g->b, mc_fail_nomem("a grammar"));
    } else {
        mc_char_range *all = MC_BUFFER_AT(&ranges, mc_char_range), *inverted = all + count;
        count = mc_char_ranges_join(all, count);
        if (out) count = mc_char_ranges_invert(all, count, MC_CHAR_MAX, inverted);
        class = mc_cfg_add_class(g, out ? inverted : all, count);
    }
    mc_buffer_deinit(&ranges);
    return class;
}

static int32_t read_atom(mc_cfg *g);
static bool take_repeat(mc_cfg *g, int *min, int *max);

static const mc_cfg_syntax syntax = {skip, ends, read_atom, take_repeat, NULL};

static bool take_repeat(mc_cfg *g, int *min, int *max) {
    *min = 0;
    *max = 1;
    return mc_cfg_take(g, "?");
}

static int32_t read_atom(mc_cfg *g) {
    static const mc_char_range any = {0, MC_CHAR_MAX};
    mc_str text;
    if (mc_cfg_take(g, "(")) return mc_cfg_read_group(g, &syntax, ")");
    if (mc_cfg_take(g, "[")) return read_class(g);
    if (mc_cfg_take(g, ".")) return mc_cfg_add_class(g, &any, 1);
    if (mc_cfg_take(g, "\""))
        return mc_cfg_take_string(g, &text)
                   ? mc_cfg_add(g, (mc_expr){.kind = MC_EXPR_TEXT, .text = text})
                   : -1;
    if (mc_cfg_peek(g) == '<' || mc_cfg_peek(g) == '!')
        return mc_cfg_fail(g, MICA_EUNSUPPORTED, "tokens are not supported: write text");
    text = take_name(g);
    if (!text.len) return mc_cfg_fail(g, MICA_EFORMAT, "want a string, a class, a name or a group");
    int32_t rule = mc_cfg_rule_number(g, text);
    return rule < 0 ? -1 : mc_cfg_add(g, (mc_expr){.kind = MC_EXPR_RULE, .one = rule});
}

static void read_rule(mc_cfg *g) {
    mc_str name = take_name(g);
    skip(g);
    if (!name.len || !mc_cfg_take(g, "::=")) {
        mc_cfg_fail(g, MICA_EFORMAT, "want a rule: name ::= ...");
        return;
    }
    int32_t rule = mc_cfg_define(g, name);
    int32_t body = rule < 0 ? -1 : mc_cfg_read_either(g, &syntax);
    if (body < 0) return;
    MC_BUFFER_AT(&g->own, mc_cfg_rule)[rule].body = body;
    if (mc_cfg_peek(g) == ')' || mc_cfg_peek(g) == ']')
        mc_cfg_fail(g, MICA_EFORMAT, "a bracket that closes nothing");
}

int32_t mc_build_gbnf(mc_json_rules *rules, mc_str text, int32_t next) {
    mc_cfg g;
    mc_cfg_init(&g, rules, text);
    for (skip(&g); g.b->status == MICA_OK && mc_cfg_peek(&g) >= 0; skip(&g))
        read_rule(&g);
    int32_t start = mc_cfg_build(&g, "root", next);
    mc_cfg_deinit(&g);
    return start;
}

bool mc_is_gbnf(mc_str text) {
    mc_cfg g = {.text = text};
    skip(&g);
    return ends(&g);
}
