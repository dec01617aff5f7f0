#define _POSIX_C_SOURCE 200809L
#include "stdin.h"

#include "report.h"
#include "ui.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Waits until there is something to read, or the end. */
static bool await_text(void) {
    enum { PATIENCE_MS = 3000 };
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready;
    do
        ready = poll(&input, 1, PATIENCE_MS);
    while (ready < 0 && errno == EINTR);
    if (ready == 0)
        cli_hint("Standard input is open, and nothing comes: it is not waited for. As - it is, "
                 "and < /dev/null ends it at once.");
    return ready > 0;
}

bool cli_stdin_has_text(void) {
    struct stat info;
    if (cli_stdin_is_terminal() || fstat(STDIN_FILENO, &info) != 0) return false;
    if (S_ISREG(info.st_mode)) return lseek(STDIN_FILENO, 0, SEEK_CUR) == 0 && info.st_size > 0;
    return (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)) && await_text();
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
