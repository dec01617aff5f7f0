#define _POSIX_C_SOURCE 200809L

#include "io/name_pattern.h"

#include "base/alloc.h"

#include <regex.h>
#include <string.h>

/* The length of a pattern is limited because it comes from a file, and its compiled form can be
 * large. */
enum {
    MAX_PATTERN = 256,   /* bytes */
    MAX_TRANSLATION = 12 /* bytes for each byte of a pattern */
};

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_plain(mc_str pattern) {
    for (size_t i = 0; i < pattern.len; i++) {
        char c = pattern.ptr[i];
        if (!is_word(c) && c != '-' && c != '.') return false;
    }
    return true;
}

/* Whether a pattern of literals and dots matches. A dot matches any character. */
static bool plain_matches(mc_str pattern, mc_str name) {
    if (name.len < pattern.len) return false;
    size_t skip = name.len - pattern.len;
    if (skip > 0 && name.ptr[skip - 1] != '.') return false;
    for (size_t i = 0; i < pattern.len; i++)
        if (pattern.ptr[i] != '.' && pattern.ptr[i] != name.ptr[skip + i]) return false;
    return true;
}

/* Translates an escape from Python's to POSIX's spelling; "": not supported. */
static const char *translate_escape(char c, bool in_set, char out[3]) {
    switch (c) {
    case 'd':
        return in_set ? "0-9" : "[0-9]";
    case 'w':
        return in_set ? "a-zA-Z0-9_" : "[a-zA-Z0-9_]";
    case 's':
        return in_set ? " " : "[ ]";
    default:
        break;
    }
    bool special_in_set = c == ']' || c == '[' || c == '^' || c == '-' || c == '\\';
    if (!c || (is_word(c) && c != '_') || (in_set && special_in_set)) return "";
    if (in_set || c == '_')
        memcpy(out, (char[]){c, 0}, 2);
    else
        memcpy(out, (char[]){'\\', c, 0}, 3);
    return out;
}

static mica_status refuse(mc_str pattern, const char *what) {
    return mc_fail(MICA_EUNSUPPORTED, "pattern \"%.*s\": %s are not supported", MC_STR_ARG(pattern),
                   what);
}

static void put(char *out, size_t *len, const char *text) {
    size_t n = strlen(text);
    memcpy(out + *len, text, n + 1);
    *len += n;
}

/* Translates a pattern to an extended POSIX expression: each byte to at most MAX_TRANSLATION. */
static mica_status translate(mc_str pattern, char *out) {
    bool in_set = false;
    size_t len = 0;
    put(out, &len, "^(.*\\.)?(");
    for (size_t i = 0; i < pattern.len; i++) {
        char c = pattern.ptr[i], text[3] = {c, 0, 0};
        const char *add = text;
        bool question = i + 1 < pattern.len && pattern.ptr[i + 1] == '?';
        if (c == '\\') {
            add = translate_escape(++i < pattern.len ? pattern.ptr[i] : 0, in_set, text);
            if (!*add) return refuse(pattern, "such escapes and back references");
        } else if (!c) {
            return refuse(pattern, "zero bytes");
        } else if (in_set) {
            in_set = c != ']';
        } else if (c == '{') {
            return refuse(pattern, "{counts}");
        } else if (c == '(' && question) {
            if (i + 2 >= pattern.len || pattern.ptr[i + 2] != ':')
                return refuse(pattern, "look-around and flags");
            i += 2;
        } else {
            in_set = c == '[';
        }
        put(out, &len, add);
    }
    put(out, &len, ")$");
    return MICA_OK;
}

mica_status mc_name_matches(mc_str pattern, const char *name, bool *matches) {
    char posix[MAX_TRANSLATION * MAX_PATTERN + 16];
    regex_t regex;
    if (is_plain(pattern)) {
        *matches = plain_matches(pattern, mc_str_of(name));
        return MICA_OK;
    }
    if (pattern.len > MAX_PATTERN)
        return mc_fail(MICA_EFORMAT, "pattern \"%.32s...\" is longer than %d bytes", pattern.ptr,
                       MAX_PATTERN);
    MC_TRY(translate(pattern, posix));
    if (mc_alloc_should_fail()) return mc_fail_nomem("a pattern of names");
    int error = regcomp(&regex, posix, REG_EXTENDED | REG_NOSUB);
    if (error == REG_ESPACE) return mc_fail_nomem("a pattern of names");
    if (error)
        return mc_fail(MICA_EFORMAT, "pattern \"%.*s\" is not a valid regular expression",
                       MC_STR_ARG(pattern));
    *matches = regexec(&regex, name, 0, NULL, 0) == 0;
    regfree(&regex);
    return MICA_OK;
}
