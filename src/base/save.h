/* Files that are written whole or not at all.
 *
 * A save writes a new file in the target's folder, `.mica-save-0` or the next free number, and
 * renames it to the target at the end. The writer holds a lock on that file (flock), which ends
 * with the process: a file without a lock is left over from a killed process, and the next save
 * into the folder removes it. Several saves to one path may run at once; the last to end wins.
 *
 * The target is the end of the path's links; it keeps its mode and owner. A character device is
 * written directly. So is a file whose owner could not be kept, or in whose folder no file can be
 * made: it is incomplete while it is written. The name of an open descriptor, such as /dev/fd/1,
 * means that descriptor: the bytes follow what was written to it. Targets of other types are
 * refused.
 *
 * Threads: a save belongs to one. */
#ifndef BASE_SAVE_H
#define BASE_SAVE_H

#include <stdio.h>

#include "base/buffer.h"
#include "base/status.h"

typedef struct mc_save {
    FILE *file;       /* open for writing */
    const char *path; /* as the caller gave it, for error texts */
    mc_buffer target; /* the end of the path's links */
    mc_buffer name;   /* path of the new file; empty: the target is written directly */
    int lock;         /* descriptor that holds the lock; -1: none */
} mc_save;

/* Begins to save to a path, which is borrowed until mc_save_close. After an error there is nothing
 * to close.
 * errors  MICA_ENOENT no such folder; MICA_EIO; MICA_ENOMEM */
mica_status mc_save_open(mc_save *save, const char *path);

/* Only the owner may read the file, before anything is written; also if it replaces one that others
 * may read. errors  MICA_EIO */
mica_status mc_save_make_private(mc_save *save);

/* Ends a save. With the status MICA_OK the written file replaces the target. With another status
 * the written file is dropped, and that status is returned.
 * errors  MICA_EIO */
mica_status mc_save_close(mc_save *save, mica_status status);

#endif
