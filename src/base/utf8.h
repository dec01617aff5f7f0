/* UTF-8: decoding one character, and telling whole from broken from unfinished. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the character at bytes[0..n), n > 0.
 * returns its length 1..4 with *codepoint set; 0 where the bytes are not valid UTF-8 (overlong,
 *         surrogate, past U+10FFFF, cut short). */
size_t mc_utf8_decode(const char *bytes, size_t n, uint32_t *codepoint);

/* Writes a character (<= 0x10FFFF) and returns its length 1..4. */
size_t mc_utf8_encode(uint32_t codepoint, char out[4]);

/* True where all of the bytes are valid UTF-8. */
bool mc_utf8_valid(const char *bytes, size_t n);

/* The length of the longest ill-formed piece at bytes[0] that stands for one U+FFFD, by the
 * Unicode "maximal subpart" rule (as Python and Rust do); 0 where a valid character starts there.
 */
size_t mc_utf8_bad_len(const char *bytes, size_t n);

/* How many bytes at the end are the beginning of a character that more bytes could finish: 0..3. */
size_t mc_utf8_unfinished(const char *bytes, size_t n);

#endif
