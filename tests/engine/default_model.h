/* The default model for a group of tests. */
#ifndef ENGINE_DEFAULT_MODEL_H
#define ENGINE_DEFAULT_MODEL_H

#include <mica/model.h>

#include <stdio.h>
#include <stdlib.h>

#include "support/support.h"

static char *default_path;
static mica_model *pebble; /* the default model */

static inline int open_default(void **state) {
    (void)state;
    default_path = test_format("%s/default", test_models_dir());
    mica_status status = mica_model_open(
        default_path, &(mica_model_options){.threads = 2, .arithmetic = MICA_ARITHMETIC_EXACT},
        &pebble);
    if (status != MICA_OK) fprintf(stderr, "%s\n", mica_last_error());
    return status != MICA_OK;
}

/* Twice: the second time there is nothing to close. */
static inline int close_default(void **state) {
    (void)state;
    mica_model_close(&pebble);
    mica_model_close(&pebble);
    free(default_path);
    return 0;
}

#endif
