/* What mica tells on stderr. Every message is one line that begins with "mica: "; what to do about
 * it follows on lines of its own. At a terminal lines are broken between words. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "wrap.h"

#include <mica/mica.h>

/** Prints a piece of a line on stderr. line: zeroed at its beginning. */
__attribute__((format(printf, 2, 3))) void cli_say(cli_wrap *line, const char *format, ...);

/** Ends a line. */
void cli_say_end(cli_wrap *line);

/** Says that this is a rank above 0: its errors alone are printed, and begin with "mica: rank N: ".
 */
void cli_report_set_rank(int number);

/** Prints "mica: " and the formatted text.  returns CLI_FAILED */
__attribute__((format(printf, 1, 2))) int cli_fail(const char *format, ...);

/** Prints "mica: " and the formatted text, and where the verb is explained ("" for none).
 *
 *  returns CLI_USAGE */
__attribute__((format(printf, 2, 3))) int cli_usage(const char *verb, const char *format, ...);

/** Prints a failed call's mica_last_error(), and what to do about such a status.
 *
 *  returns CLI_FAILED */
int cli_fail_status(mica_status status);

/** Prints a line of advice. */
void cli_hint(const char *text);

/** Flushes stdout.  returns false after it reported that writing failed, once */
bool cli_flush(void);

#endif
