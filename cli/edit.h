/* Reading a line from a terminal, with editing and a history where libedit was compiled in. */
#ifndef CLI_EDIT_H
#define CLI_EDIT_H

#include <stdbool.h>

typedef struct cli_edit cli_edit;

/** Opens the editor and loads its history.
 *
 *  file     a file that keeps the lines, made where it is missing; NULL: none. Borrowed.
 *  returns  NULL where mica was compiled without libedit, or it cannot start */
cli_edit *cli_edit_open(const char *file);

/** Reads a line, without its line feed, and adds it to the history. A text of several lines that is
 *  pasted is one line, line feeds and all, until Return is typed.
 *
 *  more     whether the line goes on with what was read before: the prompt says so.
 *  returns  NULL at the end; the text lives until the next call */
const char *cli_edit_read(cli_edit *edit, bool more);

/** Closes *edit and sets it to NULL; nothing for NULL. */
void cli_edit_close(cli_edit **edit);

#endif
