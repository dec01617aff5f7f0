/* Which model a verb works on: the options that tell it, the default model, opening it. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "options.h"

#include <mica/mica.h>

typedef struct cli_model_values {
    const char *model, *adapter;
    int64_t arithmetic; /* of the option's choices: 0 fast, 1 exact */
    int64_t cache;      /* of the option's choices */
    bool no_mmap, prefetch, mlock;
    int64_t threads; /* 0: one a usable core */
    int64_t context; /* 0: the model's own */
} cli_model_values;

/* The table of cli_model_values: all of it, or its first rows, up to the one that is named. */
enum { CLI_MODEL_FOLDER = 1, CLI_MODEL_ADAPTER = 2, CLI_MODEL_LOADING = 7, CLI_MODEL_OPTIONS = 9 };
extern const cli_option cli_model_options[CLI_MODEL_OPTIONS];

/* A paragraph of --help: which model is taken where none is named. */
#define CLI_DEFAULT_MODEL_HELP                                                           \
    "MODEL is a folder that holds config.json, tokenizer.json and *.safetensors.\n"      \
    "Without it mica takes $MICA_MODEL, $MICA_MODELS/default, or the model that comes\n" \
    "with mica.\n"

/** What the options ask for. */
mica_model_options cli_model_get_options(const cli_model_values *values);

/** As --arithmetic has it: "fast" or "exact". */
const char *cli_arithmetic_name(mica_arithmetic arithmetic);

/** Whether path is a folder with a config.json. */
bool cli_is_model(const char *path);

/** The model's folder: the one given as an option or as a word, or the default one.
 *
 *  option, word  either may be NULL, borrowed.
 *  returns       a path that lives as long as both and the program; NULL after it reported an
 *                error, whose exit code is in *code */
const char *cli_model_find(const char *option, const char *word, const char *verb_name, int *code);

/** Opens a model, with a progress bar unless quiet.
 *
 *  returns NULL after it reported the error; freed with mica_model_close */
mica_model *cli_model_open(const char *path, const mica_model_options *options, bool quiet);

/** As cli_model_find, then cli_model_open with the options. */
mica_model *cli_model_open_default(const cli_model_values *values, const char *word,
                                   const char *verb_name, bool quiet, int *code);

/** A session on a model, and its draft model where a folder of one is given. That is opened
 *  with the model's device and, but for the adapter, as the values say.
 *
 *  folder  of the draft model; NULL: none.
 *  draft   receives it; closed after the session.
 *  returns NULL after it reported the error */
mica_session *cli_model_open_session(const mica_model *model, const cli_model_values *values,
                                     const char *folder, bool quiet, mica_model **draft);

/** Splits the words of a verb that takes [MODEL] [TEXT]: of two the first is the model; one is the
 *  text, unless it is a model's folder and no model is given as an option.
 *
 *  text  receives NULL where there is none */
void cli_model_split(const char *option, char **args, int count, const char **model,
                     const char **text);

#endif
