/* Errors that depend on data, from compositions. */
#ifndef OP_REQUIRE_H
#define OP_REQUIRE_H

#include "graph/attr.h"
#include "graph/graph.h"

/* x, if all elements of holds (bool) are true; else evaluating fails with MICA_EINVAL and the text
 * of the requirement, with the index of the first that is not. x should be small: a device without
 * the op copies it. */
mica_array mc_require(mica_scope *s, mica_array x, mica_array holds, mc_requirement what);

/* x, of which the first `count` elements along an axis count: i64 [], no more than the axis has.
 * Where x and count are results of a program, an executable gives these elements alone. */
mica_array mc_require_count(mica_scope *s, mica_array x, mica_array count, int axis);
/* Whether an array is such a one, and its axis and the node of its count. */
bool mc_required_count(mica_array x, int *axis, uint32_t *count);

#endif
