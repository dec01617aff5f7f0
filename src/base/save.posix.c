#define _DEFAULT_SOURCE /* flock */
#define _DARWIN_C_SOURCE

#include "base/save.h"

#include "base/system.h"

#include <mica/file.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LINKS = 40, MAX_LINK_BYTES = 4096, MAX_SAVES = 64 };

static mica_status fail_write(const mc_save *save, int error) {
    return mc_fail_errno(error ? error : EIO, "cannot write %s", save->path);
}

static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The length of a path without its last name. */
static size_t folder_bytes(const mc_buffer *path) {
    size_t n = path->len;
    while (n > 0 && !mc_is_slash(path->data[n - 1]))
        n--;
    return n;
}

/* The open descriptor that a path names, such as /dev/fd/1; -1: none. */
static int find_descriptor(const char *path) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        size_t len = strlen(folders[i]);
        if (strncmp(path, folders[i], len) != 0 || !isdigit((unsigned char)path[len])) continue;
        char *end;
        long fd = strtol(path + len, &end, 10);
        if (!*end && fd <= INT_MAX) return (int)fd;
    }
    return -1;
}

/* Sets save->target to the end of the path's links, or to the name of an open descriptor among
 * them. The target need not exist. */
static mica_status resolve(mc_save *save) {
    char link[MAX_LINK_BYTES];
    mc_buffer *target = &save->target;
    if (!mc_buffer_add_text(target, save->path)) return mc_fail_nomem(save->path);
    for (int i = 0; i <= MAX_LINKS; i++) {
        if (!mc_buffer_cstr(target)) return mc_fail_nomem(save->path);
        if (find_descriptor(target->data) >= 0) return MICA_OK;
        ssize_t len = readlink(target->data, link, sizeof link);
        if (len < 0) return MICA_OK; /* no link */
        if (len == sizeof link) return fail_write(save, ENAMETOOLONG);
        link[len] = '\0';
        target->len = mc_root_bytes(link) > 0 ? 0 : folder_bytes(target);
        if (!mc_buffer_add(target, link, (size_t)len)) return mc_fail_nomem(save->path);
    }
    return fail_write(save, ELOOP);
}

/* ---- the file beside it ---- */

/* Sets save->name to the i-th name of a new file in the target's folder. */
static mica_status make_name(mc_save *save, int i) {
    mc_buffer_clear(&save->name);
    if (!mc_buffer_add(&save->name, save->target.data, folder_bytes(&save->target)) ||
        !mc_buffer_printf(&save->name, ".mica-save-%d", i) || !mc_buffer_cstr(&save->name))
        return mc_fail_nomem(save->path);
    return MICA_OK;
}

/* Creates a file and locks it. returns -1 and sets errno if that fails; EEXIST: the name is
 * taken */
static int create_locked(const char *name, mode_t mode) {
    struct stat info;
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) return -1;
    /* Between open and flock, another save may have removed the file as a leftover. On a file
     * system without locks no save removes leftovers. */
    bool lost = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    bool known = fstat(fd, &info) == 0;
    int error = errno;
    if (!lost && known && info.st_nlink > 0) return fd;
    if (!known) unlink(name);
    close(fd);
    errno = known ? EEXIST : error;
    return -1;
}

/* Removes a file that has no lock: its writer has ended. */
static void remove_leftover(const char *name) {
    struct stat ours, there;
    int fd = open(name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &ours) == 0 && S_ISREG(ours.st_mode) &&
        lstat(name, &there) == 0 && same_file(&ours, &there))
        unlink(name);
    close(fd);
}

static mica_status remove_leftovers(mc_save *save) {
    for (int i = 0; i < MAX_SAVES; i++) {
        MC_TRY(make_name(save, i));
        remove_leftover(save->name.data);
    }
    return MICA_OK;
}

/* Creates the new file in the target's folder. *fd is -1 if that is not possible and the target
 * exists: it is then written directly. */
static mica_status create_beside(mc_save *save, bool there, int *fd) {
    *fd = -1;
    MC_TRY(remove_leftovers(save));
    for (int i = 0; i < MAX_SAVES; i++) {
        MC_TRY(make_name(save, i));
        *fd = create_locked(save->name.data, there ? 0600 : 0666);
        if (*fd >= 0) return MICA_OK;
        if (there && (errno == EACCES || errno == EPERM || errno == EROFS)) return MICA_OK;
        if (errno != EEXIST) return fail_write(save, errno);
    }
    return mc_fail(MICA_EIO,
                   "cannot write %s: its folder holds %d files of unfinished saves, .mica-save-0 "
                   "and so on: remove them",
                   save->path, MAX_SAVES);
}

/* Gives a new file the mode and the owner of the file that it will replace. */
static bool keep_owner(int fd, const struct stat *old) {
    struct stat made;
    if (fstat(fd, &made) != 0) return false;
    if ((made.st_uid != old->st_uid || made.st_gid != old->st_gid) &&
        fchown(fd, old->st_uid, old->st_gid) != 0)
        return false;
    return fchmod(fd, old->st_mode & 07777) == 0;
}

/* ---- opening and closing ---- */

/* Opens an existing target to write it directly. */
static mica_status open_in_place(mc_save *save, int *fd) {
    mc_buffer_clear(&save->name);
    *fd = open(save->path, O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC);
    return *fd >= 0 ? MICA_OK : fail_write(save, errno);
}

/* Continues after what was written to an open descriptor; opening its file again would cut it. */
static mica_status open_descriptor(const mc_save *save, int *fd) {
    *fd = fcntl(find_descriptor(save->target.data), F_DUPFD_CLOEXEC, 0);
    return *fd >= 0 ? MICA_OK : fail_write(save, errno);
}

/* Opens the file to be written. A new file is locked. */
static mica_status open_file(mc_save *save, int *fd) {
    struct stat old, target;
    bool there = stat(save->path, &old) == 0;
    *fd = -1;
    MC_TRY(resolve(save));
    if (find_descriptor(save->target.data) >= 0) return open_descriptor(save, fd);
    if (there && S_ISCHR(old.st_mode)) return open_in_place(save, fd);
    if (there && S_ISDIR(old.st_mode)) return fail_write(save, EISDIR);
    if (there && !S_ISREG(old.st_mode))
        return mc_fail(MICA_EIO, "cannot write %s: it is neither a file nor a character device",
                       save->path);
    if (there && faccessat(AT_FDCWD, save->path, W_OK, AT_EACCESS) != 0)
        return fail_write(save, errno);
    /* A link of /proc may lead to a file whose name now belongs to another file. */
    if (there && (lstat(save->target.data, &target) != 0 || !same_file(&old, &target)))
        return open_in_place(save, fd);
    MC_TRY(create_beside(save, there, fd));
    if (*fd >= 0 && (!there || keep_owner(*fd, &old))) return MICA_OK;
    if (*fd >= 0) {
        unlink(save->name.data);
        close(*fd);
    }
    return open_in_place(save, fd);
}

mica_status mc_save_open(mc_save *save, const char *path) {
    int fd;
    *save = (mc_save){.path = path, .lock = -1};
    mica_status status = open_file(save, &fd);
    if (status == MICA_OK) {
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* for the FILE; fd keeps the lock */
        save->lock = fd;
        save->file = copy >= 0 ? fdopen(copy, "wb") : NULL;
        if (!save->file) status = fail_write(save, errno);
        if (!save->file && copy >= 0) close(copy);
    }
    return status == MICA_OK ? MICA_OK : mc_save_close(save, status);
}

/* Waits until the disk has what was written to a descriptor. What is no file has no disk. */
static bool sync_file(int fd) {
    return mc_sync(fd) || errno == EINVAL || errno == ENOTSUP || errno == EROFS;
}

/* Has the disk keep the new name too. Where that fails it has the old file, whole. */
static void sync_folder(mc_save *save) {
    save->target.len = folder_bytes(&save->target);
    if (save->target.len == 0 && !mc_buffer_add_text(&save->target, ".")) return;
    if (!mc_buffer_cstr(&save->target)) return;
    int fd = open(save->target.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)mc_sync(fd);
    close(fd);
}

/* Gives the file beside the target its name, or removes it. */
static mica_status put_in_place(mc_save *save, mica_status status) {
    if (status == MICA_OK && rename(save->name.data, save->target.data) != 0)
        status = fail_write(save, errno);
    if (status == MICA_OK)
        sync_folder(save);
    else
        unlink(save->name.data);
    return status;
}

mica_status mc_save_make_private(mc_save *save) {
    return fchmod(fileno(save->file), 0600) == 0 ? MICA_OK : fail_write(save, errno);
}

mica_status mc_save_close(mc_save *save, mica_status status) {
    errno = 0;
    if (save->file && status == MICA_OK && (fflush(save->file) != 0 || !sync_file(save->lock)))
        status = fail_write(save, errno);
    if (save->file && fclose(save->file) != 0 && status == MICA_OK)
        status = fail_write(save, errno);
    if (save->lock >= 0 && save->name.len > 0) status = put_in_place(save, status);
    if (save->lock >= 0) close(save->lock);
    mc_buffer_deinit(&save->name);
    mc_buffer_deinit(&save->target);
    *save = (mc_save){.lock = -1};
    return status;
}

mica_status mica_file_save(const char *path, const void *data, size_t size) {
    mc_save save;
    if (!path || (!data && size > 0)) return mc_fail(MICA_EINVAL, "mica_file_save: NULL");
    MC_TRY(mc_save_open(&save, path));
    mica_status status = MICA_OK;
    errno = 0;
    if (size > 0 && fwrite(data, 1, size, save.file) != size) status = fail_write(&save, errno);
    return mc_save_close(&save, status);
}
