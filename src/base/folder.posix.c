#define _POSIX_C_SOURCE 200809L /* mode_t */
#include "base/folder.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/system.h"

static mica_status make(const char *path, mode_t mode) {
    char *copy = mc_strdup(path);
    if (!copy) return mc_fail_nomem(path);
    for (char *at = copy + 1; *copy && *at; at++) {
        char slash = *at;
        if (!mc_is_slash(slash)) continue;
        *at = '\0';
        (void)mkdir(copy, mode); /* the last one tells whether it worked */
        *at = slash;
    }
    int code = mkdir(copy, mode), error = errno;
    mc_free(copy);
    if (code == 0 || mc_path_is_dir(path)) return MICA_OK;
    return mc_fail_errno(error, "%s: cannot make the folder", path);
}

mica_status mc_folder_make(const char *path) {
    return make(path, 0777);
}

mica_status mc_folder_make_private(const char *path) {
    return make(path, 0700);
}

uint64_t mc_folder_room(const char *path) {
    struct statvfs info;
    return statvfs(path, &info) == 0 ? (uint64_t)info.f_bavail * info.f_frsize : UINT64_MAX;
}
