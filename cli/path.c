#include "path.h"

#include "report.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keeps a new path until the program ends. */
typedef struct made_path {
    struct made_path *next;
    char text[];
} made_path;

static made_path *kept;

/* Joins two texts. */
static char *keep(const char *head, const char *tail) {
    size_t bytes = strlen(head) + strlen(tail) + 1;
    made_path *made = malloc(sizeof *made + bytes);
    if (!made) {
        cli_fail("out of memory");
        return NULL;
    }
    snprintf(made->text, bytes, "%s%s", head, tail);
    made->next = kept;
    kept = made;
    return made->text;
}

const char *cli_path_expand(const char *path) {
    /* $HOME: the folder that ~ stands for, also in what other variables say */
    const char *home = getenv("HOME");
    bool of_home = path[0] == '~' && (!path[1] || cli_is_slash(path[1])) && home && *home;
    bool backslashes = cli_is_slash('\\') && strchr(path, '\\');
    char *made = of_home ? keep(home, path + 1) : backslashes ? keep("", path) : NULL;
    for (char *at = made; at && cli_is_slash('\\') && (at = strchr(at, '\\'));)
        *at = '/';
    return of_home || backslashes ? made : path;
}

const char *cli_path_keep(const char *path) {
    return keep(path, "");
}

bool cli_path_ends(const char *path, const char *end) {
    size_t length = strlen(path), n = strlen(end);
    return length >= n && strcmp(path + length - n, end) == 0;
}
