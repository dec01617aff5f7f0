#include "base/utf8.h"

/* The beginning of some bytes, read by table 3-7 of the Unicode standard. */
typedef struct sequence {
    size_t want;        /* bytes of the whole character; 0: no character begins with this byte */
    size_t have;        /* bytes that are valid so far, at least 1 */
    uint32_t codepoint; /* set if have == want */
} sequence;

static sequence scan(const char *bytes, size_t n) {
    const unsigned char *p = (const unsigned char *)bytes;
    uint32_t lead = p[0];
    sequence s = {.have = 1};
    if (lead < 0x80) {
        s.want = 1;
        s.codepoint = lead;
        return s;
    }
    if (lead < 0xC2 || lead > 0xF4) return s;
    s.want = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    s.codepoint = lead & (0x7Fu >> s.want);
    /* After four leads the second byte has a smaller range, which excludes overlong forms,
     * surrogates and codepoints > 10FFFF. */
    uint32_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint32_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    while (s.have < s.want && s.have < n && p[s.have] >= low && p[s.have] <= high) {
        s.codepoint = s.codepoint << 6 | (p[s.have] & 0x3Fu);
        s.have++;
        low = 0x80;
        high = 0xBF;
    }
    return s;
}

size_t mc_utf8_decode(const char *bytes, size_t n, uint32_t *codepoint) {
    sequence s = scan(bytes, n);
    if (s.have != s.want) return 0;
    *codepoint = s.codepoint;
    return s.want;
}

size_t mc_utf8_encode(uint32_t codepoint, char out[4]) {
    if (codepoint < 0x80) {
        out[0] = (char)codepoint;
        return 1;
    }
    size_t len = codepoint < 0x800 ? 2 : codepoint < 0x10000 ? 3 : 4;
    for (size_t i = len; --i > 0; codepoint >>= 6) {
        out[i] = (char)(0x80 | (codepoint & 0x3F));
    }
    out[0] = (char)((0xF00u >> len & 0xFF) | codepoint);
    return len;
}

bool mc_utf8_valid(const char *bytes, size_t n) {
    uint32_t codepoint;
    for (size_t i = 0; i < n;) {
        size_t step = mc_utf8_decode(bytes + i, n - i, &codepoint);
        if (step == 0) return false;
        i += step;
    }
    return true;
}

size_t mc_utf8_bad_len(const char *bytes, size_t n) {
    sequence s = scan(bytes, n);
    return s.have == s.want ? 0 : s.have;
}

size_t mc_utf8_unfinished(const char *bytes, size_t n) {
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const char *p = bytes + n - back;
        if (((unsigned char)*p & 0xC0) == 0x80) continue; /* inside a character */
        sequence s = scan(p, back);
        return s.have == back && s.have < s.want ? back : 0;
    }
    return 0;
}
