#define _POSIX_C_SOURCE 200809L
#include "interrupt.h"

#include "verb.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/select.h>
#include <termios.h>
#include <unistd.h>

/* State that the handler reads. Only the main thread writes the stream, and the handler runs on
 * that thread, so a stream that it sees is open. */
static _Atomic(mica_stream *) watched;
static _Atomic(mica_cancel *) watched_task;
static atomic_bool watching; /* a stream or a task is watched, cancelled or not */
static atomic_bool keeping, kept;
static atomic_bool told; /* by SIGTERM */
static pthread_t main_thread;
static struct termios terminal; /* its modes at the start */
static volatile sig_atomic_t has_terminal;
static const char *volatile farewell = "";

void cli_interrupt_restore_terminal(void) {
    if (!has_terminal) return;
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
    const char *text = farewell;
    size_t len = 0;
    while (text[len])
        len++;
    ssize_t written = write(STDERR_FILENO, text, len);
    written = write(STDERR_FILENO, "\n", 1);
    (void)written;
}

static void on_interrupt(int signo) {
    int saved = errno;
    if (signo == SIGTERM) told = true;
    if (!pthread_equal(pthread_self(), main_thread)) {
        pthread_kill(main_thread, signo);
    } else {
        mica_stream *stream = atomic_exchange(&watched, NULL);
        mica_cancel *task = atomic_exchange(&watched_task, NULL);
        bool keep = keeping && !watching && !kept;
        if (!stream && !task && !keep) {
            cli_interrupt_restore_terminal();
            _exit(CLI_INTERRUPTED);
        }
        if (keep) kept = true;
        if (stream) mica_stream_cancel(stream);
        if (task) mica_cancel_set(task);
    }
    errno = saved;
}

void cli_interrupt_init(void) {
    main_thread = pthread_self();
    has_terminal = tcgetattr(STDIN_FILENO, &terminal) == 0;
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);

    /* If the reader of a pipe closes it, the program ends, also if the parent process ignored
     * SIGPIPE. */
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigemptyset(&plain.sa_mask);
    sigaction(SIGPIPE, &plain, NULL);

    /* Writing beyond the file size limit is an error of the write, not a signal. */
    struct sigaction ignored = {.sa_handler = SIG_IGN};
    sigemptyset(&ignored.sa_mask);
    sigaction(SIGXFSZ, &ignored, NULL);
}

void cli_interrupt_take_term(void) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
}

bool cli_interrupt_by_term(void) {
    return told;
}

void cli_interrupt_survive_pipe(void) {
    struct sigaction ignored = {.sa_handler = SIG_IGN};
    sigemptyset(&ignored.sa_mask);
    sigaction(SIGPIPE, &ignored, NULL);
}

void cli_interrupt_watch(mica_stream *stream) {
    watching = stream != NULL;
    atomic_store(&watched, stream);
}

void cli_interrupt_watch_task(mica_cancel *cancel) {
    watching = cancel != NULL;
    atomic_store(&watched_task, cancel);
}

void cli_interrupt_keep(bool on) {
    keeping = on;
}

bool cli_interrupt_take(void) {
    return atomic_exchange(&kept, false);
}

bool cli_interrupt_wait_input(void) {
    sigset_t interrupt, before;
    fd_set input;
    int ready = -1;
    FD_ZERO(&input);
    FD_SET(STDIN_FILENO, &input);
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    /* SIGINT is blocked between the check of `kept` and pselect, which unblocks it. */
    pthread_sigmask(SIG_BLOCK, &interrupt, &before);
    while (!kept && ready < 0) {
        fd_set readable = input;
        ready = pselect(STDIN_FILENO + 1, &readable, NULL, NULL, NULL, &before);
        if (ready < 0 && errno != EINTR) break; /* reading will report the error */
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !cli_interrupt_take();
}

void cli_interrupt_set_farewell(const char *text) {
    farewell = text;
}
