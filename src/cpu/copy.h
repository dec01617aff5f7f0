/* Copying elements between two layouts of one shape.
 *
 * A plan (mc_copy) is made once and used for many offsets: the rows of an embedding, or a slice at
 * each index. Source and target must not overlap. */
#ifndef CPU_COPY_H
#define CPU_COPY_H

#include "exec/steps/step.h"

#define MC_COPY_GRAIN (64 * 1024) /* bytes; fewer are not worth another thread */

typedef struct mc_copy {
    int64_t item;                     /* bytes of an element */
    int ndim;                         /* >= 2; axes are merged and ordered for the copy */
    int64_t shape[MICA_MAX_NDIM];     /* all > 0, or all 0 if there is nothing to copy */
    int64_t to_step[MICA_MAX_NDIM];   /* bytes */
    int64_t from_step[MICA_MAX_NDIM]; /* bytes */
    bool tiled;                       /* the last two axes are transposed: copy in square tiles */
} mc_copy;

/* Plans a copy between layouts of the same shape and the same size of elements. */
void mc_copy_init(mc_copy *copy, const mc_layout *to, const mc_layout *from);

/* Copies in this thread. */
void mc_copy_at(const mc_copy *copy, void *to, const void *from);

/* Copies with the device's threads if there is enough to copy. */
void mc_copy_run(const mc_call *call, const mc_copy *copy, void *to, const void *from);

/* Copies an operand into the call's result, which has its shape, unless it is there already. Ops
 * that may run in place begin with it. */
void mc_copy_base(const mc_call *call, const mc_operand *base);

#endif
