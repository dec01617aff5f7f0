#include "text/tokenizer/byte_level.h"

#include "base/utf8.h"
#include "text/unicode.h"

static bool stands_for_itself(uint32_t byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

uint32_t mc_byte_to_char(uint8_t byte) {
    if (stands_for_itself(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    return byte == 0xAD ? 0x143 : 0x121u + (byte - 0x7Fu);
}

/* -1: not in the alphabet */
static int char_to_byte(uint32_t codepoint) {
    if (codepoint <= 0xFF) return stands_for_itself(codepoint) ? (int)codepoint : -1;
    if (codepoint <= 0x120) return (int)(codepoint - 0x100);
    if (codepoint <= 0x142) return (int)(codepoint - 0x121 + 0x7F);
    return codepoint == 0x143 ? 0xAD : -1;
}

bool mc_byte_level_spell(mc_str text, mc_buffer *out) {
    if (!mc_buffer_reserve(out, 2 * text.len)) return false;
    for (size_t i = 0; i < text.len; i++) {
        out->len += mc_utf8_encode(mc_byte_to_char((uint8_t)text.ptr[i]), out->data + out->len);
    }
    return true;
}

bool mc_byte_level_unspell(mc_str text, mc_buffer *out) {
    size_t before = out->len;
    if (!mc_buffer_reserve(out, text.len)) return false;
    for (size_t at = 0; at < text.len;) {
        uint32_t c;
        at += mc_next_char(text.ptr + at, &c);
        int byte = char_to_byte(c);
        if (byte < 0) {
            out->len = before;
            return mc_buffer_add(out, text.ptr, text.len);
        }
        out->data[out->len++] = (char)(uint8_t)byte;
    }
    return true;
}
