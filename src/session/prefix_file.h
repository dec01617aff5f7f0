/* Files of prefixes: what a pool keeps of texts (session/prefix.h), saved for a later process,
 * which then need not read these texts again.
 *
 * Numbers are in the computer's byte order, in parts (session/file_parts.h):
 *
 *     header     struct header of prefix_file.c: magic, version, byte order, the model's
 *                fingerprint, what computed, what the states are, counts
 *     index      of each prefix, the one used longest ago first: its hash, and a bit for each group
 *                of which there is a block
 *     blocks     of each prefix and such a group, as its state writes entries (session/state.h)
 *     snapshots  of each, the one used longest ago first: the hash of the text before it, and the
 *                states that are in no blocks, as they write themselves
 *     checksum
 *
 * Files of version 1 had no snapshots, and blocks of one part alone, in pieces; they are read.
 *
 * Tokens are not in the file, only their hashes, which begin with that of a salt; so texts of
 * another salt do not find them. Keys and values tell much about the texts all the same, so only
 * the owner may read the file.
 *
 * What was computed by another version of mica, on another kind of device or processor, or with
 * other arithmetic may have other bits, and is refused as that of another model is. A file is
 * checked as a whole before it is used.
 *
 * Threads: as the pool. */
#ifndef SESSION_PREFIX_FILE_H
#define SESSION_PREFIX_FILE_H

#include "session/session.h"

/* Writes the prefixes of the model's pool that no session uses to a new file, then renames that to
 * `path`.
 *  errors  MICA_EUNSUPPORTED the pool keeps none; MICA_EIO, MICA_ENOENT, MICA_ENOMEM,
 *          MICA_EDEVICE */
mica_status mc_prefix_file_save(const mc_session_model *model, const char *path);

/* Adds a file's prefixes to the model's pool, which takes free blocks for them: those used last, if
 * there are not enough for all.
 *
 *  tokens  receives how many tokens these blocks have, over all texts
 *  errors  MICA_EUNSUPPORTED the pool keeps none; MICA_ENOENT, MICA_EIO; MICA_EFORMAT; MICA_EINVAL
 *          another model, adapter, device, version or kind of cache; MICA_ENOMEM, MICA_EDEVICE. The
 *          pool is as before */
mica_status mc_prefix_file_load(const mc_session_model *model, const char *path, int64_t *tokens);

/* mc_prefix_file_load from memory that is aligned to words. `name` is for error texts. */
mica_status mc_prefix_file_parse(const mc_session_model *model, const void *data, size_t size,
                                 const char *name, int64_t *tokens);

#endif
