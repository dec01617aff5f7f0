/* Sessions in files.
 *
 * In the computer's byte order, everything in whole words of 8 bytes (padded with zeros):
 *
 *     header    struct header of session_file.c: magic, version, byte order, the model's
 *               fingerprint, counts, the dtype of keys and values, the hash of forgotten tokens
 *               (tokens.h)
 *     history   i32 [tokens - forgotten]: the last ones
 *     a layer   count of its entries (one word); keys, then values: [kv_heads, count, head_dim]
 *     checksum  one word, over all words before it
 *
 * The fingerprint is of what the model computes with: its decoder's numbers, the names, kinds,
 * shapes and samples of its tensors, its adapter's factors. A file is checked whole before anything
 * is made of it. Threads: as a session. */
#ifndef SESSION_SESSION_FILE_H
#define SESSION_SESSION_FILE_H

#include "session/session.h"

/* Writes a session to a new file, and renames that to `path`.
 * errors  MICA_EIO, MICA_ENOENT, MICA_ENOMEM */
mica_status mc_session_save(mc_session *session, const char *path);

/* Opens a session as the file has it; chunk as in mc_session_open.
 * errors  MICA_ENOENT, MICA_EIO; MICA_EFORMAT; MICA_EINVAL another model, adapter or context, or
 *         chunk; MICA_ENOMEM */
mica_status mc_session_load(const mc_session_model *model, const char *path, int64_t chunk,
                            mc_session **session);

/* The same from memory, aligned for words; `name` is for error texts. */
mica_status mc_session_parse(const mc_session_model *model, const void *data, size_t size,
                             const char *name, int64_t chunk, mc_session **session);

/* The model's fingerprint, and the checksum of `size` bytes, a multiple of 8: for who makes such
 * files. */
mica_status mc_session_fingerprint(const mc_session_model *model, uint64_t *fingerprint);
uint64_t mc_session_checksum(const void *data, size_t size);

#endif
