#define _POSIX_C_SOURCE 200809L
#include "ui.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    bool in, err; /* terminals */
    bool dumb;    /* no escape sequences */
    bool coloured;
} ui;

void cli_ui_init(void) {
    const char *term = getenv("TERM");
    const char *no_color = getenv("NO_COLOR");
    ui.in = isatty(STDIN_FILENO);
    ui.err = isatty(STDERR_FILENO);
    ui.dumb = !term || !*term || strcmp(term, "dumb") == 0;
    ui.coloured = ui.err && !ui.dumb && !(no_color && *no_color);
}

bool cli_stdin_is_terminal(void) {
    return ui.in;
}

bool cli_stderr_is_terminal(void) {
    return ui.err;
}

const char *cli_style(cli_colour colour) {
    static const char *const codes[] = {[CLI_PLAIN] = "\033[0m",
                                        [CLI_BOLD] = "\033[1m",
                                        [CLI_DIM] = "\033[2m",
                                        [CLI_RED] = "\033[31m"};
    return ui.coloured ? codes[colour] : "";
}

double cli_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- progress ---- */

static struct {
    const char *label; /* NULL: there is none */
    double start, last;
    bool drawn;
} bar;

enum { BAR_WIDTH = 30 };

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
    int full = (int)(part * BAR_WIDTH);
    fprintf(stderr, "\r%s %s%.*s%s%.*s%s %3d %%", bar.label, cli_style(CLI_BOLD), full,
            "##############################", cli_style(CLI_PLAIN), BAR_WIDTH - full,
            "..............................", "", (int)(part * 100));
    fflush(stderr);
    bar.last = now;
    bar.drawn = true;
}

void cli_progress_clear(void) {
    if (bar.label && bar.drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
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

void cli_print_json(const char *text, FILE *out) {
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(out, "\\u%04x", (unsigned)*c);
        else
            fputc(*c, out);
    }
    fputc('"', out);
}
