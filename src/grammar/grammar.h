/* Grammars: what an answer may say, compiled to an automaton over bytes. They are made from JSON
 * schemas (grammar/schema.h) and composed for tool calls (grammar/tool_grammar.h).
 *
 * A grammar knows no vocabulary. Constraints combine it with one (grammar/constraint.h).
 *
 * Threads: a grammar never changes; any thread may use it. */
#ifndef GRAMMAR_GRAMMAR_H
#define GRAMMAR_GRAMMAR_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct mc_grammar mc_grammar;

/* Keeps a grammar until it is closed once more. */
mc_grammar *mc_grammar_retain(mc_grammar *grammar);
void mc_grammar_close(mc_grammar **grammar); /* does nothing for a pointer to NULL */

/* Whether a document is one of the grammar's. *prefix, unless NULL, receives how many of its bytes
 * may begin one.
 * errors  MICA_EUNSUPPORTED the grammar has too many states; MICA_ENOMEM */
mica_status mc_grammar_accepts(mc_grammar *grammar, const char *text, size_t len, bool *accepted,
                               size_t *prefix);

#endif
