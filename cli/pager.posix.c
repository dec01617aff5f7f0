#define _POSIX_C_SOURCE 200809L
#include "pager.h"

#include "cli.h"
#include "report.h"
#include "ui.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    FILE *pipe;   /* to the pager; NULL: there is none */
    int terminal; /* what stdout was */
} pager;

static const char *command(void) {
    /* $MANPAGER, $PAGER: what shows manual pages at a terminal (default: less) */
    static const char *const variables[] = {"MANPAGER", "PAGER"};
    for (size_t i = 0; i < CLI_COUNT(variables); i++) {
        const char *value = getenv(variables[i]);
        if (value && *value) return value;
    }
    return "if command -v less > /dev/null; then LESS=${LESS-FRX} exec less; else exec cat; fi";
}

/* What the user types, Ctrl-C and a pager that is left early too, is the pager's affair. */
static void leave_signals(void) {
    struct sigaction ignored = {.sa_handler = SIG_IGN};
    sigemptyset(&ignored.sa_mask);
    sigaction(SIGINT, &ignored, NULL);
    sigaction(SIGPIPE, &ignored, NULL);
}

void cli_pager_start(void) {
    if (!cli_stdout_is_terminal()) return;
    pager.terminal = dup(STDOUT_FILENO);
    pager.pipe = pager.terminal >= 0 ? popen(command(), "w") : NULL;
    if (!pager.pipe) {
        if (pager.terminal >= 0) close(pager.terminal);
        return;
    }
    leave_signals();
    dup2(fileno(pager.pipe), STDOUT_FILENO);
}

int cli_pager_end(void) {
    if (!pager.pipe) return cli_flush() ? CLI_DONE : CLI_FAILED;
    bool written = fflush(stdout) == 0 || errno == EPIPE;
    int error = errno;
    clearerr(stdout);
    dup2(pager.terminal, STDOUT_FILENO);
    close(pager.terminal);
    pclose(pager.pipe);
    pager.pipe = NULL;
    return written ? CLI_DONE : cli_fail("cannot write to the pager: %s", strerror(error));
}
