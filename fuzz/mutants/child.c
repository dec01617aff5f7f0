#define _GNU_SOURCE /* wait4 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MAX_WORDS = 24,
    MAX_SECONDS = 3,            /* of CPU time; more than a second is a failure */
    MAX_SECONDS_SANITIZED = 30, /* the limit with sanitizers */
    MAX_WAIT_SECONDS = 60,
    CANNOT_START = 127,
};

static const rlim_t max_address_bytes = (rlim_t)2 << 30, max_file_bytes = (rlim_t)64 << 20;

static void limit(int what, rlim_t soft, rlim_t hard) {
    struct rlimit l = {soft, hard};
    if (setrlimit(what, &l) != 0) _exit(CANNOT_START);
}

static void open_as(const char *path, int flags, int fd) {
    int opened = open(path, flags, 0600);
    if (opened == -1 || dup2(opened, fd) == -1) _exit(CANNOT_START);
    close(opened);
}

static void become_mica(const child_options *o, char *const *argv, char *const *environment) {
    rlim_t seconds = o->sanitized ? MAX_SECONDS_SANITIZED : MAX_SECONDS;
    limit(RLIMIT_CPU, seconds, seconds + 5);
    limit(RLIMIT_CORE, 0, 0);
    limit(RLIMIT_FSIZE, max_file_bytes, max_file_bytes);
    if (!o->sanitized) limit(RLIMIT_AS, max_address_bytes, max_address_bytes);
    if (chdir(o->dir) != 0) _exit(CANNOT_START);
    open_as("input.txt", O_RDONLY, STDIN_FILENO);
    open_as("output.txt", O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
    open_as("errors.txt", O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
    alarm(MAX_WAIT_SECONDS);
    execve(o->mica, argv, environment);
    _exit(CANNOT_START);
}

static double seconds_of(struct timeval t) {
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

child_result child_run(const child_options *o, const char *const *argv, size_t count) {
    static char name[] = "mica", home[4096], locale[] = "LC_ALL=C.UTF-8",
                models[] = "MICA_MODELS=.", python[] = "MICA_MLX_LM_PYTHON=no-python",
                address[] =
                    "ASAN_OPTIONS=allocator_may_return_null=1:hard_rss_limit_mb=4096:exitcode=99",
                undefined[] = "UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:exitcode=99";
    char *words[MAX_WORDS] = {name},
         *environment[] = {home, locale, models, python, address, undefined, NULL};
    child_result result = {.code = CANNOT_START};
    snprintf(home, sizeof home, "HOME=%s", o->dir);
    for (size_t i = 0; i < count && i + 2 < MAX_WORDS; i++) {
        words[i + 1] = strdup(argv[i]);
        words[i + 2] = NULL;
    }

    struct rusage use;
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) become_mica(o, words, environment);
    pid_t ended = -1;
    while (pid > 0 && (ended = wait4(pid, &status, 0, &use)) == -1 && errno == EINTR)
        continue;
    if (ended == pid && pid > 0) {
        result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        result.seconds = seconds_of(use.ru_utime) + seconds_of(use.ru_stime);
        result.memory_bytes = (size_t)use.ru_maxrss * 1024;
    }
    for (size_t i = 1; words[i]; i++)
        free(words[i]);
    return result;
}
