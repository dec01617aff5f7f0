#include "text/jinja/jinja_str.h"

#include "base/utf8.h"
#include "text/find.h"
#include "text/space.h"

#include <string.h>

/* -- positions -- */

static uint32_t character(mc_str text, size_t at) {
    uint32_t c = 0;
    mc_utf8_decode(text.ptr + at, text.len - at, &c);
    return c;
}

static mc_str from_to(mc_str text, size_t from, size_t to) {
    return (mc_str){text.ptr + from, to - from};
}

size_t mc_jstr_next(mc_str text, size_t at) {
    uint32_t c;
    size_t n = mc_utf8_decode(text.ptr + at, text.len - at, &c);
    return n ? n : 1;
}

size_t mc_jstr_length(mc_jrun *r, mc_str text) {
    size_t n = 0;
    mc_jcharge(r, text.len / 64);
    for (size_t i = 0; i < text.len; i++)
        n += ((unsigned char)text.ptr[i] & 0xC0) != 0x80;
    return n;
}

size_t mc_jstr_offset(mc_jrun *r, mc_str text, size_t n) {
    size_t at = 0;
    for (; n > 0 && at < text.len; n--)
        at += mc_jstr_next(text, at);
    mc_jcharge(r, at / 64);
    return at;
}

/* The search may look at all of the pattern at every place of the text. */
static void charge_search(mc_jrun *r, size_t text_len, mc_str pattern) {
    mc_jcharge(r, (text_len / 64 + 1) * (pattern.len / 16 + 1));
}

size_t mc_jstr_find(mc_jrun *r, mc_str text, mc_str pattern, size_t from) {
    size_t window = 256;
    if (pattern.len == 0) return from;
    /* In windows, each twice the one before: what is paid for is what is looked at. */
    while (from < text.len && pattern.len <= text.len - from) {
        size_t starts = text.len - from - pattern.len + 1;
        size_t end = window < starts ? from + window + pattern.len - 1 : text.len;
        charge_search(r, end - from, pattern);
        if (r->status != MICA_OK) break;
        size_t at = mc_find((mc_str){text.ptr, end}, pattern, from);
        if (at < end) return at;
        if (window >= starts) break;
        from += window;
        window *= 2;
    }
    return SIZE_MAX;
}

size_t mc_jstr_find_last(mc_jrun *r, mc_str text, mc_str pattern) {
    charge_search(r, text.len, pattern);
    for (size_t at = text.len; r->status == MICA_OK; at--) {
        if (mc_str_starts(from_to(text, at, text.len), pattern)) return at;
        if (at == 0) break;
    }
    return SIZE_MAX;
}

/* -- case -- */

typedef struct case_range { /* capitals first, first + step ... last */
    uint16_t first, last, step, to_lower;
} case_range;

static const case_range cases[] = {
    {0x41, 0x5A, 1, 32},   {0xC0, 0xD6, 1, 32},    {0xD8, 0xDE, 1, 32},    {0x100, 0x12E, 2, 1},
    {0x132, 0x136, 2, 1},  {0x139, 0x147, 2, 1},   {0x14A, 0x176, 2, 1},   {0x179, 0x17D, 2, 1},
    {0x386, 0x386, 1, 38}, {0x388, 0x38A, 1, 37},  {0x38C, 0x38C, 1, 64},  {0x38E, 0x38F, 1, 63},
    {0x391, 0x3A1, 1, 32}, {0x3A3, 0x3AB, 1, 32},  {0x400, 0x40F, 1, 80},  {0x410, 0x42F, 1, 32},
    {0x460, 0x480, 2, 1},  {0x48A, 0x4BE, 2, 1},   {0x4C1, 0x4CD, 2, 1},   {0x4D0, 0x52E, 2, 1},
    {0x531, 0x556, 1, 48}, {0x1E00, 0x1E94, 2, 1}, {0x1EA0, 0x1EFE, 2, 1}, {0xFF21, 0xFF3A, 1, 32},
};

uint32_t mc_jlower(uint32_t c) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const case_range *row = &cases[i];
        if (c >= row->first && c <= row->last && (c - row->first) % row->step == 0)
            return c + row->to_lower;
    }
    return c == 0x178 ? 0xFF : c;
}

uint32_t mc_jupper(uint32_t c) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const case_range *row = &cases[i];
        if (c < (uint32_t)row->first + row->to_lower || c > (uint32_t)row->last + row->to_lower)
            continue;
        if ((c - row->to_lower - row->first) % row->step == 0) return c - row->to_lower;
    }
    switch (c) { /* letters whose capital is not theirs alone */
    case 0xB5:
        return 0x39C;
    case 0xFF:
        return 0x178;
    case 0x131:
        return 'I';
    case 0x17F:
        return 'S';
    case 0x3C2:
        return 0x3A3;
    default:
        return c;
    }
}

bool mc_jis_cased(uint32_t c) {
    return c == 0xDF || mc_jupper(c) != c || mc_jlower(c) != c;
}

static void put_upper(mc_jrun *r, uint32_t c, bool title) {
    if (c == 0xDF) { /* the one letter in common use whose capital is two */
        mc_jput_text(r, title ? "Ss" : "SS");
    } else {
        mc_jput_char(r, mc_jupper(c));
    }
}

mc_jvalue mc_jstr_case(mc_jrun *r, mc_str text, mc_jcase how) {
    size_t mark = mc_jmark(r);
    bool begins = true; /* a word */
    for (size_t at = 0; at < text.len && r->status == MICA_OK; at += mc_jstr_next(text, at)) {
        uint32_t c = character(text, at);
        bool upper = how == MC_J_UPPER || (how != MC_J_LOWER && begins);
        if (upper) {
            put_upper(r, c, how != MC_J_UPPER);
        } else {
            mc_jput_char(r, mc_jlower(c));
        }
        if (how == MC_J_TITLE) {
            begins = !mc_jis_cased(c);
        } else {
            begins = how == MC_J_TITLE_FILTER &&
                     (mc_jis_space(c) || (c < 0x80 && c && strchr("-({[<", (int)c)));
        }
    }
    mc_jcharge(r, text.len);
    return mc_jtake(r, mark);
}

/* -- parts -- */

bool mc_jis_space(uint32_t c) {
    return mc_is_space(c) || (c >= 0x1C && c <= 0x1F);
}

static bool strips(uint32_t c, mc_str chars) {
    if (!chars.ptr) return mc_jis_space(c);
    for (size_t at = 0; at < chars.len; at += mc_jstr_next(chars, at))
        if (character(chars, at) == c) return true;
    return false;
}

mc_str mc_jstrip(mc_str text, mc_str chars, mc_jside side) {
    while (side & MC_J_LEFT && text.len && strips(character(text, 0), chars)) {
        size_t n = mc_jstr_next(text, 0);
        text = from_to(text, n, text.len);
    }
    while (side & MC_J_RIGHT && text.len) {
        size_t last = text.len - 1;
        while (last > 0 && ((unsigned char)text.ptr[last] & 0xC0) == 0x80)
            last--;
        if (!strips(character(text, last), chars)) break;
        text.len = last;
    }
    return text;
}

mc_jvalue mc_jstr_strip(mc_jrun *r, mc_str text, mc_str chars, mc_jside side) {
    mc_jcharge(r, (text.len / 64 + 1) * (chars.len + 1));
    return mc_jstr(r->status == MICA_OK ? mc_jstrip(text, chars, side) : text);
}

mc_jvalue mc_jstr_replace(mc_jrun *r, mc_str text, mc_str old, mc_str with, int64_t max) {
    size_t mark = mc_jmark(r), from = 0;
    for (; max != 0 && r->status == MICA_OK; max--) {
        size_t at = mc_jstr_find(r, text, old, from);
        if (at == SIZE_MAX) break;
        mc_jput(r, from_to(text, from, at));
        mc_jput(r, with);
        from = at + old.len;
        if (old.len == 0) { /* between all characters */
            if (at == text.len) return mc_jtake(r, mark);
            size_t n = mc_jstr_next(text, at);
            mc_jput(r, from_to(text, at, at + n));
            from = at + n;
        }
    }
    mc_jput(r, from_to(text, from, text.len));
    return mc_jtake(r, mark);
}

static bool ends_line(uint32_t c) {
    return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

mc_jlist *mc_jstr_lines(mc_jrun *r, mc_str text) {
    mc_jlist *lines = mc_jlist_new(r);
    size_t start = 0, at = 0;
    mc_jcharge(r, text.len / 16);
    while (at < text.len && r->status == MICA_OK) {
        size_t end = at;
        uint32_t c = character(text, at);
        at += mc_jstr_next(text, at);
        if (!ends_line(c)) continue;
        if (c == '\r' && at < text.len && text.ptr[at] == '\n') at++;
        mc_jlist_push(r, lines, mc_jstr(from_to(text, start, end)));
        start = at;
    }
    if (start < text.len) mc_jlist_push(r, lines, mc_jstr(from_to(text, start, text.len)));
    return lines;
}
