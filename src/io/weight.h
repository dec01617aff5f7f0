/* One tensor of a model's files, and what it is seen as. */
#ifndef IO_WEIGHT_H
#define IO_WEIGHT_H

#include <mica/array.h>
#include <mica/ops.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What matrices become that are not quantised as MLX does. */
typedef enum mc_weight_form {
    MC_FORM_RUN,    /* the nearest quantised form; its rows may have factors, x.gains, and its
                       columns an order, x.order */
    MC_FORM_FILE,   /* the nearest one that files have, without these */
    MC_FORM_FLOATS, /* bf16 or f16 */
    MC_FORM_F32     /* exactly what they stand for */
} mc_weight_form;

struct mc_made; /* io/published_make.h */
struct mc_published;

typedef struct mc_weight_tensor {
    const char *name; /* UTF-8, as in the header */
    const char *file; /* path of its file, for error texts */
    const char *kind; /* its dtype in the header: "BF16", "F8_E4M3", ... */
    bool has_dtype;   /* false: mica has no such dtype (F64, F8_*, F6_*, F4, C64) */
    mica_dtype dtype; /* set if has_dtype */
    int ndim;
    int64_t shape[MICA_MAX_NDIM]; /* [ndim], each >= 0 */
    const void *data;             /* row-major, little-endian, aligned for its dtype */
    size_t begin, bytes;          /* position in its file's data, and size */
    mica_quant quant; /* bits not 0: codes that are packed so, whatever config.json says */
    const struct mc_made *made;      /* not NULL: data is NULL, and mc_made_fill makes it */
    const struct mc_published *from; /* of codes or elements of a published matrix; NULL: none */
} mc_weight_tensor;

#endif
