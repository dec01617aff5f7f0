/* For tests of conversions: a folder for each, and what they make in it. */
#ifndef CONVERT_SCRATCH_H
#define CONVERT_SCRATCH_H

#include "support/support.h"

#include <stdlib.h>

static char *dir, *made, *file; /* the folder; model and model.gguf in it, which are not there */

static int make_folder(void **state) {
    (void)state;
    dir = test_temp_dir();
    made = test_format("%s/model", dir);
    file = test_format("%s/model.gguf", dir);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    free(made);
    free(file);
    test_temp_dir_remove(dir);
    return 0;
}

#endif
