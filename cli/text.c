#define _POSIX_C_SOURCE 200809L
#include "text.h"

#include "ranks.h"
#include "report.h"
#include "ui.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Makes room for len more bytes and a NUL. */
static bool reserve(cli_text *text, size_t len) {
    if (text->failed) return false;
    if (text->room - text->len > len) return true;
    size_t room = (text->len + len) * 2 + 64;
    char *grown = realloc(text->data, room);
    if (!grown) {
        cli_fail("out of memory");
        text->failed = true;
        return false;
    }
    text->data = grown;
    text->room = room;
    return true;
}

bool cli_text_append(cli_text *text, const char *data, size_t len) {
    if (!reserve(text, len)) return false;
    if (len > 0) memcpy(text->data + text->len, data, len);
    text->len += len;
    text->data[text->len] = '\0';
    return true;
}

bool cli_text_printf(cli_text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0 || !reserve(text, (size_t)len)) return false;
    va_start(args, format);
    vsnprintf(text->data + text->len, (size_t)len + 1, format, args);
    va_end(args);
    text->len += (size_t)len;
    return true;
}

bool cli_text_append_json(cli_text *text, const char *data, size_t len) {
    char escaped[CLI_JSON_ESCAPE];
    size_t escaped_len;
    cli_text_append(text, "\"", 1);
    for (size_t at = 0; at < len && !text->failed;) {
        at += cli_json_escape(data + at, len - at, escaped, &escaped_len);
        cli_text_append(text, escaped, escaped_len);
    }
    return cli_text_append(text, "\"", 1);
}

static bool read_failed(const char *what) {
    cli_fail("cannot read %s: %s", what, strerror(errno));
    return false;
}

bool cli_text_check_length(uint64_t len, cli_text_kind kind, const char *name) {
    static const struct {
        const char *words;
        uint64_t bytes;
    } kinds[] = {
#define TEXT_KIND(name, words, bytes) {words, bytes},
#include "text_kind_list.h"
#undef TEXT_KIND
    };
    char max[CLI_NUMBER];
    if (len <= kinds[kind].bytes) return true;
    cli_fail("%s is too long: %s has at most %s", name, kinds[kind].words,
             cli_format_bytes(kinds[kind].bytes, max));
    return false;
}

static const char mark[] = "\xef\xbb\xbf"; /* U+FEFF */
enum { MARK = 3 };

static bool begins_with(const cli_text *text, const char *bytes, size_t count) {
    return text->len >= count && memcmp(text->data, bytes, count) == 0;
}

static void drop_mark(cli_text *text) {
    if (!begins_with(text, mark, MARK)) return;
    text->len -= MARK;
    memmove(text->data, text->data + MARK, text->len + 1);
}

/* Ends the reading of a text. what: its source. */
static bool accept(cli_text *text, const char *what) {
    if (!cli_text_append(text, "", 0)) return false;
    drop_mark(text);
    if (!begins_with(text, "\xff\xfe", 2) && !begins_with(text, "\xfe\xff", 2)) return true;
    cli_fail("%s is UTF-16: save it as UTF-8", what);
    return false;
}

int cli_text_read_line(cli_text *text, cli_text_kind kind, FILE *in) {
    text->len = 0;
    for (;;) {
        int c = getc(in);
        if (c == EOF && ferror(in)) break;
        if (c == EOF && text->len == 0) return 0;
        char byte = (char)c;
        bool ended = c == EOF || c == '\n';
        if (!cli_text_append(text, &byte, ended ? 0 : 1)) return -1;
        if (!cli_text_check_length(text->len, kind, "a line")) return -1;
        if (ended) drop_mark(text);
        if (ended) return 1;
    }
    read_failed("standard input");
    return -1;
}

/* The size of a file is checked before memory is allocated. */
static bool read_all(cli_text *text, cli_text_kind kind, FILE *in, const char *what) {
    char chunk[65536];
    struct stat info;
    size_t n;
    if (fstat(fileno(in), &info) == 0 && S_ISREG(info.st_mode) &&
        !cli_text_check_length((uint64_t)info.st_size, kind, what))
        return false;
    while ((n = fread(chunk, 1, sizeof chunk, in)) > 0)
        if (!cli_text_check_length(text->len + n, kind, what) || !cli_text_append(text, chunk, n))
            return false;
    if (ferror(in)) return read_failed(what);
    return accept(text, what);
}

/* Gives what rank 0 has read to all ranks. ok: whether it could. */
static bool share(cli_text *text, bool ok) {
    struct {
        uint64_t len, ok;
    } head = {text->len, ok};
    if (!cli_ranks_group()) return ok;
    if (!cli_ranks_share(&head, sizeof head) || !head.ok) return false;
    if (cli_ranks_own() > 0) {
        text->len = 0;
        if (!reserve(text, (size_t)head.len)) return false;
        text->len = (size_t)head.len;
        text->data[text->len] = '\0';
    }
    return cli_ranks_share(text->data, text->len);
}

/* Standard input is rank 0's. */
static bool read_input(cli_text *text, cli_text_kind kind) {
    bool first = cli_ranks_own() == 0;
    return share(text, first && read_all(text, kind, stdin, "standard input"));
}

bool cli_text_read_stdin(cli_text *text, cli_text_kind kind) {
    if (!read_input(text, kind)) return false;
    cli_text_drop_line_feed(text);
    return true;
}

bool cli_text_read_file(cli_text *text, cli_text_kind kind, const char *path) {
    if (strcmp(path, "-") == 0) return read_input(text, kind);
    FILE *in = fopen(path, "rb");
    if (!in) return read_failed(path);
    bool read = read_all(text, kind, in, path);
    fclose(in);
    return read;
}

const char *cli_output_path(const char *path) {
    return strcmp(path, "-") == 0 ? "/dev/fd/1" : path;
}

void cli_text_drop_line_feed(cli_text *text) {
    if (text->len > 0 && text->data[text->len - 1] == '\n') text->data[--text->len] = '\0';
}

bool cli_text_check(const cli_text *text, const char *name) {
    if (!memchr(text->data, '\0', text->len)) return true;
    cli_fail("%s holds a NUL byte", name);
    return false;
}
