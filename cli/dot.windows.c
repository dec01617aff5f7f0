#include "dot.h"

#include <errno.h>
#include <io.h>

#include <windows.h>

static HANDLE handle_of(FILE *file) {
    HANDLE handle = (HANDLE)_get_osfhandle(_fileno(file));
    SetHandleInformation(handle, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
    return handle;
}

int cli_dot_run(const char *kind, FILE *from, FILE *picture, bool *drawn) {
    STARTUPINFOA start = {.cb = sizeof start,
                          .dwFlags = STARTF_USESTDHANDLES,
                          .hStdInput = handle_of(from),
                          .hStdOutput = handle_of(picture),
                          .hStdError = GetStdHandle(STD_ERROR_HANDLE)};
    PROCESS_INFORMATION child;
    DWORD state = 1;
    char line[32];
    snprintf(line, sizeof line, "dot.exe %.8s", kind);
    *drawn = false;
    if (!CreateProcessA(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &child)) return ENOENT;
    WaitForSingleObject(child.hProcess, INFINITE);
    *drawn = GetExitCodeProcess(child.hProcess, &state) && state == 0;
    CloseHandle(child.hThread);
    CloseHandle(child.hProcess);
    return 0;
}
