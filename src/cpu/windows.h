/* The windows of a convolution over x [n, spatial.., channels], whose elements are rows of
 * channels: where they lie, so that kernels read them there, or copies of them. */
#ifndef CPU_WINDOWS_H
#define CPU_WINDOWS_H

#include <stddef.h>

#include "graph/window.h"

typedef struct mc_windows {
    mc_window axes[3];       /* axes that are not there have one element, in front */
    int64_t places[3];       /* of the result, for each axis */
    int64_t images, n, taps; /* n: windows, of all images; taps: elements of a window */
    bool flip;               /* the last element of a window is the kernel's first */
    bool whole;              /* window i is element i of x, and nothing else */
    const char *x;           /* the first element of the channels that are read */
    int64_t step, bytes;     /* from an element to the next; of the channels that are read */
    const char *outside;     /* [bytes] where an element is that x does not have */
} mc_windows;

/* x, step, bytes and outside are the caller's. */
mc_windows mc_windows_of(const mc_attr_conv *attr, const mc_layout *x, const mc_layout *w);

/* rows [count, taps] receives the addresses of the elements of windows from `first` on, in the
 * order of the kernel's. */
void mc_windows_find(const mc_windows *w, int64_t first, int64_t count, const void **rows);

/* Copies the elements of a window one after the other: to [taps, bytes]. */
void mc_windows_gather(const mc_windows *w, int64_t window, char *to);

#endif
