#include "exe.h"

#include <windows.h>

bool cli_exe_path(char *out, size_t out_bytes) {
    wchar_t path[4096];
    DWORD n = GetModuleFileNameW(NULL, path, sizeof path / sizeof *path);
    if (n == 0 || n >= sizeof path / sizeof *path ||
        WideCharToMultiByte(CP_UTF8, 0, path, -1, out, (int)out_bytes, NULL, NULL) == 0)
        return false;
    for (; *out; out++)
        if (*out == '\\') *out = '/';
    return true;
}
