/* mica help VERB: a verb in words, from its tables. */
#include "alias.h"
#include "options.h"
#include "verb.h"

#include <string.h>

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
    n += snprintf(names + n, sizeof names - (size_t)n, "--%s%s%s%s",
                  option->kind == CLI_SWITCH ? "[no-]" : "", option->name,
                  option->placeholder ? " " : "", option->placeholder ? option->placeholder : "");
    fprintf(out, "%-*s", HELP_COLUMN, names);
    if (n >= HELP_COLUMN - 1) fprintf(out, "\n%*s", HELP_COLUMN, "");
    if (option->initial)
        snprintf(help, sizeof help, "%s (default: %s)", option->help, option->initial);
    else
        snprintf(help, sizeof help, "%s", option->help);
    print_wrapped(help, HELP_COLUMN, out);
}

static void print_variables(const cli_verb *verb, FILE *out) {
    char variable[CLI_VARIABLE], text[400];
    const cli_option *option = cli_option_at(verb, 0, NULL);
    for (size_t i = 1; option->no_variable; i++)
        option = cli_option_at(verb, i, NULL);
    cli_option_variable(option, variable);
    snprintf(text, sizeof text,
             "Each option can also be set in the environment: --%s as %s, a flag as on or off. The "
             "command line wins; --no-FLAG unsets a flag there.",
             option->name, variable);
    fputc('\n', out);
    print_wrapped(text, 0, out);
}

/* What other programs call the verb's options: "--n-predict, --predict (--max-tokens)". */
static void print_aliases(const cli_verb *verb, FILE *out) {
    char text[1000] = "Other programs' names work too:";
    const size_t begins = strlen(text);
    const cli_alias *alias;
    size_t n = begins;
    for (size_t i = 0; (alias = cli_alias_at(i)); i++) {
        if (!cli_option_find(verb, alias->option, NULL)) continue;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s %s", n > begins ? "," : "",
                              alias->name);
        if (cli_alias_is_last(i))
            n += (size_t)snprintf(text + n, sizeof text - n, " (--%s)", alias->option);
    }
    if (n == begins) return;
    snprintf(text + n, sizeof text - n, "; and underscores for dashes.");
    fputc('\n', out);
    print_wrapped(text, 0, out);
}

void cli_options_help(const cli_verb *verb, const char *name, const char *summary, FILE *out) {
    size_t count = 0;
    fprintf(out, "mica %s: %s\n\nUsage: mica %s [options]%s%s\n\n%s", name, summary, name,
            *verb->synopsis ? " " : "", verb->synopsis, verb->details);
    for (size_t g = 0; g < CLI_MAX_GROUPS && verb->groups[g].title; g++) {
        fprintf(out, "\n%s:\n", verb->groups[g].title);
        for (size_t i = 0; i < verb->groups[g].count; i++)
            print_option(&verb->groups[g].options[i], out);
        count += verb->groups[g].count;
    }
    fputs("\nHelp:\n", out);
    print_option(cli_option_at(verb, count, NULL), out);
    if (cli_has_options(verb)) print_variables(verb, out);
    print_aliases(verb, out);
    if (verb->examples) fprintf(out, "\nExamples:\n%s", verb->examples);
}
