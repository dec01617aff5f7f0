/* Errors that depend on data, as an index that is out of range.
 *
 * MLX checks no index. So an op's function bounds what it hands to MLX, and adds a check: an array
 * of the least and the largest index, which is evaluated with the results and read after them. */
#ifndef MLX_CHECK_H
#define MLX_CHECK_H

#include <mica/array.h>

#include "base/buffer.h"
#include "mlx/library.h"

/* What to say where an element of the array is below lo or above hi. */
typedef struct mc_mlx_check {
    const char *op;
    mica_dtype dtype; /* of the indices */
    int axis;
    int64_t length; /* of that axis */
    int64_t count;  /* elements that begin at the index; 0: an index of one */
} mc_mlx_check;

typedef struct mc_mlx_checks {
    mc_buffer texts;         /* mc_mlx_check: the same each time that the graph is built */
    mlx_vector_array arrays; /* one for each */
} mc_mlx_checks;

/* errors  MICA_EINVAL an index in array, which is evaluated, is out of range */
mica_status mc_mlx_check_read(const mc_mlx_check *check, mlx_array array);

#endif
