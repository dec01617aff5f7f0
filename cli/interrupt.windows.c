/* Windows calls the handler in a thread of its own: what it cancels is under a lock, so that nobody
 * closes it meanwhile. */
#include "interrupt.h"

#include "verb.h"

#include <stdatomic.h>

#include <windows.h>

static SRWLOCK lock = SRWLOCK_INIT;
static mica_stream *watched;      /* under the lock */
static mica_cancel *watched_task; /* the same */
static bool watching;             /* the same: a stream or a task, cancelled or not */
static atomic_bool keeping, kept;
static atomic_bool told; /* by what stands for SIGTERM: the console is closed, or the user leaves */
static HANDLE came;      /* an event: an interrupt was kept */
static DWORD modes;      /* of the terminal at the start */
static bool has_terminal;
static const char *volatile farewell = "";

void cli_interrupt_restore_terminal(void) {
    DWORD written;
    if (!has_terminal) return;
    SetConsoleMode(GetStdHandle(STD_INPUT_HANDLE), modes);
    const char *text = farewell;
    WriteFile(GetStdHandle(STD_ERROR_HANDLE), text, (DWORD)lstrlenA(text), &written, NULL);
    WriteFile(GetStdHandle(STD_ERROR_HANDLE), "\n", 1, &written, NULL);
}

static BOOL WINAPI on_interrupt(DWORD event) {
    if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) told = true;
    AcquireSRWLockExclusive(&lock);
    mica_stream *stream = watched;
    mica_cancel *task = watched_task;
    bool keep = keeping && !watching && !kept;
    watched = NULL;
    watched_task = NULL;
    if (!stream && !task && !keep) {
        cli_interrupt_restore_terminal();
        TerminateProcess(GetCurrentProcess(), CLI_INTERRUPTED);
    }
    if (keep) {
        kept = true;
        SetEvent(came);
    }
    if (stream) mica_stream_cancel(stream);
    if (task) mica_cancel_set(task);
    ReleaseSRWLockExclusive(&lock);
    /* Windows ends the program some seconds later, or when this returns: it saves meanwhile. */
    if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) Sleep(INFINITE);
    return TRUE;
}

void cli_interrupt_init(void) {
    has_terminal = GetConsoleMode(GetStdHandle(STD_INPUT_HANDLE), &modes);
    came = CreateEventW(NULL, FALSE, FALSE, NULL);
    SetConsoleCtrlHandler(on_interrupt, TRUE);
}

void cli_interrupt_take_term(void) {} /* it comes by the same way */

bool cli_interrupt_by_term(void) {
    return told;
}

void cli_interrupt_survive_pipe(void) {} /* it is always an error of the write */

void cli_interrupt_watch(mica_stream *stream) {
    AcquireSRWLockExclusive(&lock);
    watching = stream != NULL;
    watched = stream;
    ReleaseSRWLockExclusive(&lock);
}

void cli_interrupt_watch_task(mica_cancel *cancel) {
    AcquireSRWLockExclusive(&lock);
    watching = cancel != NULL;
    watched_task = cancel;
    ReleaseSRWLockExclusive(&lock);
}

void cli_interrupt_keep(bool on) {
    keeping = on;
}

bool cli_interrupt_take(void) {
    if (came) ResetEvent(came);
    return atomic_exchange(&kept, false);
}

bool cli_interrupt_wait_input(void) {
    HANDLE sources[] = {came, GetStdHandle(STD_INPUT_HANDLE)};
    if (!kept && has_terminal && came) (void)WaitForMultipleObjects(2, sources, FALSE, INFINITE);
    return !cli_interrupt_take();
}

void cli_interrupt_set_farewell(const char *text) {
    farewell = text;
}
