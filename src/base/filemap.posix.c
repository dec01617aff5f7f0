#define _POSIX_C_SOURCE 200809L

#include "base/filemap.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static mica_status map_descriptor(int fd, const char *path, mc_filemap *map) {
    struct stat info;
    if (fstat(fd, &info) != 0) return mc_fail_errno(errno, "%s", path);
    if (S_ISDIR(info.st_mode)) return mc_fail(MICA_EIO, "%s: is a folder, not a file", path);
    if (!S_ISREG(info.st_mode)) return mc_fail(MICA_EIO, "%s: is not a regular file", path);
    if (info.st_size == 0) return MICA_OK;
    if ((uint64_t)info.st_size > SIZE_MAX) return mc_fail(MICA_EIO, "%s: too large to map", path);
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return mc_fail_errno(errno, "%s: cannot be mapped", path);
    *map = (mc_filemap){.data = data, .size = (size_t)info.st_size};
    return MICA_OK;
}

mica_status mc_filemap_open(const char *path, mc_filemap *map) {
    *map = (mc_filemap){0};
    /* A map is memory: tests of failing allocations fail it too. */
    if (mc_alloc_should_fail()) return mc_fail_errno(ENOMEM, "%s: cannot be mapped", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not make us wait */
    if (fd < 0) return mc_fail_errno(errno, "%s", path);
    mica_status status = map_descriptor(fd, path, map);
    close(fd);
    return status;
}

void mc_filemap_close(mc_filemap *map) {
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (mc_filemap){0};
}

bool mc_path_look(const char *path, mc_path_info *info) {
    struct stat seen;
    if (stat(path, &seen) != 0) return false;
    *info = (mc_path_info){
        .is_file = S_ISREG(seen.st_mode),
        .is_dir = S_ISDIR(seen.st_mode),
        .bytes = (uint64_t)seen.st_size,
        .modified = (int64_t)seen.st_mtime,
        .id = {(uint64_t)seen.st_dev, (uint64_t)seen.st_ino},
    };
    return true;
}

bool mc_path_is_file(const char *path) {
    mc_path_info info;
    return mc_path_look(path, &info) && info.is_file;
}

bool mc_path_is_dir(const char *path) {
    mc_path_info info;
    return mc_path_look(path, &info) && info.is_dir;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Adds the names to `found`, an array of char pointers. */
static mica_status read_names(DIR *dir, const char *path, const char *suffix, mc_arena *arena,
                              mc_buffer *found) {
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) return errno ? mc_fail_errno(errno, "%s", path) : MICA_OK;
        size_t len = strlen(entry->d_name);
        mc_str name = {entry->d_name, len};
        if (entry->d_name[0] == '.' || !mc_str_ends(name, mc_str_of(suffix))) continue;
        char *copy = mc_arena_strndup(arena, entry->d_name, len);
        if (!copy || !MC_BUFFER_PUSH(found, char *, copy)) return mc_fail_nomem(path);
    }
}

mica_status mc_dir_list(const char *path, const char *suffix, mc_arena *arena, const char ***names,
                        size_t *count) {
    DIR *dir = opendir(path);
    if (!dir) return mc_fail_errno(errno, "%s", path);
    mc_buffer found = {0};
    mica_status status = read_names(dir, path, suffix, arena, &found);
    closedir(dir);
    if (status == MICA_OK) {
        *count = MC_BUFFER_COUNT(&found, char *);
        *names = mc_arena_alloc(arena, found.len);
        if (!*names) status = mc_fail_nomem(path);
    }
    if (status == MICA_OK && *count > 0) {
        memcpy(*names, found.data, found.len);
        qsort(*names, *count, sizeof **names, compare_names);
    }
    mc_buffer_deinit(&found);
    return status;
}

char *mc_path_join(const char *dir, const char *name) {
    size_t dir_len = strlen(dir), name_len = strlen(name);
    bool slash = dir_len > 0 && dir[dir_len - 1] != '/';
    char *path = mc_alloc(dir_len + slash + name_len + 1);
    if (!path) return NULL;
    memcpy(path, dir, dir_len);
    if (slash) path[dir_len] = '/';
    memcpy(path + dir_len + slash, name, name_len + 1);
    return path;
}
