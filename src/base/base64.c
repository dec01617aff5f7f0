#include "base/base64.h"

#include <stdint.h>

bool mc_base64_encode(const void *bytes, size_t n, mc_buffer *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = bytes;
    if (!mc_buffer_reserve(out, (n + 2) / 3 * 4)) return false;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t b = (uint32_t)p[i] << 16;
        if (left > 1) b |= (uint32_t)p[i + 1] << 8;
        if (left > 2) b |= p[i + 2];
        const char four[] = {digits[b >> 18], digits[b >> 12 & 63],
                             left > 1 ? digits[b >> 6 & 63] : '=', left > 2 ? digits[b & 63] : '='};
        mc_buffer_add(out, four, sizeof four);
    }
    return true;
}

/* The value of a digit; -1: it is none. */
static int value_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Adds the bytes of n digits, 2 to 4; the bits that are left over must be zero. */
static bool decode_four(const char *digits, size_t n, mc_buffer *out) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; i++) {
        int value = i < n ? value_of(digits[i]) : 0;
        if (value < 0) return false;
        bits = bits << 6 | (uint32_t)value;
    }
    for (size_t i = 0; i + 1 < n; i++)
        mc_buffer_add_byte(out, (char)(bits >> (16 - 8 * i) & 0xFF));
    return (bits & ((1u << (8 * (4 - n))) - 1)) == 0;
}

mica_status mc_base64_decode(mc_str text, mc_buffer *out) {
    size_t pad = 0;
    while (pad < 2 && pad < text.len && text.ptr[text.len - 1 - pad] == '=')
        pad++;
    if (!mc_buffer_reserve(out, text.len / 4 * 3 + 3)) return mc_fail_nomem("base64");
    bool ok = text.len % 4 == 0;
    for (size_t i = 0; ok && i < text.len; i += 4)
        ok = decode_four(text.ptr + i, i + 4 == text.len ? 4 - pad : 4, out);
    return ok ? MICA_OK : mc_fail(MICA_EFORMAT, "not base64");
}
