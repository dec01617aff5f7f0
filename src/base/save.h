/* Files that are written whole or not at all.
 *
 * What is saved goes into a new file beside the target, `.mica-save-0` or the next number that is
 * free, which is renamed to the target at the end. Who writes it holds a lock on it (flock), which
 * ends with the process: one without a lock is what a killed process has left, and the next save
 * into that folder removes it. So several may save to one path at the same time, and the last to
 * end stays.
 *
 * The target is what a path's links lead to; its mode and owner stay. A character device is written
 * to, and so is a file whose owner could not be kept, or in whose folder no file can be made: that
 * one is not whole while it is written. The name of an open descriptor, such as /dev/fd/1, is that
 * descriptor: what is saved follows what was written there. Anything else that is there is refused.
 *
 * Threads: a save belongs to one. */
#ifndef BASE_SAVE_H
#define BASE_SAVE_H

#include <stdio.h>

#include "base/buffer.h"
#include "base/status.h"

typedef struct mc_save {
    FILE *file;       /* to write into */
    const char *path; /* as it was given, for error texts */
    mc_buffer target; /* what its links lead to */
    mc_buffer name;   /* of the file that is written; empty: the target itself */
    int lock;         /* descriptor that holds the lock; -1: none */
} mc_save;

/* Begins to save to a path, which is borrowed until the end. After an error there is nothing to
 * close.
 * errors  MICA_ENOENT no such folder; MICA_EIO; MICA_ENOMEM */
mica_status mc_save_open(mc_save *save, const char *path);

/* Ends a save. With the status MICA_OK what was written becomes the file; with another one it is
 * dropped, and that status is returned.
 * errors  MICA_EIO */
mica_status mc_save_close(mc_save *save, mica_status status);

#endif
