/* Writing GGUF files.
 *
 * The metadata is made first, as pairs in a buffer. Then a writer is opened with the names and
 * shapes of the tensors, and is given their data one after the other, each with its type: the
 * header, which holds types and positions, is written at the end. No tensor need be in memory as a
 * whole. A file appears whole or not at all (base/save.h).
 *
 * Threads: a writer belongs to one.
 * Source: the format's description (ggml, docs/gguf.md), version 3. */
#ifndef IO_GGUF_WRITE_H
#define IO_GGUF_WRITE_H

#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"
#include "io/gguf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The metadata; zero is empty. */
typedef struct mc_gguf_pairs {
    mc_buffer bytes;
    uint64_t count;
} mc_gguf_pairs;

void mc_gguf_pairs_deinit(mc_gguf_pairs *pairs);

/* Add a pair. Keys must differ. false: no memory. */
bool mc_gguf_put_u32(mc_gguf_pairs *pairs, const char *key, uint32_t value);
bool mc_gguf_put_f32(mc_gguf_pairs *pairs, const char *key, float value);
bool mc_gguf_put_bool(mc_gguf_pairs *pairs, const char *key, bool value);
bool mc_gguf_put_str(mc_gguf_pairs *pairs, const char *key, mc_str value);

/* An array of numbers of 8 bits. */
bool mc_gguf_put_bytes(mc_gguf_pairs *pairs, const char *key, const void *bytes, size_t count);

/* Begin an array of `count` elements, which are then added one by one. */
bool mc_gguf_begin_strs(mc_gguf_pairs *pairs, const char *key, uint64_t count);
bool mc_gguf_begin_i32s(mc_gguf_pairs *pairs, const char *key, uint64_t count);
bool mc_gguf_begin_f32s(mc_gguf_pairs *pairs, const char *key, uint64_t count);
bool mc_gguf_begin_bools(mc_gguf_pairs *pairs, const char *key, uint64_t count);
bool mc_gguf_add_str(mc_gguf_pairs *pairs, mc_str value);
bool mc_gguf_add_i32(mc_gguf_pairs *pairs, int32_t value);
bool mc_gguf_add_f32(mc_gguf_pairs *pairs, float value);
bool mc_gguf_add_bool(mc_gguf_pairs *pairs, bool value);

typedef struct mc_gguf_writer mc_gguf_writer;

/* Opens a writer.
 *
 * path     an existing file is replaced at the end. Borrowed until the writer is closed.
 * pairs    borrowed until this returns.
 * tensors  [count] of which name, ndim and shape are read. Borrowed until the writer is closed.
 * writer   owned by the caller; NULL after an error.
 * errors   MICA_ENOENT no such folder; MICA_EIO also if the file cannot be written at any place, as
 *          a pipe; MICA_ENOMEM */
mica_status mc_gguf_writer_open(const char *path, const mc_gguf_pairs *pairs,
                                const mc_gguf_tensor *tensors, size_t count,
                                mc_gguf_writer **writer);

/* Begins the data of the next tensor, which has elements of a type.
 * errors  MICA_EINVAL there is none, or the data of the last one is incomplete; MICA_EIO */
mica_status mc_gguf_writer_next(mc_gguf_writer *writer, const mc_ggml_type *type);

/* Writes the next bytes of a tensor's data.
 * errors  MICA_EINVAL more than the tensor has; MICA_EIO */
mica_status mc_gguf_writer_add(mc_gguf_writer *writer, const void *data, size_t bytes);

/* The bytes of data so far. */
uint64_t mc_gguf_writer_bytes(const mc_gguf_writer *writer);

/* Ends the file and closes *writer; nothing for NULL. With another status than MICA_OK the file is
 * dropped, and that status is returned.
 * errors  MICA_EINVAL data is missing; MICA_EIO */
mica_status mc_gguf_writer_close(mc_gguf_writer **writer, mica_status status);

#endif
