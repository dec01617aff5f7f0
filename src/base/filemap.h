/* A file mapped for reading, and small file helpers. Platform files hold the bodies. */
#ifndef BASE_FILEMAP_H
#define BASE_FILEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

MICA_BEGIN

typedef struct mc_filemap { /* zero is nothing mapped */
    const uint8_t *data;
    size_t size;
} mc_filemap;

/* Maps a whole file, read only. An empty file gives size 0 and data NULL.
 * errors  MICA_ENOENT, MICA_EIO (a folder, no permission), MICA_ENOMEM */
mica_status mc_filemap_open(const char *path, mc_filemap *map);
void mc_filemap_close(mc_filemap *map); /* takes an unmapped one; idempotent */

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
