#define _POSIX_C_SOURCE 200809L
#include "fault.h"

#include "interrupt.h"
#include "verb.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* All functions here are async-signal-safe. */

typedef struct reader {
    int fd;
    char data[1024];
    ssize_t len, at;
} reader;

/* Returns the next byte, or -1. */
static int next(reader *r) {
    if (r->at == r->len) {
        r->at = 0;
        r->len = read(r->fd, r->data, sizeof r->data);
        if (r->len <= 0) return r->len = 0, -1;
    }
    return (unsigned char)r->data[r->at++];
}

/* Reads a hexadecimal number and the byte behind it. */
static uintptr_t next_hex(reader *r) {
    uintptr_t value = 0;
    for (int c = next(r); c != -1; c = next(r)) {
        if (c >= '0' && c <= '9')
            value = value * 16 + (uintptr_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (uintptr_t)(c - 'a' + 10);
        else
            break;
    }
    return value;
}

/* Finds the name of the file that is mapped at an address, in Linux's list of maps. Its lines are
 * "from-to rights offset device inode /path".  returns the length of the name, 0 if unknown */
static size_t find_file(uintptr_t address, char *name, size_t room) {
    reader r = {.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
    size_t len = 0;
    if (r.fd < 0) return 0;
    for (int c = 0; c != -1 && len == 0;) {
        uintptr_t from = next_hex(&r), to = next_hex(&r);
        bool here = from <= address && address < to;
        do
            c = next(&r);
        while (c != '/' && c != '\n' && c != -1);
        for (; c != '\n' && c != -1; c = next(&r))
            if (here && len < room) name[len++] = (char)c;
    }
    close(r.fd);
    return len;
}

static void say(const char *text, size_t len) {
    if (write(STDERR_FILENO, text, len) < 0) return; /* stderr is closed */
}

static void on_fault(int signo, siginfo_t *info, void *context) {
    static const char no_name[] = "a file",
                      what[] = " was cut short, or cannot be read, while it was in use\n"
                               "With --no-mmap weights are read into memory first.\n";
    static atomic_flag said = ATOMIC_FLAG_INIT;
    char name[4096];
    (void)context;
    if (info->si_code != BUS_ADRERR) { /* not a mapped file: the default action ends the program */
        signal(signo, SIG_DFL);
        raise(signo);
        return;
    }
    while (atomic_flag_test_and_set(&said))
        pause(); /* another thread ends the program */
    size_t len = find_file((uintptr_t)info->si_addr, name, sizeof name);
    cli_interrupt_restore_terminal();
    say("mica: ", 6);
    say(len > 0 ? name : no_name, len > 0 ? len : sizeof no_name - 1);
    say(what, sizeof what - 1);
    _exit(CLI_FAILED);
}

void cli_fault_init(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
