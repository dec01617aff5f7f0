/* A text that grows, and reading one from a stream. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Zeroed: empty. data is NUL-terminated once anything was appended, owned, freed with free. */
typedef struct cli_text {
    char *data;
    size_t len, room;
    bool failed; /* memory was out, which was told: nothing more is appended */
} cli_text;

/* What a text is, which says how long it may be. */
typedef enum cli_text_kind {
#define TEXT_KIND(name, words, bytes) CLI_TEXT_OF_##name,
#include "text_kind_list.h"
#undef TEXT_KIND
} cli_text_kind;

/** Reports a text that is longer than one of its kind may be.  name: where it is from
 *
 *  returns whether it is not */
bool cli_text_check_length(uint64_t len, cli_text_kind kind, const char *name);

/** Appends len bytes.  returns false after it reported that memory is out */
bool cli_text_append(cli_text *text, const char *data, size_t len);

/** Appends what printf would print.  returns as cli_text_append */
__attribute__((format(printf, 2, 3))) bool cli_text_printf(cli_text *text, const char *format, ...);

/** Appends len bytes as a JSON string, with its quotes.  returns as cli_text_append */
bool cli_text_append_json(cli_text *text, const char *data, size_t len);

/** Reads one line without its line feed; the text is emptied before.
 *
 *  returns 1, 0 at the end of the stream, -1 after it reported an error */
int cli_text_read_line(cli_text *text, cli_text_kind kind, FILE *in);

/** Reads the standard input to its end, less one line feed there.
 *
 *  returns false after it reported an error */
bool cli_text_read_stdin(cli_text *text, cli_text_kind kind);

/** Reads a file as it is, "-" being the standard input.  returns as cli_text_read_stdin */
bool cli_text_read_file(cli_text *text, cli_text_kind kind, const char *path);

/** Drops a line feed at the end. */
void cli_text_drop_line_feed(cli_text *text);

/** Reports a NUL byte in a text: prompts are C strings.  name: where the text is from
 *
 *  returns whether there is none */
bool cli_text_check(const cli_text *text, const char *name);

#endif
