#define _DEFAULT_SOURCE /* flock */
#define _DARWIN_C_SOURCE

#include "base/save_folder.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SAVES = 64 };

static mica_status fail_make(const mc_save_folder *save, int error) {
    return mc_fail_errno(error, "cannot make the folder %s", save->target);
}

/* The length of a path without its last name and the slashes behind that. */
static size_t parent_bytes(const char *path) {
    size_t n = strlen(path);
    while (n > 1 && mc_is_slash(path[n - 1]))
        n--;
    while (n > 0 && !mc_is_slash(path[n - 1]))
        n--;
    return n;
}

static mica_status make_name(mc_save_folder *save, int i) {
    mc_buffer_clear(&save->name);
    if (!mc_buffer_add(&save->name, save->target, parent_bytes(save->target)) ||
        !mc_buffer_printf(&save->name, ".mica-folder-%d", i) || !mc_buffer_cstr(&save->name))
        return mc_fail_nomem(save->target);
    save->path = save->name.data;
    return MICA_OK;
}

/* Opens a folder and locks it. -1: it cannot be opened, by errno; EWOULDBLOCK: somebody else has
 * the lock, or has removed it. */
static int lock_folder(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return -1;
    struct stat ours, there;
    bool lost = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!lost && fstat(fd, &ours) == 0 && lstat(path, &there) == 0 && ours.st_ino == there.st_ino)
        return fd;
    close(fd);
    errno = EWOULDBLOCK;
    return -1;
}

/* What reads a locked folder; NULL: memory or descriptors are out, by errno. */
static DIR *open_entries(int fd) {
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    DIR *entries = copy >= 0 ? fdopendir(copy) : NULL;
    if (!entries && copy >= 0) close(copy);
    return entries;
}

/* Removes a folder and the files in it. Takes no memory. */
static void remove_folder(const char *path, DIR *entries) {
    rewinddir(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(entries), entry->d_name, 0);
    rmdir(path);
}

/* The bytes of a folder's files. */
static uint64_t count_bytes(DIR *entries) {
    uint64_t bytes = 0;
    struct stat info;
    rewinddir(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        if (fstatat(dirfd(entries), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode))
            bytes += (uint64_t)info.st_size;
    return bytes;
}

/* Removes what killed processes have left, or only counts it. */
static mica_status remove_leftovers(mc_save_folder *save, bool dry_run, uint64_t *bytes) {
    for (int i = 0; i < MAX_SAVES; i++) {
        MC_TRY(make_name(save, i));
        int fd = lock_folder(save->path);
        if (fd < 0) continue;
        DIR *entries = open_entries(fd);
        if (entries) {
            *bytes += count_bytes(entries);
            if (!dry_run) remove_folder(save->path, entries);
            closedir(entries);
        }
        close(fd);
    }
    return MICA_OK;
}

/* Locks the new folder and opens what reads it: there may be no memory to do so when it is to be
 * removed. *lock is -1 after an error, and where another save took the folder for a leftover. */
static mica_status hold(mc_save_folder *save) {
    save->lock = lock_folder(save->path);
    if (save->lock < 0 && errno == EWOULDBLOCK) return MICA_OK;
    save->entries = save->lock >= 0 ? open_entries(save->lock) : NULL;
    if (save->entries) return MICA_OK;
    int error = errno;
    rmdir(save->path);
    if (save->lock >= 0) close(save->lock);
    save->lock = -1;
    return fail_make(save, error);
}

static mica_status create(mc_save_folder *save) {
    for (int i = 0; i < MAX_SAVES; i++) {
        MC_TRY(make_name(save, i));
        if (mkdir(save->path, 0777) != 0) {
            if (errno == EEXIST) continue;
            return fail_make(save, errno);
        }
        MC_TRY(hold(save));
        if (save->lock >= 0) return MICA_OK;
    }
    return mc_fail(MICA_EIO,
                   "cannot make the folder %s: %d folders of unfinished saves are beside it, "
                   ".mica-folder-0 and so on: remove them",
                   save->target, MAX_SAVES);
}

/* Whether a path's last name is "." or "..", which nothing can be renamed to. */
static bool ends_in_dots(const char *path) {
    const char *name = path + parent_bytes(path);
    size_t n = 0;
    while (name[n] && !mc_is_slash(name[n]))
        n++;
    return (n == 1 || n == 2) && strncmp(name, "..", n) == 0;
}

/* Whether the target is free: nothing is there, or an empty folder. */
static mica_status check_target(const char *target) {
    struct stat info;
    if (!*target) return mc_fail(MICA_EINVAL, "a folder without a name cannot be saved");
    if (ends_in_dots(target))
        return mc_fail(MICA_EINVAL, "%s cannot be replaced: name a new folder", target);
    if (lstat(target, &info) != 0) {
        if (errno == ENOENT) return MICA_OK;
        return mc_fail_errno(errno, "cannot make the folder %s", target);
    }
    DIR *dir = S_ISDIR(info.st_mode) ? opendir(target) : NULL;
    if (!dir && S_ISDIR(info.st_mode))
        return mc_fail_errno(errno, "cannot read the folder %s", target);
    bool empty = dir != NULL;
    for (struct dirent *entry; empty && (entry = readdir(dir));)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (dir) closedir(dir);
    if (empty) return MICA_OK;
    return mc_fail(MICA_EINVAL, "%s exists: name a new folder, or remove this one", target);
}

mica_status mc_save_folder_open(mc_save_folder *save, const char *target) {
    uint64_t bytes = 0;
    *save = (mc_save_folder){.target = target, .lock = -1};
    mica_status status = check_target(target);
    if (status == MICA_OK) status = remove_leftovers(save, false, &bytes);
    if (status == MICA_OK) status = create(save);
    if (status != MICA_OK) mc_buffer_deinit(&save->name);
    return status;
}

uint64_t mc_save_folder_sweep(const char *folder, bool dry_run) {
    uint64_t bytes = 0;
    char *inside = mc_path_join(folder, "-");
    mc_save_folder save = {.target = inside, .lock = -1};
    if (inside) (void)remove_leftovers(&save, dry_run, &bytes);
    mc_buffer_deinit(&save.name);
    mc_free(inside);
    return bytes;
}

/* A folder may be renamed to an empty one: to a new hidden one here, which nobody else takes. */
mica_status mc_save_folder_discard(const char *target) {
    mc_save_folder save = {.target = target, .lock = -1};
    uint64_t bytes = 0;
    mica_status status = create(&save);
    if (status == MICA_OK) {
        if (rename(target, save.path) != 0) {
            status = mc_fail_errno(errno, "cannot remove the folder %s", target);
            rmdir(save.path);
        }
        closedir(save.entries);
        close(save.lock);
    }
    if (status == MICA_OK) status = remove_leftovers(&save, false, &bytes);
    mc_buffer_deinit(&save.name);
    return status;
}

mica_status mc_save_folder_close(mc_save_folder *save, mica_status status) {
    if (save->lock < 0) return status;
    if (status == MICA_OK && !mc_sync(save->lock) && errno != EINVAL && errno != ENOTSUP)
        status = fail_make(save, errno);
    if (status == MICA_OK && rename(save->path, save->target) != 0)
        status = errno == EEXIST || errno == ENOTEMPTY ? check_target(save->target)
                                                       : fail_make(save, errno);
    if (status != MICA_OK) remove_folder(save->path, save->entries);
    closedir(save->entries);
    close(save->lock);
    mc_buffer_deinit(&save->name);
    *save = (mc_save_folder){.lock = -1};
    return status;
}
