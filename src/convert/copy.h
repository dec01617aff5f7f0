/* The files of a model besides its config and its weights. */
#ifndef CONVERT_COPY_H
#define CONVERT_COPY_H

#include "base/status.h"

/* Copies the files of a model folder to another: all that lie directly in it, except hidden ones,
 * config.json, and weights of any program; and the folders of the modules that modules.json names,
 * with their weights.
 * errors  MICA_EIO, MICA_ENOENT, MICA_ENOMEM; MICA_EFORMAT modules.json is no JSON */
mica_status mc_copy_model_files(const char *from, const char *to);

#endif
