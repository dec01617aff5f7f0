/* Grammars in Lark's notation.
 *
 *     %import common (INT, WS)
 *     %ignore WS
 *     start: sum
 *     sum: sum ("+" | "-") INT | INT
 *
 * Supported are rules and terminals, strings with i behind them, /patterns/ (grammar_regex.h) with
 * i and s, ranges "a".."z", groups, [optional parts], alternatives, * + ? ~n ~n..m {m,n}, comments
 * (// and #), names of alternatives (-> name), the signs ?, ! and _ before names, priorities (which
 * say nothing), %ignore, %import of Lark's common terminals, and llguidance's %json {a schema}.
 *
 * There is no lexer: see grammar/grammar_cfg.h. What is ignored may come before each terminal of a
 * rule, and at the end.
 * Source: Lark's reference of grammars; llguidance, docs/syntax.md. Threads: as grammar_build.h. */
#ifndef GRAMMAR_LARK_H
#define GRAMMAR_LARK_H

#include "grammar/grammar_json.h"

/* Texts of the rule "start".
 * errors  of the builder, with the line: MICA_EFORMAT no grammar; MICA_EUNSUPPORTED what is not
 *         above (templates, attributes, tokens, other directives), a rule that begins with itself
 *         otherwise than as its alternative's first part; MICA_EINVAL; those of grammar/schema.h */
int32_t mc_build_lark(mc_json_rules *rules, mc_str text, int32_t next);

#endif
