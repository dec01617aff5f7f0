/* Files of arrays, each with a name: safetensors.
 *
 *     mica_array_file *file = NULL;
 *     mica_array_file_open("adapters.safetensors", &file);
 *     for (size_t i = 0; i < mica_array_file_count(file); i++)
 *         use(mica_array_file_name(file, i), mica_array_file_load(file, i, s));
 *     mica_array_file_close(&file);
 *
 * Threads: an opened file may be read from any number of threads, each with a scope of its own. */
#ifndef MICA_IO_H
#define MICA_IO_H

#include <mica/api.h>
#include <mica/array.h>
#include <mica/program.h>
#include <mica/status.h>

#include <stdbool.h>
#include <stddef.h>

MICA_BEGIN

/** A file of arrays that is open for reading. */
typedef struct mica_array_file mica_array_file;

/** An entry of a file's metadata: two texts in UTF-8. An element of an array: it gets no new
 *  members. */
typedef struct mica_metadata {
    const char *key;   /* such as "format" */
    const char *value; /* such as "mlx" */
} mica_metadata;

/** Opens a safetensors file, or a folder of them (its index, else model.safetensors, else all). The
 *  files are mapped, and must not change while they are open.
 *
 *  path    Borrowed.
 *  file    receives the file, owned by the caller; NULL after an error.
 *  errors  MICA_EINVAL; MICA_ENOENT; MICA_EIO; MICA_EFORMAT a malformed file: the text names it and
 *          the tensor; MICA_EUNSUPPORTED an unknown dtype, too many axes; MICA_ENOMEM */
MICA_API mica_status mica_array_file_open(const char *path, mica_array_file **file);

/** Closes *file and sets it to NULL. Does nothing for NULL. Loaded arrays stay. */
MICA_API void mica_array_file_close(mica_array_file **file);

/** The number of arrays, and the name of the i-th, by the position of their data; NULL past the
 *  end. Names live as long as the file. */
MICA_API size_t mica_array_file_count(const mica_array_file *file);
MICA_API const char *mica_array_file_name(const mica_array_file *file, size_t i);

/** Finds an array's number by its name.
 *  returns  false if there is none; *i is then unchanged */
MICA_API bool mica_array_file_find(const mica_array_file *file, const char *name, size_t *i);

/** The i-th entry of the metadata; its texts live as long as the file.
 *  returns  false past the end */
MICA_API bool mica_array_file_metadata(const mica_array_file *file, size_t i, mica_metadata *entry);

/** Copies the i-th array into s.
 *
 *  returns  the array, with its dtype and shape in the file. It is invalid after an error, which s
 *           keeps: MICA_EINVAL no such array; MICA_EDTYPE the file's dtype is none of mica's (F64,
 *           F8_E4M3, ...); MICA_ENOMEM */
MICA_API mica_array mica_array_file_load(const mica_array_file *file, size_t i, mica_scope *s);

/** Saves arrays as a safetensors file, whole or not at all, as mica_file_save does. Arrays are
 *  evaluated, and written one after the other: those with the largest elements first, so that all
 *  are aligned, and among equals in the order given.
 *
 *  path      an existing file is replaced. Borrowed.
 *  arrays    [n] each with a name of its own, in UTF-8, that is not "__metadata__". Borrowed.
 *  metadata  [n_metadata] texts for the header; NULL if n_metadata is 0. Borrowed.
 *  errors    MICA_EINVAL a name is missing, ill-formed or there twice; an invalid array of no
 *            scope; those of mica_eval and mica_file_save. An existing file is then unchanged */
MICA_API mica_status mica_save_safetensors(const char *path, const mica_named_array *arrays,
                                           size_t n, const mica_metadata *metadata,
                                           size_t n_metadata);

/** Loads all arrays of a safetensors file, or of a folder of them, into s.
 *
 *  arrays   receives [*n] arrays of s with their names, one block of memory that is freed with
 *           mica_free; NULL after an error.
 *  errors   those of mica_array_file_open, and those of mica_array_file_load, which s keeps */
MICA_API mica_status mica_load_safetensors(const char *path, mica_scope *s,
                                           mica_named_array **arrays, size_t *n);

MICA_END

#endif
