/* The verbs of the program. */
#ifndef CLI_VERB_H
#define CLI_VERB_H

#include "options.h"

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

/* The summary of `mica help`, which is not in the list. */
#define CLI_HELP_SUMMARY "print this list, or the help of a command: mica help chat"

/** The row of a name; NULL: there is none. */
const cli_verb_row *cli_verb_find(const char *name);

/** Reports that there is no such verb, and names the nearest.  returns CLI_USAGE */
int cli_verb_unknown(const char *name);

#endif
