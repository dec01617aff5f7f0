/* Context-free grammars that users write: what the readers of GBNF (grammar/gbnf.h) and Lark
 * (grammar/lark.h) make of a text, and how automata are built of it.
 *
 * The automata have no lexer: a terminal may be any of the texts that it matches, not the longest
 * one only. Rules may begin with themselves, which becomes a loop, but not with others that begin
 * with them.
 *
 * Errors stick to the builder. Threads: as grammar_build.h. */
#ifndef GRAMMAR_GRAMMAR_CFG_H
#define GRAMMAR_GRAMMAR_CFG_H

#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "grammar/grammar_json.h"
#include "grammar/grammar_regex.h"

/* An expression, in an array; those that it is made of have lower numbers. */
typedef enum mc_expr_kind {
    MC_EXPR_EMPTY,
    MC_EXPR_TEXT,   /* `text` */
    MC_EXPR_CLASS,  /* ranges one to other - 1 */
    MC_EXPR_REGEX,  /* what the pattern `text` matches as a whole: `min` characters or more */
    MC_EXPR_SCHEMA, /* documents of document number `one` as a schema */
    MC_EXPR_RULE,   /* the rule number `one` */
    MC_EXPR_BOTH,   /* `one`, then `other` */
    MC_EXPR_EITHER, /* `one` or `other` */
    MC_EXPR_REPEAT  /* `one`, min to max times; max -1: no limit */
} mc_expr_kind;

typedef struct mc_expr {
    mc_expr_kind kind;
    bool made;    /* of REGEX and SCHEMA: `other` is the rule of the builder that it has become */
    unsigned how; /* of TEXT: MC_REGEX_FOLD or 0; of REGEX: of mc_build_regex */
    int32_t one, other;
    int min, max;
    mc_str text;
} mc_expr;

typedef struct mc_cfg_rule {
    mc_str name;
    size_t at;     /* where it is defined, or was used first */
    int32_t body;  /* an expression; -1: not defined yet */
    bool terminal; /* nothing that is ignored comes within */
    int32_t built; /* a rule of the builder */
} mc_cfg_rule;

typedef struct mc_cfg {
    mc_builder *b;
    mc_json_rules *rules;
    mc_str text; /* of the whole grammar */
    size_t at;   /* where it is read */
    int depth;   /* of groups */
    mc_arena arena;
    mc_buffer exprs;     /* mc_expr */
    mc_buffer ranges;    /* mc_char_range */
    mc_buffer own;       /* mc_cfg_rule */
    mc_buffer documents; /* mc_json_doc *: schemas within the grammar */
    mc_map names;        /* a rule's name to its number */
    int32_t ignored;     /* the rule of what may come before any terminal; -1: none */
} mc_cfg;

void mc_cfg_init(mc_cfg *g, mc_json_rules *rules, mc_str text);
void mc_cfg_deinit(mc_cfg *g);

/* Sets the builder's error "<what>, line N". Returns -1. */
int32_t mc_cfg_fail(mc_cfg *g, mica_status status, const char *fmt, ...) MC_PRINTF(3, 4);

/* ---- reading ---- */

int mc_cfg_peek(const mc_cfg *g); /* the next byte; -1 at the end */
bool mc_cfg_take(mc_cfg *g, const char *text);

/* Takes a string in quotes, behind the first one: its escapes become what they mean (\n \r \t \\ \"
 * \/ \xHH \uHHHH \UHHHHHHHH). false: error of the builder */
bool mc_cfg_take_string(mc_cfg *g, mc_str *text);

/* The character that an escape behind its backslash stands for. false: it is none. */
bool mc_cfg_take_escape(mc_cfg *g, uint32_t *c);

/* The number of a rule, which is made by its first use. -1: error of the builder. */
int32_t mc_cfg_rule_number(mc_cfg *g, mc_str name);

/* Begins the definition of a rule: its number; -1: error of the builder, such as a second one. */
int32_t mc_cfg_define(mc_cfg *g, mc_str name);

/* Expressions: each returns the number of one; -1: error of the builder. */
int32_t mc_cfg_add(mc_cfg *g, mc_expr expr);
int32_t mc_cfg_add_class(mc_cfg *g, const mc_char_range *ranges, size_t count);

/* How a reader reads the smallest parts: skips blanks and comments; whether an alternative ends
 * here; one part. */
typedef struct mc_cfg_syntax {
    void (*skip)(mc_cfg *g);
    bool (*ends)(mc_cfg *g);
    int32_t (*read_atom)(mc_cfg *g);
    bool (*take_repeat)(mc_cfg *g, int *min, int *max); /* a suffix of its own; may fail */
    void (*end_alternative)(mc_cfg *g); /* what may stand behind one; NULL: nothing */
} mc_cfg_syntax;

/* Alternatives, of which each is a sequence of parts with * + ? or {m,n} behind them. */
int32_t mc_cfg_read_either(mc_cfg *g, const mc_cfg_syntax *syntax);

/* A group behind its opening bracket. close: ")" or "]". */
int32_t mc_cfg_read_group(mc_cfg *g, const mc_cfg_syntax *syntax, const char *close);

/* ---- building ---- */

/* Texts of the rule `start`. errors  of the builder: a rule is not defined, or begins with itself
 * through others */
int32_t mc_cfg_build(mc_cfg *g, const char *start, int32_t next);

#endif
