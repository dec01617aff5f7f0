/* The interface between the parts of the interpreter.
 *
 * Everything that templates call (a builtin) is a row of a table: name, parameters, function. */
#ifndef TEXT_JINJA_JINJA_RUN_H
#define TEXT_JINJA_JINJA_RUN_H

#include "text/jinja/jinja_ast.h"
#include "text/jinja/jinja_value.h"

/* -- calls -- */

enum { MC_J_MAX_PARAMS = 5 };

typedef struct mc_jcall {
    mc_jvalue self;        /* the value before `|`, `is` or the dot */
    const mc_jvalue *args; /* one value per parameter, ABSENT if not given; for "*" as given */
    size_t count;
    const mc_jdict *named; /* for "*" */
} mc_jcall;

struct mc_jbuiltin {
    const char *name;
    const char *params; /* names separated by spaces, "*" for any */
    size_t required;    /* number of parameters that must be given */
    mc_jvalue (*call)(mc_jrun *r, const mc_jcall *c);
};

/* NULL: there is none of that name. */
const mc_jbuiltin *mc_jfilter_find(mc_str name);
const mc_jbuiltin *mc_jtest_find(mc_str name);
const mc_jbuiltin *mc_jglobal_find(mc_str name);
const mc_jbuiltin *mc_jmethod_find(mc_jkind kind, mc_str name);

/* Finds a row of a table. */
const mc_jbuiltin *mc_jbuiltin_find(const mc_jbuiltin *rows, size_t n, mc_str name);

/* Matches arguments to parameters and calls. named may be NULL. */
mc_jvalue mc_jcall_builtin(mc_jrun *r, const mc_jbuiltin *b, mc_jvalue self, const mc_jlist *args,
                           const mc_jdict *named);

/* An argument of a certain type; `otherwise` if it is absent or None. */
int64_t mc_jarg_int(mc_jrun *r, const mc_jcall *c, size_t i, int64_t otherwise);
mc_str mc_jarg_str(mc_jrun *r, const mc_jcall *c, size_t i, const char *otherwise);
bool mc_jarg_truth(const mc_jcall *c, size_t i); /* false if absent */

/* -- jinja_seq.c: filters of sequences -- */

#define MC_J_SEQUENCE_FILTERS(X)                            \
    X("batch", batch, "linecount fill_with", 1)             \
    X("count", length, "", 0)                               \
    X("dictsort", dictsort, "case_sensitive by reverse", 0) \
    X("first", first, "", 0)                                \
    X("items", items, "", 0)                                \
    X("join", join, "d attribute", 0)                       \
    X("last", last, "", 0)                                  \
    X("length", length, "", 0)                              \
    X("list", list, "", 0)                                  \
    X("map", map, "*", 0)                                   \
    X("max", max, "case_sensitive attribute", 0)            \
    X("min", min, "case_sensitive attribute", 0)            \
    X("reject", reject, "*", 0)                             \
    X("rejectattr", rejectattr, "*", 0)                     \
    X("reverse", reverse, "", 0)                            \
    X("select", select, "*", 0)                             \
    X("selectattr", selectattr, "*", 0)                     \
    X("sort", sort, "reverse case_sensitive attribute", 0)  \
    X("sum", sum, "attribute start", 0)                     \
    X("unique", unique, "case_sensitive attribute", 0)

#define MC_J_FILTER_DECLARE(name, function, params, required) \
    mc_jvalue mc_jseq_##function(mc_jrun *r, const mc_jcall *c);
MC_J_SEQUENCE_FILTERS(MC_J_FILTER_DECLARE)
#undef MC_J_FILTER_DECLARE

/* -- jinja_op.c -- */

mc_jvalue mc_jbinary(mc_jrun *r, mc_jop op, mc_jvalue a, mc_jvalue b);
mc_jvalue mc_jnegative(mc_jrun *r, mc_jvalue v);
mc_jvalue mc_jget_attr(mc_jrun *r, mc_jvalue v, mc_str name);     /* v.name */
mc_jvalue mc_jget_item(mc_jrun *r, mc_jvalue v, mc_jvalue index); /* v[index] */
mc_jvalue mc_jget_path(mc_jrun *r, mc_jvalue v, mc_str path);     /* "a.0.b", in filters */
/* v[start:stop:step], each an integer or None. */
mc_jvalue mc_jslice(mc_jrun *r, mc_jvalue v, mc_jvalue start, mc_jvalue stop, mc_jvalue step);

/* -- jinja_eval.c and jinja_exec.c -- */

struct mc_jloop {
    const mc_jlist *items;
    size_t index;      /* from 0 */
    int64_t depth;     /* from 0: of recursive loops */
    mc_jvalue changed; /* last arguments of loop.changed */
    const mc_jnode *node;
    mc_jscope *scope; /* around it */
};

struct mc_jmacro {
    const mc_jnode *node; /* MACRO or CALL_BLOCK */
    mc_jscope *scope;     /* scope of its definition */
};

mc_jvalue mc_jeval(mc_jrun *r, const mc_jnode *node);
mc_jvalue mc_jcall_macro(mc_jrun *r, const mc_jmacro *macro, const mc_jlist *args,
                         const mc_jdict *named);
mc_jvalue mc_jcall_loop(mc_jrun *r, const mc_jloop *loop, const mc_jlist *args); /* recursive */
/* Sets a variable of the innermost scope. */
void mc_jset(mc_jrun *r, mc_str name, mc_jvalue v);
void mc_jexec(mc_jrun *r, const mc_jnode *body); /* a whole template */

#endif
