#include "serve_system.h"

#include <stddef.h>

#include <windows.h>

static void (*stop)(int signo);

/* Windows ends a program whose console was closed, or whose user leaves, when this returns. */
static BOOL WINAPI on_event(DWORD event) {
    stop(0);
    if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) Sleep(INFINITE);
    return TRUE;
}

void cli_serve_watch_signals(void (*on_stop)(int signo)) {
    stop = on_stop;
    SetConsoleCtrlHandler(on_event, TRUE);
}

void cli_serve_raise_files(void) {} /* sockets have no limit */
