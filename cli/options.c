#include "options.h"

#include "report.h"
#include "verb.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void *member(const cli_option *option, const void *base) {
    return (char *)(uintptr_t)base + option->offset;
}

/* ---- values ---- */

static bool parse_int(const char **text, int64_t *out) {
    char *end;
    errno = 0;
    long long value = strtoll(*text, &end, 10);
    if (errno || end == *text) return false;
    *text = end;
    *out = value;
    return true;
}

static bool in_range(const cli_option *option, double value, char *why, size_t why_bytes) {
    if (value >= option->min && value <= option->max) return true;
    bool low = value < option->min;
    snprintf(why, why_bytes, "%.15g is %s than %.15g", value, low ? "less" : "more",
             low ? option->min : option->max);
    return false;
}

static bool store_int(const cli_option *option, const char *text, int64_t *out, char *why,
                      size_t why_bytes) {
    const char *end = text;
    if (!parse_int(&end, out) || *end) {
        snprintf(why, why_bytes, "'%s' is not a whole number", text);
        return false;
    }
    return in_range(option, (double)*out, why, why_bytes);
}

static bool store_seed(const char *text, uint64_t *out, char *why, size_t why_bytes) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *end || strchr(text, '-')) {
        snprintf(why, why_bytes, "'%s' is not a whole number of 0 or more", text);
        return false;
    }
    *out = value;
    return true;
}

static bool store_real(const cli_option *option, const char *text, double *out, char *why,
                       size_t why_bytes) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || value != value) {
        snprintf(why, why_bytes, "'%s' is not a number", text);
        return false;
    }
    *out = value;
    return in_range(option, value, why, why_bytes);
}

static bool store_ints(const cli_option *option, const char *text, cli_ints *out, char *why,
                       size_t why_bytes) {
    const char *end = text;
    out->count = 0;
    for (;;) {
        int64_t value;
        if (!parse_int(&end, &value) || (*end && *end != ',')) {
            snprintf(why, why_bytes, "'%s' is not a list of whole numbers such as 1,2,4", text);
            return false;
        }
        if (out->count == CLI_INTS_MAX) {
            snprintf(why, why_bytes, "more than %d numbers", CLI_INTS_MAX);
            return false;
        }
        if (!in_range(option, (double)value, why, why_bytes)) return false;
        out->values[out->count++] = value;
        if (!*end) return true;
        end++;
    }
}

static bool store_flag(const char *text, bool *out, char *why, size_t why_bytes) {
    static const char *const words[] = {"off", "on", "no", "yes", "false", "true", "0", "1"};
    for (size_t i = 0; i < CLI_COUNT(words); i++) {
        if (strcmp(text, words[i]) != 0) continue;
        *out = i % 2 == 1;
        return true;
    }
    snprintf(why, why_bytes, "'%s' is neither on nor off", text);
    return false;
}

static bool store_switch(const char *text, int *out, char *why, size_t why_bytes) {
    bool on = false;
    if (!store_flag(text, &on, why, why_bytes)) return false;
    *out = on ? 1 : -1;
    return true;
}

static bool store_choice(const cli_option *option, const char *text, int64_t *out, char *why,
                         size_t why_bytes) {
    const char *choice = option->choices;
    for (int64_t i = 0; *choice; i++) {
        size_t len = strcspn(choice, " ");
        if (strlen(text) == len && strncmp(choice, text, len) == 0) {
            *out = i;
            return true;
        }
        choice += len;
        choice += strspn(choice, " ");
    }
    snprintf(why, why_bytes, "'%s' is none of: %s", text, option->choices);
    return false;
}

static bool too_many(size_t most, char *why, size_t why_bytes) {
    snprintf(why, why_bytes, "given more than %zu times", most);
    return false;
}

static bool store_texts(const char *text, cli_texts *out, char *why, size_t why_bytes) {
    if (out->count == CLI_TEXTS_MAX) return too_many(CLI_TEXTS_MAX, why, why_bytes);
    out->values[out->count++] = text;
    return true;
}

static bool store_biases(const char *text, cli_biases *out, char *why, size_t why_bytes) {
    const char *end = text;
    char *value_end = NULL;
    int64_t id = -1;
    double bias = 0;
    bool read = parse_int(&end, &id) && *end == '=';
    if (read) bias = strtod(end + 1, &value_end);
    if (!read || value_end == end + 1 || *value_end || bias != bias || id < 0 || id > INT32_MAX) {
        snprintf(why, why_bytes, "'%s' is not ID=VALUE, such as 42=-1.5", text);
        return false;
    }
    if (out->count == CLI_BIASES_MAX) return too_many(CLI_BIASES_MAX, why, why_bytes);
    out->values[out->count++] = (mica_logit_bias){(int32_t)id, (float)bias};
    return true;
}

bool cli_option_store(const cli_option *option, const char *text, void *base, char *why,
                      size_t why_bytes) {
    void *to = member(option, base);
    switch (option->kind) {
    case CLI_FLAG:
        return store_flag(text, to, why, why_bytes);
    case CLI_INT:
        return store_int(option, text, to, why, why_bytes);
    case CLI_SEED:
        return store_seed(text, to, why, why_bytes);
    case CLI_REAL:
        return store_real(option, text, to, why, why_bytes);
    case CLI_TEXT:
    case CLI_FILE:
    case CLI_FOLDER:
        *(const char **)to = text;
        return true;
    case CLI_INTS:
        return store_ints(option, text, to, why, why_bytes);
    case CLI_SWITCH:
        return store_switch(text, to, why, why_bytes);
    case CLI_CHOICE:
        return store_choice(option, text, to, why, why_bytes);
    case CLI_TEXTS:
        return store_texts(text, to, why, why_bytes);
    case CLI_BIASES:
        return store_biases(text, to, why, why_bytes);
    }
    return false;
}

void cli_option_print(const cli_option *option, const void *base, FILE *out) {
    const void *from = member(option, base);
    if (option->kind == CLI_INT) fprintf(out, "%" PRId64, *(const int64_t *)from);
    if (option->kind == CLI_SEED) fprintf(out, "%" PRIu64, *(const uint64_t *)from);
    if (option->kind == CLI_REAL) fprintf(out, "%g", *(const double *)from);
}

/* ---- finding ---- */

enum { LONGEST_NAME = 32, MOST_OPTIONS = 64 };

/* Levenshtein's distance, case ignored; a word too long to be a name is far from all. */
static size_t distance(const char *a, const char *b) {
    size_t na = strlen(a), nb = strlen(b);
    size_t row[LONGEST_NAME + 1];
    if (na > LONGEST_NAME || nb > LONGEST_NAME) return SIZE_MAX;
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t change = diagonal + ((a[i - 1] | 0x20) != (b[j - 1] | 0x20));
            size_t drop = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            diagonal = row[j];
            row[j] = change < drop ? change : drop;
        }
    }
    return row[nb];
}

const char *cli_nearest(const char *word, const char *const *names, size_t count) {
    size_t best = strlen(word) / 3 + 1; /* of three letters one, of six two may be wrong */
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        bool begins = strlen(word) >= 3 && strncmp(names[i], word, strlen(word)) == 0;
        size_t d = begins ? 0 : distance(word, names[i]);
        if (d < best || (d == best && !nearest)) {
            best = d;
            nearest = names[i];
        }
    }
    return nearest;
}

/* Every verb has this one; it is no member of a struct. */
static const cli_option help_option = {
    .name = "help", .letter = 'h', .kind = CLI_FLAG, .help = "print this and exit"};

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

bool cli_option_takes_value(const cli_option *option) {
    return option->kind != CLI_FLAG && option->kind != CLI_SWITCH;
}

bool cli_has_options(const cli_verb *verb) {
    return verb->groups[0].title != NULL;
}

void cli_option_variable(const cli_option *option, char out[CLI_VARIABLE]) {
    snprintf(out, CLI_VARIABLE, "MICA_%s", option->name);
    for (char *c = out; *c; c++) {
        if (*c == '-') *c = '_';
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    }
}

static int unknown_option(const cli_verb *verb, const char *verb_name, const char *name,
                          size_t len) {
    const char *names[MOST_OPTIONS];
    size_t count = 0;
    char word[LONGEST_NAME + 1];
    const cli_option *option;
    while (count < MOST_OPTIONS && (option = cli_option_at(verb, count, NULL)))
        names[count++] = option->name;

    snprintf(word, sizeof word, "%.*s", (int)len, name);
    const char *nearest = cli_nearest(word, names, count);
    if (nearest)
        return cli_usage(verb_name, "%s has no option --%.*s; did you mean --%s?", verb_name,
                         (int)len, name, nearest);
    return cli_usage(verb_name, "%s has no option --%.*s", verb_name, (int)len, name);
}

/* ---- arguments ---- */

typedef struct parser {
    const cli_verb *verb;
    const char *verb_name;
    char *values;
    int argc, next;
    char **argv;
    bool given[MOST_OPTIONS]; /* on the command line */
} parser;

/* Finds an option by its long or its short name, whichever is given. returns NULL: there is none */
static const cli_option *find(const parser *p, const char *name, size_t len, char letter,
                              size_t *index) {
    const cli_option *option;
    for (*index = 0; (option = cli_option_at(p->verb, *index, NULL)); ++*index) {
        if (letter ? option->letter == letter
                   : strlen(option->name) == len && strncmp(option->name, name, len) == 0)
            return option;
    }
    return NULL;
}

/* Stores the value of the index-th option. source: how messages call the option. */
static bool store(parser *p, size_t index, const char *value, const char *source) {
    char why[160];
    size_t offset;
    const cli_option *option = cli_option_at(p->verb, index, &offset);
    if (cli_option_store(option, value, p->values + offset, why, sizeof why)) return true;
    cli_usage(p->verb_name, "%s: %s", source, why);
    return false;
}

/* Takes one option. inline_value: what came with the word itself, or NULL: the next word. */
static cli_parse take(parser *p, size_t index, const char *inline_value) {
    char source[LONGEST_NAME + 3];
    const cli_option *option = cli_option_at(p->verb, index, NULL);
    if (option == &help_option && !inline_value) return CLI_PARSED_HELP;
    bool takes_value = cli_option_takes_value(option);
    if (!takes_value && inline_value) {
        cli_usage(p->verb_name, "--%s takes no value", option->name);
        return CLI_PARSE_FAILED;
    }
    const char *value = takes_value ? inline_value : "on";
    if (!value) {
        if (p->next == p->argc) {
            cli_usage(p->verb_name, "--%s needs a value: --%s %s", option->name, option->name,
                      option->placeholder);
            return CLI_PARSE_FAILED;
        }
        value = p->argv[p->next++];
    }
    p->given[index] = true;
    snprintf(source, sizeof source, "--%s", option->name);
    return store(p, index, value, source) ? CLI_PARSED : CLI_PARSE_FAILED;
}

static cli_parse parse_long(parser *p, const char *word) {
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    size_t index;
    if (find(p, word, len, 0, &index)) return take(p, index, equals ? equals + 1 : NULL);
    if (!equals && strncmp(word, "no-", 3) == 0) {
        const cli_option *option = find(p, word + 3, len - 3, 0, &index);
        if (option && !cli_option_takes_value(option) && option != &help_option) {
            p->given[index] = true;
            return store(p, index, "off", word) ? CLI_PARSED : CLI_PARSE_FAILED;
        }
    }
    unknown_option(p->verb, p->verb_name, word, len);
    return CLI_PARSE_FAILED;
}

static cli_parse parse_short(parser *p, const char *word) {
    size_t index;
    if (find(p, NULL, 0, word[0], &index)) return take(p, index, word[1] ? word + 1 : NULL);
    cli_usage(p->verb_name, "%s has no option -%c; put -- before a text that begins with -",
              p->verb_name, word[0]);
    return CLI_PARSE_FAILED;
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

/* What was not given on the command line. */
static bool store_variables(parser *p) {
    char variable[CLI_VARIABLE];
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(p->verb, i, NULL)); i++) {
        if (p->given[i] || option->own_variable || option == &help_option) continue;
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
            parsed = parse_long(&p, word + 2);
        else
            parsed = parse_short(&p, word + 1);
        if (parsed != CLI_PARSED) return parsed;
    }
    *count = kept;
    if (verb->max_args >= 0 && kept > verb->max_args) {
        cli_usage(verb_name, "%s takes no '%s'%s", verb_name, argv[verb->max_args],
                  verb->max_args > 1 ? "; put quotes around a text of several words" : "");
        return CLI_PARSE_FAILED;
    }
    return store_variables(&p) ? CLI_PARSED : CLI_PARSE_FAILED;
}
