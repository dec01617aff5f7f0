#include "text/jinja/jinja_str.h"

#include "base/utf8.h"
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

/* The position of the last character. */
static size_t last_start(mc_str text) {
    size_t last = text.len - 1;
    while (last > 0 && ((unsigned char)text.ptr[last] & 0xC0) == 0x80)
        last--;
    return last;
}

bool mc_jstr_starts(mc_jrun *r, mc_str text, mc_str prefix) {
    mc_jcharge_copy(r, prefix.len <= text.len ? prefix.len : 0);
    return mc_str_starts(text, prefix);
}

bool mc_jstr_ends(mc_jrun *r, mc_str text, mc_str suffix) {
    mc_jcharge_copy(r, suffix.len <= text.len ? suffix.len : 0);
    return mc_str_ends(text, suffix);
}

size_t mc_jstr_length(mc_jrun *r, mc_str text) {
    size_t n = 0;
    mc_jcharge(r, 1 + text.len / 32);
    for (size_t i = 0; i < text.len; i++)
        n += ((unsigned char)text.ptr[i] & 0xC0) != 0x80;
    return n;
}

size_t mc_jstr_offset(mc_jrun *r, mc_str text, size_t n) {
    size_t at = 0;
    for (; at < text.len; at++) {
        bool begins = ((unsigned char)text.ptr[at] & 0xC0) != 0x80;
        if (begins && n-- == 0) break;
    }
    mc_jcharge_scan(r, at);
    return at;
}

/* Whether the pattern is at text[at]. Its first byte is there already, and the text is long
 * enough. */
static bool stands_at(mc_jrun *r, mc_str text, mc_str pattern, size_t at) {
    mc_jcharge_copy(r, pattern.len);
    return memcmp(text.ptr + at, pattern.ptr, pattern.len) == 0;
}

size_t mc_jstr_find(mc_jrun *r, mc_str text, mc_str pattern, size_t from) {
    if (pattern.len == 0) return from;
    while (r->status == MICA_OK && from < text.len && pattern.len <= text.len - from) {
        size_t places = text.len - from - pattern.len + 1;
        const char *hit = memchr(text.ptr + from, pattern.ptr[0], places);
        size_t at = hit ? (size_t)(hit - text.ptr) : from + places;
        mc_jcharge_copy(r, at - from);
        if (!hit) break;
        if (stands_at(r, text, pattern, at)) return at;
        from = at + 1;
    }
    return SIZE_MAX;
}

size_t mc_jstr_find_last(mc_jrun *r, mc_str text, mc_str pattern) {
    if (pattern.len == 0) return text.len;
    size_t places = pattern.len <= text.len ? text.len - pattern.len + 1 : 0;
    while (r->status == MICA_OK && places > 0) {
        size_t at = places;
        while (at > 0 && text.ptr[at - 1] != pattern.ptr[0])
            at--;
        mc_jcharge_scan(r, places - at);
        if (at == 0) break;
        if (stands_at(r, text, pattern, at - 1)) return at - 1;
        places = at - 1;
    }
    return SIZE_MAX;
}

size_t mc_jstr_find_space(mc_jrun *r, mc_str text) {
    size_t at = 0, n;
    for (; at < text.len; at += n) {
        uint32_t c = 0;
        n = mc_utf8_decode(text.ptr + at, text.len - at, &c);
        if (n == 0 || mc_jis_space(c)) break;
    }
    mc_jcharge_scan(r, at);
    return at;
}

/* -- case -- */

typedef struct case_range { /* capitals first, first + step, ... last */
    uint16_t first, last, step, to_lower;
} case_range;

static const case_range cases[] = {
    {0xC0, 0xD6, 1, 32},    {0xD8, 0xDE, 1, 32},    {0x100, 0x12E, 2, 1},    {0x132, 0x136, 2, 1},
    {0x139, 0x147, 2, 1},   {0x14A, 0x176, 2, 1},   {0x179, 0x17D, 2, 1},    {0x386, 0x386, 1, 38},
    {0x388, 0x38A, 1, 37},  {0x38C, 0x38C, 1, 64},  {0x38E, 0x38F, 1, 63},   {0x391, 0x3A1, 1, 32},
    {0x3A3, 0x3AB, 1, 32},  {0x400, 0x40F, 1, 80},  {0x410, 0x42F, 1, 32},   {0x460, 0x480, 2, 1},
    {0x48A, 0x4BE, 2, 1},   {0x4C1, 0x4CD, 2, 1},   {0x4D0, 0x52E, 2, 1},    {0x531, 0x556, 1, 48},
    {0x1E00, 0x1E94, 2, 1}, {0x1EA0, 0x1EFE, 2, 1}, {0xFF21, 0xFF3A, 1, 32},
};

uint32_t mc_jlower(uint32_t c) {
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const case_range *row = &cases[i];
        if (c >= row->first && c <= row->last && (c - row->first) % row->step == 0)
            return c + row->to_lower;
    }
    return c == 0x178 ? 0xFF : c;
}

uint32_t mc_jupper(uint32_t c) {
    if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const case_range *row = &cases[i];
        if (c < (uint32_t)row->first + row->to_lower || c > (uint32_t)row->last + row->to_lower)
            continue;
        if ((c - row->to_lower - row->first) % row->step == 0) return c - row->to_lower;
    }
    switch (c) { /* letters that share their capital with another */
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
    if (c == 0xDF) { /* the only common letter with a capital of two characters */
        mc_jput_text(r, title ? "Ss" : "SS");
    } else {
        mc_jput_char(r, mc_jupper(c));
    }
}

mc_jvalue mc_jstr_case(mc_jrun *r, mc_str text, mc_jcase how) {
    size_t mark = mc_jmark(r);
    bool begins = true; /* a word begins here */
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
    return mc_jtake(r, mark);
}

/* -- parts -- */

bool mc_jis_space(uint32_t c) {
    return mc_is_space(c) || (c >= 0x1C && c <= 0x1F);
}

mc_str mc_jstrip_space(mc_str text, mc_jside side) {
    while (side & MC_J_LEFT && text.len && mc_jis_space(character(text, 0)))
        text = from_to(text, mc_jstr_next(text, 0), text.len);
    while (side & MC_J_RIGHT && text.len && mc_jis_space(character(text, last_start(text))))
        text.len = last_start(text);
    return text;
}

static bool is_one_of(mc_jrun *r, uint32_t c, mc_str chars) {
    size_t at = 0;
    while (at < chars.len && character(chars, at) != c)
        at += mc_jstr_next(chars, at);
    mc_jcharge_scan(r, at);
    return at < chars.len;
}

mc_str mc_jstr_strip(mc_jrun *r, mc_str text, mc_str chars, mc_jside side) {
    if (!chars.ptr) {
        mc_str rest = mc_jstrip_space(text, side);
        mc_jcharge_scan(r, 2 * (text.len - rest.len)); /* each is decoded */
        return rest;
    }
    while (side & MC_J_LEFT && text.len && r->status == MICA_OK) {
        if (!is_one_of(r, character(text, 0), chars)) break;
        text = from_to(text, mc_jstr_next(text, 0), text.len);
    }
    while (side & MC_J_RIGHT && text.len && r->status == MICA_OK) {
        if (!is_one_of(r, character(text, last_start(text)), chars)) break;
        text.len = last_start(text);
    }
    return text;
}

mc_jvalue mc_jstr_replace(mc_jrun *r, mc_str text, mc_str old, mc_str with, int64_t max) {
    size_t mark = mc_jmark(r), from = 0;
    for (; max != 0 && r->status == MICA_OK; max--) {
        size_t at = mc_jstr_find(r, text, old, from);
        if (at == SIZE_MAX) break;
        mc_jput(r, from_to(text, from, at));
        mc_jput(r, with);
        from = at + old.len;
        if (old.len == 0) { /* `with` goes between all characters */
            if (at == text.len) return mc_jtake(r, mark);
            size_t n = mc_jstr_next(text, at);
            mc_jput(r, from_to(text, at, at + n));
            from = at + n;
        }
    }
    mc_jput(r, from_to(text, from, text.len));
    return mc_jtake(r, mark);
}

void mc_jput_escaped(mc_jrun *r, mc_jvalue text) {
    static const char marks[] = "&<>'\"";
    static const char *const meant[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    for (size_t i = 0; i < text.text.len && r->status == MICA_OK; i++) {
        const char *at = text.text.ptr + i;
        const char *found = *at && !text.why ? strchr(marks, *at) : NULL;
        if (found)
            mc_jput_text(r, meant[found - marks]);
        else
            mc_jput(r, (mc_str){at, 1});
    }
}

static bool ends_line(uint32_t c) {
    return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

mc_jlist *mc_jstr_lines(mc_jrun *r, mc_str text) {
    mc_jlist *lines = mc_jlist_new(r);
    size_t start = 0, at = 0;
    mc_jcharge_scan(r, text.len);
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
