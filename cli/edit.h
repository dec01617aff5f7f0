/* Reading a line from a terminal, with editing and a history where libedit was compiled in. */
#ifndef CLI_EDIT_H
#define CLI_EDIT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_edit cli_edit;

/* What may stand in place of the end of a line. Zeroed: nothing. */
typedef struct cli_completions {
    char **words; /* [count] */
    size_t count, room;
    size_t typed; /* bytes at the end of the line, with which all of them begin */
} cli_completions;

/* Finds what Tab completes. line: up to the cursor. The words are freed by the caller, each one
 * too. */
typedef void (*cli_completer)(const char *line, cli_completions *found);

/** Opens the editor and loads its history.
 *
 *  file      a file that keeps the lines, made where it is missing; NULL: none. Borrowed.
 *  complete  what Tab does in a line that begins with one slash.
 *  returns   NULL where mica was compiled without libedit, or it cannot start */
cli_edit *cli_edit_open(const char *file, cli_completer complete);

/* What was typed at a prompt. */
typedef enum cli_typed {
    CLI_TYPED_ERROR = -1, /* which was reported */
    CLI_TYPED_END,        /* Ctrl-D */
    CLI_TYPED_LINE,
    CLI_TYPED_CLEAR,    /* Ctrl-C in a line, which is dropped */
    CLI_TYPED_INTERRUPT /* Ctrl-C in an empty line, or in one that the terminal knows alone */
} cli_typed;

/** Reads a line, without its line feed, and adds it to the history. A text of several lines that is
 *  pasted is one line, line feeds and all, until Return is typed.
 *
 *  more  whether the line goes on with what was read before: the prompt says so.
 *  line  receives it, until the next call. */
cli_typed cli_edit_read(cli_edit *edit, bool more, const char **line);

/** Closes *edit and sets it to NULL; nothing for NULL. */
void cli_edit_close(cli_edit **edit);

#endif
