/* Copying elements between two layouts of one shape.
 *
 * The plan of a copy (mc_copy) is made once and used at many places: a row of an embedding, a
 * slice at every index. Source and target must not overlap. */
#ifndef CPU_COPY_H
#define CPU_COPY_H

#include "device/backend.h"

#define MC_COPY_GRAIN (64 * 1024) /* bytes: less is not worth another thread */

typedef struct mc_copy {
    int64_t item;                     /* bytes an element */
    int ndim;                         /* >= 2; axes are merged and ordered for the copy */
    int64_t shape[MICA_MAX_NDIM];     /* all > 0, but all 0 where there is nothing to copy */
    int64_t to_step[MICA_MAX_NDIM];   /* bytes */
    int64_t from_step[MICA_MAX_NDIM]; /* bytes */
    bool tiled; /* the last two axes are transposed: go through them in square tiles */
} mc_copy;

/* Both layouts have the same shape and the same size of elements. */
void mc_copy_init(mc_copy *copy, const mc_layout *to, const mc_layout *from);

/* Copies in this thread. */
void mc_copy_at(const mc_copy *copy, void *to, const void *from);

/* Copies with the device's threads where there is much. */
void mc_copy_run(const mc_call *call, const mc_copy *copy, void *to, const void *from);

/* All of an operand into the call's result, which has its shape, unless it is there already: how an
 * op that may run in place begins. */
void mc_copy_base(const mc_call *call, const mc_operand *base);

#endif
