/* The command mica: finds the verb, parses its options, runs it. */
#define _POSIX_C_SOURCE 200809L
#include "interrupt.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *summary;
    const cli_verb *verb;
} verbs[] = {
#define VERB(name, summary) {#name, summary, &cli_verb_##name},
#include "verb_list.h"
#undef VERB
};

enum { NO_VERB = -1 };

static int find_verb(const char *name) {
    for (size_t i = 0; i < CLI_COUNT(verbs); i++)
        if (strcmp(verbs[i].name, name) == 0) return (int)i;
    return NO_VERB;
}

static int unknown_verb(const char *name) {
    const char *names[CLI_COUNT(verbs) + 1] = {"help"};
    for (size_t i = 0; i < CLI_COUNT(verbs); i++)
        names[i + 1] = verbs[i].name;
    const char *nearest = cli_nearest(name, names, CLI_COUNT(names));
    if (nearest)
        return cli_usage("", "there is no command '%s'; did you mean '%s'?", name, nearest);
    return cli_usage("", "there is no command '%s'", name);
}

static int print_help(void) {
    printf("mica %s runs language models kept in the MLX / Hugging Face layout, where they lie.\n"
           "\nUsage: mica COMMAND [options] ...\n\n",
           mica_version());
    for (size_t i = 0; i < CLI_COUNT(verbs); i++)
        printf("  %-10s %s\n", verbs[i].name, verbs[i].summary);
    printf("  %-10s %s\n", "help", "this, or what one command does: mica help chat");
    fputs("\nExamples:\n"
          "  mica chat                          talk with the model that comes with mica\n"
          "  mica chat ~/models/gemma-3-1b-it   talk with another one\n"
          "  mica run \"What is curl?\"           one answer\n"
          "  mica run - < letter.txt            the prompt is a file\n"
          "  mica show ~/models/gemma-3-1b-it   what it is, and whether it fits\n",
          stdout);
    return CLI_DONE;
}

static int help(int argc, char **argv) {
    if (argc == 0) return print_help();
    int i = find_verb(argv[0]);
    if (i == NO_VERB) return strcmp(argv[0], "help") == 0 ? print_help() : unknown_verb(argv[0]);
    cli_options_help(verbs[i].verb, verbs[i].name, verbs[i].summary, stdout);
    return CLI_DONE;
}

static int run_verb(int i, int argc, char **argv) {
    const cli_verb *verb = verbs[i].verb;
    int count = 0;
    int code = CLI_FAILED;
    void *values = malloc(verb->values_bytes ? verb->values_bytes : 1);
    if (!values) return cli_fail("out of memory");
    switch (cli_options_parse(verb, verbs[i].name, argc, argv, values, &count)) {
    case CLI_PARSED:
        code = verb->run(values, argv, count);
        break;
    case CLI_PARSED_HELP:
        cli_options_help(verb, verbs[i].name, verbs[i].summary, stdout);
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
    setlocale(LC_CTYPE, "");
    cli_ui_init();
    cli_interrupt_init();

    int code;
    const char *word = argc > 1 ? argv[1] : "help";
    int rest = argc > 2 ? argc - 2 : 0;
    int verb = find_verb(word);
    if (verb != NO_VERB)
        code = run_verb(verb, rest, argv + 2);
    else if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        code = help(rest, argv + 2);
    else if (strcmp(word, "--version") == 0)
        code = run_verb(find_verb("version"), rest, argv + 2);
    else
        code = unknown_verb(word);
    return cli_flush() || code != CLI_DONE ? code : CLI_FAILED;
}
