/* The user interface: terminals, colours, progress bars, and numbers for people. */
#ifndef CLI_UI_H
#define CLI_UI_H

#include <mica/mica.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** Checks the streams, NO_COLOR and TERM, and sets a UTF-8 locale: the user's, else C.UTF-8. Must
 *  be the first call, once. */
void cli_ui_init(void);

/** Whether a standard stream is a terminal. */
bool cli_stdin_is_terminal(void);
bool cli_stdout_is_terminal(void);
bool cli_stderr_is_terminal(void);

/** Whether the terminal shows no escape sequences. */
bool cli_terminal_is_dumb(void);

/** The current width in columns of the terminal that a stream writes to; 80 if it is not a
 *  terminal. */
int cli_columns(FILE *stream);

typedef enum cli_colour { CLI_PLAIN, CLI_BOLD, CLI_DIM, CLI_RED } cli_colour;

/** The escape sequence of a colour for stderr; "" if stderr shows no colours. Never NULL. */
const char *cli_style(cli_colour colour);

/** Sets it for what follows on stderr. */
void cli_set_style(cli_colour colour);

/* A progress bar on stderr. It is drawn only on a terminal and after half a second. There is one at
 * a time. */

/** Starts the bar. label is borrowed until the end. Does nothing if quiet. */
void cli_progress_start(const char *label, bool quiet);

/** Updates the bar: a mica_progress that ignores `user`. */
void cli_progress_tick(void *user, uint64_t done, uint64_t total);

/** Erases the bar before other output. The next tick draws it again. */
void cli_progress_wipe(void);

/** Ends the bar and erases it. Does nothing if there is none. */
void cli_progress_clear(void);

/** The width of a bar that fits on a line with its label and percentage. 0: there is room for label
 *  and percentage only; -1: for the percentage only. */
int cli_progress_width(size_t label_len, int columns);

/** Seconds of a monotonic clock. */
double cli_seconds(void);

/* Write numbers for people into `out`, CLI_NUMBER bytes, and return it. */
#define CLI_NUMBER 32
const char *cli_format_bytes(uint64_t bytes, char *out); /* 12.8 MB */
const char *cli_format_count(uint64_t count, char *out); /* 20,460,928 */

enum { CLI_JSON_ESCAPE = 8 };

/** Escapes the first character of a text for a JSON string. The text has len > 0 bytes. Invalid
 *  UTF-8 becomes U+FFFD, and what clean.h leaves out is escaped.
 *
 *  out      receives *out_len bytes.
 *  returns  the number of bytes of text that were read */
size_t cli_json_escape(const char *text, size_t len, char out[CLI_JSON_ESCAPE], size_t *out_len);

/** Whether a text of len bytes is valid UTF-8. */
bool cli_is_utf8(const char *text, size_t len);

/** Print a text as a JSON string, with its quotes. Invalid UTF-8 becomes U+FFFD. */
void cli_print_json(const char *text, FILE *out);
void cli_print_json_bytes(const char *text, size_t len, FILE *out);

#endif
