/* Folders that appear whole or not at all.
 *
 * A save makes a hidden folder beside the target, `.mica-folder-0` or the next free number, which
 * the caller fills with files, and renames it to the target at the end. The writer holds a lock on
 * that folder (flock), which ends with the process: a folder without a lock is left over from a
 * killed process, and the next save beside it removes it with the files in it. What removing takes
 * is there from the beginning: no memory and no descriptor is asked for then.
 *
 * Threads: a save belongs to one. */
#ifndef BASE_SAVE_FOLDER_H
#define BASE_SAVE_FOLDER_H

#include "base/buffer.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct mc_save_folder {
    const char *path;   /* the hidden folder, where files go; of this struct */
    const char *target; /* as the caller gave it */
    mc_buffer name;     /* holds path */
    int lock;           /* descriptor that holds the lock */
    void *entries;      /* what reads the folder when it is removed: a DIR */
} mc_save_folder;

/* Begins to save a folder. The target must not exist, or be an empty folder. It is borrowed until
 * mc_save_folder_close. After an error there is nothing to close.
 * errors  MICA_EINVAL the target exists; MICA_ENOENT no such parent; MICA_EIO; MICA_ENOMEM */
mica_status mc_save_folder_open(mc_save_folder *save, const char *target);

/* Ends a save. With MICA_OK the folder gets its name; with another status it is removed with the
 * files in it, and that status is returned.
 * errors  MICA_EIO; MICA_EINVAL another has made the target meanwhile */
mica_status mc_save_folder_close(mc_save_folder *save, mica_status status);

/* Removes what killed processes have left in a folder, as each save does first beside its target.
 * dry_run: only counts. returns  the bytes of its files; 0 also where there is no memory */
uint64_t mc_save_folder_sweep(const char *folder, bool dry_run);

/* Removes a saved folder and the files in it. It loses its name first, so that nobody opens a part
 * of it. errors  MICA_EIO, MICA_ENOMEM */
mica_status mc_save_folder_discard(const char *target);

#endif
