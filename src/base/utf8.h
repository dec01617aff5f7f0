/* UTF-8: decoding and encoding a character, and finding invalid and unfinished bytes. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MC_CHAR_MAX = 0x10ffff }; /* the last code point */

/* Decodes the character at bytes[0..n), n > 0.
 * returns its length 1..4 and sets *codepoint; 0 if the bytes are not valid UTF-8 (overlong, a
 *         surrogate, past U+10FFFF, cut short). */
size_t mc_utf8_decode(const char *bytes, size_t n, uint32_t *codepoint);

/* Writes a character (<= MC_CHAR_MAX) and returns its length 1..4. */
size_t mc_utf8_encode(uint32_t codepoint, char out[4]);

/* True if all bytes are valid UTF-8. */
bool mc_utf8_valid(const char *bytes, size_t n);

/* The length of the ill-formed bytes at bytes[0] that one U+FFFD replaces, by the Unicode "maximal
 * subpart" rule (as in Python and Rust); 0 if a valid character starts there. */
size_t mc_utf8_bad_len(const char *bytes, size_t n);

/* The number of bytes at the end, 0..3, that begin a character which more bytes could complete. */
size_t mc_utf8_unfinished(const char *bytes, size_t n);

#endif
