#include "path.h"

#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What was expanded, until the program ends. */
typedef struct expanded {
    struct expanded *next;
    char path[];
} expanded;

static expanded *kept;

const char *cli_path_expand(const char *path) {
    const char *home = getenv("HOME");
    if (path[0] != '~' || (path[1] && path[1] != '/') || !home || !*home) return path;
    size_t len = strlen(home) + strlen(path);
    expanded *made = malloc(sizeof *made + len);
    if (!made) {
        cli_fail("out of memory");
        return NULL;
    }
    snprintf(made->path, len, "%s%s", home, path + 1);
    made->next = kept;
    kept = made;
    return made->path;
}
