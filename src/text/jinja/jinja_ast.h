/* Parsed templates: nodes in the template's arena. */
#ifndef TEXT_JINJA_JINJA_AST_H
#define TEXT_JINJA_JINJA_AST_H

#include "text/jinja/jinja_value.h"

/* The kinds of nodes, each with the members that it uses. `next` links nodes to lists. */
typedef enum mc_jnode_kind {
    /* expressions */
    MC_N_CONST,       /* value */
    MC_N_NAME,        /* name */
    MC_N_LIST,        /* a: items */
    MC_N_TUPLE,       /* a: items */
    MC_N_DICT,        /* a: key, value, key, value ... */
    MC_N_ATTR,        /* a . name */
    MC_N_ITEM,        /* a [ b ] */
    MC_N_SLICE,       /* d [ a : b : c ], each of a b c may be NULL */
    MC_N_CALL,        /* a ( b: arguments ) */
    MC_N_KEYWORD,     /* name = a, among arguments */
    MC_N_SPREAD,      /* *a, among arguments */
    MC_N_SPREAD_KEYS, /* **a, among arguments */
    MC_N_FILTER,      /* a | name ( b: arguments ), builtin */
    MC_N_TEST,        /* a is name ( b: arguments ), builtin */
    MC_N_NOT,         /* not a */
    MC_N_NEGATIVE,    /* -a */
    MC_N_POSITIVE,    /* +a */
    MC_N_AND,         /* a and b */
    MC_N_OR,          /* a or b */
    MC_N_BINARY,      /* a op b */
    MC_N_COMPARE,     /* a, then b: a chain of OPERANDs */
    MC_N_OPERAND,     /* op a */
    MC_N_CONDITION,   /* a if b else c; c may be NULL */
    /* statements */
    MC_N_TEXT,         /* value */
    MC_N_PRINT,        /* a */
    MC_N_IF,           /* a: condition, b: body, c: else (an elif is an IF there) */
    MC_N_FOR,          /* a: target, b: iterated, c: body, d: else, e: condition, op: recursive */
    MC_N_SET,          /* a: target, b: expression */
    MC_N_SET_BLOCK,    /* a: target, b: expression of MC_J_BLOCK_TEXT, c: body */
    MC_N_FILTER_BLOCK, /* b: expression of MC_J_BLOCK_TEXT, c: body */
    MC_N_MACRO,      /* name, a: NAMEs whose a is the default or NULL, c: body, op: MC_J_TAKES_* */
    MC_N_CALL_BLOCK, /* as MACRO, b: the CALL */
    MC_N_WITH,       /* a: SETs, c: body */
    MC_N_GROUP,      /* c: body, without a scope (generation) */
    MC_N_BREAK,
    MC_N_CONTINUE,
    MC_N_COUNT
} mc_jnode_kind;

typedef enum mc_jop {
    MC_OP_ADD,
    MC_OP_SUB,
    MC_OP_CONCAT,
    MC_OP_MUL,
    MC_OP_DIV,
    MC_OP_FLOORDIV,
    MC_OP_MOD,
    MC_OP_POW,
    MC_OP_EQ,
    MC_OP_NE,
    MC_OP_LT,
    MC_OP_LE,
    MC_OP_GT,
    MC_OP_GE,
    MC_OP_IN,
    MC_OP_NOT_IN
} mc_jop;

/* What a macro takes beside its parameters, because it names them. */
enum { MC_J_TAKES_VARARGS = 1, MC_J_TAKES_KWARGS = 2 };

typedef struct mc_jnode mc_jnode;
struct mc_jnode {
    uint8_t kind; /* mc_jnode_kind */
    uint8_t op;   /* mc_jop, or as the kind says */
    uint32_t line;
    mc_jnode *next;
    mc_jnode *a, *b, *c, *d, *e;
    union {
        mc_str name;
        mc_jvalue value;
    };
    const mc_jbuiltin *builtin; /* NULL: there is no builtin of that name */
};

/* The variable with a block's text, which the block's filters read. No template can spell it. */
#define MC_J_BLOCK_TEXT " text"

#endif
