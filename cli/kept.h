/* Talks that were not saved: a file each in the folder of history, for a while. */
#ifndef CLI_KEPT_H
#define CLI_KEPT_H

#include <stdbool.h>

enum { CLI_KEPT_MAX = 20, CLI_KEPT_DAYS = 30, CLI_KEPT_PATH = 4096 };

/** The path of a new talk. Before, those that have not changed for CLI_KEPT_DAYS are removed, and
 *  so many of the oldest that there are CLI_KEPT_MAX with it.
 *
 *  returns false where there is no place for any */
bool cli_kept_new(char out[CLI_KEPT_PATH]);

/** The path of the talk that changed last.  returns false where none is kept */
bool cli_kept_last(char out[CLI_KEPT_PATH]);

#endif
