#include "report.h"

#include "cli.h"
#include "ui.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 1, 0))) static void report(const char *format, va_list args) {
    cli_progress_wipe();
    fprintf(stderr, "%smica:%s ", cli_style(CLI_RED), cli_style(CLI_PLAIN));
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

int cli_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    report(format, args);
    va_end(args);
    return CLI_FAILED;
}

int cli_usage(const char *verb, const char *format, ...) {
    va_list args;
    va_start(args, format);
    report(format, args);
    va_end(args);
    fprintf(stderr, "Try: mica help%s%s\n", *verb ? " " : "", verb);
    return CLI_USAGE;
}

void cli_hint(const char *text) {
    fprintf(stderr, "%s\n", text);
}

/* What to do about a status, where its text does not say. */
static const char *advice(mica_status status) {
    switch (status) {
    case MICA_ENOMEM:
        return "Try a shorter --context, or a smaller model.";
    case MICA_ECONTEXT:
        return "With --truncate its oldest tokens are dropped, with --context N they are "
               "forgotten.";
    case MICA_EINTERNAL:
        return "That is a fault of mica's own: please report it.";
    default:
        return NULL;
    }
}

int cli_fail_status(mica_status status) {
    const char *text = mica_last_error();
    cli_fail("%s", *text ? text : mica_status_name(status));
    const char *hint = advice(status);
    if (hint) cli_hint(hint);
    return CLI_FAILED;
}

bool cli_flush(void) {
    static bool reported;
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    if (!reported) cli_fail("cannot write to standard output: %s", strerror(errno));
    reported = true;
    return false;
}
