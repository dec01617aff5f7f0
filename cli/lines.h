/* What a person types in a chat, or a pipe holds: messages of one line or of several. */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include "edit.h"
#include "text.h"

/* Zeroed: lines of standard input as they come. */
typedef struct cli_lines {
    cli_edit *edit; /* a terminal with line editing; NULL: there is none */
    cli_text line;
    cli_text message;
    bool quoted; /* the message stood between """ and """: it is no command */
} cli_lines;

/** Opens line editing and its history, where a person types. complete: as in cli_edit_open.
 *  keep: whether what is typed is kept for the next chat. */
void cli_lines_open(cli_lines *lines, cli_completer complete, bool keep);

/** Reads a message into lines->message, without its last line feed: a line; lines of which all but
 *  the last end in a backslash, which is dropped; lines between """ and """. Ctrl-C drops all of
 *  it. */
cli_typed cli_lines_read(cli_lines *lines);

/** Closes the editor and frees the texts. */
void cli_lines_close(cli_lines *lines);

#endif
