#define _XOPEN_SOURCE 700 /* wcwidth */
#define _DARWIN_C_SOURCE  /* SIGWINCH */
#include "edit.h"

#include "cli.h"
#include "interrupt.h"
#include "print.h"
#include "report.h"
#include "ui.h"
#include "width.h"

#include <errno.h>
#include <histedit.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY_LINES = 1000, HISTORY_BYTES = 64000000 };

struct cli_edit {
    EditLine *line;
    History *history;
    const char *file;
    cli_completer complete;
    char prompt[32], prompt_more[32]; /* escape sequences are between \1 */
    bool more;
    int columns;               /* of the terminal that the line is drawn for */
    bool interrupted, cleared; /* the last line ended by Ctrl-C; it had text */
    char *text;                /* the last line, without its line feed */
    sigset_t waiting;          /* the signal mask outside of el_gets */
};

static cli_edit *owner_of(EditLine *line) {
    void *edit = NULL;
    el_get(line, EL_CLIENTDATA, &edit);
    return edit;
}

/* Makes Ctrl-C a key instead of a signal while a line is edited. libedit has no setting for
 * that. */
static void take_interrupt_key(void) {
    struct termios modes;
    if (tcgetattr(STDIN_FILENO, &modes) != 0 || modes.c_cc[VINTR] == _POSIX_VDISABLE) return;
    modes.c_cc[VINTR] = _POSIX_VDISABLE;
    tcsetattr(STDIN_FILENO, TCSANOW, &modes);
}

static char *give_prompt(EditLine *line) {
    take_interrupt_key(); /* also when the program continues after Ctrl-Z */
    const cli_edit *e = owner_of(line);
    return (char *)(uintptr_t)(e->more ? e->prompt_more : e->prompt);
}

static void make_prompt(const char *sign, char *out, size_t out_bytes) {
    const char *bold = cli_style(CLI_BOLD);
    snprintf(out, out_bytes, *bold ? "\1%s\1%s\1%s\1 " : "%s%s%s ", bold, sign,
             cli_style(CLI_PLAIN));
}

/* ---- signals ----
 *
 * libedit's handlers draw and allocate, whatever they interrupt: a terminal that is resized while
 * the prompt is drawn would leave a broken heap. They run only while a key is awaited. */

static void block_signals(cli_edit *e) {
    static const int handled[] = {SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
    sigset_t blocked;
    sigemptyset(&blocked);
    for (size_t i = 0; i < CLI_COUNT(handled); i++)
        sigaddset(&blocked, handled[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &e->waiting);
}

/* The row of the cursor below the prompt's beginning, where a terminal has broken the line at its
 * width. */
static int cursor_row(const cli_edit *e) {
    enum { TAB = 8 };
    const LineInfoW *info = el_wline(e->line);
    int row = 0, column = e->more ? (int)strlen("... ") : (int)strlen("> ");
    for (const wchar_t *c = info->buffer; c < info->cursor; c++) {
        int width = *c == L'\t' ? TAB - column % TAB : wcwidth(*c);
        bool feeds = *c == L'\n';
        if (width < 0) width = 2; /* as ^A */
        if (feeds || column + width > e->columns) {
            row++;
            column = 0;
        }
        if (!feeds) column += width;
    }
    return row + (column == e->columns);
}

/* Only interrupts the wait for a key. */
static void note_resize(int signal_number) {
    (void)signal_number;
}

/* libedit's own handler is gone after the first change of size. */
static void watch_size(void) {
    struct sigaction action = {.sa_handler = note_resize};
    sigemptyset(&action.sa_mask);
    sigaction(SIGWINCH, &action, NULL);
}

/* libedit takes the new width for what it draws next, and leaves what it has drawn: that is drawn
 * again, from where the terminal has moved its beginning to. */
static void redraw_resized(cli_edit *e) {
    int columns = cli_columns(stderr);
    if (columns == e->columns || cli_terminal_is_dumb()) return;
    e->columns = columns;
    el_resize(e->line);
    int row = cursor_row(e);
    if (row > 0) fprintf(stderr, "\033[%dA", row);
    fputs("\r\033[J", stderr);
    fflush(stderr);
    el_set(e->line, EL_REFRESH);
}

/* Reads a byte.  returns 1, 0 at the end, or -1 */
static int read_byte(cli_edit *e, char *byte) {
    watch_size();
    for (;;) {
        fd_set input;
        FD_ZERO(&input);
        FD_SET(STDIN_FILENO, &input);
        int ready = pselect(STDIN_FILENO + 1, &input, NULL, NULL, NULL, &e->waiting);
        if (ready < 0 && errno == EINTR) {
            redraw_resized(e);
            continue;
        }
        ssize_t got = ready < 0 ? -1 : read(STDIN_FILENO, byte, 1);
        if (got >= 0 || (errno != EINTR && errno != EAGAIN)) return (int)got;
    }
}

/* Reads a character for libedit. Bytes that are none in the locale are dropped. */
static int read_key(EditLine *line, wchar_t *key) {
    cli_edit *e = owner_of(line);
    mbstate_t state;
    memset(&state, 0, sizeof state);
    for (;;) {
        char byte;
        int got = read_byte(e, &byte);
        if (got <= 0) return got;
        size_t len = mbrtowc(key, &byte, 1, &state);
        if (len == 0 || len == 1) return 1;                     /* 0: NUL, which is Ctrl-@ */
        if (len == (size_t)-1) memset(&state, 0, sizeof state); /* else it goes on */
    }
}

/* Terminals enclose pasted text in these sequences on request. */
static const wchar_t paste_end[] = L"\033[201~";

/* Reads pasted text, after "\033[200~". All bytes before the end sequence are text, also line
 * feeds. */
static unsigned char paste(EditLine *line, int key) {
    size_t matched = 0; /* number of bytes of paste_end */
    wchar_t c;
    (void)key;
    while (paste_end[matched]) {
        if (el_wgetc(line, &c) <= 0) return CC_EOF;
        if (c == paste_end[matched]) {
            matched++;
            continue;
        }
        matched = c == paste_end[0] ? 1 : 0; /* an escape sequence in the text is dropped */
        if (c == L'\r') c = L'\n';
        wchar_t one[2] = {c};
        bool is_text = c >= L' ' || c == L'\n' || c == L'\t';
        if (is_text && el_winsertstr(line, one) != 0) return CC_ERROR;
    }
    return CC_REFRESH;
}

/* Ctrl-C empties the line and ends it. */
static unsigned char interrupt(EditLine *line, int key) {
    cli_edit *e = owner_of(line);
    const LineInfoW *info = el_wline(line);
    int len = (int)(info->lastchar - info->buffer);
    (void)key;
    e->interrupted = true;
    e->cleared = len > 0;
    el_cursor(line, (int)(info->lastchar - info->cursor));
    el_wdeletestr(line, len);
    el_wpush(line, L"\n");
    return CC_REFRESH;
}

/* ---- completion ---- */

/* Length of the words' common prefix in bytes. It never ends within a UTF-8 character. */
static size_t common_len(const cli_completions *found) {
    size_t len = strlen(found->words[0]);
    for (size_t i = 1; i < found->count; i++) {
        size_t same = 0;
        while (same < len && found->words[0][same] == found->words[i][same])
            same++;
        len = same;
    }
    while (len > 0 && ((unsigned char)found->words[0][len] & 0xc0) == 0x80)
        len--;
    return len;
}

/* Lists the words below the line, without a blank at their end. */
static void list(const cli_completions *found) {
    enum { MAX_LISTED = 100 };
    int at = 0, columns = cli_columns(stderr);
    fputc('\n', stderr);
    for (size_t i = 0; i < found->count && i < MAX_LISTED; i++) {
        const char *word = found->words[i];
        size_t len = strlen(word);
        size_t blank = len > 0 && word[len - 1] == ' ' ? 1 : 0;
        int wide = cli_width_of(word, len - blank);
        if (at > 0 && at + 2 + wide >= columns) {
            fputc('\n', stderr);
            at = 0;
        }
        cli_print(stderr, "%s%.*s", at > 0 ? "  " : "", (int)(len - blank), word);
        at += wide + 2;
    }
    if (found->count > MAX_LISTED) fprintf(stderr, "\nand %zu more", found->count - MAX_LISTED);
    fputc('\n', stderr);
}

/* Inserts the rest of the words' common prefix. If there is no rest, lists the words. */
static unsigned char offer(EditLine *line, const cli_completions *found) {
    if (found->count == 0) return CC_ERROR; /* the terminal beeps */
    size_t len = common_len(found);
    if (len <= found->typed) {
        if (found->count > 1) list(found);
        return found->count > 1 ? CC_REDISPLAY : CC_NORM;
    }
    char *rest = strndup(found->words[0] + found->typed, len - found->typed);
    bool inserted = rest && el_insertstr(line, rest) == 0;
    free(rest);
    return inserted ? CC_REFRESH : CC_ERROR;
}

/* Handles Tab: in a message it is an ordinary character. */
static unsigned char complete_line(EditLine *line, int key) {
    const cli_edit *e = owner_of(line);
    const LineInfo *info = el_line(line);
    cli_completions found = {0};
    (void)key;
    char *before = strndup(info->buffer, (size_t)(info->cursor - info->buffer));
    if (!before) return CC_ERROR;
    unsigned char done;
    if (e->more || before[0] != '/' || before[1] == '/') {
        done = el_insertstr(line, "\t") == 0 ? CC_REFRESH : CC_ERROR;
    } else {
        e->complete(before, &found);
        done = offer(line, &found);
    }
    for (size_t i = 0; i < found.count; i++)
        free(found.words[i]);
    free(found.words);
    free(before);
    return done;
}

/* ---- lines ---- */

static void ask_for_pastes(bool on) {
    if (cli_terminal_is_dumb()) return;
    if (on)
        fputs("\033[?2004h", stderr);
    else
        fputs("\033[?2004l", stderr);
    fflush(stderr);
    cli_interrupt_set_farewell(on ? "\033[?2004l" : "");
}

/* Whether a file can hold the history. Reading a FIFO could block for ever, and a device could fill
 * the memory. A file that is too large is reported. */
static bool can_keep_history(const char *file) {
    struct stat info;
    if (stat(file, &info) != 0) return true; /* the file will be created */
    bool small = info.st_size <= HISTORY_BYTES;
    if (S_ISREG(info.st_mode) && !small)
        cli_fail("the history is not used: %s has more than 64 MB", file);
    return S_ISREG(info.st_mode) && small;
}

cli_edit *cli_edit_open(const char *file, cli_completer complete) {
    cli_edit *edit = calloc(1, sizeof *edit);
    HistEvent event;
    if (!edit) return NULL;
    make_prompt(">", edit->prompt, sizeof edit->prompt);
    make_prompt("...", edit->prompt_more, sizeof edit->prompt_more);
    edit->file = file && can_keep_history(file) ? file : NULL;
    edit->complete = complete;
    edit->line = el_init("mica", stdin, stderr, stderr);
    edit->history = history_init();
    if (!edit->line || !edit->history) {
        cli_edit_close(&edit);
        return NULL;
    }
    el_set(edit->line, EL_CLIENTDATA, edit);
    el_set(edit->line, EL_PROMPT_ESC, give_prompt, '\1');
    el_set(edit->line, EL_EDITOR, "emacs");
    el_wset(edit->line, EL_GETCFN, read_key);
    el_set(edit->line, EL_SIGNAL, 1); /* the terminal is restored before a signal acts */
    el_set(edit->line, EL_HIST, history, edit->history);
    history(edit->history, &event, H_SETSIZE, HISTORY_LINES);
    history(edit->history, &event, H_SETUNIQUE, 1);
    if (edit->file) history(edit->history, &event, H_LOAD, edit->file);
    /* The function for char would copy both texts and never free them. */
    el_wset(edit->line, EL_ADDFN, L"mica-paste", L"insert a pasted text", paste);
    el_set(edit->line, EL_BIND, "\\e[200~", "mica-paste", NULL);
    el_wset(edit->line, EL_ADDFN, L"mica-interrupt", L"drop the line", interrupt);
    el_set(edit->line, EL_BIND, "^C", "mica-interrupt", NULL);
    el_wset(edit->line, EL_ADDFN, L"mica-complete", L"complete a command", complete_line);
    el_set(edit->line, EL_BIND, "^I", "mica-complete", NULL);
    el_source(edit->line, NULL); /* the user's ~/.editrc */
    return edit;
}

/* Stores a line that was read, without its line feed. */
static bool keep(cli_edit *edit, const char *line) {
    HistEvent event;
    free(edit->text);
    edit->text = strdup(line);
    if (!edit->text) return false;
    size_t end = strlen(edit->text);
    while (end > 0 && (edit->text[end - 1] == '\n' || edit->text[end - 1] == '\r'))
        edit->text[--end] = '\0';
    if (edit->text[0]) {
        history(edit->history, &event, H_ENTER, edit->text);
        if (edit->file) history(edit->history, &event, H_SAVE, edit->file);
    }
    return true;
}

cli_typed cli_edit_read(cli_edit *edit, bool more, const char **line) {
    int len = 0;
    edit->more = more;
    edit->columns = cli_columns(stderr);
    edit->interrupted = edit->cleared = false;
    /* The editor takes the terminal before the prompt is printed, because the user can type, Ctrl-D
     * above all, as soon as the prompt shows. */
    el_set(edit->line, EL_PREP_TERM, 1);
    take_interrupt_key();
    if (cli_interrupt_take()) { /* before the editor had the terminal */
        el_set(edit->line, EL_PREP_TERM, 0);
        return CLI_TYPED_INTERRUPT;
    }
    ask_for_pastes(true);
    block_signals(edit);
    const char *read = el_gets(edit->line, &len);
    pthread_sigmask(SIG_SETMASK, &edit->waiting, NULL);
    ask_for_pastes(false);
    if (edit->interrupted) return edit->cleared ? CLI_TYPED_CLEAR : CLI_TYPED_INTERRUPT;
    if (!read || len <= 0) return CLI_TYPED_END;
    if (!keep(edit, read)) {
        cli_fail("out of memory");
        return CLI_TYPED_ERROR;
    }
    *line = edit->text;
    return CLI_TYPED_LINE;
}

void cli_edit_close(cli_edit **edit) {
    cli_edit *e = *edit;
    if (!e) return;
    if (e->line) el_end(e->line);
    if (e->history) history_end(e->history);
    free(e->text);
    free(e);
    *edit = NULL;
}
