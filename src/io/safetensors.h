/* The weights of a model: safetensors files and their tensors by name.
 *
 * A file is 8 bytes of header length (little-endian), a JSON header, and the data. Opening checks
 * the whole header: every tensor is inside its file, none overlap, and each has the size of its
 * shape and dtype. Data is a view of the file, mapped or in memory. A tensor that is unaligned for
 * its dtype is copied to aligned memory. Blocks of mxfp4, as the hub has them (x_blocks, x_scales),
 * are seen as MLX's x.weight and x.scales, which are the same bytes; so are matrices of a folder
 * that are quantised in other ways (io/published.h), of which some have to be made.
 *
 * If another process cuts a mapped file short, reading it raises SIGBUS, which the library cannot
 * catch.
 *
 * Threads: an opened mc_weights may be read from any number of threads.
 * Source: the format's description and the reference implementation (safetensors 0.5). */
#ifndef IO_SAFETENSORS_H
#define IO_SAFETENSORS_H

#include "base/filemap.h"
#include "base/status.h"
#include "io/weight.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mc_weights mc_weights;

/* How weights get into memory; zero: they are mapped, and read when they are first used. */
typedef struct mc_weights_options {
    bool headers;  /* read only headers: tensors have data NULL. Excludes all other options */
    bool no_mmap;  /* read into memory, in large pages if the system has them, instead of mapping */
    bool prefetch; /* read mapped files ahead */
    bool cold;     /* read them ahead if one of them is not in memory, and all fit in half of it */
    bool lock;     /* keep them in memory until they are closed; reads them ahead, too */
    mc_weight_form form; /* of matrices that are not quantised as MLX does */
    /* Called with the bytes that were read so far and in all. Another status than MICA_OK ends the
     * call. May be NULL. */
    mica_status (*watch)(void *context, uint64_t done, uint64_t total);
    void *context; /* given to watch */
} mc_weights_options;

/* Opens the weights at `path`: one file, or a model folder. In a folder the weights are, in this
 * order of preference:
 *   - the shards that model.safetensors.index.json lists;
 *   - model.safetensors;
 *   - the files model*.safetensors;
 *   - all files *.safetensors.
 *
 * options NULL for the defaults. Borrowed until this returns.
 * w       receives the weights, owned by the caller; NULL after an error.
 * errors  MICA_ENOENT no such file, no weights in the folder, a shard or tensor of the index is
 *         missing; MICA_EIO; MICA_EFORMAT a malformed file (the text names file and tensor);
 *         MICA_EUNSUPPORTED an unknown dtype, more than MICA_MAX_NDIM axes; MICA_ENOMEM also if the
 *         system cannot lock the memory (the text has its limit); the watch's */
mica_status mc_weights_open(const char *path, const mc_weights_options *options, mc_weights **w);

/* The same for one file in memory, which must outlive *w. `name` goes into error texts. */
mica_status mc_weights_parse(const void *bytes, size_t size, const char *name, mc_weights **w);

/* Reads mapped files ahead, all of them or until the watch ends it. errors  the watch's */
mica_status mc_weights_prefetch(const mc_weights *w, const mc_file_watch *watch);

/* Whether opening has read the files, and has called the watch for all bytes. */
bool mc_weights_were_read(const mc_weights *w);

/* The i-th pair of the files' "__metadata__", in the order of the files; false past the end. */
bool mc_weights_metadata_at(const mc_weights *w, size_t i, const char **key, const char **value);

/* Closes *w, frees its tensors and their data, and sets it to NULL. Does nothing for NULL. */
void mc_weights_close(mc_weights **w);

/* The tensor of that name; NULL: there is none. Lives as long as w. */
const mc_weight_tensor *mc_weights_find(const mc_weights *w, const char *name);

/* All tensors, sorted by their files' names, within a file by the order of their data. */
size_t mc_weights_count(const mc_weights *w);
const mc_weight_tensor *mc_weights_at(const mc_weights *w, size_t i); /* i < count */

/* ---- kinds of elements ---- */

/* The format's name of a dtype: "BF16". */
const char *mc_weight_kind(mica_dtype dtype);

/* Sets *bytes to the size of a tensor's data, by its kind and shape.
 * returns  false if the format has no such kind, or the size overflows or is no whole number */
bool mc_weight_bytes(const mc_weight_tensor *tensor, uint64_t *bytes);

#endif
