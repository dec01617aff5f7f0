#define _POSIX_C_SOURCE 200809L
#include "lines.h"

#include "interrupt.h"
#include "print.h"
#include "report.h"
#include "state.h"
#include "ui.h"

#include <stdlib.h>
#include <string.h>

void cli_lines_open(cli_lines *lines, cli_completer complete, bool keep) {
    static char history[4096];
    cli_interrupt_keep(cli_stdin_is_terminal());
    /* Unbuffered, because cli_interrupt_wait_input does not see input in a buffer. */
    if (cli_stdin_is_terminal()) setvbuf(stdin, NULL, _IONBF, 0);
    if (cli_stdin_is_terminal() && cli_stderr_is_terminal())
        lines->edit = cli_edit_open(
            keep ? cli_state_path("history", history, sizeof history) : NULL, complete);
}

/* Reads a line from a pipe, or from a terminal without an editor. */
static cli_typed read_plain(cli_lines *lines, bool more) {
    if (cli_stdin_is_terminal()) {
        cli_set_style(CLI_BOLD);
        cli_print(stderr, "%s", more ? "..." : ">");
        cli_set_style(CLI_PLAIN);
        fputc(' ', stderr);
        if (!cli_interrupt_wait_input()) {
            fputc('\n', stderr);
            return CLI_TYPED_INTERRUPT;
        }
    }
    int got = cli_text_read_line(&lines->line, CLI_TEXT_OF_PROMPT, stdin);
    if (cli_stdin_is_terminal()) clearerr(stdin); /* Ctrl-D ends a message or the chat */
    if (got <= 0) return got < 0 ? CLI_TYPED_ERROR : CLI_TYPED_END;
    return cli_text_check(&lines->line, "standard input") ? CLI_TYPED_LINE : CLI_TYPED_ERROR;
}

/* Reads a line into lines->line. more: the line continues a message, which Ctrl-C drops, too. */
static cli_typed read_line(cli_lines *lines, bool more) {
    const char *line;
    cli_typed typed =
        lines->edit ? cli_edit_read(lines->edit, more, &line) : read_plain(lines, more);
    if (typed == CLI_TYPED_LINE && lines->edit) {
        lines->line.len = 0;
        if (!cli_text_append(&lines->line, line, strlen(line))) return CLI_TYPED_ERROR;
    }
    if (typed == CLI_TYPED_LINE && !cli_text_check_length(lines->message.len + lines->line.len,
                                                          CLI_TEXT_OF_PROMPT, "a message"))
        return CLI_TYPED_ERROR;
    return typed == CLI_TYPED_INTERRUPT && more ? CLI_TYPED_CLEAR : typed;
}

static const char quotes[] = "\"\"\"";
enum { QUOTES = 3 };

/* Reads the rest of a quoted message, up to a line that ends in """. `line` is the text after the
 * opening quotes. A line with quotes alone adds no line to the message. */
static cli_typed read_block(cli_lines *lines, const char *line) {
    cli_text *message = &lines->message;
    for (;;) {
        size_t len = strlen(line);
        bool last = len >= QUOTES && strcmp(line + len - QUOTES, quotes) == 0;
        if (!cli_text_append(message, line, last ? len - QUOTES : len)) return CLI_TYPED_ERROR;
        if (last) break;
        if (!cli_text_append(message, "\n", 1)) return CLI_TYPED_ERROR;
        cli_typed typed = read_line(lines, true);
        if (typed == CLI_TYPED_END) {
            cli_fail("a block is not closed: %s is missing", quotes);
            message->len = 0; /* at a terminal the chat continues */
            message->data[0] = '\0';
            return cli_stdin_is_terminal() ? CLI_TYPED_LINE : CLI_TYPED_ERROR;
        }
        if (typed != CLI_TYPED_LINE) return typed;
        line = lines->line.data;
    }
    if (message->len > 0 && message->data[message->len - 1] == '\n')
        message->data[--message->len] = '\0';
    if (message->len > 0 && message->data[0] == '\n')
        memmove(message->data, message->data + 1, message->len--);
    lines->quoted = true;
    return CLI_TYPED_LINE;
}

cli_typed cli_lines_read(cli_lines *lines) {
    cli_text *message = &lines->message;
    message->len = 0;
    lines->quoted = false;
    cli_typed typed = read_line(lines, false);
    if (typed != CLI_TYPED_LINE) return typed;
    const char *start = lines->line.data + strspn(lines->line.data, " \t");
    if (strncmp(start, quotes, QUOTES) == 0) return read_block(lines, start + QUOTES);
    for (;;) {
        size_t len = lines->line.len;
        bool more = len > 0 && lines->line.data[len - 1] == '\\';
        if (!cli_text_append(message, lines->line.data, more ? len - 1 : len))
            return CLI_TYPED_ERROR;
        if (!more) return CLI_TYPED_LINE;
        typed = read_line(lines, true);
        if (typed == CLI_TYPED_END) return CLI_TYPED_LINE;
        if (typed != CLI_TYPED_LINE) return typed;
        if (!cli_text_append(message, "\n", 1)) return CLI_TYPED_ERROR;
    }
}

void cli_lines_close(cli_lines *lines) {
    cli_edit_close(&lines->edit);
    free(lines->line.data);
    free(lines->message.data);
    *lines = (cli_lines){0};
}
