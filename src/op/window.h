/* Windows that move over an axis: what convolutions and reduce_window share. */
#ifndef OP_WINDOW_H
#define OP_WINDOW_H

#include "graph/window.h"
#include "op/build.h"

/* errors  MICA_EINVAL a number is out of range: the text names op and axis */
mica_status mc_window_check(const char *op, const mc_window *w, int axis);

/* Axis `first` + k of x is that of w[k], k < n: with value between elements, before and after them,
 * and without those that negative padding leaves out. */
mica_array mc_window_pad(mica_scope *s, mica_array x, const mc_window *w, int n, int first,
                         double value);

/* The windows of a padded x as a view: [axes before first, counts, sizes, axes after]. */
mica_array mc_window_view(mica_scope *s, mica_array padded, const mc_window *w, int n, int first);

#endif
