/* The model of a verb: its options, finding it, the default model, opening it. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "options.h"
#include "text.h"

#include <mica/mica.h>

typedef struct cli_model_values {
    const char *model;
    bool yes; /* download a model that is not there without asking */
    const char *adapter;
    const char *device, *engine; /* NULL: the library's choice */
    int64_t gpu_layers;          /* -1: the library's choice */
    int64_t arithmetic;          /* of the option's choices: 0 fast, 1 exact */
    int64_t cache;               /* of the option's choices */
    bool no_mmap, prefetch, mlock;
    int64_t threads;                            /* 0: one per usable core */
    int64_t context;                            /* 0: the model's own */
    int64_t tensor_parallel, pipeline_parallel; /* 0: the library's choice */
    const char *chat_template, *chat_template_file;
    int64_t prefill_chunk; /* 0: the library's */
} cli_model_values;

/* The table of cli_model_values. A verb takes its first rows, up to a count: CLI_MODEL_OPTIONS for
 * verbs that compute, CLI_MODEL_CHAT for those that also use a chat format, CLI_MODEL_SESSION for
 * those that open a session. */
enum {
    CLI_MODEL_FOLDER = 2,
    CLI_MODEL_ADAPTER = 3,
    CLI_MODEL_PLACES_OF_LAYERS = 5,
    CLI_MODEL_LOADING = 11,
    CLI_MODEL_OPTIONS = 13,
    CLI_MODEL_CHAT = 15,
    CLI_MODEL_SESSION = 16
};
extern const cli_option cli_model_options[CLI_MODEL_SESSION];

/* Other rows of it, for verbs that ranks do together. */
enum { CLI_MODEL_RANKS = 2 };
extern const cli_option cli_model_ranks[CLI_MODEL_RANKS];

/* A paragraph of --help: the default model. */
#define CLI_DEFAULT_MODEL_HELP                                                             \
    "MODEL is a folder that holds config.json, tokenizer.json and *.safetensors, a GGUF\n" \
    "file, a name that mica list shows, or ORG/NAME of a hub (mica help pull), as in\n"    \
    "org/name-GGUF:Q4_K_M. The default is $MICA_MODEL, else $MICA_MODELS/default, else\n"  \
    "the model that comes with mica.\n"

/** The library's options for these values. */
mica_model_options cli_model_get_options(const cli_model_values *values);

/** The value of --arithmetic for it: "fast" or "exact". */
const char *cli_arithmetic_name(mica_arithmetic arithmetic);

/** Whether path is a folder with a config.json. */
bool cli_is_model(const char *path);

enum { CLI_MODEL_PLACES = 2 };

/** The folders that `mica list` and the search for a name look in: NULL, which stands for the
 *  Hugging Face cache, and $MICA_MODELS if it is set.  returns how many */
size_t cli_model_places(const char *out[CLI_MODEL_PLACES]);

/** The folder of the model that an option or a word names, else of the default model. A name is a
 *  folder, a name that `mica list` shows (model_find.c), or that of a hub's repository, which is
 *  downloaded after asking.
 *
 *  option, word  either may be NULL. Borrowed.
 *  yes           download without asking
 *  returns       a path that lives as long as both and the program; NULL after it reported an
 *                error, whose exit code is in *code */
const char *cli_model_find(const char *option, const char *word, bool yes, const char *verb_name,
                           int *code);

/** Opens a model, with a progress bar unless quiet.
 *
 *  returns NULL after it reported the error; freed with mica_model_close */
mica_model *cli_model_open(const char *path, const mica_model_options *options, bool quiet);

/** Reports why a model does not open, and what may help. */
void cli_model_report(mica_status status, const char *path, const mica_model_options *options);

/** Reads the text of --chat-template or its file; empty if neither is given.
 *
 *  returns an exit code */
int cli_model_read_template(const cli_model_values *values, const char *verb_name, cli_text *out);

/** As cli_model_find, then cli_model_open with the options and the chat template. */
mica_model *cli_model_open_default(const cli_model_values *values, const char *word,
                                   const char *verb_name, bool quiet, int *code);

/** Opens a session on a model, and a draft model if a folder is given. The draft model has the
 *  model's device and the same options, without the adapter.
 *
 *  folder  of the draft model; NULL: none.
 *  draft   receives the draft model; closed after the session.
 *  returns NULL after it reported the error */
mica_session *cli_model_open_session(const mica_model *model, const cli_model_values *values,
                                     const char *folder, bool quiet, mica_model **draft);

/** Splits the words of a verb that takes [MODEL] [TEXT]. Of two words the first is the model. One
 *  word is the text, unless it is a model and no model is given as an option.
 *
 *  text  receives the text; NULL: there is none */
void cli_model_split(const char *option, char **args, int count, const char **model,
                     const char **text);

/** Whether a single word, which cli_model_split took for a text, looks like a model that does not
 *  exist: a path, org/name, name:tag, and with `bare` any name, such as mistral. If so, that was
 *  reported. */
bool cli_model_is_missing(const char *word, bool bare);

#endif
