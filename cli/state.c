#define _POSIX_C_SOURCE 200809L
#include "state.h"

#include "path.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *cli_state_path(const char *name, char *out, size_t out_bytes) {
    /* $XDG_STATE_HOME: where chats and their lines are kept (default: .local/state in $HOME) */
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int n;
    if (state && cli_path_is_whole(state))
        n = snprintf(out, out_bytes, "%s/mica/%s", state, name);
    else if (home && cli_path_is_whole(home))
        n = snprintf(out, out_bytes, "%s/.local/state/mica/%s", home, name);
    else
        return NULL;
    if (n < 0 || (size_t)n >= out_bytes) return NULL;
    for (char *slash = out + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        bool made = mkdir(out, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made) return NULL;
    }
    return out;
}
