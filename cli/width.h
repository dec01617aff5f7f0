/* How many columns of a terminal a text takes. What is read as one character takes those of its
 * widest part: letters with their accents, emoji that joiners hold together, flags. Terminals that
 * draw the parts of such an emoji apart need more. */
#ifndef CLI_WIDTH_H
#define CLI_WIDTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The last character of a text that comes in pieces. Zeroed: none. */
typedef struct cli_width {
    uint32_t last; /* its last code point */
    int32_t state; /* of utf8proc */
    int columns;
} cli_width;

/** Adds a code point.
 *
 *  begins   receives whether a new character begins with it.
 *  returns  the columns that the text has got by it */
int cli_width_add(cli_width *width, uint32_t c, bool *begins);

/** The columns of a text of len bytes. Bytes that are no UTF-8 have one each. */
int cli_width_of(const char *text, size_t len);

#endif
