/* Graphs of kernels: a run's launches are the same kernels each time, with other numbers and, now
 * and then, other addresses. From the third on a launch notes its kernels, and what differs from
 * the last one's is set in a graph of the driver, which is then launched as one.
 *
 * The numbers that a launch brings lie in memory of the graph's, which its first kernel writes, so
 * that they differ in one kernel alone.
 *
 * Threads: a graph belongs to its run. */
#ifndef CUDA_GRAPH_H
#define CUDA_GRAPH_H

#include "cuda/nodes.h"

struct mc_cuda_graph {
    int launches;
    int made;              /* times that the driver's graph was made */
    bool whole, was_whole; /* this launch, and that before, noted all kernels and was launched */
    bool differs;          /* what is noted differs from the launch before */
    uint64_t numbers;      /* address: where faults go, and the launch's numbers */
    mc_cuda_nodes noted;
    size_t at;      /* nodes that the launch has noted */
    uint64_t spare; /* address: what lies between some of them, of so many bytes */
    size_t spare_bytes;
    mc_cuda_nodes own;  /* of the driver's graph: those noted, some as one (cuda/fuse.h) */
    void *graph, *exec; /* of the driver; NULL: not made */
};

/* Frees a graph that is launched no more; in the device's context. Takes NULL. */
void mc_cuda_graph_free(struct mc_cuda_graph *graph);

/* Bytes of memory that it takes, about: what is noted, and a copy of its own in the driver's graph
 * and in what that launches. */
size_t mc_cuda_graph_bytes(const struct mc_cuda_graph *graph);

/* Begins a launch of the run that *graph belongs to, in the device's context: where it is to be
 * launched as a graph, that notes kernels from here on, else *graph is as before, or new.
 * errors  MICA_ENOMEM, MICA_EDEVICE */
mica_status mc_cuda_graph_begin(const mc_cuda_state *state, mc_run *run, mc_cuda_launch *launch,
                                struct mc_cuda_graph **graph);

/* How the driver is told of a kernel. params [1] */
mc_cuda_kernel_params mc_cuda_kernel_of(const mc_cuda_state *state, mc_cuda_kernel kernel,
                                        mc_cuda_grid grid, void **params);

/* Notes a kernel. */
mica_status mc_cuda_graph_add(struct mc_cuda_graph *graph, mc_cuda_kernel kernel, mc_cuda_grid grid,
                              const void *args, size_t bytes);

/* Notes what the last launch had, where all of that was noted and launched; else nothing: false. */
bool mc_cuda_graph_repeat(struct mc_cuda_graph *graph);

/* Launches what was noted. errors  MICA_ENOMEM, MICA_EDEVICE */
mica_status mc_cuda_graph_launch(const mc_cuda_state *state, struct mc_cuda_graph *graph);

#endif
