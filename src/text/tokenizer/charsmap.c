#include "text/tokenizer/charsmap.h"

#include "base/utf8.h"
#include "text/unicode.h"

#include <utf8proc.h>

#include <string.h>

enum { GRAPHEME = 6 }; /* bytes: graphemes below are looked up as a whole */

static uint32_t read_u32(const char *at) {
    const unsigned char *p = (const unsigned char *)at;
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

mica_status mc_charsmap_read(mc_str bytes, mc_charsmap *map) {
    *map = (mc_charsmap){0};
    if (bytes.len == 0) return MICA_OK;
    uint32_t size = bytes.len < 4 ? UINT32_MAX : read_u32(bytes.ptr);
    if (size > bytes.len - 4 || size % 4)
        return mc_fail(MICA_EFORMAT, "precompiled_charsmap: its size is wrong");
    *map = (mc_charsmap){.units = bytes.ptr + 4,
                         .unit_count = size / 4,
                         .texts = {bytes.ptr + 4 + size, bytes.len - 4 - size}};
    if (mc_utf8_valid(map->texts.ptr, map->texts.len)) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "precompiled_charsmap: its texts are not UTF-8");
}

static uint32_t offset_of(uint32_t unit) {
    return (unit >> 10) << ((unit & 0x200) >> 6);
}

/* The position in the texts of the shortest entry that `text` begins with; false: there is none. */
static bool find_mapping(const mc_charsmap *map, mc_str text, size_t *position) {
    size_t at = 0;
    uint32_t unit = map->unit_count ? read_u32(map->units) : 0;
    for (size_t i = 0; i < text.len && text.ptr[i]; i++) {
        uint32_t byte = (uint8_t)text.ptr[i];
        at ^= offset_of(unit) ^ byte;
        if (at >= map->unit_count) return false;
        unit = read_u32(map->units + 4 * at);
        if ((unit & 0x800000FF) != byte) return false;
        size_t leaf = at ^ offset_of(unit);
        if (!(unit & 0x100)) continue;
        if (leaf >= map->unit_count) return false;
        *position = read_u32(map->units + 4 * leaf) & 0x7FFFFFFF;
        return true;
    }
    return false;
}

/* What replaces `text`; false: nothing does. A position within a character is that of no text. */
static bool replacement(const mc_charsmap *map, mc_str text, mc_str *out) {
    size_t at;
    if (!find_mapping(map, text, &at) || at > map->texts.len) return false;
    const char *start = map->texts.ptr + at;
    size_t left = map->texts.len - at;
    if (left && ((uint8_t)*start & 0xC0) == 0x80) return false;
    const char *end = left ? memchr(start, '\0', left) : NULL;
    *out = (mc_str){start, end ? (size_t)(end - start) : left};
    return true;
}

static mica_status put(mc_str old, mc_str text, mc_work *work, mc_buffer *out) {
    if (text.len > old.len) MC_TRY(mc_work_add(work, text.len - old.len));
    return mc_buffer_add(out, text.ptr, text.len) ? MICA_OK : mc_fail_nomem("normalised text");
}

static mica_status put_chars(const mc_charsmap *map, mc_str text, mc_work *work, mc_buffer *out) {
    for (size_t at = 0; at < text.len;) {
        uint32_t c;
        mc_str one = {text.ptr + at, mc_next_char(text.ptr + at, &c)}, with = one;
        replacement(map, one, &with);
        MC_TRY(put(one, with, work, out));
        at += one.len;
    }
    return MICA_OK;
}

/* The length of the grapheme that a text begins with. */
static size_t grapheme_len(mc_str text) {
    uint32_t last, next;
    size_t len = mc_next_char(text.ptr, &last);
    utf8proc_int32_t state = 0;
    while (len < text.len) {
        size_t n = mc_next_char(text.ptr + len, &next);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)last, (utf8proc_int32_t)next,
                                             &state))
            break;
        last = next;
        len += n;
    }
    return len;
}

mica_status mc_charsmap_apply(const mc_charsmap *map, mc_str text, mc_work *work, mc_buffer *out) {
    while (text.len) {
        mc_str whole = {text.ptr, grapheme_len(text)}, with;
        if (whole.len < GRAPHEME && replacement(map, whole, &with)) {
            MC_TRY(put(whole, with, work, out));
        } else {
            MC_TRY(put_chars(map, whole, work, out));
        }
        text.ptr += whole.len;
        text.len -= whole.len;
    }
    return MICA_OK;
}
