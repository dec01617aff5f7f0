/* Folders that training writes to. Threads: any. */
#ifndef TUNE_FOLDER_H
#define TUNE_FOLDER_H

#include "base/status.h"

/* Whether files can be made in a folder. Where they cannot, mica_file_save writes over what is
 * there, which would not be whole for a while. errors  MICA_EIO, MICA_ENOENT */
mica_status mc_folder_check(const char *path);

/* Locks a folder, until mc_folder_unlock or the end of the process. On a file system without locks
 * nobody has one: *lock is -1 then, as it is after an error.
 * errors  MICA_EINVAL another training has it; MICA_EIO, MICA_ENOENT */
mica_status mc_folder_lock(const char *path, int *lock);
void mc_folder_unlock(int *lock);

#endif
