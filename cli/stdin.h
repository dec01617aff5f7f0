/* What standard input gives besides lines: a text that is piped in, the answer to a question. */
#ifndef CLI_STDIN_H
#define CLI_STDIN_H

#include <stdbool.h>

/** Whether standard input has a text that belongs to this command: a file that nobody has read of,
 *  or a pipe or socket that is written to or closed. That of a shell's loop, which reads the same
 *  file, is left alone. A pipe that stays open and empty is waited for where standard error is a
 *  terminal. Elsewhere, where those of ssh and CI may do so, it is told about after 10 s and left.
 */
bool cli_stdin_has_text(void);

/** Whether a question can be asked: standard input and standard error are a terminal. */
bool cli_can_ask(void);

/** Reads the answer to a question: yes, also by an empty line, or no. */
bool cli_read_yes(void);

#endif
