#include "text/tokenizer/normal_form.h"

#include "base/utf8.h"

#include <utf8proc.h>

#include <string.h>

enum { MAX = 32 }; /* a character decomposes to at most 18 */

typedef utf8proc_int32_t character;

/* True for a character that stays the same whatever is before it: the text before it can be
 * normalised without it. Characters after it may still change it. */
static bool inert(mc_normal_form form, const mc_classes *classes, uint32_t c) {
    if (c < 0x80) return true;
    return form == MC_NFC && c < MC_CLASSES_SIZE && (classes->of[c] & MC_CLASS_INERT);
}

static uint8_t combining_class(character c) {
    return (uint8_t)utf8proc_get_property(c)->combining_class;
}

/* Sorts n marks by combining class (stable). room holds n more. */
static void sort_marks(character *marks, size_t n, character *room) {
    size_t starts[257] = {0};
    memcpy(room, marks, n * sizeof *marks);
    for (size_t i = 0; i < n; i++)
        starts[combining_class(marks[i]) + 1]++;
    for (size_t i = 1; i < 257; i++)
        starts[i] += starts[i - 1];
    for (size_t i = 0; i < n; i++)
        marks[starts[combining_class(room[i])]++] = room[i];
}

/* Puts the marks of each starter into canonical order. */
static void order(character *chars, size_t n, character *room) {
    for (size_t at = 0; at < n;) {
        size_t end = at;
        bool sorted = true;
        for (uint8_t last = 0, now; end < n && (now = combining_class(chars[end])) != 0; end++) {
            sorted = sorted && now >= last;
            last = now;
        }
        if (!sorted) sort_marks(chars + at, end - at, room);
        at = end + 1;
    }
}

/* Adds a stretch of text in the normal form. The text around it has no influence on it. */
static bool add_stretch(mc_normal_form form, mc_str text, mc_buffer *room, mc_buffer *out) {
    utf8proc_option_t how = UTF8PROC_DECOMPOSE;
    if (form == MC_NFKC || form == MC_NFKD) how |= UTF8PROC_COMPAT;
    int boundary = UTF8PROC_BOUNDCLASS_START;
    mc_buffer_clear(room);
    for (size_t at = 0; at < text.len;) {
        uint32_t c;
        at += mc_next_char(text.ptr + at, &c);
        if (!mc_buffer_reserve(room, MAX * sizeof(character))) return false;
        character *to = MC_BUFFER_AT(room, character) + MC_BUFFER_COUNT(room, character);
        utf8proc_ssize_t n = utf8proc_decompose_char((character)c, to, MAX, how, &boundary);
        if (n < 0 || n > MAX) { /* utf8proc does not know the character: it is kept */
            *to = (character)c;
            n = 1;
        }
        room->len += (size_t)n * sizeof *to;
    }
    size_t n = MC_BUFFER_COUNT(room, character);
    if (!mc_buffer_reserve(room, room->len)) return false;
    character *chars = MC_BUFFER_AT(room, character);
    order(chars, n, chars + n);
    if (form == MC_NFC || form == MC_NFKC) {
        utf8proc_ssize_t composed = utf8proc_normalize_utf32(chars, (utf8proc_ssize_t)n,
                                                             UTF8PROC_COMPOSE | UTF8PROC_STABLE);
        if (composed >= 0) n = (size_t)composed;
    }
    if (!mc_buffer_reserve(out, 4 * n)) return false;
    for (size_t i = 0; i < n; i++)
        out->len += mc_utf8_encode((uint32_t)chars[i], out->data + out->len);
    return true;
}

/* The end of the inert characters from `at` on. */
static size_t skip_inert(mc_normal_form form, const mc_classes *classes, mc_str text, size_t at) {
    while (at < text.len) {
        uint32_t c;
        size_t n = mc_next_char(text.ptr + at, &c);
        if (!inert(form, classes, c)) break;
        at += n;
    }
    return at;
}

bool mc_normal_form_add(mc_normal_form form, const mc_classes *classes, mc_str text,
                        mc_buffer *room, mc_buffer *out) {
    size_t done = 0;
    uint32_t c;
    while (done < text.len) {
        size_t start = skip_inert(form, classes, text, done), end = start;
        /* The last inert character may compose with the first that is not inert. */
        if (start < text.len && start > done)
            start -= mc_last_char(text.ptr + done, text.ptr + start, &c);
        if (!mc_buffer_add(out, text.ptr + done, start - done)) return false;
        for (size_t n; end < text.len; end += n) {
            n = mc_next_char(text.ptr + end, &c);
            if (inert(form, classes, c)) break;
        }
        if (end > start && !add_stretch(form, (mc_str){text.ptr + start, end - start}, room, out)) {
            return false;
        }
        done = end;
    }
    return true;
}
