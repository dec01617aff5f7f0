/* Patterns of names. */
#include <fnmatch.h>

#include <stdbool.h>
#include <stddef.h>

/* Whether a set, at its "[", has the byte. *end: behind its "]"; NULL: it has none. */
static bool is_in(const char *set, unsigned char byte, const char **end) {
    const char *at = set + 1;
    bool negated = *at == '!', found = false;
    at += negated;
    for (const char *first = at; *at && (*at != ']' || at == first); at++) {
        unsigned char low = (unsigned char)*at, high = low;
        if (at[1] == '-' && at[2] && at[2] != ']') {
            high = (unsigned char)at[2];
            at += 2;
        }
        found = found || (low <= byte && byte <= high);
    }
    *end = *at ? at + 1 : NULL;
    return found != negated;
}

/* Whether the pattern's next part is the byte. *next: behind that part. */
static bool is_one(const char *pattern, unsigned char byte, bool path, const char **next) {
    const char *end = NULL;
    *next = pattern + 1;
    if (*pattern == '?') return !(path && byte == '/');
    if (*pattern == '[') {
        bool in = is_in(pattern, byte, &end);
        if (end) *next = end;
        if (end) return in && !(path && byte == '/');
    }
    return (unsigned char)*pattern == byte;
}

int fnmatch(const char *pattern, const char *text, int flags) {
    const char *star = NULL, *from = NULL, *next; /* the last star, and what follows its bytes */
    bool path = (flags & FNM_PATHNAME) != 0;
    while (*text || *pattern) {
        if (*pattern == '*') {
            star = ++pattern;
            from = text;
        } else if (*text && *pattern && is_one(pattern, (unsigned char)*text, path, &next)) {
            pattern = next;
            text++;
        } else if (star && *from && !(path && *from == '/')) {
            text = ++from;
            pattern = star;
        } else {
            return FNM_NOMATCH;
        }
    }
    return 0;
}
