/* Texts of a file, one a line: what `classify` and `embed` work on. */
#ifndef CLI_RECORDS_H
#define CLI_RECORDS_H

#include "json.h"
#include "text.h"

/* A paragraph of --help. */
#define CLI_RECORDS_HELP                                                               \
    "FILE has a text on each line or, where its first line begins with {, a JSON\n"    \
    "object {\"text\", \"id\"}; an id that is missing is the line's number. FILE is\n" \
    "standard input where it is - or missing. A single word is FILE, unless it is\n"   \
    "a model's folder; --model settles it.\n"

/* A text. Owned. */
typedef struct cli_record {
    char *text;
    char *id; /* as JSON */
} cli_record;

/* The lines of an input. Zeroed: none. */
typedef struct cli_records {
    const char *name; /* of the file, for messages */
    cli_text input;
    size_t at;     /* of input: where the next line begins */
    size_t number; /* of that line, the first being 1 */
    bool is_json;
} cli_records;

/** Reads all of a file, NULL or "-" being the standard input.
 *
 *  returns CLI_DONE, or an exit code after it reported the error */
int cli_records_open(cli_records *records, const char *verb_name, const char *path);

/** The next line that is not empty, NUL-terminated in place, NULL at the end. line: its number. */
char *cli_records_line(cli_records *records, size_t *len, size_t *line);

/** Reports what is wrong with a line. */
void cli_records_complain(const cli_records *records, size_t line, const char *why);

/** The id of a parsed line, or its number where it has none, as JSON.
 *
 *  returns NULL after it reported the error; freed with free */
char *cli_records_id(const cli_records *records, const cli_json *json, size_t line);

/** The next text.
 *
 *  returns 1; 0 at the end; -1 after it reported a line that is wrong: the next may be right */
int cli_records_next(cli_records *records, cli_record *record);

/** Frees what they hold. */
void cli_record_deinit(cli_record *record);
void cli_records_close(cli_records *records);

#endif
