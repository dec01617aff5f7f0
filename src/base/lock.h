/* Locks of files (flock), which end with the process that holds them.
 *
 * Threads: any; each open file has a lock of its own. */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include "base/status.h"

/* Opens a file to read and write it, a new one if there is none.
 * errors  MICA_EIO also for a link, and for what is no regular file: others could be waited for
 *         without an end */
mica_status mc_regular_open(const char *path, int *fd);

/* Takes the lock of a file, which is made if there is none. *lock is -1 if somebody else has it, or
 * has removed the file meanwhile.
 * On a file system without locks nobody has one. errors  those of mc_regular_open */
mica_status mc_lock_try(const char *path, int *lock);

void mc_lock_release(int *lock); /* sets it to -1; does nothing for -1 */

#endif
