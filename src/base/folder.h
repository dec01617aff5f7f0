/* Folders. Threads: any. */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include "base/status.h"

/* Makes a folder, and those above it, if it does not exist. errors  MICA_EIO, MICA_ENOENT */
mica_status mc_folder_make(const char *path);
/* The same; a new one is its owner's alone, and so are those above it. */
mica_status mc_folder_make_private(const char *path);

#endif
