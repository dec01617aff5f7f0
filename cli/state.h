/* The folder of a user's files: the history of typed lines, and conversations. */
#ifndef CLI_STATE_H
#define CLI_STATE_H

#include <stddef.h>

/** Makes the path of a file in $XDG_STATE_HOME/mica or ~/.local/state/mica. Creates missing
 *  folders, readable by the owner only.
 *
 *  name     the file's name, which may contain folders.
 *  returns  out, NULL if there is no such folder */
const char *cli_state_path(const char *name, char *out, size_t out_bytes);

#endif
