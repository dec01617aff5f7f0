/* Options as data. A verb's tables are all there is to know about its options: arguments and
 * environment variables are parsed from them, `--help`, manual pages and completions are printed
 * from them, and the commands of a chat set values by them.
 *
 * A table describes the members of one struct. Tables that several verbs share (model.h, answer.h)
 * describe a struct that each verb embeds; a group says where in the verb's own struct that is. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "cli.h"

#include <mica/mica.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What an option's argument is, and the type of the member that keeps it. */
typedef enum cli_kind {
    CLI_FLAG,   /* no argument, but --no-NAME unsets it; bool */
    CLI_INT,    /* int64_t in [min, max] */
    CLI_SEED,   /* a number, or random; cli_seed */
    CLI_REAL,   /* double in [min, max] */
    CLI_TEXT,   /* const char *, borrowed from the command line or the environment */
    CLI_FILE,   /* the same, a path; told apart for completions */
    CLI_FOLDER, /* the same */
    CLI_INTS,   /* cli_ints, each in [min, max]: 1,2,4 */
    CLI_SWITCH, /* --NAME or --no-NAME; int, 1 or -1, 0 for neither */
    CLI_CHOICE, /* one of choices; int64_t, its index */
    CLI_TEXTS,  /* given any number of times; cli_texts */
    CLI_BIASES  /* the same, ID=VALUE; cli_biases */
} cli_kind;

typedef struct cli_seed {
    uint64_t value;
    bool given; /* else each answer has one of its own */
} cli_seed;

#define CLI_INTS_MAX 16
typedef struct cli_ints {
    int64_t values[CLI_INTS_MAX];
    size_t count;
} cli_ints;

#define CLI_TEXTS_MAX 64
typedef struct cli_texts {
    const char *values[CLI_TEXTS_MAX]; /* borrowed as CLI_TEXT is */
    size_t count;
} cli_texts;

#define CLI_BIASES_MAX 64
typedef struct cli_biases {
    mica_logit_bias values[CLI_BIASES_MAX];
    size_t count;
} cli_biases;

typedef struct cli_option {
    const char *name;        /* the long name, without its dashes */
    char letter;             /* the short name, 0 for none */
    cli_kind kind;           /* a flag needs no more than help and offset of the rest */
    const char *placeholder; /* the argument's name in --help */
    const char *initial;     /* the default, parsed as an argument; NULL: zero */
    const char *choices;     /* of a CLI_CHOICE, with blanks between */
    double min, max;
    const char *help;
    size_t offset;     /* of the member in the table's struct */
    bool own_variable; /* who reads the member also reads the environment variable */
    bool no_variable;  /* there is none */
} cli_option;

typedef struct cli_group {
    const char *title; /* the heading in --help */
    const cli_option *options;
    size_t count;
    size_t offset; /* of the table's struct in the verb's struct */
} cli_group;

#define CLI_MAX_GROUPS 5

/* What the words of a verb are. */
typedef enum cli_words {
    CLI_WORDS_NONE,
    CLI_WORDS_FOLDERS,
    CLI_WORDS_FILES,
    CLI_WORDS_VERBS,
    CLI_WORDS_SHELLS
} cli_words;

typedef struct cli_verb {
    const char *synopsis; /* what follows `mica VERB` in the usage line */
    const char *details;  /* paragraphs of --help */
    const char *examples; /* lines, each with a line feed */
    int max_args;         /* words that are no options; -1: any number */
    cli_words words;      /* what these are, for completions */
    size_t values_bytes;  /* of the struct that the groups describe */
    cli_group groups[CLI_MAX_GROUPS];

    /* values: the verb's struct. args: [count]. Returns an exit code. */
    int (*run)(const void *values, char **args, int count);
} cli_verb;

/* The name of an environment variable, with its NUL. */
#define CLI_VARIABLE 64

/** Writes the name of the environment variable of an option: MICA_ and its long name. */
void cli_option_variable(const cli_option *option, char out[CLI_VARIABLE]);

/** The i-th option of a verb, --help being the last, NULL past the end.
 *
 *  offset  receives where its table's struct is in the verb's struct; may be NULL */
const cli_option *cli_option_at(const cli_verb *verb, size_t i, size_t *offset);

/** The option of that long name, NULL where the verb has none. index: receives its place; may be
 *  NULL. */
const cli_option *cli_option_find(const cli_verb *verb, const char *name, size_t *index);

/** Whether --no-NAME is of use without the environment: a switch, a flag that is on by itself. */
bool cli_option_has_no(const cli_option *option);

/** Whether an option is followed by a value. */
bool cli_option_takes_value(const cli_option *option);

/** Whether a verb has options other than --help. */
bool cli_has_options(const cli_verb *verb);

typedef enum cli_parse { CLI_PARSED, CLI_PARSED_HELP, CLI_PARSE_FAILED } cli_parse;

/** Parses a verb's arguments: `--name value`, `--name=value`, `-n value`, `-nvalue`, `--no-flag`,
 *  in any order with what is not an option; after `--` nothing is an option. What is not given
 *  there is taken from the environment, an empty variable being none.
 *
 *  argv    [argc] the words after the verb. What is not an option is moved to its front.
 *  values  the verb's struct; receives defaults, then what was given.
 *  count   receives how many words are at the front of argv.
 *  returns CLI_PARSE_FAILED after it reported a usage error; CLI_PARSED_HELP where --help was
 *          given. */
cli_parse cli_options_parse(const cli_verb *verb, const char *verb_name, int argc, char **argv,
                            void *values, int *count);

/** Parses one argument into its member; that of a flag or switch is on or off. What may be given
 *  several times is added to the member.
 *
 *  base    the struct of the option's table.
 *  why     receives the reason, such as "'x' is not a number", where it returns false. */
bool cli_option_store(const cli_option *option, const char *text, void *base, char *why,
                      size_t why_bytes);

/** Prints a member: numbers, seeds, flags and switches as cli_option_store reads them, texts in
 *  quotes; nothing for others. */
void cli_option_print(const cli_option *option, const void *base, FILE *out);

/** Prints `mica help`, as wide as the terminal (help.c). */
void cli_help(FILE *out);

/** Prints `mica help VERB`, the same. */
void cli_options_help(const cli_verb *verb, const char *name, const char *summary, FILE *out);

/** The name that begins with word or is nearest by edit distance, NULL where none is near.
 *
 *  names  [count] */
const char *cli_nearest(const char *word, const char *const *names, size_t count);

#endif
