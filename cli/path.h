/* Paths as users type them. */
#ifndef CLI_PATH_H
#define CLI_PATH_H

#include <stdbool.h>

/** Replaces a ~ at the beginning of a path, alone or before a slash, by $HOME. Shells do so for
 *  arguments, but not for --model=~/x. On Windows backslashes become slashes.
 *
 *  returns  path itself if nothing is replaced; else a text in storage that lives until the program
 *           ends; NULL after it reported that memory is out */
const char *cli_path_expand(const char *path);

/** Returns a copy that lives until the program ends; NULL after it reported that memory is out. */
const char *cli_path_keep(const char *path);

/** Whether the byte divides the names of a path: a slash, on Windows a backslash, too. */
bool cli_is_slash(char byte);

/** Whether a path begins at a root, and not in the current folder: /x, on Windows also C:/x. */
bool cli_path_is_whole(const char *path);

/** Whether a path ends in a text, such as ".npz". */
bool cli_path_ends(const char *path, const char *end);

#endif
