#include "text/jinja/jinja_parse.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "text/jinja/jinja.h"
#include "text/jinja/jinja_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 120 };

struct mc_jinja {
    mc_arena arena;
    const char *name;
    mc_jnode *body;
};

/* -- the parser's tools -- */

void mc_jparse_fail(mc_jparser *p, const char *fmt, ...) {
    char text[256];
    va_list args;
    if (p->status != MICA_OK) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    p->status = mc_fail(MICA_EFORMAT, "%s, line %u: %s", p->name, (unsigned)p->at->line, text);
    p->at = p->end;
}

void mc_jparse_nomem(mc_jparser *p) {
    if (p->status == MICA_OK) p->status = mc_fail_nomem(p->name);
    p->at = p->end;
}

bool mc_jparse_enter(mc_jparser *p) {
    if (p->depth == MAX_DEPTH) mc_jparse_fail(p, "nested more than %d levels deep", MAX_DEPTH);
    if (p->status != MICA_OK) return false;
    p->depth++;
    return true;
}

void mc_jparse_leave(mc_jparser *p) {
    p->depth--;
}

mc_jnode *mc_jnode_new(mc_jparser *p, mc_jnode_kind kind) {
    mc_jnode *node = mc_arena_calloc(p->arena, sizeof *node);
    if (!node) {
        mc_jparse_nomem(p);
        return &p->no_node;
    }
    node->kind = (uint8_t)kind;
    node->line = p->at->line;
    return node;
}

bool mc_jparse_at(const mc_jparser *p, mc_jtoken_kind kind, const char *text) {
    return p->at->kind == kind && (!text || mc_str_is(p->at->text, text));
}

bool mc_jparse_skip(mc_jparser *p, mc_jtoken_kind kind, const char *text) {
    if (!mc_jparse_at(p, kind, text)) return false;
    mc_jparse_next(p);
    return true;
}

static void unexpected(mc_jparser *p, const char *wanted) {
    mc_str found = p->at == p->end ? MC_STR("end of template") : p->at->text;
    if (found.len > 40) found.len = 40;
    mc_jparse_fail(p, "unexpected '%.*s', expected %s", MC_STR_ARG(found), wanted);
}

void mc_jparse_expect(mc_jparser *p, mc_jtoken_kind kind, const char *text) {
    const char *wanted = text ? text : kind == MC_T_END_PRINT ? "'}}'" : "'%}'";
    if (!mc_jparse_skip(p, kind, text)) unexpected(p, wanted);
}

mc_str mc_jparse_name(mc_jparser *p) {
    mc_str name = p->at->text;
    if (mc_jparse_skip(p, MC_T_NAME, NULL)) return name;
    unexpected(p, "a name");
    return MC_STR("");
}

/* -- statements -- */

/* Parses statements up to a tag that begins with one of `ends`, which is then the next token. */
static mc_jnode *parse_until(mc_jparser *p, const char *const *ends);

/* Parses the rest of a tag, statements, and the tag `end`. */
static mc_jnode *parse_body(mc_jparser *p, const char *end) {
    const char *const ends[] = {end, NULL};
    mc_jparse_skip_op(p, ":");
    mc_jparse_expect(p, MC_T_END_BLOCK, NULL);
    mc_jnode *body = parse_until(p, ends);
    mc_jparse_expect(p, MC_T_NAME, end);
    return body;
}

static mc_jnode *parse_if(mc_jparser *p) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    mc_jnode *first = mc_jnode_new(p, MC_N_IF), *node = first;
    for (;;) {
        node->a = mc_jparse_tuple(p, false);
        mc_jparse_skip_op(p, ":");
        mc_jparse_expect(p, MC_T_END_BLOCK, NULL);
        node->b = parse_until(p, ends);
        if (!mc_jparse_skip_word(p, "elif")) break;
        node = node->c = mc_jnode_new(p, MC_N_IF);
    }
    if (mc_jparse_skip_word(p, "else")) {
        node->c = parse_body(p, "endif");
    } else {
        mc_jparse_expect(p, MC_T_NAME, "endif");
    }
    return first;
}

static mc_jnode *parse_for(mc_jparser *p) {
    static const char *const ends[] = {"else", "endfor", NULL};
    mc_jnode *node = mc_jnode_new(p, MC_N_FOR);
    node->a = mc_jparse_target(p);
    mc_jparse_expect(p, MC_T_NAME, "in");
    node->b = mc_jparse_tuple(p, false);
    if (mc_jparse_skip_word(p, "if")) node->e = mc_jparse_expression(p);
    node->op = mc_jparse_skip_word(p, "recursive");
    mc_jparse_skip_op(p, ":");
    mc_jparse_expect(p, MC_T_END_BLOCK, NULL);
    p->loops++;
    node->c = parse_until(p, ends);
    p->loops--;
    if (mc_jparse_skip_word(p, "else")) {
        node->d = parse_body(p, "endfor");
    } else {
        mc_jparse_expect(p, MC_T_NAME, "endfor");
    }
    return node;
}

/* The variable MC_J_BLOCK_TEXT, and the filters that follow. */
static mc_jnode *parse_block_text(mc_jparser *p, bool filtered) {
    mc_jnode *text = mc_jnode_new(p, MC_N_NAME);
    text->name = MC_STR(MC_J_BLOCK_TEXT);
    return filtered ? mc_jparse_filters(p, text) : text;
}

static mc_jnode *parse_set(mc_jparser *p) {
    mc_jnode *node = mc_jnode_new(p, MC_N_SET);
    node->a = mc_jparse_target(p);
    if (mc_jparse_skip_op(p, "=")) {
        node->b = mc_jparse_tuple(p, true);
    } else {
        node->kind = MC_N_SET_BLOCK;
        node->b = parse_block_text(p, mc_jparse_skip_op(p, "|"));
        node->c = parse_body(p, "endset");
    }
    return node;
}

static mc_jnode *parse_filter_block(mc_jparser *p) {
    mc_jnode *node = mc_jnode_new(p, MC_N_FILTER_BLOCK);
    node->b = parse_block_text(p, true);
    node->c = parse_body(p, "endfilter");
    return node;
}

static mc_jnode *parse_params(mc_jparser *p) {
    mc_jnode *first = NULL, **tail = &first;
    while (p->at != p->end && !mc_jparse_at_op(p, ")")) {
        if (first) mc_jparse_expect(p, MC_T_OPERATOR, ",");
        mc_jnode *param = mc_jnode_new(p, MC_N_NAME);
        param->name = mc_jparse_name(p);
        if (mc_jparse_skip_op(p, "=")) param->a = mc_jparse_expression(p);
        *tail = param;
        tail = &param->next;
    }
    mc_jparse_expect(p, MC_T_OPERATOR, ")");
    return first;
}

/* Parses a macro's body. It is in no loop: break and continue are errors there. */
static void parse_macro_body(mc_jparser *p, mc_jnode *macro, const char *end) {
    unsigned loops = p->loops;
    mc_jnode *outer = p->macro;
    p->loops = 0;
    p->macro = macro;
    macro->c = parse_body(p, end);
    if (outer) outer->op |= macro->op; /* names in a macro within it are in it, too */
    p->macro = outer;
    p->loops = loops;
}

static mc_jnode *parse_macro(mc_jparser *p) {
    mc_jnode *node = mc_jnode_new(p, MC_N_MACRO);
    node->name = mc_jparse_name(p);
    mc_jparse_expect(p, MC_T_OPERATOR, "(");
    node->a = parse_params(p);
    parse_macro_body(p, node, "endmacro");
    return node;
}

static mc_jnode *parse_call_block(mc_jparser *p) {
    mc_jnode *node = mc_jnode_new(p, MC_N_CALL_BLOCK);
    node->name = MC_STR("caller");
    if (mc_jparse_skip_op(p, "(")) node->a = parse_params(p);
    node->b = mc_jparse_expression(p);
    if (node->b->kind != MC_N_CALL) mc_jparse_fail(p, "expected a call");
    parse_macro_body(p, node, "endcall");
    return node;
}

static mc_jnode *parse_with(mc_jparser *p) {
    mc_jnode *node = mc_jnode_new(p, MC_N_WITH), **tail = &node->a;
    while (p->at->kind == MC_T_NAME) {
        mc_jnode *set = mc_jnode_new(p, MC_N_SET);
        set->a = mc_jparse_target(p);
        mc_jparse_expect(p, MC_T_OPERATOR, "=");
        set->b = mc_jparse_expression(p);
        *tail = set;
        tail = &set->next;
        if (!mc_jparse_skip_op(p, ",")) break;
    }
    node->c = parse_body(p, "endwith");
    return node;
}

static mc_jnode *parse_generation(mc_jparser *p) {
    mc_jnode *node = mc_jnode_new(p, MC_N_GROUP);
    node->c = parse_body(p, "endgeneration");
    return node;
}

static mc_jnode *parse_loop_control(mc_jparser *p, mc_jnode_kind kind) {
    if (p->loops == 0) mc_jparse_fail(p, "break or continue outside of a loop");
    return mc_jnode_new(p, kind);
}

static mc_jnode *parse_break(mc_jparser *p) {
    return parse_loop_control(p, MC_N_BREAK);
}

static mc_jnode *parse_continue(mc_jparser *p) {
    return parse_loop_control(p, MC_N_CONTINUE);
}

static const struct {
    const char *word;
    mc_jnode *(*parse)(mc_jparser *p); /* parses what follows the word */
} statements[] = {
    {"if", parse_if},           {"for", parse_for},
    {"set", parse_set},         {"macro", parse_macro},
    {"call", parse_call_block}, {"filter", parse_filter_block},
    {"with", parse_with},       {"generation", parse_generation},
    {"break", parse_break},     {"continue", parse_continue},
};

static mc_jnode *parse_statement(mc_jparser *p) {
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (mc_jparse_skip_word(p, statements[i].word)) return statements[i].parse(p);
    mc_jparse_fail(p, "unknown tag '%.*s'", MC_STR_ARG(p->at->text));
    return &p->no_node;
}

static mc_jnode *parse_text(mc_jparser *p) {
    mc_jnode *node = mc_jnode_new(p, MC_N_TEXT);
    node->value = mc_jstr(p->at->text);
    mc_jparse_next(p);
    return node;
}

static bool at_one_of(const mc_jparser *p, const char *const *words) {
    for (; *words; words++)
        if (mc_jparse_at(p, MC_T_NAME, *words)) return true;
    return false;
}

static mc_jnode *parse_until(mc_jparser *p, const char *const *ends) {
    mc_jnode *first = NULL, **tail = &first;
    if (!mc_jparse_enter(p)) return NULL;
    while (p->at != p->end) {
        mc_jnode *node = NULL;
        if (p->at->kind == MC_T_TEXT) {
            node = parse_text(p);
        } else if (mc_jparse_skip(p, MC_T_BEGIN_PRINT, NULL)) {
            node = mc_jnode_new(p, MC_N_PRINT);
            node->a = mc_jparse_tuple(p, true);
            mc_jparse_expect(p, MC_T_END_PRINT, NULL);
        } else {
            mc_jparse_next(p); /* {% */
            if (at_one_of(p, ends)) break;
            node = parse_statement(p);
            mc_jparse_expect(p, MC_T_END_BLOCK, NULL);
        }
        *tail = node;
        tail = &node->next;
    }
    if (p->at == p->end && *ends) unexpected(p, ends[0]);
    mc_jparse_leave(p);
    return first;
}

/* -- templates -- */

/* Copies the source with lines ended by \n, and without a final newline. */
static mica_status copy_source(mc_jinja *t, mc_str source, mc_str *out) {
    char *copy = mc_arena_alloc(&t->arena, source.len);
    size_t n = 0;
    if (!copy) return mc_fail_nomem(t->name);
    if (!mc_utf8_valid(source.ptr, source.len))
        return mc_fail(MICA_EFORMAT, "%s: the template is not UTF-8", t->name);
    for (size_t i = 0; i < source.len; i++) {
        bool pair = source.ptr[i] == '\r' && i + 1 < source.len && source.ptr[i + 1] == '\n';
        if (!pair) copy[n++] = source.ptr[i] == '\r' ? '\n' : source.ptr[i];
    }
    if (n && copy[n - 1] == '\n') n--;
    *out = (mc_str){copy, n};
    return MICA_OK;
}

static mica_status parse(mc_jinja *t, mc_str source, mc_buffer *tokens) {
    static const char *const no_ends[] = {NULL};
    MC_TRY(copy_source(t, source, &source));
    MC_TRY(mc_jlex(source, t->name, tokens));
    const mc_jtoken *first = MC_BUFFER_AT(tokens, mc_jtoken);
    mc_jparser p = {.name = t->name, .arena = &t->arena, .at = first};
    p.end = first + MC_BUFFER_COUNT(tokens, mc_jtoken) - 1;
    t->body = parse_until(&p, no_ends);
    return p.status;
}

mica_status mc_jinja_parse(mc_str source, const char *name, mc_jinja **out) {
    mc_buffer tokens = {0};
    mica_status status;
    *out = NULL;
    mc_jinja *t = mc_calloc(1, sizeof *t);
    if (!t) return mc_fail_nomem(name);
    t->name = mc_arena_strndup(&t->arena, name, strlen(name));
    status = t->name ? parse(t, source, &tokens) : mc_fail_nomem(name);
    mc_buffer_deinit(&tokens);
    if (status == MICA_OK) {
        *out = t;
    } else {
        mc_jinja_close(&t);
    }
    return status;
}

void mc_jinja_close(mc_jinja **t) {
    if (!*t) return;
    mc_arena_deinit(&(*t)->arena);
    mc_free(*t);
    *t = NULL;
}

static mc_jvalue variable_value(mc_jrun *r, const mc_jinja_variable *v) {
    if (!v->text.ptr) return mc_jjson(r, v->json);
    r->given += v->text.len;
    return mc_jstr(v->text);
}

mica_status mc_jinja_render(const mc_jinja *t, const mc_jinja_variable *variables, size_t n,
                            const mc_jinja_options *options, mc_buffer *out) {
    const mc_jinja_options defaults = {0};
    mc_jrun r = {.name = t->name,
                 .line = 1,
                 .options = options ? options : &defaults,
                 .out = out,
                 .out_start = out->len,
                 .max_steps = UINT64_MAX,
                 .max_bytes = SIZE_MAX};
    mc_jscope scope = {0};
    r.scope = &scope;
    for (size_t i = 0; i < n; i++)
        mc_jset(&r, variables[i].name, variable_value(&r, &variables[i]));
    mc_jbound(&r);
    mc_jexec(&r, t->body);
    if (r.status != MICA_OK) out->len = r.out_start;
    mc_arena_deinit(&r.arena);
    return r.status;
}
