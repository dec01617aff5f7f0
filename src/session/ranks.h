/* Sessions of a model over ranks (model/split.h) in files: the same as those of one rank.
 *
 * Each rank has its heads of the caches of its stage's layers. When a session is saved the ranks of
 * a stage gather these, layer by layer, and rank 0 writes them. When one is loaded rank 0 reads the
 * file for all, and each takes its own. Ranks call all of this together, and all get the same
 * status.
 *
 * Threads: as a session. */
#ifndef SESSION_RANKS_H
#define SESSION_RANKS_H

#include "session/cache.h"

#include <mica/group.h>

/* mc_cache_write of the whole model's cache, on rank 0; w of others is not used. Where rank 0
 * cannot write, the other ranks are heard to the end; a rank without memory ends the group.
 *  errors  those of mc_cache_write; MICA_EDEVICE a rank is gone */
mica_status mc_ranks_write(mc_cache *cache, int64_t total, mc_part_writer *w);

/* mc_cache_read of a rank's part of what the whole model's cache was.
 *  errors  those of mc_cache_read */
mica_status mc_ranks_read(mc_cache *cache, mica_scope *home, int64_t total, mc_part_reader *r);

/* The bytes of a file that rank 0 has mapped, for all: on other ranks a copy, which is to be freed.
 *
 *  status    of mapping it, on rank 0
 *  data      [size] on rank 0; receives the copy on others, aligned to words
 *  errors    that of rank 0; MICA_EDEVICE; MICA_ENOMEM */
mica_status mc_ranks_share(const mc_lm *lm, mica_status status, const void **data, size_t *size);

#endif
