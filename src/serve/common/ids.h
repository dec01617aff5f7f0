/* Token ids in a request. Threads: any. */
#ifndef SERVE_COMMON_IDS_H
#define SERVE_COMMON_IDS_H

#include "base/buffer.h"
#include "base/json.h"
#include "serve/common/failure.h"

/* Adds an array's ids to a buffer of int32.
 *
 *  limit  ids are below it.
 *  name   the field's, for the failure.
 *  returns  false: *failure says which element is no id; ids is empty then */
bool mc_ids_read(mc_json array, size_t limit, const char *name, mc_buffer *ids,
                 mc_failure *failure);

#endif
