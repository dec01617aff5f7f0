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

bool cli_option_store(const cli_option *option, const char *text, void *base, char *why,
                      size_t why_bytes) {
    void *to = member(option, base);
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)to = true;
        return true;
    case CLI_INT:
        return store_int(option, text, to, why, why_bytes);
    case CLI_SEED:
        return store_seed(text, to, why, why_bytes);
    case CLI_REAL:
        return store_real(option, text, to, why, why_bytes);
    case CLI_TEXT:
        *(const char **)to = text;
        return true;
    case CLI_INTS:
        return store_ints(option, text, to, why, why_bytes);
    }
    return false;
}

void cli_option_print(const cli_option *option, const void *base, FILE *out) {
    const void *from = member(option, base);
    switch (option->kind) {
    case CLI_FLAG:
        fputs(*(const bool *)from ? "on" : "off", out);
        break;
    case CLI_INT:
        fprintf(out, "%" PRId64, *(const int64_t *)from);
        break;
    case CLI_SEED:
        fprintf(out, "%" PRIu64, *(const uint64_t *)from);
        break;
    case CLI_REAL:
        fprintf(out, "%g", *(const double *)from);
        break;
    case CLI_TEXT:
        fputs(*(const char *const *)from ? *(const char *const *)from : "", out);
        break;
    case CLI_INTS: {
        const cli_ints *ints = from;
        for (size_t i = 0; i < ints->count; i++)
            fprintf(out, "%s%" PRId64, i ? "," : "", ints->values[i]);
        break;
    }
    }
}

/* ---- finding ---- */

enum { LONGEST_NAME = 32 };

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

/* The i-th option of a verb, NULL past the end; base receives its struct within values. */
static const cli_option *option_at(const cli_verb *verb, size_t i, void *values, void **base) {
    for (size_t g = 0; g < CLI_MAX_GROUPS && verb->groups[g].title; g++) {
        const cli_group *group = &verb->groups[g];
        if (i < group->count) {
            *base = (char *)values + group->offset;
            return &group->options[i];
        }
        i -= group->count;
    }
    return i == 0 ? &help_option : NULL;
}

static int unknown_option(const cli_verb *verb, const char *verb_name, const char *name,
                          size_t len) {
    enum { MOST = 64 };
    const char *names[MOST];
    size_t count = 0;
    char values[1], word[LONGEST_NAME + 1];
    void *base;
    const cli_option *option;
    while (count < MOST && (option = option_at(verb, count, values, &base)))
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
    void *values;
    int argc, next;
    char **argv;
} parser;

/* Stores one option. inline_value: what came with the word itself, or NULL: the next word. */
static cli_parse take(parser *p, const cli_option *option, void *base, const char *inline_value) {
    char why[160];
    if (option == &help_option && !inline_value) return CLI_PARSED_HELP;
    if (option->kind == CLI_FLAG && inline_value) {
        cli_usage(p->verb_name, "--%s takes no value", option->name);
        return CLI_PARSE_FAILED;
    }
    const char *value = inline_value;
    if (option->kind != CLI_FLAG && !value) {
        if (p->next == p->argc) {
            cli_usage(p->verb_name, "--%s needs a value: --%s %s", option->name, option->name,
                      option->placeholder);
            return CLI_PARSE_FAILED;
        }
        value = p->argv[p->next++];
    }
    if (cli_option_store(option, value, base, why, sizeof why)) return CLI_PARSED;
    cli_usage(p->verb_name, "--%s: %s", option->name, why);
    return CLI_PARSE_FAILED;
}

static cli_parse parse_long(parser *p, const char *word) {
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    const cli_option *option;
    void *base = NULL;
    for (size_t i = 0; (option = option_at(p->verb, i, p->values, &base)); i++)
        if (strlen(option->name) == len && strncmp(option->name, word, len) == 0)
            return take(p, option, base, equals ? equals + 1 : NULL);
    unknown_option(p->verb, p->verb_name, word, len);
    return CLI_PARSE_FAILED;
}

static cli_parse parse_short(parser *p, const char *word) {
    const cli_option *option;
    void *base = NULL;
    for (size_t i = 0; (option = option_at(p->verb, i, p->values, &base)); i++)
        if (option->letter == word[0]) return take(p, option, base, word[1] ? word + 1 : NULL);
    cli_usage(p->verb_name, "%s has no option -%c; put -- before a text that begins with -",
              p->verb_name, word[0]);
    return CLI_PARSE_FAILED;
}

static void store_defaults(const cli_verb *verb, void *values) {
    char why[160];
    void *base = NULL;
    const cli_option *option;
    memset(values, 0, verb->values_bytes);
    for (size_t i = 0; (option = option_at(verb, i, values, &base)); i++)
        if (option->initial) cli_option_store(option, option->initial, base, why, sizeof why);
}

cli_parse cli_options_parse(const cli_verb *verb, const char *verb_name, int argc, char **argv,
                            void *values, int *count) {
    parser p = {verb, verb_name, values, argc, 0, argv};
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
    return CLI_PARSED;
}

/* ---- help ---- */

enum { HELP_COLUMN = 32, HELP_WIDTH = 80 };

/* Prints text wrapped at HELP_WIDTH; the cursor stands at `column`, new lines begin there. */
static void print_wrapped(const char *text, int column, FILE *out) {
    int at = column;
    while (*text) {
        int len = (int)strcspn(text, " ");
        if (at > column && at + 1 + len > HELP_WIDTH) {
            fprintf(out, "\n%*s", column, "");
            at = column;
        } else if (at > column) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", len, text);
        at += len;
        text += len;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_option(const cli_option *option, FILE *out) {
    char names[96], help[400];
    int n = option->letter ? snprintf(names, sizeof names, "  -%c, ", option->letter)
                           : snprintf(names, sizeof names, "      ");
    n += snprintf(names + n, sizeof names - (size_t)n, "--%s%s%s", option->name,
                  option->kind == CLI_FLAG ? "" : " ",
                  option->kind == CLI_FLAG ? "" : option->placeholder);
    fprintf(out, "%-*s", HELP_COLUMN, names);
    if (n >= HELP_COLUMN - 1) fprintf(out, "\n%*s", HELP_COLUMN, "");
    if (option->initial)
        snprintf(help, sizeof help, "%s (default: %s)", option->help, option->initial);
    else
        snprintf(help, sizeof help, "%s", option->help);
    print_wrapped(help, HELP_COLUMN, out);
}

void cli_options_help(const cli_verb *verb, const char *name, const char *summary, FILE *out) {
    fprintf(out, "mica %s: %s\n\nUsage: mica %s [options]%s%s\n\n%s", name, summary, name,
            *verb->synopsis ? " " : "", verb->synopsis, verb->details);
    for (size_t g = 0; g < CLI_MAX_GROUPS && verb->groups[g].title; g++) {
        fprintf(out, "\n%s:\n", verb->groups[g].title);
        for (size_t i = 0; i < verb->groups[g].count; i++)
            print_option(&verb->groups[g].options[i], out);
    }
    fputs("\nHelp:\n", out);
    print_option(&help_option, out);
    if (verb->examples) fprintf(out, "\nExamples:\n%s", verb->examples);
}
