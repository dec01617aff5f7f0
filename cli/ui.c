#define _POSIX_C_SOURCE 200809L
#include "ui.h"

#include "clean.h"
#include "console.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    bool in, out, err; /* whether the streams are terminals */
    bool dumb;         /* the terminal shows no escape sequences */
    bool coloured;
} ui;

void cli_ui_init(void) {
    /* $NO_COLOR: set to anything: no colours */
    const char *no_color = getenv("NO_COLOR");
    ui.in = isatty(STDIN_FILENO);
    ui.out = isatty(STDOUT_FILENO);
    ui.err = isatty(STDERR_FILENO);
    ui.dumb = !cli_console_has_escapes();
    ui.coloured = ui.err && !ui.dumb && !(no_color && *no_color);
}

bool cli_stdin_is_terminal(void) {
    return ui.in;
}

bool cli_stdout_is_terminal(void) {
    return ui.out;
}

bool cli_stderr_is_terminal(void) {
    return ui.err;
}

bool cli_terminal_is_dumb(void) {
    return ui.dumb;
}

const char *cli_style(cli_colour colour) {
    static const char *const codes[] = {[CLI_PLAIN] = "\033[0m",
                                        [CLI_BOLD] = "\033[1m",
                                        [CLI_DIM] = "\033[2m",
                                        [CLI_RED] = "\033[31m"};
    return ui.coloured ? codes[colour] : "";
}

void cli_set_style(cli_colour colour) {
    fputs(cli_style(colour), stderr);
}

double cli_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int cli_columns(FILE *stream) {
    int columns = cli_console_columns(stream);
    return columns > 0 ? columns : 80;
}

/* ---- progress ---- */

static struct {
    const char *label; /* NULL: no bar */
    double start, last;
    bool drawn;
} bar;

enum { BAR_WIDTH = 30, BAR_MIN = 3 };

int cli_progress_width(size_t label_len, int columns_now) {
    enum {
        AROUND = 1 + 6 + 1
    }; /* a blank, " 100 %", and the last column, after which a
                                    terminal breaks the line */
    int64_t room = columns_now - (int64_t)label_len - AROUND;
    if (room >= BAR_MIN) return room < BAR_WIDTH ? (int)room : BAR_WIDTH;
    return room >= -1 ? 0 : -1;
}

void cli_progress_start(const char *label, bool quiet) {
    bar.label = quiet || !ui.err || ui.dumb ? NULL : label;
    bar.start = cli_seconds();
    bar.last = 0;
    bar.drawn = false;
}

void cli_progress_tick(void *user, uint64_t done, uint64_t total) {
    (void)user;
    if (!bar.label || total == 0) return;
    double now = cli_seconds();
    if (now - bar.start < 0.5 || now - bar.last < 0.1) return;
    double part = done < total ? (double)done / (double)total : 1.0;
    int width = cli_progress_width(strlen(bar.label), cli_columns(stderr));
    int full = width > 0 ? (int)(part * width) : 0;
    fprintf(stderr, "\r%s", width >= 0 ? bar.label : "");
    if (width > 0)
        fprintf(stderr, " %s%.*s%s%.*s", cli_style(CLI_BOLD), full,
                "##############################", cli_style(CLI_PLAIN), width - full,
                "..............................");
    fprintf(stderr, " %3d %%", (int)(part * 100));
    fflush(stderr);
    bar.last = now;
    bar.drawn = true;
}

void cli_progress_wipe(void) {
    if (!bar.label || !bar.drawn) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    bar.drawn = false;
}

void cli_progress_clear(void) {
    cli_progress_wipe();
    bar.label = NULL;
}

/* ---- numbers and strings ---- */

const char *cli_format_bytes(uint64_t bytes, char *out) {
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    if (bytes < 1000) {
        snprintf(out, CLI_NUMBER, "%" PRIu64 " bytes", bytes);
        return out;
    }
    double value = (double)bytes / 1e3;
    size_t unit = 0;
    while (value >= 999.95 && unit < 3) {
        value /= 1e3;
        unit++;
    }
    snprintf(out, CLI_NUMBER, "%.1f %s", value, units[unit]);
    return out;
}

const char *cli_format_count(uint64_t count, char *out) {
    char digits[CLI_NUMBER];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, count);
    char *to = out;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return out;
}

size_t cli_json_escape(const char *text, size_t len, char out[CLI_JSON_ESCAPE], size_t *out_len) {
    const unsigned char *c = (const unsigned char *)text;
    size_t skip, n = cli_utf8_len(text, len);
    int made = (int)n;
    if (*c == '"' || *c == '\\')
        made = snprintf(out, CLI_JSON_ESCAPE, "\\%c", *c);
    else if (*c == '\n')
        made = snprintf(out, CLI_JSON_ESCAPE, "\\n");
    else if (*c < 0x20)
        made = snprintf(out, CLI_JSON_ESCAPE, "\\u%04x", (unsigned)*c);
    else if (n == 0)
        made = snprintf(out, CLI_JSON_ESCAPE, "\\ufffd");
    else if (cli_clean_len(text, len, &skip) == 0) /* none is beyond U+FFFF */
        made = snprintf(out, CLI_JSON_ESCAPE, "\\u%04x", (unsigned)cli_utf8_number(text, n));
    else
        memcpy(out, c, n);
    *out_len = (size_t)made;
    return n > 0 ? n : 1;
}

bool cli_is_utf8(const char *text, size_t len) {
    for (size_t at = 0, n; at < len; at += n) {
        n = cli_utf8_len(text + at, len - at);
        if (n == 0) return false;
    }
    return true;
}

void cli_print_json_bytes(const char *text, size_t len, FILE *out) {
    char escaped[CLI_JSON_ESCAPE];
    size_t escaped_len;
    fputc('"', out);
    for (size_t at = 0; at < len;) {
        at += cli_json_escape(text + at, len - at, escaped, &escaped_len);
        fwrite(escaped, 1, escaped_len, out);
    }
    fputc('"', out);
}

void cli_print_json(const char *text, FILE *out) {
    cli_print_json_bytes(text, strlen(text), out);
}
