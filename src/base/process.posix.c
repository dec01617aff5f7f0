#define _GNU_SOURCE /* posix_spawn_file_actions_addclosefrom_np */
#define _DARWIN_C_SOURCE

#include "base/process.h"

#include "base/alloc.h"
#include "base/process_text.h"
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { STREAMS = 3, LOOK_US = 1000, END_US = 200000 };

struct mc_process {
    mc_process *next; /* in the list of all; guarded by its lock */
    bool is_anothers; /* this process is a fork of the one that started it */
    pid_t pid;
    int in, out, err; /* our ends; -1: closed */
    mc_process_text text;
    bool ended, waited; /* it has ended; it was waited for */
    char end[48];
};

/* ---- descriptors ---- */

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Moves a descriptor out of the way of a child's first three. */
static int lift(int fd) {
    if (fd < 0 || fd >= STREAMS) return fd;
    int lifted = fcntl(fd, F_DUPFD_CLOEXEC, STREAMS);
    int error = errno;
    close(fd);
    errno = error;
    return lifted;
}

/* Makes a pair of connected sockets, closed on exec. Sockets, not pipes: writing to one whose other
 * end is closed can be told not to raise SIGPIPE. */
static bool make_pair(int pair[2]) {
    int type = SOCK_STREAM;
#ifdef SOCK_CLOEXEC
    type |= SOCK_CLOEXEC;
#endif
    if (socketpair(AF_UNIX, type, 0, pair) != 0) return false;
    for (int i = 0; i < 2; i++) {
        pair[i] = lift(pair[i]);
        if (pair[i] >= 0) fcntl(pair[i], F_SETFD, FD_CLOEXEC);
    }
#ifdef SO_NOSIGPIPE
    (void)setsockopt(pair[0], SOL_SOCKET, SO_NOSIGPIPE, &(int){1}, sizeof(int));
#endif
    if (pair[0] >= 0 && pair[1] >= 0 && fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0) return true;
    int error = errno;
    close_fd(&pair[0]);
    close_fd(&pair[1]);
    errno = error;
    return false;
}

/* ---- forks ---- */

/* The processes that this one has started. One that forks has copies of their descriptors: open,
 * they would hide the end of the input from a child whose parent dies. They change with the lock
 * alone: a fork between would keep one, or close another of the same number. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static mc_process *list;

static void before_fork(void) {
    pthread_mutex_lock(&list_lock);
}

static void after_fork(void) {
    pthread_mutex_unlock(&list_lock);
}

static void leave_to_parent(void) {
    for (mc_process *p = list; p; p = p->next) {
        close_fd(&p->in);
        close_fd(&p->out);
        close_fd(&p->err);
        p->is_anothers = true;
    }
    list = NULL;
    pthread_mutex_unlock(&list_lock);
}

static void watch_forks(void) {
    (void)pthread_atfork(before_fork, after_fork, leave_to_parent); /* or they are not noticed */
}

static void lock_list(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&list_lock);
}

/* Closes a descriptor of a process in the list. */
static void close_own(int *fd) {
    lock_list();
    close_fd(fd);
    pthread_mutex_unlock(&list_lock);
}

/* Closes all that are open, and takes the process from the list. */
static void leave_list(mc_process *process) {
    lock_list();
    close_fd(&process->in);
    close_fd(&process->out);
    close_fd(&process->err);
    mc_process **at = &list;
    while (*at && *at != process)
        at = &(*at)->next;
    if (*at) *at = process->next;
    pthread_mutex_unlock(&list_lock);
}

static mica_status check_own(const mc_process *process) {
    if (!process->is_anothers) return MICA_OK;
    return mc_fail(MICA_EIO, "this process is a fork of the one that talks to the other");
}

/* ---- starting ---- */

static bool same_name(const char *a, const char *b) {
    size_t n = strcspn(a, "=");
    return strncmp(a, b, n) == 0 && b[n] == '=';
}

/* This process's variables, with those of `more`. Freed with mc_free; NULL: no memory. */
static const char **merge_env(const char *const *more) {
    size_t own = 0, added = 0, n = 0;
    while (environ && environ[own])
        own++;
    while (more && more[added])
        added++;
    const char **env = mc_array_alloc(own + added + 1, sizeof *env);
    if (!env) return NULL;
    for (size_t i = 0; i < own; i++) {
        bool replaced = false;
        for (size_t j = 0; j < added; j++)
            replaced = replaced || same_name(more[j], environ[i]);
        if (!replaced) env[n++] = environ[i];
    }
    for (size_t j = 0; j < added; j++)
        env[n++] = more[j];
    env[n] = NULL;
    return env;
}

/* A group of its own, no blocked signals, no handlers. */
static int set_attributes(posix_spawnattr_t *attr) {
    short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    sigset_t none, all;
#ifdef POSIX_SPAWN_CLOEXEC_DEFAULT
    flags |= POSIX_SPAWN_CLOEXEC_DEFAULT;
#endif
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    int error = posix_spawnattr_setpgroup(attr, 0);
    if (!error) error = posix_spawnattr_setsigmask(attr, &none);
    if (!error) error = posix_spawnattr_setsigdefault(attr, &all);
    return error ? error : posix_spawnattr_setflags(attr, flags);
}

/* The child's three descriptors, and no others. */
static int set_actions(posix_spawn_file_actions_t *actions, const int theirs[STREAMS]) {
    int error = 0;
    for (int i = 0; i < STREAMS && !error; i++)
        error = posix_spawn_file_actions_adddup2(actions, theirs[i], i);
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
    if (!error) error = posix_spawn_file_actions_addclosefrom_np(actions, STREAMS);
#endif
    return error;
}

static int spawn(const char *const *argv, const char **env, const int theirs[STREAMS], pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawnattr_init(&attr);
    if (!error) {
        error = set_attributes(&attr);
        if (!error) error = set_actions(&actions, theirs);
        if (!error)
            error = posix_spawnp(pid, argv[0], &actions, &attr, (char *const *)(void *)argv,
                                 (char *const *)(void *)env);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* With the lock of the list: spawning calls no handlers of forks. */
static mica_status start(mc_process *process, const mc_process_options *options, int theirs[]) {
    int *ours[STREAMS] = {&process->in, &process->out, &process->err}, pair[2];
    for (int i = 0; i < STREAMS; i++) {
        if (!make_pair(pair)) return mc_fail_errno(errno, "cannot start %s", options->argv[0]);
        *ours[i] = pair[0];
        theirs[i] = pair[1];
    }
    MC_TRY(mc_process_text_init(&process->text, options->max_line_bytes));
    const char **env = merge_env(options->env);
    if (!env) return mc_fail_nomem("a process");
    int error = spawn(options->argv, env, theirs, &process->pid);
    mc_free(env);
    return error ? mc_fail_errno(error, "cannot start %s", options->argv[0]) : MICA_OK;
}

mica_status mc_process_start(const mc_process_options *options, mc_process **out) {
    int theirs[STREAMS] = {-1, -1, -1};
    *out = NULL;
    mc_process *process = mc_calloc(1, sizeof *process);
    if (!process) return mc_fail_nomem("a process");
    process->in = process->out = process->err = -1;
    lock_list();
    process->next = list;
    list = process;
    mica_status status = start(process, options, theirs);
    for (int i = 0; i < STREAMS; i++)
        close_fd(&theirs[i]);
    pthread_mutex_unlock(&list_lock);
    if (status == MICA_OK)
        *out = process;
    else
        mc_process_close(&process, 0);
    return status;
}

int64_t mc_process_id(const mc_process *process) {
    return process->pid;
}

/* ---- writing ---- */

/* Milliseconds until the deadline for poll, rounded up. */
static int wait_ms(uint64_t deadline) {
    uint64_t now = mc_now_us();
    if (now >= deadline) return 0;
    uint64_t ms = (deadline - now + 999) / 1000;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

static int send_flags(void) {
#ifdef MSG_NOSIGNAL
    return MSG_NOSIGNAL;
#else
    return 0; /* SO_NOSIGPIPE */
#endif
}

mica_status mc_process_write(mc_process *process, const char *bytes, size_t n, uint64_t deadline) {
    MC_TRY(check_own(process));
    while (n > 0) {
        ssize_t sent = send(process->in, bytes, n, send_flags());
        if (sent >= 0) {
            bytes += sent;
            n -= (size_t)sent;
            continue;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            return mc_fail(MICA_EIO, "the process has closed its input");
        struct pollfd room = {.fd = process->in, .events = POLLOUT};
        int ms = wait_ms(deadline);
        if (ms == 0) return mc_fail(MICA_EIO, "the process does not read its input");
        (void)poll(&room, 1, ms);
    }
    return MICA_OK;
}

/* ---- reading ---- */

enum { READS = 16 }; /* at once: a child may write faster than it is read */

/* Reads what is there of standard error, up to a bound, and keeps the last of it. */
static void read_errors(mc_process *process) {
    for (int i = 0; process->err >= 0 && i < READS; i++) {
        char *room = mc_process_text_errors_room(&process->text);
        ssize_t n = read(process->err, room, MC_PROCESS_ERRORS - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n <= 0)
            close_own(&process->err);
        else
            process->text.errors.len += (size_t)n;
    }
}

/* Reads once from standard output, which is ready. */
static mica_status read_output(mc_process *process) {
    char *room = mc_process_text_room(&process->text);
    if (!room) return mc_fail_nomem("the lines of a process");
    ssize_t n = read(process->out, room, MC_PROCESS_CHUNK);
    if (n > 0)
        process->text.lines.len += (size_t)n;
    else if (n == 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK))
        close_own(&process->out);
    return MICA_OK;
}

mica_status mc_process_read(mc_process *process, uint64_t deadline, mc_str *line,
                            mc_process_got *got) {
    *line = (mc_str){"", 0};
    *got = MC_PROCESS_LINE;
    MC_TRY(check_own(process));
    for (bool found = false;;) {
        MC_TRY(mc_process_text_next(&process->text, line, &found));
        if (found) return MICA_OK;
        if (process->out < 0) {
            read_errors(process);
            *got = MC_PROCESS_END;
            *line = mc_process_text_rest(&process->text);
            return MICA_OK;
        }
        struct pollfd fds[] = {{.fd = process->out, .events = POLLIN},
                               {.fd = process->err, .events = POLLIN}};
        int ready = poll(fds, 2, wait_ms(deadline));
        if (ready > 0 && fds[1].revents) read_errors(process);
        if (ready > 0 && fds[0].revents) MC_TRY(read_output(process));
        if ((ready <= 0 || !fds[0].revents) && mc_now_us() >= deadline) {
            *got = MC_PROCESS_LATER;
            return MICA_OK;
        }
    }
}

const char *mc_process_errors(mc_process *process) {
    return mc_process_text_errors(&process->text);
}

/* ---- the end ---- */

/* Whether the child has ended. It is not waited for yet, so its process group's number stays its
 * own. */
static bool has_ended(mc_process *process) {
    siginfo_t info = {.si_pid = 0};
    if (process->ended || process->is_anothers || process->pid <= 0) return true;
    int got = waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    if (got != 0 && errno == ECHILD) { /* the program waits for all children, or for none */
        process->ended = process->waited = true;
        snprintf(process->end, sizeof process->end, "ended");
    } else if (got == 0 && info.si_pid == process->pid) {
        process->ended = true;
        snprintf(process->end, sizeof process->end, "%s %d",
                 info.si_code == CLD_EXITED ? "ended with status" : "was killed by signal",
                 info.si_status);
    }
    return process->ended;
}

/* Waits for the end, and reads and drops output meanwhile. */
static void await_end(mc_process *process, uint64_t deadline) {
    char dropped[1024];
    while (!has_ended(process) && mc_now_us() < deadline) {
        struct pollfd fds[] = {{.fd = process->out, .events = POLLIN},
                               {.fd = process->err, .events = POLLIN}};
        if (poll(fds, 2, LOOK_US / 1000) <= 0) continue;
        if (fds[1].revents) read_errors(process);
        if (!fds[0].revents) continue;
        ssize_t n = read(process->out, dropped, sizeof dropped);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) close_own(&process->out);
    }
}

const char *mc_process_describe_end(mc_process *process) {
    await_end(process, mc_now_us() + END_US);
    return process->ended ? process->end : "closed its output";
}

void mc_process_close(mc_process **process, uint64_t grace_us) {
    if (!process || !*process) return;
    mc_process *p = *process;
    *process = NULL;
    close_own(&p->in);
    if (p->pid > 0 && !p->is_anothers) {
        await_end(p, mc_now_us() + grace_us);
        if (!p->waited) {
            kill(-p->pid, SIGKILL); /* what it has started */
            kill(p->pid, SIGKILL);  /* itself, if it has left its group */
            while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR) {}
        }
    }
    leave_list(p);
    mc_process_text_deinit(&p->text);
    mc_free(p);
}
