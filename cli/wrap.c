#include "wrap.h"

#include "clean.h"

#include <stdint.h>
#include <string.h>

/* Whether a wide character is closing punctuation, which may not begin a line. */
static bool closes(uint32_t c) {
    static const uint16_t marks[] = {0x3001, 0x3002, 0x3009, 0x300b, 0x300d, 0x300f, 0x3011, 0x30fc,
                                     0xff01, 0xff09, 0xff0c, 0xff0e, 0xff1a, 0xff1b, 0xff1f};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (marks[i] == c) return true;
    return false;
}

/* Moves the cursor. The terminal moves it to the next line when the line is full. */
static void advance(cli_wrap *wrap, int width, int columns) {
    wrap->column += width;
    if (wrap->column > columns) wrap->column = (wrap->column - 1) % columns + 1;
}

static void put_blanks(cli_wrap *wrap, int columns, FILE *out) {
    fwrite(wrap->blanks, 1, wrap->blanks_len, out);
    advance(wrap, wrap->blanks_width, columns);
    wrap->blanks_len = 0;
    wrap->blanks_width = 0;
}

/* Prints the pending word, on a new line if it does not fit on this one. */
static void put_word(cli_wrap *wrap, int columns, FILE *out) {
    if (wrap->word_len == 0) return;
    int end = wrap->column + wrap->blanks_width + wrap->word_width;
    if (!wrap->spilling && !wrap->code && wrap->column > 0 && end > columns) {
        fputc('\n', out);
        wrap->column = 0;
        wrap->blanks_len = 0;
        wrap->blanks_width = 0;
    }
    put_blanks(wrap, columns, out);
    fwrite(wrap->word, 1, wrap->word_len, out);
    advance(wrap, wrap->word_width, columns);
    wrap->word_len = 0;
    wrap->word_width = 0;
    wrap->wide = false;
}

static void hold_blank(cli_wrap *wrap, char blank, int columns, FILE *out) {
    int at = wrap->column + wrap->blanks_width;
    if (wrap->blanks_len == sizeof wrap->blanks) put_blanks(wrap, columns, out);
    wrap->last = (cli_width){0};
    wrap->blanks[wrap->blanks_len++] = blank;
    wrap->blanks_width += blank == '\t' ? 8 - at % 8 : 1;
}

static void hold_character(cli_wrap *wrap, const char *text, size_t n, uint32_t c, int columns,
                           FILE *out) {
    bool begins;
    int width = cli_width_add(&wrap->last, c, &begins);
    bool may_break = begins && width > 0 && (wrap->wide || width > 1) && !closes(c);
    bool full = wrap->word_len + n > sizeof wrap->word;
    if (may_break || full) put_word(wrap, columns, out);
    if (may_break) wrap->spilling = false;
    memcpy(wrap->word + wrap->word_len, text, n);
    wrap->word_len += n;
    wrap->word_width += width;
    if (width > 0) wrap->wide = width > 1;
    bool whole_line = wrap->word_width >= columns;
    if (wrap->code || wrap->spilling || full || whole_line) {
        put_word(wrap, columns, out);
        wrap->spilling |= full || whole_line;
    }
}

static void end_line(cli_wrap *wrap, int columns, FILE *out) {
    put_word(wrap, columns, out);
    fputc('\n', out);
    *wrap = (cli_wrap){.code = wrap->code};
}

/* Checks for ``` at the beginning of a line. */
static void look_for_code(cli_wrap *wrap, uint32_t c) {
    if (wrap->in_line) return;
    wrap->in_line = c != '`';
    if (c == '`' && ++wrap->ticks == 3) {
        wrap->code = !wrap->code;
        wrap->in_line = true;
    }
}

void cli_wrap_put(cli_wrap *wrap, const char *text, size_t len, int columns, FILE *out) {
    if (columns < 1) columns = 1;
    for (size_t step; len > 0; text += step, len -= step) {
        size_t n = cli_clean_len(text, len, &step);
        uint32_t c = n > 0 ? cli_utf8_number(text, n) : '?';
        if (n == 0 && *text == '\r') continue;
        if (c == '\n') {
            end_line(wrap, columns, out);
        } else if (c == ' ' || c == '\t') {
            put_word(wrap, columns, out);
            wrap->spilling = false;
            hold_blank(wrap, (char)c, columns, out);
        } else {
            look_for_code(wrap, c);
            hold_character(wrap, n > 0 ? text : "?", n > 0 ? n : 1, c, columns, out);
        }
    }
}

void cli_wrap_end(cli_wrap *wrap, int columns, FILE *out) {
    put_word(wrap, columns < 1 ? 1 : columns, out);
    *wrap = (cli_wrap){.column = wrap->column, .code = wrap->code};
}
