/* The bytes of a file, mapped or read, and small file helpers. */
#ifndef BASE_FILEMAP_H
#define BASE_FILEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

MICA_BEGIN

/* The kind of a file, which limits its size. */
typedef enum mc_file_kind {
#define FILE_KIND(name, words, bytes) MC_FILE_##name,
#include "base/file_kind_list.h"
#undef FILE_KIND
} mc_file_kind;

typedef struct mc_filemap { /* zero is nothing mapped */
    const uint8_t *data;
    size_t size;
    bool in_memory; /* true: read into memory of mc_table_alloc; false: mapped */
    bool locked;
} mc_filemap;

/* `tick` is called after each piece of long work, in the caller's thread, with the piece's bytes.
 * Returning another status than MICA_OK ends the work. */
typedef struct mc_file_watch {
    mica_status (*tick)(void *context, size_t bytes);
    void *context;
} mc_file_watch;

/* Maps a whole file, read only. An empty file gives size 0 and data NULL. If the file is cut
 * afterwards, a read behind its end raises SIGBUS: small files are therefore read, not mapped.
 * errors  MICA_ENOENT, MICA_EIO (a folder, no permission), MICA_ENOMEM; MICA_EFORMAT larger than
 *         its kind may be */
mica_status mc_filemap_open(const char *path, mc_file_kind kind, mc_filemap *map);
/* Reads a whole file into memory, in large pages if the system has them. `padding` zero bytes
 * follow, which size does not count. watch may be NULL.
 * errors  those of mc_filemap_open and of the watch; MICA_EIO the file became shorter meanwhile */
mica_status mc_filemap_read(const char *path, mc_file_kind kind, size_t padding,
                            const mc_file_watch *watch, mc_filemap *map);
/* Reads the first `max` bytes of a file into memory, or all of a shorter file. *file_size receives
 * the file's size. errors  as mc_filemap_read */
mica_status mc_filemap_read_head(const char *path, size_t max, mc_filemap *map, size_t *file_size);
/* errors  MICA_EFORMAT the bytes of a file are a pointer of Git LFS, not the file itself */
mica_status mc_file_check_pointer(const char *path, const void *bytes, size_t size);
void mc_filemap_close(mc_filemap *map); /* does nothing for an empty or closed one */

/* Reads a mapped file ahead: afterwards its pages are in memory and in the process's page table.
 * Does nothing for a file that was read. errors  the watch's */
mica_status mc_filemap_prefetch(const mc_filemap *map, const mc_file_watch *watch);

/* Takes pages of a mapped file, those that [at, at + bytes) has whole, out of the process's memory:
 * they are read from the file again if somebody looks. Does nothing for a file that was read, or is
 * locked. */
void mc_filemap_release(const mc_filemap *map, const void *at, size_t bytes);

/* Whether most of a mapped file is in memory, estimated from some of its pages. True if the system
 * does not tell. */
bool mc_filemap_is_present(const mc_filemap *map);

/* Keeps the bytes in memory until the map is closed. `path` goes into error texts.
 * errors  MICA_ENOMEM the system refuses (the text has its limit) */
mica_status mc_filemap_lock(mc_filemap *map, const char *path);

/* What a path leads to, links followed. */
typedef struct mc_path_info {
    bool is_file, is_dir; /* neither: a device, FIFO or socket */
    uint64_t bytes;       /* size of a file */
    int64_t modified;     /* seconds since 1970 */
    int64_t modified_ns;  /* the rest in nanoseconds */
    uint64_t id[2];       /* equal for two paths to the same file or folder */
} mc_path_info;

/* False if nothing is there, or it cannot be read. Sets no error text. */
bool mc_path_stat(const char *path, mc_path_info *info);

bool mc_path_is_file(const char *path);
const char *mc_path_name(const char *path); /* its last part */
/* Whether a text from a file is the name of an entry of a folder, on whatever system: without
 * slashes and backslashes, not hidden, and neither "" nor "..". */
bool mc_is_entry_name(mc_str name);
bool mc_path_is_dir(const char *path);
/* The names of a folder's entries that end in `suffix` ("" for all), sorted bytewise, in the arena.
 * Hidden entries are left out.
 * errors  MICA_ENOENT, MICA_EIO, MICA_ENOMEM */
mica_status mc_dir_list(const char *path, const char *suffix, mc_arena *arena, const char ***names,
                        size_t *count);

/* "dir/name", freed with mc_free; NULL: no memory. */
char *mc_path_join(const char *dir, const char *name);

MICA_END

#endif
