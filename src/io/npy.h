/* The header of numpy's array files (.npy): dtype, order and shape, as a Python dict.
 *
 * Threads: safe.
 * Source: numpy's description of the format (numpy.lib.format), versions 1.0 to 3.0. bf16 has no
 * name in it: MLX, and numpy with ml_dtypes, write it as "<V2", two bytes of no meaning. */
#ifndef IO_NPY_H
#define IO_NPY_H

#include "base/buffer.h"
#include "base/status.h"

#include <mica/array.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MC_NPY_MAX_HEADER = 1 << 16, MC_NPY_DESCR_BYTES = 16 };

typedef struct mc_npy {
    char descr[MC_NPY_DESCR_BYTES]; /* "<f4" */
    bool has_dtype;                 /* false: mica has none of this kind ("<f8") */
    mica_dtype dtype;               /* set if has_dtype */
    int ndim;
    int64_t shape[MICA_MAX_NDIM];
    bool fortran;   /* elements are in the order of the transposed array */
    size_t header;  /* bytes before the elements */
    uint64_t bytes; /* of the elements */
} mc_npy;

/* Parses the header at the beginning of a file, of which `size` bytes are there.
 *
 * name    goes into error texts.
 * errors  MICA_EFORMAT; MICA_EUNSUPPORTED objects, structures, texts, big-endian elements, too many
 *         axes */
mica_status mc_npy_parse(const uint8_t *bytes, size_t size, const char *name, mc_npy *npy);

/* Adds the header that numpy.save writes. errors  MICA_ENOMEM */
mica_status mc_npy_put_header(mica_dtype dtype, const int64_t *shape, int ndim, mc_buffer *out);

#endif
