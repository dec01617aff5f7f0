#define _DEFAULT_SOURCE
#define _DARWIN_C_SOURCE

#include "hub/link.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINK_TRIES = 10 }; /* where processes link the same file at once */

/* Whether a link already has that text. */
static bool links_to(const char *link, const char *target) {
    char text[256];
    ssize_t len = readlink(link, text, sizeof text);
    return len >= 0 && (size_t)len == strlen(target) && memcmp(text, target, (size_t)len) == 0;
}

mica_status mc_hub_link(const char *link, const char *target, const char *other) {
    int error = EBUSY;
    for (int tries = 0; tries < LINK_TRIES && !links_to(link, target); tries++) {
        (void)unlink(other);
        if (symlink(target, other) == 0 && rename(other, link) == 0) break;
        error = errno;
        if (error != EEXIST && error != ENOENT) break;
    }
    (void)unlink(other);
    return links_to(link, target) ? MICA_OK : mc_fail_errno(error, "cannot link %s", link);
}
