#include "print.h"

#include "clean.h"
#include "ui.h"
#include "width.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void cli_print_clean(const char *text, size_t len, FILE *out) {
    for (size_t at = 0, skip; at < len; at += skip) {
        size_t n = cli_clean_len(text + at, len - at, &skip);
        if (n > 0)
            fwrite(text + at, 1, n, out);
        else
            fputc('?', out);
    }
}

int cli_print(FILE *out, const char *format, ...) {
    char shorter[1024], *longer = NULL;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(shorter, sizeof shorter, format, args);
    if (len >= (int)sizeof shorter) longer = malloc((size_t)len + 1);
    if (longer) vsnprintf(longer, (size_t)len + 1, format, again);
    va_end(again);
    va_end(args);
    const char *text = longer ? longer : shorter; /* without memory its beginning */
    cli_print_clean(text, strlen(text), out);
    free(longer);
    return len;
}

void cli_print_result(const char *text, size_t len) {
    if (!cli_stdout_is_terminal()) {
        fwrite(text, 1, len, stdout);
        return;
    }
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\r', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        cli_print_clean(text + at, n, stdout);
        at += n + 1;
    }
}

void cli_print_cell(FILE *out, const char *text, int columns) {
    int used = cli_width_of(text, strlen(text));
    cli_print_clean(text, strlen(text), out);
    cli_print(out, "%*s", used < columns ? columns - used : 0, "");
}

int cli_print_line(const char *text, size_t len, FILE *out) {
    cli_width width = {0};
    int columns_used = 0;
    bool begins;
    for (size_t at = 0, skip; at < len; at += skip) {
        size_t n = cli_clean_len(text + at, len - at, &skip);
        unsigned char c = (unsigned char)text[at];
        bool named = c == '\n' || c == '\t' || c == '\r';
        if (n > 0 && !named) {
            fwrite(text + at, 1, n, out);
            columns_used += cli_width_add(&width, cli_utf8_number(text + at, n), &begins);
        } else if (named) {
            columns_used += fprintf(out, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
        } else if (skip == 1) {
            columns_used += fprintf(out, "\\x%02x", (unsigned)c);
        } else {
            columns_used += fprintf(out, "\\u%04x", (unsigned)cli_utf8_number(text + at, skip));
        }
    }
    return columns_used;
}
