/* Python's slices, for the ops that read or write one. */
#ifndef OP_SLICE_H
#define OP_SLICE_H

#include "graph/attr.h"
#include "graph/layout.h"

/* Resolves start:stop:step of each axis of x (arrays [x->ndim] or NULL, as in mica_slice) to first
 * element, step and count. An empty axis has count 0 and start 0.
 *  errors  MICA_EINVAL "<op>: the step of axis 1 is 0" */
mica_status mc_slice_resolve(const char *op, const mc_layout *x, const int64_t *start,
                             const int64_t *stop, const int64_t *step, mc_attr_slice *attr);

/* What mc_slice_resolve gives for some slice of x: all elements are in x, and start and step are
 * bounded where the count does not use them. errors  MICA_EINVAL */
mica_status mc_slice_check(const char *op, const mc_layout *x, const mc_attr_slice *attr);

#endif
