/* Calls as Python writes them: name(key=value, ...), one a line, or in a list, or printed.
 * Threads: any. */
#ifndef ANSWER_CALL_PYTHON_H
#define ANSWER_CALL_PYTHON_H

#include "answer/calls.h"

#include <stdbool.h>
#include <stddef.h>

/* As mc_calls_read. Values are literals: strings, numbers, True, False, None, lists, tuples and
 * dictionaries with strings as keys. */
mica_status mc_python_calls_read(mc_str text, const mc_tools *tools, mc_calls *calls, bool *good);

/* Adds a literal as JSON. *good: the text is one, and nothing else; if not, nothing is added.
 *  errors  MICA_ENOMEM */
mica_status mc_python_value_add(mc_str text, mc_buffer *json, bool *good);

typedef enum mc_python_part {
    MC_PYTHON_ARGUMENT, /* an argument, and the comma behind it if there is one */
    MC_PYTHON_END,      /* the closing parenthesis */
    MC_PYTHON_CUT,      /* more of the text is needed */
    MC_PYTHON_BAD       /* it is no argument */
} mc_python_part;

/* Reads what comes next of a call's arguments, behind `count` of them; makes `out` their JSON, the
 * same in all as mc_python_calls_read makes. A long argument is not read again for each of its
 * bytes, but when it has grown by an eighth.
 *
 *  quote   what begins and ends a string. Then arguments are written `key:value, ...}`, and keys
 *          are not quoted. Empty: they are Python's.
 *  ended   the answer ends with the text.
 *  tried   bytes of an argument that was not complete before, from 0.
 *  used    the bytes that are read; 0 for CUT and BAD, and then `out` is empty, too.
 *  errors  MICA_ENOMEM */
mica_status mc_python_argument_try(mc_str text, mc_str quote, bool ended, size_t count,
                                   size_t *tried, mc_buffer *out, size_t *used,
                                   mc_python_part *part);

/* Whether names of functions have this character. */
bool mc_is_python_name(char c);

#endif
