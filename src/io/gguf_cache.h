/* GGUF files as people name them, and where the model folders that are made of them are kept.
 *
 *     <cache>/org/name-GGUF:Q4_K_M/            of a file of a hub
 *     <cache>/files/name.Q4_K_M-1a2b3c4d/      of another file, with a hash of its path
 *
 * Each folder has from its beginning a file mica_gguf.txt, its origin: the files that it was made
 * of, with their sizes, times and numbers on the disk. It counts as long as these are the same.
 * Folders without that file are the user's own: nothing here changes or removes one.
 *
 * Threads: any, while nobody changes the environment. */
#ifndef IO_GGUF_CACHE_H
#define IO_GGUF_CACHE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

/* Sets *path to $MICA_GGUF_CACHE, else to mica/gguf in $XDG_CACHE_HOME or ~/.cache, in new memory,
 * or to NULL if none of these variables is set. errors  MICA_ENOMEM */
mica_status mc_gguf_cache_find(char **path);

/* Splits "org/name-GGUF:Q4_K_M" at the colon, and gives "org/name-GGUF" alone the usual Q4_K_M.
 * *name_bytes: of the repository's name. returns  what to look for; NULL: it names no quantisation
 */
const char *mc_gguf_quant_of(const char *name, size_t *name_bytes);

/* The files of one model, in their order: of a file, which may be one of several
 * (-00001-of-00003), or of a folder that holds one model. Those of vision towers (mmproj) do not
 * count.
 *
 * quant   one of these models, by the last part of its name or by its folder; NULL: there is one
 * files   [*count] paths in the arena
 * errors  MICA_ENOENT there is none, or one of several is missing; MICA_EINVAL there are several
 *         models (the text names them); MICA_EIO, MICA_ENOMEM */
mica_status mc_gguf_files_find(const char *path, const char *quant, mc_arena *arena,
                               const char ***files, size_t *count);

/* Writes the origin of files.
 * errors  MICA_ENOENT one is not there; MICA_EINVAL a path has a line break; MICA_ENOMEM */
mica_status mc_gguf_origin_make(const char *const *files, size_t count, mc_buffer *out);

/* MADE: of GGUF files that are gone or have changed, or by another version. STANDS: they are there,
 * and the same. */
typedef enum mc_gguf_made { MC_GGUF_FOREIGN, MC_GGUF_MADE, MC_GGUF_STANDS } mc_gguf_made;

/* Finds out what a folder was made of. errors  MICA_ENOMEM; MICA_EIO it cannot be read */
mica_status mc_gguf_origin_find(const char *folder, mc_gguf_made *made);

/* Whether a folder was made of that origin. */
bool mc_gguf_origin_is(const char *folder, mc_str origin);

/* Marks a folder as made of that origin. errors  MICA_EIO, MICA_ENOMEM */
mica_status mc_gguf_origin_write(const char *folder, mc_str origin);

/* The name of a folder below the cache for a file that no hub has, in new memory. */
char *mc_gguf_folder_name(const char *file);

#endif
