/* Writing safetensors files: one file, or the files of a model's folder.
 *
 * A file's header comes first and holds all positions, so a writer is opened with what it will hold
 * and is then given the data, in order and in pieces of any size: no tensor need be in memory as a
 * whole. A file appears whole or not at all (base/save.h). Of a tensor that is to be written,
 * mc_weight_tensor's name, kind, ndim and shape are read.
 *
 * Names must be UTF-8, each there once, and not "__metadata__". The header is padded to a multiple
 * of 8 bytes, so that the data is aligned if the tensors with large elements come first.
 *
 * Threads: a writer belongs to one.
 * Source: the format's description (safetensors 0.5). */
#ifndef IO_SAFETENSORS_WRITE_H
#define IO_SAFETENSORS_WRITE_H

#include "base/status.h"
#include "io/safetensors.h"

#include <mica/io.h>

#include <stddef.h>
#include <stdint.h>

typedef struct mc_weights_writer mc_weights_writer;
typedef struct mc_shard_writer mc_shard_writer;

/* Opens a writer and writes the header.
 *
 * path      an existing file is replaced at the end. Borrowed until the writer is closed.
 * tensors   [count] borrowed until this returns.
 * metadata  [n_metadata] borrowed until this returns.
 * writer    owned by the caller; NULL after an error.
 * errors    MICA_EINVAL a name is absent, not UTF-8, "__metadata__" or there twice; an unknown
 *           kind; a size that overflows; a header above 100 MB, which no reader takes.
 *           MICA_ENOENT no such folder; MICA_EIO; MICA_ENOMEM */
mica_status mc_weights_writer_open(const char *path, const mc_weight_tensor *tensors, size_t count,
                                   const mica_metadata *metadata, size_t n_metadata,
                                   mc_weights_writer **writer);

/* Writes the next bytes of the data. errors  MICA_EINVAL more than the tensors have; MICA_EIO */
mica_status mc_weights_writer_add(mc_weights_writer *writer, const void *data, size_t bytes);

/* Ends a file and sets *writer to NULL; nothing for NULL, except that the status is returned. With
 * MICA_OK the file gets its name. With another status it is dropped, and that status is returned.
 * errors  MICA_EINVAL bytes are missing; MICA_EIO */
mica_status mc_weights_writer_close(mc_weights_writer **writer, mica_status status);

/* Opens a writer of a folder's weights, with {"format": "mlx"} as metadata: model.safetensors, or,
 * where that would be larger than shard_bytes, shards model-00001-of-00002.safetensors and so on.
 * A tensor that is larger has a shard of its own. model.safetensors.index.json is written at the
 * end.
 *
 * folder      exists. Borrowed until the writer is closed.
 * tensors     [count] borrowed until the writer is closed.
 * parameters  for the index's total_parameters: logical ones, a 4-bit weight counts as one. */
mica_status mc_shard_writer_open(const char *folder, const mc_weight_tensor *tensors, size_t count,
                                 uint64_t shard_bytes, uint64_t parameters,
                                 mc_shard_writer **writer);

/* Writes the data of the next tensor, or, in several calls, pieces of it. */
mica_status mc_shard_writer_add(mc_shard_writer *writer, const void *data, size_t bytes);

/* Ends the files. After an error, files that are whole stay: the caller removes the folder. */
mica_status mc_shard_writer_close(mc_shard_writer **writer, mica_status status);

#endif
