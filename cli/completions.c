/* mica completions: scripts by which bash, zsh and fish complete mica's arguments. They are made
 * from the tables of --help. */
#include "report.h"
#include "verb.h"

#include <string.h>

#define SHELLS "bash zsh fish"

/* ---- all shells ---- */

/* Calls `print` for each verb, `help` last. */
static void each_verb(void (*print)(const char *name, const char *summary)) {
    for (size_t i = 0; i < cli_verb_count; i++)
        print(cli_verbs[i].name, cli_verbs[i].summary);
    print("help", CLI_HELP_SUMMARY);
}

/* Prints text for a place between single quotes. `special` bytes get a backslash. A quote ends the
 * quotes, is escaped, and opens them again. */
static void put_quoted(const char *text, const char *special) {
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
            continue;
        }
        if (strchr(special, *text)) putchar('\\');
        putchar(*text);
    }
}

/* ---- bash ---- */

static void bash_name(const char *name, const char *summary) {
    (void)summary;
    printf(" %s", name);
}

/* Prints the case patterns of a verb's options whose argument is of kind `of`. */
static void bash_options(const cli_verb *verb, cli_kind of, const char *action) {
    const cli_option *option;
    bool any = false;
    for (size_t i = 0; (option = cli_option_at(verb, i, NULL)); i++) {
        bool path = option->kind == CLI_FILE || option->kind == CLI_FOLDER;
        if (!cli_option_takes_value(option) || option->kind == CLI_CHOICE ||
            (path ? option->kind : CLI_TEXT) != of)
            continue;
        printf("%s--%s", any ? " | " : "        ", option->name);
        if (option->letter) printf(" | -%c", option->letter);
        any = true;
    }
    if (any) printf(")\n            %s\n            return\n            ;;\n", action);
}

static void bash_choices(const cli_verb *verb) {
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(verb, i, NULL)); i++) {
        if (option->kind != CLI_CHOICE) continue;
        printf("        --%s", option->name);
        if (option->letter) printf(" | -%c", option->letter);
        printf(")\n            _mica_words \"%s\"\n            return\n            ;;\n",
               option->choices);
    }
}

static void bash_verb(const cli_verb_row *row) {
    static const char *const words[] = {[CLI_WORDS_NONE] = "",
                                        [CLI_WORDS_FOLDERS] = "_mica_paths -d",
                                        [CLI_WORDS_FILES] = "_mica_paths -f",
                                        [CLI_WORDS_VERBS] = "_mica_words \"$verbs\"",
                                        [CLI_WORDS_SHELLS] = "_mica_words \"" SHELLS "\""};
    const cli_option *option;
    printf("    %s)\n        options=\"", row->name);
    for (size_t i = 0; (option = cli_option_at(row->verb, i, NULL)); i++) {
        printf("%s--%s", i ? " " : "", option->name);
        if (cli_option_has_no(option)) printf(" --no-%s", option->name);
    }
    puts("\"");
    if (cli_has_options(row->verb)) {
        puts("        case $previous in");
        bash_options(row->verb, CLI_FOLDER, "_mica_paths -d");
        bash_options(row->verb, CLI_FILE, "_mica_paths -f");
        bash_options(row->verb, CLI_TEXT, "COMPREPLY=()");
        bash_choices(row->verb);
        puts("        esac");
    }
    printf("        words='%s'\n        ;;\n", words[row->verb->words]);
}

static void print_bash(void) {
    fputs("# Completions of mica for bash, made by: mica completions bash\n"
          "_mica_words() {\n"
          "    COMPREPLY=($(compgen -W \"$1\" -- \"$current\"))\n"
          "}\n"
          "_mica_paths() {\n"
          "    local IFS=$'\\n'\n"
          "    compopt -o filenames 2>/dev/null\n"
          "    COMPREPLY=($(compgen \"$1\" -- \"$current\"))\n"
          "}\n"
          "_mica() {\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    local options= words= verbs=\"",
          stdout);
    each_verb(bash_name);
    puts("\"\n"
         "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "        _mica_words \"$verbs\"\n"
         "        return\n"
         "    fi\n"
         "    case ${COMP_WORDS[1]} in");
    for (size_t i = 0; i < cli_verb_count; i++)
        bash_verb(&cli_verbs[i]);
    puts("    help)\n"
         "        words='_mica_words \"$verbs\"'\n"
         "        ;;\n"
         "    esac\n"
         "    case $current in\n"
         "    -*) _mica_words \"$options\" ;;\n"
         "    *) eval \"$words\" ;;\n"
         "    esac\n"
         "}\n"
         "complete -F _mica mica");
}

/* ---- zsh ---- */

static void zsh_name(const char *name, const char *summary) {
    printf("        '%s:", name);
    put_quoted(summary, ":\\");
    puts("'");
}

static void zsh_value(const cli_option *option) {
    if (option->kind == CLI_CHOICE)
        printf(":(%s)", option->choices);
    else if (option->kind == CLI_FOLDER)
        fputs(":_directories", stdout);
    else
        fputs(option->kind == CLI_FILE ? ":_files" : ": ", stdout);
}

static void zsh_option(const cli_option *option) {
    const char *after = cli_option_takes_value(option) ? "=" : "";
    bool repeats = option->kind == CLI_TEXTS || option->kind == CLI_BIASES;
    if (option->letter)
        printf(" \\\n            '(-%c --%s)'{-%c%s,--%s%s}'[", option->letter, option->name,
               option->letter, cli_option_takes_value(option) ? "+" : "", option->name, after);
    else
        printf(" \\\n            '%s--%s%s[", repeats ? "*" : "", option->name, after);
    put_quoted(option->help, "[]:\\");
    putchar(']');
    if (cli_option_takes_value(option)) {
        putchar(':');
        put_quoted(option->placeholder, ":\\");
        zsh_value(option);
    }
    putchar('\'');
    if (cli_option_has_no(option)) printf(" \\\n            '--no-%s'", option->name);
}

static void zsh_verb(const cli_verb_row *row) {
    static const char *const words[] = {[CLI_WORDS_NONE] = NULL,
                                        [CLI_WORDS_FOLDERS] = "*:folder:_directories",
                                        [CLI_WORDS_FILES] = "*:file:_files",
                                        [CLI_WORDS_VERBS] = "1:command:_mica_verbs",
                                        [CLI_WORDS_SHELLS] = "1:shell:(" SHELLS ")"};
    const cli_option *option;
    printf("    %s)\n        _arguments", row->name);
    for (size_t i = 0; (option = cli_option_at(row->verb, i, NULL)); i++)
        zsh_option(option);
    if (words[row->verb->words]) printf(" \\\n            '%s'", words[row->verb->words]);
    puts("\n        ;;");
}

static void print_zsh(void) {
    puts("#compdef mica\n"
         "# Completions of mica for zsh, made by: mica completions zsh\n"
         "_mica_verbs() {\n"
         "    local -a verbs=(");
    each_verb(zsh_name);
    puts("    )\n"
         "    _describe command verbs\n"
         "}\n"
         "_mica() {\n"
         "    if ((CURRENT == 2)); then\n"
         "        _mica_verbs\n"
         "        return\n"
         "    fi\n"
         "    shift words\n"
         "    ((CURRENT--))\n"
         "    case $words[1] in");
    for (size_t i = 0; i < cli_verb_count; i++)
        zsh_verb(&cli_verbs[i]);
    puts("    help)\n"
         "        _arguments '1:command:_mica_verbs'\n"
         "        ;;\n"
         "    esac\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _mica ]; then\n"
         "    _mica \"$@\"\n"
         "else\n"
         "    compdef _mica mica\n"
         "fi");
}

/* ---- fish ---- */

static void fish_name(const char *name, const char *summary) {
    printf("complete -c mica -n __fish_use_subcommand -a %s -d '", name);
    put_quoted(summary, "\\");
    puts("'");
}

static void fish_verb(const cli_verb_row *row) {
    static const char *const words[] = {[CLI_WORDS_NONE] = NULL,
                                        [CLI_WORDS_FOLDERS] = "-a '(__fish_complete_directories)'",
                                        [CLI_WORDS_FILES] = "-F",
                                        [CLI_WORDS_VERBS] = "-a '(mica_verbs)'",
                                        [CLI_WORDS_SHELLS] = "-a '" SHELLS "'"};
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(row->verb, i, NULL)); i++) {
        printf("complete -c mica -n '__fish_seen_subcommand_from %s' -l %s", row->name,
               option->name);
        if (option->letter) printf(" -s %c", option->letter);
        if (option->kind == CLI_FILE)
            fputs(" -r -F", stdout);
        else if (option->kind == CLI_CHOICE)
            printf(" -x -a '%s'", option->choices);
        else if (cli_option_takes_value(option))
            fputs(option->kind == CLI_FOLDER ? " -x -a '(__fish_complete_directories)'" : " -x",
                  stdout);
        fputs(" -d '", stdout);
        put_quoted(option->help, "\\");
        puts("'");
        if (cli_option_has_no(option))
            printf("complete -c mica -n '__fish_seen_subcommand_from %s' -l no-%s\n", row->name,
                   option->name);
    }
    if (words[row->verb->words])
        printf("complete -c mica -n '__fish_seen_subcommand_from %s' %s\n", row->name,
               words[row->verb->words]);
}

static void print_fish(void) {
    fputs("# Completions of mica for fish, made by: mica completions fish\n"
          "function mica_verbs\n"
          "    string split ' ' --",
          stdout);
    each_verb(bash_name);
    puts("\nend\n"
         "complete -c mica -f");
    each_verb(fish_name);
    for (size_t i = 0; i < cli_verb_count; i++)
        fish_verb(&cli_verbs[i]);
    puts("complete -c mica -n '__fish_seen_subcommand_from help' -a '(mica_verbs)'");
}

static int run(const void *values, char **args, int count) {
    static const char *const names[] = {"bash", "zsh", "fish"};
    static void (*const print[])(void) = {print_bash, print_zsh, print_fish};
    (void)values;
    if (count == 0) return cli_usage("completions", "completions needs a shell: bash, zsh or fish");
    for (size_t i = 0; i < CLI_COUNT(names); i++) {
        if (strcmp(args[0], names[i]) != 0) continue;
        print[i]();
        return CLI_DONE;
    }
    return cli_usage("completions", "'%s' is not one of bash, zsh and fish", args[0]);
}

const cli_verb cli_verb_completions = {
    .synopsis = "SHELL",
    .details = "Prints a script by which SHELL (bash, zsh or fish) completes mica's commands,\n"
               "options, files and folders. An installed mica has these scripts already.\n",
    .examples = "  source <(mica completions bash)\n"
                "  mica completions fish > ~/.config/fish/completions/mica.fish\n",
    .max_args = 1,
    .words = CLI_WORDS_SHELLS,
    .run = run,
};
