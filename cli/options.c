#include "options.h"

#include "alias.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>

/* ---- finding ---- */

enum { MAX_NAME = 32 };

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

/* Finds the option whose name, or whose name in another program, is nearest to a misspelt one.
 * returns its long name without dashes; NULL if none is near */
static const char *nearest_option(const cli_verb *verb, const char *name) {
    const char *names[CLI_MAX_OPTIONS + CLI_MAX_ALIASES], *means[CLI_MAX_OPTIONS + CLI_MAX_ALIASES];
    size_t count = 0;
    const cli_option *option;
    const cli_alias *alias;
    for (; count < CLI_MAX_OPTIONS && (option = cli_option_at(verb, count, NULL)); count++)
        names[count] = means[count] = option->name;
    for (size_t i = 0; (alias = cli_alias_at(i)); i++) {
        if (!cli_option_find(verb, alias->option, NULL)) continue;
        names[count] = alias->name + strspn(alias->name, "-");
        means[count++] = alias->option;
    }
    const char *nearest = cli_nearest(name, names, count);
    for (size_t i = 0; nearest && i < count; i++)
        if (names[i] == nearest) return means[i];
    return NULL;
}

/* Finds the option that requests have as a field, and writes the field's name.  returns false if
 * they have none for it */
static bool find_field(const cli_verb *verb, const char *word, char out[MAX_NAME + 1]) {
    const cli_alias *alias = cli_alias_find(word);
    const char *name = alias ? alias->option : word + strspn(word, "-");
    for (size_t i = 0; i < verb->field_count; i++) {
        const cli_option *option = &verb->fields[i];
        bool letter = name[0] == option->letter && !name[1];
        if (!letter && strcmp(option->name, name) != 0) continue;
        snprintf(out, MAX_NAME + 1, "%s", option->name);
        for (char *c = out; *c; c++)
            if (*c == '-') *c = '_';
        return true;
    }
    return false;
}

/* Reports an option that the verb does not have. word: with its dashes. */
static cli_parse unknown_option(const cli_verb *verb, const char *verb_name, const char *word) {
    char name[MAX_NAME + 1];
    const char *advice = cli_elsewhere(word), *field = find_field(verb, word, name) ? name : NULL;
    const char *nearest = advice || field ? NULL : nearest_option(verb, word + strspn(word, "-"));
    if (field)
        cli_usage(verb_name, "%s has no option %s; requests have it: \"%s\"", verb_name, word,
                  field);
    else if (advice)
        cli_usage(verb_name, "%s has no option %s; %s", verb_name, word, advice);
    else if (nearest)
        cli_usage(verb_name, "%s has no option %s; did you mean --%s?", verb_name, word, nearest);
    else
        cli_usage(verb_name, "%s has no option %s%s", verb_name, word,
                  word[1] == '-' ? "" : "; put -- before a text that begins with -");
    return CLI_PARSE_FAILED;
}

/* ---- arguments ---- */

typedef struct parser {
    const cli_verb *verb;
    const char *verb_name;
    char *values;
    int argc, next;
    char **argv;
    bool given[CLI_MAX_OPTIONS]; /* given on the command line */
} parser;

/* Stores the value of the index-th option. source: the option's name in messages. */
static bool store(parser *p, size_t index, const char *value, const char *source) {
    char why[160];
    size_t offset;
    const cli_option *option = cli_option_at(p->verb, index, &offset);
    if (cli_option_store(option, value, p->values + offset, why, sizeof why)) return true;
    cli_usage(p->verb_name, "%s: %s", source, why);
    return false;
}

/* An option as typed: the word before =, with its dashes, and the value after it. */
typedef struct typed {
    char word[MAX_NAME + 3]; /* cut if too long: no option has such a name */
    const char *value;       /* NULL: none */
} typed;

/* Splits a word at =, and replaces underscores in a long name by dashes. */
static typed split(const char *word) {
    const char *equals = strchr(word, '=');
    typed t = {.value = equals ? equals + 1 : NULL};
    snprintf(t.word, sizeof t.word, "%.*s", equals ? (int)(equals - word) : MAX_NAME + 3, word);
    for (char *c = t.word; t.word[1] == '-' && *c; c++)
        if (*c == '_') *c = '-';
    return t;
}

/* Parses one option. source: the name as typed. inline_value: the value in the same word; NULL: it
 * is the next word. alias: the row of the typed name, or NULL. */
static cli_parse take(parser *p, size_t index, const char *source, const char *inline_value,
                      const cli_alias *alias) {
    char room[32];
    const cli_option *option = cli_option_at(p->verb, index, NULL);
    if (option == &help_option && !inline_value) return CLI_PARSED_HELP;
    bool takes_value = cli_option_takes_value(option);
    if (!takes_value && inline_value) {
        cli_usage(p->verb_name, "--%s takes no value", option->name);
        return CLI_PARSE_FAILED;
    }
    const char *value = takes_value ? inline_value : "on";
    if (!value && p->next == p->argc) {
        cli_usage(p->verb_name, "%s needs a value: %s %s", source, source, option->placeholder);
        return CLI_PARSE_FAILED;
    }
    if (!value) value = p->argv[p->next++];
    const char *ours = alias ? cli_alias_value(alias, value, room, sizeof room) : value;
    if (!ours) {
        cli_alias_values(alias, room, sizeof room);
        cli_usage(p->verb_name, "%s: '%s' is not one of: %s", source, value, room);
        return CLI_PARSE_FAILED;
    }
    p->given[index] = true;
    return store(p, index, ours, source) ? CLI_PARSED : CLI_PARSE_FAILED;
}

static cli_parse parse_long(parser *p, const char *word) {
    typed t = split(word);
    const char *name = t.word + 2;
    const cli_alias *alias = cli_alias_find(t.word);
    size_t index;
    if (cli_option_find(p->verb, name, &index)) return take(p, index, t.word, t.value, NULL);
    if (alias && cli_option_find(p->verb, alias->option, &index))
        return take(p, index, t.word, t.value, alias);
    if (!t.value && strncmp(name, "no-", 3) == 0 && cli_option_find(p->verb, name + 3, &index)) {
        const cli_option *option = cli_option_at(p->verb, index, NULL);
        if (!cli_option_takes_value(option) && option != &help_option) {
            p->given[index] = true;
            return store(p, index, "off", t.word) ? CLI_PARSED : CLI_PARSE_FAILED;
        }
    }
    return unknown_option(p->verb, p->verb_name, t.word);
}

/* Whether the text after an option's letter in the same word can be its value. It can in -n40, but
 * not in -ngl, which is an option of other programs, or in -qn. */
static bool can_follow(const cli_option *option, const char *text) {
    switch (option->kind) {
    case CLI_INT:
    case CLI_INTS:
    case CLI_SEED:
    case CLI_REAL:
        return strspn(text, "+-.") < strlen(text) && strchr("+-.0123456789", text[0]);
    default:
        return cli_option_takes_value(option);
    }
}

/* Finds the option of a word that is a letter, or a letter and a value. */
static bool has_letter(const cli_verb *verb, const char *word, size_t *index) {
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(verb, i, NULL)); i++) {
        if (option->letter != word[1] || (word[2] && !can_follow(option, word + 2))) continue;
        *index = i;
        return true;
    }
    return false;
}

/* Another program's option, or a long name after one dash, is not read as a letter and a value. */
static cli_parse parse_short(parser *p, const char *word) {
    typed t = split(word);
    const char letter[] = {'-', word[1], '\0'};
    const cli_alias *alias = cli_alias_find(t.word);
    size_t index;
    if (alias && cli_option_find(p->verb, alias->option, &index))
        return take(p, index, t.word, t.value, alias);
    bool other = alias || cli_elsewhere(t.word) || cli_option_find(p->verb, t.word + 1, NULL);
    if (!other && has_letter(p->verb, word, &index))
        return take(p, index, letter, word[2] ? word + 2 : NULL, NULL);
    return unknown_option(p->verb, p->verb_name, t.word);
}

static void store_defaults(const cli_verb *verb, char *values) {
    char why[160];
    size_t offset;
    const cli_option *option;
    memset(values, 0, verb->values_bytes);
    for (size_t i = 0; (option = cli_option_at(verb, i, &offset)); i++)
        if (option->initial)
            cli_option_store(option, option->initial, values + offset, why, sizeof why);
}

/* Reads options that were not given on the command line from the environment. */
static bool store_variables(parser *p) {
    char variable[CLI_VARIABLE];
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(p->verb, i, NULL)); i++) {
        if (p->given[i] || option->own_variable || option->no_variable) continue;
        cli_option_variable(option, variable);
        const char *value = getenv(variable);
        if (value && *value && !store(p, i, value, variable)) return false;
    }
    return true;
}

cli_parse cli_options_parse(const cli_verb *verb, const char *verb_name, int argc, char **argv,
                            void *values, int *count) {
    parser p = {.verb = verb, .verb_name = verb_name, .values = values, .argc = argc, .argv = argv};
    int kept = 0;
    bool only_words = false;
    store_defaults(verb, values);
    while (p.next < argc) {
        char *word = argv[p.next++];
        cli_parse parsed = CLI_PARSED;
        if (only_words || word[0] != '-' || !word[1])
            argv[kept++] = word;
        else if (strcmp(word, "--") == 0)
            only_words = true;
        else if (word[1] == '-')
            parsed = parse_long(&p, word);
        else
            parsed = parse_short(&p, word);
        if (parsed != CLI_PARSED) return parsed;
    }
    *count = kept;
    if (verb->given_offset) memcpy(p.values + verb->given_offset, p.given, sizeof p.given);
    if (verb->max_args >= 0 && kept > verb->max_args) {
        cli_usage(verb_name, "%s takes no '%s'%s", verb_name, argv[verb->max_args],
                  verb->max_args > 1 ? "; put quotes around a text of several words" : "");
        return CLI_PARSE_FAILED;
    }
    return store_variables(&p) ? CLI_PARSED : CLI_PARSE_FAILED;
}
