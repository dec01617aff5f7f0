/* What a path is that is no model folder, and what to do about it.
 *
 * People name what a download, another program or a cache left them: a GGUF file, an adapter, a
 * pointer of Git LFS, a folder of models. docs/errors.md lists what is recognised; a test makes
 * each of them and the table (tools/check_errors_docs).
 *
 * Threads: any. */
#ifndef IO_RECOGNISE_H
#define IO_RECOGNISE_H

#include "base/status.h"

/* Fails with what a file is: "<path>: is a GGUF file: ...". errors  MICA_EINVAL; MICA_ENOMEM */
mica_status mc_recognise_file(const char *path);

/* The same of a folder that is no model's. `missing` is what a model's folder has and this one has
 * not, for one that is not recognised. errors  MICA_ENOENT; MICA_ENOMEM */
mica_status mc_recognise_folder(const char *path, const char *missing);

#endif
