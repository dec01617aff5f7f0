/* The parts of the schema compiler. A rule is made of schemas that must all hold, or must not
 * (mc_literal). schema.c walks over rules and finds the keywords of schemas; schema_ref.c follows
 * references; schema_clause.c brings what must hold into clauses without alternatives, such as
 * anyOf has; schema_scalar.c, schema_array.c and schema_object.c build the documents of a clause,
 * schema_raw.c strings that are not in quotes; schema_choice.c alternatives and constants;
 * schema_distinct.c texts that differ; schema_value.c says whether a given value satisfies. */
#ifndef GRAMMAR_SCHEMA_PARTS_H
#define GRAMMAR_SCHEMA_PARTS_H

#include "base/arena.h"
#include "base/map.h"
#include "grammar/grammar_json.h"

/* Keywords that constrain, by the type of document that they are about. */
#define MC_KEYWORDS(X)                                 \
    X(TYPE, "type", ANY)                               \
    X(NULLABLE, "nullable", ANY)                       \
    X(ENUM, "enum", ANY)                               \
    X(CONST, "const", ANY)                             \
    X(ANY_OF, "anyOf", ANY)                            \
    X(ONE_OF, "oneOf", ANY)                            \
    X(ALL_OF, "allOf", ANY)                            \
    X(NOT, "not", ANY)                                 \
    X(IF, "if", ANY)                                   \
    X(THEN, "then", ANY)                               \
    X(ELSE, "else", ANY)                               \
    X(REF, "$ref", ANY)                                \
    X(PROPERTIES, "properties", OBJECT)                \
    X(PATTERN_PROPERTIES, "patternProperties", OBJECT) \
    X(ADDITIONAL, "additionalProperties", OBJECT)      \
    X(UNEVALUATED, "unevaluatedProperties", OBJECT)    \
    X(PROPERTY_NAMES, "propertyNames", OBJECT)         \
    X(REQUIRED, "required", OBJECT)                    \
    X(DEPENDENT_REQUIRED, "dependentRequired", OBJECT) \
    X(DEPENDENT_SCHEMAS, "dependentSchemas", OBJECT)   \
    X(DEPENDENCIES, "dependencies", OBJECT)            \
    X(MIN_PROPERTIES, "minProperties", OBJECT)         \
    X(MAX_PROPERTIES, "maxProperties", OBJECT)         \
    X(ITEMS, "items", ARRAY)                           \
    X(PREFIX_ITEMS, "prefixItems", ARRAY)              \
    X(ADDITIONAL_ITEMS, "additionalItems", ARRAY)      \
    X(UNEVALUATED_ITEMS, "unevaluatedItems", ARRAY)    \
    X(MIN_ITEMS, "minItems", ARRAY)                    \
    X(MAX_ITEMS, "maxItems", ARRAY)                    \
    X(UNIQUE_ITEMS, "uniqueItems", ARRAY)              \
    X(CONTAINS, "contains", ARRAY)                     \
    X(MIN_CONTAINS, "minContains", ARRAY)              \
    X(MAX_CONTAINS, "maxContains", ARRAY)              \
    X(MIN_LENGTH, "minLength", STRING)                 \
    X(MAX_LENGTH, "maxLength", STRING)                 \
    X(PATTERN, "pattern", STRING)                      \
    X(FORMAT, "format", STRING)                        \
    X(MINIMUM, "minimum", NUMBER)                      \
    X(MAXIMUM, "maximum", NUMBER)                      \
    X(EXCLUSIVE_MINIMUM, "exclusiveMinimum", NUMBER)   \
    X(EXCLUSIVE_MAXIMUM, "exclusiveMaximum", NUMBER)   \
    X(MULTIPLE_OF, "multipleOf", NUMBER)

typedef enum mc_keyword {
#define MC_KEYWORD(upper, name, type) MC_KEY_##upper,
    MC_KEYWORDS(MC_KEYWORD)
#undef MC_KEYWORD
        MC_KEY_COUNT
} mc_keyword;

/* Sets of types. A number may be an integer. */
enum {
    MC_TYPE_NULL = 1,
    MC_TYPE_BOOLEAN = 2,
    MC_TYPE_INTEGER = 4,
    MC_TYPE_FRACTION = 8, /* numbers that are not integers */
    MC_TYPE_NUMBER = MC_TYPE_INTEGER | MC_TYPE_FRACTION,
    MC_TYPE_STRING = 16,
    MC_TYPE_ARRAY = 32,
    MC_TYPE_OBJECT = 64,
    MC_TYPE_ANY = 127
};

enum { MC_SCHEMA_NAMES = 2000 }; /* of properties, and of prefixItems, at most */

/* A schema's keywords; MC_JSON_NONE where it has not got one. */
typedef struct mc_keywords {
    mc_json at[MC_KEY_COUNT];
} mc_keywords;

/* A schema that must hold, or must not. */
typedef struct mc_literal {
    mc_json schema;
    const char *pointer; /* where it is; of the compiler's arena */
    bool negated;
} mc_literal;

typedef struct mc_schema_item { /* a rule: literals that hold together */
    const mc_literal *all;
    size_t count;
    int32_t rule;
} mc_schema_item;

typedef struct mc_schema_pattern { /* as it stands in the schema, compiled */
    mc_str text;
    mc_grammar *grammar; /* what it surely matches */
    mc_grammar *wide;    /* what some engine might match */
} mc_schema_pattern;

typedef struct mc_schema {
    mc_builder *b;
    mc_json_rules *rules;
    mc_json root;
    const char *name;    /* of the root, in errors */
    mc_arena arena;      /* pointers, literals, clauses */
    mc_buffer items;     /* mc_schema_item: in the order in which they were needed */
    mc_map known;        /* the literals' places to the number of their item */
    const char *pointer; /* of the schema that is compiled now */
    int32_t other_chars; /* the rest of a key that is none of the known ones; MC_DEAD: not made */
    mc_buffer patterns;  /* mc_schema_pattern: those that values were compared with */
    const mc_member_form *form; /* how the object is written that is compiled now; NULL: in JSON */
} mc_schema;

/* ---- errors ---- */

/* Sets the builder's error "<pointer>/<keyword>: ...", for "" of the schema itself. Returns
 * MC_DEAD. */
int32_t mc_schema_fail(mc_schema *s, mica_status status, const char *keyword, const char *fmt, ...)
    MC_PRINTF(4, 5);

/* Puts the builder's error, which knows no place, at a keyword. Returns MC_DEAD. */
int32_t mc_schema_fail_at(mc_schema *s, const char *keyword);

int32_t mc_schema_nomem(mc_schema *s); /* the same, without memory */

/* Counts `steps` of work, of about 30 ns each. What grows faster than the schema is counted, so
 * that all of them take a second at most, on every machine the same ones.
 * false: there were too many, an error of the builder. */
bool mc_schema_work(mc_schema *s, size_t steps);

/* ---- keywords ---- */

static inline bool mc_has(const mc_keywords *k, mc_keyword key) {
    return mc_json_get_type(k->at[key]) != MC_JSON_NONE;
}

const char *mc_keyword_name(mc_keyword key);
int mc_keyword_about(mc_keyword key); /* the types; 0: any */

/* Finds a schema's keywords. errors  of the builder: one that is not supported. false then */
bool mc_schema_keywords(mc_schema *s, mc_json schema, mc_keywords *k);

/* A keyword's whole number of 0 or more; `fallback` without it. false: error of the builder. */
bool mc_schema_count(mc_schema *s, const mc_keywords *k, mc_keyword key, int64_t fallback,
                     int64_t *count);

/* The types that "type" admits; 0: error of the builder. Without it: MC_TYPE_ANY. */
int mc_schema_types(mc_schema *s, const mc_keywords *k);

/* The type of a value, as a set of one. */
int mc_schema_type_of(mc_json v);

/* ---- references ---- */

/* What "$ref" refers to; NONE after an error of the builder. *pointer, unless NULL, receives where
 * that is. */
mc_json mc_schema_resolve(mc_schema *s, mc_json ref, const char **pointer);

/* pointer/where, or with a key pointer/where/key. NULL: error of the builder. */
const char *mc_schema_place(mc_schema *s, const char *pointer, const char *where, mc_str key);

/* ---- rules ---- */

/* Adds a schema that is at pointer/where (or pointer/where/key) to an mc_literal buffer. false:
 * error of the builder. */
bool mc_literals_add(mc_schema *s, mc_buffer *literals, mc_json schema, const char *pointer,
                     const char *where, mc_str key);

/* A document for which all hold, which is compiled later; any document for none. */
int32_t mc_build_all(mc_schema *s, const mc_literal *all, size_t count, int32_t next);

/* ---- clauses ---- */

/* A schema that holds. */
typedef struct mc_group {
    mc_keywords k;
    const char *pointer;
    bool silent;                   /* below a "not": nothing counts as evaluated by it */
    const struct mc_group *before; /* the one that was added before; NULL: none */
} mc_group;

/* Something else that holds, which the negation of a keyword or an alternative says. */
typedef enum mc_fact_kind {
    MC_FACT_LIMIT,    /* a keyword of a number: `value` + offset */
    MC_FACT_NOT,      /* a keyword with `value` does not hold: const, pattern, multipleOf */
    MC_FACT_REQUIRED, /* a member `name` is there */
    MC_FACT_ABSENT,   /* it is not */
    MC_FACT_MEMBER,   /* a member `name`, if it is there, does not satisfy the schema `value` */
    MC_FACT_CONTAINS, /* an element does not satisfy `value` */
    MC_FACT_ELEMENT,  /* the element at the place `offset` does not satisfy `value` */
    MC_FACT_ELEMENTS  /* no element satisfies `value` */
} mc_fact_kind;

typedef struct mc_fact {
    mc_fact_kind kind;
    mc_keyword key;
    mc_json value;
    int offset;
    mc_str name;
    const char *pointer; /* of the schema whose keyword it is, or of `value` as a schema */
    const struct mc_fact *before;
} mc_fact;

typedef struct mc_clause {
    const mc_literal *all; /* what must hold in all of the item's clauses */
    size_t count;
    int types;
    bool typed;             /* a schema says which */
    const mc_group *groups; /* the last one first */
    const mc_fact *facts;
} mc_clause;

/* The clauses of which one must hold, for `all` to hold. clauses: mc_clause.
 * false: error of the builder */
bool mc_schema_clauses(mc_schema *s, const mc_literal *all, size_t count, mc_buffer *clauses);

/* A clause's groups in their order, as an array of the arena. NULL: no memory. */
const mc_group **mc_clause_groups(mc_schema *s, const mc_clause *c, size_t *count);

/* The tightest of the limits that a clause has for a keyword: the greatest, or the smallest for
 * one that begins with "max"; `fallback` without one. false: error of the builder. */
bool mc_clause_count(mc_schema *s, const mc_clause *c, mc_keyword key, int64_t fallback,
                     int64_t *count);

/* Whether a clause has a keyword. */
bool mc_clause_has(const mc_clause *c, mc_keyword key);

/* ---- documents of a type, which all end in a return ---- */

int32_t mc_build_typed_string(mc_schema *s, const mc_clause *c);
int32_t mc_build_typed_number(mc_schema *s, const mc_clause *c, int types);
int32_t mc_build_typed_array(mc_schema *s, const mc_clause *c);
int32_t mc_build_typed_object(mc_schema *s, const mc_clause *c);

/* Strings for which all hold as they are, none of which has the mark in it, and what follows. */
int32_t mc_build_raw_string(mc_schema *s, const mc_literal *all, size_t count, mc_str mark,
                            int32_t next);

/* The languages of strings (grammar/grammar_product.h) that a clause admits, which go into `parts`:
 * what is between the quotes. *languages: mc_language. false: error of the builder. */
bool mc_string_languages(mc_schema *s, const mc_clause *c, mc_builder *parts, mc_buffer *languages);

/* A key that is none of the names, behind its opening quote up to and with its closing one. Sorts
 * names. */
int32_t mc_build_other_key(mc_schema *s, mc_str *names, size_t count);

/* ---- texts that differ ---- */

/* MC_DISTINCT: at most so many texts. */
enum { MC_DISTINCT = 10, MC_DISTINCT_GROUPS = 63, MC_DISTINCT_PLACES = 16 };

/* How texts are told apart that must differ: by the group of the character in one place. */
typedef struct mc_distinct {
    int groups, place;
    int levels;          /* texts, at most */
    bool behind;         /* something stands before the first one: it has a comma, too */
    const int32_t *ends; /* [levels + 1] what may come behind so many texts; MC_DEAD: only more */
    int32_t rules[MC_DISTINCT_GROUPS];  /* [groups] a text of a group, with what belongs to it */
    uint64_t found[MC_DISTINCT_PLACES]; /* of each place: groups that have texts, as bits */
} mc_distinct;

/* The number of groups where so many texts differ. */
int mc_distinct_groups(int64_t count);

/* Adds to d->found which groups have texts that are in all languages of the parts, until there is a
 * place of `want` groups. false: error of the builder */
bool mc_distinct_find(mc_schema *s, mc_builder *parts, mc_buffer *languages, int64_t want,
                      mc_distinct *d);

/* Chooses the place of most groups, and returns how many it has. */
int64_t mc_distinct_choose(mc_distinct *d);

/* Fails: there is no place of `want` groups. */
void mc_distinct_fail(mc_schema *s, int64_t want);

/* The texts of a group that are in all languages. */
int32_t mc_distinct_text(mc_schema *s, mc_builder *parts, mc_buffer *languages,
                         const mc_distinct *d, int group, int32_t next);

/* Texts of different groups in any order, with commas between them. */
int32_t mc_build_distinct(mc_schema *s, const mc_distinct *d);

/* ---- constants and alternatives ---- */

/* Those of the values of enum or const that satisfy all. key: which keyword. */
int32_t mc_build_constants(mc_schema *s, const mc_clause *c, const mc_group *group);

/* The values of a group's enum or const that satisfy all: mc_json. false: error of the builder. */
bool mc_schema_constants(mc_schema *s, const mc_clause *c, const mc_group *group,
                         mc_buffer *values);

/* Whether the schemas of "oneOf" surely exclude each other. */
bool mc_schema_exclusive(mc_schema *s, mc_json list);

/* ---- values ---- */

/* Whether a value satisfies. false: error of the builder. */
bool mc_value_satisfies(mc_schema *s, mc_json value, const mc_literal *literal, bool *yes);
bool mc_key_satisfies(mc_schema *s, mc_str key, const mc_literal *literal, bool *yes);

/* Whether a pattern matches somewhere in a text. false: error of the builder, also where engines
 * differ. */
bool mc_pattern_matches(mc_schema *s, mc_str pattern, mc_str text, bool *yes);

/* false, too, where there is no time left: an error of the builder. */
bool mc_values_equal(mc_schema *s, mc_json a, mc_json b);

/* Reads "multipleOf": it is modulus / 10^places. false: error of the builder. */
bool mc_read_multiple(mc_schema *s, mc_json v, uint64_t *modulus, int *places);

#endif
