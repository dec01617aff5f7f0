/* The weights of a model: safetensors files and their tensors by name.
 *
 * A file is 8 bytes of header length (little-endian), a JSON header, and the data. What is opened
 * is checked whole: afterwards every tensor lies inside its file, none overlap, and each has as
 * many bytes as its shape and dtype say. Data is a view of the file, mapped or in memory; a tensor
 * that lies unaligned for its dtype is copied to aligned memory when it is opened.
 *
 * A file that another process cuts short while it is mapped is beyond what can be caught.
 *
 * Threads: an opened mc_weights may be read from any number of threads.
 * Source: the format's description and the reference implementation (safetensors 0.5). */
#ifndef IO_SAFETENSORS_H
#define IO_SAFETENSORS_H

#include "base/filemap.h"
#include "base/status.h"

#include <mica/array.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mc_weights mc_weights;

typedef struct mc_weight_tensor {
    const char *name; /* UTF-8, as in the header */
    const char *file; /* path of the file that holds it, for error texts */
    const char *kind; /* its dtype in the header: "BF16", "F8_E4M3", ... */
    bool has_dtype;   /* false: a kind that mica has no dtype for (F64, F8_*, F6_*, F4, C64) */
    mica_dtype dtype; /* where has_dtype */
    int ndim;
    int64_t shape[MICA_MAX_NDIM]; /* [ndim], each >= 0 */
    const void *data;             /* row-major, little-endian, aligned for its dtype */
    size_t begin, bytes;          /* in the data of its file */
} mc_weight_tensor;

/* How weights get into memory; zero: they are mapped, and read when they are first used. */
typedef struct mc_weights_options {
    bool headers;  /* these alone: what is known of tensors, whose data is NULL. No other then */
    bool no_mmap;  /* read into memory, in large pages where the system gives them */
    bool prefetch; /* those that are mapped are read ahead */
    bool cold;     /* so they are where a file is cold (not in memory), and all fit in half of it */
    bool lock;     /* kept in memory until they are closed; read ahead too */
    /* Told how many bytes of the files were read of how many; other than MICA_OK ends it. May be
     * NULL. */
    mica_status (*watch)(void *context, uint64_t done, uint64_t total);
    void *context; /* given to watch */
} mc_weights_options;

/* Opens the weights at `path`: one file, or the folder of a model, in which
 *   - model.safetensors.index.json, where it is there, lists the shards; or
 *   - model.safetensors holds all; or
 *   - the files model*.safetensors do; or else all files *.safetensors.
 *
 * options NULL for the defaults; looked at until this returns.
 * w       receives the weights, owned by the caller; NULL after an error.
 * errors  MICA_ENOENT no such file, no weights in the folder, a shard or tensor that the index
 *         lists is not there; MICA_EIO; MICA_EFORMAT a malformed file: the text names file and
 *         tensor; MICA_EUNSUPPORTED an unknown dtype, more than MICA_MAX_NDIM axes; MICA_ENOMEM,
 *         also where the system locks no such memory (the text says its limit); the watch's */
mica_status mc_weights_open(const char *path, const mc_weights_options *options, mc_weights **w);

/* The same for one file in memory, which must outlive *w. `name` goes into error texts. */
mica_status mc_weights_parse(const void *bytes, size_t size, const char *name, mc_weights **w);

/* Reads ahead what is mapped: all of it, or until the watch ends it. errors  the watch's */
mica_status mc_weights_prefetch(const mc_weights *w, const mc_file_watch *watch);

/* Whether bytes were read when they were opened, and the watch told of all. */
bool mc_weights_were_read(const mc_weights *w);

/* Closes *w and sets it to NULL; nothing for NULL. The tensors and their data are gone then. */
void mc_weights_close(mc_weights **w);

/* The tensor of that name, NULL where there is none. Lives as long as w. */
const mc_weight_tensor *mc_weights_find(const mc_weights *w, const char *name);

/* All tensors: files in order of their names, in each the tensors in order of their data. */
size_t mc_weights_count(const mc_weights *w);
const mc_weight_tensor *mc_weights_at(const mc_weights *w, size_t i); /* i < count */

#endif
