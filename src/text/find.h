/* Looking for a plain string in text. */
#ifndef TEXT_FIND_H
#define TEXT_FIND_H

#include "base/str.h"

#include <stddef.h>

/* Where pattern (not empty) is next in text at or after `from`; text.len where it is not. */
size_t mc_find(mc_str text, mc_str pattern, size_t from);

#endif
