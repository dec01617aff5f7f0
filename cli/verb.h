/* What a verb is, and the exit codes of the program. */
#ifndef CLI_VERB_H
#define CLI_VERB_H

#include "options.h"

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

#define CLI_MAX_GROUPS 4

struct cli_verb {
    const char *synopsis; /* what follows `mica VERB` in the usage line */
    const char *details;  /* paragraphs of --help */
    const char *examples; /* lines, each with a line feed */
    int max_args;         /* words that are no options; -1: any number */
    size_t values_bytes;  /* of the struct that the groups describe */
    cli_group groups[CLI_MAX_GROUPS];

    /* values: the verb's struct. args: [count]. Returns an exit code. */
    int (*run)(const void *values, char **args, int count);
};

/* The verbs of verb_list.h. */
#define VERB(name, summary) extern const cli_verb cli_verb_##name;
#include "verb_list.h"
#undef VERB

#endif
