/* Model folders: checking whether a path is one. */
#ifndef IO_FOLDER_H
#define IO_FOLDER_H

#include "base/status.h"

#include <stdbool.h>

/* True if `path` is a folder with a config.json. Sets no error text. */
bool mc_model_folder_is(const char *path);

/* Checks that `path` is a folder with weights and a readable config.json.
 *
 * errors  MICA_ENOENT the path does not exist, or the folder lacks these files: the text lists
 *         them; MICA_EINVAL it is a file; MICA_EIO it cannot be read; MICA_ENOMEM */
mica_status mc_model_folder_check(const char *path);

#endif
