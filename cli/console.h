/* What the command does with the system's terminal before and beside reading lines. */
#ifndef CLI_CONSOLE_H
#define CLI_CONSOLE_H

#include <stdbool.h>
#include <stdio.h>

/** Sets the standard streams up for UTF-8 text and for bytes as they are. Called once, at the
 *  beginning.
 *
 *  argv     the arguments as main got them
 *  returns  the same in UTF-8, for the life of the program */
char **cli_console_init(char **argv);

/** Whether the terminal knows escape sequences. */
bool cli_console_has_escapes(void);

/** The width of the terminal that a stream goes to; 0: it is none, or does not tell. */
int cli_console_columns(FILE *stream);

#endif
