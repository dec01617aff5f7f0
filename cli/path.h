/* File names as people type them. */
#ifndef CLI_PATH_H
#define CLI_PATH_H

/** A file name with a ~ at its beginning, alone or before a slash, replaced by $HOME: shells do so
 *  for words, but not within --model=~/x.
 *
 *  returns path itself where there is none, or no $HOME; else a text that lives as long as the
 *          program; NULL after it reported that memory is out */
const char *cli_path_expand(const char *path);

/** A copy that lives as long as the program; NULL after it reported that memory is out. */
const char *cli_path_keep(const char *path);

#endif
