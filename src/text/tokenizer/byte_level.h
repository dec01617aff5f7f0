/* The alphabet of ByteLevel: one printable character for each byte.
 *
 * Bytes that are printable in Latin-1 (except the space and the soft hyphen) stand for themselves.
 * The others are, in order, U+0100 and following. source  GPT-2's bytes_to_unicode */
#ifndef TEXT_TOKENIZER_BYTE_LEVEL_H
#define TEXT_TOKENIZER_BYTE_LEVEL_H

#include "base/buffer.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

uint32_t mc_byte_to_char(uint8_t byte);

/* Adds the text's bytes, spelled in the alphabet; false: no memory. */
bool mc_byte_level_spell(mc_str text, mc_buffer *out);

/* Adds the bytes that the text spells; or the text itself, if a character is not in the alphabet.
 * false: no memory. */
bool mc_byte_level_unspell(mc_str text, mc_buffer *out);

#endif
