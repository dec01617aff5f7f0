/* Text that comes piece by piece, broken between words at the width of a terminal. What a line ends
 * with is held back until it is known whether it fits: of two pieces that are a word's halves, the
 * first. Lines between ``` are code and left to the terminal. */
#ifndef CLI_WRAP_H
#define CLI_WRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Zeroed: at the beginning of a line. */
typedef struct cli_wrap {
    int column;       /* of the cursor, 0 at the beginning of a line */
    char blanks[128]; /* held back, and then a word */
    size_t blanks_len;
    int blanks_width;
    char word[512];
    size_t word_len;
    int word_width;
    bool wide;     /* the word ends in a wide character, behind which a line may end */
    bool spilling; /* the word is too long for a line and is printed as it comes */
    bool code;
    bool in_line; /* something other than blanks and ` was in the line */
    int ticks;    /* ` at its beginning */
} cli_wrap;

/** Prints UTF-8 on a terminal of so many columns, but for what is held back. A tab goes to the next
 *  multiple of 8, a wide character takes two columns, one that combines with others none, as the
 *  locale has it. Words that are too long for a line begin a new one and are broken by the
 *  terminal; between wide characters a line may end anywhere but before a closing mark. Blanks
 *  where a line is broken, and at its end, are dropped. */
void cli_wrap_put(cli_wrap *wrap, const char *text, size_t len, int columns, FILE *out);

/** Prints what is held back. */
void cli_wrap_end(cli_wrap *wrap, int columns, FILE *out);

#endif
