/* The arguments of calls that are written as plain text, as JSON. Threads: any. */
#ifndef ANSWER_CALL_VALUE_H
#define ANSWER_CALL_VALUE_H

#include "answer/tools.h"

/* Whether a tool takes nothing but text as an argument, by its schema. */
bool mc_tool_takes_text(mc_json parameters, mc_str key);

/* Adds an argument's text as JSON: as it is, where it is a value of a type that the tool takes, or
 * as a string, which it always is if that is said. Bytes that are MC_MARK are left out. *good: the
 * rest is UTF-8, or nothing is added.
 *  errors  MICA_ENOMEM */
mica_status mc_call_value_add(const mc_tool *tool, mc_str key, mc_str text, bool is_string,
                              mc_buffer *json, bool *good);

#endif
