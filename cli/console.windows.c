#include "console.h"

#include <fcntl.h>
#include <io.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include <windows.h>

#include <shellapi.h>

static UINT input_page, output_page; /* what the console had */
static bool escapes;

static void give_back(void) {
    SetConsoleCP(input_page);
    SetConsoleOutputCP(output_page);
}

/* The console of both output streams draws escape sequences from Windows 10 on, when told to. */
static bool ask_escapes(DWORD stream) {
    HANDLE console = GetStdHandle(stream);
    DWORD mode;
    return GetConsoleMode(console, &mode) &&
           SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

static char *narrow(const wchar_t *text) {
    int n = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *out = malloc(n > 0 ? (size_t)n : 1);
    if (out) out[0] = '\0';
    if (out && n > 0) WideCharToMultiByte(CP_UTF8, 0, text, -1, out, n, NULL, NULL);
    return out;
}

/* main's have another encoding. */
static char **arguments(char **argv) {
    int count = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &count);
    char **all = wide ? calloc((size_t)count + 1, sizeof *all) : NULL;
    bool whole = all != NULL;
    for (int i = 0; whole && i < count; i++)
        whole = (all[i] = narrow(wide[i])) != NULL;
    LocalFree(wide);
    return whole ? all : argv;
}

char **cli_console_init(char **argv) {
    for (int fd = 0; fd <= 2; fd++)
        _setmode(fd, _O_BINARY);
    setlocale(LC_CTYPE, ".UTF-8");
    input_page = GetConsoleCP();
    output_page = GetConsoleOutputCP();
    if (input_page && SetConsoleCP(CP_UTF8) && SetConsoleOutputCP(CP_UTF8)) atexit(give_back);
    bool errors = ask_escapes(STD_ERROR_HANDLE), output = ask_escapes(STD_OUTPUT_HANDLE);
    escapes = errors || output;
    return arguments(argv);
}

bool cli_console_has_escapes(void) {
    const char *term = getenv("TERM"); /* of shells that bring terminals of their own */
    return escapes || (term && *term && strcmp(term, "dumb") != 0);
}

int cli_console_columns(FILE *stream) {
    CONSOLE_SCREEN_BUFFER_INFO info;
    HANDLE console = (HANDLE)_get_osfhandle(_fileno(stream));
    if (!GetConsoleScreenBufferInfo(console, &info)) return 0;
    return info.srWindow.Right - info.srWindow.Left + 1;
}
