/* The registry of ops of the application (mica/custom.h), for their op and its kernel. */
#ifndef GRAPH_CUSTOM_H
#define GRAPH_CUSTOM_H

#include <mica/custom.h>

#include "graph/attr.h"
#include "graph/layout.h"

/* What a node's attributes say of it: the op by a hash of its name, so that files can hold it.
 * errors  MICA_EUNSUPPORTED there is none */
mica_status mc_custom_find(const mc_attr_custom *attr, const mica_custom_op **op);

/* Whether an op of that name is registered. */
bool mc_custom_is_known(const char *name);

/* That hash, not below 0. */
int64_t mc_custom_id(const char *name);

mica_shape mc_custom_shape(const mc_layout *l);

/* A status of one of the op's functions, with a text. */
mica_status mc_custom_failed(const mica_custom_op *op, mica_status status, const char *function);

#endif
