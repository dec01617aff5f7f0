/* What standard input gives besides lines: a text that is piped in, the answer to a question. */
#ifndef CLI_STDIN_H
#define CLI_STDIN_H

#include <stdbool.h>

/** Whether standard input has a text that belongs to this command: a file that nobody has read of,
 *  or a pipe or socket that is written to or closed within a few seconds. That of a shell's loop,
 *  which reads the same file, is left alone. A pipe that stays open and empty, as those of ssh and
 *  CI may, is told about and left alone, too. */
bool cli_stdin_has_text(void);

/** Whether a question can be asked: standard input and standard error are a terminal. */
bool cli_can_ask(void);

/** Reads the answer to a question: yes, also by an empty line, or no. */
bool cli_read_yes(void);

#endif
