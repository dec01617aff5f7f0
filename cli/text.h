/* A growing text, and reading one from a stream. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Zeroed: empty. After an append, data ends with a NUL. It is owned, and freed with free. */
typedef struct cli_text {
    char *data;
    size_t len, room;
    bool failed; /* memory was out, and that was reported: appends do nothing */
} cli_text;

/* The kind of a text, which limits its length. */
typedef enum cli_text_kind {
#define TEXT_KIND(name, words, bytes) CLI_TEXT_OF_##name,
#include "text_kind_list.h"
#undef TEXT_KIND
} cli_text_kind;

/** Reports a text that exceeds the limit of its kind. name: the text's source.
 *
 *  returns whether the text is within the limit */
bool cli_text_check_length(uint64_t len, cli_text_kind kind, const char *name);

/** Appends len bytes.  returns false after it reported that memory is out */
bool cli_text_append(cli_text *text, const char *data, size_t len);

/** Appends formatted text, as printf.  returns as cli_text_append */
__attribute__((format(printf, 2, 3))) bool cli_text_printf(cli_text *text, const char *format, ...);

/** Appends len bytes as a JSON string, with its quotes.  returns as cli_text_append */
bool cli_text_append_json(cli_text *text, const char *data, size_t len);

/* A byte order mark (U+FEFF) at the beginning of a file, of standard input or of a line is no part
 * of the text. UTF-16, which its marks tell, is refused. */

/** Replaces the text by the next line of a stream, without its line feed.
 *
 *  returns 1, 0 at the end of the stream, -1 after it reported an error */
int cli_text_read_line(cli_text *text, cli_text_kind kind, FILE *in);

/** Reads standard input to its end and drops one line feed there.
 *
 *  returns false after it reported an error */
bool cli_text_read_stdin(cli_text *text, cli_text_kind kind);

/** Reads a file, with its last line feed; "-" is standard input.  returns as cli_text_read_stdin */
bool cli_text_read_file(cli_text *text, cli_text_kind kind, const char *path);

/** The path that a file is written to which is named so: "-" is standard output. */
const char *cli_output_path(const char *path);

/** Drops a line feed at the end. */
void cli_text_drop_line_feed(cli_text *text);

/** Reports a NUL byte in a text that is used as a C string. name: the text's source.
 *
 *  returns whether there is none */
bool cli_text_check(const cli_text *text, const char *name);

#endif
