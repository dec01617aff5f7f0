#include "base/folder.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/filemap.h"

mica_status mc_folder_make(const char *path) {
    char *copy = mc_strdup(path);
    if (!copy) return mc_fail_nomem(path);
    for (char *at = copy + 1; *copy && *at; at++) {
        if (*at != '/') continue;
        *at = '\0';
        (void)mkdir(copy, 0777); /* the last one tells whether it worked */
        *at = '/';
    }
    int code = mkdir(copy, 0777), error = errno;
    mc_free(copy);
    if (code == 0 || mc_path_is_dir(path)) return MICA_OK;
    return mc_fail_errno(error, "%s: cannot make the folder", path);
}
