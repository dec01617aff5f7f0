#define _POSIX_C_SOURCE 200809L
#include "stdin.h"

#include "ranks.h"
#include "report.h"
#include "ui.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int poll_input(int patience_ms) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready;
    do
        ready = poll(&input, 1, patience_ms);
    while (ready < 0 && errno == EINTR);
    return ready;
}

/* Waits until there is something to read, or the end: as long as that takes where somebody sees
 * that, and can end it. */
static bool await_text(void) {
    enum { TOLD_MS = 3000, PATIENCE_MS = 10000, RANKS_MS = 1000 };
    bool seen = cli_stderr_is_terminal();
    /* What a launcher gives to rank 0 is open as long as its own is. */
    if (cli_ranks_group()) return poll_input(RANKS_MS) > 0;
    int ready = poll_input(seen ? TOLD_MS : PATIENCE_MS);
    if (ready == 0 && seen) {
        cli_hint("Waiting for standard input. Ctrl-C ends this; < /dev/null does without.");
        ready = poll_input(-1);
    } else if (ready == 0) {
        cli_hint("Standard input is open, and nothing came in 10 s: it is left. As - it is waited "
                 "for, and < /dev/null ends it at once.");
    }
    return ready > 0;
}

static bool has_text(void) {
    struct stat info;
    if (cli_stdin_is_terminal() || fstat(STDIN_FILENO, &info) != 0) return false;
    if (S_ISREG(info.st_mode)) return lseek(STDIN_FILENO, 0, SEEK_CUR) == 0 && info.st_size > 0;
    return (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)) && await_text();
}

bool cli_stdin_has_text(void) {
    bool has = cli_ranks_own() == 0 && has_text();
    return cli_ranks_share(&has, sizeof has) && has;
}

bool cli_can_ask(void) {
    return cli_stdin_is_terminal() && cli_stderr_is_terminal();
}

bool cli_read_yes(void) {
    char line[16] = "";
    if (!fgets(line, sizeof line, stdin)) {
        fputc('\n', stderr);
        return false;
    }
    return line[0] == '\n' || line[0] == 'y' || line[0] == 'Y';
}
