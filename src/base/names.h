/* A list of names for an error text: it counts all names and keeps the first eight.
 *
 * Zero is an empty list. Threads: one at a time. */
#ifndef BASE_NAMES_H
#define BASE_NAMES_H

#include "base/buffer.h"
#include "base/status.h"

#include <stddef.h>

typedef struct mc_names {
    mc_buffer text;
    size_t count;
} mc_names;

/* errors  MICA_ENOMEM */
mica_status mc_names_add(mc_names *names, const char *name);

/* "a, b, c", and " ..." if there are more than eight. Lives until the next call. NULL: no
 * memory. */
const char *mc_names_text(mc_names *names);

void mc_names_deinit(mc_names *names);

#endif
