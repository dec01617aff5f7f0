#include "text/unicode.h"

#include "text/space.h"

#include <utf8proc.h>

static bool between(utf8proc_category_t c, utf8proc_category_t first, utf8proc_category_t last) {
    return c >= first && c <= last;
}

static utf8proc_category_t category(uint32_t codepoint) {
    return utf8proc_category((utf8proc_int32_t)codepoint);
}

bool mc_is_letter(uint32_t codepoint) {
    return between(category(codepoint), UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}

bool mc_is_number(uint32_t codepoint) {
    return between(category(codepoint), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool mc_is_punctuation(uint32_t codepoint) {
    utf8proc_category_t c = category(codepoint);
    bool ascii = codepoint < 0x80 && between(c, UTF8PROC_CATEGORY_SM, UTF8PROC_CATEGORY_SO);
    return ascii || between(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool mc_is_mark(uint32_t codepoint) {
    return between(category(codepoint), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

bool mc_is_nonspacing(uint32_t codepoint) {
    return category(codepoint) == UTF8PROC_CATEGORY_MN;
}

bool mc_is_control(uint32_t codepoint) {
    utf8proc_category_t c = category(codepoint);
    return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CO;
}

bool mc_is_word(uint32_t codepoint) {
    utf8proc_category_t c = category(codepoint);
    if (between(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL))
        return true; /* letters, marks, Nd */
    if (c == UTF8PROC_CATEGORY_PC) return true;
    /* Circled and squared letters: alphabetic only by the property Other_Alphabetic. */
    return (codepoint >= 0x24B6 && codepoint <= 0x24E9) ||
           (codepoint >= 0x1F130 && codepoint <= 0x1F149) ||
           (codepoint >= 0x1F150 && codepoint <= 0x1F169) ||
           (codepoint >= 0x1F170 && codepoint <= 0x1F189) || codepoint == 0x200C ||
           codepoint == 0x200D;
}

uint32_t mc_lower(uint32_t codepoint) {
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)codepoint);
}

uint8_t mc_class_of(uint32_t codepoint) {
    if (codepoint == '\n' || codepoint == '\r') return MC_CLASS_NEWLINE;
    if (mc_is_space(codepoint)) return MC_CLASS_SPACE;
    if (mc_is_letter(codepoint)) return MC_CLASS_LETTER;
    return mc_is_number(codepoint) ? MC_CLASS_NUMBER : MC_CLASS_OTHER;
}

enum { DECOMPOSED = 32 }; /* more characters than any one decomposes to */

/* Decomposes one character (NFD). */
static utf8proc_ssize_t decompose(uint32_t c, utf8proc_int32_t out[DECOMPOSED]) {
    int boundary = UTF8PROC_BOUNDCLASS_START;
    return utf8proc_decompose_char((utf8proc_int32_t)c, out, DECOMPOSED, UTF8PROC_DECOMPOSE,
                                   &boundary);
}

static bool is_vowel_or_final_jamo(uint32_t c) {
    return (c >= 0x1161 && c <= 0x1175) || (c >= 0x11A8 && c <= 0x11C2);
}

/* Marks inert characters: starters whose NFC is the character itself, and which never compose with
 * a character before them. Not inert are jamo, and all characters after the first of some
 * decomposition: they may compose. */
static void mark_inert(mc_classes *classes) {
    utf8proc_int32_t parts[DECOMPOSED];
    for (uint32_t c = 0; c < MC_CLASSES_SIZE; c++) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        utf8proc_ssize_t n = decompose(c, parts);
        bool same = n == 1;
        if (n > 1) {
            utf8proc_int32_t copy[DECOMPOSED];
            for (utf8proc_ssize_t i = 0; i < n && i < DECOMPOSED; i++)
                copy[i] = parts[i];
            same = utf8proc_normalize_utf32(copy, n, UTF8PROC_COMPOSE | UTF8PROC_STABLE) == 1;
            parts[0] = copy[0];
        }
        if (same && parts[0] == (utf8proc_int32_t)c && !is_vowel_or_final_jamo(c) &&
            utf8proc_get_property((utf8proc_int32_t)c)->combining_class == 0) {
            classes->of[c] |= MC_CLASS_INERT;
        }
    }
    for (uint32_t c = 0; c < MC_CLASSES_SIZE; c++) {
        if (c >= 0xAC00 && c <= 0xDFFF) continue; /* Hangul is made of jamo */
        utf8proc_ssize_t n = decompose(c, parts);
        for (utf8proc_ssize_t i = 1; i < n && i < DECOMPOSED; i++) {
            if (parts[i] < MC_CLASSES_SIZE) classes->of[parts[i]] &= (uint8_t)~MC_CLASS_INERT;
        }
    }
}

void mc_classes_init(mc_classes *classes) {
    for (uint32_t c = 0; c < MC_CLASSES_SIZE; c++)
        classes->of[c] = mc_class_of(c);
    mark_inert(classes);
}
