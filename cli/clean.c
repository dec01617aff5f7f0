#include "clean.h"

#include <stdbool.h>
#include <string.h>

size_t cli_utf8_len(const char *bytes, size_t len) {
    const unsigned char *text = (const unsigned char *)bytes;
    unsigned first = text[0], second = len > 1 ? text[1] : 0;
    size_t n = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first > 0xf4 || n > len) return 0;
    for (size_t i = 1; i < n; i++)
        if ((text[i] & 0xc0) != 0x80) return 0;
    bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
    bool no_character = (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f);
    return overlong || no_character ? 0 : n;
}

/* Ranges of characters that are left out, in order. Marks of direction, which Arabic and Hebrew
 * texts have, are not among them; what overrides the direction of others is. */
static const struct {
    uint32_t first, last;
} unsafe[] = {
    {0x00, 0x08},     {0x0b, 0x1f},     {0x7f, 0x9f},     {0x2028, 0x202e},
    {0x2066, 0x2069}, {0xfff9, 0xfffb}, {0xfffe, 0xffff},
};

uint32_t cli_utf8_number(const char *text, size_t n) {
    const unsigned char *c = (const unsigned char *)text;
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t number = c[0] & masks[n];
    for (size_t i = 1; i < n; i++)
        number = number << 6 | (c[i] & 0x3f);
    return number;
}

size_t cli_clean_len(const char *text, size_t len, size_t *skip) {
    size_t n = cli_utf8_len(text, len);
    *skip = n > 0 ? n : 1;
    if (n == 0) return 0;
    uint32_t number = cli_utf8_number(text, n);
    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
        if (number >= unsafe[i].first && number <= unsafe[i].last) return 0;
    return n;
}

size_t cli_clean(char *text, size_t len) {
    size_t made = 0;
    for (size_t at = 0, skip; at < len; at += skip) {
        size_t n = cli_clean_len(text + at, len - at, &skip);
        if (n > 0)
            memmove(text + made, text + at, n);
        else
            text[made] = '?';
        made += n > 0 ? n : 1;
    }
    return made;
}
