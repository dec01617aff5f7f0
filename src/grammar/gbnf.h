/* Grammars in GBNF, the notation of llama.cpp.
 *
 *     root  ::= "yes" | "no" reason?
 *     reason ::= ", since " [a-z ]{1,40} "."      # a comment
 *
 * Supported are all of it but tokens (<[1]>, <think>): rules, strings, classes of characters, `.`
 * (any character), groups, alternatives, * + ? {m} {m,} {m,n}. Lines may be broken anywhere.
 * Source: llama.cpp, grammars/README.md. Threads: as grammar_build.h. */
#ifndef GRAMMAR_GBNF_H
#define GRAMMAR_GBNF_H

#include "grammar/grammar_json.h"

/* Texts of the rule "root".
 * errors  of the builder, with the line: MICA_EFORMAT no grammar; MICA_EUNSUPPORTED as above, a
 *         rule that begins with itself otherwise than as its alternative's first part;
 *         MICA_EINVAL */
int32_t mc_build_gbnf(mc_json_rules *rules, mc_str text, int32_t next);

/* Whether a grammar begins as one in GBNF does: with a name and ::=. */
bool mc_is_gbnf(mc_str text);

#endif
