/* Looking for a plain string in text. */
#ifndef TEXT_FIND_H
#define TEXT_FIND_H

#include "base/buffer.h"
#include "base/str.h"

#include <stdbool.h>

/* Where pattern (not empty) is next in text at or after `from`; text.len where it is not. */
size_t mc_find(mc_str text, mc_str pattern, size_t from);

/* Adds text to out with each pattern replaced by content; false: no memory. */
bool mc_replace(mc_str text, mc_str pattern, mc_str content, mc_buffer *out);

#endif
