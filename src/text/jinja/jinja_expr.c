#include "text/jinja/jinja_parse.h"

#include "base/utf8.h"
#include "text/jinja/jinja_run.h"
#include "text/jinja/jinja_str.h"

#include <string.h>

static mc_jnode *node_of(mc_jparser *p, mc_jnode_kind kind, mc_jnode *a, mc_jnode *b) {
    mc_jnode *node = mc_jnode_new(p, kind);
    node->a = a;
    node->b = b;
    return node;
}

static mc_jnode *constant(mc_jparser *p, mc_jvalue v) {
    mc_jnode *node = mc_jnode_new(p, MC_N_CONST);
    node->value = v;
    return node;
}

/* -- literals -- */

/* Reads a character's number in `digits` hexadecimal digits at text[*at], and moves *at past
 * them. */
static uint32_t hex_character(mc_jparser *p, mc_str text, size_t *at, size_t digits) {
    int64_t c = -1;
    if (text.len - *at < digits || !mc_jparse_int((mc_str){text.ptr + *at, digits}, 16, &c) ||
        c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) {
        mc_jparse_fail(p, "a malformed escape in a string, or one that is not a character");
        return 0;
    }
    *at += digits;
    return (uint32_t)c;
}

/* Writes the character of the escape at text[*at], behind the backslash; returns its length. */
static size_t unescape(mc_jparser *p, mc_str text, size_t *at, char *out) {
    static const char *const named = "abfnrtv\\'\"", meant[] = "\a\b\f\n\r\t\v\\'\"";
    char c = text.ptr[(*at)++];
    const char *name = c ? strchr(named, c) : NULL;
    if (c == '\n') return 0;
    if (name) {
        out[0] = meant[name - named];
        return 1;
    }
    if (c == 'x' || c == 'u' || c == 'U')
        return mc_utf8_encode(hex_character(p, text, at, c == 'x' ? 2 : c == 'u' ? 4 : 8), out);
    if (c >= '0' && c <= '7') {
        uint32_t value = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && *at < text.len; i++) {
            char digit = text.ptr[*at];
            if (digit < '0' || digit > '7') break;
            value = value * 8 + (uint32_t)(digit - '0');
            (*at)++;
        }
        return mc_utf8_encode(value, out);
    }
    out[0] = '\\'; /* an unknown escape stands for itself */
    out[1] = c;
    return 2;
}

/* Parses a string. It is never longer than its spelling, so that its buffer has that length. */
static mc_jnode *parse_string(mc_jparser *p) {
    size_t bytes = 0, n = 0;
    for (const mc_jtoken *t = p->at; t->kind == MC_T_STRING; t++)
        bytes += t->text.len;
    char *out = mc_arena_alloc(p->arena, bytes + 1);
    if (!out) mc_jparse_nomem(p);
    for (; p->at->kind == MC_T_STRING; p->at++) { /* adjacent strings are one */
        mc_str text = p->at->text;
        for (size_t at = 0; at < text.len;) {
            if (text.ptr[at] != '\\') {
                out[n++] = text.ptr[at++];
                continue;
            }
            at++;
            n += unescape(p, text, &at, out + n);
            if (p->status != MICA_OK) return &p->no_node;
        }
    }
    return constant(p, mc_jstr((mc_str){out, n}));
}

static mc_jnode *parse_number(mc_jparser *p) {
    char text[256];
    size_t n = 0, skip = 0;
    unsigned base = 10;
    mc_str token = p->at->text;
    mc_jvalue v = mc_jint(0);
    for (size_t i = 0; i < token.len && n < sizeof text; i++)
        if (token.ptr[i] != '_') text[n++] = token.ptr[i];
    bool real = p->at->kind == MC_T_FLOAT, ok = n < sizeof text;
    if (!real && n > 1 && text[0] == '0') {
        char letter = (char)(text[1] | 32);
        base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
        skip = base == 10 ? 0 : 2;
    }
    mc_str digits = {text + skip, n - skip};
    if (real) {
        v = mc_jfloat(0);
        ok = ok && mc_jparse_float(digits, &v.real);
    } else {
        ok = ok && mc_jparse_int(digits, base, &v.integer);
    }
    if (!ok) mc_jparse_fail(p, "a malformed number, or one beyond 64 bits");
    mc_jnode *node = constant(p, v);
    if (ok) mc_jparse_next(p);
    return node;
}

/* Parses expressions separated by commas up to `end`; a comma may come before `end`. */
static mc_jnode *parse_items(mc_jparser *p, mc_jnode_kind kind, const char *end) {
    mc_jnode *node = mc_jnode_new(p, kind), **tail = &node->a;
    mc_jparse_next(p);
    while (p->at != p->end && !mc_jparse_at_op(p, end)) {
        mc_jnode *item = mc_jparse_expression(p);
        *tail = item;
        tail = &item->next;
        if (kind == MC_N_DICT) {
            mc_jparse_expect(p, MC_T_OPERATOR, ":");
            item = mc_jparse_expression(p);
            *tail = item;
            tail = &item->next;
        }
        if (!mc_jparse_skip_op(p, ",")) break;
    }
    mc_jparse_expect(p, MC_T_OPERATOR, end);
    return node;
}

static mc_jnode *parse_parentheses(mc_jparser *p) {
    mc_jparse_next(p);
    mc_jnode *node =
        mc_jparse_at_op(p, ")") ? mc_jnode_new(p, MC_N_TUPLE) : mc_jparse_tuple(p, true);
    mc_jparse_expect(p, MC_T_OPERATOR, ")");
    return node;
}

static mc_jnode *parse_name(mc_jparser *p) {
    mc_str name = p->at->text;
    mc_jnode *node;
    if (mc_str_is(name, "true") || mc_str_is(name, "True")) {
        node = constant(p, mc_jbool(true));
    } else if (mc_str_is(name, "false") || mc_str_is(name, "False")) {
        node = constant(p, mc_jbool(false));
    } else if (mc_str_is(name, "none") || mc_str_is(name, "None")) {
        node = constant(p, mc_jnone());
    } else {
        node = mc_jnode_new(p, MC_N_NAME);
        node->name = name;
        if (p->macro && mc_str_is(name, "varargs")) p->macro->op |= MC_J_TAKES_VARARGS;
        if (p->macro && mc_str_is(name, "kwargs")) p->macro->op |= MC_J_TAKES_KWARGS;
    }
    mc_jparse_next(p);
    return node;
}

static mc_jnode *parse_primary(mc_jparser *p) {
    if (p->at->kind == MC_T_NAME) return parse_name(p);
    if (p->at->kind == MC_T_STRING) return parse_string(p);
    if (p->at->kind == MC_T_INT || p->at->kind == MC_T_FLOAT) return parse_number(p);
    if (mc_jparse_at_op(p, "(")) return parse_parentheses(p);
    if (mc_jparse_at_op(p, "[")) return parse_items(p, MC_N_LIST, "]");
    if (mc_jparse_at_op(p, "{")) return parse_items(p, MC_N_DICT, "}");
    mc_str found = p->at == p->end ? MC_STR("end of template") : p->at->text;
    mc_jparse_fail(p, "unexpected '%.*s', expected an expression", MC_STR_ARG(found));
    return &p->no_node;
}

/* -- postfix: calls, subscripts, filters, tests -- */

static mc_jnode *parse_argument(mc_jparser *p) {
    if (mc_jparse_skip_op(p, "*")) return node_of(p, MC_N_SPREAD, mc_jparse_expression(p), NULL);
    if (mc_jparse_skip_op(p, "**"))
        return node_of(p, MC_N_SPREAD_KEYS, mc_jparse_expression(p), NULL);
    bool named =
        p->at->kind == MC_T_NAME && p->at[1].kind == MC_T_OPERATOR && mc_str_is(p->at[1].text, "=");
    if (!named) return mc_jparse_expression(p);
    mc_jnode *node = mc_jnode_new(p, MC_N_KEYWORD);
    node->name = p->at->text;
    mc_jparse_next(p);
    mc_jparse_next(p);
    node->a = mc_jparse_expression(p);
    return node;
}

/* Parses "(...)"; the parenthesis is the next token. */
static mc_jnode *parse_arguments(mc_jparser *p) {
    mc_jnode *first = NULL, **tail = &first;
    mc_jparse_next(p);
    while (p->at != p->end && !mc_jparse_at_op(p, ")")) {
        mc_jnode *node = parse_argument(p);
        *tail = node;
        tail = &node->next;
        if (!mc_jparse_skip_op(p, ",")) break;
    }
    mc_jparse_expect(p, MC_T_OPERATOR, ")");
    return first;
}

static mc_jnode *slice_part(mc_jparser *p) {
    bool absent = mc_jparse_at_op(p, ":") || mc_jparse_at_op(p, "]");
    return absent ? NULL : mc_jparse_expression(p);
}

/* Parses node[...]; the bracket is the next token. */
static mc_jnode *parse_subscript(mc_jparser *p, mc_jnode *operand) {
    mc_jparse_next(p);
    mc_jnode *node = mc_jnode_new(p, MC_N_SLICE), *start = slice_part(p);
    if (mc_jparse_skip_op(p, ":")) {
        node->d = operand;
        node->a = start;
        node->b = slice_part(p);
        if (mc_jparse_skip_op(p, ":")) node->c = slice_part(p);
    } else {
        node->kind = MC_N_ITEM;
        node->a = operand;
        node->b = start;
        if (!start) mc_jparse_fail(p, "expected an index");
    }
    mc_jparse_expect(p, MC_T_OPERATOR, "]");
    return node;
}

static mc_jnode *parse_dot(mc_jparser *p, mc_jnode *operand) {
    mc_jparse_next(p);
    if (p->at->kind == MC_T_INT) return node_of(p, MC_N_ITEM, operand, parse_number(p));
    mc_jnode *node = node_of(p, MC_N_ATTR, operand, NULL);
    node->name = mc_jparse_name(p);
    return node;
}

/* .x [x] (x) */
static mc_jnode *parse_postfix(mc_jparser *p, mc_jnode *node) {
    for (;;) {
        if (mc_jparse_at_op(p, ".")) {
            node = parse_dot(p, node);
        } else if (mc_jparse_at_op(p, "[")) {
            node = parse_subscript(p, node);
        } else if (mc_jparse_at_op(p, "(")) {
            node = node_of(p, MC_N_CALL, node, NULL);
            node->b = parse_arguments(p);
        } else {
            return node;
        }
    }
}

mc_jnode *mc_jparse_filters(mc_jparser *p, mc_jnode *operand) {
    do {
        mc_jnode *node = node_of(p, MC_N_FILTER, operand, NULL);
        node->name = mc_jparse_name(p);
        node->builtin = mc_jfilter_find(node->name);
        if (mc_jparse_at_op(p, "(")) node->b = parse_arguments(p);
        operand = node;
    } while (mc_jparse_skip_op(p, "|"));
    return operand;
}

/* Whether a test's argument without parentheses comes next. */
static bool at_bare_argument(const mc_jparser *p) {
    if (p->at->kind == MC_T_NAME) {
        return !mc_jparse_at(p, MC_T_NAME, "else") && !mc_jparse_at(p, MC_T_NAME, "or") &&
               !mc_jparse_at(p, MC_T_NAME, "and");
    }
    return p->at->kind == MC_T_STRING || p->at->kind == MC_T_INT || p->at->kind == MC_T_FLOAT ||
           mc_jparse_at_op(p, "[") || mc_jparse_at_op(p, "{");
}

static mc_jnode *parse_test(mc_jparser *p, mc_jnode *operand) {
    bool negated = mc_jparse_skip_word(p, "not");
    mc_jnode *node = node_of(p, MC_N_TEST, operand, NULL);
    node->name = mc_jparse_name(p);
    node->builtin = mc_jtest_find(node->name);
    if (mc_jparse_at_op(p, "(")) {
        node->b = parse_arguments(p);
    } else if (mc_jparse_at(p, MC_T_NAME, "is")) {
        mc_jparse_fail(p, "tests cannot be chained with 'is'");
    } else if (at_bare_argument(p)) {
        node->b = parse_postfix(p, parse_primary(p));
    }
    return negated ? node_of(p, MC_N_NOT, node, NULL) : node;
}

static mc_jnode *parse_filters_and_tests(mc_jparser *p, mc_jnode *node) {
    for (;;) {
        if (mc_jparse_skip_op(p, "|")) {
            node = mc_jparse_filters(p, node);
        } else if (mc_jparse_skip_word(p, "is")) {
            node = parse_test(p, node);
        } else if (mc_jparse_at_op(p, "(")) {
            node = parse_postfix(p, node);
        } else {
            return node;
        }
    }
}

/* -- operators, the tightest first -- */

static mc_jnode *parse_unary(mc_jparser *p, bool filtered) {
    mc_jnode *node;
    if (!mc_jparse_enter(p)) return &p->no_node;
    if (mc_jparse_skip_op(p, "-")) {
        node = node_of(p, MC_N_NEGATIVE, parse_unary(p, false), NULL);
    } else if (mc_jparse_skip_op(p, "+")) {
        node = node_of(p, MC_N_POSITIVE, parse_unary(p, false), NULL);
    } else {
        node = parse_primary(p);
    }
    node = parse_postfix(p, node);
    if (filtered) node = parse_filters_and_tests(p, node);
    mc_jparse_leave(p);
    return node;
}

typedef struct operator_row {
    const char *text;
    mc_jop op;
    int level; /* higher binds tighter; all are left-associative, also ** */
} operator_row;

static const operator_row operators[] = {
    {"+", MC_OP_ADD, 1}, {"-", MC_OP_SUB, 1},       {"~", MC_OP_CONCAT, 2}, {"*", MC_OP_MUL, 3},
    {"/", MC_OP_DIV, 3}, {"//", MC_OP_FLOORDIV, 3}, {"%", MC_OP_MOD, 3},    {"**", MC_OP_POW, 4},
};

static const operator_row comparisons[] = {
    {"==", MC_OP_EQ, 0}, {"!=", MC_OP_NE, 0}, {"<", MC_OP_LT, 0},
    {"<=", MC_OP_LE, 0}, {">", MC_OP_GT, 0},  {">=", MC_OP_GE, 0},
};

static const operator_row *find_operator(const mc_jparser *p, const operator_row *rows, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (mc_jparse_at_op(p, rows[i].text)) return &rows[i];
    return NULL;
}

static mc_jnode *parse_binary(mc_jparser *p, int level) {
    mc_jnode *left = parse_unary(p, true);
    for (;;) {
        const operator_row *row = find_operator(p, operators, sizeof operators / sizeof *operators);
        if (!row || row->level < level) return left;
        left = node_of(p, MC_N_BINARY, left, NULL);
        left->op = (uint8_t)row->op;
        mc_jparse_next(p);
        left->b = parse_binary(p, row->level + 1);
    }
}

/* Takes the operator of a comparison if it comes next. */
static bool skip_comparison(mc_jparser *p, mc_jop *op) {
    const operator_row *row =
        find_operator(p, comparisons, sizeof comparisons / sizeof *comparisons);
    if (row) {
        *op = row->op;
        mc_jparse_next(p);
        return true;
    }
    if (mc_jparse_at(p, MC_T_NAME, "not") && p->at[1].kind == MC_T_NAME &&
        mc_str_is(p->at[1].text, "in")) {
        *op = MC_OP_NOT_IN;
        mc_jparse_next(p);
        mc_jparse_next(p);
        return true;
    }
    *op = MC_OP_IN;
    return mc_jparse_skip_word(p, "in");
}

static mc_jnode *parse_compare(mc_jparser *p) {
    mc_jnode *left = parse_binary(p, 1), *node = NULL, **tail = NULL;
    mc_jop op;
    while (skip_comparison(p, &op)) {
        if (!node) {
            node = node_of(p, MC_N_COMPARE, left, NULL);
            tail = &node->b;
        }
        mc_jnode *operand = node_of(p, MC_N_OPERAND, parse_binary(p, 1), NULL);
        operand->op = (uint8_t)op;
        *tail = operand;
        tail = &operand->next;
    }
    return node ? node : left;
}

static mc_jnode *parse_not(mc_jparser *p) {
    if (!mc_jparse_skip_word(p, "not")) return parse_compare(p);
    if (!mc_jparse_enter(p)) return &p->no_node;
    mc_jnode *node = node_of(p, MC_N_NOT, parse_not(p), NULL);
    mc_jparse_leave(p);
    return node;
}

static mc_jnode *parse_and(mc_jparser *p) {
    mc_jnode *left = parse_not(p);
    while (mc_jparse_skip_word(p, "and"))
        left = node_of(p, MC_N_AND, left, parse_not(p));
    return left;
}

static mc_jnode *parse_or(mc_jparser *p) {
    mc_jnode *left = parse_and(p);
    while (mc_jparse_skip_word(p, "or"))
        left = node_of(p, MC_N_OR, left, parse_and(p));
    return left;
}

static mc_jnode *parse_condition(mc_jparser *p) {
    mc_jnode *node = parse_or(p);
    while (mc_jparse_skip_word(p, "if")) {
        node = node_of(p, MC_N_CONDITION, node, parse_or(p));
        if (mc_jparse_skip_word(p, "else")) node->c = mc_jparse_expression(p);
    }
    return node;
}

mc_jnode *mc_jparse_expression(mc_jparser *p) {
    if (!mc_jparse_enter(p)) return &p->no_node;
    mc_jnode *node = parse_condition(p);
    mc_jparse_leave(p);
    return node;
}

/* -- tuples -- */

static bool at_tuple_end(const mc_jparser *p) {
    return p->at == p->end || p->at->kind == MC_T_END_PRINT || p->at->kind == MC_T_END_BLOCK ||
           mc_jparse_at_op(p, ")") || mc_jparse_at_op(p, "=") || mc_jparse_at(p, MC_T_NAME, "in") ||
           mc_jparse_at(p, MC_T_NAME, "recursive");
}

/* `first`, or if a comma follows, a tuple of it and of what `parse` reads after it. */
static mc_jnode *parse_more(mc_jparser *p, mc_jnode *first, mc_jnode *(*parse)(mc_jparser *p)) {
    if (!mc_jparse_at_op(p, ",")) return first;
    mc_jnode *node = node_of(p, MC_N_TUPLE, first, NULL), **tail = &first->next;
    while (mc_jparse_skip_op(p, ",") && !at_tuple_end(p)) {
        mc_jnode *item = parse(p);
        *tail = item;
        tail = &item->next;
    }
    return node;
}

mc_jnode *mc_jparse_tuple(mc_jparser *p, bool conditions) {
    mc_jnode *(*parse)(mc_jparser * p) = conditions ? mc_jparse_expression : parse_or;
    return parse_more(p, parse(p), parse);
}

static mc_jnode *parse_one_target(mc_jparser *p) {
    mc_jnode *node;
    if (!mc_jparse_enter(p)) return &p->no_node;
    if (mc_jparse_skip_op(p, "(")) {
        node = mc_jparse_target(p);
        mc_jparse_expect(p, MC_T_OPERATOR, ")");
    } else {
        node = parse_primary(p);
        if (node->kind == MC_N_NAME && mc_jparse_at_op(p, ".")) node = parse_dot(p, node);
        if (node->kind != MC_N_NAME && node->kind != MC_N_ATTR)
            mc_jparse_fail(p, "cannot assign to that: expected a name");
    }
    mc_jparse_leave(p);
    return node;
}

mc_jnode *mc_jparse_target(mc_jparser *p) {
    return parse_more(p, parse_one_target(p), parse_one_target);
}
