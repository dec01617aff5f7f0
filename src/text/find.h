/* Finding a plain string in text. */
#ifndef TEXT_FIND_H
#define TEXT_FIND_H

#include "base/str.h"

#include <stddef.h>

/* The position of the next pattern (not empty) in text at or after `from`; text.len: none. */
size_t mc_find(mc_str text, mc_str pattern, size_t from);

#endif
