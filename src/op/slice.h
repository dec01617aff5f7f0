/* Python's slices, for the ops that read one and those that write one. */
#ifndef OP_SLICE_H
#define OP_SLICE_H

#include "graph/attr.h"
#include "graph/layout.h"

/* start:stop:step of every axis of x (each [x->ndim] or NULL, as mica_slice) as first element, step
 * and count. An axis of which nothing is left has count 0 and start 0.
 * errors  MICA_EINVAL "<op>: the step of axis 1 is 0" */
mica_status mc_slice_resolve(const char *op, const mc_layout *x, const int64_t *start,
                             const int64_t *stop, const int64_t *step, mc_attr_slice *attr);

#endif
