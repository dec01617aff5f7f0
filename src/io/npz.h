/* Arrays of numpy: npz files, which are zip files of npy files, and single npy files.
 *
 * Opening checks all headers; data is checked when it is read. The array of a single file is called
 * "arr_0", as numpy calls the first one without a name. Files in a zip file whose names do not end
 * in .npy are left out.
 *
 * Threads: an opened file may be read from any number of threads. */
#ifndef IO_NPZ_H
#define IO_NPZ_H

#include "base/status.h"
#include "io/npy.h"
#include "io/zip.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mc_npz mc_npz;

typedef struct mc_npz_array {
    const char *name; /* without .npy */
    mc_npy npy;
    mc_zip_entry entry; /* of an npy file: its bytes */
} mc_npz_array;

/* Whether a file begins as one of the two kinds. Sets no error text. */
bool mc_npz_is(const char *path);

/* Maps and checks a file.
 *
 * npz     owned by the caller; NULL after an error.
 * errors  MICA_ENOENT, MICA_EIO; MICA_EFORMAT malformed, cut short, an array there twice;
 *         MICA_EUNSUPPORTED what mc_npy_parse and mc_zip_list do not know; MICA_ENOMEM */
mica_status mc_npz_open(const char *path, mc_npz **npz);

/* The same for a file in memory, which must outlive *npz. `name` goes into error texts. */
mica_status mc_npz_parse(const void *bytes, size_t size, const char *name, mc_npz **npz);

void mc_npz_close(mc_npz **npz); /* nothing for NULL */

/* The arrays, in the order of the file's list. */
size_t mc_npz_count(const mc_npz *npz);
const mc_npz_array *mc_npz_at(const mc_npz *npz, size_t i);       /* i < count */
bool mc_npz_find(const mc_npz *npz, const char *name, size_t *i); /* false: none */

/* Reads the elements of the i-th array, in the order of the file. Bools are 0 or 1.
 * data    NULL, or freed with mc_free
 * errors  MICA_EFORMAT, MICA_EUNSUPPORTED, MICA_ENOMEM */
mica_status mc_npz_read(const mc_npz *npz, size_t i, void **data);

#endif
