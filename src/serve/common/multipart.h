/* Bodies of multipart/form-data, as clients upload files: RFC 7578. Threads: any. */
#ifndef SERVE_COMMON_MULTIPART_H
#define SERVE_COMMON_MULTIPART_H

#include "base/str.h"
#include "serve/common/failure.h"

/* A part. All views are into the body. */
typedef struct mc_part {
    mc_str name;
    mc_str filename; /* ptr NULL: it has none */
    mc_str content;
} mc_part;

enum { MC_PARTS = 16 }; /* of a body */

/* Splits a body into its parts. The boundary is that of its first line.
 *
 *  parts    receives [*count].
 *  returns  false: *failure says 400 */
bool mc_multipart_read(mc_str body, mc_part parts[MC_PARTS], size_t *count, mc_failure *failure);

#endif
