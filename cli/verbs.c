#include "alias.h"
#include "report.h"
#include "verb.h"

#include <string.h>

const cli_verb_row cli_verbs[] = {
#define VERB(name, group, summary) {#name, group, summary, &cli_verb_##name},
#include "verb_list.h"
#undef VERB
};

const size_t cli_verb_count = CLI_COUNT(cli_verbs);

const cli_verb_row *cli_verb_find(const char *name) {
    for (size_t i = 0; i < cli_verb_count; i++)
        if (strcmp(cli_verbs[i].name, name) == 0) return &cli_verbs[i];
    return NULL;
}

int cli_verb_unknown(const char *name) {
    const char *names[CLI_COUNT(cli_verbs) + 1] = {"help"};
    for (size_t i = 0; i < cli_verb_count; i++)
        names[i + 1] = cli_verbs[i].name;
    const cli_other *other = cli_other_find(name);
    const char *nearest = cli_nearest(name, names, CLI_COUNT(names));
    if (name[0] == '-') return cli_usage("", "options follow a command, such as mica run %s", name);
    if (other) return cli_usage("", "there is no command '%s'; %s", name, other->advice);
    if (nearest)
        return cli_usage("", "there is no command '%s'; did you mean '%s'?", name, nearest);
    return cli_usage("", "there is no command '%s'", name);
}
