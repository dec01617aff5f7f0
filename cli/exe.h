/* The path of this program. */
#ifndef CLI_EXE_H
#define CLI_EXE_H

#include <stdbool.h>
#include <stddef.h>

/** The path of the running program, symbolic links followed.  returns false where unknown */
bool cli_exe_path(char *out, size_t out_bytes);

#endif
