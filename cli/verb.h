/* What a verb is, and the exit codes of the program. */
#ifndef CLI_VERB_H
#define CLI_VERB_H

#include "options.h"

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

#define CLI_MAX_GROUPS 5

/* What the words of a verb are. */
typedef enum cli_words {
    CLI_WORDS_NONE,
    CLI_WORDS_FOLDERS,
    CLI_WORDS_FILES,
    CLI_WORDS_VERBS,
    CLI_WORDS_SHELLS
} cli_words;

struct cli_verb {
    const char *synopsis; /* what follows `mica VERB` in the usage line */
    const char *details;  /* paragraphs of --help */
    const char *examples; /* lines, each with a line feed */
    int max_args;         /* words that are no options; -1: any number */
    cli_words words;      /* what these are, for completions */
    size_t values_bytes;  /* of the struct that the groups describe */
    cli_group groups[CLI_MAX_GROUPS];

    /* values: the verb's struct. args: [count]. Returns an exit code. */
    int (*run)(const void *values, char **args, int count);
};

/* The verbs of verb_list.h. */
#define VERB(name, group, summary) extern const cli_verb cli_verb_##name;
#include "verb_list.h"
#undef VERB

typedef struct cli_verb_row {
    const char *name, *group, *summary;
    const cli_verb *verb;
} cli_verb_row;

/* The rows of verb_list.h (verbs.c). */
extern const cli_verb_row cli_verbs[];
extern const size_t cli_verb_count;

/* What `mica help` is, which is no verb of the list. */
#define CLI_HELP_SUMMARY "this, or what one command does: mica help chat"

/** The row of a name, NULL where there is none. */
const cli_verb_row *cli_verb_find(const char *name);

/** Reports that there is no such verb, and the nearest.  returns CLI_USAGE */
int cli_verb_unknown(const char *name);

#endif
