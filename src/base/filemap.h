/* The bytes of a file, mapped or read, and small file helpers. Platform files hold the bodies. */
#ifndef BASE_FILEMAP_H
#define BASE_FILEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

MICA_BEGIN

/* What a file is, which says how large it may be. */
typedef enum mc_file_kind {
#define FILE_KIND(name, words, bytes) MC_FILE_##name,
#include "base/file_kind_list.h"
#undef FILE_KIND
} mc_file_kind;

typedef struct mc_filemap { /* zero is nothing mapped */
    const uint8_t *data;
    size_t size;
    bool in_memory; /* of its own, from mc_table_alloc; else a map */
    bool locked;
} mc_filemap;

/* Told after each piece of a long work, in the thread that asked for it, how many bytes it had.
 * What it returns other than MICA_OK ends the work. */
typedef struct mc_file_watch {
    mica_status (*tick)(void *context, size_t bytes);
    void *context;
} mc_file_watch;

/* Maps a whole file, read only. An empty file gives size 0 and data NULL. Who reads behind the end
 * of one that was cut since gets SIGBUS: small files are read instead.
 * errors  MICA_ENOENT, MICA_EIO (a folder, no permission), MICA_ENOMEM; MICA_EFORMAT it is larger
 *         than one of its kind may be */
mica_status mc_filemap_open(const char *path, mc_file_kind kind, mc_filemap *map);
/* Reads a whole file into memory, in large pages where the system gives them; `padding` zero bytes
 * follow, which size does not count. watch: NULL for none.
 * errors  those of mc_filemap_open; MICA_EIO it became shorter meanwhile; the watch's */
mica_status mc_filemap_read(const char *path, mc_file_kind kind, size_t padding,
                            const mc_file_watch *watch, mc_filemap *map);
/* Reads the first `max` bytes of a file into memory, all of one that is shorter; *file_size says
 * how long it is. errors  as mc_filemap_read */
mica_status mc_filemap_read_head(const char *path, size_t max, mc_filemap *map, size_t *file_size);
void mc_filemap_close(mc_filemap *map); /* takes an unmapped one; idempotent */

/* Reads a mapped file ahead: its pages are in memory then, and known to this process. Nothing to do
 * where it was read. errors  the watch's */
mica_status mc_filemap_prefetch(const mc_filemap *map, const mc_file_watch *watch);

/* Whether most of a file is in memory, by a look at some of its pages; true where the system does
 * not tell. */
bool mc_filemap_is_present(const mc_filemap *map);

/* Keeps the bytes in memory until the map is closed. `path` goes into error texts.
 * errors  MICA_ENOMEM the system refuses: the text says its limit */
mica_status mc_filemap_lock(mc_filemap *map, const char *path);

/* What lies at a path, links followed. */
typedef struct mc_path_info {
    bool is_file, is_dir; /* neither: something else */
    uint64_t bytes;       /* of a file */
    int64_t modified;     /* seconds since 1970 */
    uint64_t id[2];       /* equal for two paths to one and the same */
} mc_path_info;

/* False where nothing can be seen there. Sets no error. */
bool mc_path_look(const char *path, mc_path_info *info);

bool mc_path_is_file(const char *path);
bool mc_path_is_dir(const char *path);
/* The names of a folder's entries that end in `suffix` ("" for all), sorted bytewise, in memory of
 * the arena. Hidden ones are left out.
 * errors  MICA_ENOENT, MICA_EIO, MICA_ENOMEM */
mica_status mc_dir_list(const char *path, const char *suffix, mc_arena *arena, const char ***names,
                        size_t *count);

/* "dir/name" in new memory, NULL: no memory. */
char *mc_path_join(const char *dir, const char *name);

MICA_END

#endif
