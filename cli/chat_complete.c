#define _POSIX_C_SOURCE 200809L
#include "chat.h"

#include "path.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Adds a word, of which `typed` was typed, and the text `after` it. */
static void add(cli_completions *found, const char *typed, const char *word, const char *behind) {
    size_t len = strlen(word) + strlen(behind) + 1;
    if (strncmp(word, typed, strlen(typed)) != 0) return;
    if (found->count == found->room) {
        size_t room = found->room * 2 + 16;
        char **grown = realloc(found->words, room * sizeof *grown);
        if (!grown) return;
        found->words = grown;
        found->room = room;
    }
    char *copy = malloc(len);
    if (!copy) return;
    snprintf(copy, len, "%s%s", word, behind);
    found->words[found->count++] = copy;
}

/* Whether a name can be typed and printed safely. */
static bool is_text(const char *name) {
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) return false;
    return mbstowcs(NULL, name, 0) != (size_t)-1;
}

/* Completes a path by the files of its folder. */
static void add_files(cli_completions *found, const char *path) {
    char folder[4096], file[4096];
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    int len = (int)(base - path);
    struct stat info;
    if (strcmp(path, "~") == 0) add(found, path, "~/", "");
    int n = snprintf(folder, sizeof folder, "%.*s", len, path);
    if (n < 0 || (size_t)n >= sizeof folder) return;
    const char *expanded = cli_path_expand(len > 0 ? folder : ".");
    DIR *entries = expanded ? opendir(expanded) : NULL;
    if (!entries) return;
    for (const struct dirent *entry; (entry = readdir(entries));) {
        const char *name = entry->d_name;
        bool hidden = name[0] == '.' && base[0] != '.';
        if (hidden || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || !is_text(name)) continue;
        n = snprintf(file, sizeof file, "%s/%s", expanded, name);
        if (n < 0 || (size_t)n >= sizeof file) continue;
        bool is_folder = stat(file, &info) == 0 && S_ISDIR(info.st_mode);
        add(found, base, name, is_folder ? "/" : "");
    }
    closedir(entries);
}

static void add_commands(cli_completions *found, const char *typed) {
    const char *name, *argument;
    for (size_t i = 0; (name = cli_chat_command_name(i, &argument)); i++)
        add(found, typed, name, *argument ? " " : "");
}

static void add_settings(cli_completions *found, const char *typed) {
    static const char parameter[] = "parameter ";
    const char *name;
    size_t len = strlen(parameter);
    if (strncmp(typed, parameter, len) == 0) typed += len + strspn(typed + len, " ");
    found->typed = strlen(typed);
    if (strchr(typed, ' ')) return; /* what is typed is a value */
    for (size_t i = 0; (name = cli_chat_setting_name(i)); i++)
        add(found, typed, name, " ");
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void cli_chat_complete(const char *line, cli_completions *found) {
    const char *name, *argument = "", *blank = strchr(line, ' ');
    found->typed = strlen(line);
    if (!blank) {
        add_commands(found, line);
    } else {
        size_t len = (size_t)(blank - line);
        for (size_t i = 0; (name = cli_chat_command_name(i, &argument)); i++)
            if (strlen(name) == len && strncmp(name, line, len) == 0) break;
        const char *rest = blank + strspn(blank, " "), *slash = strrchr(rest, '/');
        if (name && strcmp(argument, CLI_CHAT_FILE) == 0) {
            add_files(found, rest);
            found->typed = strlen(slash ? slash + 1 : rest);
        }
        if (name && strcmp(argument, CLI_CHAT_SETTING) == 0) add_settings(found, rest);
    }
    if (found->count > 0) qsort(found->words, found->count, sizeof *found->words, by_text);
}
