/* The two passes. Both record into the scope and evaluate nothing. */
#ifndef GRAD_GRAD_H
#define GRAD_GRAD_H

#include "graph/graph.h"

/* Gradients of sum_k sum(ys_k * dys_k).
 *
 *  ys, dys  [n_ys] arrays of s; a dy of MICA_NONE is zero, and its y may have any dtype.
 *  xs       [n_xs] floats of s.
 *  grads    [n_xs] receives the gradients; zeros where xs do not reach ys.
 *  errors   those of mica_grad */
mica_status mc_walk_back(mica_scope *s, const mica_array *ys, const mica_array *dys, size_t n_ys,
                         const mica_array *xs, size_t n_xs, mica_array *grads);

/* Tangents of ys from those of xs.
 *
 *  xs, dxs  [n_xs] arrays of s; a dx of MICA_NONE is zero, and its x may have any dtype.
 *  ys       [n_ys] arrays of s.
 *  dys      [n_ys] receives the tangents: zeros where xs do not reach ys, MICA_NONE where y is no
 *           float.
 *  errors   those of mica_jvp */
mica_status mc_walk_forward(mica_scope *s, const mica_array *xs, const mica_array *dxs, size_t n_xs,
                            const mica_array *ys, size_t n_ys, mica_array *dys);

#endif
