/* Paths as users type them. */
#ifndef CLI_PATH_H
#define CLI_PATH_H

#include <stdbool.h>

/** Replaces a ~ at the beginning of a path, alone or before a slash, by $HOME. Shells do so for
 *  arguments, but not for --model=~/x.
 *
 *  returns  path itself if there is no ~ or no $HOME; else a text in storage that lives until the
 *           program ends; NULL after it reported that memory is out */
const char *cli_path_expand(const char *path);

/** Returns a copy that lives until the program ends; NULL after it reported that memory is out. */
const char *cli_path_keep(const char *path);

/** Whether a path ends in a text, such as ".npz". */
bool cli_path_ends(const char *path, const char *end);

#endif
