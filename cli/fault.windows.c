#include "fault.h"

#include "interrupt.h"
#include "verb.h"

#include <windows.h>

static void say(const char *text) {
    DWORD written;
    WriteFile(GetStdHandle(STD_ERROR_HANDLE), text, (DWORD)lstrlenA(text), &written, NULL);
}

/* A page of a mapped file that cannot be read. Windows does not let a mapped file be cut, but its
 * disk or its server may be gone. */
static LONG CALLBACK on_fault(EXCEPTION_POINTERS *fault) {
    if (fault->ExceptionRecord->ExceptionCode != (DWORD)EXCEPTION_IN_PAGE_ERROR)
        return EXCEPTION_CONTINUE_SEARCH;
    cli_interrupt_restore_terminal();
    say("mica: a file cannot be read while it is in use\n"
        "With --no-mmap weights are read into memory first.\n");
    TerminateProcess(GetCurrentProcess(), CLI_FAILED);
    return EXCEPTION_CONTINUE_SEARCH;
}

void cli_fault_init(void) {
    AddVectoredExceptionHandler(1, on_fault);
}
