/* Executables: a lowered graph, of which MLX's graph is built at each launch (lazy), evaluated op
 * by op (eager), or built once and replayed (compiled): as MICA_MLX_MODE says, else as the
 * executable that the graph is for (mc_lowered.mode), else lazy. */
#ifndef MLX_EXECUTABLE_H
#define MLX_EXECUTABLE_H

#include <stdatomic.h>

#include "device/backend.h"
#include "mlx/call.h"

/* What an open device is. */
typedef struct mc_mlx_state {
    bool on_cpu;
    mc_mlx_place place;
    mica_mode mode;  /* that MICA_MLX_MODE named; default: none */
    bool host_reads; /* the host sees the arrays' memory */
    mlx_device device;
    mlx_stream stream;
    _Atomic uint64_t memory_limit; /* bytes; 0: none */
    struct mc_mlx_state *next;     /* of those with a limit, on MLX's thread */
    char name[16], description[128], architecture[64];
    uint64_t max_array_bytes, working_set_bytes;
    uint64_t memory_bytes; /* of a GPU with memory of its own; 0: it is the host's */
} mc_mlx_state;

/* The slots of mc_backend. */
mica_status mc_mlx_compile(mica_device *device, mc_lowered *graph, mc_executable **executable);
void mc_mlx_discard(mc_executable *executable);
mica_status mc_mlx_launch(mc_executable *executable, mc_binding *args, const uint64_t *scalars,
                          mc_result *results, mc_fence *fence);
mica_status mc_mlx_wait_fence(void *state, mc_fence fence);

/* How often MLX's graph of an executable was built, for tests. */
uint64_t mc_mlx_traces(const mc_executable *executable);

#endif
