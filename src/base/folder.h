/* Folders. Threads: any. */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include "base/status.h"

#include <stdint.h>

/* Makes a folder, and those above it, if it does not exist. errors  MICA_EIO, MICA_ENOENT */
mica_status mc_folder_make(const char *path);
/* The same; a new one is its owner's alone, and so are those above it. */
mica_status mc_folder_make_private(const char *path);

/* The bytes that are free on the disk of a folder; UINT64_MAX: not known. */
uint64_t mc_folder_room(const char *path);

#endif
