/* What a terminal may be given of texts that mica did not make: names in files, options, paths,
 * what servers say. A terminal takes some characters for orders: it clears the screen, sets its
 * title, shows a line in another order. Left out are
 *
 *   bytes that are no UTF-8
 *   control characters, of C0, DEL and C1, except newlines and tabs
 *   what overrides or isolates the direction of text, separators of lines, noncharacters
 *
 * What the command prints of such texts goes through print.h. */
#ifndef CLI_CLEAN_H
#define CLI_CLEAN_H

#include <stddef.h>
#include <stdint.h>

/** The length of the UTF-8 character at the beginning of a text of len > 0 bytes; 0 if there is no
 *  valid one. */
size_t cli_utf8_len(const char *text, size_t len);

/** The number of a valid character of n bytes. */
uint32_t cli_utf8_number(const char *text, size_t n);

/** The same length of a character that may be printed; 0: it is left out. *skip receives how many
 *  bytes it has, 1 or more. */
size_t cli_clean_len(const char *text, size_t len, size_t *skip);

/** Cleans a text of len bytes in place: each character that is left out becomes one '?'.
 *
 *  returns  its new length */
size_t cli_clean(char *text, size_t len);

#endif
