/* Building grammars of JSON documents.
 *
 * White space is bounded, because a model may write it for ever: between the tokens of arrays and
 * objects there may be one space, or one line break and up to 20 blanks. There is none around the
 * document.
 *
 * Threads: as grammar_build.h. */
#ifndef GRAMMAR_GRAMMAR_JSON_H
#define GRAMMAR_GRAMMAR_JSON_H

#include "base/json.h"
#include "grammar/grammar_build.h"

/* The rules of any documents; MC_DEAD before they are made. */
typedef struct mc_json_rules {
    mc_builder *b;
    int32_t space, string, number, value, object, array;
} mc_json_rules;

void mc_json_rules_init(mc_json_rules *rules, mc_builder *b);

int32_t mc_build_space(mc_json_rules *rules, int32_t next);
int32_t mc_build_any_string(mc_json_rules *rules, int32_t next);
int32_t mc_build_any_value(mc_json_rules *rules, int32_t next);
int32_t mc_build_any_object(mc_json_rules *rules, int32_t next);
int32_t mc_build_any_array(mc_json_rules *rules, int32_t next);

/* How the members of an object are written where they are no JSON: the arguments of calls. The
 * values of members are JSON all the same, but for those that are nothing but strings: */
typedef struct mc_member_form {
    const char *before, *assign; /* before a name, and behind it; NULL: nothing */
    const char *assign_text;     /* behind the name of a string as it is; NULL: as `assign` */
    const char *after;           /* behind a value; NULL: nothing */
    const char *separator;       /* between two members */
    const char *end;             /* behind them all */
    const char *quote;           /* around a string as it is; NULL: it is JSON, unless it is raw */
    bool raw;                    /* a string is as it is up to `after` */
    bool spaced;                 /* there may be white space between all of these */
} mc_member_form;

/* Strings of min to max characters; max -1: no limit. */
int32_t mc_build_string(mc_json_rules *rules, int64_t min, int64_t max, int32_t next);

/* One of several strings; sorts the array. There may be none. */
int32_t mc_build_string_choice(mc_json_rules *rules, mc_str *texts, size_t count, int32_t next);

/* One document, its strings escaped in the shortest way.
 * errors  of the builder: MICA_EUNSUPPORTED a number that a double does not hold exactly */
int32_t mc_build_constant(mc_json_rules *rules, mc_json value, int32_t next);

#endif
