/* Model folders: telling one from what is none. */
#ifndef IO_FOLDER_H
#define IO_FOLDER_H

#include "base/status.h"

#include <stdbool.h>

/* True where `path` is a folder with a config.json: worth opening as a model. Sets no error. */
bool mc_model_folder_is(const char *path);

/* Says why `path` is no model folder.
 *
 * returns MICA_OK where it is a folder with a config.json that can be read, and with weights.
 * errors  MICA_ENOENT it is not there, or is a folder that lacks these: the text lists what is
 *         missing; MICA_EINVAL it is a file; MICA_EIO it cannot be read; MICA_ENOMEM */
mica_status mc_model_folder_check(const char *path);

#endif
