/* Where mica keeps what concerns a person: typed lines, talks. */
#ifndef CLI_STATE_H
#define CLI_STATE_H

#include <stddef.h>

/** The path of a file in $XDG_STATE_HOME/mica or ~/.local/state/mica, whose folders are made:
 *  nobody else can look into those that are new.
 *
 *  name     of the file, may begin with folders.
 *  returns  out, NULL where there is no place for it */
const char *cli_state_path(const char *name, char *out, size_t out_bytes);

#endif
