/* Reads messages, of one or several lines, from a terminal or a pipe. */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include "edit.h"
#include "text.h"

/* Zeroed: reads standard input without an editor. */
typedef struct cli_lines {
    cli_edit *edit; /* the line editor; NULL: none */
    cli_text line;
    cli_text message;
    bool quoted; /* the message was between """ and """, so it is not a command */
} cli_lines;

/** Opens the line editor and its history if standard input is a terminal.
 *
 *  complete  as for cli_edit_open.
 *  keep      whether lines are kept for the next chat */
void cli_lines_open(cli_lines *lines, cli_completer complete, bool keep);

/** Reads a message into lines->message, without its last line feed. It is a line, or several: lines
 *  that end in a backslash, which is dropped, and the line after them; or the lines between """ and
 *  """. Ctrl-C drops the whole message. */
cli_typed cli_lines_read(cli_lines *lines);

/** Closes the editor and frees the texts. */
void cli_lines_close(cli_lines *lines);

#endif
