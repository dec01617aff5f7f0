/* Reads lines from a terminal. With libedit they can be edited, and there is a history. */
#ifndef CLI_EDIT_H
#define CLI_EDIT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_edit cli_edit;

/* Completions of the end of a line. Zeroed: none. */
typedef struct cli_completions {
    char **words; /* [count] */
    size_t count, room;
    size_t typed; /* number of bytes at the end of the line that all words begin with */
} cli_completions;

/* Finds the completions of a line, which ends at the cursor. The caller frees each word and the
 * array. */
typedef void (*cli_completer)(const char *line, cli_completions *found);

/** Opens the editor and loads its history.
 *
 *  file      holds the history, and is created if missing; NULL: no history. Borrowed.
 *  complete  completes a line that begins with one slash.
 *  returns   NULL if mica was compiled without libedit, or it cannot start */
cli_edit *cli_edit_open(const char *file, cli_completer complete);

/* What cli_edit_read got. */
typedef enum cli_typed {
    CLI_TYPED_ERROR = -1, /* it was reported */
    CLI_TYPED_END,        /* Ctrl-D */
    CLI_TYPED_LINE,
    CLI_TYPED_CLEAR,    /* Ctrl-C in a line: the line is dropped */
    CLI_TYPED_INTERRUPT /* Ctrl-C in an empty line, or in a terminal without an editor */
} cli_typed;

/** Reads a line, without its line feed, and adds it to the history. Pasted text of several lines is
 *  one line with line feeds in it.
 *
 *  more  whether the line continues a message; then the prompt differs.
 *  line  receives the line, valid until the next call */
cli_typed cli_edit_read(cli_edit *edit, bool more, const char **line);

/** Closes *edit and sets it to NULL. Does nothing if it is NULL. */
void cli_edit_close(cli_edit **edit);

#endif
