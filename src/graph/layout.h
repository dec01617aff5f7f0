/* The layout of an array: dtype, shape, strides. Also the public functions on dtypes.
 *
 * A layout with its strides describes any view: transposed, broadcast (stride 0), strided,
 * reversed (negative stride). A dense layout is row-major without gaps. */
#ifndef GRAPH_LAYOUT_H
#define GRAPH_LAYOUT_H

#include <mica/array.h>

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct mc_layout {
    mica_dtype dtype;
    int ndim;
    int64_t shape[MICA_MAX_NDIM];
    int64_t strides[MICA_MAX_NDIM]; /* in elements */
} mc_layout;

/* Whether results of a dtype have gradients: floats and complex numbers. */
bool mc_dtype_has_gradient(mica_dtype dtype);

/* Number of elements; lengths were checked not to overflow when the layout was made. */
int64_t mc_layout_size(const mc_layout *l);
int64_t mc_layout_bytes(const mc_layout *l); /* of the elements, without gaps; 0: it has symbols */
bool mc_layout_has_symbols(const mc_layout *l);

/* Sets row-major strides; 0 where there are symbols. */
void mc_layout_set_dense(mc_layout *l);
bool mc_layout_is_dense(const mc_layout *l); /* axes of length 1 may have any stride */

/* Where the bytes of a view's elements are: [*first, *first + *bytes), counted from the first
 * element; *first is 0 or below. */
void mc_layout_span(const mc_layout *l, int64_t *first, int64_t *bytes);

bool mc_layout_same_shape(const mc_layout *a, const mc_layout *b);

/* Checks lengths >= 0, ndim <= MICA_MAX_NDIM and that all bytes together are at most 2^62; sets a
 * dense layout. errors  MICA_EINVAL */
mica_status mc_layout_init(mc_layout *l, mica_dtype dtype, const int64_t *shape, int ndim);
mica_status mc_layout_finish(mc_layout *l); /* the same of l's own dtype and shape */

/* The layout x takes when broadcast to `shape`: stride 0 on stretched axes. false: does not fit. */
bool mc_layout_broadcast(const mc_layout *x, const int64_t *shape, int ndim, mc_layout *out);

/* "f32[2,3,4]" for error texts, cut to fit. Returns buf. */
#define MC_LAYOUT_TEXT 160
const char *mc_layout_text(const mc_layout *l, char buf[MC_LAYOUT_TEXT]);

/* Walks the elements in logical order: coords and the element offset into the storage.
 *     mc_walk w = mc_walk_begin(l);  do { use(w.offset); } while (mc_walk_next(&w));
 * (for size > 0). */
typedef struct mc_walk {
    const mc_layout *layout;
    int64_t coords[MICA_MAX_NDIM];
    int64_t offset; /* elements from the first one */
} mc_walk;
mc_walk mc_walk_begin(const mc_layout *l);
bool mc_walk_next(mc_walk *w);

#endif
