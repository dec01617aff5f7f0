/* Session files.
 *
 * Numbers are in the computer's byte order. Each part is padded with zeros to whole words of 8
 * bytes:
 *
 *     header    struct header of session_file.c: magic, version, byte order, the model's
 *               fingerprint, counts, the dtype of keys and values, the hash of forgotten tokens
 *               (tokens.h)
 *     history   i32 [tokens - forgotten]: the last tokens
 *     layers    of each that has a state of its own: the count of its entries (one word), its keys,
 *               its values, both [kv_heads, count, head_dim]; or what else its kind of state writes
 *     checksum  one word, over all words before it
 *
 * The fingerprint covers what the model computes with: the decoder's numbers; names, kinds, shapes
 * and samples of its tensors; the factors of its adapter. A file is checked as a whole before it is
 * used.
 *
 * Ranks of a model (model/split.h) save and load together, the same file as one rank does: rank 0
 * writes and reads it.
 *
 * Threads: as a session. */
#ifndef SESSION_SESSION_FILE_H
#define SESSION_SESSION_FILE_H

#include "session/file_parts.h"
#include "session/session.h"

/* Writes a session to a new file, then renames that to `path`.
 *  errors  MICA_EIO, MICA_ENOENT, MICA_ENOMEM; those of mc_session_settle */
mica_status mc_session_save(mc_session *session, const char *path);

/* Opens the session that a file holds; chunk as in mc_session_open.
 *  errors  MICA_ENOENT, MICA_EIO; MICA_EFORMAT; MICA_EINVAL another model, adapter or context, or
 *          chunk; MICA_ENOMEM */
mica_status mc_session_load(const mc_session_model *model, const char *path, int64_t chunk,
                            mc_session **session);

/* mc_session_load from memory that is aligned to words. `name` is for error texts. */
mica_status mc_session_parse(const mc_session_model *model, const void *data, size_t size,
                             const char *name, int64_t chunk, mc_session **session);

/* The model's fingerprint. */
mica_status mc_session_fingerprint(const mc_session_model *model, uint64_t *fingerprint);

#endif
