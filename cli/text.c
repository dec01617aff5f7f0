#include "text.h"

#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool cli_text_append(cli_text *text, const char *data, size_t len) {
    if (text->room - text->len <= len) {
        size_t room = (text->len + len) * 2 + 64;
        char *grown = realloc(text->data, room);
        if (!grown) {
            cli_fail("out of memory");
            return false;
        }
        text->data = grown;
        text->room = room;
    }
    if (len > 0) memcpy(text->data + text->len, data, len);
    text->len += len;
    text->data[text->len] = '\0';
    return true;
}

static bool read_failed(void) {
    cli_fail("cannot read standard input: %s", strerror(errno));
    return false;
}

int cli_text_read_line(cli_text *text, FILE *in) {
    text->len = 0;
    for (;;) {
        int c = getc(in);
        if (c == EOF && ferror(in)) break;
        if (c == EOF && text->len == 0) return 0;
        char byte = (char)c;
        bool ended = c == EOF || c == '\n';
        if (!cli_text_append(text, &byte, ended ? 0 : 1)) return -1;
        if (ended) return 1;
    }
    read_failed();
    return -1;
}

bool cli_text_read_stdin(cli_text *text) {
    char chunk[4096];
    size_t n;
    while ((n = fread(chunk, 1, sizeof chunk, stdin)) > 0)
        if (!cli_text_append(text, chunk, n)) return false;
    if (ferror(stdin)) return read_failed();
    if (!cli_text_append(text, "", 0)) return false;
    if (text->len > 0 && text->data[text->len - 1] == '\n') text->data[--text->len] = '\0';
    return true;
}

bool cli_text_check(const cli_text *text) {
    if (!memchr(text->data, '\0', text->len)) return true;
    cli_fail("standard input holds a NUL byte: a prompt is text");
    return false;
}
