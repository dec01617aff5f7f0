/* JSON schemas as grammars.
 *
 * Every document of the grammar validates against the schema. Not every document that validates is
 * one of the grammar: strictness keeps models on the way.
 *  - Members of objects come in the order of "properties", then other required ones, then
 *    additional ones. Of these there are some only where a keyword says what they may be, or where
 *    there are no "properties".
 *  - A schema without "type" is one of the types that its keywords are about, if there are any.
 *  - Numbers, white space (grammar/grammar_json.h) and depth (MC_GRAMMAR_DEPTH) are bounded.
 *  - Of a format there are the usual forms, such as no week dates of "date".
 *  - Where a schema must not hold, it does so in one of the ways that can be built.
 *
 * The keywords are those of schema_parts.h; docs/structured.md says what of them is supported.
 * Annotations are ignored. All else is refused, with a JSON pointer to it.
 *
 * Source: JSON Schema, draft 2020-12.
 * Threads: any. */
#ifndef GRAMMAR_SCHEMA_H
#define GRAMMAR_SCHEMA_H

#include "base/json.h"
#include "grammar/grammar.h"
#include "grammar/grammar_json.h"

/* Compiles the text of a schema.
 * errors  MICA_EFORMAT no JSON, or no schema; MICA_EUNSUPPORTED, with the pointer; MICA_EINVAL
 *         nothing satisfies it, or it is too large; MICA_ENOMEM */
mica_status mc_schema_compile(const char *text, size_t len, mc_grammar **grammar);

/* The documents of a schema, as a part of a larger grammar. References are to places within
 * `schema`; pointers in errors begin with `name`.
 * errors  of the builder, as above */
int32_t mc_build_schema(mc_json_rules *rules, mc_json schema, const char *name, int32_t next);

/* The objects of a schema as the arguments of a call in a form, and what ends these. Members of
 * names that Python does not have are left out, as are those of no known names.
 * errors  as above; MICA_EUNSUPPORTED a schema of constants */
int32_t mc_build_members(mc_json_rules *rules, const mc_member_form *form, mc_json schema,
                         const char *name, int32_t next);

/* The texts that a regular expression (grammar/grammar_regex.h) matches as a whole.
 * errors  MICA_EFORMAT, MICA_EUNSUPPORTED with the place; MICA_EINVAL, MICA_ENOMEM */
mica_status mc_grammar_regex(const char *pattern, size_t len, mc_grammar **grammar);

/* The texts in which a pattern of a schema (grammar/grammar_pattern.h) matches somewhere; wide: for
 * some engine, else for all.
 * errors  as above */
mica_status mc_grammar_pattern(const char *pattern, size_t len, bool wide, mc_grammar **grammar);

#endif
