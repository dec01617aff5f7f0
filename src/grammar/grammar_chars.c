#include "grammar/grammar_chars.h"

#include "base/json_write.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* ---- ranges ---- */

static int by_low(const void *a, const void *b) {
    const mc_char_range *one = a, *other = b;
    return (one->low > other->low) - (one->low < other->low);
}

size_t mc_char_ranges_join(mc_char_range *ranges, size_t count) {
    size_t n = 0;
    if (count > 1) qsort(ranges, count, sizeof *ranges, by_low);
    for (size_t i = 0; i < count; i++) {
        if (n && ranges[i].low <= ranges[n - 1].high + 1) {
            if (ranges[i].high > ranges[n - 1].high) ranges[n - 1].high = ranges[i].high;
        } else {
            ranges[n++] = ranges[i];
        }
    }
    return n;
}

size_t mc_char_ranges_invert(const mc_char_range *ranges, size_t count, uint32_t max,
                             mc_char_range *inverted) {
    uint32_t from = 0;
    size_t n = 0;
    for (size_t i = 0; i < count && from <= max; i++) {
        if (ranges[i].low > from) {
            uint32_t high = ranges[i].low - 1;
            inverted[n++] = (mc_char_range){from, high < max ? high : max};
        }
        from = ranges[i].high + 1;
    }
    if (from <= max) inverted[n++] = (mc_char_range){from, max};
    return n;
}

/* ---- UTF-8 ---- */

enum { UTF8_MAX = 4 };

static size_t encode(uint32_t c, uint8_t bytes[UTF8_MAX]) {
    if (c < 0x80) return bytes[0] = (uint8_t)c, 1;
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; c >>= 6)
        bytes[i] = (uint8_t)(0x80 | (c & 0x3f));
    bytes[0] = (uint8_t)(lead[n] | c);
    return n;
}

static bool are_all(const uint8_t *bytes, size_t n, uint8_t value) {
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != value) return false;
    return true;
}

/* Byte sequences from `low` to `high`, both of n bytes. */
static int32_t sequences(mc_builder *b, const uint8_t *low, const uint8_t *high, size_t n,
                         int32_t next) {
    static const uint8_t least[] = {0x80, 0x80, 0x80}, greatest[] = {0xbf, 0xbf, 0xbf};
    int from = low[0], to = high[0];
    int32_t all = MC_DEAD;
    if (n == 1) return mc_build_range(b, from, to, next);
    if (from == to)
        return mc_build_range(b, from, to, sequences(b, low + 1, high + 1, n - 1, next));
    if (!are_all(low + 1, n - 1, 0x80)) {
        int32_t rest = sequences(b, low + 1, greatest, n - 1, next);
        all = mc_build_range(b, from, from, rest);
        from++;
    }
    if (!are_all(high + 1, n - 1, 0xbf)) {
        int32_t rest = sequences(b, least, high + 1, n - 1, next);
        all = mc_build_split(b, mc_build_range(b, to, to, rest), all);
        to--;
    }
    if (from > to) return all;
    int32_t rest = sequences(b, least, greatest, n - 1, next);
    return mc_build_split(b, mc_build_range(b, from, to, rest), all);
}

/* A range of characters as UTF-8. */
static int32_t utf8_range(mc_builder *b, uint32_t low, uint32_t high, int32_t next) {
    static const mc_char_range lengths[] = {
        {0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, MC_CHAR_MAX}};
    int32_t all = MC_DEAD;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint8_t first[UTF8_MAX], last[UTF8_MAX];
        uint32_t from = low > lengths[i].low ? low : lengths[i].low;
        uint32_t to = high < lengths[i].high ? high : lengths[i].high;
        if (from > to) continue;
        size_t n = encode(from, first);
        encode(to, last);
        all = mc_build_split(b, sequences(b, first, last, n, next), all);
    }
    return all;
}

/* ---- JSON ---- */

/* A range within a JSON string: parts that are escaped, and parts that are not. */
static int32_t json_range(mc_builder *b, uint32_t low, uint32_t high, int32_t next) {
    static const mc_char_range plain[] = {
        {0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, MC_CHAR_MAX}};
    int32_t all = MC_DEAD;
    for (uint32_t c = low; c <= high && c <= '\\'; c++) {
        char escape[7];
        if (!mc_json_is_escaped(c)) continue;
        mc_json_escape_char(c, escape);
        all = mc_build_split(b, mc_build_text(b, escape, strlen(escape), next), all);
    }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        uint32_t from = low > plain[i].low ? low : plain[i].low;
        uint32_t to = high < plain[i].high ? high : plain[i].high;
        if (from <= to) all = mc_build_split(b, utf8_range(b, from, to, next), all);
    }
    return all;
}

int32_t mc_build_class(mc_builder *b, mc_char_form form, const mc_char_range *ranges, size_t count,
                       int32_t next) {
    int32_t all = MC_DEAD;
    for (size_t i = 0; i < count; i++) {
        int32_t way = form == MC_CHARS_JSON ? json_range(b, ranges[i].low, ranges[i].high, next)
                                            : utf8_range(b, ranges[i].low, ranges[i].high, next);
        all = mc_build_split(b, way, all);
    }
    return all;
}

static int32_t hex_digit(mc_builder *b, int32_t next) {
    int32_t digits = mc_build_range(b, '0', '9', next);
    int32_t lower = mc_build_range(b, 'a', 'f', next), upper = mc_build_range(b, 'A', 'F', next);
    return mc_build_split(b, digits, mc_build_split(b, lower, upper));
}

/* One of two letters in either case, of which the second follows the first. */
static int32_t letters(mc_builder *b, int low, int high, int32_t next) {
    return mc_build_split(b, mc_build_range(b, low, high, next),
                          mc_build_range(b, low - 32, high - 32, next));
}

/* What follows \u: a character, or both halves of a pair; never a half alone. */
static int32_t code_unit(mc_builder *b, int32_t next) {
    int32_t one = hex_digit(b, next), two = hex_digit(b, one), three = hex_digit(b, two);
    int32_t low_half = mc_build_text(b, "\\u", 2, letters(b, 'd', 'd', letters(b, 'c', 'f', two)));
    int32_t lead = hex_digit(b, hex_digit(b, low_half));
    int32_t high_half =
        mc_build_split(b, mc_build_range(b, '8', '9', lead), letters(b, 'a', 'b', lead));
    int32_t after_d = mc_build_split(b, mc_build_range(b, '0', '7', two), high_half);
    int32_t other =
        mc_build_split(b, mc_build_range(b, '0', '9', three),
                       mc_build_split(b, letters(b, 'a', 'c', three), letters(b, 'e', 'f', three)));
    return mc_build_split(b, other, letters(b, 'd', 'd', after_d));
}

int32_t mc_build_json_char(mc_builder *b, int32_t next) {
    static const mc_char_range plain[] = {
        {0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, MC_CHAR_MAX}};
    static const char names[] = "\"\\/bfnrt";
    int32_t escapes = mc_build_range(b, 'u', 'u', code_unit(b, next));
    for (size_t i = 0; names[i]; i++)
        escapes = mc_build_split(b, mc_build_text(b, &names[i], 1, next), escapes);
    int32_t raw = mc_build_class(b, MC_CHARS_TEXT, plain, 3, next);
    return mc_build_split(b, raw, mc_build_range(b, '\\', '\\', escapes));
}
