#define _POSIX_C_SOURCE 200809L
#include "serve_system.h"

#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>

void cli_serve_watch_signals(void (*on_stop)(int signo)) {
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction hangup; /* nohup lets it be ignored */
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
}

void cli_serve_raise_files(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files); /* without, there are fewer connections */
}
