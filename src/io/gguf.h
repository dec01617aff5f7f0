/* GGUF files: metadata and tensors by name, read only.
 *
 * A file is a header, key-value pairs, a list of tensors, and their data. Opening checks all of it:
 * every string, array and tensor is inside the file, tensors are whole blocks that do not overlap,
 * and no name is there twice. Data is a view of the mapped file.
 *
 * Threads: an opened file may be read from any number of threads.
 * Source: the format's description (ggml, docs/gguf.md), versions 2 and 3. */
#ifndef IO_GGUF_H
#define IO_GGUF_H

#include "base/status.h"
#include "base/str.h"
#include "io/ggml_block.h"

#include <mica/array.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mc_gguf mc_gguf;

typedef struct mc_gguf_tensor {
    const char *name;
    const mc_ggml_type *type;
    int ndim;
    int64_t shape[MICA_MAX_NDIM]; /* row-major, as mica's: the reverse of the file's */
    const void *data;             /* little-endian; perhaps unaligned */
    size_t bytes;
} mc_gguf_tensor;

/* Maps and checks a file, or, of one that is one of several of a model by its name
 * (-00001-of-00003.gguf), all of them: metadata is the first one's, tensors those of all. A folder
 * that holds one model's files stands for them.
 *
 * gguf    owned by the caller; NULL after an error.
 * errors  MICA_ENOENT, MICA_EIO; MICA_EFORMAT a malformed file (the text names it and what is
 *         wrong); MICA_EUNSUPPORTED another version, big-endian, an unknown type of a tensor;
 *         MICA_ENOMEM */
mica_status mc_gguf_open(const char *path, mc_gguf **gguf);

/* The same for a file in memory, which must outlive *gguf. `name` goes into error texts. */
mica_status mc_gguf_parse(const void *bytes, size_t size, const char *name, mc_gguf **gguf);

/* Closes *gguf and sets it to NULL. Does nothing for NULL. */
void mc_gguf_close(mc_gguf **gguf);

/* The path or name of the file; lives as long as it. */
const char *mc_gguf_path(const mc_gguf *gguf);

size_t mc_gguf_count(const mc_gguf *gguf);
const mc_gguf_tensor *mc_gguf_at(const mc_gguf *gguf, size_t i); /* i < count */
const mc_gguf_tensor *mc_gguf_find(const mc_gguf *gguf, const char *name);

/* The value of a key. They return false, and leave *value unchanged, if there is none or it has
 * another type; integers of every width count as int64, unless they are larger, and integers count
 * as numbers. */
bool mc_gguf_int(const mc_gguf *gguf, const char *key, int64_t *value);
bool mc_gguf_number(const mc_gguf *gguf, const char *key, double *value);
bool mc_gguf_bool(const mc_gguf *gguf, const char *key, bool *value);
bool mc_gguf_str(const mc_gguf *gguf, const char *key, mc_str *value); /* of any bytes */

/* Whether there is an array of strings, or one of numbers. It may be empty. */
bool mc_gguf_has_strs(const mc_gguf *gguf, const char *key);
bool mc_gguf_has_numbers(const mc_gguf *gguf, const char *key);

/* The number of elements of an array; 0: none. */
size_t mc_gguf_array(const mc_gguf *gguf, const char *key);

/* Iterates over the elements of an array of strings, of integers or of numbers:
 *     for (mc_gguf_iter it = mc_gguf_begin(gguf, key); mc_gguf_next(&it);) use(it.text); */
typedef struct mc_gguf_iter {
    mc_str text;     /* arrays of strings */
    int64_t integer; /* of integers and bools */
    double number;   /* of integers and numbers */
    size_t index;    /* of the element */
    const uint8_t *at;
    size_t left;
    uint32_t type;
} mc_gguf_iter;
mc_gguf_iter mc_gguf_begin(const mc_gguf *gguf, const char *key); /* empty if there is no array */
bool mc_gguf_next(mc_gguf_iter *it);

#endif
