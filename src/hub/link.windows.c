#include "hub/link.h"

#include "base/alloc.h"
#include "base/filemap.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { LINK_TRIES = 10 }; /* where processes link the same file at once */

/* The target's path as this process reaches it. */
static char *reach(const char *link, const char *target) {
    char *folder = mc_strdup(link), *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash) *slash = '\0';
    char *path = folder ? mc_path_join(slash ? folder : ".", target) : NULL;
    mc_free(folder);
    return path;
}

/* Whether both name one file; of a copy, whether it is as long and not older. */
static bool is_linked(const char *link, const char *blob) {
    mc_path_info a, b;
    if (!mc_path_stat(link, &a) || !mc_path_stat(blob, &b)) return false;
    return (a.id[0] == b.id[0] && a.id[1] == b.id[1]) ||
           (a.bytes == b.bytes && a.modified >= b.modified);
}

mica_status mc_hub_link(const char *name, const char *target, const char *other) {
    int error = EBUSY;
    char *blob = reach(name, target);
    if (!blob) return mc_fail_nomem(name);
    for (int tries = 0; tries < LINK_TRIES && !is_linked(name, blob); tries++) {
        (void)unlink(other);
        if (link(blob, other) == 0 && rename(other, name) == 0) break;
        error = errno;
        if (error != EEXIST && error != ENOENT) break;
    }
    (void)unlink(other);
    bool linked = is_linked(name, blob);
    mc_free(blob);
    return linked ? MICA_OK : mc_fail_errno(error, "cannot link %s", name);
}
