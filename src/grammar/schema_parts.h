/* The parts of the schema compiler: schema.c walks over schemas and finds their keywords,
 * schema_types.c builds documents of the types, schema_choice.c alternatives and constants. */
#ifndef GRAMMAR_SCHEMA_PARTS_H
#define GRAMMAR_SCHEMA_PARTS_H

#include "base/map.h"
#include "grammar/grammar_json.h"

/* Keywords that constrain, by the type of document that they are about. */
#define MC_KEYWORDS(X)                               \
    X(TYPE, "type", ANY)                             \
    X(ENUM, "enum", ANY)                             \
    X(CONST, "const", ANY)                           \
    X(ANY_OF, "anyOf", ANY)                          \
    X(ONE_OF, "oneOf", ANY)                          \
    X(ALL_OF, "allOf", ANY)                          \
    X(REF, "$ref", ANY)                              \
    X(PROPERTIES, "properties", OBJECT)              \
    X(REQUIRED, "required", OBJECT)                  \
    X(ADDITIONAL, "additionalProperties", OBJECT)    \
    X(ITEMS, "items", ARRAY)                         \
    X(PREFIX_ITEMS, "prefixItems", ARRAY)            \
    X(MIN_ITEMS, "minItems", ARRAY)                  \
    X(MAX_ITEMS, "maxItems", ARRAY)                  \
    X(MIN_LENGTH, "minLength", STRING)               \
    X(MAX_LENGTH, "maxLength", STRING)               \
    X(PATTERN, "pattern", STRING)                    \
    X(FORMAT, "format", STRING)                      \
    X(MINIMUM, "minimum", NUMBER)                    \
    X(MAXIMUM, "maximum", NUMBER)                    \
    X(EXCLUSIVE_MINIMUM, "exclusiveMinimum", NUMBER) \
    X(EXCLUSIVE_MAXIMUM, "exclusiveMaximum", NUMBER)

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

/* A schema's keywords; MC_JSON_NONE where it has not got one. */
typedef struct mc_keywords {
    mc_json at[MC_KEY_COUNT];
} mc_keywords;

typedef struct mc_schema_item { /* a schema whose rule is made */
    mc_json schema;
    int32_t rule;
    char *pointer; /* where it is; owned */
} mc_schema_item;

typedef struct mc_schema {
    mc_builder *b;
    mc_json_rules *rules;
    mc_json root;
    const char *name;    /* of the root, in errors */
    mc_buffer items;     /* mc_schema_item: in the order in which they were needed */
    mc_map known;        /* the place of a schema to the number of its item */
    const char *pointer; /* of the schema that is compiled now */
    int32_t other_chars; /* the rest of a key that is none of the known ones; MC_DEAD: not made */
} mc_schema;

/* Sets the builder's error "<pointer>/<keyword>: ...", for "" of the schema itself. Returns
 * MC_DEAD. */
int32_t mc_schema_fail(mc_schema *s, mica_status status, const char *keyword, const char *fmt, ...)
    MC_PRINTF(4, 5);

/* Puts the builder's error, which knows no place, at a keyword. Returns MC_DEAD. */
int32_t mc_schema_fail_at(mc_schema *s, const char *keyword);

/* Finds a schema's keywords. errors  of the builder: one that is not supported. false then */
bool mc_schema_keywords(mc_schema *s, mc_json schema, mc_keywords *k);

/* A document of a schema within the one that is compiled, at pointer/where (or, with an index,
 * pointer/where/index). */
int32_t mc_build_subschema(mc_schema *s, mc_json schema, const char *where, mc_str key,
                           int32_t next);

/* What "$ref" refers to; NONE after an error of the builder. */
mc_json mc_schema_resolve(mc_schema *s, mc_json ref);

/* A keyword's whole number of 0 or more; `fallback` without it. false: error of the builder. */
bool mc_schema_count(mc_schema *s, const mc_keywords *k, mc_keyword key, int64_t fallback,
                     int64_t *count);

/* The types that "type" admits; 0: error of the builder. Without it: MC_TYPE_ANY. */
int mc_schema_types(mc_schema *s, const mc_keywords *k);

const char *mc_keyword_name(mc_keyword key);

/* Documents of a type, which all end in a return. */
int32_t mc_build_typed_string(mc_schema *s, const mc_keywords *k);
int32_t mc_build_typed_number(mc_schema *s, const mc_keywords *k, bool integer);
int32_t mc_build_typed_array(mc_schema *s, const mc_keywords *k);
int32_t mc_build_typed_object(mc_schema *s, const mc_keywords *k);

/* enum and const; anyOf and oneOf. */
int32_t mc_build_constants(mc_schema *s, const mc_keywords *k);
int32_t mc_build_any_of(mc_schema *s, const mc_keywords *k);
int32_t mc_build_one_of(mc_schema *s, const mc_keywords *k);

#endif
