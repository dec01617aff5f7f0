/* A repository in the Hugging Face cache: where its parts lie, and making them.
 *
 *     <cache>/models--org--name/blobs/<checksum>
 *                               snapshots/<commit>/config.json -> ../../blobs/<checksum>
 *                               refs/main                         (holds a commit)
 *     <cache>/.locks/models--org--name/<checksum>.lock
 *
 * Threads: one at a time. */
#ifndef HUB_REPOSITORY_H
#define HUB_REPOSITORY_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { MC_COMMIT_TEXT = 41 }; /* 40 hexadecimal digits and a NUL */

typedef struct mc_repository {
    char *cache;  /* the cache's folder */
    char *folder; /* "<cache>/models--org--name" */
    char *locks;  /* "<cache>/.locks/models--org--name" */
} mc_repository;

/* Nothing on the disk is touched.
 * cache   NULL: the Hugging Face cache.
 * errors  MICA_EINVAL name is no repository's; MICA_ENOENT no variable says where the cache is;
 *         MICA_ENOMEM */
mica_status mc_repository_init(mc_repository *repository, const char *cache, const char *name);
void mc_repository_deinit(mc_repository *repository);

/* errors  MICA_EINVAL a revision that has no ref */
mica_status mc_revision_check(const char *revision);
bool mc_is_commit(const char *text);

/* Whether a path in a repository may be one below a snapshot: no "..", nothing absolute, and no
 * more folders than mica_cache_remove and mica_cache_collect go into. */
bool mc_is_file_path(const char *path);

/* Paths in new memory, freed with mc_free; NULL: no memory. suffix: behind the name, may be "". */
char *mc_repository_blob(const mc_repository *repository, const char *name, const char *suffix);
char *mc_repository_snapshot(const mc_repository *repository, const char *commit);

/* Sets commit to what a revision is in the cache. errors  MICA_ENOENT it has none; MICA_ENOMEM */
mica_status mc_repository_find(const mc_repository *repository, const char *revision,
                               char commit[MC_COMMIT_TEXT]);

/* Makes all folders of a path but its last part. errors  MICA_EIO */
mica_status mc_make_folders(const char *path);

/* Links a snapshot's file to a blob, in place of what is there.
 * errors  MICA_EIO, MICA_ENOMEM */
mica_status mc_repository_link(const mc_repository *repository, const char *commit,
                               const char *path, const char *blob);

/* Writes what a revision is, if it is no commit. errors  MICA_EIO, MICA_ENOMEM */
mica_status mc_repository_set(const mc_repository *repository, const char *revision,
                              const char *commit);

/* Locks a blob's name, as other programs do: see mc_lock_try.
 * errors  MICA_EIO, MICA_ENOMEM */
mica_status mc_repository_lock(const mc_repository *repository, const char *blob, int *lock);

#endif
