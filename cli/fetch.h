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

/** Whether a text has the form ORG/NAME or ORG/NAME@REVISION of a hub's repository. */
bool cli_is_repository(const char *name);

/** Downloads a model to the cache, unless it is there, with a progress bar. The first Ctrl-C ends
 *  the download; what has come stays.
 *
 *  name     "org/name" or "org/name@revision". Borrowed.
 *  returns  its folder, which lives until the program ends; NULL after it reported an error, whose
 *           exit code is in *code */
const char *cli_fetch(const char *name, const cli_fetch_options *options, int *code);

/** The folder of a repository's revision in the cache; NULL if it is not there. Reports nothing. */
const char *cli_fetch_cached(const char *name);

#endif
