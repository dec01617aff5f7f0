/* What mica tells on stderr. Every message is one line that begins with "mica: "; what to do about
 * it follows on lines of its own. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <mica/mica.h>

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
