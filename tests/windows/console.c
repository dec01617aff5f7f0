/* The command at a console: what is typed, and Ctrl-C and Ctrl-Break. The console has no window: it
 * is one that a program asks the system for, whose screen and keyboard this test then shares. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/windows/posix.h"

enum { COLUMNS = 120, ROWS = 60, PATIENCE_MS = 600 * 1000, LOOK_MS = 5, INTERRUPTED = 130 };

#define UP L'\xE000' /* a key, of characters that are nobody's */
#define MODEL "models/default"

typedef struct console {
    HPCON pseudo;
    HANDLE ends[4]; /* of two pipes: read, write; what the console draws with is dropped */
    HANDLE reader, holder, process;
    HANDLE keys, screen;
    char text[COLUMNS * ROWS * 4 + ROWS + 1];
} console;

static BOOL WINAPI survive(DWORD event) {
    (void)event;
    return TRUE;
}

static DWORD WINAPI drop(void *pipe) {
    char bytes[4096];
    DWORD n;
    while (ReadFile(pipe, bytes, sizeof bytes, &n, NULL) && n > 0)
        continue;
    return 0;
}

/* What has the console and does nothing, until it is killed: this program once more. */
static HANDLE hold(HPCON pseudo, DWORD *id) {
    union {
        LPPROC_THREAD_ATTRIBUTE_LIST list; /* for its alignment */
        char room[256];
    } attributes;
    STARTUPINFOEXW info = {.StartupInfo = {.cb = sizeof info}};
    PROCESS_INFORMATION made;
    SIZE_T bytes = sizeof attributes;
    wchar_t own[MAX_PATH], line[] = L"console hold";
    assert_true(GetModuleFileNameW(NULL, own, MAX_PATH) < MAX_PATH);
    info.lpAttributeList = (LPPROC_THREAD_ATTRIBUTE_LIST)(void *)attributes.room;
    assert_true(InitializeProcThreadAttributeList(info.lpAttributeList, 1, 0, &bytes));
    assert_true(UpdateProcThreadAttribute(info.lpAttributeList, 0,
                                          PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE, pseudo,
                                          sizeof pseudo, NULL, NULL));
    if (!CreateProcessW(own, line, NULL, NULL, FALSE, EXTENDED_STARTUPINFO_PRESENT, NULL, NULL,
                        &info.StartupInfo, &made))
        fail_msg("%ls: error %lu", own, GetLastError());
    DeleteProcThreadAttributeList(info.lpAttributeList);
    CloseHandle(made.hThread);
    *id = made.dwProcessId;
    return made.hProcess;
}

/* Opens a console, and shares it. */
static void open_console(console *c) {
    DWORD id, share = FILE_SHARE_READ | FILE_SHARE_WRITE, rights = GENERIC_READ | GENERIC_WRITE;
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    *c = (console){0};
    for (int i = 0; i < 2; i++)
        assert_true(CreatePipe(&c->ends[2 * i], &c->ends[2 * i + 1], NULL, 0));
    COORD size = {COLUMNS, ROWS};
    assert_int_equal(CreatePseudoConsole(size, c->ends[0], c->ends[3], 0, &c->pseudo), S_OK);
    c->reader = CreateThread(NULL, 0, drop, c->ends[2], 0, NULL);
    c->holder = hold(c->pseudo, &id);
    FreeConsole();
    for (int i = 0; !AttachConsole(id); i += LOOK_MS) { /* it may not have it yet */
        if (i > PATIENCE_MS) fail_msg("its console: error %lu", GetLastError());
        Sleep(LOOK_MS);
    }
    SetConsoleCtrlHandler(survive, TRUE);
    c->keys = CreateFileW(L"CONIN$", rights, share, &inherited, OPEN_EXISTING, 0, NULL);
    c->screen = CreateFileW(L"CONOUT$", rights, share, &inherited, OPEN_EXISTING, 0, NULL);
    assert_true(c->keys != INVALID_HANDLE_VALUE && c->screen != INVALID_HANDLE_VALUE);
}

/* Starts the command with a line of arguments, on a console of its own. */
static void start(console *c, const char *arguments) {
    open_console(c);
    STARTUPINFOW info = {.cb = sizeof info,
                         .dwFlags = STARTF_USESTDHANDLES,
                         .hStdInput = c->keys,
                         .hStdOutput = c->screen,
                         .hStdError = c->screen};
    PROCESS_INFORMATION made;
    char *line = test_format("\"%s\" %s", test_command(), arguments);
    wchar_t *wide = mc_utf16(line);
    if (!CreateProcessW(NULL, wide, NULL, NULL, TRUE, 0, NULL, NULL, &info, &made))
        fail_msg("%s: error %lu", line, GetLastError());
    CloseHandle(made.hThread);
    c->process = made.hProcess;
    free(wide);
    free(line);
}

/* Reads the screen: rows without blanks at their ends, a line feed behind each. */
static void look(console *c) {
    wchar_t row[COLUMNS + 1];
    size_t len = 0;
    for (SHORT y = 0; y < ROWS; y++) {
        DWORD n = 0;
        if (!ReadConsoleOutputCharacterW(c->screen, row, COLUMNS, (COORD){0, y}, &n)) break;
        while (n > 0 && row[n - 1] == L' ')
            n--;
        row[n] = L'\0';
        char *text = mc_utf8_of(row);
        assert_non_null(text);
        len += (size_t)snprintf(c->text + len, sizeof c->text - len, "%s\n", text);
        free(text);
    }
}

/* Waits until the screen has a text so many times. */
static void await(console *c, const char *text, int times) {
    for (int waited = 0; waited < PATIENCE_MS; waited += LOOK_MS) {
        bool ended = WaitForSingleObject(c->process, LOOK_MS) == WAIT_OBJECT_0;
        int found = 0;
        look(c);
        for (const char *at = c->text; (at = strstr(at, text)); at++)
            found++;
        if (found >= times) return;
        if (ended) break;
    }
    fail_msg("%s is not there %d times:\n%s", text, times, c->text);
}

static void press(const console *c, WORD key, wchar_t letter, DWORD with) {
    INPUT_RECORD records[2] = {0};
    DWORD n;
    for (int i = 0; i < 2; i++) {
        records[i].EventType = KEY_EVENT;
        records[i].Event.KeyEvent = (KEY_EVENT_RECORD){.bKeyDown = i == 0,
                                                       .wRepeatCount = 1,
                                                       .wVirtualKeyCode = key,
                                                       .uChar.UnicodeChar = letter,
                                                       .dwControlKeyState = with};
    }
    assert_true(WriteConsoleInputW(c->keys, records, 2, &n) && n == 2);
}

static void type(const console *c, const wchar_t *text) {
    for (; *text; text++) {
        if (*text == UP)
            press(c, VK_UP, 0, ENHANCED_KEY);
        else
            press(c, *text == L'\r' ? VK_RETURN : 0, *text, 0);
    }
}

/* As the key does; it is not typed, for consoles differ in what they make of such a letter. */
static void press_ctrl_c(void) {
    assert_true(GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0));
}

/* Ctrl-Break, or where the system makes none (Wine 8), Ctrl-C: the command takes both alike. */
static void send_break(void) {
    if (!GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, 0))
        assert_true(GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0));
}

/* Waits for the command's end, with that status. */
static void end(console *c, DWORD status) {
    DWORD got = 0;
    DWORD waited = WaitForSingleObject(c->process, PATIENCE_MS);
    look(c);
    GetExitCodeProcess(c->process, &got);
    if (waited != WAIT_OBJECT_0 || got != status)
        fail_msg("status %lu, not %lu:\n%s", got, status, c->text);
    CloseHandle(c->keys);
    CloseHandle(c->screen);
    CloseHandle(c->process);
    TerminateProcess(c->holder, 0);
    CloseHandle(c->holder);
    FreeConsole();
    ClosePseudoConsole(c->pseudo);
    for (int i = 0; i < 4; i++)
        if (i != 2) CloseHandle(c->ends[i]);
    WaitForSingleObject(c->reader, INFINITE);
    CloseHandle(c->reader);
    CloseHandle(c->ends[2]);
}

/* Letters beyond ASCII are read and drawn, a line that was typed comes back, Ctrl-C leaves. */
static void test_lines(void **state) {
    static console c;
    (void)state;
    start(&c, "chat " MODEL " -n 3");
    await(&c, ">", 1);
    type(&c, L"/set system Gr\xF6\xDF"
             L"e\r");
    type(&c, L"/set\r");
    await(&c,
          "Gr\xc3\xb6\xc3\x9f"
          "e",
          2); /* as it was typed, and as it is told */
    type(&c, L"/show\r");
    await(&c, "messages", 1);
    type(&c, (const wchar_t[]){UP, L'\r', L'\0'});
    await(&c, "messages", 2);
    type(&c, L"What is curl?\r");
    await(&c, "3 generated", 1);
    press_ctrl_c(); /* tells to press it again, which Wine 8 shows with the next line only */
    press_ctrl_c();
    end(&c, INTERRUPTED);
}

/* Both stop an answer, and the conversation goes on. */
static void test_answers(void **state) {
    static console c;
    (void)state;
    start(&c, "chat " MODEL " -n 1900 --ignore-eos");
    await(&c, ">", 1);
    for (int i = 1; i <= 2; i++) {
        type(&c, L"What is curl?\r");
        await(&c, "curl is", i);
        if (i == 1) press_ctrl_c();
        if (i == 2) send_break();
        await(&c, "interrupted", i);
    }
    type(&c, L"/bye\r");
    end(&c, 0);
}

/* A server ends what it has begun. */
static void test_server(void **state) {
    static console c;
    (void)state;
    start(&c, "serve " MODEL " --port 0");
    await(&c, "/v1/chat/completions", 1);
    send_break();
    end(&c, 0);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "hold") == 0) {
        SetConsoleCtrlHandler(survive, TRUE);
        Sleep(INFINITE);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
