/* Printing texts that mica did not make, cleaned (clean.h). tools/check_prints finds prints of
 * texts that go another way.
 *
 * Threads: as stdio. */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** Prints as fprintf, and cleans all that is printed.  returns  the number of bytes */
__attribute__((format(printf, 2, 3))) int cli_print(FILE *out, const char *format, ...);

/** Prints a text of len bytes, cleaned. */
void cli_print_clean(const char *text, size_t len, FILE *out);

/** Prints a text of len bytes on stdout that is what the command was asked for, such as an answer:
 *  at a terminal cleaned and without carriage returns, elsewhere as it is. */
void cli_print_result(const char *text, size_t len);

/** Prints a text, cleaned, and blanks after it up to a number of columns (width.h). */
void cli_print_cell(FILE *out, const char *text, int columns);

/** Prints a text on one line: what is not printed is escaped.  returns the number of columns */
int cli_print_line(const char *text, size_t len, FILE *out);

#endif
