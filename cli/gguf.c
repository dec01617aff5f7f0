#define _POSIX_C_SOURCE 200809L
#include "gguf.h"

#include "interrupt.h"
#include "model.h"
#include "path.h"
#include "print.h"
#include "report.h"
#include "ui.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is_file(const char *path) {
    struct stat info;
    char head[4] = "";
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
    FILE *file = fopen(path, "rb");
    bool is = file && fread(head, 1, sizeof head, file) == sizeof head &&
              memcmp(head, "GGUF", sizeof head) == 0;
    if (file) fclose(file);
    return is;
}

static bool holds_files(const char *path) {
    DIR *dir = opendir(path);
    bool holds = false;
    for (struct dirent *entry; dir && !holds && (entry = readdir(dir));) {
        char file[4096];
        int n = snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        holds = cli_path_ends(file, ".gguf") && n > 0 && (size_t)n < sizeof file && is_file(file);
    }
    if (dir) closedir(dir);
    return holds;
}

bool cli_is_gguf(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) return false;
    return S_ISDIR(info.st_mode) ? !cli_is_model(path) && holds_files(path) : is_file(path);
}

/* Says once what takes time. */
static void tick(void *user, uint64_t done, uint64_t total) {
    const char **path = user;
    if (*path)
        cli_print(stderr, "mica: %s becomes a model folder, which is kept (mica list)\n", *path);
    *path = NULL;
    cli_progress_tick(NULL, done, total);
}

const char *cli_gguf_folder(const char *path, const char *name, int *code) {
    char *folder = NULL;
    const char *kept = NULL, *told = path;
    mica_cancel *cancel = NULL;
    mica_status status = mica_cancel_open(&cancel);
    const mica_gguf_options options = {.struct_bytes = sizeof options,
                                       .name = name,
                                       .progress = tick,
                                       .progress_user = &told,
                                       .cancel = cancel};
    cli_interrupt_watch_task(cancel);
    cli_progress_start("converting", false);
    if (status == MICA_OK) status = mica_gguf_folder(path, &options, &folder);
    cli_progress_clear();
    cli_interrupt_watch_task(NULL);
    mica_cancel_close(&cancel);
    *code = CLI_DONE;
    if (status == MICA_OK)
        kept = cli_path_keep(folder);
    else
        *code = status == MICA_ECANCELLED ? CLI_INTERRUPTED : cli_fail_status(status);
    if (status == MICA_OK && !kept) *code = CLI_FAILED;
    mica_free(folder);
    return kept;
}
