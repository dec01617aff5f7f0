/* Finding model folders below a path without opening their files. */
#ifndef IO_MODEL_SEARCH_H
#define IO_MODEL_SEARCH_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/status.h"

#include <stdint.h>

typedef struct mc_found_folder {
    const char *path;
    const char *name;      /* see mica_found_model */
    uint64_t weight_bytes; /* of the files *.safetensors, links followed */
    uint64_t weight_files; /* their number */
} mc_found_folder;

/* Looks for folders with config.json and *.safetensors: see mica_discover.
 *
 * arena   receives the texts.
 * found   mc_found_folder: the folders found are added, the least deep first.
 * errors  MICA_ENOENT, MICA_EIO path cannot be read; MICA_ENOMEM */
mica_status mc_model_folders_find(const char *path, mc_arena *arena, mc_buffer *found);

#endif
