#include "text/tokenizer/scan.h"

enum { END = MC_CLASS_MASK }; /* not a class: the end of the text */

/* The class of the character at p and its length. */
static inline uint8_t look(const mc_classes *t, const char *p, const char *end, size_t *n) {
    uint32_t c;
    *n = 0;
    if (p == end) return END;
    *n = mc_next_char(p, &c);
    return mc_classes_at(t, c) & MC_CLASS_MASK;
}

/* The end of a run of characters of one class that starts at p. */
static const char *skip_class(const mc_classes *t, const char *p, const char *end, uint8_t class) {
    size_t n;
    while (look(t, p, end, &n) == class)
        p += n;
    return p;
}

/* The length of 's 't 're 've 'm 'll 'd at p, or 0. */
static size_t contraction(const char *p, const char *end, bool caseless) {
    char fold = caseless ? 0x20 : 0;
    if (*p != '\'' || end - p < 2) return 0;
    char a = (char)(p[1] | fold);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (end - p < 3) return 0;
    char b = (char)(p[2] | fold);
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
    return caseless && p[1] == '\xC5' && p[2] == '\xBF' ? 3 : 0; /* a long s counts as s */
}

/* The length of the piece of white space at p. With `lines` it ends after the last line end, if
 * there is one. Else it is all white space at the end of the text; elsewhere the last character
 * belongs to the next piece. */
static size_t white_space(const mc_classes *t, const char *p, const char *end, bool lines) {
    const char *at = p, *last = p, *line = NULL;
    size_t n;
    for (uint8_t class;
         (class = look(t, at, end, &n)) == MC_CLASS_SPACE || class == MC_CLASS_NEWLINE;) {
        last = at;
        at += n;
        if (class == MC_CLASS_NEWLINE) line = at;
    }
    if (lines && line) return (size_t)(line - p);
    return (size_t)((at == end || last == p ? at : last) - p);
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t scan_gpt2(const mc_classes *t, mc_str text) {
    const char *p = text.ptr, *end = p + text.len, *q = p + (*p == ' ');
    size_t n = contraction(p, end, false);
    if (n) return n;
    uint8_t class = look(t, q, end, &n);
    if (class == MC_CLASS_LETTER || class == MC_CLASS_NUMBER || class == MC_CLASS_OTHER) {
        return (size_t)(skip_class(t, q + n, end, class) - p);
    }
    return white_space(t, p, end, false);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}|
 *  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static inline size_t scan_lines(const mc_classes *t, mc_str text, int digits) {
    const char *p = text.ptr, *end = p + text.len;
    size_t n = contraction(p, end, true), next;
    if (n) return n;
    uint8_t class = look(t, p, end, &n);
    if (class == MC_CLASS_LETTER) return (size_t)(skip_class(t, p + n, end, class) - p);
    if (class == MC_CLASS_NUMBER) {
        const char *q = p + n;
        while (--digits > 0 && look(t, q, end, &n) == MC_CLASS_NUMBER)
            q += n;
        return (size_t)(q - p);
    }
    uint8_t second = look(t, p + n, end, &next);
    if (class != MC_CLASS_NEWLINE && second == MC_CLASS_LETTER) {
        return (size_t)(skip_class(t, p + n, end, MC_CLASS_LETTER) - p);
    }
    if (class == MC_CLASS_OTHER || (*p == ' ' && second == MC_CLASS_OTHER)) {
        return (size_t)(skip_class(t, skip_class(t, p + n, end, MC_CLASS_OTHER), end,
                                   MC_CLASS_NEWLINE) -
                        p);
    }
    return white_space(t, p, end, true);
}

static size_t scan_llama3(const mc_classes *t, mc_str text) {
    return scan_lines(t, text, 3);
}

static size_t scan_qwen2(const mc_classes *t, mc_str text) {
    return scan_lines(t, text, 1);
}

static const struct {
    const char *pattern;
    mc_scan scan;
} known[] = {
    {MC_SCAN_GPT2, scan_gpt2},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     scan_llama3},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     scan_qwen2},
};

mc_scan mc_scan_find(mc_str pattern) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (mc_str_is(pattern, known[i].pattern)) return known[i].scan;
    }
    return NULL;
}
