/* Between nodes and what executables are given and leave. */
#ifndef EXEC_BIND_H
#define EXEC_BIND_H

#include "device/backend.h"

/* What a leaf is bound as; a scalar's value goes to **scalars, which moves on.
 * errors  MICA_EINVAL a parameter, which has no value */
mica_status mc_bind_leaf(const mc_node *leaf, mc_binding *arg, uint64_t **scalars);

/* A leaf that has a value as a leaf of s, which shares its memory. */
mica_array mc_copy_leaf(mica_scope *s, const mc_node *leaf);

/* The elements of an evaluated array, dense, as a leaf of s, with its device or the fallback.
 * Errors go to s. */
mica_array mc_copy_to(mica_scope *s, mica_array x, bool fallback);

/* Takes the memory away from a node. */
void mc_node_leave(mc_node *node, mc_node_state state);

#endif
