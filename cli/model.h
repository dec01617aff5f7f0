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
    const char *chat_template, *chat_template_file;
    int64_t prefill_chunk; /* 0: the library's */
} cli_model_values;

/* The table of cli_model_values: its first rows, up to the one that is named. CLI_MODEL_OPTIONS is
 * what all that computes takes, CLI_MODEL_CHAT also what puts texts in a chat format, and the last
 * row, CLI_MODEL_SESSION, is for who opens a session. */
enum {
    CLI_MODEL_FOLDER = 1,
    CLI_MODEL_ADAPTER = 2,
    CLI_MODEL_LOADING = 7,
    CLI_MODEL_OPTIONS = 9,
    CLI_MODEL_CHAT = 11,
    CLI_MODEL_SESSION = 12
};
extern const cli_option cli_model_options[CLI_MODEL_SESSION];

/* A paragraph of --help: which model is taken where none is named. */
#define CLI_DEFAULT_MODEL_HELP                                                           \
    "MODEL is a folder that holds config.json, tokenizer.json and *.safetensors, or a\n" \
    "name that mica list shows. Without it mica takes $MICA_MODEL,\n"                    \
    "$MICA_MODELS/default, or the model that comes with mica.\n"

/** What the options ask for. */
mica_model_options cli_model_get_options(const cli_model_values *values);

/** As --arithmetic has it: "fast" or "exact". */
const char *cli_arithmetic_name(mica_arithmetic arithmetic);

/** Whether path is a folder with a config.json. */
bool cli_is_model(const char *path);

enum { CLI_MODEL_PLACES = 2 };

/** The folders that `mica list` looks in and names are found in: NULL, for the Hugging Face cache,
 *  and $MICA_MODELS where that is set.  returns how many */
size_t cli_model_places(const char *out[CLI_MODEL_PLACES]);

/** The model's folder: the one named by an option or a word, or the default one. A name is that of
 *  a folder or one that `mica list` shows (model_find.c).
 *
 *  option, word  either may be NULL, borrowed.
 *  returns       a path that lives as long as both and the program; NULL after it reported an
 *                error, whose exit code is in *code */
const char *cli_model_find(const char *option, const char *word, const char *verb_name, int *code);

/** Opens a model, with a progress bar unless quiet.
 *
 *  returns NULL after it reported the error; freed with mica_model_close */
mica_model *cli_model_open(const char *path, const mica_model_options *options, bool quiet);

/** As cli_model_find, then cli_model_open with the options and the chat template. */
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
 *  text, unless it is a model and no model is given as an option.
 *
 *  text  receives NULL where there is none */
void cli_model_split(const char *option, char **args, int count, const char **model,
                     const char **text);

/** Whether a single word, which cli_model_split took for a text, looks like a model that is not
 *  there: a path, org/name, name:tag. That is reported then. */
bool cli_model_is_missing(const char *word);

#endif
