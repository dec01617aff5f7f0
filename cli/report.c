#define _POSIX_C_SOURCE 200809L
#include "report.h"

#include "cli.h"
#include "print.h"
#include "ui.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a line of text ---- */

__attribute__((format(printf, 2, 0))) static void say(cli_wrap *line, const char *format,
                                                      va_list args) {
    char shorter[1024], *longer = NULL;
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(shorter, sizeof shorter, format, args);
    if (len >= (int)sizeof shorter) longer = malloc((size_t)len + 1);
    if (longer) vsnprintf(longer, (size_t)len + 1, format, again);
    va_end(again);
    const char *text = longer ? longer : shorter; /* without memory its beginning */
    if (cli_stderr_is_terminal())
        cli_wrap_put(line, text, strlen(text), cli_columns(stderr), stderr);
    else
        cli_print_clean(text, strlen(text), stderr);
    free(longer);
}

void cli_say(cli_wrap *line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(line, format, args);
    va_end(args);
}

void cli_say_end(cli_wrap *line) {
    cli_wrap_end(line, cli_columns(stderr), stderr);
    fputc('\n', stderr);
}

/* ---- messages ---- */

static int rank;             /* above 0: of several */
static int rank_errors = -1; /* its standard error; what else it would print there is dropped */

void cli_report_set_rank(int number) {
    int null = open("/dev/null", O_WRONLY);
    rank = number;
    rank_errors = dup(STDERR_FILENO);
    if (null >= 0 && rank_errors >= 0) dup2(null, STDERR_FILENO);
    if (null > STDERR_FILENO) close(null);
}

/* Tells an error of a rank above 0, in one write. */
__attribute__((format(printf, 1, 0))) static void report_rank(const char *format, va_list args) {
    char text[2048];
    int at = snprintf(text, sizeof text, "mica: rank %d: ", rank);
    vsnprintf(text + at, sizeof text - (size_t)at - 1, format, args);
    size_t len = strlen(text);
    text[len] = '\n';
    if (write(rank_errors, text, len + 1) < 0) return;
}

__attribute__((format(printf, 1, 0))) static void report(const char *format, va_list args) {
    if (rank_errors >= 0) {
        report_rank(format, args);
        return;
    }
    cli_wrap line = {.column = sizeof "mica:", .in_line = true};
    cli_progress_wipe();
    cli_set_style(CLI_RED);
    fputs("mica:", stderr);
    cli_set_style(CLI_PLAIN);
    fputc(' ', stderr);
    say(&line, format, args);
    cli_say_end(&line);
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
    cli_print(stderr, "Try: mica help%s%s\n", *verb ? " " : "", verb);
    return CLI_USAGE;
}

void cli_hint(const char *text) {
    cli_wrap line = {0};
    cli_say(&line, "%s", text);
    cli_say_end(&line);
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
