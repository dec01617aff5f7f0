/* Files of arrays, each with a name: safetensors, and numpy's npz and npy.
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

/** Opens a file of arrays. Its first bytes tell its kind:
 *
 *    safetensors  also a folder of them (its index, else model.safetensors, else all);
 *    npz          of numpy.savez and savez_compressed (without zlib, a build reads no compressed
 *                 one);
 *    npy          of numpy.save: one array, which is called "arr_0".
 *
 *  numpy's kinds '<V2' and '|V2', which bf16 has in its files, are bf16. The files are mapped, and
 *  must not change while they are open.
 *
 *  path    Borrowed.
 *  file    receives the file, owned by the caller; NULL after an error.
 *  errors  MICA_EINVAL; MICA_ENOENT; MICA_EIO; MICA_EFORMAT a malformed file: the text names it and
 *          the tensor; MICA_EUNSUPPORTED an unknown dtype, too many axes, numpy's objects, texts
 *          and structures, big-endian elements, another compression than deflate; MICA_ENOMEM */
MICA_API mica_status mica_array_file_open(const char *path, mica_array_file **file);

/** Closes *file and sets it to NULL. Does nothing for NULL. Loaded arrays stay. */
MICA_API void mica_array_file_close(mica_array_file **file);

/** The number of arrays, and the name of the i-th; NULL past the end. safetensors are in order of
 *  their data, those of npz in order of its list. Names live as long as the file. */
MICA_API size_t mica_array_file_count(const mica_array_file *file);
MICA_API const char *mica_array_file_name(const mica_array_file *file, size_t i);

/** Finds an array's number by its name.
 *  returns  false if there is none; *i is then unchanged */
MICA_API bool mica_array_file_find(const mica_array_file *file, const char *name, size_t *i);

/** The shape of the i-th array in the file, which is there before the array is loaded: a compressed
 *  file may be a thousandth of what it unpacks to.
 *
 *  shape    receives *ndim lengths.
 *  returns  false past the end */
MICA_API bool mica_array_file_shape(const mica_array_file *file, size_t i,
                                    int64_t shape[MICA_MAX_NDIM], int *ndim);

/** The i-th entry of the metadata; its texts live as long as the file.
 *  returns  false past the end */
MICA_API bool mica_array_file_metadata(const mica_array_file *file, size_t i, mica_metadata *entry);

/** Copies the i-th array into s.
 *
 *  returns  the array, with its dtype and shape in the file. It is invalid after an error, which s
 *           keeps: MICA_EINVAL no such array; MICA_EDTYPE the file's dtype is none of mica's
 *           (F8_E4M3, ...); MICA_EFORMAT the data of an npz file is broken: unpacking fails, or the
 *           checksum differs; MICA_ENOMEM */
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
 *  errors   those of mica_array_file_open and mica_array_file_load; the scope's first error */
MICA_API mica_status mica_load_safetensors(const char *path, mica_scope *s,
                                           mica_named_array **arrays, size_t *n);

/** Saves arrays as an npz file, as numpy.savez writes it, whole or not at all. bf16 gets the kind
 *  '<V2', as in MLX. The same arrays make the same bytes.
 *
 *  path      an existing file is replaced; it must not be a pipe. Borrowed.
 *  arrays    [n] each with a name of its own, in UTF-8, of 1 to 1024 bytes. Borrowed.
 *  compress  by deflate, as savez_compressed.
 *  errors    as mica_save_safetensors; MICA_EUNSUPPORTED `compress` in a build without zlib */
MICA_API mica_status mica_save_npz(const char *path, const mica_named_array *arrays, size_t n,
                                   bool compress);

/** Saves an array as an npy file: the very bytes of numpy.save. errors  as mica_save_npz */
MICA_API mica_status mica_save_npy(const char *path, mica_array x);

/** Loads all arrays of an npz file, or that of an npy file, into s. As mica_load_safetensors. */
MICA_API mica_status mica_load_npz(const char *path, mica_scope *s, mica_named_array **arrays,
                                   size_t *n);

MICA_END

#endif
