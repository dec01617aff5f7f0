/* Downloading a model, for `mica pull` and wherever a model is named that is not there yet. */
#ifndef CLI_FETCH_H
#define CLI_FETCH_H

#include "options.h"

typedef struct cli_fetch_options { /* zero is what a named model gets */
    cli_texts include;             /* patterns; none: what mica reads */
    const char *revision, *cache;  /* NULL: main, the Hugging Face cache */
    int64_t connections;           /* 0: the library's */
    bool offline, quiet;
    bool ask; /* tells the size, and asks, if there is something to download */
} cli_fetch_options;

/** Whether a text has the form ORG/NAME of a hub's repository, with :QUANTISATION of a GGUF file or
 *  @REVISION behind it or without. */
bool cli_is_repository(const char *name);

/** Downloads a model to the cache, unless it is there, with a progress bar. The first Ctrl-C ends
 *  the download; what has come stays.
 *
 *  name     "org/name" or "org/name@revision". Borrowed.
 *  returns  its folder, made of its GGUF file if the name means one; lives until the program ends.
 *           NULL after it reported an error, whose exit code is in *code */
const char *cli_fetch(const char *name, const cli_fetch_options *options, int *code);

/** Whether a name is that of a GGUF file's model: with a quantisation, or with the usual one. */
bool cli_means_gguf(const char *name);

/** The folder of a repository's revision in the cache, made of its GGUF file if the name means one.
 *  NULL if it is not there; then *code is CLI_DONE, or that of an error that it reported. */
const char *cli_fetch_cached(const char *name, int *code);

#endif
