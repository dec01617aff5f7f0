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
