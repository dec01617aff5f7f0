#define _DEFAULT_SOURCE /* RLIMIT_MEMLOCK */
#define _DARWIN_C_SOURCE

#include "base/filemap.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/str.h"
#include "base/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)8 << 20) /* of long work, between two ticks */

#ifdef __APPLE__
#define MODIFIED(info) (info).st_mtimespec
#else
#define MODIFIED(info) (info).st_mtim
#endif

static mica_status tick(const mc_file_watch *watch, size_t bytes) {
    return watch && watch->tick ? watch->tick(watch->context, bytes) : MICA_OK;
}

typedef struct file_limit {
    const char *words;
    size_t bytes;
} file_limit;

static const file_limit limits[] = {
#define FILE_KIND(name, words, bytes) {words, bytes},
#include "base/file_kind_list.h"
#undef FILE_KIND
};

static mica_status check_size(const char *path, const file_limit *limit, uint64_t size) {
    if (size > SIZE_MAX / 2)
        return mc_fail(MICA_EIO, "%s: too large for this machine's addresses", path);
    if (size <= limit->bytes) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: is too large: it has %llu bytes, and %s at most %zu", path,
                   (unsigned long long)size, limit->words, limit->bytes);
}

/* Opens a regular file. On success *fd is the caller's. */
static mica_status open_regular(const char *path, mc_file_kind kind, int *fd, size_t *size) {
    struct stat info;
    mica_status status = MICA_OK;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* do not wait for a FIFO's writer */
    if (*fd < 0) return mc_fail_errno(errno, "%s", path);
    if (fstat(*fd, &info) != 0)
        status = mc_fail_errno(errno, "%s", path);
    else if (S_ISDIR(info.st_mode))
        status = mc_fail(MICA_EIO, "%s: is a folder, not a file", path);
    else if (!S_ISREG(info.st_mode))
        status = mc_fail(MICA_EIO, "%s: is not a regular file", path);
    else
        status = check_size(path, &limits[kind], (uint64_t)info.st_size);
    if (status != MICA_OK)
        close(*fd);
    else
        *size = (size_t)info.st_size;
    return status;
}

mica_status mc_filemap_open(const char *path, mc_file_kind kind, mc_filemap *map) {
    int fd;
    size_t size;
    *map = (mc_filemap){0};
    /* Tests of failing allocations make mapping fail, too. */
    if (mc_alloc_should_fail()) return mc_fail_errno(ENOMEM, "%s: cannot be mapped", path);
    MC_TRY(open_regular(path, kind, &fd, &size));
    void *data = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    int error = errno;
    close(fd);
    if (data == MAP_FAILED) return mc_fail_errno(error, "%s: cannot be mapped", path);
    *map = (mc_filemap){.data = data, .size = size};
    return MICA_OK;
}

/* Reads size bytes, in pieces. */
static mica_status read_all(int fd, const char *path, const mc_file_watch *watch, uint8_t *data,
                            size_t size) {
    for (size_t done = 0; done < size;) {
        size_t want = size - done < PIECE_BYTES ? size - done : PIECE_BYTES;
        ssize_t got = read(fd, data + done, want);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return mc_fail_errno(errno, "%s", path);
        if (got == 0) return mc_fail(MICA_EIO, "%s: was cut short while it was read", path);
        done += (size_t)got;
        MC_TRY(tick(watch, (size_t)got));
    }
    return MICA_OK;
}

mica_status mc_filemap_read(const char *path, mc_file_kind kind, size_t padding,
                            const mc_file_watch *watch, mc_filemap *map) {
    int fd;
    size_t size;
    *map = (mc_filemap){0};
    MC_TRY(open_regular(path, kind, &fd, &size));
    mica_status status;
    uint8_t *data = padding < SIZE_MAX / 2 ? mc_table_alloc(size + padding) : NULL;
    bool interleaved = size >= PIECE_BYTES && mc_pages_interleave();
    if (data)
        status = read_all(fd, path, watch, data, size);
    else
        status = mc_fail(MICA_ENOMEM, "out of memory: %s: the %zu bytes of the file", path, size);
    close(fd);
    if (interleaved) mc_pages_local();
    if (status != MICA_OK) {
        mc_free(data);
        return status;
    }
    memset(data + size, 0, padding);
    *map = (mc_filemap){.data = data, .size = size, .in_memory = true};
    return MICA_OK;
}

mica_status mc_filemap_read_head(const char *path, size_t max, mc_filemap *map, size_t *file_size) {
    int fd;
    *map = (mc_filemap){0};
    MC_TRY(open_regular(path, MC_FILE_WEIGHTS, &fd, file_size));
    size_t size = *file_size < max ? *file_size : max;
    uint8_t *data = mc_alloc(size);
    mica_status status = data ? read_all(fd, path, NULL, data, size) : mc_fail_nomem(path);
    close(fd);
    if (status == MICA_OK)
        *map = (mc_filemap){.data = data, .size = size, .in_memory = true};
    else
        mc_free(data);
    return status;
}

mica_status mc_file_check_pointer(const char *path, const void *bytes, size_t size) {
    static const char begin[] = "version https://git-lfs.github.com/spec/";
    if (size < sizeof begin - 1 || memcmp(bytes, begin, sizeof begin - 1) != 0) return MICA_OK;
    return mc_fail(MICA_EFORMAT,
                   "%s: is a pointer of Git LFS, not the file itself: fetch it by git lfs pull, or "
                   "the model by mica pull ORG/NAME",
                   path);
}

void mc_filemap_close(mc_filemap *map) {
    void *data = (void *)(uintptr_t)map->data;
    if (map->locked) munlock(data, map->size);
    if (map->in_memory)
        mc_free(data);
    else if (data)
        munmap(data, map->size);
    *map = (mc_filemap){0};
}

mica_status mc_filemap_prefetch(const mc_filemap *map, const mc_file_watch *watch) {
    long page = sysconf(_SC_PAGESIZE);
    size_t step = page > 0 ? (size_t)page : 4096;
    uint8_t *data = (uint8_t *)(uintptr_t)map->data;
    mica_status status = MICA_OK;
    if (map->in_memory) return MICA_OK;
    bool interleaved = mc_pages_interleave();
    for (size_t at = 0; status == MICA_OK && at < map->size; at += PIECE_BYTES) {
        size_t n = map->size - at < PIECE_BYTES ? map->size - at : PIECE_BYTES;
        posix_madvise(data + at, n, POSIX_MADV_WILLNEED); /* a hint */
        for (size_t i = 0; i < n; i += step)
            (void)*(const volatile uint8_t *)(data + at + i);
        status = tick(watch, n);
        /* The rest is read when it is used. If large pages were asked for before the hint above,
         * the system would give small ones: see docs/speed/memory-and-startup.md. */
        if (status != MICA_OK) mc_prefer_large_pages(data + at + n, map->size - at - n);
    }
    if (interleaved) mc_pages_local();
    return status;
}

void mc_filemap_release(const mc_filemap *map, const void *at, size_t bytes) {
    long page = sysconf(_SC_PAGESIZE);
    if (map->in_memory || map->locked || page <= 0) return;
    size_t before = ((size_t)page - (uintptr_t)at % (size_t)page) % (size_t)page;
    if (bytes < before + (size_t)page) return;
    size_t whole = (bytes - before) / (size_t)page * (size_t)page;
    madvise((uint8_t *)(uintptr_t)at + before, whole, MADV_DONTNEED); /* a hint */
}

bool mc_filemap_is_present(const mc_filemap *map) {
    enum { LOOKS = 64 };
    long page = sysconf(_SC_PAGESIZE);
    if (map->in_memory || page <= 0) return true;
    uint8_t *data = (uint8_t *)(uintptr_t)map->data;
    size_t pages = map->size / (size_t)page, looks = pages < LOOKS ? pages : LOOKS, absent = 0;
    for (size_t i = 0; i < looks; i++) {
        unsigned char present = 1; /* Darwin declares it as char */
        if (mincore(data + pages / looks * i * (size_t)page, 1, (void *)&present) == 0)
            absent += (present & 1) == 0;
    }
    return 2 * absent <= looks;
}

static mica_status fail_lock(int error, const char *path, size_t size) {
    struct rlimit limit;
    bool limited = getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    if (!limited)
        return mc_fail(MICA_ENOMEM, "%s: its %zu bytes cannot be locked in memory: %s", path, size,
                       strerror(error));
    return mc_fail(MICA_ENOMEM,
                   "%s: its %zu bytes cannot be locked in memory: the limit of this process is "
                   "%llu bytes in all: raise it (`ulimit -l unlimited`, or memlock in "
                   "limits.conf), or open the model without mlock",
                   path, size, (unsigned long long)limit.rlim_cur);
}

mica_status mc_filemap_lock(mc_filemap *map, const char *path) {
    if (map->size == 0) return MICA_OK;
    if (mlock(map->data, map->size) != 0) return fail_lock(errno, path, map->size);
    map->locked = true;
    return MICA_OK;
}

bool mc_path_stat(const char *path, mc_path_info *info) {
    struct stat seen;
    if (stat(path, &seen) != 0) return false;
    *info = (mc_path_info){
        .is_file = S_ISREG(seen.st_mode),
        .is_dir = S_ISDIR(seen.st_mode),
        .bytes = (uint64_t)seen.st_size,
        .modified = (int64_t)seen.st_mtime,
        .modified_ns = (int64_t)MODIFIED(seen).tv_nsec,
        .id = {(uint64_t)seen.st_dev, (uint64_t)seen.st_ino},
    };
    return true;
}

const char *mc_path_name(const char *path) {
    const char *name = path;
    for (; *path; path++)
        if (mc_is_slash(*path)) name = path + 1;
    return name;
}

bool mc_is_entry_name(mc_str name) {
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] == '/' || name.ptr[i] == '\\' || !name.ptr[i]) return false;
    return name.len > 0 && name.ptr[0] != '.';
}

bool mc_path_is_file(const char *path) {
    mc_path_info info;
    return mc_path_stat(path, &info) && info.is_file;
}

bool mc_path_is_dir(const char *path) {
    mc_path_info info;
    return mc_path_stat(path, &info) && info.is_dir;
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
    bool slash = dir_len > 0 && !mc_is_slash(dir[dir_len - 1]);
    char *path = mc_alloc(dir_len + slash + name_len + 1);
    if (!path) return NULL;
    memcpy(path, dir, dir_len);
    if (slash) path[dir_len] = '/';
    memcpy(path + dir_len + slash, name, name_len + 1);
    return path;
}
