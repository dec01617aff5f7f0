/* Calls as Python writes them: name(key=value, ...), one a line, or in a list, or printed.
 * Threads: any. */
#ifndef GRAMMAR_CALL_PYTHON_H
#define GRAMMAR_CALL_PYTHON_H

#include "grammar/tool_calls.h"

/* As mc_calls_read. Values are literals: strings, numbers, True, False, None, lists, tuples and
 * dictionaries with strings as keys. */
mica_status mc_python_calls_read(mc_str text, const mc_tools *tools, mc_calls *calls, bool *good);

/* Whether names of functions have this character. */
bool mc_is_python_name(char c);

#endif
