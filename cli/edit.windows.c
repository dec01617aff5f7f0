/* Windows' console edits lines itself, with a history that lives as long as the program. It is read
 * in UTF-16: by ReadFile it gives no other characters than ASCII on older systems. */
#include "edit.h"

#include "interrupt.h"
#include "print.h"
#include "report.h"
#include "ui.h"

#include <stdlib.h>
#include <string.h>

#include <windows.h>

enum { PIECE = 512 };

struct cli_edit {
    HANDLE console;
    wchar_t *wide; /* what was read of the line */
    size_t len, room;
    char *text; /* the line in UTF-8 */
};

cli_edit *cli_edit_open(const char *file, cli_completer complete) {
    (void)file, (void)complete;
    DWORD mode;
    HANDLE console = GetStdHandle(STD_INPUT_HANDLE);
    if (!GetConsoleMode(console, &mode)) return NULL;
    cli_edit *edit = calloc(1, sizeof *edit);
    if (edit) edit->console = console;
    return edit;
}

static bool make_room(cli_edit *edit) {
    if (edit->room - edit->len >= PIECE) return true;
    size_t room = edit->room + 4 * PIECE;
    wchar_t *wide = realloc(edit->wide, room * sizeof *wide);
    if (wide) edit->wide = wide;
    if (wide) edit->room = room;
    return wide != NULL;
}

static bool make_text(cli_edit *edit) {
    int n = WideCharToMultiByte(CP_UTF8, 0, edit->wide, (int)edit->len, NULL, 0, NULL, NULL);
    free(edit->text);
    edit->text = malloc((size_t)n + 1);
    if (!edit->text) return false;
    WideCharToMultiByte(CP_UTF8, 0, edit->wide, (int)edit->len, edit->text, n, NULL, NULL);
    edit->text[n] = '\0';
    return true;
}

static cli_typed fail_memory(void) {
    cli_fail("out of memory");
    return CLI_TYPED_ERROR;
}

cli_typed cli_edit_read(cli_edit *edit, bool more, const char **line) {
    edit->len = 0;
    cli_print(stderr, "%s", more ? "... " : "> ");
    fflush(stderr);
    while (edit->len == 0 || edit->wide[edit->len - 1] != L'\n') {
        DWORD n = 0;
        if (!make_room(edit)) return fail_memory();
        SetLastError(ERROR_SUCCESS);
        bool read = ReadConsoleW(edit->console, edit->wide + edit->len, PIECE, &n, NULL);
        if (GetLastError() == ERROR_OPERATION_ABORTED || cli_interrupt_take()) { /* Ctrl-C */
            (void)cli_interrupt_take();
            fputc('\n', stderr);
            return edit->len + n > 0 ? CLI_TYPED_CLEAR : CLI_TYPED_INTERRUPT;
        }
        if (!read || n == 0) return CLI_TYPED_END;
        edit->len += n;
    }
    edit->len--;
    if (edit->len > 0 && edit->wide[edit->len - 1] == L'\r') edit->len--;
    if (edit->len > 0 && edit->wide[0] == 0x1A) return CLI_TYPED_END; /* Ctrl-Z */
    if (!make_text(edit)) return fail_memory();
    *line = edit->text;
    return CLI_TYPED_LINE;
}

void cli_edit_close(cli_edit **edit) {
    if (!*edit) return;
    free((*edit)->wide);
    free((*edit)->text);
    free(*edit);
    *edit = NULL;
}
