/* Runs a command on a terminal of its own, and types what a script says.
 *
 *     pty COMMAND [ARGUMENT...] < SCRIPT      its width is $PTY_COLUMNS, or 200
 *
 *     wait TEXT     until the command has written TEXT after what was waited for before
 *     send TEXT     types TEXT
 *     absent TEXT   fails where the command has written TEXT at any time
 *     size N        makes the terminal N columns wide, at any time
 *
 * In TEXT, \n \r \e (escape) and \xHH stand for bytes. After the script the command's end is
 * awaited; pty exits as the command did, or with 99 after it said what was wrong: with all that
 * the command had written.
 *
 *     pty --hangup COMMAND [ARGUMENT...]      no terminal, but SIGHUP ends the command
 *
 * also where what runs the tests ignores that (nohup), which all that it starts inherits. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { PATIENCE_MS = 600 * 1000, WRONG = 99 };

static int terminal;
static pid_t child;
static char *seen; /* all that was written, a NUL after it */
static size_t seen_len, matched;

__attribute__((noreturn)) static void wrong(const char *what, const char *text) {
    fprintf(stderr, "pty: %s %s\n--- written so far:\n%s\n---\n", what, text, seen ? seen : "");
    if (child > 0) kill(child, SIGKILL);
    exit(WRONG);
}

static void resize(const char *columns) {
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)atoi(columns)};
    if (ioctl(terminal, TIOCSWINSZ, &size) != 0) wrong("cannot resize:", strerror(errno));
}

static void start(char **argv) {
    const char *columns = getenv("PTY_COLUMNS");
    terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0)
        wrong("there is no terminal:", strerror(errno));
    resize(columns ? columns : "200");
    child = fork();
    if (child < 0) wrong("cannot fork:", strerror(errno));
    if (child > 0) return;

    setsid();
    int slave = open(ptsname(terminal), O_RDWR);
    if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) != 0) _exit(WRONG);
    for (int fd = 0; fd < 3; fd++)
        dup2(slave, fd);
    close(terminal);
    close(slave);
    execvp(argv[0], argv);
    _exit(WRONG);
}

/* Reads what is there; false at the end of the command's terminal. */
static bool read_more(const char *waiting_for) {
    char chunk[4096];
    struct pollfd ready = {.fd = terminal, .events = POLLIN};
    if (poll(&ready, 1, PATIENCE_MS) == 0) wrong("in vain awaited:", waiting_for);
    ssize_t n = read(terminal, chunk, sizeof chunk);
    if (n <= 0) return n < 0 && errno == EINTR;
    char *grown = realloc(seen, seen_len + (size_t)n + 1);
    if (!grown) wrong("out of memory", "");
    seen = grown;
    for (ssize_t i = 0; i < n; i++)
        if (chunk[i]) seen[seen_len++] = chunk[i];
    seen[seen_len] = '\0';
    return true;
}

/* Replaces escapes in place. */
static void unescape(char *text) {
    char *to = text;
    for (char *from = text; *from; from++) {
        if (*from != '\\') {
            *to++ = *from;
            continue;
        }
        char hex[3] = {0};
        switch (*++from) {
        case 'n':
            *to++ = '\n';
            break;
        case 'r':
            *to++ = '\r';
            break;
        case 'e':
            *to++ = '\033';
            break;
        case 'x':
            hex[0] = from[1];
            hex[1] = from[1] ? from[2] : '\0';
            *to++ = (char)strtol(hex, NULL, 16);
            from += strlen(hex);
            break;
        default:
            wrong("unknown escape in:", text);
        }
    }
    *to = '\0';
}

static void await_text(const char *text) {
    for (;;) {
        char *found = seen ? strstr(seen + matched, text) : NULL;
        if (found) {
            matched = (size_t)(found - seen) + strlen(text);
            return;
        }
        if (!read_more(text)) wrong("the command ended before it wrote:", text);
    }
}

static void obey(char *line) {
    char *text = line + strcspn(line, " ");
    if (*text) *text++ = '\0';
    unescape(text);
    if (strcmp(line, "wait") == 0)
        await_text(text);
    else if (strcmp(line, "size") == 0)
        resize(text);
    else if (strcmp(line, "absent") == 0 && seen && strstr(seen, text))
        wrong("the command wrote:", text);
    else if (strcmp(line, "send") == 0 && write(terminal, text, strlen(text)) < 0)
        wrong("cannot type:", text);
}

int main(int argc, char **argv) {
    char line[1024];
    int status;
    if (argc < 2) return WRONG;
    if (argc > 2 && strcmp(argv[1], "--hangup") == 0) {
        signal(SIGHUP, SIG_DFL);
        execvp(argv[2], argv + 2);
        wrong("cannot start", argv[2]);
    }
    start(argv + 1);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0]) obey(line);
    }
    while (read_more("the end of the command")) {}
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    free(seen);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
