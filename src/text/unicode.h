/* Classes of characters, by utf8proc's Unicode tables.
 *
 * The linked utf8proc decides which characters are assigned. Assigned characters have the same
 * classes in every implementation. Threads: safe. */
#ifndef TEXT_UNICODE_H
#define TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The classes that the well-known split patterns distinguish. */
enum {
    MC_CLASS_OTHER,
    MC_CLASS_LETTER,  /* \p{L} */
    MC_CLASS_NUMBER,  /* \p{N} */
    MC_CLASS_SPACE,   /* \s except CR and LF */
    MC_CLASS_NEWLINE, /* CR, LF */
    MC_CLASS_MASK = 7,
    MC_CLASS_INERT = 8 /* a flag: NFC does not change it, whatever is before it */
};

/* A table of classes, for speed; each tokenizer has at most one. */
enum { MC_CLASSES_SIZE = 0x32400 }; /* characters beyond are rare and not in the table */

typedef struct mc_classes {
    uint8_t of[MC_CLASSES_SIZE];
} mc_classes;

void mc_classes_init(mc_classes *classes);

/* The class of a character, computed without a table and without MC_CLASS_INERT. */
uint8_t mc_class_of(uint32_t codepoint);

static inline uint8_t mc_classes_at(const mc_classes *classes, uint32_t codepoint) {
    return codepoint < MC_CLASSES_SIZE ? classes->of[codepoint] : mc_class_of(codepoint);
}

bool mc_is_letter(uint32_t codepoint);      /* \p{L} */
bool mc_is_number(uint32_t codepoint);      /* \p{N} */
bool mc_is_punctuation(uint32_t codepoint); /* \p{P}, or an ASCII symbol such as '$' */
bool mc_is_mark(uint32_t codepoint);        /* \p{M} */
bool mc_is_nonspacing(uint32_t codepoint);  /* \p{Mn} */
bool mc_is_control(uint32_t codepoint);     /* \p{Cc}, \p{Cf} or \p{Co} */
bool mc_is_word(uint32_t codepoint);        /* \w of UTS 18: alphabetic, mark, Nd, Pc, joiner */
uint32_t mc_lower(uint32_t codepoint);      /* the simple lower-case mapping */

/* Decodes one character of text that is known to be valid UTF-8; returns its length. */
static inline size_t mc_next_char(const char *text, uint32_t *codepoint) {
    const uint8_t *p = (const uint8_t *)text;
    if (p[0] < 0x80) {
        *codepoint = p[0];
        return 1;
    }
    if (p[0] < 0xE0) {
        *codepoint = (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
        return 2;
    }
    if (p[0] < 0xF0) {
        *codepoint = (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
        return 3;
    }
    *codepoint = (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
    return 4;
}

/* Decodes the character that ends where `end` points; begin <= end - 1. Returns its length. */
static inline size_t mc_last_char(const char *begin, const char *end, uint32_t *codepoint) {
    const char *p = end - 1;
    while (p > begin && ((uint8_t)*p & 0xC0) == 0x80)
        p--;
    mc_next_char(p, codepoint);
    return (size_t)(end - p);
}

#endif
