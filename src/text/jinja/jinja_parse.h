/* Shared by the two parts of the parser: statements (jinja_parse.c) and expressions (jinja_expr.c).
 *
 * Errors are sticky: the first one is kept and moves the parser to the end of the tokens, so that
 * parsing ends. Nodes are never NULL. */
#ifndef TEXT_JINJA_JINJA_PARSE_H
#define TEXT_JINJA_JINJA_PARSE_H

#include "text/jinja/jinja_ast.h"
#include "text/jinja/jinja_lex.h"

typedef struct mc_jparser {
    const char *name; /* of the template */
    mc_arena *arena;
    const mc_jtoken *at, *end; /* end: the token of kind MC_T_END */
    mica_status status;
    unsigned depth;
    unsigned loops;   /* number of loops around the current token */
    mc_jnode *macro;  /* the innermost around it, or NULL */
    mc_jnode no_node; /* stands for a node without memory */
} mc_jparser;

/* -- jinja_parse.c -- */

void mc_jparse_fail(mc_jparser *p, const char *fmt, ...) MC_PRINTF(2, 3);
void mc_jparse_nomem(mc_jparser *p);
bool mc_jparse_enter(mc_jparser *p); /* false: nested too deep; do not leave */
void mc_jparse_leave(mc_jparser *p);
mc_jnode *mc_jnode_new(mc_jparser *p, mc_jnode_kind kind);

/* Skips a token. Never skips the end, where the parser is after an error. */
static inline void mc_jparse_next(mc_jparser *p) {
    if (p->at != p->end) p->at++;
}
bool mc_jparse_at(const mc_jparser *p, mc_jtoken_kind kind, const char *text);
bool mc_jparse_skip(mc_jparser *p, mc_jtoken_kind kind, const char *text); /* if it comes next */
void mc_jparse_expect(mc_jparser *p, mc_jtoken_kind kind, const char *text);
mc_str mc_jparse_name(mc_jparser *p); /* any name */

static inline bool mc_jparse_at_op(const mc_jparser *p, const char *text) {
    return mc_jparse_at(p, MC_T_OPERATOR, text);
}
static inline bool mc_jparse_skip_op(mc_jparser *p, const char *text) {
    return mc_jparse_skip(p, MC_T_OPERATOR, text);
}
static inline bool mc_jparse_skip_word(mc_jparser *p, const char *text) {
    return mc_jparse_skip(p, MC_T_NAME, text);
}

/* -- jinja_expr.c -- */

mc_jnode *mc_jparse_expression(mc_jparser *p);
/* One expression, or several separated by commas: a tuple. conditions: allows `a if b`. */
mc_jnode *mc_jparse_tuple(mc_jparser *p, bool conditions);
/* A target of an assignment: a name, a namespace's attribute, or a tuple of them. */
mc_jnode *mc_jparse_target(mc_jparser *p);
/* The filters "| a | b" of `operand`, at least one; the first bar was skipped already. */
mc_jnode *mc_jparse_filters(mc_jparser *p, mc_jnode *operand);

#endif
