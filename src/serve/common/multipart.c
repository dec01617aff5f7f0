#include "serve/common/multipart.h"

#include <string.h>
#include <strings.h>

enum { MAX_BOUNDARY = 70 };

static bool wrong(mc_failure *failure, const char *what) {
    return mc_failure_set(failure, 400, "invalid_body", NULL,
                          "the body is no multipart/form-data: %s", what);
}

/* The place of a text in another one; NULL: it is not there. */
static const char *find_text(mc_str in, mc_str what) {
    for (const char *at = in.ptr, *end = in.ptr + in.len; (size_t)(end - at) >= what.len; at++) {
        at = memchr(at, what.ptr[0], (size_t)(end - at) - what.len + 1);
        if (!at) return NULL;
        if (memcmp(at, what.ptr, what.len) == 0) return at;
    }
    return NULL;
}

/* Moves a view behind its beginning. */
static mc_str behind(mc_str text, const char *at) {
    return (mc_str){at, text.len - (size_t)(at - text.ptr)};
}

/* Takes a line off a text, without its end. false: there is none. */
static bool take_line(mc_str *text, mc_str *line) {
    const char *end = find_text(*text, MC_STR("\r\n"));
    if (!end) return false;
    *line = (mc_str){text->ptr, (size_t)(end - text->ptr)};
    *text = behind(*text, end + 2);
    return true;
}

/* A parameter in quotes, such as name="file", of a header's value. ptr NULL: there is none. Quotes
 * within it are percent-encoded, as browsers write them, so it ends at the next one. */
static mc_str parameter(mc_str value, const char *name) {
    size_t len = strlen(name);
    for (size_t i = 0; i + len + 2 < value.len; i++) {
        const char *at = value.ptr + i;
        if (*at != ';') continue;
        do
            at++, i++;
        while (i < value.len && *at == ' ');
        if (i + len + 2 > value.len || strncasecmp(at, name, len) != 0 || at[len] != '=' ||
            at[len + 1] != '"')
            continue;
        mc_str rest = behind(value, at + len + 2);
        const char *end = memchr(rest.ptr, '"', rest.len);
        if (end) return (mc_str){rest.ptr, (size_t)(end - rest.ptr)};
    }
    return (mc_str){NULL, 0};
}

/* Reads the headers of a part, up to the empty line. */
static bool read_headers(mc_str *rest, mc_part *part, mc_failure *failure) {
    static const char disposition[] = "Content-Disposition:",
                      encoding[] = "Content-Transfer-Encoding:";
    mc_str line;
    while (take_line(rest, &line)) {
        if (line.len == 0) return part->name.ptr || wrong(failure, "a part has no name");
        if (line.len >= sizeof encoding - 1 &&
            strncasecmp(line.ptr, encoding, sizeof encoding - 1) == 0)
            return wrong(failure, "Content-Transfer-Encoding is not supported");
        if (line.len < sizeof disposition - 1 ||
            strncasecmp(line.ptr, disposition, sizeof disposition - 1) != 0)
            continue;
        part->name = parameter(line, "name");
        part->filename = parameter(line, "filename");
    }
    return wrong(failure, "a part's headers do not end");
}

bool mc_multipart_read(mc_str body, mc_part parts[MC_PARTS], size_t *count, mc_failure *failure) {
    char delimiter[MAX_BOUNDARY + 8] = "\r\n";
    mc_str rest = body, first;
    *count = 0;
    if (!take_line(&rest, &first) || first.len < 3 || first.len > MAX_BOUNDARY + 2 ||
        memcmp(first.ptr, "--", 2) != 0)
        return wrong(failure, "it does not begin with a boundary");
    memcpy(delimiter + 2, first.ptr, first.len);
    mc_str between = {delimiter, first.len + 2};
    for (;;) {
        mc_part part = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
        if (!read_headers(&rest, &part, failure)) return false;
        const char *end = find_text(rest, between);
        if (!end) return wrong(failure, "a part does not end");
        part.content = (mc_str){rest.ptr, (size_t)(end - rest.ptr)};
        if (*count == MC_PARTS) return wrong(failure, "it has more than 16 parts");
        parts[(*count)++] = part;
        rest = behind(rest, end + between.len);
        if (mc_str_starts(rest, MC_STR("--"))) return true;
        if (!mc_str_starts(rest, MC_STR("\r\n"))) return wrong(failure, "a boundary goes on");
        rest = behind(rest, rest.ptr + 2);
    }
}
