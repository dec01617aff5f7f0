/* The command mica: finds the verb, parses its options, runs it. */
#define _POSIX_C_SOURCE 200809L
#include "console.h"
#include "fault.h"
#include "interrupt.h"
#include "parse.h"
#include "ranks.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int help(int argc, char **argv) {
    if (argc == 0 || strcmp(argv[0], "help") == 0) {
        cli_help(stdout);
        return CLI_DONE;
    }
    const cli_verb_row *row = cli_verb_find(argv[0]);
    if (!row) return cli_verb_unknown(argv[0]);
    cli_options_help(row->verb, row->name, row->summary, stdout);
    return CLI_DONE;
}

static int run_verb(const cli_verb_row *row, int argc, char **argv) {
    const cli_verb *verb = row->verb;
    int count = 0;
    int code = CLI_FAILED;
    void *values = malloc(verb->values_bytes ? verb->values_bytes : 1);
    if (!values) return cli_fail("out of memory");
    switch (cli_options_parse(verb, row->name, argc, argv, values, &count)) {
    case CLI_PARSED:
        code = cli_ranks_begin(row->name, verb->ranks);
        if (code == CLI_DONE) code = verb->run(values, argv, count);
        cli_ranks_end(code);
        break;
    case CLI_PARSED_HELP:
        cli_options_help(verb, row->name, row->summary, stdout);
        code = CLI_DONE;
        break;
    case CLI_PARSE_FAILED:
        code = CLI_USAGE;
        break;
    }
    free(values);
    return code;
}

/* Where a standard stream is closed, a file opened later would take its number, and results or
 * errors would be written into that. Put something there that can do neither. */
static void guard_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) == -1) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv) {
    guard_streams();
    argv = cli_console_init(argv);
    cli_ui_init();
    cli_interrupt_init();
    cli_fault_init();

    int code;
    const char *word = argc > 1 ? argv[1] : "help";
    int rest = argc > 2 ? argc - 2 : 0;
    const cli_verb_row *verb = cli_verb_find(word);
    if (verb)
        code = run_verb(verb, rest, argv + 2);
    else if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        code = help(rest, argv + 2);
    else if (strcmp(word, "--version") == 0 || strcmp(word, "-v") == 0 || strcmp(word, "-V") == 0)
        code = run_verb(cli_verb_find("version"), rest, argv + 2);
    else
        code = cli_verb_unknown(word);
    return cli_flush() || code != CLI_DONE ? code : CLI_FAILED;
}
