#define _XOPEN_SOURCE 700
#define _DARWIN_C_SOURCE
#include "scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILES = 8, MAX_PATH = 128 };

static char folder[] = "/tmp/mica-fuzz-XXXXXX";
static char paths[MAX_FILES][MAX_PATH];

static void clean_up(void) {
    for (int i = 0; i < MAX_FILES && *paths[i]; i++)
        remove(paths[i]);
    rmdir(folder);
}

const char *fuzz_scratch(const char *name) {
    if (!**paths && (!mkdtemp(folder) || atexit(clean_up) != 0)) abort();
    for (int i = 0; i < MAX_FILES; i++) {
        char *path = paths[i];
        if (*path && strcmp(path + sizeof folder, name) == 0) return path;
        if (*path) continue;
        int n = snprintf(path, MAX_PATH, "%s/%s", folder, name);
        if (n < 0 || n >= MAX_PATH) abort();
        return path;
    }
    abort();
}
