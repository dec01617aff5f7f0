/* Options as data. A verb's tables define its options: arguments and environment variables are
 * parsed by them, `--help`, manual pages and completions are printed from them, and the commands of
 * a chat set values by them.
 *
 * A table describes the members of one struct. Tables that several verbs share (model.h, answer.h)
 * describe a struct that each verb embeds. A group gives that struct's offset in the verb's own
 * one. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "cli.h"

#include <mica/mica.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The kind of an option's value, and the type of the member that holds it. */
typedef enum cli_kind {
    CLI_FLAG,   /* no value, but --no-NAME unsets it; bool */
    CLI_INT,    /* int64_t in [min, max] */
    CLI_SEED,   /* a number, or random; cli_seed */
    CLI_REAL,   /* double in [min, max] */
    CLI_TEXT,   /* const char *, borrowed from the command line or the environment */
    CLI_FILE,   /* the same, a path to a file, for completions */
    CLI_FOLDER, /* a path to a folder, for completions */
    CLI_INTS,   /* cli_ints, each in [min, max]: 1,2,4 */
    CLI_SWITCH, /* --NAME or --no-NAME; int, 1 or -1, 0 for neither; the first of its `choices`
                   stands for 0, the others for CLI_SWITCH_CHOICE and so on: --NAME=CHOICE */
    CLI_CHOICE, /* one of `choices`; int64_t, its index */
    CLI_TEXTS,  /* may be repeated; cli_texts */
    CLI_BIASES  /* ID=VALUE, may be repeated; cli_biases */
} cli_kind;

enum { CLI_SWITCH_CHOICE = 2 };

typedef struct cli_seed {
    uint64_t value;
    bool given; /* false: each answer draws its own seed */
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
    cli_kind kind;           /* a flag needs only name, help and offset */
    const char *placeholder; /* the argument's name in --help */
    const char *initial;     /* the default, parsed as an argument; NULL: zero */
    const char *choices;     /* of a CLI_CHOICE or CLI_SWITCH, separated by blanks */
    double min, max;
    const char *help;
    size_t offset;     /* of the member in the table's struct */
    bool own_variable; /* the environment variable is read elsewhere */
    bool no_variable;  /* there is no environment variable */
} cli_option;

/* A row of a table: the option NAME, of CLI_<KIND>, for a member of the table's struct; then its
 * other members, by name. */
#define CLI_OPTION(KIND, NAME, STRUCT, MEMBER, ...) \
    { .name = NAME, .kind = CLI_##KIND, .offset = offsetof(STRUCT, MEMBER), __VA_ARGS__ }

typedef struct cli_group {
    const char *title; /* the heading in --help */
    const cli_option *options;
    size_t count;
    size_t offset; /* of the table's struct in the verb's struct */
} cli_group;

#define CLI_MAX_GROUPS 7

/* What a verb's arguments are. */
typedef enum cli_words {
    CLI_WORDS_NONE,
    CLI_WORDS_FOLDERS,
    CLI_WORDS_FILES,
    CLI_WORDS_VERBS,
    CLI_WORDS_SHELLS
} cli_words;

enum { CLI_MAX_OPTIONS = 64 }; /* of a verb */

/* What processes do that a launcher has started together (ranks.h). */
typedef enum cli_ranks {
    CLI_RANKS_REFUSED,  /* it runs as one */
    CLI_RANKS_TOGETHER, /* they compute one thing */
    CLI_RANKS_APART     /* each does its part of the work, and knows nothing of the others */
} cli_ranks;

typedef struct cli_verb {
    const char *synopsis; /* the usage line after `mica VERB` */
    const char *details;  /* paragraphs of --help */
    const char *examples; /* lines, each with a line feed */
    int max_args;         /* maximum number of arguments that are not options; -1: any */
    cli_words words;      /* their kind, for completions */
    cli_ranks ranks;      /* what it does where a launcher has started several */
    size_t values_bytes;  /* of the struct that the groups describe */
    size_t given_offset;  /* in that struct, of bool [CLI_MAX_OPTIONS]: whether the command line has
                             given the option of that index; 0: it is not told */
    cli_group groups[CLI_MAX_GROUPS];
    const cli_option *fields; /* [field_count] options that requests to it have as fields, which
                                 is said to who gives one of them on the command line */
    size_t field_count;

    /* values: the verb's struct. args: [count]. Returns an exit code. */
    int (*run)(const void *values, char **args, int count);
} cli_verb;

/* The name of an environment variable, with its NUL. */
#define CLI_VARIABLE 64

/** Writes the name of an option's environment variable: MICA_ and the long name in capitals. */
void cli_option_variable(const cli_option *option, char out[CLI_VARIABLE]);

/** Returns the first option of a verb that has an environment variable; NULL: none has. */
const cli_option *cli_option_with_variable(const cli_verb *verb);

/** Returns the i-th option of a verb, NULL past the end. --help is the last one.
 *
 *  offset  receives the offset of its table's struct in the verb's struct; may be NULL */
const cli_option *cli_option_at(const cli_verb *verb, size_t i, size_t *offset);

/** Finds an option by its long name; NULL if the verb does not have it.
 *
 *  index  receives its index; may be NULL */
const cli_option *cli_option_find(const cli_verb *verb, const char *name, size_t *index);

/** Whether --no-NAME has an effect without environment variables: the option is a switch, or a flag
 *  that is on by default. */
bool cli_option_has_no(const cli_option *option);

/** Whether an option takes a value. */
bool cli_option_takes_value(const cli_option *option);

/** Whether a verb has options besides --help. */
bool cli_has_options(const cli_verb *verb);

/** Parses one value into its member. The value of a flag or switch is on or off. Values of a list
 *  are added to it.
 *
 *  base  the struct of the option's table.
 *  why   receives the reason, such as "'x' is not a number", if it returns false */
bool cli_option_store(const cli_option *option, const char *text, void *base, char *why,
                      size_t why_bytes);

/** Prints a member: numbers, seeds, flags and switches in the form that cli_option_store reads,
 *  texts in quotes, and nothing for other kinds. */
void cli_option_print(const cli_option *option, const void *base, FILE *out);

/** Prints `mica help` at the terminal's width (help.c). */
void cli_help(FILE *out);

/** Prints `mica help VERB` at the terminal's width. */
void cli_options_help(const cli_verb *verb, const char *name, const char *summary, FILE *out);

/** Returns the name that begins with `word`, or is nearest by edit distance; NULL if none is near.
 *
 *  names  [count] */
const char *cli_nearest(const char *word, const char *const *names, size_t count);

#endif
