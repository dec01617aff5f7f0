/* Windows that move over an axis: the arithmetic of convolutions and of reduce_window. */
#ifndef GRAPH_WINDOW_H
#define GRAPH_WINDOW_H

#include <mica/signal.h>

#include "graph/attr.h"
#include "graph/dim.h"
#include "graph/layout.h"

/* What a number of an attribute, or a length of an operand, must be below: products of two of them
 * and sums of such products fit int64. */
#define MC_WINDOW_LIMIT ((int64_t)1 << 30)

/* One axis. */
typedef struct mc_window {
    int64_t length;   /* of the operand */
    int64_t size;     /* elements of the window */
    int64_t stride;   /* from a window to the next */
    int64_t dilation; /* from an element of the window to the next */
    int64_t base;     /* from an element of the operand to the next; between them are zeros */
    int64_t lo, hi;   /* zeros before and after the operand; negative: elements left out */
} mc_window;

/* The length of the operand with the zeros between its elements. */
static inline int64_t mc_window_base(const mc_window *w) {
    if (w->base == 1 || w->length == 0) return w->length;
    return mc_dim_add(mc_dim_mul(mc_dim_sub(w->length, 1), w->base), 1);
}

/* From the first to the last element of a window, both counted. */
static inline int64_t mc_window_reach(const mc_window *w) {
    return mc_dim_add(mc_dim_mul(mc_dim_sub(w->size, 1), w->dilation), 1);
}

/* The number of windows. 0: the padded operand is shorter than one. */
static inline int64_t mc_window_count(const mc_window *w) {
    int64_t padded = mc_dim_add(mc_dim_add(mc_window_base(w), w->lo), w->hi);
    int64_t room = mc_dim_sub(padded, mc_window_reach(w));
    return mc_dim_sign(room) < 0 ? 0 : mc_dim_add(mc_dim_div(room, w->stride), 1);
}

/* The windows of a convolution, over axes 1 .. spatial of x. */
static inline void mc_conv_windows(const mc_attr_conv *a, const mc_layout *x, const mc_layout *w,
                                   mc_window windows[3]) {
    for (int k = 0; k < x->ndim - 2; k++)
        windows[k] = (mc_window){.length = x->shape[1 + k],
                                 .size = w->shape[1 + k],
                                 .stride = a->stride[k],
                                 .dilation = a->kernel_dilation[k],
                                 .base = a->input_dilation[k],
                                 .lo = a->padding_lo[k],
                                 .hi = a->padding_hi[k]};
}

/* The window of reduce_window, along its axis of x. */
static inline mc_window mc_window_of(const mc_attr_window *a, const mc_layout *x) {
    return (mc_window){.length = x->shape[a->axis],
                       .size = a->size,
                       .stride = a->stride,
                       .dilation = a->dilation,
                       .base = a->base,
                       .lo = a->lo,
                       .hi = a->hi};
}

#endif
