/* Errors that depend on data, from compositions. */
#ifndef OP_REQUIRE_H
#define OP_REQUIRE_H

#include "graph/attr.h"
#include "graph/graph.h"

/* x, if all elements of holds (bool) are true; else evaluating fails with MICA_EINVAL and the text
 * of the requirement, with the index of the first that is not. x should be small: a device without
 * the op copies it. */
mica_array mc_require(mica_scope *s, mica_array x, mica_array holds, mc_requirement what);

#endif
