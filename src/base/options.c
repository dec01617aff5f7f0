#include "base/options.h"

#include <string.h>

/* No struct grows so large: a larger struct_bytes was never set. */
#define MAX_BYTES 4096

static size_t bytes_of(const void *given) {
    size_t bytes;
    memcpy(&bytes, given, sizeof bytes);
    return bytes;
}

mica_status mc_options_copy(void *into, size_t bytes, size_t first, const void *from,
                            const char *name) {
    memset(into, 0, bytes);
    memcpy(into, &bytes, sizeof bytes);
    if (!from) return MICA_OK;
    size_t given = bytes_of(from);
    if (given == 0) given = first;
    if (given < sizeof given || given > MAX_BYTES)
        return mc_fail(MICA_EINVAL, "%s: struct_bytes is %zu, want sizeof(%s) or 0", name, given,
                       name);
    const unsigned char *members = from;
    for (size_t i = bytes; i < given; i++)
        if (members[i] != 0)
            return mc_fail(MICA_EINVAL,
                           "%s: the member at byte %zu is set, and this library is older than it: "
                           "leave it 0, or update the library",
                           name, i);
    size_t known = given < bytes ? given : bytes;
    memcpy((unsigned char *)into + sizeof given, members + sizeof given, known - sizeof given);
    return MICA_OK;
}

void mc_info_copy(void *into, size_t first, const void *from, size_t bytes) {
    if (!into) return;
    size_t room = bytes_of(into);
    if (room < first) room = first;
    if (room > bytes) room = bytes;
    memcpy((unsigned char *)into + sizeof room, (const unsigned char *)from + sizeof room,
           room - sizeof room);
}
