/* mica help, and mica help VERB: printed from the verb's tables, as wide as the terminal. */
#include "alias.h"
#include "options.h"
#include "print.h"
#include "ui.h"
#include "verb.h"

#include <string.h>

enum { MIN_WIDTH = 20, MAX_WIDTH = 100 };

static int width(FILE *out) {
    int columns = cli_columns(out);
    return columns > MAX_WIDTH ? MAX_WIDTH : columns < MIN_WIDTH ? MIN_WIDTH : columns;
}

/* Prints text up to a blank line or its end, as wide as the terminal. The cursor is at `column`,
 * where new lines begin, too.  returns the text after the blank line */
static const char *print_wrapped(const char *text, int column, FILE *out) {
    int at = column;
    while (*text && strncmp(text, "\n\n", 2) != 0) {
        int len = (int)strcspn(text, " \n");
        if (at > column && at + 1 + len > width(out)) {
            cli_print(out, "\n%*s", column, "");
            at = column;
        } else if (at > column) {
            fputc(' ', out);
            at++;
        }
        cli_print(out, "%.*s", len, text);
        at += len;
        text += len;
        while (*text == ' ' || (*text == '\n' && text[1] != '\n'))
            text++;
    }
    fputc('\n', out);
    return text + strspn(text, "\n");
}

/* Prints a name and its text, which begins at `column`; a longer name has a line of its own. */
static void print_row(const char *name, const char *text, int column, FILE *out) {
    enum { BELOW = 8 };
    if (column > width(out) / 2) column = BELOW;
    int len = cli_print(out, "%s", name);
    cli_print(out, "%s%*s", len + 2 > column ? "\n" : "", len + 2 > column ? column : column - len,
              "");
    print_wrapped(text, column, out);
}

static void print_option(const cli_option *option, FILE *out) {
    enum { COLUMN = 32 };
    char names[96], help[400];
    int n = option->letter ? snprintf(names, sizeof names, "  -%c, ", option->letter)
                           : snprintf(names, sizeof names, "      ");
    n += snprintf(names + n, sizeof names - (size_t)n, "--%s%s%s%s",
                  cli_option_has_no(option) ? "[no-]" : "", option->name,
                  option->placeholder ? " " : "", option->placeholder ? option->placeholder : "");
    if (option->initial)
        snprintf(help, sizeof help, "%s (default: %s)", option->help, option->initial);
    else
        snprintf(help, sizeof help, "%s", option->help);
    print_row(names, help, COLUMN, out);
}

/* How many of a verb's options are set by variables. */
static const char *count_variables(const cli_verb *verb) {
    const cli_option *option;
    size_t with = 0, without = 0;
    for (size_t i = 0; (option = cli_option_at(verb, i, NULL)); i++) {
        if (strcmp(option->name, "help") == 0) continue;
        with += !option->no_variable;
        without += option->no_variable;
    }
    return !without ? "Each option" : with > without ? "Most options" : "Some options";
}

static void print_variables(const cli_verb *verb, FILE *out) {
    char variable[CLI_VARIABLE], text[400];
    const cli_option *option = cli_option_with_variable(verb);
    if (!option) return;
    cli_option_variable(option, variable);
    snprintf(text, sizeof text,
             "%s can also be set in the environment: --%s as %s, a flag as on or off. "
             "Options of the command line win; --no-FLAG unsets a flag there.",
             count_variables(verb), option->name, variable);
    fputc('\n', out);
    print_wrapped(text, 0, out);
}

/* Prints other programs' names of the verb's options: "--n-predict, --predict (--max-tokens)". */
static void print_aliases(const cli_verb *verb, FILE *out) {
    char text[CLI_MAX_ALIASES * CLI_ALIAS_PRINTED] = "Other programs' names work, too:";
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
    snprintf(text + n, sizeof text - n, ". Underscores stand for dashes.");
    fputc('\n', out);
    print_wrapped(text, 0, out);
}

void cli_options_help(const cli_verb *verb, const char *name, const char *summary, FILE *out) {
    size_t count = 0;
    cli_print(out, "mica %s: %s\n\nUsage: mica %s [options]%s%s\n", name, summary, name,
              *verb->synopsis ? " " : "", verb->synopsis);
    for (const char *paragraph = verb->details; *paragraph;) {
        fputc('\n', out);
        paragraph = print_wrapped(paragraph, 0, out);
    }
    for (size_t g = 0; g < CLI_MAX_GROUPS && verb->groups[g].title; g++) {
        cli_print(out, "\n%s:\n", verb->groups[g].title);
        for (size_t i = 0; i < verb->groups[g].count; i++)
            print_option(&verb->groups[g].options[i], out);
        count += verb->groups[g].count;
    }
    fputs("\nHelp:\n", out);
    print_option(cli_option_at(verb, count, NULL), out);
    print_variables(verb, out);
    print_aliases(verb, out);
    if (verb->examples) cli_print(out, "\nExamples:\n%s", verb->examples);
}

static void print_verb(const char *name, const char *summary, FILE *out) {
    enum { COLUMN = 15 };
    char indented[COLUMN + 8];
    snprintf(indented, sizeof indented, "  %s", name);
    print_row(indented, summary, COLUMN, out);
}

void cli_help(FILE *out) {
    char text[160];
    const char *group = "";
    snprintf(text, sizeof text,
             "mica %s runs language models in the MLX / Hugging Face layout, in place.",
             mica_version());
    print_wrapped(text, 0, out);
    fputs("\nUsage: mica COMMAND [options] ...\n", out);
    for (size_t i = 0; i < cli_verb_count; i++) {
        const cli_verb_row *row = &cli_verbs[i];
        if (strcmp(group, row->group) != 0) cli_print(out, "\n%s:\n", row->group);
        group = row->group;
        print_verb(row->name, row->summary, out);
    }
    print_verb("help", CLI_HELP_SUMMARY, out);
    fputs("\nExamples:\n"
          "  mica chat                          talk with the model that comes with mica\n"
          "  mica chat ~/models/gemma-3-1b-it   talk with another model\n"
          "  mica run \"What is curl?\"           print one answer\n"
          "  mica run \"Sum it up\" -f letter.txt  ask about a file\n"
          "  mica show ~/models/gemma-3-1b-it   describe a model, and whether it fits\n\n",
          out);
    print_wrapped("Options can also be set in the environment: --max-tokens as MICA_MAX_TOKENS.", 0,
                  out);
}
