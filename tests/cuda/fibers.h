/* Stacks that take turns on one thread, for emulated.cpp. One scheduler at a time, on any
 * thread. */
#ifndef CUDA_FIBERS_H
#define CUDA_FIBERS_H

enum { MOST_FIBERS = 1024 };

/* Goes on with a fiber until it leaves. Its first time it begins with `run`, which does not end. */
void fiber_resume(int i, void (*run)());

/* Back to who has resumed this fiber, i. */
void fiber_leave(int i);

#endif
