/* Breaks text between words at the terminal's width, while the text arrives in pieces. The last
 * word and the blanks before it are pending until it is known whether they fit. Lines between ```
 * are code, and left to the terminal. */
#ifndef CLI_WRAP_H
#define CLI_WRAP_H

#include "width.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Zeroed: at the beginning of a line. */
typedef struct cli_wrap {
    int column;       /* of the cursor; 0: at the beginning of a line */
    char blanks[128]; /* pending, before the pending word */
    size_t blanks_len;
    int blanks_width;
    char word[512];
    size_t word_len;
    int word_width;
    cli_width last; /* character of the word */
    bool wide;      /* the word ends in a wide character, after which a line may end */
    bool spilling;  /* the word is too long for a line and is printed as it comes */
    bool code;
    bool in_line; /* the line has a character other than blanks and ` */
    int ticks;    /* number of ` at the line's beginning */
} cli_wrap;

/** Prints UTF-8 text on a terminal with `columns` columns, all but the pending text, cleaned
 *  (clean.h) and without carriage returns. A tab moves to
 *  the next multiple of 8. Columns are counted as width.h says.
 *  A word longer than a line begins a new line and is broken by the terminal. Between wide
 *  characters a line may end, except before closing punctuation. Blanks at the end of a line are
 *  dropped. */
void cli_wrap_put(cli_wrap *wrap, const char *text, size_t len, int columns, FILE *out);

/** Prints the pending text. */
void cli_wrap_end(cli_wrap *wrap, int columns, FILE *out);

#endif
