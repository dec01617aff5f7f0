/* Writing JSON to a buffer. */
#ifndef BASE_JSON_WRITE_H
#define BASE_JSON_WRITE_H

#include "base/buffer.h"
#include "base/json.h"
#include "base/str.h"

/* Adds a text as a JSON string of ASCII. A byte that is not UTF-8 (of a path) becomes the lone
 * surrogate U+DC00 + byte, as Python's "surrogateescape" has it. false: no memory. */
bool mc_json_put_text(mc_buffer *out, const char *text);

/* The same for a view of text, which may hold NULs. */
bool mc_json_put_str(mc_buffer *out, mc_str text);

/* Adds a text as it stands within a JSON string, of UTF-8, escaped in the shortest way. false: no
 * memory. */
bool mc_json_escape(mc_buffer *out, mc_str text);

/* Whether a character must be escaped in a JSON string, and its shortest escape, [7] with a NUL. */
bool mc_json_is_escaped(uint32_t c);
void mc_json_escape_char(uint32_t c, char text[7]);

/* Adds a number with all its digits; null for what is not finite. false: no memory. */
bool mc_json_put_number(mc_buffer *out, double value);

enum { MC_JSON_ONE_LINE = -1 };

/* Adds a parsed value as Python's json.dump writes it with indent=4, `depth` levels in: members and
 * elements on lines of their own; or without indent, where depth is MC_JSON_ONE_LINE. Numbers have
 * as many digits as tell them from others. A whole float keeps its point. false: no memory. */
bool mc_json_put_value(mc_buffer *out, mc_json value, int depth);

/* Begins a line, `depth` levels in. */
bool mc_json_put_line(mc_buffer *out, int depth);

#endif
