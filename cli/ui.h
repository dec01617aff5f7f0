/* How mica looks: whether streams are terminals, colours, progress bars, numbers for people. */
#ifndef CLI_UI_H
#define CLI_UI_H

#include <mica/mica.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** Looks at the streams and at NO_COLOR and TERM, and takes a locale that knows UTF-8: the user's
 *  or, where that does not, C.UTF-8. Called once, first of all. */
void cli_ui_init(void);

/** Whether a person types, reads results, and reads what is not a result. */
bool cli_stdin_is_terminal(void);
bool cli_stdout_is_terminal(void);
bool cli_stderr_is_terminal(void);

/** Whether the terminal shows no escape sequences. */
bool cli_terminal_is_dumb(void);

/** Columns of the terminal that a stream is, as wide as it is now; 80 where it is none. */
int cli_columns(FILE *stream);

typedef enum cli_colour { CLI_PLAIN, CLI_BOLD, CLI_DIM, CLI_RED } cli_colour;

/** The escape sequence for stderr, "" where stderr shows no colours. Never NULL. */
const char *cli_style(cli_colour colour);

/* A bar on stderr for work that takes long: drawn where stderr is a terminal, from half a second
 * on. One at a time. */

/** Starts one; label lives until the end. Nothing for quiet. */
void cli_progress_start(const char *label, bool quiet);

/** A mica_progress; user is not used. */
void cli_progress_tick(void *user, uint64_t done, uint64_t total);

/** Wipes it off the screen until it is drawn again, for something else is written now. */
void cli_progress_wipe(void);

/** Ends it, and wipes it off the screen. Nothing where there is none. */
void cli_progress_clear(void);

/** How wide the bar is that fits a line of the terminal with its label and percentage: 0 for a
 *  percentage without a bar, -1 for one without a label too. */
int cli_progress_width(size_t label_len, int columns);

/** Seconds of a clock that only goes forward. */
double cli_seconds(void);

/* Numbers for people, into room for CLI_NUMBER bytes; return it. */
#define CLI_NUMBER 32
const char *cli_format_bytes(uint64_t bytes, char *out); /* 12.8 MB */
const char *cli_format_count(uint64_t count, char *out); /* 20,460,928 */

enum { CLI_JSON_ESCAPE = 8 };

/** Writes what the first character of a text, len bytes and not none, is within a string of JSON.
 *  What is not UTF-8 becomes U+FFFD.
 *
 *  out      receives *out_len bytes.
 *  returns  how many bytes of the text that was */
size_t cli_json_escape(const char *text, size_t len, char out[CLI_JSON_ESCAPE], size_t *out_len);

/** Whether a text, len bytes, is UTF-8. */
bool cli_is_utf8(const char *text, size_t len);

/** Prints a string as JSON, with its quotes. What is not UTF-8 becomes U+FFFD. */
void cli_print_json(const char *text, FILE *out);
void cli_print_json_bytes(const char *text, size_t len, FILE *out);

/** Prints text on one line: what would break it is escaped.  returns how many columns, each
 *  character counting as one */
int cli_print_line(const char *text, size_t len, FILE *out);

#endif
