#include "options.h"

#include <string.h>

/* ---- finding ---- */

enum { MAX_NAME = 48 }; /* letters of a word that can be near another one */

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Edit distance. It ignores case and counts two swapped letters as one edit. A word longer than
 * MAX_NAME is far from all others.  source: optimal string alignment */
static size_t distance(const char *a, const char *b) {
    size_t na = strlen(a), nb = strlen(b);
    size_t rows[3][MAX_NAME + 1]; /* rows for i, i - 1 and i - 2 letters of a, by i % 3 */
    if (na > MAX_NAME || nb > MAX_NAME) return SIZE_MAX;
    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *row = rows[i % 3], *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            bool same = (a[i - 1] | 0x20) == (b[j - 1] | 0x20);
            row[j] = least(above[j - 1] + !same, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}

const char *cli_nearest(const char *word, const char *const *names, size_t count) {
    size_t len = strlen(word);
    size_t allowed = len < 3 ? 0 : len < 6 ? 1 : 2; /* number of wrong letters */
    size_t best = allowed + 1;
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        bool begins = len >= 3 && strncmp(names[i], word, len) == 0;
        size_t d = begins ? 0 : distance(word, names[i]);
        if (d < best) {
            best = d;
            nearest = names[i];
        }
    }
    return nearest;
}

/* All verbs have this option; no struct has a member for it. */
static const cli_option help_option = {.name = "help",
                                       .letter = 'h',
                                       .kind = CLI_FLAG,
                                       .help = "print this help and exit",
                                       .no_variable = true};

const cli_option *cli_option_at(const cli_verb *verb, size_t i, size_t *offset) {
    size_t unused;
    if (!offset) offset = &unused;
    *offset = 0;
    for (size_t g = 0; g < CLI_MAX_GROUPS && verb->groups[g].title; g++) {
        const cli_group *group = &verb->groups[g];
        *offset = group->offset;
        if (i < group->count) return &group->options[i];
        i -= group->count;
    }
    return i == 0 ? &help_option : NULL;
}

const cli_option *cli_option_find(const cli_verb *verb, const char *name, size_t *index) {
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(verb, i, NULL)); i++) {
        if (strcmp(option->name, name) != 0) continue;
        if (index) *index = i;
        return option;
    }
    return NULL;
}

bool cli_option_has_no(const cli_option *option) {
    return option->kind == CLI_SWITCH || (option->kind == CLI_FLAG && option->initial);
}

bool cli_option_takes_value(const cli_option *option) {
    return option->kind != CLI_FLAG && option->kind != CLI_SWITCH;
}

bool cli_has_options(const cli_verb *verb) {
    return verb->groups[0].title != NULL;
}

const cli_option *cli_option_with_variable(const cli_verb *verb) {
    const cli_option *option = cli_option_at(verb, 0, NULL);
    for (size_t i = 1; option && option->no_variable; i++)
        option = cli_option_at(verb, i, NULL);
    return option;
}

void cli_option_variable(const cli_option *option, char out[CLI_VARIABLE]) {
    snprintf(out, CLI_VARIABLE, "MICA_%s", option->name);
    for (char *c = out; *c; c++) {
        if (*c == '-') *c = '_';
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    }
}
