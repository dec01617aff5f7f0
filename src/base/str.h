/* A view of text: pointer and length, not owned, not NUL-terminated. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct mc_str {
    const char *ptr;
    size_t len;
} mc_str;

#define MC_STR(literal) ((mc_str){(literal), sizeof(literal) - 1})
/* For printf: "%.*s", MC_STR_ARG(s) */
#define MC_STR_ARG(s) (int)(s).len, (s).ptr

static inline mc_str mc_str_of(const char *text) {
    mc_str s = {text, strlen(text)}; /* no compound literal: C++ includes this header */
    return s;
}

static inline bool mc_str_eq(mc_str a, mc_str b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool mc_str_is(mc_str a, const char *text) {
    return mc_str_eq(a, mc_str_of(text));
}

/* What comes from byte `at` on. */
static inline mc_str mc_str_from(mc_str a, size_t at) {
    mc_str rest = {a.ptr + at, a.len - at};
    return rest;
}

static inline bool mc_str_starts(mc_str a, mc_str prefix) {
    return a.len >= prefix.len && (prefix.len == 0 || memcmp(a.ptr, prefix.ptr, prefix.len) == 0);
}

static inline bool mc_str_ends(mc_str a, mc_str suffix) {
    return a.len >= suffix.len &&
           (suffix.len == 0 || memcmp(a.ptr + a.len - suffix.len, suffix.ptr, suffix.len) == 0);
}

#endif
