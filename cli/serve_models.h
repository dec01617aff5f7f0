/* The models and adapters that a command line of mica serve names. */
#ifndef CLI_SERVE_MODELS_H
#define CLI_SERVE_MODELS_H

#include "options.h"

typedef struct serve_models {
    const char **names, **folders; /* [count] what requests call the models, and where they are */
    size_t count;
    const char *own_adapter; /* of all of these; NULL: none */
    const char *adapter_names[CLI_TEXTS_MAX], *adapter_folders[CLI_TEXTS_MAX];
    size_t adapter_count;
} serve_models;

/* What options say. */
typedef struct serve_named {
    const char *model, *name; /* --model, --name; NULL: not given */
    bool yes;                 /* download without asking */
} serve_named;

/** Finds the models of words, else the default one, and reads the adapters. Texts are borrowed from
 *  the command line, or live as long as the program.
 *
 *  words     [count]
 *  adapters  NAME=FOLDER, or FOLDER
 *  models    zeroed; freed with serve_models_free, also after an error
 *  returns   an exit code, after it reported what is wrong */
int serve_models_find(const serve_named *named, char **words, int count, const cli_texts *adapters,
                      serve_models *models);

void serve_models_free(serve_models *models);

#endif
