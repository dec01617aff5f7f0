#include "dot.h"

#include <errno.h>
#include <io.h>

#include <windows.h>

static HANDLE handle_of(FILE *file) {
    HANDLE handle = (HANDLE)_get_osfhandle(_fileno(file));
    SetHandleInformation(handle, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
    return handle;
}

/* On PATH alone: one that lies in the current folder is not Graphviz's. */
static bool find_dot(wchar_t path[MAX_PATH]) {
    static wchar_t folders[1 << 15]; /* the longest that a variable is */
    DWORD n = GetEnvironmentVariableW(L"PATH", folders, sizeof folders / sizeof *folders);
    if (n == 0 || n >= sizeof folders / sizeof *folders) return false;
    n = SearchPathW(folders, L"dot.exe", NULL, MAX_PATH, path, NULL);
    return n > 0 && n < MAX_PATH;
}

int cli_dot_run(const char *kind, FILE *from, FILE *picture, bool *drawn) {
    STARTUPINFOW start = {.cb = sizeof start,
                          .dwFlags = STARTF_USESTDHANDLES,
                          .hStdInput = handle_of(from),
                          .hStdOutput = handle_of(picture),
                          .hStdError = GetStdHandle(STD_ERROR_HANDLE)};
    PROCESS_INFORMATION child;
    DWORD state = 1;
    wchar_t line[32], path[MAX_PATH];
    swprintf(line, sizeof line / sizeof *line, L"dot %.8hs", kind);
    *drawn = false;
    if (!find_dot(path) ||
        !CreateProcessW(path, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &child))
        return ENOENT;
    WaitForSingleObject(child.hProcess, INFINITE);
    *drawn = GetExitCodeProcess(child.hProcess, &state) && state == 0;
    CloseHandle(child.hThread);
    CloseHandle(child.hProcess);
    return 0;
}
