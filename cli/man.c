/* mica man: prints the manual pages from the tables of --help, as roff, or in a pager. */
#include "alias.h"
#include "pager.h"
#include "ui.h"
#include "verb.h"

#include <mica/mica.h>

#include <string.h>

/* Prints text as roff, escaped so that nothing in it is a request. */
static void put(const char *text) {
    bool line_starts = true;
    for (; *text; text++) {
        if (line_starts && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
        line_starts = *text == '\n';
        switch (*text) {
        case '\\':
            fputs("\\e", stdout);
            break;
        case '-':
            fputs("\\-", stdout);
            break;
        case '\'':
            fputs("\\(aq", stdout);
            break;
        case '`':
            fputs("\\(ga", stdout);
            break;
        case '^':
            fputs("\\(ha", stdout);
            break;
        case '~':
            fputs("\\(ti", stdout);
            break;
        default:
            putchar(*text);
        }
    }
}

/* Prints paragraphs that blank lines separate. */
static void put_paragraphs(const char *text) {
    while (*text) {
        char line[256];
        size_t len = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)len, text);
        if (len > 0) put(line);
        puts(len > 0 ? "" : ".PP");
        text += len + (text[len] == '\n');
    }
}

static void put_title(const char *name) {
    char title[64];
    snprintf(title, sizeof title, "%s", name);
    for (char *c = title; *c; c++)
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    fputs(".TH ", stdout);
    put(title);
    printf(" 1 \"\" \"mica %s\" \"mica\"\n.SH NAME\n", mica_version());
    put(name);
    fputs(" \\- ", stdout);
}

static void put_option(const cli_option *option) {
    fputs(".TP\n", stdout);
    if (option->letter) printf("\\fB\\-%c\\fR, ", option->letter);
    fputs("\\fB", stdout);
    put(cli_option_has_no(option) ? "--[no-]" : "--");
    put(option->name);
    fputs("\\fR", stdout);
    if (option->placeholder) {
        fputs(" \\fI", stdout);
        put(option->placeholder);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    put(option->help);
    if (option->initial) {
        fputs(" (default: ", stdout);
        put(option->initial);
        putchar(')');
    }
    putchar('\n');
}

static void put_options(const cli_verb *verb) {
    size_t count = 0;
    puts(".SH OPTIONS");
    for (size_t g = 0; g < CLI_MAX_GROUPS && verb->groups[g].title; g++) {
        const cli_group *group = &verb->groups[g];
        printf(".SS %s\n", group->title);
        for (size_t i = 0; i < group->count; i++)
            put_option(&group->options[i]);
        count += group->count;
    }
    if (count > 0) puts(".SS Help");
    put_option(cli_option_at(verb, count, NULL));
}

static void put_variables(const cli_verb *verb) {
    char variable[CLI_VARIABLE];
    puts(".SH ENVIRONMENT\nA variable sets an option that the command line does not give, unless\n"
         "it is empty. A flag is on or off.");
    const cli_option *option;
    for (size_t i = 0; cli_option_at(verb, i + 1, NULL); i++) { /* not --help */
        option = cli_option_at(verb, i, NULL);
        if (option->no_variable) continue;
        cli_option_variable(option, variable);
        printf(".TP\n\\fB%s\\fR\n", variable);
        put("--");
        put(option->name);
        putchar('\n');
    }
}

/* Prints other programs' names of the verb's options. */
static void put_aliases(const cli_verb *verb) {
    const cli_alias *alias;
    bool any = false, begun = false;
    for (size_t i = 0; (alias = cli_alias_at(i)); i++) {
        if (!cli_option_find(verb, alias->option, NULL)) continue;
        if (!any)
            puts(".SH OTHER NAMES\nOther programs' names work, too. Underscores stand for dashes.");
        fputs(begun ? ", \\fB" : ".TP\n\\fB", stdout);
        put(alias->name);
        fputs("\\fR", stdout);
        any = true;
        begun = !cli_alias_is_last(i);
        if (begun) continue;
        fputs("\n\\-\\-", stdout);
        put(alias->option);
        putchar('\n');
    }
}

static void put_examples(const char *examples) {
    fputs(".SH EXAMPLES\n.nf\n", stdout);
    put(examples);
    puts(".fi");
}

static void put_verb_page(const cli_verb_row *row) {
    char name[64];
    snprintf(name, sizeof name, "mica-%s", row->name);
    put_title(name);
    put(row->summary);
    printf("\n.SH SYNOPSIS\n\\fBmica %s\\fR [options]", row->name);
    if (*row->verb->synopsis) putchar(' ');
    put(row->verb->synopsis);
    puts("\n.SH DESCRIPTION");
    put_paragraphs(row->verb->details);
    put_options(row->verb);
    if (cli_option_with_variable(row->verb)) put_variables(row->verb);
    put_aliases(row->verb);
    if (row->verb->examples) put_examples(row->verb->examples);
    puts(".SH SEE ALSO\n\\fBmica\\fR(1)");
}

static void put_item(const char *term, const char *text) {
    printf(".TP\n\\fB%s\\fR\n", term);
    put(text);
    putchar('\n');
}

static void put_page(void) {
    const char *group = "";
    put_title("mica");
    puts("run language models kept in the MLX / Hugging Face layout\n.SH SYNOPSIS\n"
         "\\fBmica\\fR \\fICOMMAND\\fR [options] ...\n.SH DESCRIPTION\n"
         "Models are folders that hold config.json, tokenizer.json and *.safetensors.\n"
         "They are used in place, without conversion. Results go to standard output, all\n"
         "else to standard error.\n.SH COMMANDS");
    for (size_t i = 0; i < cli_verb_count; i++) {
        const cli_verb_row *row = &cli_verbs[i];
        if (strcmp(group, row->group) != 0) printf(".SS %s\n", row->group);
        group = row->group;
        printf(".TP\n\\fBmica\\-%s\\fR(1)\n", row->name);
        put(row->summary);
        putchar('\n');
    }
    puts(".SH ENVIRONMENT\nEvery option can also be set in the environment: \\-\\-max\\-tokens as\n"
         "\\fBMICA_MAX_TOKENS\\fR. Options of the command line win.");
    put_item("MICA_MODEL", "folder of the default model");
    put_item("MICA_MODELS", "a folder of models; its folder default is the default model if "
                            "MICA_MODEL is not set");
    put_item("NO_COLOR", "no colours");
    puts(".SH EXIT STATUS");
    put_item("0", "done");
    put_item("1", "failed");
    put_item("2", "wrong usage");
    put_item("130", "interrupted");
    fputs(".SH SEE ALSO\n", stdout);
    for (size_t i = 0; i < cli_verb_count; i++)
        printf("\\fBmica\\-%s\\fR(1)%s\n", cli_verbs[i].name, i + 1 < cli_verb_count ? "," : "");
}

/* What a pager shows at a terminal: the text of --help. */
static int show(const cli_verb_row *row) {
    cli_pager_start();
    if (row)
        cli_options_help(row->verb, row->name, row->summary, stdout);
    else
        cli_help(stdout);
    return cli_pager_end();
}

static int run(const void *values, char **args, int count) {
    (void)values;
    const cli_verb_row *row = count > 0 ? cli_verb_find(args[0]) : NULL;
    if (count > 0 && !row) return cli_verb_unknown(args[0]);
    if (cli_stdout_is_terminal()) return show(row);
    if (row)
        put_verb_page(row);
    else
        put_page();
    return CLI_DONE;
}

const cli_verb cli_verb_man = {
    .synopsis = "[VERB]",
    .details = "Prints the manual page of mica, or of one of its commands, as roff. At a terminal\n"
               "it shows its text instead, by the pager that $MANPAGER or $PAGER names, else by\n"
               "less. An installed mica has all these pages: man mica-chat.\n",
    .examples = "  mica man chat | man -l -\n",
    .max_args = 1,
    .words = CLI_WORDS_VERBS,
    .run = run,
};
