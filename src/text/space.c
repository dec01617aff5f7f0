#include "text/space.h"

#include "base/utf8.h"

bool mc_is_space(uint32_t c) {
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

size_t mc_space_at_start(const char *text, size_t len) {
    size_t at = 0;
    while (at < len) {
        uint32_t c = 0;
        size_t n = mc_utf8_decode(text + at, len - at, &c);
        if (n == 0 || !mc_is_space(c)) break;
        at += n;
    }
    return at;
}

size_t mc_space_at_end(const char *text, size_t len) {
    size_t end = len;
    while (end > 0) {
        size_t start = end - 1;
        while (start > 0 && ((uint8_t)text[start] & 0xC0) == 0x80)
            start--;
        uint32_t c = 0;
        size_t n = mc_utf8_decode(text + start, end - start, &c);
        if (n != end - start || !mc_is_space(c)) break;
        end = start;
    }
    return len - end;
}
