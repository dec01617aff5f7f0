/* A file of texts, one per line: the input of `classify` and `embed`. */
#ifndef CLI_RECORDS_H
#define CLI_RECORDS_H

#include "json.h"
#include "text.h"

/* A paragraph of --help. */
#define CLI_RECORDS_HELP                                                                    \
    "FILE has a text on each line. If its first line begins with {, each line is a\n"       \
    "JSON object {\"text\", \"id\"}; a missing id is the line's number. FILE is standard\n" \
    "input if it is - or missing. A single word is FILE, unless it is a model's\n"          \
    "folder. With --model it is always FILE.\n"

/* A text. Owned. */
typedef struct cli_record {
    char *text;
    char *id; /* as JSON */
} cli_record;

/* The lines of an input. Zeroed: none. */
typedef struct cli_records {
    const char *name; /* the file's name in messages */
    cli_text input;
    size_t at;     /* position of the next line in the input */
    size_t number; /* number of that line, from 1 */
    bool is_json;
} cli_records;

/** Reads all of a file, NULL or "-" being the standard input.
 *
 *  returns CLI_DONE, or an exit code after it reported the error */
int cli_records_open(cli_records *records, const char *verb_name, const char *path);

/** The next line that is not empty, NUL-terminated in place; NULL at the end. line: receives its
 *  number. */
char *cli_records_line(cli_records *records, size_t *len, size_t *line);

/** Reports the error of a line. */
void cli_records_complain(const cli_records *records, size_t line, const char *why);

/** The id of a parsed line as JSON, or its custom_id; without an id its number.
 *
 *  returns NULL after it reported the error; freed with free */
char *cli_records_id(const cli_records *records, const cli_json *json, size_t line);

/** The next text.
 *
 *  returns 1; 0 at the end; -1 after it reported an error of this line: later lines can follow */
int cli_records_next(cli_records *records, cli_record *record);

/** Free their memory. */
void cli_record_deinit(cli_record *record);
void cli_records_close(cli_records *records);

#endif
