/* A set of texts: the ids that `batch` has answered. */
#ifndef CLI_IDS_H
#define CLI_IDS_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed: empty. */
typedef struct cli_ids {
    char **slots; /* [room], a power of two; NULL: free */
    size_t count, room;
} cli_ids;

bool cli_ids_has(const cli_ids *ids, const char *id);

/** Adds a copy of id unless it is in the set.  returns false after it reported that memory is
 *  out */
bool cli_ids_add(cli_ids *ids, const char *id);

/** Frees the set. */
void cli_ids_deinit(cli_ids *ids);

#endif
