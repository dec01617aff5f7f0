/* Writing JSON to a buffer. */
#ifndef BASE_JSON_WRITE_H
#define BASE_JSON_WRITE_H

#include "base/buffer.h"

/* Adds a text as a JSON string of ASCII. A byte that is not UTF-8 (of a path) becomes the lone
 * surrogate U+DC00 + byte, as Python's "surrogateescape" has it. false: no memory. */
bool mc_json_put_text(mc_buffer *out, const char *text);

/* Adds a number with all its digits; null for what is not finite. false: no memory. */
bool mc_json_put_number(mc_buffer *out, double value);

#endif
