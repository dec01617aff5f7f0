#define _POSIX_C_SOURCE 200809L
#include "kept.h"

#include "state.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct kept {
    char name[64];
    time_t changed;
} kept;

/* Whether cli_kept_new gives such names. Other files are left alone. */
static bool is_ours(const char *name) {
    size_t len = strspn(name, "0123456789-");
    return len > 0 && strcmp(name + len, ".jsonl") == 0 && strlen(name) < sizeof((kept){0}).name;
}

/* Orders by time of change, latest first. Within a second it orders by name, which contains the
 * time of creation. */
static int by_change(const void *a, const void *b) {
    const kept *x = a, *y = b;
    if (x->changed != y->changed) return x->changed < y->changed ? 1 : -1;
    return strcmp(y->name, x->name);
}

static bool path_of(const char *name, char out[CLI_KEPT_PATH]) {
    char in_folder[sizeof((kept){0}).name + 8];
    snprintf(in_folder, sizeof in_folder, "talks/%s", name);
    return cli_state_path(in_folder, out, CLI_KEPT_PATH);
}

/* Lists the saved conversations, the last changed first. The caller frees *list. */
static size_t list_kept(kept **list) {
    char path[CLI_KEPT_PATH];
    struct stat info;
    size_t count = 0, room = 0;
    *list = NULL;
    DIR *entries = path_of("", path) ? opendir(path) : NULL;
    if (!entries) return 0;
    for (const struct dirent *entry; (entry = readdir(entries));) {
        size_t len = strlen(entry->d_name);
        if (!is_ours(entry->d_name) || len >= sizeof(*list)->name) continue;
        if (!path_of(entry->d_name, path)) continue;
        if (lstat(path, &info) != 0 || !S_ISREG(info.st_mode)) continue;
        if (count == room) {
            kept *grown = realloc(*list, (room = room * 2 + 32) * sizeof **list);
            if (!grown) break;
            *list = grown;
        }
        kept *found = &(*list)[count++];
        memcpy(found->name, entry->d_name, len + 1);
        found->changed = info.st_mtime;
    }
    closedir(entries);
    if (count > 0) qsort(*list, count, sizeof **list, by_change);
    return count;
}

/* Removes old conversations, so that there is room for one more. */
static void remove_old(time_t now) {
    char path[CLI_KEPT_PATH];
    kept *list;
    size_t count = list_kept(&list);
    for (size_t i = 0; i < count; i++) {
        bool old = now - list[i].changed > (time_t)CLI_KEPT_DAYS * 24 * 60 * 60;
        if ((old || i + 1 >= CLI_KEPT_MAX) && path_of(list[i].name, path)) remove(path);
    }
    free(list);
}

bool cli_kept_new(char out[CLI_KEPT_PATH]) {
    static unsigned number; /* counts the conversations of this process */
    char when[32], name[sizeof((kept){0}).name];
    struct tm local;
    time_t now = time(NULL);
    remove_old(now);
    if (!localtime_r(&now, &local) || !strftime(when, sizeof when, "%Y%m%d-%H%M%S", &local))
        return false;
    snprintf(name, sizeof name, "%s-%ld-%u.jsonl", when, (long)getpid(), ++number);
    if (path_of(name, out)) return true;
    out[0] = '\0'; /* there is no such folder, and none can be made */
    return false;
}

bool cli_kept_last(char out[CLI_KEPT_PATH]) {
    kept *list;
    bool found = list_kept(&list) > 0 && path_of(list[0].name, out);
    free(list);
    return found;
}
