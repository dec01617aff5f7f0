#include "parse.h"

#include "alias.h"
#include "report.h"
#include "verb.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 48 };

static bool is_help(const cli_option *option) {
    return strcmp(option->name, "help") == 0;
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
        if (!option->letter || option->letter != word[1] ||
            (word[2] && !can_follow(option, word + 2)))
            continue;
        *index = i;
        return true;
    }
    return false;
}

/* Writes the verbs that have an option, by its own name or another program's: "mica chat and mica
 * run have --system". returns false if none has */
static bool find_verbs(const char *word, char *out, size_t out_bytes) {
    enum { MAX_NAMED = 3 };
    const cli_alias *alias = cli_alias_find(word);
    const char *name = alias ? alias->option : word + strspn(word, "-");
    size_t named = 0, n = 0, index;
    for (size_t i = 0; i < cli_verb_count && named < MAX_NAMED && n < out_bytes; i++) {
        const cli_verb *verb = cli_verbs[i].verb;
        if (word[1] != '-' && !alias && !word[2] && has_letter(verb, word, &index))
            name = cli_option_at(verb, index, NULL)->name;
        if (!cli_option_find(verb, name, NULL)) continue;
        n += (size_t)snprintf(out + n, out_bytes - n, "%smica %s", named > 0 ? ", " : "",
                              cli_verbs[i].name);
        named++;
    }
    if (n < out_bytes && named > 0)
        snprintf(out + n, out_bytes - n, " %s --%s", named > 1 ? "have" : "has", name);
    return named > 0;
}

/* Reports an option that the verb does not have. word: with its dashes. */
static cli_parse unknown_option(const cli_verb *verb, const char *verb_name, const char *word) {
    char name[MAX_NAME + 1], verbs[160];
    const cli_other *other = cli_other_find(word);
    bool is_long = word[1] == '-';
    const char *bare = word + strspn(word, "-");
    const char *nearest = nearest_option(verb, bare);
    if (find_field(verb, word, name))
        cli_usage(verb_name, "%s has no option %s; requests have it: \"%s\"", verb_name, word,
                  name);
    else if (other)
        cli_usage(verb_name, "%s has no option %s; %s", verb_name, word, other->advice);
    else if (!cli_option_find(verb, bare, NULL) && find_verbs(word, verbs, sizeof verbs))
        cli_usage(verb_name, "%s has no option %s; %s", verb_name, word, verbs);
    else if (nearest)
        cli_usage(verb_name, "%s has no option %s; did you mean --%s?", verb_name, word, nearest);
    else
        cli_usage(verb_name, "%s has no option %s%s", verb_name, word,
                  is_long ? "" : "; put -- before a text that begins with -");
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
static cli_parse parse_option(parser *p, size_t index, const char *source, const char *inline_value,
                              const cli_alias *alias) {
    char room[32];
    const cli_option *option = cli_option_at(p->verb, index, NULL);
    if (is_help(option) && !inline_value) return CLI_PARSED_HELP;
    if (is_help(option)) {
        cli_usage(p->verb_name, "--%s takes no value", option->name);
        return CLI_PARSE_FAILED;
    }
    /* Another program's name of a flag may take a value: --reasoning off. */
    bool takes_value = cli_option_takes_value(option) || cli_alias_takes_value(alias);
    const char *value = takes_value || inline_value ? inline_value : "on";
    if (!value && p->next == p->argc) {
        cli_usage(p->verb_name, "%s needs a value: %s %s", source, source,
                  option->placeholder ? option->placeholder : "on|off");
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

/* An option that the verb does not have: it is left out with a note, if it changes no answer, or an
 * error. */
static cli_parse take_other(parser *p, const typed *t) {
    const cli_other *other = cli_other_find(t->word);
    char name[MAX_NAME + 1];
    if (!other || other->kind == CLI_OTHER_REFUSED || find_field(p->verb, t->word, name))
        return unknown_option(p->verb, p->verb_name, t->word);
    const char *next = p->next < p->argc ? p->argv[p->next] : NULL;
    if (!t->value && cli_other_takes(other, next)) {
        if (!next) {
            cli_usage(p->verb_name, "%s needs a value", t->word);
            return CLI_PARSE_FAILED;
        }
        p->next++;
    }
    cli_fail("%s is left out: %s", t->word, other->advice);
    return CLI_PARSED;
}

static cli_parse parse_long(parser *p, const char *word) {
    typed t = split(word);
    const char *name = t.word + 2;
    const cli_alias *alias = cli_alias_find(t.word);
    size_t index;
    if (cli_option_find(p->verb, name, &index))
        return parse_option(p, index, t.word, t.value, NULL);
    if (alias && cli_option_find(p->verb, alias->option, &index))
        return parse_option(p, index, t.word, t.value, alias);
    if (!t.value && strncmp(name, "no-", 3) == 0 && cli_option_find(p->verb, name + 3, &index)) {
        const cli_option *option = cli_option_at(p->verb, index, NULL);
        if (!cli_option_takes_value(option) && !is_help(option)) {
            p->given[index] = true;
            return store(p, index, "off", t.word) ? CLI_PARSED : CLI_PARSE_FAILED;
        }
    }
    return take_other(p, &t);
}

/* Another program's option, or a long name after one dash, is not read as a letter and a value. */
static cli_parse parse_short(parser *p, const char *word) {
    typed t = split(word);
    const char letter[] = {'-', word[1], '\0'};
    const cli_alias *alias = cli_alias_find(t.word);
    size_t index;
    if (alias && cli_option_find(p->verb, alias->option, &index))
        return parse_option(p, index, t.word, t.value, alias);
    bool is_letter = !t.word[2];
    bool other = alias || cli_other_find(t.word) || cli_option_find(p->verb, t.word + 1, NULL);
    if ((is_letter || !other) && has_letter(p->verb, word, &index))
        return parse_option(p, index, letter, word[2] ? word + 2 : NULL, NULL);
    if (is_letter && t.value && has_letter(p->verb, t.word, &index)) /* -n=3 */
        return parse_option(p, index, letter, t.value, NULL);
    return take_other(p, &t);
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
                  cli_option_find(verb, "data", NULL) ? "; if it is the data, put --data before it"
                  : verb->max_args > 1 ? "; put quotes around a text of several words"
                                       : "");
        return CLI_PARSE_FAILED;
    }
    return store_variables(&p) ? CLI_PARSED : CLI_PARSE_FAILED;
}
